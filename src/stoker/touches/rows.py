"""Convert profiles, touches and plans to rows and back, and a plan's head to JSON.

Rows are parsed as either driver returns them: times as text or decoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from stoker.base.types import Json
from stoker.db.database import (
    Value,
    from_db_time,
    from_optional_db_time,
    to_db_time,
    to_optional_db_time,
)
from stoker.touches.model import (
    DaySlot,
    OutcomeMark,
    Profile,
    ProfileStatus,
    Touch,
    TouchOutcome,
    WeeklyPlan,
)

PROFILE_COLUMNS = "url, name, status, last_done_at"

TOUCH_COLUMNS = "day, url, name, at, score, days_since, forced, probability, handed_at"

OUTCOME_COLUMNS = "day, url, outcome, at"


def profile_to_row(profile: Profile) -> tuple[Value, ...]:
    """Return a profile as its row, in the order of `PROFILE_COLUMNS`."""
    done = to_optional_db_time(profile.last_done_at)
    return (profile.url, profile.name, profile.status.value, done)


def parse_profile_row(row: tuple[Any, ...]) -> Profile:
    """Return the profile in a row of `PROFILE_COLUMNS`."""
    url, name, status, done = row
    return Profile(
        url=url, name=name, status=ProfileStatus(status), last_done_at=from_optional_db_time(done)
    )


def touch_to_row(touch: Touch) -> tuple[Value, ...]:
    """Return a touch as its row, in the order of `TOUCH_COLUMNS`, without what came of it."""
    return (
        touch.day.isoformat(),
        touch.url,
        touch.name,
        to_db_time(touch.at),
        float(touch.score),
        touch.days_since,
        touch.forced,
        float(touch.probability),
        to_optional_db_time(touch.handed_at),
    )


def parse_touch_row(row: tuple[Any, ...]) -> Touch:
    """Return the touch in a row of `TOUCH_COLUMNS` and its outcome."""
    day, url, name, at, score, days_since, forced, probability, handed_at, outcome = row
    return Touch(
        url=url,
        name=name,
        day=date.fromisoformat(day),
        at=from_db_time(at),
        score=score,
        days_since=days_since,
        forced=bool(forced),
        probability=probability,
        outcome=None if outcome is None else TouchOutcome(outcome),
        handed_at=from_optional_db_time(handed_at),
    )


def parse_outcome_row(row: tuple[Any, ...]) -> OutcomeMark:
    """Return what came of a touch, from a row of `OUTCOME_COLUMNS`."""
    day, url, outcome, at = row
    return OutcomeMark(
        url=url,
        day=date.fromisoformat(day),
        outcome=TouchOutcome(outcome),
        marked_at=from_db_time(at),
    )


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
        "notes": list(plan.notes),
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
        notes=tuple(head["notes"]),
    )
