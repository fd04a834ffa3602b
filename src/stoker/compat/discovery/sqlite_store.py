"""Runs of discovery scripts in our SQLite store; a file of an earlier store is taken over.

The functions work on `./data/jobs.db`. Every call is complete when it returns.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from stoker.backends.sqlite import SqliteBackend
from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import PermanentError
from stoker.base.types import TenantId
from stoker.compat.discovery.config import Config, get_run_ts, parse_retention, parse_run_ts
from stoker.compat.discovery.records import (
    ENRICHED_FIELDS,
    JOB_FIELDS,
    SCORE_FIELDS,
    Record,
    list_unknown_fields,
    list_unread_dates,
    to_enriched,
    to_job,
    to_score,
)
from stoker.compat.threads import run_in_thread
from stoker.db.database import Transaction, to_db_time
from stoker.db.table import Table
from stoker.files.durable import Disk
from stoker.runs.model import Manifest, Run, RunKey, RunState
from stoker.runs.prune import delete_old_runs
from stoker.runs.retention import decide_retention
from stoker.runs.schema import ENRICHED, JOBS, RUNS, SCORES

PATH = Path("data/jobs.db")

TENANT = TenantId("default")

KIND = "discovery"

_THIS_RUN = "run_timestamp_utc = :at"

_Result = TypeVar("_Result")


class SqliteStore:
    """Runs, postings, what their words say, and scores, in one SQLite file."""

    def __init__(self, path: str | Path, *, clock: Clock | None = None) -> None:
        self.path = Path(path)
        self._clock = clock or SystemClock()

    def init_schema(self) -> None:
        """Make the file, or bring it up to date. Safe to repeat."""
        self._write(lambda tx: None)

    def insert_run(self, run_summary: Record) -> None:
        """Insert a run by its `run_ts` or `timestamp_utc`; a second summary replaces the first."""
        at = parse_run_ts(get_run_ts(run_summary))
        run = Run(
            key=RunKey(at, 1),
            kind=KIND,
            state=RunState.DONE,
            ended_at=at,
            manifest=Manifest(config=dict(run_summary)),
        )
        self._write(lambda tx: RUNS.save(tx, [run]))

    def insert_jobs(self, run_ts: str, items: Sequence[Record]) -> int:
        """Insert postings under a run, one for each source and url; return how many were new."""
        _report_unknown("insert_jobs", items, JOB_FIELDS)
        for text in list_unread_dates(items):
            _report(f"insert_jobs: {text!r} is no date; give posted_date as 2026-02-07")
        jobs = [to_job(item) for item in items]
        return self._write(lambda tx: JOBS.insert_new(tx, jobs, _get_run(tx, run_ts)))

    def insert_enriched(self, run_ts: str, items: Sequence[Record]) -> int:
        """Insert what the words of a run's postings say; later ones replace earlier ones."""
        _report_unknown("insert_enriched", items, (*JOB_FIELDS, *ENRICHED_FIELDS, *_DERIVED))
        rows = [to_enriched(item) for item in items]
        return self._write(lambda tx: _save_about_jobs(tx, ENRICHED, run_ts, rows))

    def insert_scores(self, run_ts: str, items: Sequence[Record]) -> int:
        """Insert scores of a run's postings; later ones replace earlier ones."""
        known = (*JOB_FIELDS, *ENRICHED_FIELDS, *_DERIVED, *SCORE_FIELDS)
        _report_unknown("insert_scores", items, known)
        rows = [to_score(item) for item in items]
        return self._write(lambda tx: _save_about_jobs(tx, SCORES, run_ts, rows))

    def prune(self, config: Config) -> dict[str, list[str]]:
        """Delete the runs that `config["retention"]` releases; return which went and which stay."""
        rule = parse_retention(config)

        async def work(backend: SqliteBackend) -> dict[str, list[str]]:
            store = backend.tenant(TENANT)
            runs = await store.runs.list_runs()
            if rule is None:
                return {"deleted_runs": [], "kept_runs": sorted(run.name for run in runs)}
            decisions = decide_retention(
                runs, rule=rule, now=self._clock.now(), current=None, window_since=None
            )
            going = [each.run for each in decisions if each.is_deleted]
            await delete_old_runs(store, [run.at for run in going])
            return {
                "deleted_runs": [run.name for run in going],
                "kept_runs": [each.run.name for each in decisions if not each.is_deleted],
            }

        return self._run(work)

    def _write(self, work: Callable[[Transaction], _Result]) -> _Result:
        return self._run(lambda backend: backend.for_tenant(TENANT).write(work))

    def _run(self, work: Callable[[SqliteBackend], Coroutine[Any, Any, _Result]]) -> _Result:
        Disk().make_folder(self.path.parent)
        if _is_earlier_store(self.path):
            _take_over(self.path)

        async def run() -> _Result:
            backend = SqliteBackend(self.path)
            try:
                await backend.migrate()
                return await work(backend)
            finally:
                await backend.close()

        return run_in_thread(run)


