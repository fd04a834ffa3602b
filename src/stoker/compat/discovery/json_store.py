"""Runs of discovery scripts as files: a folder for each run, `summary.json` and `.jsonl` files.

Every file is written whole or not at all. The functions work on `./data/json-store`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import ConfigError, PermanentError
from stoker.compat.discovery.config import Config, parse_retention, parse_run_ts
from stoker.compat.discovery.records import Record
from stoker.files.durable import Disk, FileLock
from stoker.runs.model import Run, RunKey, RunState, format_run_name, parse_run_name
from stoker.runs.retention import decide_retention

PATH = Path("data/json-store")

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,40}")

_LOCK_TIMEOUT = timedelta(seconds=30)


class JsonStore:
    """Runs in folders named by their time, and an `index.json` of them."""

    def __init__(self, directory: str | Path, *, clock: Clock | None = None) -> None:
        self.directory = Path(directory)
        self._clock = clock or SystemClock()
        self._disk = Disk()
        self._lock = FileLock(self.directory / ".lock", patience=_LOCK_TIMEOUT)

    def write_run(self, run_ts: str, summary: Record) -> str:
        """Write a run's summary as it is given; return the file's path."""
        with self._open_run(run_ts) as folder:
            path = folder / "summary.json"
            self._disk.replace(path, _to_bytes(summary))
            self._write_index()
        return str(path)

    def write_jsonl(self, kind: str, run_ts: str, items: Sequence[Record]) -> str:
        """Write records of a kind, one on each line and nothing else; return the file's path."""
        if not _KIND.fullmatch(kind):
            raise PermanentError(f"{kind[:40]!r} is no kind of records; use jobs, enriched, scores")
        data = b"".join(_to_bytes(item) + b"\n" for item in items)
        with self._open_run(run_ts) as folder:
            path = folder / f"{kind}.jsonl"
            self._disk.replace(path, data)
        return str(path)

    def prune(self, config: Config) -> dict[str, list[str]]:
        """Delete the runs that `config["retention"]` releases; return which went and which stay."""
        rule = parse_retention(config)
        names = self._list_runs()
        if rule is None or not names:
            return {"deleted_runs": [], "kept_runs": names}
        runs = [
            Run(key=RunKey(parse_run_name(name), 1), kind="discovery", state=RunState.DONE)
            for name in names
        ]
        decisions = decide_retention(
            runs, rule=rule, now=self._clock.now(), current=None, window_since=None
        )
        going = [each.run.name for each in decisions if each.is_deleted]
        with self._lock.acquire():
            self._disk.remove(self.directory, going)
            self._write_index()
        return {
            "deleted_runs": going,
            "kept_runs": [each.run.name for each in decisions if not each.is_deleted],
        }

    @contextmanager
    def _open_run(self, run_ts: str) -> Iterator[Path]:
        folder = self.directory / format_run_name(parse_run_ts(run_ts))
        self._disk.make_folder(self.directory)
        with self._lock.acquire():
            self._disk.make_folder(folder)
            yield folder

    def _write_index(self) -> None:
        self._disk.replace(self.directory / "index.json", _to_bytes(self._list_runs()))

    def _list_runs(self) -> list[str]:
        try:
            return sorted(path.name for path in self.directory.iterdir() if _is_run(path))
        except FileNotFoundError:
            return []


def _is_run(path: Path) -> bool:
    try:
        parse_run_name(path.name)
    except ConfigError:
        return False
    return path.is_dir()


def _to_bytes(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (TypeError, ValueError) as error:
        raise PermanentError(
            f"this cannot be written as JSON ({error}); nothing was written"
        ) from error


def write_run(run_ts: str, summary: Record) -> str:
    """As `JsonStore.write_run`, for `./data/json-store`."""
    return JsonStore(PATH).write_run(run_ts, summary)


def write_jsonl(kind: str, run_ts: str, items: Sequence[Record]) -> str:
    """As `JsonStore.write_jsonl`, for `./data/json-store`."""
    return JsonStore(PATH).write_jsonl(kind, run_ts, items)


def prune(config: Config) -> dict[str, list[str]]:
    """As `JsonStore.prune`, for `./data/json-store`."""
    return JsonStore(PATH).prune(config)
