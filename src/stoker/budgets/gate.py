"""Reserve money, make the paid call, and settle its cost.

All paid calls of a tenant go through its `BudgetService`. The decision on a request (repeated key,
caps, clock, stops, room, in that order) is here as pure functions that every store calls.
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
from stoker.base.types import to_utc
from stoker.budgets.caps import Cap, CapChange, Scope, list_added_caps, validate_connector
from stoker.budgets.charges import (
    CapWindow,
    Charge,
    Refusal,
    SpendRequest,
    Totals,
    find_clock_refusal,
    list_charges,
)
from stoker.budgets.model import Paid
from stoker.budgets.reservations import Reservation, ReservationStatus
from stoker.budgets.reserver import Reservations
from stoker.budgets.windows import ResetRule
from stoker.db.codec import validate_name, validate_text

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledCall(Generic[Answer]):
    """It was done this time, and its cost is written down."""

    answer: Answer
    reservation: Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadySpent:
    """The key was used before, so no call was made; the reservation has the earlier status.

    SETTLED: done, at that cost. HELD or SENT: another caller is working on it. UNCERTAIN: the
    outcome is unknown. RELEASED or EXPIRED: nothing was done; a retry needs a key of its own.
    """

    reservation: Reservation


PaidCall = Callable[[], Awaitable[Paid[Answer]]]
"""Raises TransientError or PermanentError only when nothing was done, UncertainError if unsure."""

CallSlot = AbstractAsyncContextManager[object]
"""What has to be waited for before a step, and let go of after it: a turn, a place."""


def to_attempt(request: SpendRequest, number: int) -> SpendRequest:
    """Return the request of the first, second, … attempt, with a key of its own."""
    return replace(request, key=f"{request.key}/{number}")


class BudgetService:
    """Spends one tenant's money in this process."""

    def __init__(self, reservations: Reservations, *, clock: Clock) -> None:
        self._reservations = reservations
        self._clock = clock

    async def spend(
        self,
        request: SpendRequest,
        step: PaidCall[Answer],
        *,
        passage: CallSlot | None = None,
        replay_within: timedelta | None = None,
    ) -> SettledCall[Answer] | AlreadySpent | Refusal:
        """Reserve the cost, make the call, and settle; return the refusal if it cannot be reserved.

        A call that did nothing releases its reservation, any other failure marks it uncertain; both
        errors are raised. A budget that cannot be read is a refusal. A `passage` is entered between
        reservation and call; if the process dies there, the reservation expires and is released.

        `replay_within` is how long the vendor answers a repeated key without charging again; None
        if it does not. Within that time a call with an unknown outcome is repeated under its old
        reservation; the call must then send the request's key.
        """
        if passage is not None:
            request = replace(request, sends_at_once=False)
        if not self._reservations.claim_key(request.key):
            return AlreadySpent(reservation=await self._reservations.get_reservation(request.key))
        asked_at = self._clock.elapsed()
        acting = False
        try:
            reservation = await self._reservations.reserve(request)
            if isinstance(reservation, Refusal):
                return reservation
            ours = self._reservations.is_owner(reservation)
            if not ours and not _can_replay(reservation, replay_within, now=self._clock.now()):
                return AlreadySpent(reservation=reservation)
            acting = True
        finally:
            if not acting:
                self._reservations.release_key(request.key)

        def may_give_back() -> bool:
            # When a step is taken again, only this time did nothing. And once our lease has
            # ended, another process may be taking it again: the money must not be pulled from
            # under them because our own call came to nothing.
            return ours and (
                replay_within is None or self._reservations.is_lease_valid(since=asked_at)
            )

        return await self._run_call(reservation, step, passage or nullcontext(), may_give_back)

    async def _run_call(
        self,
        reservation: Reservation,
        step: PaidCall[Answer],
        passage: CallSlot,
        may_give_back: Callable[[], bool],
    ) -> SettledCall[Answer]:
        reached = False
        try:
            async with passage:
                if reservation.status is ReservationStatus.RESERVED:
                    await self._reservations.mark_sent(reservation.key)
                reached = True
                return await self._call_and_settle(reservation, step, may_give_back)
        except BaseException as error:
            if not reached:
                await self._release_unsent(reservation, error)
            raise

    async def _call_and_settle(
        self, reservation: Reservation, step: PaidCall[Answer], may_give_back: Callable[[], bool]
    ) -> SettledCall[Answer]:
        try:
            done = await step()
        except BaseException as error:
            nothing_was_done = isinstance(error, (TransientError, PermanentError))
            reason = str(error) or type(error).__name__
            with suppress(StokerError):  # the step's own failure is what the caller must hear of
                if nothing_was_done and may_give_back():
                    await self._reservations.release(reservation.key, reason=reason)
                else:
                    await self._reservations.mark_uncertain(reservation.key, reason=reason)
            raise
        # Inside the passage: whatever leaving it may raise, this is written down already.
        return SettledCall(
            answer=done.answer,
            reservation=await self._reservations.settle(reservation.key, done.cost),
        )

    async def _release_unsent(self, reservation: Reservation, error: BaseException) -> None:
        if (
            reservation.status is not ReservationStatus.RESERVED
        ):  # it waits to be taken again, as it did before
            self._reservations.release_key(reservation.key)
            return
        reason = str(error) or f"{type(error).__name__} before it was sent"
        with suppress(StokerError):  # it comes back by itself
            await self._reservations.release(reservation.key, reason=reason)


