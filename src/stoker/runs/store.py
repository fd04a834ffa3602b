"""Store one tenant's runs, postings, enriched postings and scores in SQL.

A write into a run first updates the run's row to itself: that checks the key and locks the row
until the transaction ends, in either database.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from stoker.base.errors import ConflictError, PermanentError
from stoker.base.types import EnrichedJob, Job, JobId, JobScore
from stoker.db.codec import validate_text
from stoker.db.database import Database, Transaction, Value, split_into_batches, to_db_time
from stoker.db.table import Table
from stoker.runs.model import CancelRequest, Run, RunKey, RunState, StorageSize
from stoker.runs.schema import CANCEL_REQUESTS, ENRICHED, JOBS, RUNS, SCORES

Row = TypeVar("Row")

THIS_RUN = "run_timestamp_utc = :at"

_END_COLUMNS = ("kind", "state", "instant", "ended_at", "reason", "config_hash", "manifest")

FINISH_RUN = f"""
UPDATE runs SET {", ".join(f"{name} = :{name}" for name in _END_COLUMNS)}
WHERE tenant_id = :tenant AND run_timestamp_utc = :run_timestamp_utc AND state = 'RUNNING'
    AND epoch = :epoch
"""

LOCK_RUN = f"UPDATE runs SET epoch = epoch WHERE tenant_id = :tenant AND {THIS_RUN} AND "

SELECT_UNKNOWN_JOBS = f"""
SELECT asked.id FROM asked LEFT JOIN jobs j
    ON j.tenant_id = :tenant AND j.{THIS_RUN} AND j.job_id = asked.id
