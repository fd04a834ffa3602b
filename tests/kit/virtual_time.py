"""Event loops for tests of waiting: on one an hour passes at once, on one only when told to."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Result = TypeVar("Result")

START = datetime(2030, 1, 1, 12, tzinfo=UTC)


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for nothing: where the loop would wait, its clock is set ahead."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found or timeout is None:
            return found or super().select(None)
        self.passed += max(0.0, timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on which every sleep is over at once. For work without sockets or threads."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when a test lets it; sockets work as ever."""

    passed = 0.0

    def time(self) -> float:
        return self.passed

    def advance(self, duration: timedelta) -> None:
        """Let time pass; timers that are due fire at the loop's next turn."""
        self.passed += duration.total_seconds()


class LoopClock:
    """A `Clock` that shows the running loop's time."""

    def now(self) -> datetime:
        return START + self.elapsed()

    def elapsed(self) -> timedelta:
        return timedelta(seconds=asyncio.get_running_loop().time())

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.sleep(duration.total_seconds())


def run_virtually(
    work: Coroutine[Any, Any, Result],
    *,
    loop: Callable[[], asyncio.AbstractEventLoop] = VirtualLoop,
) -> Result:
    """Run a coroutine on a loop of its own, on which time passes at once."""
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(work)
