"""The one place that promises money, acts, and settles what it cost.

Whatever costs something is a step, and passes through a tenant's `Gate`. Here is only the order of
things, and what each kind of failure says about money. What fits into which cap is decided in the
core, promises are kept by `promises`, and how fast steps may go is `pacing`'s business.

What the gate says to somebody who wants to spend, given everything that stands at that moment.

Whether a key was used before, which caps apply, whether the clock, a stop or a full cap says no:
asked here, in one order, by every store. Writing the answer down is the stores' part.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from stoker.base.clock import CLOCK_TOLERANCE, Clock
from stoker.base.errors import (
    ConfigError,
    ConflictError,
    PermanentError,
    StokerError,
    TransientError,
)
from stoker.base.types import in_utc
from stoker.budgets.caps import Cap, CapChange, Scope, added_caps, connector_name
from stoker.budgets.charges import Charge, Place, Refused, Request, Used, charges, clock_refusal
from stoker.budgets.model import Done
from stoker.budgets.reservations import Hold, Phase
from stoker.budgets.reserver import Promises
from stoker.budgets.windows import ResetRule
from stoker.db.codec import kept_text

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


LONGEST_NAME = 500  # characters; keys of every database can be this long

ALL = ""  # stands for every connector


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What holds for a tenant at this moment, apart from how full its caps are."""

    latest: datetime | None = None  # the moment of the last ledger entry
    changes: Mapping[str, CapChange] = field(default_factory=dict)
    stops: Mapping[str, str] = field(default_factory=dict)  # connector to reason
    opened: Mapping[Place, Used] = field(default_factory=dict)  # windows near this moment

    def moment(self, now: datetime) -> datetime:
        """Return the time as money counts it: never earlier than what is already written."""
        moment = in_utc(now)
        return moment if self.latest is None else max(moment, self.latest)

    def lease_end(self, until: datetime, *, now: datetime) -> datetime:
        """Return when a lease that is to end at `until` ends, as money counts time.

        It is as long as was asked. Otherwise, with a clock that was set back a little, a promise
        would be taken for one of a silent owner the moment it is given.
        """
        return in_utc(until) + (self.moment(now) - in_utc(now))


def kept_name(text: str, *, what: str) -> str:
    """Return a name that every store can keep, and find again by."""
    if len(kept_text(text, what=what)) > LONGEST_NAME:
        raise PermanentError(
            f"{what} is longer than {LONGEST_NAME} characters; shorten it, nothing was written"
        )
    return text


def kept_owner(owner: str) -> str:
    """Return the name of whoever holds something; it must be somebody."""
    if not owner:
        raise ConfigError("a lease needs an owner's name; nothing was written")
    return kept_name(owner, what="an owner")


def kept_request(request: Request) -> Request:
    """Return the request, every text of which a store can keep."""
    kept_name(request.run or "", what="a run's name")
    kept_name(request.account or "", what="an account")
    return request


def kept_change(change: CapChange, *, shared: bool) -> CapChange:
    """Return what was said about a cap, as stores give it back.

    Raises ConfigError when it speaks of a cap that is not the speaker's to change.
    """
    kept_name(change.cap, what="a cap")
    if change.cap.startswith(f"{Scope.CONNECTOR}/") != shared:
        whose = "its tenant" if shared else "an operator"
        raise ConfigError(f"{change.cap!r} can only be changed by {whose}; nothing was changed")
    until = change.raised_until
    return replace(change, raised_until=until and in_utc(until, what="raised_until"))


def kept_stop(connector: str, *, reason: str = "") -> str:
    """Return the connector a stop is for, or nothing for all of them."""
    kept_text(reason, what="a reason")
    return connector_name(connector) if connector else ALL


def asked_again(hold: Hold, request: Request) -> Hold:
    """Return the promise a key was already good for; with other inputs it is a conflict."""
    if hold.fingerprint != request.fingerprint:
        raise ConflictError(
            f"{request.key} was used for another request; a new attempt needs a key of its own"
        )
    return hold


def considered(
    request: Request, caps: Sequence[Cap], standing: Standing, *, reset: ResetRule, now: datetime
) -> tuple[Charge, ...] | Refused:
    """Return what a new request must be charged, or who says no whatever room there is.

    Caps that people added count beside those given, also when they were added since. Raises
    ConfigError when a unit asked for has no cap.
    """
    moment = standing.moment(now)
    together = [*caps, *added_caps(caps, standing.changes)]
    wanted = charges(
        request, together, standing.changes, reset=reset, now=moment, opened=standing.opened
    )
    refused = clock_refusal(in_utc(now), latest=standing.latest)
    return refused or stop_refusal(request.connector, standing.stops) or tuple(wanted)


def stop_refusal(connector: str, stops: Mapping[str, str]) -> Refused | None:
    """Return a refusal when somebody has stopped this connector, or all of them."""
    for stopped in (ALL, connector):
        if stopped in stops:
            what = stopped or "spending"
            why = stops[stopped] or "no reason was given"
            return Refused(reason="STOPPED", sentence=f"{what} is stopped: {why}")
    return None
