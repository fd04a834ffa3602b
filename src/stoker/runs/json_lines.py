"""JSON lines that grow by whole batches, and tell when they were damaged.

One record a line, for people and for `jq`; after each batch one line more, which counts its records
and carries a digest chained to every byte before it. A batch without that line was never finished.
Who may write, and what the records mean, is known elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import Json
from stoker.files.durable import Disk, meaning

FIRST = "0" * 16

_SEAL = re.compile(rb'\{"chain":"([0-9a-f]{16})","rows":([0-9]{1,12})\}\n')


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file goes: where its last whole batch ends, and what vouches for it."""

    end: int = 0
    rows: int = 0
    chain: str = FIRST

    @property
    def seal(self) -> bytes:
        """The line that closes the last batch; none in an empty file."""
        return _seal(self.chain, self.rows) if self.end else b""

    def after(self, lines: Sequence[bytes]) -> Mark:
        """Return the mark once these lines and their seal are there too."""
        chain = hashlib.sha256(self.chain.encode() + b"".join(lines)).hexdigest()[:16]
        rows = self.rows + len(lines)
        return Mark(self.end + sum(map(len, lines)) + len(_seal(chain, rows)), rows, chain)


@dataclass(frozen=True, slots=True)
class Row:
    """One record, and where it stands in its file."""

    start: int
    line: bytes


class ChainedLines:
    """One file, followed from where we last left off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = Mark()
        self.torn = 0  # bytes after the last whole batch when we last looked
        self.anew = 0  # how often the file turned out not to be the one we knew

    def news(self) -> Iterator[Row]:
        """Yield the records of every whole batch since the last look; a torn end is left out.

        Raises ConfigError when a batch that others were built upon is damaged. When the file is
        not the one we knew, `anew` has risen and everything comes again from the beginning.
        """
        self.torn = 0
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._forget()
            return
        except OSError as error:
            raise meaning(error, self.path) from error
        with file:
            self._resume(file)
            yield from self._batches(file)

    def append(self, records: Sequence[Mapping[str, Json]], *, disk: Disk) -> Iterator[Row]:
        """Add one batch, all of it or nothing, and durable when this returns; yield its rows.

        The caller is the only writer and has just heard the news.
        """
        lines = [line_of(record) for record in records]
        after = self.mark.after(lines)
        disk.extend(self.path, b"".join([*lines, after.seal]), end=self.mark.end)
        start, self.mark = self.mark.end, after
        return _rows(start, lines)

    def mend(self, *, disk: Disk) -> Path | None:
        """Cut a torn end off, kept in a file of its own, and return which; None if all is whole.

        News it meets on the way is not told again.
        """
        for _ in self.news():
            pass
        if not self.torn:
            return None
        with self.path.open("rb") as file:
            file.seek(self.mark.end)
            tail = file.read()
        aside = self.path.with_name(f"{self.path.name}.torn-{hashlib.sha256(tail).hexdigest()[:8]}")
        disk.replace(aside, tail)
        disk.cut(self.path, end=self.mark.end)
        return aside

    def _resume(self, file: BinaryIO) -> None:
        # The seal we stopped at vouches for everything before it, so one look at it is enough.
        start = self.mark.end - len(self.mark.seal)
        file.seek(start)
        if file.read(len(self.mark.seal)) != self.mark.seal:
            self._forget()
            file.seek(0)

    def _forget(self) -> None:
        if self.mark.end:
            self.mark = Mark()
            self.anew += 1

    def _batches(self, file: BinaryIO) -> Iterator[Row]:
        lines: list[bytes] = []
        broken = False
        for line in file:
            self.torn += len(line)
            if broken:
                raise self._damaged()
            if _SEAL.fullmatch(line):
                after = self.mark.after(lines)
                if line == after.seal:
                    yield from _rows(self.mark.end, lines)
                    self.mark, lines, self.torn = after, [], 0
                    continue
                broken = True  # the last batch may be torn; one with others after it is damaged
            lines.append(line)

    def _damaged(self) -> ConfigError:
        return ConfigError(
            f"{self.path} is damaged after line {self.mark.rows}; put it back from a backup, or "
            "move its folder away to give this run up"
        )


def line_of(record: Mapping[str, Json]) -> bytes:
    """Return a record as its line; PermanentError when it would be taken for a seal."""
    line = compact_json(record).encode() + b"\n"
    if _SEAL.fullmatch(line):
        raise PermanentError("a record of only `chain` and `rows` cannot be kept; add another key")
    return line


def _seal(chain: str, rows: int) -> bytes:
    # Rows are counted over the whole file, so that a seal says all that a mark needs to know.
    return b'{"chain":"%s","rows":%d}\n' % (chain.encode(), rows)


def _rows(start: int, lines: Sequence[bytes]) -> Iterator[Row]:
    for line in lines:
        yield Row(start, line)
        start += len(line)
