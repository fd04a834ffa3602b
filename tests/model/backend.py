"""Everything in dictionaries. Gone when the process ends; the model the other stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from model.accounts import MemoryAccounts, MemoryDirectory
from model.attention import MemoryPullStore
from model.knowledge import MemoryAnswers, MemoryPages
from model.listings import MemoryListings
from model.money import MemoryBudgetStore
from model.nights import MemoryNights
from model.registry import MemoryRegistry
from model.shared import MemorySharedStore
from model.touches import MemoryTouches
from stoker.base.errors import ConflictError, PermanentError
from stoker.base.types import EnrichedJob, Job, JobId, JobScore, TenantId, parse_tenant_id, to_utc
from stoker.context import TenantStores
from stoker.db.codec import validate_text
from stoker.db.database import Check
from stoker.ledger import chain as ledger
from stoker.ledger.chain import LedgerEntry, NewEntry, validate_new_entry
from stoker.runs import schema
from stoker.runs.leases import Lease
from stoker.runs.model import (
    CancelRequest,
    Run,
    RunKey,
    RunState,
    StorageSize,
)
from stoker.scheduling.model import (
    OccurrenceResult,
    build_occurrence_entry,
)
from stoker.scheduling.schema import LEASES, RESULTS


class _AboutJob(Protocol):
    @property
    def job(self) -> JobId: ...


_Kind = TypeVar("_Kind")

_About = TypeVar("_About", bound=_AboutJob)


@dataclass(kw_only=True)
class _Artifacts:
    jobs: dict[JobId, Job] = field(default_factory=dict)
    enriched: dict[JobId, EnrichedJob] = field(default_factory=dict)
    scores: dict[JobId, JobScore] = field(default_factory=dict)


@dataclass(kw_only=True)
class _StoredRun(_Artifacts):
    run: Run
    request: CancelRequest | None = None

    @property
    def rows(self) -> int:
        return 1 + len(self.jobs) + len(self.enriched) + len(self.scores)


class MemoryRunStore:
    """A `RunStore` for tests, demos and a first afternoon with the product."""

    def __init__(self) -> None:
        self._runs: dict[datetime, _StoredRun] = {}

    async def insert_run(self, run: Run) -> None:
        run = schema.RUNS.store(run)
        if run.state is not RunState.RUNNING:
            raise ConflictError(f"run {run.name} has already ended as {run.state}")
        if run.at in self._runs:
            raise ConflictError(f"there is already a run {run.name}")
        self._runs[run.at] = _StoredRun(run=run)

    async def finish_run(self, run: Run) -> None:
        run = schema.RUNS.store(run)
        if run.state is RunState.RUNNING:
            raise ConflictError(f"run {run.name} has not ended")
        self._get_open(run.key).run = run

    async def find_run(self, at: datetime) -> Run | None:
        kept = self._runs.get(to_utc(at))
        return kept.run if kept else None

    async def list_runs(
        self,
        *,
        kind: str | None = None,
        state: RunState | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        if kind is not None:
            validate_text(kind, what="a run's kind")
        newest_first = [self._runs[at].run for at in sorted(self._runs, reverse=True)]
        return [
            run
            for run in newest_first
            if kind in (None, run.kind)
            and state in (None, run.state)
            and (since is None or run.at >= since)
        ][:limit]

    async def request_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        request, kept = schema.CANCEL_REQUESTS.store(request), self._runs.get(to_utc(at))
        if kept is None or kept.run.state is not RunState.RUNNING:
            return None
        kept.request = kept.request or request
        return kept.request

    async def find_cancel_request(self, at: datetime) -> CancelRequest | None:
        kept = self._runs.get(to_utc(at))
        return kept.request if kept else None

    async def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        kept = self._get_open(key)
        before = len(kept.jobs)
        for job in [schema.JOBS.store(job) for job in jobs]:
            kept.jobs.setdefault(job.id, job)
        return len(kept.jobs) - before

    async def insert_enriched(self, key: RunKey, enriched: Sequence[EnrichedJob]) -> int:
        kept = self._get_open(key)
        return _add_items(
            kept.enriched, [schema.ENRICHED.store(item) for item in enriched], kept.jobs
        )

    async def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        kept = self._get_open(key)
        return _add_items(kept.scores, [schema.SCORES.store(item) for item in scores], kept.jobs)

    async def list_jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        return _list_page(self._get_artifacts(at).jobs, after=after, limit=limit)

    async def list_enriched(
        self, at: datetime, *, after: str = "", limit: int = 1000
    ) -> list[EnrichedJob]:
        return _list_page(self._get_artifacts(at).enriched, after=after, limit=limit)

    async def list_scores(
        self, at: datetime, *, after: str = "", limit: int = 1000
    ) -> list[JobScore]:
        return _list_page(self._get_artifacts(at).scores, after=after, limit=limit)

    async def measure_runs(self, ats: Sequence[datetime]) -> StorageSize:
        going = [self._runs[at] for at in self._list_deletable(ats)]
        size = sum(len(repr(kept)) for kept in going)
        return StorageSize(runs=len(going), rows=sum(kept.rows for kept in going), bytes=size)

    async def delete_runs(self, ats: Sequence[datetime]) -> StorageSize:
        weight = await self.measure_runs(ats)
        for at in self._list_deletable(ats):
            del self._runs[at]
        return weight

    def _get_artifacts(self, at: datetime) -> _Artifacts:
        return self._runs.get(to_utc(at)) or _Artifacts()

    def _list_deletable(self, ats: Iterable[datetime]) -> list[datetime]:
        there = {to_utc(at) for at in ats} & self._runs.keys()
        return [at for at in there if self._runs[at].run.state is not RunState.RUNNING]

    def _get_open(self, key: RunKey) -> _StoredRun:
        kept = self._runs.get(key.at)
        if kept is None or kept.run.state is not RunState.RUNNING or kept.run.key != key:
            raise ConflictError("this run has ended or is not ours; nothing was written")
        return kept


class MemoryLedgerStore:
    """A `LedgerStore` in a list."""

    def __init__(self) -> None:
        self._entries: list[LedgerEntry] = []

    async def append(self, notes: Sequence[NewEntry]) -> list[LedgerEntry]:
        return self.add(notes)

    async def list_entries(self, *, after: int = 0, limit: int = 1000) -> list[LedgerEntry]:
        return [entry for entry in self._entries if entry.seq > after][:limit]

    @property
    def latest_at(self) -> datetime | None:
        """The moment of the last entry."""
        return self._entries[-1].at if self._entries else None

    def add(self, notes: Sequence[NewEntry]) -> list[LedgerEntry]:
        """Append without waiting, so that another verb can do so as part of itself."""
        kept = [validate_new_entry(note) for note in notes]
        entries = ledger.chain_entries(kept, after=self._entries[-1] if self._entries else None)
        self._entries += entries
        return entries


class MemoryScheduleStore:
    """A `ScheduleStore` in two dictionaries."""

    def __init__(self, book: MemoryLedgerStore) -> None:
        self._ledger = book
        self._leases: dict[str, Lease] = {}
        self._results: dict[tuple[str, datetime], OccurrenceResult] = {}

    async def find_lease(self, name: str) -> Lease | None:
        return self._leases.get(validate_text(name, what="a lease's name"))

    async def swap_lease(self, seen: Lease | None, wanted: Lease) -> bool:
        wanted, seen = LEASES.store(wanted), seen and LEASES.store(seen)
        if self._leases.get(wanted.name) != seen:
            return False
        self._leases[wanted.name] = wanted
        return True

    async def record_result(self, slot: OccurrenceResult, *, fence: Lease | None) -> bool:
        slot, fence = RESULTS.store(slot), fence and LEASES.store(fence)
        if fence is not None:
            now = self._leases.get(fence.name)
            if now is None or (now.owner, now.fencing_token) != (fence.owner, fence.fencing_token):
                raise ConflictError(f"the lease {fence.name} is not ours; nothing was written")
        place = (slot.schedule, slot.due_at)
        if place in self._results:
            return False
        self._results[place] = slot
        self._ledger.add([build_occurrence_entry(slot, latest=self._ledger.latest_at)])
        return True

    async def list_results(
        self, schedule: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[OccurrenceResult]:
        validate_text(schedule, what="a schedule's name")
        since, until = since and to_utc(since), until and to_utc(until)
        return [
            slot
            for (name, instant), slot in sorted(self._results.items(), key=lambda item: item[0])
            if name == schedule
            and (since is None or instant >= since)
            and (until is None or instant < until)
        ]

    async def find_last_result(
        self, schedule: str, *, until: datetime | None = None
    ) -> OccurrenceResult | None:
        until = until and to_utc(until)
        decided = [
            slot
            for slot in await self.list_results(schedule)
            if until is None or slot.due_at <= until
        ]
        return decided[-1] if decided else None

    async def find_latest_entry_at(self) -> datetime | None:
        return self._ledger.latest_at


class MemoryBackend:
    """A `Backend` in this process."""

    def __init__(self) -> None:
        self._stores: dict[TenantId, TenantStores] = {}
        self._shared = MemorySharedStore(MemoryLedgerStore())
        self._registry = MemoryRegistry()
        self._directory = MemoryDirectory()

    def tenant(self, tenant: TenantId) -> TenantStores:
        parse_tenant_id(tenant)  # a door that cannot be named plainly is not opened
        if tenant not in self._stores:
            book = MemoryLedgerStore()
            attention = MemoryPullStore(book)
            accounts = MemoryAccounts(attention)
            self._stores[tenant] = TenantStores(
                tenant=tenant,
                runs=MemoryRunStore(),
                schedule=MemoryScheduleStore(book),
                ledger=book,
                money=MemoryBudgetStore(tenant, book, self._shared),
                pages=MemoryPages(),
                answers=MemoryAnswers(),
                accounts=accounts,
                nights=MemoryNights(accounts),
                touches=MemoryTouches(),
                attention=attention,
                listings=MemoryListings(),
            )
        return self._stores[tenant]

    def shared(self) -> MemorySharedStore:
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


def _add_items(kept: dict[JobId, _About], items: Sequence[_About], jobs: dict[JobId, Job]) -> int:
    before = len(kept)
    for item in items:
        if item.job not in jobs:
            raise PermanentError(f"this run has no posting {item.job}; nothing was written")
    for item in items:
        kept.setdefault(item.job, item)
    return len(kept) - before


def _list_page(kept: dict[JobId, _Kind], *, after: str, limit: int) -> list[_Kind]:
    validate_text(after, what="a posting's id")
    return [kept[job] for job in sorted(kept) if job > after][:limit]
