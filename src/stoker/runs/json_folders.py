"""Where one tenant's runs lie on the disk, and how that place is kept in order.

    <tenant>/runs/<YYYYMMDD_HHMMSS>/run.json, jobs.jsonl, enriched.jsonl, scores.jsonl
    <tenant>/runs/<YYYYMMDD_HHMMSS>/cancel.json     who asked it to stop, if anybody did
    <tenant>/index.json     what there is, for people and for listings; made anew from the folders
    <tenant>/prune.json     what is being removed right now; gone once it is gone

The folders are the truth. What may be written, and when, is decided by `json_files`.
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
from stoker.files.durable import TMP, Disk, Turn, meaning
from stoker.runs.json_files import (
    Record,
    damaged,
    index_bytes,
    index_entry,
    json_bytes,
    read_index,
    read_object,
    read_record,
    read_request,
    record_bytes,
    refuse_changed,
    request_bytes,
)
from stoker.runs.json_lines import ChainedLines
from stoker.runs.model import CancelRequest, Run, RunState, run_at

_GLANCE = 0.1  # seconds; far longer than a batch takes to write


class RunFolders:
    """One tenant's folder. Reading needs no lock: every file is whole at every moment."""

    def __init__(self, folder: Path, *, disk: Disk, patience: timedelta) -> None:
        self.folder = folder
        self.disk = disk
        self._turn = Turn(folder / ".lock", patience=patience)
        self._tidy = False
        self._prune = folder / "prune.json"
        self._index = folder / "index.json"
        self._open: dict[str, tuple[tuple[int, ...], Record]] = {}  # asked at every write

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only writer; what an earlier one left unfinished is finished or removed first."""
        with self.disk.changing(self.folder):
            self.disk.make_folder(self.folder / "runs")
            with self._turn.taken():
                if not self._tidy or self._prune.exists():
                    self._tidy_up()
                    self._tidy = True
                yield

    def path(self, name: str) -> Path:
        """Return the folder of the run of this name."""
        return self.folder / "runs" / name

    def names(self) -> list[str]:
        """Return the names of all runs, newest first; one that is just going has no record."""
        return sorted((path.name for path in self._shown()), reverse=True)

    def record(self, name: str) -> Record | None:
        """Return a run; None if there is none, ConfigError when its file cannot be understood."""
        path = self.path(name) / "run.json"
        if name in self._going():
            return None
        try:
            stat = path.stat()
        except FileNotFoundError:
            if self.path(name).is_dir():
                raise damaged(path, "it is missing") from None
            return None
        except OSError as error:
            raise meaning(error, path) from error
        # A file is only ever replaced by another one, so the same file says the same.
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

    def add(self, run: Run) -> None:
        """Make the folder of a new run: there with its file in it, or not there at all."""
        beside = self.folder / "runs" / f".{run.name}{TMP}"
        self.disk.remove(beside.parent, [beside.name])
        self.disk.make_folder(beside)
        self.disk.replace(beside / "run.json", record_bytes(Record(run)))
        self.disk.move(beside, self.path(run.name))
        self._note(run)

    def change(self, record: Record) -> None:
        """Replace a run's file."""
        self.disk.replace(self.path(record.run.name) / "run.json", record_bytes(record))
        self._note(record.run)

    def request(self, name: str) -> CancelRequest | None:
        """Return who asked a run to stop; None if nobody did, or there is no such run."""
        return None if name in self._going() else read_request(self.path(name) / "cancel.json")

    def ask(self, name: str, request: CancelRequest) -> None:
        """Write down, beside a run's file, who asks it to stop."""
        self.disk.replace(self.path(name) / "cancel.json", request_bytes(request))

    def remove(self, names: Sequence[str]) -> None:
        """Let runs go, all of them or, when this fails, none."""
        self.disk.replace(self._prune, json_bytes({"runs": sorted(names)}))
        # From here on they are gone for every reader; the rest is sweeping, and may wait.
        try:
            self._sweep()
        except (ConfigError, TransientError):
            self._tidy = False

    def artifacts(self, name: str) -> list[str]:
        """Return which artifacts a run has."""
        return sorted(path.stem for path in self.path(name).glob("*.jsonl"))

    def size(self, name: str) -> int:
        """Return how many bytes a run's files take up."""
        try:
            return sum(path.stat().st_size for path in self.path(name).iterdir())
        except FileNotFoundError:  # another process has just removed it
            return 0

    def kinds(self) -> dict[str, str]:
        """Return the kind of each run in the index, which may lack some."""
        return {name: entry["kind"] for name, entry in (read_index(self._index) or {}).items()}

    def troubles(self) -> list[str]:
        """Return a sentence for everything here that a person should look at."""
        troubles = [
            f"{path} was damaged and is kept aside; look at it, then delete it"
            for pattern in ("index.json.damaged-*", "runs/*/*.torn-*")
            for path in sorted(self.folder.glob(pattern))
        ]
        for name in self.names():
            try:
                record = self.record(name)
                self.request(name)
                ended = record.artifacts if record else {}
                for artifact in sorted({*self.artifacts(name), *ended}):
                    troubles += self._torn(name, artifact, ended.get(artifact))
            except StokerError as error:
                troubles.append(str(error))
        try:
            if read_index(self._index) is None and self._index.exists():
                troubles.append(f"{self._index} is damaged; the next write makes it anew")
        except ConfigError as error:
            troubles.append(str(error))
        return troubles

    def _torn(self, name: str, artifact: str, head: Mapping[str, Json] | None) -> list[str]:
        lines = ChainedLines(self.path(name) / f"{artifact}.jsonl")
        for _ in lines.news():
            pass
        refuse_changed(lines, head)
        seen = lines.torn
        if seen:
            time.sleep(_GLANCE)  # it may be a batch that is being written this very moment
            for _ in lines.news():
                pass
        if not seen or lines.torn != seen:
            return []
        return [
            f"{lines.path} ends in {seen} bytes of a batch that was never finished; "
            "they are set aside when the run is next written to"
        ]

    def _tidy_up(self) -> None:
        for folder in [self.folder, self.folder / "runs", *self._shown()]:
            self.disk.remove(folder, [path.name for path in folder.glob(f".*{TMP}")])
        self._sweep()
        # A run's end is the only change an index can have missed, besides the run itself.
        known = self._known()
        self._reindex({name: e for name, e in known.items() if e["state"] != RunState.RUNNING})

    def _sweep(self) -> None:
        if going := self._going():
            self.disk.remove(self.folder / "runs", going)
            self._reindex({n: entry for n, entry in self._known().items() if n not in going})
            self.disk.remove(self.folder, [self._prune.name])

    def _note(self, run: Run) -> None:
        # The run itself is safe already. An index that could not follow is put right next time.
        try:
            known = self._known()
            if known:
                self._write_index({**known, run.name: index_entry(run)})
            else:
                self._reindex({})
        except (ConfigError, TransientError):
            self._tidy = False

    def _known(self) -> dict[str, Any]:
        """Return what the index says; one that is damaged is set aside first."""
        known = read_index(self._index)
        if known is None and self._index.exists():
            mark = hashlib.sha256(self._index.read_bytes()).hexdigest()[:8]
            self.disk.move(self._index, self._index.with_name(f"index.json.damaged-{mark}"))
        return known or {}

    def _reindex(self, known: Mapping[str, Any]) -> None:
        """Write the index for the folders there are, looking into those not known."""
        entries: dict[str, Any] = {}
        for name in [path.name for path in self._shown()]:
            try:
                record = None if name in known else self.record(name)
            except ConfigError:
                continue  # `troubles` tells of it
            if name in known or record:
                entries[name] = index_entry(record.run) if record else known[name]
        self._write_index(entries)

    def _write_index(self, entries: Mapping[str, Json]) -> None:
        index = index_bytes(entries)
        if not self._index.exists() or self._index.read_bytes() != index:
            self.disk.replace(self._index, index)

    def _shown(self) -> list[Path]:
        try:
            return [path for path in (self.folder / "runs").iterdir() if _names_a_run(path.name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise meaning(error, self.folder) from error

    def _going(self) -> frozenset[str]:
        found = read_object(self._prune)
        return frozenset(found["runs"]) if found else frozenset()


def _names_a_run(name: str) -> bool:
    try:
        run_at(name)
    except ConfigError:
        return False
    return True
