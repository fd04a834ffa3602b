"""Define what budget stores do, and what a paid vendor is.

Each store verb is one transaction. Stores get the time as an argument. All times are aware; what
they return is in UTC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from stoker.base.retry import Quota
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, CapChange
from stoker.budgets.charges import Refusal, SpendRequest, Totals
from stoker.budgets.reservations import Reservation, ReservationStatus
from stoker.budgets.windows import ResetRule
from stoker.ledger.chain import LedgerStore

if TYPE_CHECKING:
    from stoker.rate_limits.rate_limit import Rate, RateDecision

Answer = TypeVar("Answer")

Query_contra = TypeVar("Query_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid(Generic[Answer]):
    """What a step did: the answer it got, what that cost by unit, and what it left of a quota."""

    answer: Answer
    cost: Mapping[str, int]
    quota: Quota | None = None  # only ever slows us down


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A vendor's health: whether it answers, accepts our key, and what is left of the quota."""

    ok: bool
    detail: str


class Connector(Protocol[Query_contra, Answer]):
    """One need, answered by one vendor. Its caps, rates and stops go by its name."""

    @property
    def name(self) -> str:
        """The connector's name, as in caps: `tavily`."""
        ...

    def price(self, question: Query_contra) -> Mapping[str, int]:
        """Return the most that one call with this question may cost, by unit.

        It is reserved before the call. Raises PermanentError for a question no vendor can answer.
        """
        ...

    async def ask(self, question: Query_contra, *, key: str) -> Paid[Answer]:
        """Call the vendor once; return the answer with its cost. The key is sent if the vendor uses
        it.

        It does not retry. Raises TransientError when nothing was done and a retry may work (with
        `retry_after` if the vendor sent one), PermanentError when nothing was done and this
        question will not work, UncertainError when it may have been charged (with `broke_down` if
        the vendor reported its own failure), and ConfigError when no question will work before a
        person acts: a refused key, no credits left, a feature not in the plan.
        """
        ...

    async def check(self) -> Health:
        """Find out at no cost whether the vendor is there and takes our key. Never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CapUsage:
    """What one cap has used in one window."""

    cap: str
    window: str
    used: Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A stop of spending: for all tenants or one, on every connector or one."""

    tenant: TenantId | None
    connector: str  # empty: every connector
    since: datetime
    reason: str


class BudgetStore(Protocol):
    """One tenant's reservations and what became of them: the gate everything that costs goes
    through.

    After every commit, on every cap, settled + reserved <= limit, except by what a vendor charged
    above its reservation and by a cap that was lowered. Each verb writes its ledger entry in the
    same transaction; refusals are entries too. Times are never taken to be earlier than the
    ledger's.
    """

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
        """Reserve the amounts in all the caps they fall under, or in none.

        Atomic: of two callers racing for the last of a budget, one is refused. The same key again
        returns the reservation as it now is; with another fingerprint, ConflictError. Refused, with
        nothing charged and the key still good, when a cap is full, a stop is in force or the clock
        went back. Windows that overlap the current one, because `reset` was changed, count too.
        Raises ConfigError when a unit has no cap at all.
        """
        ...

    async def mark_sent(self, key: str, *, now: datetime) -> Reservation:
        """Mark a HELD reservation as sent, as `reservations.mark_sent`."""
        ...

    async def settle(self, key: str, actual: Mapping[str, int], *, now: datetime) -> Reservation:
        """Settle a reservation at its real cost, as `reservations.settle_reservation`.

        A reservation that was released meanwhile is settled late. Raises ConflictError when there
        is no such key.
        """
        ...

    async def release(self, key: str, *, reason: str, now: datetime) -> Reservation:
        """Release a reservation in full, as `reservations.release_reservation`."""
        ...

    async def mark_uncertain(self, key: str, *, reason: str, now: datetime) -> Reservation:
        """Mark a reservation's outcome as unknown, as `reservations.mark_uncertain`."""
        ...

    async def renew_leases(self, owner: str, *, until: datetime, now: datetime) -> int:
        """Lengthen the lease of everything this owner has HELD or SENT; return how many.

        By as much as lies between `now` and `until`, also for an owner whose clock is behind.
        """
        ...

    async def expire_reservations(self, *, now: datetime) -> list[Reservation]:
        """Expire every reservation whose lease ended; return them as they now are.

        As `reservations.expire_reservation`: never sent is released, maybe sent is marked
        uncertain.
        """
        ...

    async def find_reservation(self, key: str) -> Reservation | None:
        """Return a reservation by its key."""
        ...

    async def list_reservations(
        self, *, phases: Sequence[ReservationStatus], after: str = "", limit: int = 1000
    ) -> list[Reservation]:
        """Return one page of the reservations in these phases, in key order."""
        ...

    async def list_usage(self) -> list[CapUsage]:
        """Return what every cap of this tenant has used, window by window, sorted.

        Shared caps are not among them.
        """
        ...

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        """Write a change to a cap, with a ledger entry. Fields that are None keep their value."""
        ...

    async def list_cap_changes(self) -> dict[str, CapChange]:
        """Return the changes to caps, by cap."""
        ...

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        """Grant this tenant nothing more, on a connector or (empty) on any. safe to repeat."""
        ...

    async def resume(self, connector: str, *, now: datetime) -> bool:
        """Remove a stop; return whether there was one."""
        ...

    async def list_stops(self) -> list[Stop]:
        """Return the stops in force for this tenant, those for all tenants included."""
        ...


