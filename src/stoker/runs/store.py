"""One tenant's runs and what they found, in SQL.

A write into a run first updates the run's row to itself: that asks whether the key still opens
the run, and holds the answer true until the transaction ends, in either database.

How a run, and what it found, stands in the rows of `runs`, `jobs`, `enriched` and `scores`.

Rows that go in are refused here when a store could not keep them; rows that come out are read
as either database's driver gives them: moments and JSON as text or decoded, 0 or False.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from stoker.base.errors import ConflictError, PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import Enriched, Job, JobId, JobScore, TenantId
from stoker.db.codec import kept_enriched, kept_job, kept_score, kept_text
from stoker.db.database import (
    SqlDatabase,
    Transaction,
    Value,
    json_value,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
)
from stoker.runs.model import (
    CancelRequest,
    Run,
    RunKey,
    RunState,
    Weight,
    kept_request,
    kept_run,
    manifest_from_json,
    manifest_json,
)

Row = tuple[Value, ...]

RUN = "run_timestamp_utc, epoch, kind, state, instant, ended_at, reason, manifest"

JOB = "job_id, source, url, title, company, location, posted_at"

ENRICHED = "job_id, title, seniority, stack, remote"

SCORE = "job_id, score, bucket, components"


def run_values(run: Run) -> dict[str, Value]:
    """Return a run as the values of its row."""
    return {
        "at": moment_text(run.at),
        "epoch": run.key.epoch,
        "kind": run.kind,
        "state": run.state.value,
        "instant": optional_moment_text(run.instant),
        "ended_at": optional_moment_text(run.ended_at),
        "reason": run.reason,
        "config_hash": run.manifest.config_hash,
        "manifest": compact_json(manifest_json(run.manifest)),
    }


def run_of(row: tuple[Any, ...]) -> Run:
    """Return the run in a row of `RUN`."""
    at, epoch, kind, state, instant, ended_at, reason, manifest = row
    return Run(
        key=RunKey(moment(at), epoch),
        kind=kind,
        state=RunState(state),
        instant=optional_moment(instant),
        ended_at=optional_moment(ended_at),
        reason=reason,
        manifest=manifest_from_json(json_value(manifest)),
    )


def job_rows(jobs: Iterable[Job], *place: str) -> Iterator[Row]:
    """Return postings as rows of `JOB`, each beginning with its place: tenant and run."""
    for job in map(kept_job, jobs):
        posted_at = job.posted_at
        yield (
            *place,
            job.id,
            job.source,
            job.url,
            job.title,
            job.company,
            job.location,
            # kept_job has it in UTC, so this is moment_text without asking again.
            None if posted_at is None else posted_at.isoformat(timespec="microseconds"),
        )


def job_of(row: tuple[Any, ...]) -> Job:
    """Return the posting in a row of `JOB`."""
    job_id, source, url, title, company, location, posted_at = row
    return Job(
        id=job_id,
        source=source,
        url=url,
        title=title,
        company=company,
        location=location,
        posted_at=optional_moment(posted_at),
    )


def enriched_rows(enriched: Iterable[Enriched], *place: str) -> Iterator[Row]:
    """Return enriched postings as rows of `ENRICHED`, each beginning with its place."""
    for item in map(kept_enriched, enriched):
        yield (*place, item.job, item.title, item.seniority, stack_text(item.stack), item.remote)


def enriched_of(row: tuple[Any, ...]) -> Enriched:
    """Return the enriched posting in a row of `ENRICHED`."""
    job_id, title, seniority, stack, remote = row
    return Enriched(
        job=job_id,
        title=title,
        seniority=seniority,
        stack=_stack(stack) if isinstance(stack, str) else tuple(stack),
        remote=bool(remote),
    )


# Many postings name the same technologies, so each stack is written and read once.
@lru_cache(maxsize=1024)
def stack_text(stack: tuple[str, ...]) -> str:
    """Return technologies as they stand in a row."""
    return compact_json(list(stack))


@lru_cache(maxsize=1024)
def _stack(text: str) -> tuple[str, ...]:
    return tuple(json_value(text))


def score_rows(scores: Iterable[JobScore], *place: str) -> Iterator[Row]:
    """Return scores as rows of `SCORE`, each beginning with its place."""
    for item in map(kept_score, scores):
        yield (*place, item.job, item.score, item.bucket, compact_json(item.components))


def score_of(row: tuple[Any, ...]) -> JobScore:
    """Return the score in a row of `SCORE`."""
    job_id, score, bucket, components = row
    return JobScore(job=job_id, score=score, bucket=bucket, components=json_value(components))


START = """
INSERT INTO runs (tenant_id, run_timestamp_utc, kind, state, instant, epoch, ended_at, reason,
                  config_hash, manifest)
