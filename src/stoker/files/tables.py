"""Records of a CSV file from strangers, one by one, in memory that does not grow with the file.

Each record comes with its line, as cells or with the reason why it is none: a line too long, bytes
that are no UTF-8, a quote never closed, another number of cells than the first. A fault costs the
line it is in; the next line is read as if nothing had been. What cells mean is not known here.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

MAX_LINE_BYTES = 64 * 1024  # bytes; a real one has some hundred

MAX_RECORD_LINES = 20  # that one record may go over, inside of quotes

MAX_SHOWN = 2_000  # characters of a record that cannot be read

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One record: its cells, or what is wrong with it and how it begins."""

    line: int
    cells: Sequence[str] = ()
    wrong: str = ""
    text: str = ""


class Readable(Protocol):
    """Bytes that can be read line by line."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line with its end, or at most so many bytes of it."""
        ...


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    wrong: str = ""


def read_csv(stream: Readable) -> Iterator[CsvRow]:
    """Yield every record, the header first; it says how many cells the others have."""
    lines, waiting, width = _read_lines(stream), deque[_Line](), 0
    while (line := waiting.popleft() if waiting else next(lines, None)) is not None:
        if line.wrong:
            yield _build_bad_row(line, line.wrong)
            continue
        if not line.text.strip():
            continue
        cells, text, more = _parse_cells(line.text), line.text, list[_Line]()
        while cells is None and len(more) + 1 < MAX_RECORD_LINES and len(text) < MAX_LINE_BYTES:
            following = waiting.popleft() if waiting else next(lines, None)
            if following is None:
                break
            more.append(following)
            if following.wrong:
                break
            text += following.text
            cells = _parse_cells(text)
        if cells is not None and width in (0, len(cells)) and not _has_rows_inside(more, width):
            width = width or len(cells)
            yield CsvRow(line.number, cells, text=text[:MAX_SHOWN])
            continue
        # Whatever was taken along may be good rows: only this line pays for its quote.
        waiting.extendleft(reversed(more))
        if cells is None or more:
            yield _build_bad_row(line, "a quote in it is never closed, or is out of place")
        else:
            yield _build_bad_row(
                line, f"it has {len(cells)} cells where the first line has {width}"
            )


def _read_lines(stream: Readable) -> Iterator[_Line]:
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            raw = raw.removeprefix(_BOM)
        if len(raw) > MAX_LINE_BYTES:
            begins = raw[:MAX_SHOWN].decode(errors="replace")
            while not raw.endswith(b"\n") and (raw := stream.readline(MAX_LINE_BYTES)):
                pass
            yield _Line(number, begins, f"its line has more than {MAX_LINE_BYTES} bytes")
            continue
        try:
            yield _Line(number, raw.decode())
        except UnicodeDecodeError:
            yield _Line(number, raw.decode(errors="replace"), "it is not UTF-8 text")


def _parse_cells(text: str) -> list[str] | None:
    """Return the cells of a record; None when it is not whole, or its quotes make no sense."""
    if '"' not in text:
        return text.rstrip("\r\n").split(",")
    try:
        rows = list(csv.reader([text], strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _has_rows_inside(more: Sequence[_Line], width: int) -> bool:
    """Say whether a record over several lines swallowed rows: two stray quotes look like a cell."""
    inside = (_parse_cells(line.text) for line in more[:-1])
    return any(cells is not None and len(cells) == width for cells in inside)


def _build_bad_row(line: _Line, wrong: str) -> CsvRow:
    return CsvRow(line.number, wrong=wrong, text=line.text[:MAX_SHOWN])
