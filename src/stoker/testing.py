"""The fakes we own, for our tests and for yours: a clock you turn, an observer that remembers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeVar

from stoker.base.clock import VirtualClock
from stoker.base.events import Event

_EventType = TypeVar("_EventType", bound=Event)


class FakeClock(VirtualClock):
    """A `Clock` for tests: it is noon on the first of January 2030 until you say otherwise."""

    def __init__(self, now: datetime = datetime(2030, 1, 1, 12, tzinfo=UTC)) -> None:
        super().__init__(now)


class EventRecorder:
    """An `Observer` that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of_type(self, kind: type[_EventType]) -> list[_EventType]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]
