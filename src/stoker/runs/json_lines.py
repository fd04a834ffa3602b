"""Append batches of JSON lines with checksums, detect damage, and index postings by id.

One record per line, for people and for `jq`, and nothing else. A file of its own, `jobs.chain` for
`jobs.jsonl`, has a line for each batch: where it ends, the number of records, and a digest chained
to every byte before. A batch without it was never finished. Earlier versions wrote these lines
among the records; such a file is read, and goes on as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.base.jsontools import compact_json
from stoker.base.types import EnrichedJob, Job, JobScore, Json, to_utc
from stoker.db.table import Table
from stoker.files.durable import Disk, translate_os_error
from stoker.runs import schema

Value = TypeVar("Value")

FIRST_CHAIN = "0" * 16

_CHAIN_LINE = re.compile(
    rb'\{"bytes":([0-9]{1,18}),"chain":"([0-9a-f]{16})","rows":([0-9]{1,12})\}\n'
)

_CHECKSUM_LINE = re.compile(rb'\{"chain":"([0-9a-f]{16})","rows":([0-9]{1,12})\}\n')


@dataclass(frozen=True, slots=True)
class LinePosition:
    """How far a file goes: where its last whole batch ends, and what vouches for it."""

    end: int = 0
    rows: int = 0
    chain: str = FIRST_CHAIN
    chain_end: int = 0  # of the file of its own; 0 in a file with checksums among its records

    @property
    def checksum_line(self) -> bytes:
        """The line that vouches for the last batch; empty for an empty file."""
        if not self.end:
            return b""
        if self.chain_end:
            return _build_chain_line(self.end, self.chain, self.rows)
        return _build_checksum_line(self.chain, self.rows)

    def advance(self, lines: Sequence[bytes], *, is_inside: bool) -> LinePosition:
        """Return the position after these lines and their checksum, among them or beside."""
        chain = hashlib.sha256(self.chain.encode() + b"".join(lines)).hexdigest()[:16]
        rows, end = self.rows + len(lines), self.end + sum(map(len, lines))
        if is_inside:
            return LinePosition(end + len(_build_checksum_line(chain, rows)), rows, chain)
        beside = self.chain_end + len(_build_chain_line(end, chain, rows))
        return LinePosition(end, rows, chain, beside)


@dataclass(frozen=True, slots=True)
class StoredLine:
    """One record and its offset in the file."""

    start: int
    line: bytes


class ChecksummedLines:
    """One file, followed from where we last left off."""

    def __init__(self, path: Path) -> None:
        self.path, self.chain_path = path, path.with_suffix(".chain")
        self.position = LinePosition()
        self.partial_bytes = 0  # bytes after the last whole batch when we last looked
        self.restarts = 0  # how often the file turned out not to be the one we knew

    @property
    def head(self) -> dict[str, Json]:
        """How far the file goes, as it is written into its run's record."""
        return {"rows": self.position.rows, "chain": self.position.chain}

    def check_unchanged(self, head: Mapping[str, Json] | None) -> None:
        """Raise ConfigError unless the file is as its ended run recorded it; None: not ended."""
        if head is not None and (self.partial_bytes or head != self.head):
            raise ConfigError(f"{self.path} was changed after its run; restore it from a backup")

    def read_new(self) -> Iterator[StoredLine]:
        """Yield the records of every complete batch since the last read; a partial end is left out.

        Raises ConfigError when a batch is damaged. When the file was replaced, `restarts`
        increases and everything is yielded again from the beginning.
        """
        self.partial_bytes = 0
        # Read first: what it vouches for is in the other file by then.
        beside = self._read_chain()
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._reset()
            self.partial_bytes = len(beside or b"")
            return
        except OSError as error:
            raise translate_os_error(error, self.path) from error
        with file:
            if beside is None:
                self._seek_position(file)
                yield from self._read_batches(file)
            else:
                yield from self._read_vouched(file, beside)

    def append(self, records: Sequence[Mapping[str, Json]], *, disk: Disk) -> Iterator[StoredLine]:
        """Append one batch, all or nothing, durable when this returns; yield its rows.

        The caller is the only writer and has just called `read_new`.
        """
        lines = [to_line(record) for record in records]
        before, is_inside = self.position, self._has_checksums_inside()
        after = before.advance(lines, is_inside=is_inside)
        if is_inside:
            disk.append(self.path, b"".join([*lines, after.checksum_line]), end=before.end)
        else:
            disk.append(self.path, b"".join(lines), end=before.end)
            try:
                disk.append(self.chain_path, after.checksum_line, end=before.chain_end)
            except TransientError:
                disk.truncate(self.path, end=before.end)
                raise
        self.position = after
        return _to_rows(before.end, lines)

    def repair_tail(self, *, disk: Disk) -> Path | None:
        """Move a partial end to a file of its own and return its path; None if the file is
        complete.

        Rows it reads on the way are not yielded again.
        """
        for _ in self.read_new():
            pass
        if not self.partial_bytes:
            return None
        tail = self.path.read_bytes()[self.position.end :] if self.path.exists() else b""
        aside = self.path.with_name(f"{self.path.name}.torn-{hashlib.sha256(tail).hexdigest()[:8]}")
        disk.replace(aside, tail)
        for path, end in (
            (self.path, self.position.end),
            (self.chain_path, self.position.chain_end),
        ):
            if path.exists():
                disk.truncate(path, end=end)
        return aside

    def _has_checksums_inside(self) -> bool:
        return bool(self.position.end) and not self.position.chain_end

    def _read_chain(self) -> bytes | None:
        """Return the lines that vouch for batches; None when there is no such file."""
        try:
            return self.chain_path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise translate_os_error(error, self.chain_path) from error

    def _read_vouched(self, file: BinaryIO, chain: bytes) -> Iterator[StoredLine]:
        known = self.position.checksum_line
        start = self.position.chain_end - len(known)
        if self._has_checksums_inside() or chain[max(start, 0) :][: len(known)] != known:
            self._reset()
        size = os.fstat(file.fileno()).st_size
        while found := _CHAIN_LINE.match(chain, self.position.chain_end):
            file.seek(self.position.end)
            batch = file.read(max(int(found[1]) - self.position.end, 0))
            lines = [line + b"\n" for line in batch.split(b"\n")[:-1]]
            after = self.position.advance(lines, is_inside=False)
            if after.checksum_line != found[0] or not batch.endswith(b"\n"):
                break  # the last batch may be torn; one with others after it is damaged
            yield from _to_rows(self.position.end, lines)
            self.position = after
        rest = chain[self.position.chain_end :]
        if rest.count(b"\n") > 1:
            raise self._build_damage_error()
        self.partial_bytes = max(size - self.position.end, 0) + len(rest)

    def _seek_position(self, file: BinaryIO) -> None:
        # The seal we stopped at vouches for everything before it, so one look at it is enough.
        if self.position.chain_end:
            self._reset()
        start = self.position.end - len(self.position.checksum_line)
        file.seek(start)
        if file.read(len(self.position.checksum_line)) != self.position.checksum_line:
            self._reset()
            file.seek(0)

    def _reset(self) -> None:
        if self.position.end:
            self.position = LinePosition()
            self.restarts += 1

    def _read_batches(self, file: BinaryIO) -> Iterator[StoredLine]:
        lines: list[bytes] = []
        broken = False
        for line in file:
            self.partial_bytes += len(line)
            if broken:
                raise self._build_damage_error()
            if _CHECKSUM_LINE.fullmatch(line):
                after = self.position.advance(lines, is_inside=True)
                if line == after.checksum_line:
                    yield from _to_rows(self.position.end, lines)
                    self.position, lines, self.partial_bytes = after, [], 0
                    continue
                broken = True  # the last batch may be torn; one with others after it is damaged
            lines.append(line)

    def _build_damage_error(self) -> ConfigError:
        return ConfigError(
            f"{self.path} is damaged after line {self.position.rows}; restore it from a backup, "
            "or move its folder away to give this run up"
        )


