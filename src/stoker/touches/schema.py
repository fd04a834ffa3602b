"""The tables of profiles, weekly plans, outcomes, deliveries and counters.

What was planned and what happened stand apart: a plan is replaced when it is repaired, what
happened only grows, so no repair can lose it. A plan's revision moves with either.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from stoker.base.errors import PermanentError
from stoker.base.types import Json
from stoker.crawl.schema import MAX_URL_BYTES
from stoker.db.database import from_db_time, to_db_time
from stoker.db.table import (
    DATE_TEXT,
    FLAG,
    INT,
    JSON_OBJECT,
    KEEP_LATER,
    KEY,
    ORDERED_TEXT,
    REAL,
    TEXT,
    TIME,
    Column,
    Script,
    Table,
    enum,
    key,
)
from stoker.touches.model import (
    Count,
    DaySlot,
    Delivery,
    OutcomeMark,
    PlanBasis,
    PlanNote,
    Profile,
    ProfileStatus,
    Touch,
    TouchOutcome,
    WeeklyPlan,
)

_URL = Column("url", key(MAX_URL_BYTES))

_PERSONS = 20  # the step that names the person and the channel of a touch


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A plan without its touches, as JSON; with what it was based on, and each day's digest."""

    week: str
    revision: int
    plan: Mapping[str, Any]

    @property
    def basis(self) -> PlanBasis | None:
        """Return what the plan was based on, whether or not something came of it since."""
        basis = self.plan.get("settled")
        return _parse_basis(basis) if basis else None

    @property
    def is_current(self) -> bool:
        """Return whether nothing came of the plan since it was based on that."""
        basis = self.plan.get("settled")
        return basis is not None and int(basis["revision"]) == self.revision


def _check_touch(touch: Touch) -> None:
    if not math.isfinite(touch.score) or not 0.0 <= touch.probability <= 1.0:
        raise PermanentError("a touch has a score and a probability; nothing was written")


PROFILES = Table(
    "touch_profiles",
    Profile,
    _URL,
    Column("name", TEXT),
    Column("status", enum(ProfileStatus)),
    Column("last_done_at", TIME, null=True, merge=KEEP_LATER),
    Column("person", TEXT, default="''", since=_PERSONS),
    Column("channel", TEXT, default="''", since=_PERSONS),
    key=["url"],
    since=7,
    what="the profile",
    grants="SELECT, INSERT, UPDATE",
)

PLANS = Table(
    "touch_plans",
    PlanRow,
    Column("week", ORDERED_TEXT),
    Column("revision", INT),
    Column("plan", JSON_OBJECT),
    key=["week"],
    since=7,
    what="the plan of",
    grants="SELECT, INSERT, UPDATE",
    wide=True,
)

TOUCHES = Table(
    "touches",
    Touch,
    Column("week", ORDERED_TEXT, parent=True),
    Column("day", DATE_TEXT),
    _URL,
    Column("name", TEXT),
    Column("at", TIME),
    Column("score", REAL),
    Column("days_since", INT, null=True),
    Column("forced", FLAG),
    Column("probability", REAL),
    Column("handed_at", TIME, null=True),
    Column("person", TEXT, default="''", since=_PERSONS),
    Column("channel", TEXT, default="''", since=_PERSONS),
    Column("pressing", FLAG, default="false", since=_PERSONS),
    key=["week", "day", "url"],
    since=7,
    what="the touch of",
    check=_check_touch,
    grants="SELECT, INSERT, DELETE",
)

OUTCOMES = Table(
    "touch_outcomes",
    OutcomeMark,
    Column("day", DATE_TEXT),
    _URL,
    Column("outcome", enum(TouchOutcome)),
    Column("at", TIME, field="marked_at"),
    key=["day", "url"],
    since=7,
    what="the outcome of",
    grants="SELECT, INSERT, UPDATE",
)

DELIVERIES = Table(
    "touch_handovers",
    Delivery,
    Column("day", DATE_TEXT),
    _URL,
    Column("way", TEXT, field="channel"),
    Column("at", TIME),
    Column("refused", TEXT),
    key=["day", "url"],
    since=7,
    what="the delivery of",
    grants="SELECT, INSERT",
)

