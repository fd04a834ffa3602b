"""Which touches of a plan are meant: today's, those due, the one somebody speaks of.

Plain answers about a plan and a moment. How a week is planned is said in `coverage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from hashlib import blake2b

from stoker.core.coverage.values import (
    DaySlot,
    Marked,
    Profile,
    ProfileStatus,
    Touch,
    WeeklyPlan,
)
from stoker.core.model import in_utc
from stoker.core.wallclock import zone_named
from stoker.errors import PermanentError

ENOUGH = 50  # touches that tell how many succeed


def local_day(now: datetime, zone: str) -> date:
    """Return the day it is in a zone."""
    return in_utc(now).astimezone(zone_named(zone)).date()


def monday_of(day: date) -> date:
    """Return the Monday of a day's week."""
    return day - timedelta(days=day.weekday())


def week_name(day: date) -> str:
    """Return the ISO year and week of a day: `2026-W07`."""
    year, week, _ = day.isocalendar()
    return f"{year:04d}-W{week:02d}"


def monday_named(week: str) -> date:
    """Return the Monday of a week. Raises PermanentError when there is no such week."""
    try:
        year, number = week.strip().upper().split("-W")
        if not (len(year) == 4 and len(number) == 2 and (year + number).isascii()):
            raise ValueError(week)
        return date.fromisocalendar(int(year), int(number), 1)
    except ValueError:
        raise PermanentError(f"a week is said like 2026-W07, not {week[:20]!r}") from None


def seed_of(tenant: str, week: str) -> int:
    """Return the seed of a tenant's week where nobody gave one: each week its own, twice the same.

    Two processes that make the same plan at once thereby make one.
    """
    return int.from_bytes(blake2b(f"{tenant}/{week}".encode(), digest_size=7).digest())


def begun(plan: WeeklyPlan, *, today: date) -> WeeklyPlan:
    """Return a plan made in the middle of its week, without touches on days that are over."""
    days = tuple(replace(slot, touches=()) if slot.day < today else slot for slot in plan.days)
    return replace(plan, days=days)


def has_begun(plan: WeeklyPlan) -> bool:
    """Say whether a touch of it was handed out, or something came of one."""
    return any(
        touch.handed_at is not None or touch.outcome is not None
        for slot in plan.days
        for touch in slot.touches
    )


def pending(slot: DaySlot) -> list[Touch]:
    """Return a day's touches without an outcome, in time order."""
    waiting = [touch for touch in slot.touches if touch.outcome is None]
    return sorted(waiting, key=lambda touch: (touch.at, touch.url))


def of_the_active(touches: Sequence[Touch], profiles: Sequence[Profile]) -> list[Touch]:
    """Return those of touches whose profiles are active; of whom nothing is known is not."""
    active = {each.url for each in profiles if each.status is ProfileStatus.ACTIVE}
    return [touch for touch in touches if touch.url in active]


def spoken_of(touches: Sequence[Touch], url: str, *, today: date) -> Touch:
    """Return the one of a url's touches that somebody means: the latest up to today.

    Raises PermanentError when there is none.
    """
    so_far = [touch for touch in touches if touch.day <= today]
    if so_far:
        return max(so_far, key=lambda touch: touch.day)
    if touches:
        soon = min(touch.day for touch in touches)
        raise PermanentError(
            f"the touch of {url} is planned for {soon}, not for today; nothing was changed"
        )
    raise PermanentError(
        f"no touch of {url} is planned this week or was last week; see `stoker touches show`, "
        "nothing was changed"
    )


def success_rate(marks: Sequence[Marked], *, usual: float) -> float:
    """Return the share of touches that were made; what is usual, until enough tell."""
    if len(marks) < ENOUGH:
        return usual
    return sum(mark.outcome.counts for mark in marks) / len(marks)


def delivery_id(tenant: str, touch: Touch) -> str:
    """Return the one id a touch is handed over under, however often that is tried."""
    named = f"{tenant}/{touch.day.isoformat()}/{touch.url}".encode()
    return f"touch-{touch.day.isoformat()}-{blake2b(named, digest_size=12).hexdigest()}"