def to_line(record: Mapping[str, Json]) -> bytes:
    """Return a record as its line; PermanentError when it looks like a checksum line."""
    line = compact_json(record).encode() + b"\n"
    if _CHECKSUM_LINE.fullmatch(line):
        raise PermanentError("a record of only `chain` and `rows` cannot be kept; add another key")
    return line


def _build_chain_line(end: int, chain: str, rows: int) -> bytes:
    return b'{"bytes":%d,"chain":"%s","rows":%d}\n' % (end, chain.encode(), rows)


def _build_checksum_line(chain: str, rows: int) -> bytes:
    # Rows are counted over the whole file, so that a checksum line has the whole position.
    return b'{"chain":"%s","rows":%d}\n' % (chain.encode(), rows)


def _to_rows(start: int, lines: Sequence[bytes]) -> Iterator[StoredLine]:
    for line in lines:
        yield StoredLine(start, line)
        start += len(line)


@dataclass(frozen=True, slots=True)
class RecordType(Generic[Value]):
    """One kind of record: its table in SQL, which says what can be stored, its class, its id."""

    table: Table[Value]
    kind: Callable[..., Value]
    id: str  # the field with the posting's id

    @property
    def artifact(self) -> str:
        """The name of its file, without the suffix."""
        return self.table.name


