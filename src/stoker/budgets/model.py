"""What the engine needs from the world, and nothing more.

Every verb on a store is written once per backend, so a verb earns its place: it says what the
product means, it is atomic, and it happens wholly or not at all. Stores are told the time; they
never ask for it. All moments are aware; what comes back is in UTC.
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
    """What a connector says of itself: is the vendor there, does it take our key, what is left."""

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

        It is promised before the call. Raises PermanentError for a question no vendor can answer.
        """
        ...

    async def ask(self, question: Query_contra, *, key: str) -> Paid[Answer]:
        """Ask once, and return the answer with what it cost; the key goes along where it counts.

        It never tries again by itself. Raises TransientError when nothing was done and later may
        work (with `retry_after` if the vendor said when), PermanentError when nothing was done
        and this question will not work, UncertainError when it may have been charged (with
        `broke_down` if the vendor itself said that it failed), and ConfigError when no question
        will work before a person acts: a key refused, credits gone, a feature not in the plan.
        """
        ...

    async def check(self) -> Health:
        """Find out at no cost whether the vendor is there and takes our key. Never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CapUsage:
    """What one cap has given away in one window."""

    cap: str
    window: str
    used: Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A standing order not to spend: for everybody or one tenant, on every connector or one."""

    tenant: TenantId | None
    connector: str  # empty: every connector
    since: datetime
    reason: str


class BudgetStore(Protocol):
    """One tenant's promises and what became of them: the gate everything that costs goes through.

    After every commit, on every cap, settled + reserved <= limit, except by what a vendor charged
    above its promise and by a cap that was lowered. Each verb writes its ledger entry in the same
    transaction; refusals are entries too. Times are never taken to be earlier than the ledger's.
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
        """Promise to spend, if it fits into all the caps it falls under; otherwise into none.

        Atomic: of two callers racing for the last of a budget, one is told no. The same key again
        is the same hold as it now stands; with another fingerprint, ConflictError. Refused, with
        nothing charged and the key still good, when a cap is full, a stop is in force or the
        clock went back. What windows gave away that overlap the one of now, because `reset` was
        another one before, counts too. Raises ConfigError when a unit has no cap at all.
        """
        ...

    async def mark_sent(self, key: str, *, now: datetime) -> Reservation:
        """Say that a HELD promise may be acted on from now on. As `core.holds.sent`."""
        ...

    async def settle(self, key: str, actual: Mapping[str, int], *, now: datetime) -> Reservation:
        """Turn a promise into what it really cost. As `core.holds.settled`.

        A promise that was given back meanwhile is settled late. Raises ConflictError when there
        is no such key.
        """
        ...

    async def release(self, key: str, *, reason: str, now: datetime) -> Reservation:
        """Give a promise back whole: nothing was done. As `core.holds.released`."""
        ...

    async def mark_uncertain(self, key: str, *, reason: str, now: datetime) -> Reservation:
        """Keep a promise whose outcome nobody knows. As `core.holds.uncertain`."""
        ...

    async def renew_leases(self, owner: str, *, until: datetime, now: datetime) -> int:
        """Lengthen the lease of everything this owner has HELD or SENT; return how many.

        By as much as lies between `now` and `until`, also for an owner whose clock is behind.
        """
        ...

    async def expire_reservations(self, *, now: datetime) -> list[Reservation]:
        """Deal with every promise whose owner fell silent; return them as they now stand.

        As `core.holds.lapsed`: never sent comes back, maybe sent is kept aside.
        """
        ...

    async def find_reservation(self, key: str) -> Reservation | None:
        """Return a promise by its key."""
        ...

    async def list_reservations(
        self, *, phases: Sequence[ReservationStatus], after: str = "", limit: int = 1000
    ) -> list[Reservation]:
        """Return one page of the promises in these phases, in key order."""
        ...

    async def list_usage(self) -> list[CapUsage]:
        """Return what every cap of this tenant has given away, window by window, sorted.

        Shared caps are not among them.
        """
        ...

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        """Remember what a person said about a cap, with a ledger entry.

        What the change leaves as None stays as it was.
        """
        ...

    async def list_cap_changes(self) -> dict[str, CapChange]:
        """Return what was said about caps, by cap."""
        ...

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        """Grant this tenant nothing more, on a connector or (empty) on any. Twice is once."""
        ...

    async def resume(self, connector: str, *, now: datetime) -> bool:
        """Take a stop back; say whether there was one."""
        ...

    async def list_stops(self) -> list[Stop]:
        """Return the stops in force for this tenant, those for everybody included."""
        ...


class SharedStore(Protocol):
    """What all tenants and workers share: rates, places, stops. It holds nothing of a tenant's.

    What operators do for everybody has a ledger of its own; each such verb writes its entry in the
    same transaction, never dated earlier than the entry before it.
    """

    @property
    def ledger(self) -> LedgerStore:
        """What operators did for everybody, chained like a tenant's ledger."""
        ...

    async def acquire_call(self, key: str, rate: Rate, *, now: datetime) -> RateDecision:
        """Ask whether a call may go now, and use the turn up if so. Atomic across workers.

        As `core.limits.turn`: what no clock that is about right can have left is not believed.
        """
        ...

    async def delay_until(self, key: str, *, until: datetime) -> None:
        """Let nothing go under this key before then; it never makes it sooner.

        For a rate with a burst, `until` is what `core.limits.rest` says: otherwise the burst
        would come early. A moment further off than `acquire_call` believes is not waited for.
        """
        ...

    async def find_next_at(self, key: str) -> datetime | None:
        """Return what is remembered of a key for `core.limits.turn`, using nothing up.

        None when nothing ever went under it.
        """
        ...

    async def acquire_slot(
        self, name: str, *, places: int, owner: str, until: datetime, now: datetime
    ) -> bool:
        """Take one of so many places, if one is free or its holder's lease has ended.

        An owner holds at most one place of a name; taking it again lengthens its lease.
        """
        ...

    async def release_slot(self, name: str, *, owner: str) -> None:
        """Make the owner's place free. Leaving twice is once."""
        ...

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        """Grant nobody anything more, on a connector or (empty) on any. Twice is once."""
        ...

    async def resume(self, connector: str, *, now: datetime) -> bool:
        """Take a stop for everybody back; say whether there was one."""
        ...

    async def list_stops(self) -> list[Stop]:
        """Return the stops in force for everybody."""
        ...

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        """Remember what an operator said about a cap that tenants share, with a ledger entry."""
        ...

    async def list_cap_changes(self) -> dict[str, CapChange]:
        """Return what was said about shared caps, by cap."""
        ...

    async def list_usage(self) -> list[CapUsage]:
        """Return what every shared cap has given away, for operators only."""
        ...


def filter_stops(stops: Iterable[Stop], asked: Collection[str]) -> tuple[Stop, ...]:
    """Return the stops by which whoever asks these connectors is refused, in part or altogether."""
    return tuple(stop for stop in stops if asked and stop.connector in {"", *asked})
