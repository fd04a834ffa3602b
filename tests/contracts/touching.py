"""Values for the suites about touches."""

from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import pytest

from stoker.touches.model import (
    DaySlot,
    Delivery,
    OutcomeMark,
    PlanNote,
    Profile,
    Touch,
    TouchOutcome,
    WeeklyPlan,
)
from stoker.touches.state_file import StateFile
from stoker.touches.store import TouchStore

MONDAY = date(2026, 2, 9)
WEEK = "2026-W07"
NOW = datetime(2026, 2, 9, 1, 30, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
COUNTERS = ("hour/2026-02-09T09", "day/2026-02-09", "week/2026-W07")


def url(number):
    return f"https://people.test/p{number:03d}"


def profile(number, **more):
    known = {"person": f"Ann {number}", "channel": "phone", **more}
    return Profile(url=url(number), name=f"Person {number}", **known)


def touch(number, *, day=MONDAY, **more):
    return Touch(
        **{
            "url": url(number),
            "name": f"Person {number}",
            "day": day,
            "at": NOW + (day - MONDAY) + number * HOUR / 10,
            "score": 7.25,
            "days_since": 9,
            "forced": False,
            "probability": 0.125,
            "person": f"Ann {number}",
            "channel": "phone",
            "pressing": number % 2 == 0,
            **more,
        }
    )


def plan(*days, seed=7, **more):
    """A week whose first days have these numbers as touches: plan((1, 2), (3,))."""
    slots = []
    for place in range(7):
        day = MONDAY + place * DAY
        numbers = days[place] if place < len(days) else ()
        slots.append(
            DaySlot(
                day=day,
                budget=len(numbers),
                touches=tuple(touch(number, day=day) for number in numbers),
                burst=place == 2,
            )
        )
    return WeeklyPlan(
        **{
            "iso_year": 2026,
            "iso_week": 7,
            "monday": MONDAY,
            "total": sum(slot.budget for slot in slots),
            "days": tuple(slots),
            "seed": seed,
            "zone": "Asia/Singapore",
            "created_at": NOW,
            "notes": (PlanNote(message="ünï 🙂"), PlanNote(message="late", day=MONDAY)),
            **more,
        }
    )


def marked(number, outcome=TouchOutcome.DONE, *, day=MONDAY, at=NOW + 8 * HOUR):
    return OutcomeMark(url=url(number), day=day, outcome=outcome, marked_at=at)


def handed(number, *, day=MONDAY, way="webhook", at=NOW + HOUR, refused=""):
    return Delivery(url=url(number), day=day, channel=way, at=at, refused=refused)


@asynccontextmanager
async def open_state_files(home):
    """A state file per tenant in the place of a backend."""

    def tenant(name):
        path = home / name / "schedule_state.json"
        file = TouchStore(StateFile(path, tenant=name, now=lambda: NOW, report=pytest.fail))
        return SimpleNamespace(touches=file)

    yield SimpleNamespace(tenant=tenant)
