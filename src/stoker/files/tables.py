"""Read tables from strangers, CSV or JSON lines, row by row in constant memory.

Each row comes with its line, as cells or with the reason why there are none: a line too long, bytes
that are no UTF-8, a quote never closed, another number of cells than the first. A fault costs the
line it is in; the next line is read as if nothing had been. What cells mean is not known here.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.strict_json import parse_json
from stoker.base.types import Json, clean_text

JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
MAX_LINE_BYTES = 64 * 1024  # a real line has some hundred
MAX_COLUMNS = 500
_MAX_SHOWN = 2_000  # characters of a record that cannot be read
_MAX_SHOWN_COLUMNS = 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLimits:
    line_bytes: int = MAX_LINE_BYTES
    record_lines: int = 20  # that one record may go over, inside of quotes
    # Refuse lines that are not UTF-8 and rows with another number of cells than the first;
    # otherwise bad bytes become U+FFFD, and missing cells are empty.
    strict: bool = True


STRICT = TableLimits()


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One record: its cells, or what is wrong with it and how it begins."""

    line: int
    cells: Sequence[str] = ()
    wrong: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row: its cells by column, or what is wrong with it."""

    line: int
    cells: Mapping[str, Json] = field(default_factory=dict)
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """Which columns of a table are used, and which mean nothing to its reader; as written there."""

    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)  # the reader's name, then the table's

    def format_text(self) -> str:
        """Return a sentence about both: each column with what it is taken for."""
        taken_for: dict[str, list[str]] = {}
        for meaning, name in self.meanings.items():
            taken_for.setdefault(name, []).append(meaning)
        shown = [
            name if meant == [name] else f"{name} (as {' and '.join(meant)})"
            for name, meant in taken_for.items()
        ]
        return f"Columns used: {', '.join(shown)}. Not used: {', '.join(self.unused) or 'none'}."


class Readable(Protocol):
    def readline(self, size: int, /) -> bytes:
        """Return the next line with its end, or at most so many bytes of it."""
        ...


def read_table(
    stream: Readable,
    columns: Mapping[str, Sequence[str]],
    *,
    required: Sequence[str] = (),
    json_lines: bool = False,
    limits: TableLimits = STRICT,
    on_columns: Callable[[ColumnUse], None] | None = None,
) -> Iterator[TableRow]:
    """Yield each row by its column.

    `columns` are the names people give each column, in small letters with underscores; the first
    that is there counts, others are left out. `on_columns` gets which those of CSV are, before the
    first row, and which of JSON lines, whenever a name is new. Raises ConfigError
    when the first line of CSV does not name the required ones.
    """
    if json_lines:
        yield from _read_json_lines(stream, columns, limits, on_columns)
        return
    rows = read_csv(stream, limits)
    header = next(rows, None)
    names = [] if header is None else [normalize_column(cell) for cell in header.cells]
    found = _find_columns(names[:MAX_COLUMNS], columns)
    if header is None or header.wrong or not set(required) <= found.keys():
        optional = ", ".join(name for name in columns if name not in required)
        named = ", ".join(filter(None, names[:_MAX_SHOWN_COLUMNS]))
        raise ConfigError(
            f"the first line must name its columns: {' and '.join(required)}, "
            f"and {optional} if known" + (f"; it has: {named[:_MAX_SHOWN]}" if named else "")
        )
    if on_columns is not None:
        on_columns(_build_column_use(header.cells, columns))
    places = [(column, names.index(name)) for column, name in found.items()]
    for row in rows:
        if row.wrong:
            yield TableRow(row.line, wrong=row.wrong)
        elif any(row.cells):
            width = len(row.cells)
            yield TableRow(row.line, {n: row.cells[at] for n, at in places if at < width})


def read_column_use(
    stream: Readable, columns: Mapping[str, Sequence[str]], *, limits: TableLimits = STRICT
) -> ColumnUse:
    """Return which columns of a CSV file `read_table` uses; both empty without a first line."""
    return _build_column_use(next(read_csv(stream, limits), CsvRow(1)).cells, columns)


def _build_column_use(header: Sequence[str], columns: Mapping[str, Sequence[str]]) -> ColumnUse:
    written = [clean_text(cell[:100]).strip() for cell in header[:MAX_COLUMNS]]
    names = [normalize_column(cell) for cell in written]
    places = {column: names.index(name) for column, name in _find_columns(names, columns).items()}
    is_used = [place in places.values() for place in range(len(written))]
    return ColumnUse(
        used=tuple(cell for cell, used in zip(written, is_used, strict=True) if used),
        unused=tuple(
            cell for cell, used in zip(written, is_used, strict=True) if cell and not used
        ),
        meanings={column: written[place] for column, place in places.items()},
    )


def normalize_column(name: str) -> str:
    """Return a column's name as it is compared: small letters, underscores for spaces."""
    return re.sub(r"[\s-]+", "_", clean_text(name[:100]).strip().casefold())


