"""Random sequences about runs, leases, scheduled occurrences and the ledger."""

from dataclasses import replace
from datetime import timedelta

from contracts.agreement import TEXTS, Sequence
from contracts.knowledge import NOW
from stoker.base.types import EnrichedJob, Job, JobScore, TenantId
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

ENDS = [state for state in RunState if state is not RunState.RUNNING]
NAMES = ["nightly", "hourly"]
KINDS = ["discover", "upkeep"]
JOBS = [
    Job.create(source="feed", url=f"https://example.com/{n}", title=TEXTS[n % len(TEXTS)])
    for n in range(12)
]


class RunSequence(Sequence):
    at_once = 6
    bad_share = 0.02

    def __init__(self, seed):
        super().__init__(seed)
        self.tenants = [TenantId(f"s{seed}-{name}") for name in ("a", "b")]

    async def observe(self, reference):
        await super().observe(reference)
        stores = reference.tenant(self.tenant)
        self.runs = await stores.runs.list_runs()
        self.leases = {name: await stores.schedule.find_lease(name) for name in NAMES}

    def next(self):
        return self.rng.choice(
            [self.change_run] * 4 + [self.add_items] * 5 + [self.swap_lease] * 3
            + [self.record_result] * 3 + [self.append] * 2 + [self.read] * 4
        )()  # fmt: skip

    def change_run(self):
        run, choice = self.run(), self.rng.random()
        if choice < 0.45:
            new = replace(run, key=RunKey(self.at(), self.rng.randint(1, 2)))
            return self.call("runs.insert_run", new)
        if choice < 0.8:
            end = replace(
                run,
                state=self.rng.choice([*ENDS, RunState.RUNNING]) if choice < 0.5 else ENDS[0],
                ended_at=self.moment(),
                reason=self.text(),
                manifest=self.manifest(),
            )
            return self.call("runs.finish_run", end)
        if choice < 0.86:
            request = CancelRequest(by=self.text(), at=self.moment())
            return self.call("runs.request_cancel", self.at(), request)
        ats = [self.at() for _ in range(self.rng.randint(0, 3))]
        step, verb = self.call("runs." + ("measure_runs" if choice < 0.93 else "delete_runs"), ats)

        async def without_bytes(backend):
            size: StorageSize = await verb(backend)
            return replace(size, bytes=0)  # which each backend counts in its own way

        return step, without_bytes

    def add_items(self):
        key = self.run().key
        if self.rng.random() < 0.1:
            key = replace(key, fencing_token=self.rng.randint(0, 3))
        jobs = self.rng.sample(JOBS, self.rng.randint(0, 4))
        if self.rng.random() < 0.2:
            jobs = jobs + jobs[:1]
        choice = self.rng.random()
        if choice < 0.5:
            found = [
                replace(job, company=self.text(), posted_at=self.rng.choice([None, self.moment()]))
                for job in jobs
            ]
            return self.call("runs.insert_jobs", key, found)
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
            return self.call("runs.insert_enriched", key, enriched)
        scores = [
            JobScore(
                job=job.id,
                score=self.rng.random(),
                bucket=self.text(),
                components={"fit": self.rng.choice([0.5, 1 / 3, float("nan")])},
            )
            for job in jobs
        ]
        return self.call("runs.insert_scores", key, scores)

    def swap_lease(self):
        name = self.rng.choice(NAMES)
        now = self.leases[name]
        seen = now
        if self.rng.random() < 0.3:
            seen = self.rng.choice([None, now and release_lease(now, now=NOW)])
        length, moment = timedelta(seconds=self.rng.randint(1, 60)), self.moment()
        if now and self.rng.random() < 0.4:
            wanted = renew_lease(now, now=moment, length=length)
        else:
            wanted = acquire_lease(
                name, now, owner=self.text(), task=self.text(), now=moment, length=length
            )
        return self.call("schedule.swap_lease", seen, wanted)

    def record_result(self):
        fence = self.rng.choice([None, *self.leases.values()])
        if fence and self.rng.random() < 0.2:
            fence = replace(fence, fencing_token=fence.fencing_token - 1)
        result = OccurrenceResult(
            schedule=self.rng.choice(NAMES),
            due_at=self.at(),
            state=self.rng.choice(list(OccurrenceState)),
            decided_at=self.moment(),
            reason=self.text(),
            run_at=self.rng.choice([None, self.at()]),
        )
        return self.call("schedule.record_result", result, fence=fence)

    def append(self):
        entries = [
            NewEntry(
                at=self.moment(),
                kind="NOTE",
                subject=self.text(),
                reason=self.text(),
                data={"text": self.text(), "number": self.rng.choice([1, 0.1, None, True])},
            )
            for _ in range(self.rng.randint(0, 3))
        ]
        return self.call("ledger.append", entries)

    def read(self):
        at, name, limit = self.at(), self.rng.choice(NAMES), self.rng.randint(0, 5)
        page = {"after": self.rng.choice(["", *(job.id for job in JOBS)]), "limit": limit}
        since, until = (self.rng.choice([None, self.at()]) for _ in range(2))
        kind, seq = self.rng.choice([None, *KINDS]), self.rng.randint(0, 5)
        return self.rng.choice(
            [
                self.call("runs.find_run", at),
                self.call("runs.find_cancel_request", at),
                self.call("runs.list_runs", kind=kind, limit=limit),
                self.call("runs.list_jobs", at, **page),
                self.call("runs.list_enriched", at, **page),
                self.call("runs.list_scores", at, **page),
                self.call("schedule.find_lease", name),
                self.call("schedule.list_results", name, since=since, until=until),
                self.call("schedule.find_last_result", name),
                self.call("schedule.find_latest_entry_at"),
                self.call("ledger.list_entries", after=seq, limit=limit),
            ]
        )

    async def dump(self, backend):
        found = []
        for stores in map(backend.tenant, self.tenants):
            runs = await stores.runs.list_runs()
            found += [runs, await stores.ledger.list_entries(limit=100_000)]
            for run in runs:
                found.append(await stores.runs.find_cancel_request(run.at))
                for name in ("list_jobs", "list_enriched", "list_scores"):
                    found.append(await getattr(stores.runs, name)(run.at, limit=100_000))
            for name in NAMES:
                found.append(await stores.schedule.find_lease(name))
                found.append(await stores.schedule.list_results(name))
        return found

    def is_counted(self, step, answer):
        return step.startswith("runs.insert_jobs") and isinstance(answer, int) and answer > 0

    def run(self):
        if self.runs and self.rng.random() < 0.85:
            return self.rng.choice(self.runs)
        return Run(
            key=RunKey(self.at(), 1),
            kind=self.rng.choice(KINDS),
            instant=self.rng.choice([None, self.moment()]),
            manifest=self.manifest(),
        )

    def at(self):
        return (NOW + timedelta(seconds=self.rng.randint(0, 5))).astimezone(self.zone())

    def moment(self):
        moment = self.at() + timedelta(microseconds=self.rng.choice([0, 1, 999_999]))
        return moment.replace(tzinfo=None) if self.rng.random() < self.bad_share else moment

    def manifest(self):
        return Manifest(
            config={"text": self.text(), "list": (1, 2.5, None)},
            selected=tuple(self.rng.sample(TEXTS, 2)),
            counts={"found": self.rng.randint(0, 9)},
            steps=(StepTiming(step="discover", seconds=self.rng.random(), items=1),),
            resume_at=self.rng.choice([None, self.at()]),
        )
