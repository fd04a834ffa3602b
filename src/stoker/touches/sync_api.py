"""Synchronous front of `TouchService` for scripts: the same names as plain methods.

One call at a time; `TouchService` decides and stores everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from stoker.touches.model import Touch, WeeklyPlan
from stoker.touches.service import TouchService, TouchStatus

_ResultT = TypeVar("_ResultT")


class Scheduler:
    """One tenant's touches for a script. Close it when done; not for code that runs in a loop."""

    def __init__(self, touching: TouchService) -> None:
        self._service = touching
        self._runner = asyncio.Runner()

    def check_limits(self) -> tuple[bool, str]:
        """Say whether one more touch may be made now; if not, which counter is full."""
        return self._run(self._service.check_limits())

    def consume(self, amount: int = 1) -> None:
        """Count touches that no plan knows of. One that is marked done counts by itself."""
        self._run(self._service.consume(amount))

    def status(self) -> TouchStatus:
        """Return how touches stand."""
        return self._run(self._service.status())

    def generate_weekly_plan(
        self, week: str | None = None, *, seed: int | None = None
    ) -> WeeklyPlan:
        """Plan a week, this one if none is named, and keep it."""
        return self._run(self._service.generate_weekly_plan(week, seed=seed))

    def get_todays_queue(self) -> list[Touch]:
        """Return today's pending touches in time order."""
        return self._run(self._service.get_todays_queue())

    def mark_outcome(self, url: str, outcome: str) -> bool:
        """Record what came of a touch; False when that was known."""
        return self._run(self._service.mark_outcome(url, outcome))

    def close(self) -> None:
        """Let go. Closing twice is once."""
        self._runner.close()

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        return self._runner.run(work)


RateLimiter = Scheduler  # the name that programs know which only ask for room and count
