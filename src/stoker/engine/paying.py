"""The one place that promises money, acts, and settles what it cost.

Whatever costs something is a step, and passes through a tenant's `Gate`. Here is only the order of
things, and what each kind of failure says about money. What fits into which cap is decided in the
core, promises are kept by `promises`, and how fast steps may go is `pacing`'s business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from stoker.core.budget import Refused, Request
from stoker.core.holds import Hold, Phase
from stoker.core.timekeeping import CLOCK_TOLERANCE
from stoker.engine.promises import Promises
from stoker.errors import PermanentError, StokerError, TransientError
from stoker.ports import Clock
from stoker.sources import Done

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid(Generic[Answer]):
    """It was done this time, and its cost is written down."""

    answer: Answer
    hold: Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """This key was used before, so nothing was done this time; the hold says how it stands.

    SETTLED: it was done, at that cost. HELD or SENT: somebody is at it. UNCERTAIN: nobody knows.
    RELEASED or EXPIRED: nothing was done; trying again is a new attempt, with a key of its own.
    """

    hold: Hold


Step = Callable[[], Awaitable[Done[Answer]]]
"""Raises TransientError or PermanentError only when nothing was done, UncertainError if unsure."""

Passage = AbstractAsyncContextManager[object]
"""What has to be waited for before a step, and let go of after it: a turn, a place."""


def attempt(request: Request, number: int) -> Request:
    """Return the request as its first, second, … attempt: a key, and so a promise, of its own."""
    return replace(request, key=f"{request.key}/{number}")


class Gate:
    """A tenant's way to spend money in this process."""

    def __init__(self, promises: Promises, *, clock: Clock) -> None:
        self._promises = promises
        self._clock = clock

    async def pay_for(
        self,
        request: Request,
        step: Step[Answer],
        *,
        passage: Passage | None = None,
        replay_within: timedelta | None = None,
    ) -> Paid[Answer] | Earlier | Refused:
        """Take a step if its cost can be promised, and settle it; otherwise do nothing.

        A step that says nothing was done gives its promise back, any other failure keeps it
        aside; both travel on. A budget that cannot be read is Refused. A `passage` is waited for
        between promise and step, where a promise still comes back by itself if we die.

        `replay_within` says for how long the vendor answers a repeated key without charging
        again, None that it does not. Within that time a step whose outcome nobody knows is taken
        again under its old promise; the step must then send the request's key with the call.
        """
        if passage is not None:
            request = replace(request, sends_at_once=False)
        if not self._promises.begin(request.key):
            return Earlier(hold=await self._promises.standing(request.key))
        asked_at = self._clock.elapsed()
        acting = False
        try:
            hold = await self._promises.given(request)
            if isinstance(hold, Refused):
                return hold
            ours = self._promises.are_ours(hold)
            if not ours and not _replayable(hold, replay_within, now=self._clock.now()):
                return Earlier(hold=hold)
            acting = True
        finally:
            if not acting:
                self._promises.leave(request.key)

        def may_give_back() -> bool:
            # When a step is taken again, only this time did nothing. And once our lease has
            # ended, somebody else may be taking it again: the money must not be pulled from
            # under them because our own call came to nothing.
            return ours and (replay_within is None or self._promises.surely_alive(since=asked_at))

        return await self._taken(hold, step, passage or nullcontext(), may_give_back)

    async def _taken(
        self, hold: Hold, step: Step[Answer], passage: Passage, may_give_back: Callable[[], bool]
    ) -> Paid[Answer]:
        reached = False
        try:
            async with passage:
                if hold.phase is Phase.HELD:
                    await self._promises.sent(hold.key)
                reached = True
                return await self._acted(hold, step, may_give_back)
        except BaseException as error:
            if not reached:
                await self._not_taken(hold, error)
            raise

    async def _acted(
        self, hold: Hold, step: Step[Answer], may_give_back: Callable[[], bool]
    ) -> Paid[Answer]:
        try:
            done = await step()
        except BaseException as error:
            nothing_was_done = isinstance(error, (TransientError, PermanentError))
            reason = str(error) or type(error).__name__
            with suppress(StokerError):  # the step's own failure is what the caller must hear of
                if nothing_was_done and may_give_back():
                    await self._promises.give_back(hold.key, reason=reason)
                else:
                    await self._promises.keep_aside(hold.key, reason=reason)
            raise
        # Inside the passage: whatever leaving it may raise, this is written down already.
        return Paid(answer=done.answer, hold=await self._promises.settle(hold.key, done.cost))

    async def _not_taken(self, hold: Hold, error: BaseException) -> None:
        if hold.phase is not Phase.HELD:  # it waits to be taken again, as it did before
            self._promises.leave(hold.key)
            return
        reason = str(error) or f"{type(error).__name__} before it was sent"
        with suppress(StokerError):  # it comes back by itself
            await self._promises.give_back(hold.key, reason=reason)


def _replayable(hold: Hold, within: timedelta | None, *, now: datetime) -> bool:
    """Say whether taking a step again, under the same key, cannot be charged a second time."""
    gone = hold.phase is Phase.UNCERTAIN or (hold.phase is Phase.SENT and now >= hold.until)
    if within is None or not gone:
        return False
    # The vendor's clock counts, and ours may differ from the one the promise was dated by.
    return abs(now - hold.reserved_at) + CLOCK_TOLERANCE < within
