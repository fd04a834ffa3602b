"""What can go wrong, sorted by what the caller does next.

StokerError
├── ConfigError      stop; a person must change a setting, a file or the command first
├── TransientError   nothing was done; try later, no sooner than `retry_after` if it is given
├── PermanentError   nothing was done, and trying again will not help; record it, move on
├── UncertainError   it may have been done; keep its money aside and find out before repeating
└── ConflictError    another process was first; read again, then decide again
"""

from __future__ import annotations

from datetime import timedelta


class StokerError(Exception):
    """Anything Stoker raises on purpose. Each argument is one line a user can act on."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class ConfigError(StokerError):
    """A setting, a file or a command cannot work as it is."""


class TransientError(StokerError):
    """Nothing was done now; a later attempt may succeed."""

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PermanentError(StokerError):
    """It was refused, and a retry would be refused too."""


class UncertainError(StokerError):
    """It is unknown whether it was done.

    `broke_down`: the other side reported its own failure, so no answer will follow. A person can
    find out later, and one more call, under another reservation, may succeed.
    """

    def __init__(self, message: str, *, broke_down: bool = False) -> None:
        super().__init__(message)
        self.broke_down = broke_down


class ConflictError(StokerError):
    """Another process changed the data first."""
