"""Spend one tenant's money in this process: reserve, call, settle.

Each open reservation ends settled, released or uncertain. An end that could not be written is
retried with the next heartbeat, which also renews leases and expires reservations of dead owners.
Overruns and unknown outcomes are reported as events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from stoker.base.clock import Clock
from stoker.base.errors import (
    ConflictError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.events import Observer
from stoker.base.heartbeat import send_heartbeats
from stoker.base.reasons import Reason
from stoker.base.retry import retry
from stoker.base.types import TenantId, clean_text
from stoker.budgets.caps import Cap, build_default_caps, list_effective_caps
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.model import Paid
from stoker.budgets.reservations import Reservation, ReservationStatus, find_alert
from stoker.budgets.windows import ResetRule
from stoker.context import Context, TenantContext, TenantStores

if TYPE_CHECKING:
    from stoker.budgets.store import BudgetStore
    from stoker.settings import Settings

LEASE_LENGTH = timedelta(seconds=60)  # then the reservations of a dead process expire

HEARTBEATS_PER_LEASE = 3  # two may fail before the lease ends

CLOSE_RETRY_DELAYS = tuple(timedelta(seconds=wait) for wait in (0.05, 0.25, 1))

MAX_REASON_LENGTH = 500

Answer = TypeVar("Answer")

PaidCall = Callable[[], Awaitable[Paid[Answer]]]
"""Raises TransientError or PermanentError only when nothing was done, UncertainError if unsure."""

CallSlot = AbstractAsyncContextManager[object]
"""What a call waits for once its money is reserved, and leaves after it is settled."""

CloseAction = Callable[[], Awaitable[Reservation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledCall(Generic[Answer]):
    """The call was made this time, and its cost is written down."""

    answer: Answer
    reservation: Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadySpent:
    """The key was used before, so no call was made; the reservation has the earlier status.

    SETTLED: done, at that cost. HELD or SENT: another caller is working on it. UNCERTAIN: the
    outcome is unknown. RELEASED or EXPIRED: nothing was done; a retry needs a key of its own.
    """

    reservation: Reservation


class BudgetService:
    """One tenant's spending in this process. Open it with `async with`, for its heartbeats.

    `owner` must differ from that of any other process of this tenant, ended ones included: a
    forgotten reservation under our own name would otherwise be used twice. Caps that people add
    later apply too: the store reads them with every reservation.
    """

    def __init__(
        self,
        money: BudgetStore,
        *,
        caps: Sequence[Cap],
        reset: ResetRule,
        owner: str,
        clock: Clock,
        lease: timedelta,
        tenant: TenantId | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._money = money
        self._tenant = tenant
        self._observer = observer
        self._caps = caps
        self._reset = reset
        self._owner = owner
        self._clock = clock
        self._lease = lease
        self._in_flight: set[str] = set()  # acted on, and their end is not written yet
        self._budget_runs: dict[str, str] = {}  # by run: the one it goes on with
        self._unwritten_closes: dict[str, CloseAction] = {}  # not yet written to the store
        self._abandoned: dict[str, timedelta] = {}  # perhaps reserved; and when we gave up
        self._closing_tasks: dict[str, asyncio.Task[Reservation]] = {}  # being written now
        self._heartbeats = AsyncExitStack()

    def continue_run(self, run: str, earlier: str) -> None:
        """Count what a run spends in the caps per run of an earlier one, which it goes on with."""
        self._budget_runs[run] = earlier

    async def spend(
        self, request: SpendRequest, call: PaidCall[Answer], *, slot: CallSlot | None = None
    ) -> SettledCall[Answer] | AlreadySpent | Refusal:
        """Reserve the cost, make the call, and settle; return the refusal if it cannot be reserved.

        A call that did nothing releases its reservation, any other failure marks it uncertain; both
        errors are raised. A `slot` is entered between reservation and call; if the process dies
        there, the reservation expires and is released.
        """
        reserved = await (self.reserve(request) if slot is not None else self._reserve(request))
        if not isinstance(reserved, OpenReservation):
            return reserved
        async with reserved, slot or nullcontext():
            await reserved.mark_sent()
            paid = await call()
            # Inside the slot: whatever leaving it may raise, this is written down already.
            settled = await reserved.settle(paid.cost)
        return SettledCall(answer=paid.answer, reservation=settled)

    async def reserve(self, request: SpendRequest) -> OpenReservation | AlreadySpent | Refusal:
        """Reserve the amounts of a call that is not sent yet; the caller enters the reservation.

        A budget that cannot be read is a refusal. Raises ConfigError when a unit has no cap, and
        ConflictError when the key was used for another request or is being reserved now.
        """
        return await self._reserve(replace(request, sends_at_once=False))

    async def _reserve(self, request: SpendRequest) -> OpenReservation | AlreadySpent | Refusal:
        if request.key in self._in_flight:  # another caller of this process has it
            return AlreadySpent(reservation=await self._get_reservation(request.key))
        self._in_flight.add(request.key)
        acting = False
        try:
            outcome = await self._reserve_or_refuse(request)
            if isinstance(outcome, Refusal):
                return outcome
            if not self._is_owner(outcome):
                return AlreadySpent(reservation=outcome)
            acting = True
            return OpenReservation(self, outcome)
        finally:
            if not acting:
                self._in_flight.discard(request.key)

    async def heartbeat(self) -> list[Reservation]:
        """Renew leases, write unwritten closes, and expire reservations of dead owners.

        Returns the expired ones as they now are. While open, this happens periodically.
        """
        now = self._clock.now()
        if self._in_flight:
            await self._money.renew_leases(self._owner, until=now + self._lease, now=now)
        for key in self._unwritten_closes.keys() - self._closing_tasks.keys():
            await self._write_close(key)
        for key in list(self._abandoned):
            await self._release_abandoned(key)
        expired = await self._money.expire_reservations(now=now)
        for reservation in expired:
            self._report_alert(reservation)
        return expired

    async def __aenter__(self) -> BudgetService:
        beats = send_heartbeats(self.heartbeat, every=self._lease / HEARTBEATS_PER_LEASE)
        await self._heartbeats.enter_async_context(beats)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._closing_tasks:
            await asyncio.wait(self._closing_tasks.values())
        await self._heartbeats.aclose()

    async def mark_sent(self, key: str) -> None:
        await self._money.mark_sent(key, now=self._clock.now())

    async def settle(self, key: str, cost: Mapping[str, int]) -> Reservation:
        try:
            return await self._close(
                key, lambda: self._money.settle(key, cost, now=self._clock.now())
            )
        except (TransientError, UncertainError) as error:
            raise UncertainError(
                f"{key} was done and cost {dict(cost)}, which could not be stored: {error}; it is "
                "retried while this process runs, afterwards see: stoker holds"
            ) from error
        except StokerError as error:
            with suppress(StokerError):  # its end may be written by another process
                await self.mark_uncertain(key, reason=f"its cost cannot be settled: {error}")
            raise

    async def release(self, key: str, *, reason: str) -> None:
        line = _to_one_line(reason)
        await self._close(key, lambda: self._money.release(key, reason=line, now=self._clock.now()))

    async def mark_uncertain(self, key: str, *, reason: str) -> None:
        line = _to_one_line(reason)
        await self._close(
            key, lambda: self._money.mark_uncertain(key, reason=line, now=self._clock.now())
        )

    async def _get_reservation(self, key: str) -> Reservation:
        reservation = await self._money.find_reservation(key)
        if reservation is None:
            raise ConflictError(f"{key} is being reserved at this moment; read it again later")
        return reservation

    def _is_owner(self, reservation: Reservation) -> bool:
        """Return whether we, and no other process, may act on this reservation."""
        return reservation.owner == self._owner and reservation.status in (
            ReservationStatus.RESERVED,
            ReservationStatus.SENT,
        )

    async def _reserve_or_refuse(self, request: SpendRequest) -> Reservation | Refusal:
        try:
            reservation = await self._reserve_in_store(request)
        except (TransientError, UncertainError) as error:
            self._abandoned[request.key] = self._clock.elapsed()
            unreadable = Reason.BUDGET_UNREADABLE
            return Refusal(reason=unreadable, message=f"{unreadable.message} ({error})")
        except StokerError:
            raise
        except BaseException:
            # Cancelled, and the store may go on without us.
            self._abandoned[request.key] = self._clock.elapsed()
            raise
        self._abandoned.pop(request.key, None)
        return reservation

    async def _reserve_in_store(self, request: SpendRequest) -> Reservation | Refusal:
        now = self._clock.now()
        request = replace(request, budget_run=self._budget_runs.get(request.run or "", ""))
        reserve = partial(
            self._money.reserve,
            request,
            caps=self._caps,
            reset=self._reset,
            owner=self._owner,
            until=now + self._lease,
            now=now,
        )
        try:
            return await reserve()
        except UncertainError:
            # The same key is the same answer, so asking again is how to find out.
            return await reserve()

    async def _close(self, key: str, write: CloseAction) -> Reservation:
        self._unwritten_closes[key] = write
        # Shielded: cancelling the caller must not lose what has to be written.
        self._closing_tasks[key] = asyncio.create_task(self._close_with_retries(key))
        return await asyncio.shield(self._closing_tasks[key])

    async def _close_with_retries(self, key: str) -> Reservation:
        try:
            return await retry(
                partial(self._write_close, key),
                delays=CLOSE_RETRY_DELAYS,
                sleep=self._clock.sleep,
            )
        finally:
            del self._closing_tasks[key]

    async def _write_close(self, key: str) -> Reservation:
        try:
            reservation = await self._unwritten_closes[key]()
        except (TransientError, UncertainError):
            raise  # still owed
        except StokerError:
            self.forget_key(key)  # saying it again would be refused again
            raise
        self.forget_key(key)
        self._report_alert(reservation)
        return reservation

    async def _release_abandoned(self, key: str) -> None:
        if key in self._in_flight:
            return  # another caller has the key and reads its state
        self._in_flight.add(key)
        try:
            reservation = await self._money.find_reservation(key)
            if reservation is None and self._clock.elapsed() - self._abandoned[key] < self._lease:
                return  # what we asked for may be on its way yet
            if reservation is not None and self._is_owner(reservation):
                reason = "it was never used"
                await self._money.release(key, reason=reason, now=self._clock.now())
            del self._abandoned[key]
        finally:
            self._in_flight.discard(key)

    def _report_alert(self, reservation: Reservation) -> None:
        alert = find_alert(reservation, tenant=self._tenant, at=self._clock.now())
        if self._observer is not None and alert is not None:
            self._observer(alert)

    def forget_key(self, key: str) -> None:
        self._unwritten_closes.pop(key, None)
        self._in_flight.discard(key)


class OpenReservation:
    """A reservation that this process acts on, from `BudgetService.reserve`. Enter it at once.

    Settle or release it inside. An error that leaves the block does it otherwise: before
    `mark_sent`, and with TransientError or PermanentError, nothing was bought and the reservation
    is released; any other error marks it uncertain.
    """

    def __init__(self, budget: BudgetService, reservation: Reservation) -> None:
        self._budget = budget
        self._reservation = reservation
        self._is_sent = False
        self._is_closed = False

    @property
    def key(self) -> str:
        return self._reservation.key

    async def mark_sent(self) -> None:
        """Say that the call is made from now on."""
        if self._reservation.status is ReservationStatus.RESERVED:
            await self._budget.mark_sent(self.key)
        self._is_sent = True

    async def settle(self, cost: Mapping[str, int]) -> Reservation:
        """Write down what was spent. If the store will not have it now, it stays owed.

        Raises UncertainError when it could not be written; ConfigError or ConflictError, with the
        reservation marked uncertain, when the cost is nothing that can be settled.
        """
        self._is_closed = True
        return await self._budget.settle(self.key, cost)

    async def release(self, reason: str) -> None:
        """Give it back whole, because nothing was bought. What cannot be written expires."""
        self._is_closed = True
        with suppress(StokerError):
            await self._budget.release(self.key, reason=reason)

    async def __aenter__(self) -> OpenReservation:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._is_closed:
            return
        if error is None:
            await self.release("it was not used")
        elif not self._is_sent and self._reservation.status is not ReservationStatus.RESERVED:
            self._budget.forget_key(self.key)  # an earlier call of ours; it expires by itself
        elif not self._is_sent:
            await self.release(str(error) or f"{type(error).__name__} before it was sent")
        elif isinstance(error, (TransientError, PermanentError)):
            await self.release(str(error) or type(error).__name__)
        else:
            with suppress(StokerError):  # the call's own failure is what the caller must hear of
                reason = str(error) or type(error).__name__
                await self._budget.mark_uncertain(self.key, reason=reason)


async def expire_reservations(
    store: TenantStores, *, now: datetime, observer: Observer
) -> list[Reservation]:
    """Expire the reservations of dead processes and report them; return them."""
    expired = await store.budgets.expire_reservations(now=now)
    for reservation in expired:
        if (alert := find_alert(reservation, tenant=store.tenant, at=now)) is not None:
            observer(alert)
    return expired


def _to_one_line(reason: str) -> str:
    return " ".join(clean_text(reason).split())[:MAX_REASON_LENGTH]


def build_reset_rule(own: Settings) -> ResetRule:
    """Return when a tenant's caps reset: in its own zone, at its own time."""
    return ResetRule(zone=own.scheduling.timezone, at=own.caps.reset_time)


