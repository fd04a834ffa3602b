"""Signals out of tables: one row is one signal, or the reason why it is none.

A row names an account and says when; how strong it was, what it is called and where it comes from
may be said too. The same row twice is the same signal, so a file may be read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from stoker.core.companies import CompanyId
from stoker.core.heat import Signal, SignalKind
from stoker.core.model import Json, clean_text, in_utc
from stoker.errors import ConfigError, PermanentError

COLUMNS = ("account", "at", "strength", "source", "id")
NEEDED = ("account", "at")
LONGEST = 200
_SHOWN = 40


def signal_in(row: Mapping[str, Json], *, zone: ZoneInfo, now: datetime) -> Signal | str:
    """Return the signal a row tells of, or why it tells of none.

    A time without a zone is a wall clock's in `zone`. One that lies ahead of `now` is a mistake.
    """
    said = {name: _text(row.get(name)) for name in COLUMNS}
    for name in NEEDED:
        if not said[name]:
            return f"it has no {name}"
    try:
        read = datetime.fromisoformat(said["at"])
        at = in_utc(read if read.tzinfo is not None else read.replace(tzinfo=zone))
    except (ValueError, ConfigError):
        return f"its time {_shown(said['at'])} is none; write it like 2026-11-16T08:30:00Z"
    if at > now:
        return f"its time {_shown(said['at'])} has not come yet"
    try:
        strength = float(said["strength"] or "1")
    except ValueError:
        return f"its strength {_shown(said['strength'])} is no number"
    account = said["account"][:LONGEST]
    name = said["id"] or _digest(account, at.isoformat(), said["strength"], said["source"])
    try:
        return Signal(
            id=f"import/{name[:LONGEST]}",
            account=CompanyId(account),
            kind=SignalKind.IMPORTED,
            at=at,
            strength=strength,
            source=said["source"][:LONGEST],
        )
    except PermanentError as error:
        return str(error)


def _text(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(clean_text(str(value)).split())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _shown(text: str) -> str:
    return repr(text[:_SHOWN])
