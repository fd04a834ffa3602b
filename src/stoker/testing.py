"""The fakes we own, for our tests and for yours: a clock you turn, an observer that remembers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from stoker.base.events import Event
from stoker.base.types import to_utc

_EventType = TypeVar("_EventType", bound=Event)


class FakeClock:
    """A `Clock` that moves only by `advance`, `jump` and `sleep`; it begins at noon, 2030-01-01."""

    def __init__(self, now: datetime = datetime(2030, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = to_utc(now)
        self._elapsed = timedelta(0)

    def now(self) -> datetime:
        return self._now

    def elapsed(self) -> timedelta:
        return self._elapsed

    async def sleep(self, duration: timedelta) -> None:
        self.advance(duration)
        await asyncio.sleep(0)  # let other tasks run, as a real wait would

    def advance(self, duration: timedelta) -> None:
        """Let time pass."""
        self._now += duration
        self._elapsed += duration

    def jump(self, to: datetime) -> None:
        """Set the wall clock, as an operator or a time server would; no time passes."""
        self._now = to_utc(to)


class EventRecorder:
    """An `Observer` that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of_type(self, kind: type[_EventType]) -> list[_EventType]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]