WHERE j.job_id IS NULL
"""

# A run's size is that of the texts in its rows, without pages and indexes. Children come before
# what they point to, so that this is also the order to delete in.
SIZED_COLUMNS = {
    "scores": ("job_id", "bucket", "components"),
    "enriched": ("job_id", "title", "seniority", "stack"),
    "jobs": ("job_id", "source", "url", "title", "company", "location"),
    "runs": ("kind", "state", "reason", "config_hash", "manifest"),
}


class RunStore:
    """One tenant's runs and what they found; `json_store` has the same verbs over files."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert_run(self, run: Run) -> None:
        """Insert a run that is starting.

        Raises ConflictError when this tenant already has a run with that timestamp, or the run
        given has already ended.
        """
        if run.state is not RunState.RUNNING:
            raise ConflictError(f"run {run.name} has already ended as {run.state}")
        if not await self._database.write(lambda tx: RUNS.insert_new(tx, [run])):
            raise ConflictError(f"there is already a run {run.name}")

    async def finish_run(self, run: Run) -> None:
        """Replace a running run with its end.

        Raises ConflictError, and changes nothing, unless the run is there, still RUNNING, and
        was started under the same fencing token: a run closed as dead stays as it was left.
        """
        values = RUNS.values(run)
        if run.state is RunState.RUNNING:
            raise ConflictError(f"run {run.name} has not ended")
        if not await self._database.write(lambda tx: tx.execute(FINISH_RUN, **values)):
            raise _build_conflict()

    async def find_run(self, at: datetime) -> Run | None:
        """Return the run with this timestamp."""
        found = await self._find_rows(RUNS, THIS_RUN, at=to_db_time(at))
        return found[0] if found else None

    async def list_runs(
        self,
        *,
        kind: str | None = None,
        state: RunState | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        """Return runs, newest first: of a kind, in a state, not before a time."""
        where, values = list[str](), dict[str, Value]()
        if kind is not None:
            where.append("kind = :kind")
            values |= RUNS.encode(kind=kind)
        if state is not None:
            where.append("state = :state")
            values |= RUNS.encode(state=state)
        if since is not None:
            where.append("run_timestamp_utc >= :since")
            values["since"] = to_db_time(since)
        query = f"{' AND '.join(where) or 'true'} ORDER BY run_timestamp_utc DESC"
        if limit is not None:
            query += " LIMIT :limit"
            values["limit"] = limit
        return await self._find_rows(RUNS, query, **values)

    async def request_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        """Ask a RUNNING run to stop; return the request in force.

        Safe to repeat: the first request stays. None, with nothing written, when the run has ended
        or does not exist. The process that executes it polls for this every few seconds.
        """
        request, moment = CANCEL_REQUESTS.store(request), to_db_time(at)

        def ask(tx: Transaction) -> CancelRequest | None:
            if not tx.execute(LOCK_RUN + "state = 'RUNNING'", at=moment):
                return None
            CANCEL_REQUESTS.insert_new(tx, [request], moment)
            return CANCEL_REQUESTS.find(tx, THIS_RUN, at=moment)[0]

        return await self._database.write(ask)

    async def find_cancel_request(self, at: datetime) -> CancelRequest | None:
        """Return this run's cancel request, if there was one while it was RUNNING."""
        found = await self._find_rows(CANCEL_REQUESTS, THIS_RUN, at=to_db_time(at))
        return found[0] if found else None

    async def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        """Insert postings under a run; return how many were new to it.

        A posting already there is left as it is. Raises ConflictError, and writes nothing,
        unless the key's run is RUNNING under the key's fencing token.
        """
        return await self._insert_rows(key, JOBS, jobs, about=())

    async def insert_enriched(self, key: RunKey, enriched: Sequence[EnrichedJob]) -> int:
        """Insert enriched postings; return how many were new.

        As `insert_jobs`; and PermanentError, with nothing written, when one is about a posting that
        this run does not have.
        """
        about = [item.job for item in enriched]
        return await self._insert_rows(key, ENRICHED, enriched, about=about)

    async def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        """Insert scores of postings; as `insert_enriched`."""
        return await self._insert_rows(key, SCORES, scores, about=[item.job for item in scores])

    async def list_jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        """Return one page of a run's postings, in id order, beginning after an id."""
        return await self._list_page(JOBS, at, after, limit)

    async def list_enriched(
        self, at: datetime, *, after: str = "", limit: int = 1000
    ) -> list[EnrichedJob]:
        """Return one page of a run's enriched postings, in id order."""
        return await self._list_page(ENRICHED, at, after, limit)

    async def list_scores(
        self, at: datetime, *, after: str = "", limit: int = 1000
    ) -> list[JobScore]:
        """Return one page of a run's scores, in id order."""
        return await self._list_page(SCORES, at, after, limit)

    async def measure_runs(self, ats: Sequence[datetime]) -> StorageSize:
        """Return what `delete_runs` would remove, without removing it."""
        moments = [to_db_time(at) for at in dict.fromkeys(ats)]
        ended = (
            f"SELECT 1 FROM runs WHERE tenant_id = :tenant AND {THIS_RUN} AND state <> 'RUNNING'"
        )
        return await self._database.read(
            lambda tx: _measure_runs(tx, [at for at in moments if tx.query(ended, at=at)])
        )

    async def delete_runs(self, ats: Sequence[datetime]) -> StorageSize:
        """Delete these runs and everything under them; return their size.

        A timestamp that names no run is passed over, and so is a run that is still RUNNING.
        """
        moments = [to_db_time(at) for at in dict.fromkeys(ats)]

        def remove(tx: Transaction) -> StorageSize:
            going = [at for at in moments if tx.execute(LOCK_RUN + "state <> 'RUNNING'", at=at)]
            size = _measure_runs(tx, going)
            for at in going:
                for table in ("cancel_requests", *SIZED_COLUMNS):
                    tx.execute(
                        f"DELETE FROM {table} WHERE tenant_id = :tenant AND {THIS_RUN}", at=at
                    )
            return size

        return await self._database.write(remove)

    async def _find_rows(self, table: Table[Row], where: str, **values: Value) -> list[Row]:
        return await self._database.read(lambda tx: table.find(tx, where, **values))

    async def _list_page(
        self, table: Table[Row], at: datetime, after: str, limit: int
    ) -> list[Row]:
        validate_text(after, what="a posting's id")
        where = f"{THIS_RUN} AND job_id > :after ORDER BY job_id LIMIT :limit"
        return await self._find_rows(table, where, at=to_db_time(at), after=after, limit=limit)

    async def _insert_rows(
        self, key: RunKey, table: Table[Row], rows: Sequence[Row], *, about: Sequence[JobId]
    ) -> int:
        moment = to_db_time(key.at)
        ids = [validate_text(job, what="a posting's id") for job in about]

        def insert(tx: Transaction) -> int:
            open_run = LOCK_RUN + "state = 'RUNNING' AND epoch = :epoch"
            if not tx.execute(open_run, at=moment, epoch=key.fencing_token):
                raise _build_conflict()
            for query, some in split_into_batches(SELECT_UNKNOWN_JOBS, ids):
                for (job,) in tx.query(query, at=moment, **some):
                    raise PermanentError(f"this run has no posting {job}; nothing was written")
            return table.insert_new(tx, rows, moment)

        return await self._database.write(insert)


def _measure_runs(tx: Transaction, moments: Sequence[str]) -> StorageSize:
    rows = size = 0
    for at in moments:
        for table, columns in SIZED_COLUMNS.items():
            lengths = " + ".join(f"octet_length(CAST({column} AS text))" for column in columns)
            [[count, total]] = tx.query(
                f"SELECT count(*), coalesce(sum({lengths}), 0) FROM {table}"
                f" WHERE tenant_id = :tenant AND {THIS_RUN}",
                at=at,
            )
            rows, size = rows + int(count), size + int(total)
    return StorageSize(runs=len(moments), rows=rows, bytes=size)


def _build_conflict() -> ConflictError:
    return ConflictError("this run has ended or is not ours; nothing was written")
