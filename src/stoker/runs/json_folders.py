"""Keep one tenant's runs in folders.

    <tenant>/runs/<YYYYMMDD_HHMMSS>/run.json, jobs.jsonl, enriched.jsonl, scores.jsonl
    <tenant>/runs/<YYYYMMDD_HHMMSS>/cancel.json     the cancel request, if any
    <tenant>/index.json     a list for people and for listings; rebuilt from the folders
    <tenant>/prune.json     what is being deleted; removed afterwards

The folders are the truth. `json_store` decides what may be written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from stoker.base.errors import ConfigError, StokerError, TransientError
from stoker.base.types import Json
from stoker.files.durable import TMP, Disk, FileLock, translate_os_error
from stoker.runs.json_files import (
    RunRecord,
    build_damage_error,
    check_unchanged,
    read_index,
    read_object,
    read_record,
    read_request,
    to_index_bytes,
    to_index_entry,
    to_json_bytes,
    to_record_bytes,
    to_request_bytes,
)
from stoker.runs.json_lines import ChecksummedLines
from stoker.runs.model import CancelRequest, Run, RunState, parse_run_name

_RECHECK_SECONDS = 0.1  # seconds; far longer than a batch takes to write


class RunFolders:
    """One tenant's folder. Reading needs no lock: every file is whole at every time."""

    def __init__(self, folder: Path, *, disk: Disk, patience: timedelta) -> None:
        self.folder = folder
        self.disk = disk
        self._lock = FileLock(folder / ".lock", patience=patience)
        self._is_tidy = False
        self._prune = folder / "prune.json"
        self._index = folder / "index.json"
        self._open: dict[str, tuple[tuple[int, ...], RunRecord]] = {}  # asked at every write

    @contextmanager
    def open_for_writing(self) -> Iterator[None]:
        """Be the only writer; what an earlier one left unfinished is finished or removed first."""
        with self.disk.guard_changes(self.folder):
            self.disk.make_folder(self.folder / "runs")
            with self._lock.acquire():
                if not self._is_tidy or self._prune.exists():
                    self._repair_folder()
                    self._is_tidy = True
                yield

    def get_path(self, name: str) -> Path:
        """Return the folder of the run of this name."""
        return self.folder / "runs" / name

    def list_names(self) -> list[str]:
        """Return the names of all runs, newest first; one that is just going has no record."""
        return sorted((path.name for path in self._list_run_paths()), reverse=True)

    def find_record(self, name: str) -> RunRecord | None:
        """Return a run; None if there is none, ConfigError when its file cannot be understood."""
        path = self.get_path(name) / "run.json"
        if name in self._list_deleting():
            return None
        try:
            stat = path.stat()
        except FileNotFoundError:
            if self.get_path(name).is_dir():
                raise build_damage_error(path, "it is missing") from None
            return None
        except OSError as error:
            raise translate_os_error(error, path) from error
        # A file is only ever replaced by another one, so an unchanged file has unchanged content.
        stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        known = self._open.get(name)
        if known and known[0] == stamp:
            return known[1]
        record = read_record(path)
        if record and record.run.state is RunState.RUNNING:
            self._open[name] = (stamp, record)
        else:
            self._open.pop(name, None)
        return record

    def add_run(self, run: Run) -> None:
        """Make the folder of a new run: there with its file in it, or not there at all."""
        beside = self.folder / "runs" / f".{run.name}{TMP}"
        self.disk.remove(beside.parent, [beside.name])
        self.disk.make_folder(beside)
        self.disk.replace(beside / "run.json", to_record_bytes(RunRecord(run)))
        self.disk.move(beside, self.get_path(run.name))
        self._update_index(run)

    def update_record(self, record: RunRecord) -> None:
        """Replace a run's file."""
        self.disk.replace(self.get_path(record.run.name) / "run.json", to_record_bytes(record))
        self._update_index(record.run)

    def find_cancel_request(self, name: str) -> CancelRequest | None:
        """Return a run's cancel request; None if there is none, or no such run."""
        return (
            None
            if name in self._list_deleting()
            else read_request(self.get_path(name) / "cancel.json")
        )

    def write_cancel_request(self, name: str, request: CancelRequest) -> None:
        """Write down, beside a run's file, who asks it to stop."""
        self.disk.replace(self.get_path(name) / "cancel.json", to_request_bytes(request))

    def remove_runs(self, names: Sequence[str]) -> None:
        """Let runs go, all of them or, when this fails, none."""
        self.disk.replace(self._prune, to_json_bytes({"runs": sorted(names)}))
        # From here on they are gone for every reader; deleting the files may wait.
        try:
            self._finish_deletion()
        except (ConfigError, TransientError):
            self._is_tidy = False

    def list_artifacts(self, name: str) -> list[str]:
        """Return which artifacts a run has."""
        return sorted(path.stem for path in self.get_path(name).glob("*.jsonl"))

    def measure_size(self, name: str) -> int:
        """Return how many bytes a run's files take up."""
        try:
            return sum(path.stat().st_size for path in self.get_path(name).iterdir())
        except FileNotFoundError:  # another process has just removed it
            return 0

    def read_index(self) -> dict[str, Any]:
        """Return the index, by run; it may lack some runs and the end of some."""
        return read_index(self._index) or {}

    def list_problems(self) -> list[str]:
        """Return a sentence for each problem that a person should look at."""
        troubles = [
            f"{path} was damaged and moved aside; look at it, then delete it"
            for pattern in ("index.json.damaged-*", "runs/*/*.torn-*")
            for path in sorted(self.folder.glob(pattern))
        ]
        for name in self.list_names():
            try:
                record = self.find_record(name)
                self.find_cancel_request(name)
                ended = record.artifacts if record else {}
                for artifact in sorted({*self.list_artifacts(name), *ended}):
                    troubles += self._check_artifact(name, artifact, ended.get(artifact))
            except StokerError as error:
                troubles.append(str(error))
        try:
            if read_index(self._index) is None and self._index.exists():
                troubles.append(f"{self._index} is damaged; the next write rebuilds it")
        except ConfigError as error:
            troubles.append(str(error))
        return troubles

    def _check_artifact(
        self, name: str, artifact: str, head: Mapping[str, Json] | None
    ) -> list[str]:
        lines = ChecksummedLines(self.get_path(name) / f"{artifact}.jsonl")
        for _ in lines.read_new():
            pass
        check_unchanged(lines, head)
        seen = lines.partial_bytes
        if seen:
            time.sleep(_RECHECK_SECONDS)  # it may be a batch that is being written this very time
            for _ in lines.read_new():
                pass
        if not seen or lines.partial_bytes != seen:
            return []
        return [
            f"{lines.path} ends in {seen} bytes of a batch that was never finished; "
            "they are set aside when the run is next written to"
        ]

    def _repair_folder(self) -> None:
        for folder in [self.folder, self.folder / "runs", *self._list_run_paths()]:
            self.disk.remove(folder, [path.name for path in folder.glob(f".*{TMP}")])
        self._finish_deletion()
        # A run's end is the only change an index can have missed, besides the run itself.
        known = self._read_index()
        self._reindex({name: e for name, e in known.items() if e["state"] != RunState.RUNNING})

    def _finish_deletion(self) -> None:
        if going := self._list_deleting():
            self.disk.remove(self.folder / "runs", going)
            self._reindex({n: entry for n, entry in self._read_index().items() if n not in going})
            self.disk.remove(self.folder, [self._prune.name])

    def _update_index(self, run: Run) -> None:
        # The run itself is safe already. An index that could not follow is put right next time.
        try:
            known = self._read_index()
            if known:
                self._write_index({**known, run.name: to_index_entry(run)})
            else:
                self._reindex({})
        except (ConfigError, TransientError):
            self._is_tidy = False

    def _read_index(self) -> dict[str, Any]:
        """Return the index; a damaged one is moved aside first."""
        known = read_index(self._index)
        if known is None and self._index.exists():
            mark = hashlib.sha256(self._index.read_bytes()).hexdigest()[:8]
            self.disk.move(self._index, self._index.with_name(f"index.json.damaged-{mark}"))
        return known or {}

    def _reindex(self, known: Mapping[str, Any]) -> None:
        """Write the index for the folders there are, looking into those not known."""
        entries: dict[str, Any] = {}
        for name in [path.name for path in self._list_run_paths()]:
            try:
                record = None if name in known else self.find_record(name)
            except ConfigError:
                continue  # `list_problems` reports it
            if name in known or record:
                entries[name] = to_index_entry(record.run) if record else known[name]
        self._write_index(entries)

    def _write_index(self, entries: Mapping[str, Json]) -> None:
        index = to_index_bytes(entries)
        if not self._index.exists() or self._index.read_bytes() != index:
            self.disk.replace(self._index, index)

    def _list_run_paths(self) -> list[Path]:
        try:
            return [path for path in (self.folder / "runs").iterdir() if _is_run_name(path.name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise translate_os_error(error, self.folder) from error

    def _list_deleting(self) -> frozenset[str]:
        found = read_object(self._prune)
        return frozenset(found["runs"]) if found else frozenset()


def _is_run_name(name: str) -> bool:
    try:
        parse_run_name(name)
    except ConfigError:
        return False
    return True
