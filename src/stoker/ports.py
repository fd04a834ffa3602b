"""What the engine needs from the world, and nothing more.

Every verb on a store is written once per backend, so a verb earns its place: it says what the
product means, it is atomic, and it happens wholly or not at all. Stores are told the time; they
never ask for it. All moments are aware; what comes back is in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from stoker.accounts import AccountStore, Directory, NightStore
from stoker.attention import AttentionStore
from stoker.core.budget import Cap, CapChange, Refused, Request, Used
from stoker.core.budget_windows import ResetRule
from stoker.core.events import Event
from stoker.core.holds import Hold, Phase
from stoker.core.leases import Lease
from stoker.core.ledger import Entry, Note
from stoker.core.limits import Rate, Turn
from stoker.core.model import Enriched, Job, JobScore, TenantId
from stoker.core.runs import CancelRequest, Run, RunKey
from stoker.core.slots import Slot
from stoker.listings import ListingStore
from stoker.sources import AnswerStore, PageStore, RegistryStore
from stoker.touches import TouchStore

Observer = Callable[[Event], None]
"""Is told what happened. It must not raise, wait, or decide anything."""


class Clock(Protocol):
    """The only way anything in Stoker learns what time it is."""

    def now(self) -> datetime:
        """Return the wall clock's time, in UTC. It may jump, also backwards."""
        ...

    def elapsed(self) -> timedelta:
        """Return the time since some fixed moment, on a clock that only goes forward."""
        ...

    async def sleep(self, duration: timedelta) -> None:
        """Wait."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """How much a set of runs takes up. Rows are exact; bytes are what the backend can tell."""

    runs: int = 0
    rows: int = 0
    bytes: int = 0


class RunStore(Protocol):
    """One tenant's runs and what they found."""

    async def insert_run(self, run: Run) -> None:
        """Remember a run that is starting.

        Raises ConflictError when this tenant already has a run with that timestamp, or the run
        given has already ended.
        """
        ...

    async def finish_run(self, run: Run) -> None:
        """Replace a running run with its end.

        Raises ConflictError, and changes nothing, unless the run is there, still RUNNING, and
        was started under the same epoch: a run given up for dead stays as it was left.
        """
        ...

    async def run(self, at: datetime) -> Run | None:
        """Return the run with this timestamp."""
        ...

    async def runs(self, *, kind: str | None = None, limit: int | None = None) -> list[Run]:
        """Return runs, newest first."""
        ...

    async def ask_to_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        """Ask a run to stop, while it is RUNNING; return the request that stands.

        Twice is once: whoever asked first is the one who asked. None, with nothing written, when
        the run has ended or is not there. Whoever carries it out reads this every few seconds.
        """
        ...

    async def cancel_request(self, at: datetime) -> CancelRequest | None:
        """Return who asked this run to stop, if anybody did while it was RUNNING."""
        ...

    async def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        """Remember postings under a run; return how many were new to it.

        A posting already there is left as it is. Raises ConflictError, and writes nothing,
        unless the key's run is RUNNING under the key's epoch.
        """
        ...

    async def insert_enriched(self, key: RunKey, enriched: Sequence[Enriched]) -> int:
        """Remember what enrichment made of postings; return how many were new.

        As `insert_jobs`; and PermanentError, with nothing written, when one of them speaks of a
        posting that this run does not have.
        """
        ...

    async def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        """Remember scores of postings; as `insert_enriched`."""
        ...

    async def jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        """Return one page of a run's postings, in id order, beginning after an id."""
        ...

    async def enriched(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Enriched]:
        """Return one page of a run's enriched postings, in id order."""
        ...

    async def scores(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[JobScore]:
        """Return one page of a run's scores, in id order."""
        ...

    async def weigh(self, ats: Sequence[datetime]) -> Weight:
        """Return what `prune` would remove, without removing it."""
        ...

    async def prune(self, ats: Sequence[datetime]) -> Weight:
        """Forget these runs and everything under them; return what went.

        A timestamp that names no run is passed over, and so is a run that is still RUNNING.
        """
        ...


class ScheduleStore(Protocol):
    """One tenant's record of what was due, and who acts on it."""

    async def lease(self, name: str) -> Lease | None:
        """Return the lease of this name as it is now."""
        ...

    async def swap_lease(self, seen: Lease | None, wanted: Lease) -> bool:
        """Replace the lease by `wanted` if it is still exactly `seen`; say whether it was.

        Atomic: of many callers that saw the same lease, one is told yes. `seen` None means that
        there was none.
        """
        ...

    async def decide_slot(self, slot: Slot, *, fence: Lease | None) -> bool:
        """Write down what became of an instant, and a ledger entry saying so, if nobody has yet.

        Both are there afterwards, or neither. True to the one whose record stands, False to
        everybody else. With a fence, raises ConflictError and writes nothing unless the lease of
        that name still has the fence's owner and epoch.
        """
        ...

    async def slots(
        self, schedule: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[Slot]:
        """Return decided instants with since <= instant < until, oldest first."""
        ...

    async def last_slot(self, schedule: str, *, until: datetime | None = None) -> Slot | None:
        """Return the latest decided instant, at or before `until` if that is given."""
        ...

    async def latest_decision_at(self) -> datetime | None:
        """Return the moment of the newest ledger entry: time has been this late before."""
        ...


class LedgerStore(Protocol):
    """One tenant's ledger: it grows, and nothing else."""

    async def append(self, notes: Sequence[Note]) -> list[Entry]:
        """Add notes in order, each chained to the one before; return them as entries.

        Atomic, and of two callers one comes wholly after the other, so `seq` has no gaps.
        """
        ...

    async def entries(self, *, after: int = 0, limit: int = 1000) -> list[Entry]:
        """Return one page of the ledger in order, beginning after a seq."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one cap has given away in one window."""

    cap: str
    window: str
    used: Used


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A standing order not to spend: for everybody or one tenant, on every connector or one."""

    tenant: TenantId | None
    connector: str  # empty: every connector
    since: datetime
    reason: str


class MoneyStore(Protocol):
    """One tenant's promises and what became of them: the gate everything that costs goes through.

    After every commit, on every cap, settled + reserved <= limit, except by what a vendor charged
    above its promise and by a cap that was lowered. Each verb writes its ledger entry in the same
    transaction; refusals are entries too. Times are never taken to be earlier than the ledger's.
    """

    async def reserve(
        self,
        request: Request,
        *,
        caps: Sequence[Cap],
        reset: ResetRule,
        owner: str,
        until: datetime,
        now: datetime,
    ) -> Hold | Refused:
        """Promise to spend, if it fits into all the caps it falls under; otherwise into none.

        Atomic: of two callers racing for the last of a budget, one is told no. The same key again
        is the same hold as it now stands; with another fingerprint, ConflictError. Refused, with
        nothing charged and the key still good, when a cap is full, a stop is in force or the
        clock went back. What windows gave away that overlap the one of now, because `reset` was
        another one before, counts too. Raises ConfigError when a unit has no cap at all.
        """
        ...

    async def sent(self, key: str, *, now: datetime) -> Hold:
        """Say that a HELD promise may be acted on from now on. As `core.holds.sent`."""
        ...

    async def settle(self, key: str, actual: Mapping[str, int], *, now: datetime) -> Hold:
        """Turn a promise into what it really cost. As `core.holds.settled`.

        A promise that was given back meanwhile is settled late. Raises ConflictError when there
        is no such key.
        """
        ...

    async def release(self, key: str, *, reason: str, now: datetime) -> Hold:
        """Give a promise back whole: nothing was done. As `core.holds.released`."""
        ...

    async def keep_aside(self, key: str, *, reason: str, now: datetime) -> Hold:
        """Keep a promise whose outcome nobody knows. As `core.holds.uncertain`."""
        ...

    async def renew(self, owner: str, *, until: datetime, now: datetime) -> int:
        """Lengthen the lease of everything this owner has HELD or SENT; return how many.

        By as much as lies between `now` and `until`, also for an owner whose clock is behind.
        """
        ...

    async def expire(self, *, now: datetime) -> list[Hold]:
        """Deal with every promise whose owner fell silent; return them as they now stand.

        As `core.holds.lapsed`: never sent comes back, maybe sent is kept aside.
        """
        ...

    async def hold(self, key: str) -> Hold | None:
        """Return a promise by its key."""
        ...

    async def holds(
        self, *, phases: Sequence[Phase], after: str = "", limit: int = 1000
    ) -> list[Hold]:
        """Return one page of the promises in these phases, in key order."""
        ...

    async def usage(self) -> list[Usage]:
        """Return what every cap of this tenant has given away, window by window, sorted.

        Shared caps are not among them.
        """
        ...

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        """Remember what a person said about a cap, with a ledger entry.

        What the change leaves as None stays as it was.
        """
        ...

    async def cap_changes(self) -> dict[str, CapChange]:
        """Return what was said about caps, by cap."""
        ...

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        """Grant this tenant nothing more, on a connector or (empty) on any. Twice is once."""
        ...

    async def resume(self, connector: str, *, now: datetime) -> bool:
        """Take a stop back; say whether there was one."""
        ...

    async def stops(self) -> list[Stop]:
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

    async def turn(self, key: str, rate: Rate, *, now: datetime) -> Turn:
        """Ask whether a call may go now, and use the turn up if so. Atomic across workers.

        As `core.limits.turn`: what no clock that is about right can have left is not believed.
        """
        ...

    async def push_back(self, key: str, *, until: datetime) -> None:
        """Let nothing go under this key before then; it never makes it sooner.

        For a rate with a burst, `until` is what `core.limits.rest` says: otherwise the burst
        would come early. A moment further off than `turn` believes is not waited for.
        """
        ...

    async def next_at(self, key: str) -> datetime | None:
        """Return what is remembered of a key for `core.limits.turn`, using nothing up.

        None when nothing ever went under it.
        """
        ...

    async def take_place(
        self, name: str, *, places: int, owner: str, until: datetime, now: datetime
    ) -> bool:
        """Take one of so many places, if one is free or its holder's lease has ended.

        An owner holds at most one place of a name; taking it again lengthens its lease.
        """
        ...

    async def leave_place(self, name: str, *, owner: str) -> None:
        """Make the owner's place free. Leaving twice is once."""
        ...

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        """Grant nobody anything more, on a connector or (empty) on any. Twice is once."""
        ...

    async def resume(self, connector: str, *, now: datetime) -> bool:
        """Take a stop for everybody back; say whether there was one."""
        ...

    async def stops(self) -> list[Stop]:
        """Return the stops in force for everybody."""
        ...

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        """Remember what an operator said about a cap that tenants share, with a ledger entry."""
        ...

    async def cap_changes(self) -> dict[str, CapChange]:
        """Return what was said about shared caps, by cap."""
        ...

    async def usage(self) -> list[Usage]:
        """Return what every shared cap has given away, for operators only."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One tenant's memory. There is no verb on it that can reach another tenant's."""

    tenant: TenantId
    runs: RunStore
    schedule: ScheduleStore
    ledger: LedgerStore
    money: MoneyStore
    pages: PageStore
    answers: AnswerStore
    accounts: AccountStore
    nights: NightStore
    touches: TouchStore
    attention: AttentionStore
    listings: ListingStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing a backend can say about its own health, in words an operator can act on."""

    what: str
    ok: bool
    detail: str


class Backend(Protocol):
    """Where stores live. The only place a tenant is named."""

    def tenant(self, tenant: TenantId) -> Store:
        """Open a tenant's door. A tenant never seen before has an empty store."""
        ...

    def shared(self) -> SharedStore:
        """Open what belongs to no tenant."""
        ...

    def registry(self) -> RegistryStore:
        """Open the public register of companies."""
        ...

    def directory(self) -> Directory:
        """Open the list of who the tenants are."""
        ...

    async def migrate(self) -> list[str]:
        """Bring the schema up to this program's version; return the steps taken, none if current.

        Every step happens once, in a transaction. Raises ConfigError when the schema is newer
        than this program.
        """
        ...

    async def schema_version(self) -> int:
        """Return the version of the schema as it is, 0 when there is none yet."""
        ...

    async def checks(self) -> list[Check]:
        """Look after the backend's own health; what is wrong comes back as a check, not raised."""
        ...

    async def close(self) -> None:
        """Finish what was asked, then let go of files and connections. Closing twice is once."""
        ...
