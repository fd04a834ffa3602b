"""What the engine needs from the world, and nothing more.

Every verb on a store is written once per backend, so a verb earns its place: it says what the
product means, it is atomic, and it happens wholly or not at all. Stores are told the time; they
never ask for it. All moments are aware; what comes back is in UTC.

The machine's clock, and one that is turned by hand. Everything else is told the time.

How far clocks are believed, and what is said when one cannot be.

A clock that is earlier than what is already written down would start things a second time or open
yesterday's budget again. A person can say that it is right all the same, and that is an entry too.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from stoker.base.types import to_utc


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


class VirtualClock:
    """A `Clock` that moves only when told to; sleeping moves it."""

    def __init__(self, now: datetime) -> None:
        self._now = to_utc(now)
        self._elapsed = timedelta(0)

    def now(self) -> datetime:
        return self._now

    def elapsed(self) -> timedelta:
        return self._elapsed

    async def sleep(self, duration: timedelta) -> None:
        self.advance(duration)
        await asyncio.sleep(0)  # let others have their turn, as a real wait would

    def advance(self, duration: timedelta) -> None:
        """Let time pass."""
        self._now += duration
        self._elapsed += duration

    def jump(self, to: datetime) -> None:
        """Set the wall clock, as an operator or a time server would; no time passes."""
        self._now = to_utc(to)


CLOCK_TOLERANCE = timedelta(minutes=5)  # clocks of honest machines differ by less


def clock_went_backwards(now: datetime, *, latest: datetime | None) -> bool:
    """Say whether the clock is earlier than the newest ledger entry by more than it may be."""
    return latest is not None and now < latest - CLOCK_TOLERANCE
