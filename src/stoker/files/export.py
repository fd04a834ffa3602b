"""Write rows to a file that other programs open: JSON, CSV or Parquet, page by page.

Memory stays flat however many rows there are, and a file is there whole or not at all. A person at
a terminal sees every character as itself; files and pipes get text as it is, safe to open.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from stoker.base.errors import ConfigError
from stoker.base.jsontools import compact_json
from stoker.base.telemetry import escape_invisible
from stoker.base.text import escape_cell, to_html_safe_json
from stoker.base.types import Json
from stoker.files.durable import STDOUT, open_output

BATCH_SIZE = 10_000  # rows of a group of a Parquet file, kept until it is full

Row = Mapping[str, Json | datetime]
Columns = Mapping[str, type]
"""Every column by its name, as `str`, `int`, `datetime`, or `dict` for JSON."""


class ExportWriter(Protocol):
    def add(self, rows: Sequence[Row]) -> None: ...

    def close(self) -> None:
        """Write what a file of this kind ends with."""
        ...


class JsonWriter:
    """One JSON array, a row to a line; every row an object."""

    def __init__(self, stream: BinaryIO, columns: Columns) -> None:
        self._stream = stream
        self._between = b"[\n"

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            plain = {name: _to_json_value(value) for name, value in row.items()}
            self._stream.write(self._between + to_html_safe_json(plain).encode())
            self._between = b",\n"

    def close(self) -> None:
        self._stream.write(b"[]\n" if self._between == b"[\n" else b"\n]\n")


class CsvWriter:
    """CSV with a head line, every cell quoted, lines ended as spreadsheets end them."""

    quoting: Literal[0, 1] = csv.QUOTE_ALL

    def __init__(self, stream: BinaryIO, columns: Columns) -> None:
        self._stream = stream
        self._columns = columns
        self._cell = _to_cell if stream.isatty() else escape_cell
        self._write([list(columns)])

    def add(self, rows: Sequence[Row]) -> None:
        self._write(
            [[self._cell(_to_flat_value(row.get(name))) for name in self._columns] for row in rows]
        )

    def close(self) -> None:
        """Do nothing: a CSV file ends where it ends."""

    def _write(self, lines: Sequence[Sequence[str | float]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, quoting=self.quoting, lineterminator="\r\n").writerows(lines)
        self._stream.write(text.getvalue().encode())


class ParquetWriter:
    """Parquet, with text, whole numbers and UTC moments as such; JSON as text."""

    def __init__(self, stream: BinaryIO, columns: Columns) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise ConfigError(
                "Parquet needs a package that is not here; install it with: "
                "pip install 'stoker[parquet]'"
            ) from None
        kinds = {int: pyarrow.int64(), datetime: pyarrow.timestamp("us", tz="UTC")}
        self._pyarrow: Any = pyarrow
        self._schema = pyarrow.schema(
            [(name, kinds.get(kind, pyarrow.string())) for name, kind in columns.items()]
        )
        self._moments = {name for name, kind in columns.items() if kind is datetime}
        self._writer = parquet.ParquetWriter(stream, self._schema)
        self._waiting: list[dict[str, object]] = []

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._waiting.append(
                {
                    name: value if name in self._moments else _to_flat_value(value)
                    for name, value in row.items()
                }
            )
        if len(self._waiting) >= BATCH_SIZE:
            self._write()

    def close(self) -> None:
        if self._waiting:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        table = self._pyarrow.Table.from_pylist(self._waiting, schema=self._schema)
        self._writer.write_table(table)
        self._waiting = []


FORMATS: Mapping[str, Callable[[BinaryIO, Columns], ExportWriter]] = {
    "json": JsonWriter,
    "csv": CsvWriter,
    "parquet": ParquetWriter,
}


@contextmanager
def open_export(
    kind: str, columns: Columns, *, out: Path | None, replace: bool
) -> Iterator[ExportWriter]:
    """Open an export of a kind, to a file or (None) to stdout, and finish it when all went well.

    Without `replace`, never over another file. Raises ConfigError when it cannot be written.
    """
    if out is None and kind == "parquet":
        raise ConfigError("Parquet is not for terminals; say where it goes with --out FILE")
    with open_output(out or STDOUT, replace=replace) as stream:
        writing = FORMATS[kind](stream, columns)
        yield writing
        writing.close()


def _to_cell(value: str | float | None) -> str | float:
    shown = escape_cell(value)
    return escape_invisible(shown) if isinstance(shown, str) else shown


def _to_json_value(value: Json | datetime) -> Json:
    return value.isoformat() if isinstance(value, datetime) else value


def _to_flat_value(value: Json | datetime) -> str | float | None:
    if value is None or isinstance(value, str | int | float):
        return value
    return value.isoformat() if isinstance(value, datetime) else compact_json(value)
