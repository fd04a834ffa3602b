"""Everything in dictionaries. Gone when the process ends; the model the other stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from stoker.base.errors import ConflictError, PermanentError
from stoker.base.types import Enriched, Job, JobId, JobScore, TenantId, in_utc, tenant_id
from stoker.context import Store
from stoker.db.codec import kept_enriched, kept_job, kept_score, kept_text
from stoker.db.database import Check
from stoker.ledger import chain as ledger
from stoker.ledger.chain import Entry, Note, kept_note
from stoker.memory.accounts import MemoryAccounts, MemoryDirectory
from stoker.memory.attention import MemoryAttention
from stoker.memory.knowledge import MemoryAnswers, MemoryPages
from stoker.memory.listings import MemoryListings
from stoker.memory.money import MemoryMoney
from stoker.memory.nights import MemoryNights
from stoker.memory.registry import MemoryRegistry
from stoker.memory.shared import MemoryShared
from stoker.memory.touches import MemoryTouches
from stoker.runs.leases import Lease, kept_lease
from stoker.runs.model import CancelRequest, Run, RunKey, RunState, Weight, kept_request, kept_run
from stoker.scheduling.model import Slot, kept_slot, slot_note


class _AboutJob(Protocol):
    @property
    def job(self) -> JobId: ...


_Kind = TypeVar("_Kind")

_About = TypeVar("_About", bound=_AboutJob)


@dataclass(kw_only=True)
class _Found:
    jobs: dict[JobId, Job] = field(default_factory=dict)
    enriched: dict[JobId, Enriched] = field(default_factory=dict)
    scores: dict[JobId, JobScore] = field(default_factory=dict)


@dataclass(kw_only=True)
class _Kept(_Found):
    run: Run
    request: CancelRequest | None = None

    @property
    def rows(self) -> int:
        return 1 + len(self.jobs) + len(self.enriched) + len(self.scores)


class MemoryRuns:
    """A `RunStore` for tests, demos and a first afternoon with the product."""

    def __init__(self) -> None:
        self._kept: dict[datetime, _Kept] = {}

    async def insert_run(self, run: Run) -> None:
        run = kept_run(run)
        if run.state is not RunState.RUNNING:
            raise ConflictError(f"run {run.name} has already ended as {run.state}")
        if run.at in self._kept:
            raise ConflictError(f"there is already a run {run.name}")
        self._kept[run.at] = _Kept(run=run)

    async def finish_run(self, run: Run) -> None:
        run = kept_run(run)
        if run.state is RunState.RUNNING:
            raise ConflictError(f"run {run.name} has not ended")
        self._open(run.key).run = run

    async def run(self, at: datetime) -> Run | None:
        kept = self._kept.get(in_utc(at))
        return kept.run if kept else None

    async def runs(self, *, kind: str | None = None, limit: int | None = None) -> list[Run]:
        if kind is not None:
            kept_text(kind, what="a run's kind")
        newest_first = [self._kept[at].run for at in sorted(self._kept, reverse=True)]
        return [run for run in newest_first if kind in (None, run.kind)][:limit]

    async def ask_to_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        request, kept = kept_request(request), self._kept.get(in_utc(at))
        if kept is None or kept.run.state is not RunState.RUNNING:
            return None
        kept.request = kept.request or request
        return kept.request

    async def cancel_request(self, at: datetime) -> CancelRequest | None:
        kept = self._kept.get(in_utc(at))
        return kept.request if kept else None

    async def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        kept = self._open(key)
        before = len(kept.jobs)
        for job in [kept_job(job) for job in jobs]:
            kept.jobs.setdefault(job.id, job)
        return len(kept.jobs) - before

    async def insert_enriched(self, key: RunKey, enriched: Sequence[Enriched]) -> int:
        kept = self._open(key)
        return _add(kept.enriched, [kept_enriched(item) for item in enriched], kept.jobs)

    async def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        kept = self._open(key)
        return _add(kept.scores, [kept_score(item) for item in scores], kept.jobs)

    async def jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        return _page(self._found(at).jobs, after=after, limit=limit)

    async def enriched(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Enriched]:
        return _page(self._found(at).enriched, after=after, limit=limit)

    async def scores(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[JobScore]:
        return _page(self._found(at).scores, after=after, limit=limit)

    async def weigh(self, ats: Sequence[datetime]) -> Weight:
        going = [self._kept[at] for at in self._prunable(ats)]
        size = sum(len(repr(kept)) for kept in going)
        return Weight(runs=len(going), rows=sum(kept.rows for kept in going), bytes=size)

    async def prune(self, ats: Sequence[datetime]) -> Weight:
        weight = await self.weigh(ats)
        for at in self._prunable(ats):
            del self._kept[at]
        return weight

    def _found(self, at: datetime) -> _Found:
        return self._kept.get(in_utc(at)) or _Found()

    def _prunable(self, ats: Iterable[datetime]) -> list[datetime]:
        there = {in_utc(at) for at in ats} & self._kept.keys()
        return [at for at in there if self._kept[at].run.state is not RunState.RUNNING]

    def _open(self, key: RunKey) -> _Kept:
        kept = self._kept.get(key.at)
        if kept is None or kept.run.state is not RunState.RUNNING or kept.run.key != key:
            raise ConflictError("this run has ended or is not ours; nothing was written")
        return kept


class MemoryLedger:
    """A `LedgerStore` in a list."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    async def append(self, notes: Sequence[Note]) -> list[Entry]:
        return self.add(notes)

    async def entries(self, *, after: int = 0, limit: int = 1000) -> list[Entry]:
        return [entry for entry in self._entries if entry.seq > after][:limit]

    @property
    def latest_at(self) -> datetime | None:
        """The moment of the last entry."""
        return self._entries[-1].at if self._entries else None

    def add(self, notes: Sequence[Note]) -> list[Entry]:
        """Append without waiting, so that another verb can do so as part of itself."""
        kept = [kept_note(note) for note in notes]
        entries = ledger.chained(kept, after=self._entries[-1] if self._entries else None)
        self._entries += entries
        return entries