# What scripts have besides, which follows from the rest.
_DERIVED = ("job_id", "role_tags", "description", "stack", "remote", "role_fit", "run_ts")


def _get_run(tx: Transaction, run_ts: str) -> str:
    """Return a run's moment as rows have it. Raises PermanentError when there is no such run."""
    at = to_db_time(parse_run_ts(run_ts))
    if not RUNS.find(tx, _THIS_RUN, at=at):
        raise PermanentError(f"there is no run {run_ts}; insert_run it first")
    return at


def _save_about_jobs(tx: Transaction, table: Table[Any], run_ts: str, rows: Sequence[Any]) -> int:
    at = _get_run(tx, run_ts)
    ids = sorted({row.job for row in rows})
    known = {job.id for job in JOBS.find_in(tx, "job_id", ids, f"t.{_THIS_RUN}", at=at)}
    for job in ids:
        if job not in known:
            raise PermanentError(f"run {run_ts} has no posting {job}; nothing was written")
    return table.save(tx, rows, at)


def _report_unknown(verb: str, items: Sequence[Record], known: Sequence[str]) -> None:
    if unknown := list_unknown_fields(items, known):
        _report(f"{verb} does not store: {', '.join(unknown)[:200]}")


def _report(message: str) -> None:
    sys.stderr.write(f"stoker: {message}\n")


def _is_earlier_store(path: Path) -> bool:
    """Return whether a file has the tables that scripts made, `runs` by its `run_ts`."""
    if not path.is_file() or not path.stat().st_size:
        return False
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            columns = {row[1] for row in database.execute("PRAGMA table_info(runs)")}
    except sqlite3.Error:
        return False  # our own store says what is wrong with it
    return "run_ts" in columns and "tenant_id" not in columns


def _take_over(path: Path) -> None:
    """Copy an earlier store's rows into one of ours, which takes its place; the old one stays."""
    beside = path.with_name(f".{path.name}.stoker")
    aside = path.with_name(f"{path.name}.before-stoker")
    Disk().remove(beside.parent, [beside.name])
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")  # nothing of it may wait beside the file
        database.row_factory = sqlite3.Row
        rows = {
            name: [dict(row) for row in database.execute(f"SELECT * FROM {name}")]
            for name in ("runs", "jobs", "enriched", "scores")
        }
    places = {(job["run_ts"], job["job_id"]): job for job in rows["jobs"]}
    copy = SqliteStore(beside)
    copy.init_schema()
    for run in rows["runs"]:
        ts = run["run_ts"]
        copy.insert_run({**json.loads(run["summary_json"]), "run_ts": ts})
        copy.insert_jobs(ts, [_without_id(job) for job in rows["jobs"] if job["run_ts"] == ts])
        for table, insert in (
            ("enriched", copy.insert_enriched),
            ("scores", copy.insert_scores),
        ):
            insert(
                ts,
                [
                    {**_get_place(places, each), **_read_features(each)}
                    for each in rows[table]
                    if each["run_ts"] == ts
                ],
            )
    if not aside.exists():
        aside.hardlink_to(path)
    beside.replace(path)
    _report(f"{path} was taken over; the earlier file is {aside.name}")


def _without_id(job: Record) -> Record:
    return {name: value for name, value in job.items() if name in JOB_FIELDS}


def _get_place(places: Mapping[tuple[str, str], Record], row: Record) -> Record:
    job = places[row["run_ts"], row["job_id"]]
    return {"source": job["source"], "url": job["url"]}


def _read_features(row: Record) -> Record:
    if "features_json" in row:
        found: Record = json.loads(row["features_json"])
        return found
    return {"score": row["score"], "bucket": row["bucket"] or ""}


def init_schema() -> None:
    """As `SqliteStore.init_schema`, for `./data/jobs.db`."""
    SqliteStore(PATH).init_schema()


def insert_run(run_summary: Record) -> None:
    """As `SqliteStore.insert_run`, for `./data/jobs.db`."""
    SqliteStore(PATH).insert_run(run_summary)


def insert_jobs(run_ts: str, jobs: Sequence[Record]) -> int:
    """As `SqliteStore.insert_jobs`, for `./data/jobs.db`."""
    return SqliteStore(PATH).insert_jobs(run_ts, jobs)


def insert_enriched(run_ts: str, enriched: Sequence[Record]) -> int:
    """As `SqliteStore.insert_enriched`, for `./data/jobs.db`."""
    return SqliteStore(PATH).insert_enriched(run_ts, enriched)


def insert_scores(run_ts: str, scores: Sequence[Record]) -> int:
    """As `SqliteStore.insert_scores`, for `./data/jobs.db`."""
    return SqliteStore(PATH).insert_scores(run_ts, scores)


def prune(config: Config) -> dict[str, list[str]]:
    """As `SqliteStore.prune`, for `./data/jobs.db`."""
    return SqliteStore(PATH).prune(config)