COUNTERS = Table(
    "touch_counters",
    Count,
    Column("name", KEY),
    Column("used", INT, check="used >= 0", merge="{old} + {new}"),
    key=["name"],
    since=7,
    what="the counter",
    grants="SELECT, INSERT, UPDATE",
    fill=50,
)

# An erased person's rows are deleted.
_ERASABLE = Script(
    since=16,
    grants={
        PROFILES.name: "SELECT, INSERT, UPDATE, DELETE",
        OUTCOMES.name: "SELECT, INSERT, UPDATE, DELETE",
        DELIVERIES.name: "SELECT, INSERT, DELETE",
    },
)

TABLES: tuple[Table[Any] | Script, ...] = (
    PROFILES,
    PLANS,
    TOUCHES,
    OUTCOMES,
    DELIVERIES,
    COUNTERS,
    _ERASABLE,
)

LAST_STEP = _PERSONS  # the last step of these tables


def check_plan(plan: WeeklyPlan) -> None:
    """Raise PermanentError for a plan in which a day has another's touch, or a url twice."""
    for slot in plan.days:
        urls = {touch.url for touch in slot.touches if touch.day == slot.day}
        if len(urls) < len(slot.touches):
            raise PermanentError("a day has its own touches, each url once; nothing was written")


def head_to_json(plan: WeeklyPlan) -> dict[str, Json]:
    """Return everything of a plan but its touches."""
    return {
        "iso_year": plan.iso_year,
        "iso_week": plan.iso_week,
        "monday": plan.monday.isoformat(),
        "total": plan.total,
        "days": [
            {"day": slot.day.isoformat(), "budget": slot.budget, "burst": slot.burst}
            for slot in plan.days
        ],
        "seed": plan.seed,
        "zone": plan.zone,
        "created_at": to_db_time(plan.created_at),
        "notes": [note.message for note in plan.notes],
        "note_days": [note.day.isoformat() if note.day else None for note in plan.notes],
    }


def build_plan(head: Mapping[str, Any], touches: Iterable[Touch]) -> WeeklyPlan:
    """Return a plan made of what `head_to_json` gave, and its touches."""
    by_day: defaultdict[date, list[Touch]] = defaultdict(list)
    for touch in sorted(touches, key=lambda touch: (touch.at, touch.url)):
        by_day[touch.day].append(touch)
    days = [(date.fromisoformat(each["day"]), each) for each in head["days"]]
    return WeeklyPlan(
        iso_year=head["iso_year"],
        iso_week=head["iso_week"],
        monday=date.fromisoformat(head["monday"]),
        total=head["total"],
        days=tuple(
            DaySlot(
                day=day,
                budget=each["budget"],
                touches=tuple(by_day[day]),
                burst=bool(each["burst"]),
            )
            for day, each in days
        ),
        seed=head["seed"],
        zone=head["zone"],
        created_at=from_db_time(head["created_at"]),
        notes=_parse_notes(head),
    )


def _parse_notes(head: Mapping[str, Any]) -> tuple[PlanNote, ...]:
    messages: list[str] = head["notes"]
    note_days = head.get("note_days")
    if note_days is None:  # Earlier versions wrote only the message, which begins with the day.
        known = {each["day"] for each in head["days"]}
        note_days = [text[:10] if text[:10] in known else None for text in messages]
    return tuple(
        PlanNote(message=message, day=date.fromisoformat(day) if day else None)
        for message, day in zip(messages, note_days, strict=True)
    )


def basis_to_json(basis: PlanBasis, revision: int) -> Json:
    """Return what a plan was based on, and the revision it had then."""
    return {
        "on": basis.on.isoformat(),
        "roster": basis.profiles_version,
        "rule": basis.rule_digest,
        "revision": revision,
    }


def _parse_basis(data: Mapping[str, Any]) -> PlanBasis:
    return PlanBasis(
        on=date.fromisoformat(data["on"]),
        profiles_version=int(data["roster"]),
        rule_digest=str(data.get("rule", "")),
    )
