"""A file with a classification of industries: CSV with codes and titles, read whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stoker.connectors.csv_records import records
from stoker.core.entities import IndustryCode
from stoker.core.ssic import CodeColumns
from stoker.errors import PermanentError

MOST_CODES = 20_000  # a classification has some two thousand, all levels together


@dataclass(frozen=True, slots=True)
class ReadCodes:
    """What a file had: codes, and the lines that were left out, each with the reason."""

    codes: list[IndustryCode] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)


def industry_codes(path: Path, *, version: str) -> ReadCodes:
    """Read a classification. Raises PermanentError when the file holds none."""
    read, seen = ReadCodes(), set[str]()
    try:
        with path.open("rb") as stream:
            found = records(stream)
            header = next(found, None)
            if header is None or header.wrong:
                raise PermanentError(f"{path.name} has no first line that can be read")
            columns = CodeColumns(header.cells, version=version)
            for record in found:
                industry = record.wrong or columns.industry(record.cells)
                if isinstance(industry, IndustryCode) and industry.code in seen:
                    industry = "its code was there before"
                if isinstance(industry, str):
                    read.refused.append((record.line, industry))
                    continue
                seen.add(industry.code)
                read.codes.append(industry)
                if len(read.codes) + len(read.refused) > MOST_CODES:
                    raise PermanentError(f"{path.name} has more than {MOST_CODES:,} rows")
    except OSError as error:
        raise PermanentError(f"{path.name} cannot be read: {error.strerror}") from error
    if not read.codes:
        raise PermanentError(f"{path.name} has no industry in it; nothing was written")
    return read