VALUES (:tenant, :at, :kind, :state, :instant, :epoch, :ended_at, :reason, :config_hash, :manifest)
ON CONFLICT DO NOTHING
"""

FINISH = """
UPDATE runs SET kind = :kind, state = :state, instant = :instant, ended_at = :ended_at,
                reason = :reason, config_hash = :config_hash, manifest = :manifest
WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state = 'RUNNING' AND epoch = :epoch
"""

HOLD_OPEN = """
UPDATE runs SET epoch = epoch
WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state = 'RUNNING' AND epoch = :epoch
"""

ENDED = """
SELECT 1 FROM runs WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state <> 'RUNNING'
"""

HOLD_ENDED = """
UPDATE runs SET epoch = epoch
WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state <> 'RUNNING'
"""

HOLD_RUNNING = """
UPDATE runs SET epoch = epoch
WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state = 'RUNNING'
"""

ASK_TO_CANCEL = """
INSERT INTO cancel_requests (tenant_id, run_timestamp_utc, asked_by, asked_at)
VALUES (:tenant, :at, :asked_by, :asked_at)
ON CONFLICT DO NOTHING
"""

RUNS = f"SELECT {RUN} FROM runs WHERE tenant_id = :tenant"

OF_RUN = "WHERE tenant_id = :tenant AND run_timestamp_utc = :at"

CANCEL_REQUEST = f"SELECT asked_by, asked_at FROM cancel_requests {OF_RUN}"

# What a run takes up is told by the texts in its rows; what pages and indexes add, nobody can say
# of one run. Children come before what they point to, so that this is also the order to delete in.
SIZES = {
    "scores": ("job_id", "bucket", "components"),
    "enriched": ("job_id", "title", "seniority", "stack"),
    "jobs": ("job_id", "source", "url", "title", "company", "location"),
    "runs": ("kind", "state", "reason", "config_hash", "manifest"),
}

IDS_AT_ONCE = 500  # fewer than any database's limit on values in one statement


class SqlRuns:
    """A `RunStore` in the tables `runs`, `jobs`, `enriched`, `scores` and `cancel_requests`."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def insert_run(self, run: Run) -> None:
        run = kept_run(run)
        if run.state is not RunState.RUNNING:
            raise ConflictError(f"run {run.name} has already ended as {run.state}")
        values = run_values(run)
        if not await self._database.write(
            lambda tx: tx.change(START, tenant=self._tenant, **values)
        ):
            raise ConflictError(f"there is already a run {run.name}")

    async def finish_run(self, run: Run) -> None:
        run = kept_run(run)
        if run.state is RunState.RUNNING:
            raise ConflictError(f"run {run.name} has not ended")
        values = run_values(run)
        if not await self._database.write(
            lambda tx: tx.change(FINISH, tenant=self._tenant, **values)
        ):
            raise _not_ours()

    async def run(self, at: datetime) -> Run | None:
        query, values = RUNS + " AND run_timestamp_utc = :at", self._of(at)
        rows = await self._database.read(lambda tx: tx.rows(query, **values))
        return run_of(rows[0]) if rows else None

    async def runs(self, *, kind: str | None = None, limit: int | None = None) -> list[Run]:
        query, values = RUNS, dict[str, Value](tenant=self._tenant)
        if kind is not None:
            query += " AND kind = :kind"
            values["kind"] = kept_text(kind, what="a run's kind")
        query += " ORDER BY run_timestamp_utc DESC"
        if limit is not None:
            query += " LIMIT :limit"
            values["limit"] = limit
        rows = await self._database.read(lambda tx: tx.rows(query, **values))
        return [run_of(row) for row in rows]

    async def ask_to_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        request, run = kept_request(request), self._of(at)
        said: dict[str, Value] = {"asked_by": request.by, "asked_at": moment_text(request.at)}

        def ask(tx: Transaction) -> CancelRequest | None:
            if not tx.change(HOLD_RUNNING, **run):
                return None
            tx.change(ASK_TO_CANCEL, **run, **said)
            return _request(tx, run)

        return await self._database.write(ask)

    async def cancel_request(self, at: datetime) -> CancelRequest | None:
        run = self._of(at)
        return await self._database.read(lambda tx: _request(tx, run))

    async def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        place = self._place(key)

        def insert(tx: Transaction) -> int:
            self._hold_open(tx, key)
            # In key order, each row goes beside the last one; in the order found, each goes to a
            # page of its own, which is many times slower. Of two alike the first still stays.
            in_order = sorted(jobs, key=attrgetter("id"))
            return _insert(tx, "jobs", JOB, job_rows(in_order, *place))

        return await self._database.write(insert)

    async def insert_enriched(self, key: RunKey, enriched: Sequence[Enriched]) -> int:
        place = self._place(key)

        def insert(tx: Transaction) -> int:
            self._hold_open(tx, key)
            self._require_jobs(tx, key, [item.job for item in enriched])
            return _insert(tx, "enriched", ENRICHED, enriched_rows(enriched, *place))

        return await self._database.write(insert)

    async def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        place = self._place(key)

        def insert(tx: Transaction) -> int:
            self._hold_open(tx, key)
            self._require_jobs(tx, key, [item.job for item in scores])
            return _insert(tx, "scores", SCORE, score_rows(scores, *place))

        return await self._database.write(insert)

    async def jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        rows = await self._page("jobs", JOB, at, after=after, limit=limit)
        return [job_of(row) for row in rows]

    async def enriched(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Enriched]:
        rows = await self._page("enriched", ENRICHED, at, after=after, limit=limit)
        return [enriched_of(row) for row in rows]

    async def scores(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[JobScore]:
        rows = await self._page("scores", SCORE, at, after=after, limit=limit)
        return [score_of(row) for row in rows]

    async def weigh(self, ats: Sequence[datetime]) -> Weight:
        runs = [self._of(at) for at in dict.fromkeys(ats)]
        return await self._database.read(
            lambda tx: _weight(tx, [run for run in runs if tx.rows(ENDED, **run)])
        )

    async def prune(self, ats: Sequence[datetime]) -> Weight:
        runs = [self._of(at) for at in dict.fromkeys(ats)]

        def remove(tx: Transaction) -> Weight:
            going = [run for run in runs if tx.change(HOLD_ENDED, **run)]
            weight = _weight(tx, going)
            for run in going:
                for table in ("cancel_requests", *SIZES):
                    tx.change(f"DELETE FROM {table} {OF_RUN}", **run)
            return weight

        return await self._database.write(remove)

    def _of(self, at: datetime) -> dict[str, Value]:
        return {"tenant": self._tenant, "at": moment_text(at)}

    def _place(self, key: RunKey) -> tuple[str, str]:
        return self._tenant, moment_text(key.at)

    def _hold_open(self, tx: Transaction, key: RunKey) -> None:
        if not tx.change(HOLD_OPEN, **self._of(key.at), epoch=key.epoch):
            raise _not_ours()

    def _require_jobs(self, tx: Transaction, key: RunKey, wanted: Sequence[JobId]) -> None:
        for start in range(0, len(wanted), IDS_AT_ONCE):
            ids = {
                f"id{n}": kept_text(job, what="a posting's id")
                for n, job in enumerate(wanted[start : start + IDS_AT_ONCE])
            }
            query = f"SELECT job_id FROM jobs {OF_RUN} AND job_id IN (:{', :'.join(ids)})"
            there = {job for (job,) in tx.rows(query, **self._of(key.at), **ids)}
            for job in ids.values():
                if job not in there:
                    raise PermanentError(f"this run has no posting {job}; nothing was written")

    async def _page(
        self, table: str, columns: str, at: datetime, *, after: str, limit: int
    ) -> list[tuple[Any, ...]]:
        kept_text(after, what="a posting's id")
        query = (
            f"SELECT {columns} FROM {table} {OF_RUN} AND job_id > :after"
            " ORDER BY job_id LIMIT :limit"
        )
        values = self._of(at)
        return await self._database.read(
            lambda tx: tx.rows(query, **values, after=after, limit=limit)
        )


def _request(tx: Transaction, run: dict[str, Value]) -> CancelRequest | None:
    rows = tx.rows(CANCEL_REQUEST, **run)
    return CancelRequest(by=rows[0][0], at=moment(rows[0][1])) if rows else None


def _insert(tx: Transaction, table: str, columns: str, rows: Iterable[Row]) -> int:
    places = ", ".join("?" * (2 + len(columns.split(", "))))
    return tx.change_many(
        f"INSERT INTO {table} (tenant_id, run_timestamp_utc, {columns}) VALUES ({places})"
        " ON CONFLICT DO NOTHING",
        rows,
    )


def _weight(tx: Transaction, runs: Sequence[dict[str, Value]]) -> Weight:
    rows = size = 0
    for run in runs:
        for table, columns in SIZES.items():
            lengths = " + ".join(f"octet_length(CAST({column} AS text))" for column in columns)
            [[count, total]] = tx.rows(
                f"SELECT count(*), coalesce(sum({lengths}), 0) FROM {table} {OF_RUN}", **run
            )
            rows, size = rows + int(count), size + int(total)
    return Weight(runs=len(runs), rows=rows, bytes=size)


def _not_ours() -> ConflictError:
    return ConflictError("this run has ended or is not ours; nothing was written")
