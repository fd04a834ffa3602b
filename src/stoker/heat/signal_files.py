"""Read rows of signal tables, CSV or JSON lines, in constant memory.

`stoker.heat.signals` parses the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import get_object
from stoker.base.types import Json
from stoker.files.tables import MAX_LINE_BYTES, read_csv
from stoker.heat.signals import REQUIRED_COLUMNS, SIGNAL_COLUMNS
from stoker.http.strict_json import parse_json

_JSON_LINES = {".jsonl", ".ndjson"}


@dataclass(frozen=True, slots=True)
class SignalRow:
    """One row: its cells by column, or what is wrong with it."""

    line: int
    cells: Mapping[str, Json] = field(default_factory=dict)
    wrong: str = ""


def read_signal_rows(path: Path) -> Iterator[SignalRow]:
    """Yield every row of a file. Raises ConfigError when it cannot be read at all."""
    try:
        with path.open("rb") as file:
            yield from (
                _read_json_rows(file)
                if path.suffix.lower() in _JSON_LINES
                else _read_csv_rows(file)
            )
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _read_csv_rows(file: BinaryIO) -> Iterator[SignalRow]:
    names: list[str] | None = None
    for record in read_csv(file):
        if names is None:
            names = [cell.strip().lower() for cell in record.cells]
            if not set(REQUIRED_COLUMNS) <= set(names):
                optional = ", ".join(
                    name for name in SIGNAL_COLUMNS if name not in REQUIRED_COLUMNS
                )
                raise ConfigError(
                    "the file's first line must name its columns: "
                    f"{' and '.join(REQUIRED_COLUMNS)}, and {optional} if known"
                )
        elif record.wrong:
            yield SignalRow(record.line, wrong=record.wrong)
        else:
            yield SignalRow(record.line, dict(zip(names, record.cells, strict=True)))
    if names is None:
        raise ConfigError(f"the file is empty; its first line names {', '.join(SIGNAL_COLUMNS)}")


def _read_json_rows(file: BinaryIO) -> Iterator[SignalRow]:
    number = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        whole = raw.endswith(b"\n") or len(raw) <= MAX_LINE_BYTES
        while not raw.endswith(b"\n") and (more := file.readline(MAX_LINE_BYTES + 1)):
            raw = more
        if not whole:
            yield SignalRow(number, wrong=f"it has more than {MAX_LINE_BYTES} bytes")
        elif raw.strip():
            yield _parse_object(number, raw)


def _parse_object(number: int, raw: bytes) -> SignalRow:
    try:
        data = parse_json(raw)
    except PermanentError:
        return SignalRow(number, wrong="it is no JSON")
    if not isinstance(data, Mapping):
        return SignalRow(number, wrong="it is no JSON object")
    return SignalRow(number, get_object(data))