class MemorySchedule:
    """A `ScheduleStore` in two dictionaries."""

    def __init__(self, book: MemoryLedger) -> None:
        self._ledger = book
        self._leases: dict[str, Lease] = {}
        self._slots: dict[tuple[str, datetime], Slot] = {}

    async def lease(self, name: str) -> Lease | None:
        return self._leases.get(kept_text(name, what="a lease's name"))

    async def swap_lease(self, seen: Lease | None, wanted: Lease) -> bool:
        wanted, seen = kept_lease(wanted), seen and kept_lease(seen)
        if self._leases.get(wanted.name) != seen:
            return False
        self._leases[wanted.name] = wanted
        return True

    async def decide_slot(self, slot: Slot, *, fence: Lease | None) -> bool:
        slot, fence = kept_slot(slot), fence and kept_lease(fence)
        if fence is not None:
            now = self._leases.get(fence.name)
            if now is None or (now.owner, now.epoch) != (fence.owner, fence.epoch):
                raise ConflictError(f"the lease {fence.name} is not ours; nothing was written")
        place = (slot.schedule, slot.instant)
        if place in self._slots:
            return False
        self._slots[place] = slot
        self._ledger.add([slot_note(slot, latest=self._ledger.latest_at)])
        return True

    async def slots(
        self, schedule: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[Slot]:
        kept_text(schedule, what="a schedule's name")
        since, until = since and in_utc(since), until and in_utc(until)
        return [
            slot
            for (name, instant), slot in sorted(self._slots.items(), key=lambda item: item[0])
            if name == schedule
            and (since is None or instant >= since)
            and (until is None or instant < until)
        ]

    async def last_slot(self, schedule: str, *, until: datetime | None = None) -> Slot | None:
        until = until and in_utc(until)
        decided = [
            slot for slot in await self.slots(schedule) if until is None or slot.instant <= until
        ]
        return decided[-1] if decided else None

    async def latest_decision_at(self) -> datetime | None:
        return self._ledger.latest_at


class MemoryBackend:
    """A `Backend` in this process."""

    def __init__(self) -> None:
        self._stores: dict[TenantId, Store] = {}
        self._shared = MemoryShared(MemoryLedger())
        self._registry = MemoryRegistry()
        self._directory = MemoryDirectory()

    def tenant(self, tenant: TenantId) -> Store:
        tenant_id(tenant)  # a door that cannot be named plainly is not opened
        if tenant not in self._stores:
            book, attention = MemoryLedger(), MemoryAttention()
            accounts = MemoryAccounts(attention)
            self._stores[tenant] = Store(
                tenant=tenant,
                runs=MemoryRuns(),
                schedule=MemorySchedule(book),
                ledger=book,
                money=MemoryMoney(tenant, book, self._shared),
                pages=MemoryPages(),
                answers=MemoryAnswers(),
                accounts=accounts,
                nights=MemoryNights(accounts),
                touches=MemoryTouches(),
                attention=attention,
                listings=MemoryListings(),
            )
        return self._stores[tenant]

    def shared(self) -> MemoryShared:
        return self._shared

    def registry(self) -> MemoryRegistry:
        return self._registry

    def directory(self) -> MemoryDirectory:
        return self._directory

    async def migrate(self) -> list[str]:
        return []

    async def schema_version(self) -> int:
        return 0

    async def checks(self) -> list[Check]:
        return [Check(what="store", ok=True, detail="in memory; gone when the process ends")]

    async def close(self) -> None:
        """Nothing to let go of."""


def _add(kept: dict[JobId, _About], items: Sequence[_About], jobs: dict[JobId, Job]) -> int:
    before = len(kept)
    for item in items:
        if item.job not in jobs:
            raise PermanentError(f"this run has no posting {item.job}; nothing was written")
    for item in items:
        kept.setdefault(item.job, item)
    return len(kept) - before


def _page(kept: dict[JobId, _Kind], *, after: str, limit: int) -> list[_Kind]:
    kept_text(after, what="a posting's id")
    return [kept[job] for job in sorted(kept) if job > after][:limit]
