"""Store runs as files that people can read, compare and put under version control.

Reading never locks or writes. Leases, occurrences and the ledger need transactions across records,
so they are in another backend.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from stoker.base.errors import ConfigError, ConflictError
from stoker.base.types import EnrichedJob, Job, JobScore, to_utc
from stoker.db.codec import validate_text
from stoker.files.durable import Disk
from stoker.runs import schema
from stoker.runs.json_folders import RunFolders, RunRecord
from stoker.runs.json_lines import (
    ENRICHED,
    JOBS,
    SCORES,
    ChecksummedLines,
    IndexedLines,
    RecordType,
    Value,
)
from stoker.runs.model import (
    CancelRequest,
    Run,
    RunKey,
    RunState,
    StorageSize,
    format_run_name,
    parse_run_name,
)

LOCK_TIMEOUT = timedelta(seconds=30)  # how long a writer waits for another one

_MAX_TABLES = 6  # artifacts whose ids are cached: those of two runs


_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def _in_thread(
    verb: Callable[_Params, _Result],
) -> Callable[_Params, Coroutine[Any, Any, _Result]]:
    """Do a verb's file work in a thread."""

    @wraps(verb)
    async def run(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        return await asyncio.to_thread(verb, *args, **kwargs)

    return run


class JsonRunStore:
    """The verbs of `store.RunStore` over files."""

    def __init__(self, folder: Path, *, disk: Disk, patience: timedelta = LOCK_TIMEOUT) -> None:
        self._folders = RunFolders(folder, disk=disk, patience=patience)
        self._tables: OrderedDict[tuple[str, str], IndexedLines[Any]] = OrderedDict()
        self._tables_lock = threading.Lock()

    def list_problems(self) -> list[str]:
        """Return a sentence for each problem that a person should look at."""
        return self._folders.list_problems()

    @_in_thread
    def insert_run(self, run: Run) -> None:
        run = schema.RUNS.store(run)
        if run.state is not RunState.RUNNING:
            raise ConflictError(f"run {run.name} has already ended as {run.state}")
        with self._folders.open_for_writing():
            if self._folders.get_path(run.name).exists():
                raise ConflictError(f"there is already a run {run.name}")
            self._folders.add_run(run)

    @_in_thread
    def finish_run(self, run: Run) -> None:
        run = schema.RUNS.store(run)
        if run.state is RunState.RUNNING:
            raise ConflictError(f"run {run.name} has not ended")
        with self._folders.open_for_writing():
            self._require_running(run.key)
            heads = {}
            for artifact in self._folders.list_artifacts(run.name):
                lines = ChecksummedLines(self._folders.get_path(run.name) / f"{artifact}.jsonl")
                lines.repair_tail(disk=self._folders.disk)
                heads[artifact] = lines.head
            self._folders.update_record(RunRecord(run, heads))

    @_in_thread
    def find_run(self, at: datetime) -> Run | None:
        record = self._find_record(at)
        return record.run if record else None

    @_in_thread
    def list_runs(
        self,
        *,
        kind: str | None = None,
        state: RunState | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        """Return runs, newest first, without damaged ones: `checks` reports those."""
        if kind is not None:
            validate_text(kind, what="a run's kind")
        index = self._folders.read_index() if (kind, state) != (None, None) else {}
        found: list[Run] = []
        for name in self._folders.list_names():
            if limit is not None and len(found) >= limit:
                break
            if since is not None and parse_run_name(name) < since:
                break  # they come newest first
            entry = index.get(name, {})
            if kind is not None and entry.get("kind", kind) != kind:
                continue
            # An index may lack a run's end, so only an end in it is believed.
            if state is RunState.RUNNING and entry.get("state", state.value) != state.value:
                continue
            try:
                record = self._folders.find_record(name)
            except ConfigError:
                continue
            if record and kind in (None, record.run.kind) and state in (None, record.run.state):
                found.append(record.run)
        return found

    @_in_thread
    def request_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        request = schema.CANCEL_REQUESTS.store(request)
        with self._folders.open_for_writing():
            record = self._find_record(at)
            if record is None or record.run.state is not RunState.RUNNING:
                return None
            name = record.run.name
            if (earlier := self._folders.find_cancel_request(name)) is not None:
                return earlier
            self._folders.write_cancel_request(name, request)
            return request

    @_in_thread
    def find_cancel_request(self, at: datetime) -> CancelRequest | None:
        name = _find_name(at)
        return self._folders.find_cancel_request(name) if name else None

    @_in_thread
    def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        return self._insert_rows(key, JOBS, jobs)

    @_in_thread
    def insert_enriched(self, key: RunKey, enriched: Sequence[EnrichedJob]) -> int:
        return self._insert_rows(key, ENRICHED, enriched)

    @_in_thread
    def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        return self._insert_rows(key, SCORES, scores)

    @_in_thread
    def list_jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        return self._list_page(at, JOBS, after, limit)

    @_in_thread
    def list_enriched(
        self, at: datetime, *, after: str = "", limit: int = 1000
    ) -> list[EnrichedJob]:
        return self._list_page(at, ENRICHED, after, limit)

    @_in_thread
    def list_scores(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[JobScore]:
        return self._list_page(at, SCORES, after, limit)

    @_in_thread
    def measure_runs(self, ats: Sequence[datetime]) -> StorageSize:
        return self._measure_runs(ats)[1]

    @_in_thread
    def delete_runs(self, ats: Sequence[datetime]) -> StorageSize:
        with self._folders.open_for_writing():
            names, size = self._measure_runs(ats)
            if names:
                self._folders.remove_runs(names)
            return size

    def _insert_rows(self, key: RunKey, shape: RecordType[Value], values: Sequence[Value]) -> int:
        with self._folders.open_for_writing():
            self._require_running(key)
            validated = [shape.table.store(value) for value in values]
            name = format_run_name(key.at)
            known = None if shape is JOBS else self._get_table(name, JOBS).list_ids()
            return self._get_table(name, shape).add_new(
                validated, known=known, disk=self._folders.disk
            )

    def _list_page(
        self, at: datetime, shape: RecordType[Value], after: str, limit: int
    ) -> list[Value]:
        validate_text(after, what="a posting's id")
        record = self._find_record(at)
        if record is None:
            return []
        head = record.artifacts.get(shape.artifact)
        return self._get_table(record.run.name, shape).read_page(head, after=after, limit=limit)

    def _measure_runs(self, ats: Sequence[datetime]) -> tuple[list[str], StorageSize]:
        there = {record.run.name: record for at in ats if (record := self._find_record(at))}
        going = {n: r for n, r in there.items() if r.run.state is not RunState.RUNNING}
        rows = sum(record.rows for record in going.values())
        size = sum(map(self._folders.measure_size, going))
        return list(going), StorageSize(runs=len(going), rows=rows, bytes=size)

    def _find_record(self, at: datetime) -> RunRecord | None:
        name = _find_name(at)
        return self._folders.find_record(name) if name else None

    def _require_running(self, key: RunKey) -> None:
        record = self._folders.find_record(format_run_name(key.at))
        run = record.run if record else None
        if run is None or run.state is not RunState.RUNNING or run.key != key:
            raise ConflictError("this run has ended or is not ours; nothing was written")

    def _get_table(self, name: str, shape: RecordType[Value]) -> IndexedLines[Value]:
        with self._tables_lock:
            place = (name, shape.artifact)
            if place not in self._tables:
                path = self._folders.get_path(name) / f"{shape.artifact}.jsonl"
                self._tables[place] = IndexedLines(path, shape)
                while len(self._tables) > _MAX_TABLES:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(place)
            return self._tables[place]


def _find_name(at: datetime) -> str | None:
    """Return the name of the run at a moment; None for one that names no run."""
    moment = to_utc(at, what="a run's timestamp")
    return None if moment.microsecond else format_run_name(moment)
