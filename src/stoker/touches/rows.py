"""How plans and touches stand in rows, and in JSON where a whole plan is one record.

Rows that come out are read as either database's driver gives them: moments as text or decoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from stoker.base.types import Json
from stoker.db.database import Value, moment, moment_text, optional_moment, optional_moment_text
from stoker.touches.model import DaySlot, Marked, Outcome, Profile, ProfileStatus, Touch, WeeklyPlan

PROFILE = "url, name, status, last_done_at"

TOUCH = "day, url, name, at, score, days_since, forced, probability, handed_at"

MARK = "day, url, outcome, at"


def profile_row(profile: Profile) -> tuple[Value, ...]:
    """Return a profile as its row, in the order of `PROFILE`."""
    done = optional_moment_text(profile.last_done_at)
    return (profile.url, profile.name, profile.status.value, done)


def profile_of(row: tuple[Any, ...]) -> Profile:
    """Return the profile in a row of `PROFILE`."""
    url, name, status, done = row
    return Profile(
        url=url, name=name, status=ProfileStatus(status), last_done_at=optional_moment(done)
    )


def touch_row(touch: Touch) -> tuple[Value, ...]:
    """Return a touch as its row, in the order of `TOUCH`, without what came of it."""
    return (
        touch.day.isoformat(),
        touch.url,
        touch.name,
        moment_text(touch.at),
        float(touch.score),
        touch.days_since,
        touch.forced,
        float(touch.probability),
        optional_moment_text(touch.handed_at),
    )


def touch_of(row: tuple[Any, ...]) -> Touch:
    """Return the touch in a row of `TOUCH` and its outcome."""
    day, url, name, at, score, days_since, forced, probability, handed_at, outcome = row
    return Touch(
        url=url,
        name=name,
        day=date.fromisoformat(day),
        at=moment(at),
        score=score,
        days_since=days_since,
        forced=bool(forced),
        probability=probability,
        outcome=None if outcome is None else Outcome(outcome),
        handed_at=optional_moment(handed_at),
    )


def mark_of(row: tuple[Any, ...]) -> Marked:
    """Return what came of a touch, from a row of `MARK`."""
    day, url, outcome, at = row
    return Marked(
        url=url, day=date.fromisoformat(day), outcome=Outcome(outcome), marked_at=moment(at)
    )


def head_json(plan: WeeklyPlan) -> dict[str, Json]:
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
        "created_at": moment_text(plan.created_at),
        "notes": list(plan.notes),
    }


def plan_of(head: Mapping[str, Any], touches: Iterable[Touch]) -> WeeklyPlan:
    """Return a plan made of what `head_json` gave, and its touches."""
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
        created_at=moment(head["created_at"]),
        notes=tuple(head["notes"]),
    )
