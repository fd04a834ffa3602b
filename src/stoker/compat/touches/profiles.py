"""Translate the rows that scripts pass, plain dicts, into profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from stoker.base.errors import PermanentError
from stoker.base.types import Json
from stoker.calendar.timezones import get_zone
from stoker.files.tables import TableRow
from stoker.touches.profiles import PROFILE_COLUMNS, ParsedProfiles, parse_profiles
from stoker.touches.queue import get_local_day
from stoker.touches.schedule_state import NEVER_DAYS

_DATE_NAMES = ("last_engaged_date", "last_engaged", *PROFILE_COLUMNS["last_done_at"])

_NAMES = {**PROFILE_COLUMNS, "last_done_at": _DATE_NAMES}

_DAYS_NAMES = ("days_since_last_like", "days_since")


def parse_rows(rows: Sequence[Mapping[str, Any]], *, zone: str, now: datetime) -> ParsedProfiles:
    """Return the profiles in rows; a row that is none is listed with its reason.

    Raises PermanentError, naming the columns, when no row has an address.
    """
    found = [_to_cells(row, today=get_local_day(now, zone)) for row in rows]
    if rows and not any(cells.get("url") for cells in found):
        there = ", ".join(sorted({str(name) for row in rows for name in row})) or "none"
        raise PermanentError(
            f"no row has an address; name it linkedin_url or url, not one of: {there[:200]}"
        )
    table = [TableRow(line, {"url": "", **cells}) for line, cells in enumerate(found, 1)]
    return parse_profiles(table, zone=get_zone(zone), now=now)


def _to_cells(row: Mapping[str, Any], *, today: date) -> dict[str, Json]:
    cells: dict[str, Json] = {}
    for column, names in _NAMES.items():
        value = next((row[name] for name in names if row.get(name) not in (None, "")), None)
        if value is not None:
            cells[column] = value.isoformat() if isinstance(value, date) else str(value)
    days = next((row[name] for name in _DAYS_NAMES if row.get(name) is not None), None)
    if "last_done_at" not in cells and days is not None and float(days) < NEVER_DAYS:
        cells["last_done_at"] = (today - timedelta(days=int(float(days)))).isoformat()
    return cells
