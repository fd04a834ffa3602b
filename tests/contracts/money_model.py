"""Money in dictionaries: the model that every store of money is compared with.

A verb has no await in it, so on one event loop it is atomic. What may be spent is decided by the
product's pure functions; the model only remembers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stoker.base.errors import ConflictError
from stoker.base.types import TenantId, to_utc
from stoker.budgets import reservations as phases_of
from stoker.budgets.caps import Cap, CapChange, merge_changes
from stoker.budgets.charges import (
    BudgetState,
    Refusal,
    SpendRequest,
    Totals,
    evaluate_request,
    find_refusal,
)
from stoker.budgets.ledger_entries import (
    build_cap_entry,
    build_refused_entry,
    build_reserved_entry,
    build_resume_entry,
    build_status_entry,
    build_stop_entry,
)
from stoker.budgets.model import CapUsage, Stop
from stoker.budgets.reservations import (
    Reservation,
    ReservationChange,
    ReservationStatus,
    check_repeat,
    list_total_changes,
)
from stoker.budgets.schema import validate_change, validate_request, validate_stop
from stoker.budgets.windows import ResetRule
from stoker.db.codec import validate_name, validate_owner, validate_text
from stoker.ledger import chain as ledger
from stoker.ledger.chain import LedgerEntry, NewEntry, validate_new_entry
from stoker.rate_limits import rate_limit as limits
from stoker.rate_limits.rate_limit import Rate, RateDecision


class ModelLedger:
    """The verbs of `LedgerStore`, in a list."""

    def __init__(self) -> None:
        self._entries: list[LedgerEntry] = []

    async def list_entries(self, *, after: int = 0, limit: int = 1000) -> list[LedgerEntry]:
        return [entry for entry in self._entries if entry.seq > after][:limit]

    @property
    def latest_at(self) -> datetime | None:
        return self._entries[-1].at if self._entries else None

    def add(self, entries: Sequence[NewEntry]) -> None:
        new = [validate_new_entry(entry) for entry in entries]
        last = self._entries[-1] if self._entries else None
        self._entries += ledger.chain_entries(new, after=last)


class ModelLimits:
    """The verbs of `LimitStore`: totals by cap and window, changes and stops, of a tenant or all.

    `shared` are those of all tenants, which bind a tenant too.
    """

    def __init__(
        self,
        book: ModelLedger,
        *,
        tenant: TenantId | None = None,
        shared: "ModelLimits | None" = None,
    ) -> None:
        self.ledger = book
        self.totals: dict[tuple[str, str], Totals] = {}
        self.changes: dict[str, CapChange] = {}
        self.stops: dict[str, Stop] = {}
        self._tenant = tenant
        self._shared = shared

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        connector, moment = validate_stop(connector, reason=reason), self._to_ledger_time(now)
        if connector in self.stops:
            return
        self.ledger.add([build_stop_entry(connector, reason=reason, now=moment)])
        self.stops[connector] = Stop(
            tenant=self._tenant, connector=connector, since=moment, reason=reason
        )

    async def resume(self, connector: str, *, now: datetime) -> bool:
        connector, moment = validate_stop(connector), self._to_ledger_time(now)
        if self.stops.pop(connector, None) is None:
            return False
        self.ledger.add([build_resume_entry(connector, now=moment)])
        return True

    async def list_stops(self) -> list[Stop]:
        both = [self._shared.stops, self.stops] if self._shared else [self.stops]
        return [stops[connector] for stops in both for connector in sorted(stops)]

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        change = validate_change(change, shared=self._shared is None)
        self.ledger.add([build_cap_entry(change, now=self._to_ledger_time(now))])
        self.changes[change.cap] = merge_changes(self.changes.get(change.cap), change)

    async def list_cap_changes(self) -> dict[str, CapChange]:
        return dict(self.changes)

    async def list_usage(self) -> list[CapUsage]:
        return [
            CapUsage(cap=cap, window=window, used=used)
            for (cap, window), used in sorted(self.totals.items(), key=lambda item: item[0])
        ]

    def _to_ledger_time(self, now: datetime) -> datetime:
        return BudgetState(latest=self.ledger.latest_at).to_ledger_time(now)


class ModelShared(ModelLimits):
    """The verbs of `SharedStore`."""

    def __init__(self, book: ModelLedger) -> None:
        super().__init__(book)
        self._next_at: dict[str, datetime] = {}
        self._slots: dict[str, dict[str, datetime]] = {}

    async def acquire_call(self, key: str, rate: Rate, *, now: datetime) -> RateDecision:
        key, now = validate_name(key, what="a rate's key"), to_utc(now)
        turn = limits.check_rate(rate, self._next_at.get(key), now=now)
        self._next_at[key] = turn.next_at
        return turn

    async def delay_until(self, key: str, *, until: datetime) -> None:
        key = validate_name(key, what="a rate's key")
        self._next_at[key] = limits.postpone_next_at(self._next_at.get(key), until=to_utc(until))

    async def find_next_at(self, key: str) -> datetime | None:
        return self._next_at.get(validate_name(key, what="a rate's key"))

    async def acquire_slot(
        self, name: str, *, places: int, owner: str, until: datetime, now: datetime
    ) -> bool:
        name, owner = validate_name(name, what="a slot's name"), validate_owner(owner)
        until, now = to_utc(until), to_utc(now)
        taken = {other: end for other, end in self._slots.get(name, {}).items() if end > now}
        # An owner keeps its slot also when there are now fewer slots than before.
        if owner not in taken and len(taken) >= places:
            return False
        self._slots[name] = taken | {owner: max(until, taken.get(owner, until))}
        return True

    async def release_slot(self, name: str, *, owner: str) -> None:
        name, owner = validate_name(name, what="a slot's name"), validate_owner(owner)
        self._slots.get(name, {}).pop(owner, None)


class ModelBudget(ModelLimits):
    """The verbs of `BudgetStore`."""

    def __init__(self, tenant: TenantId, book: ModelLedger, shared: ModelShared) -> None:
        super().__init__(book, tenant=tenant, shared=shared)
        self._reservations: dict[str, Reservation] = {}

    async def reserve(
        self,
        request: SpendRequest,
        *,
        caps: Sequence[Cap],
        reset: ResetRule,
        owner: str,
        until: datetime,
        now: datetime,
    ) -> Reservation | Refusal:
        request, owner = validate_request(request), validate_owner(owner)
        until, now = to_utc(until), to_utc(now)
        if request.key in self._reservations:
            return check_repeat(self._reservations[request.key], request)
        standing = self._build_state()
        moment = standing.to_ledger_time(now)
        wanted = evaluate_request(request, caps, standing, reset=reset, now=now)
        if not isinstance(wanted, Refusal):
            refused = find_refusal(wanted, self._shared.totals | self.totals)
            if refused is None:
                end = standing.compute_lease_end(until, now=now)
                hold = phases_of.build_reservation(
                    request, wanted, owner=owner, until=end, now=moment
                )
                note = build_reserved_entry(hold, now=moment)
                self._apply_changes([ReservationChange(before=None, after=hold, entry=note)])
                return hold
            wanted = refused
        self.ledger.add([build_refused_entry(request, wanted, now=moment)])
        return wanted

    async def mark_sent(self, key: str, *, now: datetime) -> Reservation:
        return self._change_status(key, now, lambda hold, _: phases_of.mark_sent(hold))

    async def settle(self, key: str, actual: Mapping[str, int], *, now: datetime) -> Reservation:
        return self._change_status(
            key, now, lambda hold, moment: phases_of.settle_reservation(hold, actual, now=moment)
        )

    async def release(self, key: str, *, reason: str, now: datetime) -> Reservation:
        validate_text(reason, what="a reason")
        return self._change_status(
            key,
            now,
            lambda hold, moment: phases_of.release_reservation(hold, now=moment, reason=reason),
        )

    async def mark_uncertain(self, key: str, *, reason: str, now: datetime) -> Reservation:
        validate_text(reason, what="a reason")
        return self._change_status(
            key, now, lambda hold, _: phases_of.mark_uncertain(hold, reason=reason)
        )

    async def renew_leases(self, owner: str, *, until: datetime, now: datetime) -> int:
        owner, end = validate_owner(owner), self._build_state().compute_lease_end(until, now=now)
        mine = [
            hold
            for hold in self._reservations.values()
            if hold.owner == owner
            and hold.status in (ReservationStatus.RESERVED, ReservationStatus.SENT)
        ]
        for hold in mine:
            self._reservations[hold.key] = replace(hold, until=max(hold.until, end))
        return len(mine)

    async def expire_reservations(self, *, now: datetime) -> list[Reservation]:
        moment = self._to_ledger_time(now)
        moves = []
        for key in sorted(self._reservations):
            before = self._reservations[key]
            after = phases_of.expire_reservation(before, now=moment)
            if after != before:
                note = build_status_entry(before, after, now=moment)
                moves.append(ReservationChange(before=before, after=after, entry=note))
        self._apply_changes(moves)
        return [move.after for move in moves]

    async def find_reservation(self, key: str) -> Reservation | None:
        return self._reservations.get(validate_name(key, what="a key"))

    async def list_reservations(
        self, *, phases: Sequence[ReservationStatus], after: str = "", limit: int = 1000
    ) -> list[Reservation]:
        validate_name(after, what="a key")
        found = [self._reservations[key] for key in sorted(self._reservations) if key > after]
        return [hold for hold in found if hold.status in phases][:limit]

    async def find_latest_attempt(self, key: str) -> tuple[int, Reservation | None]:
        number = 0
        while f"{key}/{number + 1}" in self._reservations:
            number += 1
        return number, self._reservations.get(f"{key}/{number}")

    def _build_state(self) -> BudgetState:
        stops = {**self.stops, **self._shared.stops}
        return BudgetState(
            latest=self.ledger.latest_at,
            changes={**self.changes, **self._shared.changes},
            stops={connector: stop.reason for connector, stop in stops.items()},
            open_windows=self.totals,
        )

    def _change_status(
        self, key: str, now: datetime, rule: Callable[[Reservation, datetime], Reservation]
    ) -> Reservation:
        moment = self._to_ledger_time(now)
        before = self._reservations.get(validate_name(key, what="a key"))
        if before is None:
            raise ConflictError(f"nothing was reserved under {key}; reserve first")
        after = rule(before, moment)
        if after != before:
            note = build_status_entry(before, after, now=moment)
            self._apply_changes([ReservationChange(before=before, after=after, entry=note)])
        return after

    def _apply_changes(self, moves: Sequence[ReservationChange]) -> None:
        self.ledger.add([move.entry for move in moves])
        for change in list_total_changes(moves):
            totals = self._shared.totals if change.shared else self.totals
            there = totals.get((change.cap, change.window), Totals())
            totals[change.cap, change.window] = Totals(
                settled=there.settled + change.settled, reserved=there.reserved + change.reserved
            )
        for move in moves:
            self._reservations[move.after.key] = move.after


@dataclass(frozen=True)
class ModelTenant:
    """One tenant's money and ledger."""

    budgets: ModelBudget
    ledger: ModelLedger


class MoneyModel:
    """A backend of money."""

    def __init__(self) -> None:
        self._shared = ModelShared(ModelLedger())
        self._tenants: dict[TenantId, ModelTenant] = {}

    def tenant(self, tenant: TenantId) -> ModelTenant:
        if tenant not in self._tenants:
            entries = ModelLedger()
            self._tenants[tenant] = ModelTenant(ModelBudget(tenant, entries, self._shared), entries)
        return self._tenants[tenant]

    def shared(self) -> ModelShared:
        return self._shared
