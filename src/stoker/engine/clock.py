"""The machine's clock, and one that is turned by hand. Everything else is told the time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from stoker.core.model import in_utc


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
        self._now = in_utc(now)
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
        self._now = in_utc(to)
