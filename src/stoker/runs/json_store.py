"""Runs as files that people can read, compare and keep in version control.

Reading never locks and never writes. Leases, slots and the ledger need transactions that span
records, which files do not have, so a backend of files is given another backend for those.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from stoker.base.errors import ConfigError, ConflictError, PermanentError
from stoker.base.types import Enriched, Job, JobScore, Json, in_utc
from stoker.db.codec import kept_json, kept_text
from stoker.files.durable import Disk
from stoker.runs.json_files import Record, head_of, refuse_changed
from stoker.runs.json_folders import RunFolders
from stoker.runs.json_lines import ChainedLines
from stoker.runs.json_tables import ENRICHED, JOBS, SCORES, KeyedLines, Shape, Value
from stoker.runs.model import (
    CancelRequest,
    Run,
    RunKey,
    RunState,
    Weight,
    kept_request,
    kept_run,
    run_name,
)

PATIENCE = timedelta(seconds=30)  # how long a writer waits for another one

_ARTIFACT = re.compile(r"[a-z][a-z0-9_]{0,62}")

_TABLES = 6  # artifacts whose ids are kept at hand: those of two runs


class JsonRuns:
    """A `RunStore` in a folder; its verbs do their file work in threads."""

    def __init__(self, folder: Path, *, disk: Disk, patience: timedelta = PATIENCE) -> None:
        self._folders = RunFolders(folder, disk=disk, patience=patience)
        self._tables: OrderedDict[tuple[str, str], KeyedLines[Any]] = OrderedDict()
        self._tables_lock = threading.Lock()

    async def write_run(self, run: Run) -> None:
        """Write a run's file: `insert_run` while it is RUNNING, `finish_run` once it has ended."""
        await (self.insert_run(run) if run.state is RunState.RUNNING else self.finish_run(run))

    async def write_jsonl(
        self, key: RunKey, artifact: str, records: Sequence[Mapping[str, Json]]
    ) -> None:
        """Add records to `<artifact>.jsonl` in the run's folder, all of them or none.

        For artifacts of a caller's own; postings, enriched and scores have verbs that know them.
        """
        if not _ARTIFACT.fullmatch(artifact) or artifact in {"jobs", "enriched", "scores"}:
            raise PermanentError(
                f"{artifact!r} cannot name an artifact; use a-z, 0-9 and '_', other than "
                "jobs, enriched and scores"
            )
        kept = [kept_json(record, what="a record") for record in records]
        await asyncio.to_thread(self._write_jsonl, key, artifact, kept)

    async def read_jsonl(self, at: datetime, artifact: str) -> list[dict[str, Any]]:
        """Return the records of an artifact in the order they were written."""
        return await asyncio.to_thread(self._read_jsonl, at, artifact)

    async def insert_run(self, run: Run) -> None:
        await asyncio.to_thread(self._insert_run, kept_run(run))

    async def finish_run(self, run: Run) -> None:
        await asyncio.to_thread(self._finish_run, kept_run(run))

    async def run(self, at: datetime) -> Run | None:
        record = await asyncio.to_thread(self._record, at)
        return record.run if record else None

    async def runs(self, *, kind: str | None = None, limit: int | None = None) -> list[Run]:
        """Return runs, newest first; one whose file is damaged is left to `checks` to tell of."""
        if kind is not None:
            kept_text(kind, what="a run's kind")
        return await asyncio.to_thread(self._runs, kind, limit)

    async def ask_to_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        return await asyncio.to_thread(self._ask_to_cancel, at, kept_request(request))

    async def cancel_request(self, at: datetime) -> CancelRequest | None:
        return await asyncio.to_thread(self._cancel_request, at)

    async def insert_jobs(self, key: RunKey, jobs: Sequence[Job]) -> int:
        return await asyncio.to_thread(self._insert, key, JOBS, jobs)

    async def insert_enriched(self, key: RunKey, enriched: Sequence[Enriched]) -> int:
        return await asyncio.to_thread(self._insert, key, ENRICHED, enriched)

    async def insert_scores(self, key: RunKey, scores: Sequence[JobScore]) -> int:
        return await asyncio.to_thread(self._insert, key, SCORES, scores)

    async def jobs(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Job]:
        return await asyncio.to_thread(self._page, at, JOBS, after, limit)

    async def enriched(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[Enriched]:
        return await asyncio.to_thread(self._page, at, ENRICHED, after, limit)

    async def scores(self, at: datetime, *, after: str = "", limit: int = 1000) -> list[JobScore]:
        return await asyncio.to_thread(self._page, at, SCORES, after, limit)

    async def weigh(self, ats: Sequence[datetime]) -> Weight:
        return await asyncio.to_thread(lambda: self._weighed(ats)[1])

    async def prune(self, ats: Sequence[datetime]) -> Weight:
        return await asyncio.to_thread(self._prune, ats)

    def troubles(self) -> list[str]:
        """Return a sentence for everything here that a person should look at."""
        return self._folders.troubles()

    def _insert_run(self, run: Run) -> None:
        if run.state is not RunState.RUNNING:
            raise ConflictError(f"run {run.name} has already ended as {run.state}")
        with self._folders.writing():
            if self._folders.path(run.name).exists():
                raise ConflictError(f"there is already a run {run.name}")
            self._folders.add(run)

    def _finish_run(self, run: Run) -> None:
        if run.state is RunState.RUNNING:
            raise ConflictError(f"run {run.name} has not ended")
        with self._folders.writing():
            self._fence(run.key)
            heads = {}
            for artifact in self._folders.artifacts(run.name):
                lines = ChainedLines(self._folders.path(run.name) / f"{artifact}.jsonl")
                lines.mend(disk=self._folders.disk)
                heads[artifact] = head_of(lines)
            self._folders.change(Record(run, heads))

    def _ask_to_cancel(self, at: datetime, request: CancelRequest) -> CancelRequest | None:
        with self._folders.writing():
            record = self._record(at)
            if record is None or record.run.state is not RunState.RUNNING:
                return None
            name = record.run.name
            if (earlier := self._folders.request(name)) is not None:
                return earlier
            self._folders.ask(name, request)
            return request

    def _cancel_request(self, at: datetime) -> CancelRequest | None:
        moment = in_utc(at, what="a run's timestamp")
        return None if moment.microsecond else self._folders.request(run_name(moment))

    def _insert(self, key: RunKey, shape: Shape[Value], values: Sequence[Value]) -> int:
        with self._folders.writing():
            self._fence(key)
            kept = [shape.kept(value) for value in values]
            name = run_name(key.at)
            known = None if shape is JOBS else self._table(name, JOBS).ids()
            return self._table(name, shape).add(kept, known=known, disk=self._folders.disk)

    def _write_jsonl(self, key: RunKey, artifact: str, records: list[dict[str, Json]]) -> None:
        with self._folders.writing():
            self._fence(key)
            lines = ChainedLines(self._folders.path(run_name(key.at)) / f"{artifact}.jsonl")
            lines.mend(disk=self._folders.disk)
            if records:
                lines.append(records, disk=self._folders.disk)

    def _read_jsonl(self, at: datetime, artifact: str) -> list[dict[str, Any]]:
        record = self._record(at)
        if record is None or not _ARTIFACT.fullmatch(artifact):
            return []
        lines = ChainedLines(self._folders.path(record.run.name) / f"{artifact}.jsonl")
        records = [json.loads(row.line) for row in lines.news()]
        refuse_changed(lines, record.artifacts.get(artifact))
        return records

    def _record(self, at: datetime) -> Record | None:
        moment = in_utc(at, what="a run's timestamp")
        return None if moment.microsecond else self._folders.record(run_name(moment))

    def _runs(self, kind: str | None, limit: int | None) -> list[Run]:
        kinds = self._folders.kinds() if kind is not None else {}
        found: list[Run] = []
        for name in self._folders.names():
            if limit is not None and len(found) >= limit:
                break
            if kind is not None and kinds.get(name, kind) != kind:
                continue
            try:
                record = self._folders.record(name)
            except ConfigError:
                continue
            if record and kind in (None, record.run.kind):
                found.append(record.run)
        return found

    def _page(self, at: datetime, shape: Shape[Value], after: str, limit: int) -> list[Value]:
        kept_text(after, what="a posting's id")
        record = self._record(at)
        if record is None:
            return []
        return self._table(record.run.name, shape).page(record, after=after, limit=limit)

    def _weighed(self, ats: Sequence[datetime]) -> tuple[list[str], Weight]:
        there = {record.run.name: record for at in ats if (record := self._record(at))}
        going = {n: r for n, r in there.items() if r.run.state is not RunState.RUNNING}
        rows = sum(record.rows for record in going.values())
        size = sum(map(self._folders.size, going))
        return list(going), Weight(runs=len(going), rows=rows, bytes=size)

    def _prune(self, ats: Sequence[datetime]) -> Weight:
        with self._folders.writing():
            names, weight = self._weighed(ats)
            if names:
                self._folders.remove(names)
            return weight

    def _fence(self, key: RunKey) -> None:
        record = self._folders.record(run_name(key.at))
        run = record.run if record else None
        if run is None or run.state is not RunState.RUNNING or run.key != key:
            raise ConflictError("this run has ended or is not ours; nothing was written")

    def _table(self, name: str, shape: Shape[Value]) -> KeyedLines[Value]:
        with self._tables_lock:
            place = (name, shape.artifact)
            if place not in self._tables:
                path = self._folders.path(name) / f"{shape.artifact}.jsonl"
                self._tables[place] = KeyedLines(path, shape)
                while len(self._tables) > _TABLES:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(place)
            return self._tables[place]
