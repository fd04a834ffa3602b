"""The clock, and how far it is trusted; `stoker.testing` has one for tests.

Every other module is passed the time. A clock earlier than the newest ledger entry would start
runs twice or reopen yesterday's budget; an operator can confirm that it is right nevertheless.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """The only way anything in Stoker learns what time it is."""

    def now(self) -> datetime:
        """Return the wall clock's time, in UTC. It may jump, also backwards."""
        ...

    def elapsed(self) -> timedelta:
        """Return the time since some fixed moment, on a clock that only goes forward."""
        ...

    async def sleep(self, duration: timedelta) -> None:
        """Wait."""
        ...


class SystemClock:
    """A `Clock` that reads the machine's; tests set it ahead of or behind it."""

    def __init__(self, ahead: timedelta = timedelta(0)) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def elapsed(self) -> timedelta:
        return timedelta(seconds=time.monotonic())

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.sleep(max(0.0, duration.total_seconds()))


CLOCK_TOLERANCE = timedelta(minutes=5)  # clocks of honest machines differ by less


def clock_went_backwards(now: datetime, *, latest: datetime | None) -> bool:
    """Return whether the clock is earlier than the newest ledger entry, beyond the tolerance."""
    return latest is not None and now < latest - CLOCK_TOLERANCE