def _find_columns(
    names: Sequence[str] | Mapping[str, Json], columns: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    found = {
        column: next((known for known in aliases if known in names), "")
        for column, aliases in columns.items()
    }
    return {column: name for column, name in found.items() if name}


def _read_json_lines(
    stream: Readable,
    columns: Mapping[str, Sequence[str]],
    limits: TableLimits,
    on_columns: Callable[[ColumnUse], None] | None,
) -> Iterator[TableRow]:
    seen: dict[str, None] = {}
    for number, raw, wrong in _read_lines(stream, limits):
        if wrong:
            yield TableRow(number, wrong=wrong)
        elif raw.strip():
            try:
                data = parse_json(raw)
            except PermanentError:
                yield TableRow(number, wrong="it is no JSON")
                continue
            if not isinstance(data, Mapping):
                yield TableRow(number, wrong="it is no JSON object")
                continue
            if on_columns is not None and not data.keys() <= seen.keys():
                seen |= dict.fromkeys(list(data)[:MAX_COLUMNS])
                seen = dict.fromkeys(list(seen)[:MAX_COLUMNS])
                on_columns(_build_column_use(list(seen), columns))
            values = {normalize_column(name): value for name, value in data.items()}
            found = _find_columns(values, columns)
            yield TableRow(number, {column: values[name] for column, name in found.items()})


def read_csv(stream: Readable, limits: TableLimits = STRICT) -> Iterator[CsvRow]:
    """Yield every record, the header first; the others have as many cells."""
    lines = (_decode_line(*line, strict=limits.strict) for line in _read_lines(stream, limits))
    waiting, width = deque[CsvRow](), 0
    while (line := waiting.popleft() if waiting else next(lines, None)) is not None:
        if line.wrong:
            yield CsvRow(line.line, wrong=line.wrong, text=line.text[:_MAX_SHOWN])
            continue
        if not line.text.strip():
            continue
        cells, text, more = _parse_cells(line.text), line.text, list[CsvRow]()
        while (
            cells is None and len(more) + 1 < limits.record_lines and len(text) < limits.line_bytes
        ):
            following = waiting.popleft() if waiting else next(lines, None)
            if following is None:
                break
            more.append(following)
            if following.wrong:
                break
            text += following.text
            # Only a line with a quote in it can close one.
            cells = _parse_cells(text) if '"' in following.text else None
        fits = not limits.strict or (width in (0, len(cells or ())) and not _swallows(more, width))
        if cells is not None and fits:
            width = width or len(cells)
            yield CsvRow(line.line, cells, text=text[:_MAX_SHOWN])
            continue
        # Whatever was taken along may be good rows: only this line pays for its quote.
        waiting.extendleft(reversed(more))
        wrong = "a quote in it is never closed, or is out of place"
        if cells is not None and not more:
            wrong = f"it has {len(cells)} cells where the first line has {width}"
        yield CsvRow(line.line, wrong=wrong, text=line.text[:_MAX_SHOWN])


def _read_lines(stream: Readable, limits: TableLimits) -> Iterator[tuple[int, bytes, str]]:
    """Yield each line with its number, and what is wrong with it as a line."""
    number = 0
    while raw := stream.readline(limits.line_bytes + 1):
        number += 1
        if number == 1:
            raw = raw.removeprefix(_BOM)
        if len(raw) <= limits.line_bytes:
            yield number, raw, ""
            continue
        start = raw[:_MAX_SHOWN]
        while not raw.endswith(b"\n") and (raw := stream.readline(limits.line_bytes)):
            pass
        yield number, start, f"its line has more than {limits.line_bytes} bytes"


def _decode_line(number: int, raw: bytes, wrong: str, *, strict: bool) -> CsvRow:
    try:
        return CsvRow(number, wrong=wrong, text=raw.decode())
    except UnicodeDecodeError:
        wrong = wrong or ("it is not UTF-8 text" if strict else "")
        return CsvRow(number, wrong=wrong, text=raw.decode(errors="replace"))


def _parse_cells(text: str) -> list[str] | None:
    """Return the cells of a record; None when it is not whole, or its quotes make no sense."""
    if '"' not in text:
        return text.rstrip("\r\n").split(",")
    try:
        rows = list(csv.reader([text], strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _swallows(more: Sequence[CsvRow], width: int) -> bool:
    """Return whether a record swallowed rows: two stray quotes look like one cell."""
    inside = (_parse_cells(line.text) for line in more[:-1])
    return any(cells is not None and len(cells) == width for cells in inside)
