"""One tenant's runs and what they found, in SQL.

A write into a run first updates the run's row to itself: that asks whether the key still opens
the run, and holds the answer true until the transaction ends, in either database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from stoker.core.keeping import kept_request, kept_run, kept_text
from stoker.core.model import Enriched, Job, JobId, JobScore, TenantId
from stoker.core.runs import CancelRequest, Run, RunKey, RunState
from stoker.errors import ConflictError, PermanentError
from stoker.ports import Weight
from stoker.stores.sql import SqlDatabase, Transaction, Value, moment, moment_text
from stoker.stores.sql_rows import (
    ENRICHED,
    JOB,
    RUN,
    SCORE,
    Row,
    enriched_of,
    enriched_rows,
    job_of,
    job_rows,
    run_of,
    run_values,
    score_of,
    score_rows,
)

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