def _can_replay(reservation: Reservation, within: timedelta | None, *, now: datetime) -> bool:
    """Return whether taking a step again, under the same key, cannot be charged a second time."""
    gone = reservation.status is ReservationStatus.UNCERTAIN or (
        reservation.status is ReservationStatus.SENT and now >= reservation.until
    )
    if within is None or not gone:
        return False
    # The vendor's clock counts, and ours may differ from the one the reservation was dated by.
    return abs(now - reservation.reserved_at) + CLOCK_TOLERANCE < within


ALL_CONNECTORS = ""  # stands for every connector


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """What holds for a tenant at this time, apart from how full its caps are."""

    latest: datetime | None = None  # the time of the last ledger entry
    changes: Mapping[str, CapChange] = field(default_factory=dict)
    stops: Mapping[str, str] = field(default_factory=dict)  # connector to reason
    open_windows: Mapping[CapWindow, Totals] = field(default_factory=dict)  # windows near this time

    def to_ledger_time(self, now: datetime) -> datetime:
        """Return the time as money counts it: never earlier than what is already written."""
        moment = to_utc(now)
        return moment if self.latest is None else max(moment, self.latest)

    def compute_lease_end(self, until: datetime, *, now: datetime) -> datetime:
        """Return when a lease that is to end at `until` ends, as money counts time.

        It is as long as was asked. Otherwise, with a clock that was set back a little, a
        reservation would be taken for one of a silent owner the time it is given.
        """
        return to_utc(until) + (self.to_ledger_time(now) - to_utc(now))


def validate_request(request: SpendRequest) -> SpendRequest:
    """Return the request, every text of which a store can keep."""
    validate_name(request.run or "", what="a run's name")
    validate_name(request.account or "", what="an account")
    return request


def validate_change(change: CapChange, *, shared: bool) -> CapChange:
    """Return the change as stores return it.

    Raises ConfigError when the caller may not change this cap: tenants their own, operators shared
    ones.
    """
    validate_name(change.cap, what="a cap")
    if change.cap.startswith(f"{Scope.CONNECTOR}/") != shared:
        whose = "its tenant" if shared else "an operator"
        raise ConfigError(f"{change.cap!r} can only be changed by {whose}; nothing was changed")
    until = change.raised_until
    return replace(change, raised_until=until and to_utc(until, what="raised_until"))


def validate_stop(connector: str, *, reason: str = "") -> str:
    """Return the connector a stop is for, or nothing for all of them."""
    validate_text(reason, what="a reason")
    return validate_connector(connector) if connector else ALL_CONNECTORS


def check_repeat(reservation: Reservation, request: SpendRequest) -> Reservation:
    """Return the reservation a key was already good for; with other inputs it is a conflict."""
    if reservation.fingerprint != request.fingerprint:
        raise ConflictError(
            f"{request.key} was used for another request; a new attempt needs a key of its own"
        )
    return reservation


def evaluate_request(
    request: SpendRequest,
    caps: Sequence[Cap],
    state: BudgetState,
    *,
    reset: ResetRule,
    now: datetime,
) -> tuple[Charge, ...] | Refusal:
    """Return the charges of a new request, or a refusal that does not depend on room.

    Caps that people added count beside those given. Raises ConfigError when a unit has no cap.
    """
    moment = state.to_ledger_time(now)
    together = [*caps, *list_added_caps(caps, state.changes)]
    wanted = list_charges(
        request, together, state.changes, reset=reset, now=moment, opened=state.open_windows
    )
    refused = find_clock_refusal(to_utc(now), latest=state.latest)
    return refused or find_stop_refusal(request.connector, state.stops) or tuple(wanted)


def find_stop_refusal(connector: str, stops: Mapping[str, str]) -> Refusal | None:
    """Return a refusal when this connector, or all of them, are stopped."""
    for stopped in (ALL_CONNECTORS, connector):
        if stopped in stops:
            what = stopped or "spending"
            why = stops[stopped] or "no reason was given"
            return Refusal(reason="STOPPED", message=f"{what} is stopped: {why}")
    return None
