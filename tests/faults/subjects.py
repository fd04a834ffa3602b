"""What is being broken, seen as a line of steps: after a fault, a beginning of the line is there.

A subject is opened on a path (`open`), performs step after step (`perform`, whose return is the
acknowledgement), and returns how many it has (`kept`; BrokenError unless that is a beginning).
Stores perform a whole small run again and again; the naive twins in `twins.py` do the least that
can be lost. `kept` is the judge, and the same one for both.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from stoker.backends.json import JsonBackend
from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import EnrichedJob, Job, JobScore, TenantId
from stoker.context import Backend, TenantStores
from stoker.ledger.chain import LedgerEntry, NewEntry, find_first_break
from stoker.runs.model import Run, RunKey, RunState
from stoker.scheduling.model import OccurrenceResult, OccurrenceState, build_occurrence_entry

FIRST_RUN = datetime(2030, 1, 1, tzinfo=UTC)
VERBS = ("run", "jobs", "more jobs", "enriched", "scores", "slot", "notes", "end")


class BrokenError(AssertionError):
    """A promise did not hold. The text says which, and where."""


def whole(*, expected: Sequence[object], found: Sequence[object], what: str) -> bool:
    """Say whether all of it is there, or none; anything between is BrokenError."""
    there = [thing in found for thing in expected]
    if any(there) and not all(there):
        raise BrokenError(f"{what}: {sum(there)} of {len(there)} are there; it was one verb")
    return all(there)


def beginning(there: Sequence[bool]) -> int:
    """Return how many steps are there; a step without the one before it is BrokenError."""
    kept = there.index(False) if False in there else len(there)
    if any(there[kept:]):
        raise BrokenError(f"step {kept} is gone, but a later one is there")
    return kept


class Stored:
    """A backend, and one small run after another in each tenant's store."""

    def __init__(self, make: Callable[[], Backend]) -> None:
        self._make = make
        self._backend: Backend | None = None

    async def open(self) -> None:
        self._backend = self._make()
        await self._backend.migrate()

    def look(self) -> None:
        """Open without making or migrating anything."""
        self._backend = self._make()

    async def close(self) -> None:
        if self._backend is not None:
            await self._backend.close()

    def store(self, lane: int) -> TenantStores:
        assert self._backend is not None
        return self._backend.tenant(TenantId(f"lane{lane}"))

    async def perform(self, lane: int, step: int) -> None:
        at = FIRST_RUN + timedelta(seconds=step // len(VERBS))
        store, key = self.store(lane), RunKey(at, 1)
        match VERBS[step % len(VERBS)]:
            case "run":
                await store.runs.insert_run(_run(at))
            case "jobs":
                await store.runs.insert_jobs(key, _jobs(at)[:4])
            case "more jobs":
                await store.runs.insert_jobs(key, _jobs(at)[4:])
            case "enriched":
                await store.runs.insert_enriched(key, _enriched(at))
            case "scores":
                await store.runs.insert_scores(key, _scores(at))
            case "slot":
                if not await store.schedule.record_result(_slot(at), fence=None):
                    raise BrokenError(f"slot {at} was decided, but not by us")
            case "notes":
                await store.ledger.append(_notes(at))
            case "end":
                await store.runs.finish_run(_ended(at))

    async def kept(self, lane: int) -> int:
        store = self.store(lane)
        entries = await _whole_ledger(store)
        if (seq := find_first_break(entries)) is not None:
            raise BrokenError(f"the ledger's chain does not hold at {seq}")
        notes = [_note(entry) for entry in entries]
        slots = await store.schedule.list_results("nightly")
        ats = [run.at for run in reversed(await store.runs.list_runs())]
        if ats != [FIRST_RUN + timedelta(seconds=nth) for nth in range(len(ats))]:
            raise BrokenError(f"the runs are not a beginning: {ats}")
        there = [found for at in ats for found in await self._kept_of(store, at, notes, slots)]
        # Every run has one slot and three lines in the ledger; nothing else may be in there.
        done = beginning(there)
        rounds, rest = divmod(done, len(VERBS))
        lines = 3 * rounds + (1 if rest > 5 else 0) + (2 if rest > 6 else 0)
        if (len(slots), len(notes)) != (rounds + (rest > 5), lines):
            raise BrokenError(
                f"after {done} steps: {len(slots)} slots and {len(notes)} ledger lines"
            )
        return done

    async def _kept_of(
        self,
        store: TenantStores,
        at: datetime,
        notes: list[NewEntry],
        slots: list[OccurrenceResult],
    ) -> list[bool]:
        run = await store.runs.find_run(at)
        if run not in (_run(at), _ended(at)):
            raise BrokenError(f"a run nobody wrote: {run}")
        jobs = await store.runs.list_jobs(at)
        enriched = await store.runs.list_enriched(at)
        scores = await store.runs.list_scores(at)
        if (len(jobs), len(enriched), len(scores)) > (8, 8, 8):
            raise BrokenError(f"more under {at} than was ever given")
        slot = _slot(at)
        return [
            True,
            whole(expected=_jobs(at)[:4], found=jobs, what="jobs"),
            whole(expected=_jobs(at)[4:], found=jobs, what="more jobs"),
            whole(expected=_enriched(at), found=enriched, what="enriched"),
            whole(expected=_scores(at), found=scores, what="scores"),
            # Both or neither: a decided instant and the ledger's line about it.
            whole(
                expected=[slot, build_occurrence_entry(slot)], found=[*slots, *notes], what="slot"
            ),
            whole(expected=_notes(at), found=notes, what="notes"),
            run == _ended(at),
        ]


async def _whole_ledger(store: TenantStores) -> list[LedgerEntry]:
    entries: list[LedgerEntry] = []
    while page := await store.ledger.list_entries(after=len(entries)):
        entries += page
    return entries


def sqlite(path: Path) -> Stored:
    """The default store, in one database file."""
    return Stored(lambda: SqliteBackend(path / "stoker.db"))


def json_files(path: Path) -> Stored:
    """Runs in files, and the schedule in the database beside them."""
    return Stored(
        lambda: JsonBackend(path / "runs", database=path / "stoker.db"),
    )


STORES = {"sqlite": sqlite, "json": json_files}


def _run(at: datetime) -> Run:
    return Run(key=RunKey(at, 1), kind="nightly", instant=at)


def _ended(at: datetime) -> Run:
    return _run(at).end(RunState.DONE, at=at + timedelta(seconds=1), reason="all done")


# Judges ask for these thousands of times.
@cache
def _jobs(at: datetime) -> tuple[Job, ...]:
    where = f"https://example.test/{at:%H%M%S}"
    return tuple(
        Job.create(source="board", url=f"{where}/{nth}", title=f"Rôle {nth}") for nth in range(8)
    )


@cache
def _enriched(at: datetime) -> tuple[EnrichedJob, ...]:
    return tuple(
        EnrichedJob(job=job.id, title=job.title.lower(), stack=("go",)) for job in _jobs(at)
    )


@cache
def _scores(at: datetime) -> tuple[JobScore, ...]:
    return tuple(
        JobScore(job=job.id, score=nth / 8, bucket="weak", components={"stack": nth / 8})
        for nth, job in enumerate(_jobs(at))
    )


def _slot(at: datetime) -> OccurrenceResult:
    return OccurrenceResult(
        schedule="nightly",
        due_at=at,
        state=OccurrenceState.STARTED,
        decided_at=at,
        reason="due",
        run_at=at,
    )


def _notes(at: datetime) -> list[NewEntry]:
    return [
        NewEntry(at=at, kind="NOTE", subject=f"{at}/{nth}", reason="why not") for nth in range(2)
    ]


def _note(entry: LedgerEntry) -> NewEntry:
    return NewEntry(
        at=entry.at,
        kind=entry.kind,
        subject=entry.subject,
        reason=entry.reason,
        data=entry.data,
    )
