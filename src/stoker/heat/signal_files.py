"""Tables of signals on disk, CSV or JSON lines, row by row in flat memory.

What a row means is said in `core.signal_rows`; here is how rows are found in a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import object_in
from stoker.base.types import Json
from stoker.files.tables import LONGEST_LINE, records
from stoker.heat.signals import COLUMNS, NEEDED
from stoker.http.strict_json import read_json

_JSON_LINES = {".jsonl", ".ndjson"}


@dataclass(frozen=True, slots=True)
class SignalRow:
    """One row: what it says by column, or what is wrong with it."""

    line: int
    said: Mapping[str, Json] = field(default_factory=dict)
    wrong: str = ""


def signal_rows(path: Path) -> Iterator[SignalRow]:
    """Yield every row of a file. Raises ConfigError when it cannot be read at all."""
    try:
        with path.open("rb") as file:
            yield from _json(file) if path.suffix.lower() in _JSON_LINES else _csv(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _csv(file: BinaryIO) -> Iterator[SignalRow]:
    names: list[str] | None = None
    for record in records(file):
        if names is None:
            names = [cell.strip().lower() for cell in record.cells]
            if not set(NEEDED) <= set(names):
                raise ConfigError(
                    f"the file's first line must name its columns: {' and '.join(NEEDED)}, "
                    f"and {', '.join(name for name in COLUMNS if name not in NEEDED)} if known"
                )
        elif record.wrong:
            yield SignalRow(record.line, wrong=record.wrong)
        else:
            yield SignalRow(record.line, dict(zip(names, record.cells, strict=True)))
    if names is None:
        raise ConfigError(f"the file is empty; its first line names {', '.join(COLUMNS)}")


def _json(file: BinaryIO) -> Iterator[SignalRow]:
    number = 0
    while raw := file.readline(LONGEST_LINE + 1):
        number += 1
        whole = raw.endswith(b"\n") or len(raw) <= LONGEST_LINE
        while not raw.endswith(b"\n") and (more := file.readline(LONGEST_LINE + 1)):
            raw = more
        if not whole:
            yield SignalRow(number, wrong=f"it has more than {LONGEST_LINE} bytes")
        elif raw.strip():
            yield _object(number, raw)


def _object(number: int, raw: bytes) -> SignalRow:
    try:
        data = read_json(raw)
    except PermanentError:
        return SignalRow(number, wrong="it is no JSON")
    if not isinstance(data, Mapping):
        return SignalRow(number, wrong="it is no JSON object")
    return SignalRow(number, object_in(data))