class SharedStore(Protocol):
    """Stores what all tenants and workers share: rates, slots, stops. It has no tenant's data.

    Operators' changes have a ledger of their own; each writes its entry in the same transaction,
    never dated earlier than the entry before it.
    """

    @property
    def ledger(self) -> LedgerStore:
        """What operators did for all tenants, chained like a tenant's ledger."""
        ...

    async def acquire_call(self, key: str, rate: Rate, *, now: datetime) -> RateDecision:
        """Return whether a call may go now, and count it if so. Atomic across workers.

        As `rate_limit.check_rate`: a stored time that no correct clock can have written is ignored.
        """
        ...

    async def delay_until(self, key: str, *, until: datetime) -> None:
        """Allow no call under this key before then; it never allows one sooner.

        For a rate with a burst, `until` is from `compute_postponed_until`: otherwise the burst
        would come early. A time further off than `acquire_call` accepts is ignored.
        """
        ...

    async def find_next_at(self, key: str) -> datetime | None:
        """Return what is remembered of a key for `rate_limit.check_rate`, using nothing up.

        None when nothing ever went under it.
        """
        ...

    async def acquire_slot(
        self, name: str, *, places: int, owner: str, until: datetime, now: datetime
    ) -> bool:
        """Acquire one of so many slots, if one is free or its owner's lease has ended.

        An owner has at most one slot of a name; acquiring it again lengthens its lease.
        """
        ...

    async def release_slot(self, name: str, *, owner: str) -> None:
        """Release the owner's slot. Safe to repeat."""
        ...

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        """Refuse all tenants' requests, on a connector or (empty) on any. Safe to repeat."""
        ...

    async def resume(self, connector: str, *, now: datetime) -> bool:
        """Remove a stop for all tenants; return whether there was one."""
        ...

    async def list_stops(self) -> list[Stop]:
        """Return the stops in force for all tenants."""
        ...

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        """Write a change to a shared cap, with a ledger entry."""
        ...

    async def list_cap_changes(self) -> dict[str, CapChange]:
        """Return the changes to shared caps, by cap."""
        ...

    async def list_usage(self) -> list[CapUsage]:
        """Return what every shared cap has used, for operators only."""
        ...


def filter_stops(stops: Iterable[Stop], asked: Collection[str]) -> tuple[Stop, ...]:
    """Return the stops that refuse at least one of these connectors."""
    return tuple(stop for stop in stops if asked and stop.connector in {"", *asked})
