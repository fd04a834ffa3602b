"""Store one tenant's runs, postings, enriched postings and scores in SQL.

A write into a run first updates the run's row to itself: that checks the key and locks the row
until the transaction ends, in either database. Rows are read as either driver returns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from stoker.base.errors import ConflictError, PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import EnrichedJob, Job, JobId, JobScore, TenantId
from stoker.db.codec import validate_enriched_job, validate_job, validate_job_score, validate_text
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_json,
    from_db_time,
    from_optional_db_time,
    to_db_time,
    to_optional_db_time,
)
from stoker.runs.model import (
    CancelRequest,
    Run,
    RunKey,
    RunState,
    StorageSize,
    parse_manifest,
    to_manifest_json,
    validate_cancel_request,
    validate_run,
)

RowValues = tuple[Value, ...]

RUN_COLUMNS = "run_timestamp_utc, epoch, kind, state, instant, ended_at, reason, manifest"

JOB_COLUMNS = "job_id, source, url, title, company, location, posted_at"

ENRICHED_COLUMNS = "job_id, title, seniority, stack, remote"

SCORE_COLUMNS = "job_id, score, bucket, components"


def to_run_values(run: Run) -> dict[str, Value]:
    """Return a run as the values of its row."""
    return {
        "at": to_db_time(run.at),
        "epoch": run.key.fencing_token,
        "kind": run.kind,
        "state": run.state.value,
        "instant": to_optional_db_time(run.instant),
        "ended_at": to_optional_db_time(run.ended_at),
        "reason": run.reason,
        "config_hash": run.manifest.config_hash,
        "manifest": compact_json(to_manifest_json(run.manifest)),
    }


def parse_run_row(row: tuple[Any, ...]) -> Run:
    """Return the run in a row of `RUN_COLUMNS`."""
    at, epoch, kind, state, instant, ended_at, reason, manifest = row
    return Run(
        key=RunKey(from_db_time(at), epoch),
        kind=kind,
        state=RunState(state),
        instant=from_optional_db_time(instant),
        ended_at=from_optional_db_time(ended_at),
        reason=reason,
        manifest=parse_manifest(from_db_json(manifest)),
    )


def to_job_rows(jobs: Iterable[Job], *place: str) -> Iterator[RowValues]:
    """Return postings as rows of `JOB_COLUMNS`, each beginning with tenant and run."""
    for job in map(validate_job, jobs):
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


def parse_job(row: tuple[Any, ...]) -> Job:
    """Return the posting in a row of `JOB_COLUMNS`."""
    job_id, source, url, title, company, location, posted_at = row
    return Job(
        id=job_id,
        source=source,
        url=url,
        title=title,
        company=company,
        location=location,
        posted_at=from_optional_db_time(posted_at),
    )


def to_enriched_rows(enriched: Iterable[EnrichedJob], *place: str) -> Iterator[RowValues]:
    """Return enriched postings as rows of `ENRICHED_COLUMNS`, after tenant and run."""
    for item in map(validate_enriched_job, enriched):
        yield (*place, item.job, item.title, item.seniority, format_stack(item.stack), item.remote)


def parse_enriched(row: tuple[Any, ...]) -> EnrichedJob:
    """Return the enriched posting in a row of `ENRICHED_COLUMNS`."""
    job_id, title, seniority, stack, remote = row
    return EnrichedJob(
        job=job_id,
        title=title,
        seniority=seniority,
        stack=_parse_stack(stack) if isinstance(stack, str) else tuple(stack),
        remote=bool(remote),
    )


# Many postings name the same technologies, so each stack is written and read once.
@lru_cache(maxsize=1024)
def format_stack(stack: tuple[str, ...]) -> str:
    """Return technologies as the text in a row."""
    return compact_json(list(stack))


@lru_cache(maxsize=1024)
def _parse_stack(text: str) -> tuple[str, ...]:
    return tuple(from_db_json(text))


def to_score_rows(scores: Iterable[JobScore], *place: str) -> Iterator[RowValues]:
    """Return scores as rows of `SCORE_COLUMNS`, each beginning with tenant and run."""
    for item in map(validate_job_score, scores):
        yield (*place, item.job, item.score, item.bucket, compact_json(item.components))


def parse_score(row: tuple[Any, ...]) -> JobScore:
    """Return the score in a row of `SCORE_COLUMNS`."""
    job_id, score, bucket, components = row
    return JobScore(job=job_id, score=score, bucket=bucket, components=from_db_json(components))


INSERT_RUN = """
INSERT INTO runs (tenant_id, run_timestamp_utc, kind, state, instant, epoch, ended_at, reason,
                  config_hash, manifest)
VALUES (:tenant, :at, :kind, :state, :instant, :epoch, :ended_at, :reason, :config_hash, :manifest)
ON CONFLICT DO NOTHING
"""

FINISH_RUN = """
UPDATE runs SET kind = :kind, state = :state, instant = :instant, ended_at = :ended_at,
                reason = :reason, config_hash = :config_hash, manifest = :manifest
WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state = 'RUNNING' AND epoch = :epoch
"""

LOCK_OPEN_RUN = """
UPDATE runs SET epoch = epoch
WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state = 'RUNNING' AND epoch = :epoch
"""

SELECT_ENDED = """
SELECT 1 FROM runs WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state <> 'RUNNING'
"""

LOCK_ENDED_RUN = """
UPDATE runs SET epoch = epoch
WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state <> 'RUNNING'
"""

LOCK_RUNNING_RUN = """
UPDATE runs SET epoch = epoch
WHERE tenant_id = :tenant AND run_timestamp_utc = :at AND state = 'RUNNING'
"""

INSERT_CANCEL_REQUEST = """
INSERT INTO cancel_requests (tenant_id, run_timestamp_utc, asked_by, asked_at)
VALUES (:tenant, :at, :asked_by, :asked_at)
ON CONFLICT DO NOTHING
"""

SELECT_RUNS = f"SELECT {RUN_COLUMNS} FROM runs WHERE tenant_id = :tenant"

WHERE_RUN = "WHERE tenant_id = :tenant AND run_timestamp_utc = :at"

SELECT_CANCEL_REQUEST = f"SELECT asked_by, asked_at FROM cancel_requests {WHERE_RUN}"

# A run's size is that of the texts in its rows, without pages and indexes. Children come before
# what they point to, so that this is also the order to delete in.
SIZED_COLUMNS = {
    "scores": ("job_id", "bucket", "components"),
    "enriched": ("job_id", "title", "seniority", "stack"),
    "jobs": ("job_id", "source", "url", "title", "company", "location"),
    "runs": ("kind", "state", "reason", "config_hash", "manifest"),
}

ID_BATCH_SIZE = 500  # fewer than any database's limit on values in one statement


class SqlRunStore:
    """A `RunStore` in the tables `runs`, `jobs`, `enriched`, `scores` and
    `cancel_requests`.
    """

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def insert_run(self, run: Run) -> None:
        run = validate_run(run)
        if run.state is not RunState.RUNNING:
            raise ConflictError(f"run {run.name} has already ended as {run.state}")
        values = to_run_values(run)
        if not await self._database.write(
            lambda tx: tx.execute(INSERT_RUN, tenant=self._tenant, **values)
        ):
            raise ConflictError(f"there is already a run {run.name}")

    async def finish_run(self, run: Run) -> None:
        run = validate_run(run)
        if run.state is RunState.RUNNING:
            raise ConflictError(f"run {run.name} has not ended")
        values = to_run_values(run)
        if not await self._database.write(
            lambda tx: tx.execute(FINISH_RUN, tenant=self._tenant, **values)
        ):
            raise _build_conflict()

    async def find_run(self, at: datetime) -> Run | None:
        query, values = SELECT_RUNS + " AND run_timestamp_utc = :at", self._get_key_values(at)
        rows = await self._database.read(lambda tx: tx.query(query, **values))
        return parse_run_row(rows[0]) if rows else None

    async def list_runs(
        self,
        *,
        kind: str | None = None,
        state: RunState | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        query, values = SELECT_RUNS, dict[str, Value](tenant=self._tenant)
        if kind is not None:
            query += " AND kind = :kind"
            values["kind"] = validate_text(kind, what="a run's kind")
        if state is not None:
            query += " AND state = :state"
            values["state"] = state.value
        if since is not None:
            query += " AND run_timestamp_utc >= :since"
            values["since"] = to_db_time(since)
        query += " ORDER BY run_timestamp_utc DESC"
        if limit is not None:
            query += " LIMIT :limit"
            values["limit"] = limit
        rows = await self._database.read(lambda tx: tx.query(query, **values))
        return [parse_run_row(row) for row in rows]

    async def request_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        request, run = validate_cancel_request(request), self._get_key_values(at)
        asked: dict[str, Value] = {"asked_by": request.by, "asked_at": to_db_time(request.at)}

        def ask(tx: Transaction) -> CancelRequest | None:
            if not tx.execute(LOCK_RUNNING_RUN, **run):
                return None
            tx.execute(INSERT_CANCEL_REQUEST, **run, **asked)
            return _find_cancel_request(tx, run)

        return await self._database.write(ask)

    async def find_cancel_request(self, at: datetime) -> CancelRequest | None:
        run = self._get_key_values(at)
        return await self._database.read(lambda tx: _find_cancel_request(tx, run))

    async def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        place = self._get_key(key)

        def insert(tx: Transaction) -> int:
            self._lock_open_run(tx, key)
            # In key order, each row goes beside the last one; in the order found, each goes to a
            # page of its own, which is many times slower. Of two alike the first still stays.
            in_order = sorted(jobs, key=attrgetter("id"))
            return _insert_rows(tx, "jobs", JOB_COLUMNS, to_job_rows(in_order, *place))

        return await self._database.write(insert)

    async def insert_enriched(self, key: RunKey, enriched: Sequence[EnrichedJob]) -> int:
        place = self._get_key(key)

        def insert(tx: Transaction) -> int:
            self._lock_open_run(tx, key)
            self._require_jobs(tx, key, [item.job for item in enriched])
            return _insert_rows(
                tx, "enriched", ENRICHED_COLUMNS, to_enriched_rows(enriched, *place)
            )

        return await self._database.write(insert)

    async def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        place = self._get_key(key)

        def insert(tx: Transaction) -> int:
            self._lock_open_run(tx, key)
            self._require_jobs(tx, key, [item.job for item in scores])
            return _insert_rows(tx, "scores", SCORE_COLUMNS, to_score_rows(scores, *place))

        return await self._database.write(insert)

    async def list_jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        rows = await self._read_page("jobs", JOB_COLUMNS, at, after=after, limit=limit)
        return [parse_job(row) for row in rows]

    async def list_enriched(
        self, at: datetime, *, after: str = "", limit: int = 1000
    ) -> list[EnrichedJob]:
        rows = await self._read_page("enriched", ENRICHED_COLUMNS, at, after=after, limit=limit)
        return [parse_enriched(row) for row in rows]

    async def list_scores(
        self, at: datetime, *, after: str = "", limit: int = 1000
    ) -> list[JobScore]:
        rows = await self._read_page("scores", SCORE_COLUMNS, at, after=after, limit=limit)
        return [parse_score(row) for row in rows]

    async def measure_runs(self, ats: Sequence[datetime]) -> StorageSize:
        runs = [self._get_key_values(at) for at in dict.fromkeys(ats)]
        return await self._database.read(
            lambda tx: _measure_runs(tx, [run for run in runs if tx.query(SELECT_ENDED, **run)])
        )

    async def delete_runs(self, ats: Sequence[datetime]) -> StorageSize:
        runs = [self._get_key_values(at) for at in dict.fromkeys(ats)]

        def remove(tx: Transaction) -> StorageSize:
            going = [run for run in runs if tx.execute(LOCK_ENDED_RUN, **run)]
            size = _measure_runs(tx, going)
            for run in going:
                for table in ("cancel_requests", *SIZED_COLUMNS):
                    tx.execute(f"DELETE FROM {table} {WHERE_RUN}", **run)
            return size

        return await self._database.write(remove)

    def _get_key_values(self, at: datetime) -> dict[str, Value]:
        return {"tenant": self._tenant, "at": to_db_time(at)}

    def _get_key(self, key: RunKey) -> tuple[str, str]:
        return self._tenant, to_db_time(key.at)

    def _lock_open_run(self, tx: Transaction, key: RunKey) -> None:
        if not tx.execute(LOCK_OPEN_RUN, **self._get_key_values(key.at), epoch=key.fencing_token):
            raise _build_conflict()

    def _require_jobs(self, tx: Transaction, key: RunKey, wanted: Sequence[JobId]) -> None:
        for start in range(0, len(wanted), ID_BATCH_SIZE):
            ids = {
                f"id{n}": validate_text(job, what="a posting's id")
                for n, job in enumerate(wanted[start : start + ID_BATCH_SIZE])
            }
            query = f"SELECT job_id FROM jobs {WHERE_RUN} AND job_id IN (:{', :'.join(ids)})"
            there = {job for (job,) in tx.query(query, **self._get_key_values(key.at), **ids)}
            for job in ids.values():
                if job not in there:
                    raise PermanentError(f"this run has no posting {job}; nothing was written")

    async def _read_page(
        self, table: str, columns: str, at: datetime, *, after: str, limit: int
    ) -> list[tuple[Any, ...]]:
        validate_text(after, what="a posting's id")
        query = (
            f"SELECT {columns} FROM {table} {WHERE_RUN} AND job_id > :after"
            " ORDER BY job_id LIMIT :limit"
        )
        values = self._get_key_values(at)
        return await self._database.read(
            lambda tx: tx.query(query, **values, after=after, limit=limit)
        )


def _find_cancel_request(tx: Transaction, run: dict[str, Value]) -> CancelRequest | None:
    rows = tx.query(SELECT_CANCEL_REQUEST, **run)
    return CancelRequest(by=rows[0][0], at=from_db_time(rows[0][1])) if rows else None


def _insert_rows(tx: Transaction, table: str, columns: str, rows: Iterable[RowValues]) -> int:
    places = ", ".join("?" * (2 + len(columns.split(", "))))
    return tx.execute_many(
        f"INSERT INTO {table} (tenant_id, run_timestamp_utc, {columns}) VALUES ({places})"
        " ON CONFLICT DO NOTHING",
        rows,
    )


def _measure_runs(tx: Transaction, runs: Sequence[dict[str, Value]]) -> StorageSize:
    rows = size = 0
    for run in runs:
        for table, columns in SIZED_COLUMNS.items():
            lengths = " + ".join(f"octet_length(CAST({column} AS text))" for column in columns)
            [[count, total]] = tx.query(
                f"SELECT count(*), coalesce(sum({lengths}), 0) FROM {table} {WHERE_RUN}", **run
            )
            rows, size = rows + int(count), size + int(total)
    return StorageSize(runs=len(runs), rows=rows, bytes=size)


def _build_conflict() -> ConflictError:
    return ConflictError("this run has ended or is not ours; nothing was written")