def build_budget(tenant: TenantContext) -> BudgetService:
    """Build a tenant's budget service; `tenant.open(build_budget)` keeps its leases alive."""
    return BudgetService(
        tenant.store.budgets,
        caps=_build_given_caps(tenant.settings),
        reset=build_reset_rule(tenant.settings),
        owner=tenant.process.owner,
        clock=tenant.clock,
        lease=LEASE_LENGTH,
        tenant=tenant.id,
        observer=tenant.process.events,
    )


def _build_given_caps(own: Settings) -> tuple[Cap, ...]:
    return build_default_caps(own.caps, own.list_vendor_caps(), per_run=own.list_run_caps())


async def list_caps(tenant: TenantContext) -> tuple[Cap, ...]:
    """Return every cap of a tenant, shared ones first, with those that people added.

    Changed limits are not applied: the store reads them when it grants or refuses.
    """
    given = _build_given_caps(tenant.settings)
    changes = await tenant.store.budgets.list_cap_changes()
    own = list_effective_caps(given, changes, shared=False)
    return (*await list_shared_caps(tenant.process), *own)


async def list_shared_caps(context: Context) -> tuple[Cap, ...]:
    """Return the caps that tenants share. There are none until an operator sets one."""
    changes = await context.backend.shared().list_cap_changes()
    return list_effective_caps((), changes, shared=True)
