"""What can go wrong, sorted by what the caller does next.

StokerError
├── ConfigError      stop; a person must change a setting, a file or the command first
├── TransientError   nothing was done; try later, no sooner than `retry_after` if it is given
├── PermanentError   nothing was done, and trying again will not help; record it, move on
├── UncertainError   it may have been done; keep its money aside and find out before repeating
└── ConflictError    somebody else got there first; read again, then decide again
"""

from __future__ import annotations

from datetime import timedelta


class StokerError(Exception):
    """Anything Stoker raises on purpose. Its text is one line a user can act on."""


class ConfigError(StokerError):
    """What we were told to use or do cannot work as it is."""


class TransientError(StokerError):
    """The world said: not now."""

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PermanentError(StokerError):
    """The world said no."""


class UncertainError(StokerError):
    """The world said nothing we can rely on.

    `broke_down` says that the other side told us itself that it failed: no answer is on its way,
    so finding out can be left to a person, and asking once more, for other money, may help.
    """

    def __init__(self, message: str, *, broke_down: bool = False) -> None:
        super().__init__(message)
        self.broke_down = broke_down


class ConflictError(StokerError):
    """What we were about to change has changed under us."""
