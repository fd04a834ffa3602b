"""The fakes we own, for our tests and for yours: a clock you turn, an observer that remembers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeVar

from stoker.core.events import Event
from stoker.core.model import in_utc

_Kind = TypeVar("_Kind", bound=Event)


class FakeClock:
    """A `Clock` that moves only when told to; sleeping moves it."""

    def __init__(self, now: datetime = datetime(2030, 1, 1, 12, tzinfo=UTC)) -> None:
        self._now = in_utc(now)
        self._elapsed = timedelta(0)

    def now(self) -> datetime:
        """Return the time it was set to."""
        return self._now

    def elapsed(self) -> timedelta:
        """Return how far time has moved on, jumps left out."""
        return self._elapsed

    async def sleep(self, duration: timedelta) -> None:
        """Move on at once."""
        self.advance(duration)

    def advance(self, duration: timedelta) -> None:
        """Let time pass."""
        self._now += duration
        self._elapsed += duration

    def jump(self, to: datetime) -> None:
        """Set the wall clock, as an operator or a time server would; no time passes."""
        self._now = in_utc(to)


class Recorder:
    """An `Observer` that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]
