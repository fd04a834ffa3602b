"""Random sequences of verbs, done to the memory store and to others, and compared step by step.

A sequence is told by its seed. What it asks for next depends on the memory store's state, so that
it asks sensible things most of the time and foolish ones often enough.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone

from model.backend import MemoryBackend
from stoker.base.errors import StokerError
from stoker.base.types import EnrichedJob, Job, JobScore, TenantId
from stoker.context import Backend, TenantStores
from stoker.ledger.chain import NewEntry
from stoker.runs.leases import acquire_lease, release_lease, renew_lease
from stoker.runs.model import (
    CancelRequest,
    Manifest,
    Run,
    RunKey,
    RunState,
    StepTiming,
    StorageSize,
)
from stoker.scheduling.model import OccurrenceResult, OccurrenceState

START = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
ENDS = [state for state in RunState if state is not RunState.RUNNING]
TEXTS = ["", "plain", "ünï – 日本語 🙂", "quote ' and \" and \\", "line\nbreak\ttab"]
BAD_TEXTS = ["a\0b", "half \ud800"]
NAMES = ["nightly", "hourly"]
JOBS = [
    Job.create(source="feed", url=f"https://example.com/{n}", title=TEXTS[n % len(TEXTS)])
    for n in range(12)
]

Step = tuple[str, Callable[[TenantStores], Awaitable[object]]]


@dataclass
class Difference:
    """Where a backend said something else than the memory store."""

    seed: int
    step: str
    backend: str
    expected: object
    got: object


class Sequence:
    """One sequence of verbs for two tenants, made up as it goes along."""

    def __init__(self, seed: int, model: MemoryBackend) -> None:
        self.rng = random.Random(seed)
        self.tenants = [TenantId(f"s{seed}-{name}") for name in ("a", "b")]
        self.model = model

    async def next(self) -> tuple[TenantId, Step]:
        tenant = self.rng.choice(self.tenants)
        store = self.model.tenant(tenant)
        make = self.rng.choice(
            [self.run_step] * 4 + [self.found_step] * 5 + [self.lease_step] * 3
            + [self.slot_step] * 3 + [self.ledger_step] * 2 + [self.read_step] * 4
        )  # fmt: skip
        return tenant, await make(store)

    async def run_step(self, store: TenantStores) -> Step:
        run, choice = await self.some_run(store), self.rng.random()
        if choice < 0.45:
            new = replace(run, key=RunKey(self.at(), self.rng.randint(1, 2)))
            return f"insert_run {new}", lambda s: s.runs.insert_run(new)
        if choice < 0.8:
            end = replace(
                run,
                state=self.rng.choice([*ENDS, RunState.RUNNING]) if choice < 0.5 else ENDS[0],
                ended_at=self.to_ledger_time(),
                reason=self.text(),
                manifest=self.manifest(),
            )
            return f"finish_run {end}", lambda s: s.runs.finish_run(end)
        if choice < 0.86:
            at, request = self.at(), CancelRequest(by=self.text(), at=self.to_ledger_time())
            return f"ask_to_cancel {at} {request}", lambda s: s.runs.request_cancel(at, request)
        ats = [self.at() for _ in range(self.rng.randint(0, 3))]
        if choice < 0.93:
            return f"weigh {ats}", lambda s: s.runs.measure_runs(ats)
        return f"prune {ats}", lambda s: s.runs.delete_runs(ats)

    async def found_step(self, store: TenantStores) -> Step:
        key = (await self.some_run(store)).key
        if self.rng.random() < 0.1:
            key = replace(key, fencing_token=self.rng.randint(0, 3))
        jobs = self.rng.sample(JOBS, self.rng.randint(0, 4))
        if self.rng.random() < 0.2:
            jobs = jobs + jobs[:1]
        choice = self.rng.random()
        if choice < 0.5:
            found = [
                replace(
                    job,
                    company=self.text(),
                    posted_at=self.rng.choice([None, self.to_ledger_time()]),
                )
                for job in jobs
            ]
            return f"insert_jobs {key} {found}", lambda s: s.runs.insert_jobs(key, found)
        if choice < 0.75:
            enriched = [
                EnrichedJob(
                    job=job.id,
                    title=self.text(),
                    stack=tuple(self.rng.sample(TEXTS, 2)),
                    remote=self.rng.random() < 0.5,
                )
                for job in jobs
            ]
            return f"insert_enriched {key} {enriched}", (
                lambda s: s.runs.insert_enriched(key, enriched)
            )
        scores = [
            JobScore(
                job=job.id,
                score=self.rng.random(),
                bucket=self.text(),
                components={"fit": self.rng.choice([0.5, 1 / 3, float("nan")])},
            )
            for job in jobs
        ]
        return f"insert_scores {key} {scores}", lambda s: s.runs.insert_scores(key, scores)

    async def lease_step(self, store: TenantStores) -> Step:
        name = self.rng.choice(NAMES)
        now = await store.schedule.find_lease(name)
        seen = (
            now
            if self.rng.random() < 0.7
            else self.rng.choice([None, now and release_lease(now, now=START)])
        )
        length = timedelta(seconds=self.rng.randint(1, 60))
        wanted = acquire_lease(
            name, now, owner=self.text(), task=self.text(), now=self.to_ledger_time(), length=length
        )
        if now and self.rng.random() < 0.4:
            wanted = renew_lease(now, now=self.to_ledger_time(), length=length)
        return f"swap_lease {seen} {wanted}", lambda s: s.schedule.swap_lease(seen, wanted)

    async def slot_step(self, store: TenantStores) -> Step:
        fence = await store.schedule.find_lease(self.rng.choice(NAMES))
        if fence and self.rng.random() < 0.2:
            fence = replace(fence, fencing_token=fence.fencing_token - 1)
        if self.rng.random() < 0.3:
            fence = None
        slot = OccurrenceResult(
            schedule=self.rng.choice(NAMES),
            due_at=self.at(),
            state=self.rng.choice(list(OccurrenceState)),
            decided_at=self.to_ledger_time(),
            reason=self.text(),
            run_at=self.rng.choice([None, self.at()]),
        )
        return f"decide_slot {slot} {fence}", lambda s: s.schedule.record_result(slot, fence=fence)

    async def ledger_step(self, store: TenantStores) -> Step:
        notes = [
            NewEntry(
                at=self.to_ledger_time(),
                kind="NOTE",
                subject=self.text(),
                reason=self.text(),
                data={"text": self.text(), "number": self.rng.choice([1, 0.1, None, True])},
            )
            for _ in range(self.rng.randint(0, 3))
        ]
        return f"append {notes}", lambda s: s.ledger.append(notes)

    async def read_step(self, store: TenantStores) -> Step:
        at, name, limit = self.at(), self.rng.choice(NAMES), self.rng.randint(0, 5)
        after = self.rng.choice(["", *(job.id for job in JOBS)])
        since, until = self.rng.choice([None, self.at()]), self.rng.choice([None, self.at()])
        kind = self.rng.choice([None, "discover", "upkeep"])
        seq = self.rng.randint(0, 5)
        return self.rng.choice(
            [
                (f"run {at}", lambda s: s.runs.find_run(at)),
                (f"cancel_request {at}", lambda s: s.runs.find_cancel_request(at)),
                (f"runs {kind} {limit}", lambda s: s.runs.list_runs(kind=kind, limit=limit)),
                (f"jobs {at}", lambda s: s.runs.list_jobs(at, after=after, limit=limit)),
                (f"enriched {at}", lambda s: s.runs.list_enriched(at, after=after, limit=limit)),
                (f"scores {at}", lambda s: s.runs.list_scores(at, after=after, limit=limit)),
                (f"lease {name}", lambda s: s.schedule.find_lease(name)),
                (
                    f"slots {name}",
                    lambda s: s.schedule.list_results(name, since=since, until=until),
                ),
                (f"last_slot {name}", lambda s: s.schedule.find_last_result(name)),
                ("find_latest_entry_at", lambda s: s.schedule.find_latest_entry_at()),
                (f"entries {seq} {limit}", lambda s: s.ledger.list_entries(after=seq, limit=limit)),
            ]
        )

    async def some_run(self, store: TenantStores) -> Run:
        runs = await store.runs.list_runs()
        if runs and self.rng.random() < 0.85:
            return self.rng.choice(runs)
        kind = self.rng.choice(["discover", "upkeep"])
        return Run(
            key=RunKey(self.at(), 1),
            kind=kind,
            instant=self.rng.choice([None, self.to_ledger_time()]),
            manifest=self.manifest(),
        )

    def at(self) -> datetime:
        zone = timezone(timedelta(hours=self.rng.choice([0, 8, -5])))
        return (START + timedelta(seconds=self.rng.randint(0, 5))).astimezone(zone)

    def to_ledger_time(self) -> datetime:
        moment = self.at() + timedelta(microseconds=self.rng.choice([0, 1, 999_999]))
        return moment.replace(tzinfo=None) if self.rng.random() < 0.02 else moment

    def text(self) -> str:
        return self.rng.choice(BAD_TEXTS if self.rng.random() < 0.02 else TEXTS)

    def manifest(self) -> Manifest:
        return Manifest(
            config={"text": self.text(), "list": (1, 2.5, None)},
            selected=tuple(self.rng.sample(TEXTS, 2)),
            counts={"found": self.rng.randint(0, 9)},
            steps=(StepTiming(step="discover", seconds=self.rng.random(), items=1),),
            resume_at=self.rng.choice([None, self.at()]),
        )


async def compared(
    seed: int, *, steps: int, model: MemoryBackend, others: dict[str, Backend]
) -> list[Difference]:
    """Do one sequence to all; return where another backend differed from the model."""
    sequence, differences = Sequence(seed, model), []
    for _ in range(steps):
        try:
            tenant, (said, verb) = await sequence.next()
        except StokerError:
            continue  # the sequence made up a value that cannot even exist
        expected = await outcome(verb, model.tenant(tenant))
        for name, got in await asyncio.gather(
            *(
                named(name, outcome(verb, backend.tenant(tenant)))
                for name, backend in others.items()
            )
        ):
            if got != expected:
                differences.append(Difference(seed, f"{tenant}: {said}", name, expected, got))
    for tenant in sequence.tenants:
        expected = await dump(model.tenant(tenant))
        for name, backend in others.items():
            if (got := await dump(backend.tenant(tenant))) != expected:
                differences.append(Difference(seed, f"dump of {tenant}", name, expected, got))
    return differences


async def outcome(verb: Callable[[TenantStores], Awaitable[object]], store: TenantStores) -> object:
    """Return what a verb answers, or the kind of error it raises."""
    try:
        answer = await verb(store)
    except StokerError as error:
        return type(error).__name__
    # How many bytes something takes is each backend's own affair.
    return replace(answer, bytes=0) if isinstance(answer, StorageSize) else answer


async def dump(store: TenantStores) -> list[object]:
    """Return everything in a store."""
    runs = await store.runs.list_runs()
    found: list[object] = [runs, await store.ledger.list_entries(limit=100_000)]
    for run in runs:
        found.append(await store.runs.find_cancel_request(run.at))
        for page in (store.runs.list_jobs, store.runs.list_enriched, store.runs.list_scores):
            found.append(await page(run.at, limit=100_000))
    for name in NAMES:
        found += [await store.schedule.find_lease(name), await store.schedule.list_results(name)]
    return found


async def named(name: str, answer: Awaitable[object]) -> tuple[str, object]:
    return name, await answer