JOBS = RecordType(schema.JOBS, Job, "id")

ENRICHED = RecordType(schema.ENRICHED, EnrichedJob, "job")

SCORES = RecordType(schema.SCORES, JobScore, "job")


def _to_record(value: Any) -> dict[str, Json]:
    record = {field.name: getattr(value, field.name) for field in fields(value)}
    if record.get("posted_at") is not None:
        record["posted_at"] = to_utc(record["posted_at"]).isoformat()
    return record


def _parse_record(kind: Callable[..., Value], record: dict[str, Any]) -> Value:
    if record.get("posted_at") is not None:
        record["posted_at"] = to_utc(datetime.fromisoformat(record["posted_at"]))
    if "stack" in record:
        record["stack"] = tuple(record["stack"])
    return kind(**record)


class IndexedLines(Generic[Value]):
    """A file of records of one type, each id once, in the order they were added.

    Offsets are kept in memory, so that a page in id order reads only its records. Threads may
    share it.
    """

    def __init__(self, path: Path, record_type: RecordType[Value]) -> None:
        self._lines = ChecksummedLines(path)
        self._type = record_type
        self._offsets: dict[str, tuple[int, int]] = {}
        self._sorted: list[str] = []
        self._restarts = 0
        self._lock = threading.Lock()

    def list_ids(self) -> Container[str]:
        """Return the ids that are there now."""
        with self._lock:
            self._read_new_lines()
            return self._offsets

    def read_page(self, head: Mapping[str, Json] | None, *, after: str, limit: int) -> list[Value]:
        """Return values in id order; ConfigError when the file is not as its ended run left it."""
        with self._lock:
            self._read_new_lines()
            self._lines.check_unchanged(head)
            if len(self._sorted) != len(self._offsets):
                self._sorted = sorted(self._offsets)
            start = bisect_right(self._sorted, after)
            places = [self._offsets[key] for key in self._sorted[start:][:limit]]
        return self._read_values(places)

    def add_new(self, values: Iterable[Value], *, known: Container[str] | None, disk: Disk) -> int:
        """Add what is new as one batch; return how much was.

        PermanentError, and nothing is written, when a value's id is not among the known ones.
        The caller is the only writer.
        """
        with self._lock:
            self._read_new_lines()
            if self._lines.partial_bytes:
                self._lines.repair_tail(disk=disk)
            new: dict[str, dict[str, Json]] = {}
            for record in map(_to_record, values):
                job = str(record[self._type.id])
                if known is not None and job not in known:
                    raise PermanentError(f"this run has no posting {job}; nothing was written")
                if job not in self._offsets:
                    new.setdefault(job, record)
            if new:
                rows = self._lines.append(list(new.values()), disk=disk)
                self._index_lines(zip(new, rows, strict=True))
            return len(new)

    def _read_new_lines(self) -> None:
        for row in self._lines.read_new():
            self._reset_if_restarted()
            self._index_lines([(str(json.loads(row.line)[self._type.id]), row)])
        self._reset_if_restarted()

    def _reset_if_restarted(self) -> None:
        if self._restarts != self._lines.restarts:
            self._restarts = self._lines.restarts
            self._offsets, self._sorted = {}, []

    def _index_lines(self, rows: Iterable[tuple[str, StoredLine]]) -> None:
        for job, row in rows:
            self._offsets[job] = (row.start, len(row.line))

    def _read_values(self, places: Sequence[tuple[int, int]]) -> list[Value]:
        if not places:
            return []
        try:
            with self._lines.path.open("rb") as file:
                values = []
                for start, length in places:
                    file.seek(start)
                    values.append(_parse_record(self._type.kind, json.loads(file.read(length))))
                return values
        except FileNotFoundError:  # another process has just removed the run
            return []
        except OSError as error:
            raise translate_os_error(error, self._lines.path) from error
