"""Keep one process's open reservations: reserve, send heartbeats, and close each one.

A close that could not be written is retried with the next heartbeat. Overruns and unknown outcomes
are reported as events. `gate` decides what each failure means for money.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType

from stoker.base.clock import Clock
from stoker.base.errors import ConflictError, StokerError, TransientError, UncertainError
from stoker.base.events import Observer
from stoker.base.reasons import Reason
from stoker.base.types import TenantId, clean_text
from stoker.budgets.caps import Cap
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.model import BudgetStore
from stoker.budgets.reservations import Reservation, ReservationStatus, find_alert
from stoker.budgets.windows import ResetRule
from stoker.context import TenantStores

HEARTBEATS_PER_LEASE = 3  # two may fail before the lease ends

RETRY_DELAYS = tuple(timedelta(seconds=wait) for wait in (0.05, 0.25, 1))

MAX_REASON_LENGTH = 500

CloseAction = Callable[[], Awaitable[Reservation]]


class Reservations:
    """The open reservations of one owner for one tenant. Open it with `async with`.

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
        self._unwritten_closes: dict[
            str, CloseAction
        ] = {}  # over, but the store has not heard of it
        self._abandoned: dict[str, timedelta] = {}  # perhaps reserved; and when we gave up
        self._closing_tasks: dict[str, asyncio.Task[Reservation]] = {}  # being written at this time
        self._alive_at = clock.elapsed()
        self._heartbeat_task: asyncio.Task[None] | None = None

    def claim_key(self, key: str) -> bool:
        """Set a key aside for one caller of this process; False while another one has it."""
        if key in self._in_flight:
            return False
        self._in_flight.add(key)
        return True

    def release_key(self, key: str) -> None:
        """Let go of a key under which nothing was done this time."""
        self._in_flight.discard(key)

    def is_owner(self, reservation: Reservation) -> bool:
        """Return whether we, and no other process, may act on this reservation."""
        return reservation.owner == self._owner and reservation.status in (
            ReservationStatus.RESERVED,
            ReservationStatus.SENT,
        )

    def is_lease_valid(self, *, since: timedelta) -> bool:
        """Return whether our lease cannot have expired; `since` is when we reserved."""
        return self._clock.elapsed() - max(since, self._alive_at) < self._lease

    async def reserve(self, request: SpendRequest) -> Reservation | Refusal:
        """Return the reservation, or the refusal. A budget that cannot be read refuses."""
        try:
            reservation = await self._reserve_with_retry(request)
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

    async def mark_sent(self, key: str) -> Reservation:
        """Say that a reservation is acted on from now on."""
        return await self._money.mark_sent(key, now=self._clock.now())

    async def get_reservation(self, key: str) -> Reservation:
        """Return the reservation. Raises ConflictError while it is still being made."""
        reservation = await self._money.find_reservation(key)
        if reservation is None:
            raise ConflictError(f"{key} is being asked for at this moment; read it again later")
        return reservation

    async def settle(self, key: str, cost: Mapping[str, int]) -> Reservation:
        """Write down what was spent. If the store will not have it now, it stays owed.

        Raises UncertainError when it could not be written; ConfigError or ConflictError, with the
        reservation marked uncertain, when the cost is nothing that can be settled.
        """
        try:
            return await self._close(
                key, lambda: self._money.settle(key, cost, now=self._clock.now())
            )
        except (TransientError, UncertainError) as error:
            raise UncertainError(
                f"{key} was done and cost {dict(cost)}, which could not be written down: {error}; "
                "it is tried again while this process lives, afterwards see: stoker holds"
            ) from error
        except StokerError as error:
            with suppress(StokerError):  # its end may be written by another process
                await self.mark_uncertain(key, reason=f"its cost cannot be settled: {error}")
            raise

    async def release(self, key: str, *, reason: str) -> Reservation:
        """Give a reservation back whole: nothing was done."""
        line = _to_one_line(reason)
        return await self._close(
            key, lambda: self._money.release(key, reason=line, now=self._clock.now())
        )

    async def mark_uncertain(self, key: str, *, reason: str) -> Reservation:
        """Keep a reservation whose outcome is unknown."""
        line = _to_one_line(reason)
        return await self._close(
            key, lambda: self._money.mark_uncertain(key, reason=line, now=self._clock.now())
        )

    async def heartbeat(self) -> list[Reservation]:
        """Renew leases, write unwritten closes, and expire reservations of dead owners.

        Returns the expired ones as they now are. While open, this happens periodically.
        """
        now, alive_at = self._clock.now(), self._clock.elapsed()
        if self._in_flight:
            await self._money.renew_leases(self._owner, until=now + self._lease, now=now)
            self._alive_at = alive_at
        for key in self._unwritten_closes.keys() - self._closing_tasks.keys():
            await self._write_close(key)
        for key in list(self._abandoned):
            await self._release_abandoned(key)
        lapsed = await self._money.expire_reservations(now=now)
        for reservation in lapsed:
            self._report_alert(reservation)
        return lapsed

    async def __aenter__(self) -> Reservations:
        self._heartbeat_task = asyncio.create_task(self._run_heartbeats())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._closing_tasks:
            await asyncio.wait(self._closing_tasks.values())
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._heartbeat_task

    async def _run_heartbeats(self) -> None:
        while True:
            # Real seconds, not the injected clock's: a heartbeat is for other processes.
            await asyncio.sleep(self._lease.total_seconds() / HEARTBEATS_PER_LEASE)
            with suppress(StokerError):  # the next beat tries again, and silence is safe
                await self.heartbeat()

    async def _reserve_with_retry(self, request: SpendRequest) -> Reservation | Refusal:
        now = self._clock.now()
        until = now + self._lease
        for again in (True, False):
            try:
                return await self._money.reserve(
                    request,
                    caps=self._caps,
                    reset=self._reset,
                    owner=self._owner,
                    until=until,
                    now=now,
                )
            except UncertainError:
                # The same key is the same answer, so asking again is how to find out.
                if not again:
                    raise
        raise AssertionError("asked twice, and neither answered nor failed")

    async def _close(self, key: str, ending: CloseAction) -> Reservation:
        self._unwritten_closes[key] = ending
        # Shielded: cancelling the caller must not lose what has to be written.
        self._closing_tasks[key] = asyncio.create_task(self._close_with_retries(key))
        return await asyncio.shield(self._closing_tasks[key])

    async def _close_with_retries(self, key: str) -> Reservation:
        try:
            for pause in RETRY_DELAYS:
                with suppress(TransientError, UncertainError):
                    return await self._write_close(key)
                await self._clock.sleep(pause)
            return await self._write_close(key)
        finally:
            del self._closing_tasks[key]

    async def _write_close(self, key: str) -> Reservation:
        try:
            reservation = await self._unwritten_closes[key]()
        except (TransientError, UncertainError):
            raise  # still owed
        except StokerError:
            self._forget_key(key)  # saying it again would be refused again
            raise
        self._forget_key(key)
        self._report_alert(reservation)
        return reservation

    async def _release_abandoned(self, key: str) -> None:
        if not self.claim_key(key):
            return  # another caller has the key and reads its state
        try:
            reservation = await self._money.find_reservation(key)
            if reservation is None and self._clock.elapsed() - self._abandoned[key] < self._lease:
                return  # what we asked for may be on its way yet
            if reservation is not None and self.is_owner(reservation):
                reason = "it was never acted on"
                await self._money.release(key, reason=reason, now=self._clock.now())
            del self._abandoned[key]
        finally:
            self.release_key(key)

    def _report_alert(self, reservation: Reservation) -> None:
        """Report an overrun or an unknown outcome to the observer."""
        news = find_alert(reservation, tenant=self._tenant, at=self._clock.now())
        if self._observer is not None and news is not None:
            self._observer(news)

    def _forget_key(self, key: str) -> None:
        self._unwritten_closes.pop(key, None)
        self._in_flight.discard(key)


async def expire_reservations(
    store: TenantStores, *, now: datetime, observer: Observer
) -> list[Reservation]:
    """Expire the reservations of dead processes and report them; return them."""
    lapsed = await store.money.expire_reservations(now=now)
    for reservation in lapsed:
        if (news := find_alert(reservation, tenant=store.tenant, at=now)) is not None:
            observer(news)
    return lapsed


def _to_one_line(reason: str) -> str:
    return " ".join(clean_text(reason).split())[:MAX_REASON_LENGTH]
