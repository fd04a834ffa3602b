"""Export weekly plans as JSON, iCalendar (RFC 5545) and CSV, and touches to programs and CRMs.

Names and addresses come from outside: a calendar escapes and folds them, no CSV cell begins like a
formula, and markup is escaped. The same plan gives the same bytes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterator
from datetime import datetime

from stoker.base.text import escape_cell
from stoker.base.types import Json, to_utc
from stoker.touches.model import Touch, WeeklyPlan

COLUMNS = (
    "week",
    "day",
    "at",
    "url",
    "name",
    "score",
    "days_since",
    "forced",
    "probability",
    "status",
    "handed_at",
    "person",
    "channel",
    "pressing",
)

_MAX_LINE_OCTETS = 75  # on one line of a calendar

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")

_WEB_URL = re.compile(r"https?://[!-~]+")

_ICS_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n", "\t": " "})


def plan_to_json(plan: WeeklyPlan) -> dict[str, Json]:
    """Return the plan as JSON has it."""
    return {
        "iso_year": plan.iso_year,
        "iso_week": plan.iso_week,
        "monday": plan.monday.isoformat(),
        "total": plan.total,
        "seed": plan.seed,
        "zone": plan.zone,
        "created_at": plan.created_at.isoformat(),
        "notes": [note.message for note in plan.notes],
        "days": [
            {
                "day": slot.day.isoformat(),
                "budget": slot.budget,
                "burst": slot.burst,
                "completed": slot.completed,
                "touches": [touch_to_json(touch) for touch in slot.touches],
            }
            for slot in plan.days
        ],
    }


def touch_to_json(touch: Touch) -> dict[str, Json]:
    """Return a touch as JSON has it."""
    return {
        "url": touch.url,
        "name": touch.name,
        "person": touch.person,
        "channel": touch.channel,
        "day": touch.day.isoformat(),
        "at": touch.at.isoformat(),
        "score": touch.score,
        "days_since": touch.days_since,
        "forced": touch.forced,
        "pressing": touch.pressing,
        "probability": touch.probability,
        "status": touch.status,
        "handed_at": touch.handed_at.isoformat() if touch.handed_at else None,
    }


def format_summary(touch: Touch) -> str:
    """Return what is to be done in one line: whom to contact, and how."""
    return f"Touch {touch.who}" + (f" by {touch.channel}" if touch.channel else "")


def plan_to_csv(plan: WeeklyPlan) -> str:
    """Return the plan's touches as rows under their header, in time order."""
    out = io.StringIO(newline="")
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(COLUMNS)
    for slot in plan.days:
        for touch in slot.touches:
            values = {
                **touch_to_json(touch),
                "week": plan.week,
                "forced": str(touch.forced).lower(),
                "pressing": str(touch.pressing).lower(),
            }
            rows.writerow([escape_cell(values[column]) for column in COLUMNS])  # type: ignore[arg-type]
    return out.getvalue()


def plan_to_ics(plan: WeeklyPlan) -> str:
    """Return the plan's touches as a calendar. An entry keeps its id whenever it is written."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Stoker//Touches//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
    ]
    for slot in plan.days:
        for touch in slot.touches:
            lines += _build_event(touch, written_at=plan.created_at)
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _fold_line(line))


def _build_event(touch: Touch, *, written_at: datetime) -> Iterator[str]:
    named = hashlib.sha256(f"{touch.day}|{touch.url}".encode(errors="replace")).hexdigest()[:32]
    wait = "never touched" if touch.days_since is None else f"{touch.days_since} days since"
    gone = touch.outcome is not None and not touch.outcome.is_counted
    yield "BEGIN:VEVENT"
    yield f"UID:{named}@stoker"
    yield f"DTSTAMP:{_format_stamp(written_at)}"
    yield f"DTSTART:{_format_stamp(touch.at)}"
    yield f"SUMMARY:{_escape_text(format_summary(touch))}"
    yield "DESCRIPTION:" + _escape_text(f"{touch.url}\n{wait}; {touch.status}")
    if _WEB_URL.fullmatch(touch.url):
        yield f"URL:{touch.url}"
    yield f"STATUS:{'CANCELLED' if gone else 'CONFIRMED'}"
    yield "END:VEVENT"


def _escape_text(text: str) -> str:
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", plain).translate(_ICS_ESCAPES)


def _fold_line(line: str) -> Iterator[str]:
    """Yield a line in parts of at most 75 octets, no letter torn apart, the later ones indented."""
    part, length = "", 0
    for letter in line:
        size = len(letter.encode())
        if length + size > _MAX_LINE_OCTETS:
            yield part
            part, length = " ", 1
        part, length = part + letter, length + size
    yield part


def _format_stamp(moment: datetime) -> str:
    return f"{to_utc(moment):%Y%m%dT%H%M%SZ}"
