"""Keep one tenant's runs in folders.

    <tenant>/runs/<YYYYMMDD_HHMMSS>/summary.json, jobs.jsonl, enriched.jsonl, scores.jsonl
    <tenant>/runs/<YYYYMMDD_HHMMSS>/jobs.chain, …   what vouches for the records of a file
    <tenant>/runs/<YYYYMMDD_HHMMSS>/cancel.json     the cancel request, if any
    <tenant>/index.json     a list for people and for listings; rebuilt from the folders
    <tenant>/prune.json     what is being deleted; removed afterwards

The folders are the truth. JSON is indented, keys sorted, ASCII, so that people can read and compare
it; an unreadable file is a ConfigError that names it. `json_store` decides what may be written.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from stoker.base.errors import ConfigError, StokerError, TransientError
from stoker.base.types import Json, clean_text, to_utc
from stoker.files.durable import TMP, Disk, FileLock, translate_os_error
from stoker.runs.json_lines import ChecksummedLines
from stoker.runs.model import (
    CancelRequest,
    Run,
    RunState,
    parse_run,
    parse_run_name,
    to_run_json,
)

# Of summary.json, cancel.json and index.json; rises when an older Stoker could misread them.
FORMAT_VERSION = 1

_RECORD, _EARLIER_RECORD = "summary.json", "run.json"

_REPAIR_HINT = "restore it from a backup, or move its folder away to give this run up"

_RECHECK_SECONDS = 0.1  # seconds; far longer than a batch takes to write


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as its file has it; once it has ended, with how far each of its artifacts goes."""

    run: Run
    artifacts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return how many records the run has, itself included."""
        return 1 + sum(int(str(head["rows"])) for head in self.artifacts.values())


def to_record_bytes(record: RunRecord) -> bytes:
    """Return the content of a run's file."""
    artifacts = {name: dict(head) for name, head in record.artifacts.items()}
    return to_json_bytes(
        {"format": FORMAT_VERSION, **to_run_json(record.run), "artifacts": artifacts}
    )


def read_record(path: Path) -> RunRecord | None:
    """Return the run in a file; None when there is none."""
    found = read_object(path)
    if found is None:
        return None
    check_format(found, path)
    run_part = {key: found[key] for key in found.keys() - {"format", "artifacts"}}
    try:
        run = parse_run(run_part)
        artifacts: dict[str, dict[str, Json]] = {
            name: {"rows": int(head["rows"]), "chain": str(head["chain"])}
            for name, head in found.get("artifacts", {}).items()
        }
    except (StokerError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise build_damage_error(path, str(error)) from error
    if run.name != path.parent.name:
        raise build_damage_error(path, f"it belongs to run {run.name}")
    return RunRecord(run, artifacts)


def to_request_bytes(request: CancelRequest) -> bytes:
    """Return the content of the file that asks a run to stop."""
    return to_json_bytes(
        {"format": FORMAT_VERSION, "by": request.by, "at": to_utc(request.at).isoformat()}
    )


def read_request(path: Path) -> CancelRequest | None:
    """Return the cancel request in a file; None when there is none."""
    found = read_object(path)
    if found is None:
        return None
    check_format(found, path)
    try:
        by = clean_text(str(found["by"]))
        return CancelRequest(by=by, at=to_utc(datetime.fromisoformat(found["at"])))
    except (StokerError, KeyError, TypeError, ValueError) as error:
        raise build_damage_error(path, str(error)) from error


def to_index_entry(run: Run) -> dict[str, Json]:
    """Return a run's entry in the index."""
    ended = None if run.ended_at is None else run.ended_at.isoformat()
    return {"kind": run.kind, "state": run.state.value, "ended_at": ended, "reason": run.reason}


def to_index_bytes(entries: Mapping[str, Json]) -> bytes:
    """Return the content of an index."""
    return to_json_bytes({"format": FORMAT_VERSION, "runs": entries})


def read_index(path: Path) -> dict[str, Any] | None:
    """Return the index's entries by run; None when it is missing or damaged."""
    try:
        found = read_object(path)
    except ConfigError:
        return None
    if found is None or not isinstance(found.get("format"), int):
        return None
    check_format(found, path)
    entries = found.get("runs")
    sound = isinstance(entries, dict) and all(
        isinstance(entry, dict) and {"kind", "state"} <= entry.keys() for entry in entries.values()
    )
    return entries if sound else None


def to_json_bytes(value: Mapping[str, Json]) -> bytes:
    """Return JSON for people."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return text.encode() + b"\n"


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in this file; None when there is no such file."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise translate_os_error(error, path) from error
    except (ValueError, RecursionError) as error:
        raise build_damage_error(path, str(error)) from error
    if not isinstance(found, dict):
        raise build_damage_error(path, "it holds no JSON object")
    return found


def build_damage_error(path: Path, why: str) -> ConfigError:
    """Build the error for a damaged file, with what to do."""
    return ConfigError(f"{path} is damaged ({why}); {_REPAIR_HINT}")


def check_format(found: Mapping[str, Any], path: Path) -> None:
    """Raise ConfigError when a file was written by a Stoker newer than this one."""
    version = found.get("format")
    if not isinstance(version, int):
        raise build_damage_error(path, "it has no format version")
    if version > FORMAT_VERSION:
        raise ConfigError(
            f"{path} has format {version}, newer than this Stoker knows ({FORMAT_VERSION}); "
            "upgrade Stoker, nothing was changed"
        )


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
        if name in self._list_deleting():
            return None
        path, earlier = self.get_path(name) / _RECORD, self.get_path(name) / _EARLIER_RECORD
        if not path.exists() and earlier.exists():
            path = earlier
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
        self.disk.replace(beside / _RECORD, to_record_bytes(RunRecord(run)))
        self.disk.move(beside, self.get_path(run.name))
        self._update_index(run)

    def update_record(self, record: RunRecord) -> None:
        """Replace a run's file."""
        folder = self.get_path(record.run.name)
        self.disk.replace(folder / _RECORD, to_record_bytes(record))
        self.disk.remove(folder, [_EARLIER_RECORD])
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
        lines.check_unchanged(head)
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
