"""Which touches of a plan are meant: today's, those due, the one somebody speaks of.

Plain answers about a plan and a moment. How a week is planned is said in `coverage`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from hashlib import blake2b

from stoker.core.coverage.values import DaySlot, Marked, Touch, WeeklyPlan
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


def queue(plan: WeeklyPlan, *, day: date, active: Collection[str]) -> list[Touch]:
    """Return a day's pending touches in time order; whoever is not active is left alone."""
    slot = plan.slot(day)
    touches = slot.touches if slot is not None else ()
    waiting = [touch for touch in touches if touch.outcome is None and touch.url in active]
    return sorted(waiting, key=lambda touch: (touch.at, touch.url))


def spoken_of(plans: Sequence[WeeklyPlan], url: str, *, today: date) -> tuple[WeeklyPlan, Touch]:
    """Return the touch that somebody means by a url: the latest up to today, and its plan.

    Raises PermanentError when there is none.
    """
    named = [(plan, touch) for plan in plans for touch in _of(plan.days, url)]
    so_far = [each for each in named if each[1].day <= today]
    if so_far:
        return max(so_far, key=lambda each: each[1].day)
    if named:
        soon = min(touch.day for _, touch in named)
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


def outstanding(
    plan: WeeklyPlan, left_at: Mapping[tuple[date, str], datetime], *, since: datetime
) -> int:
    """Return how many touches left since a moment without anybody saying what came of them."""
    open_ones = {
        (touch.day, touch.url)
        for slot in plan.days
        for touch in slot.touches
        if touch.outcome is None
    }
    return sum(at >= since for named, at in left_at.items() if named in open_ones)


def _of(slots: Sequence[DaySlot], url: str) -> list[Touch]:
    return [touch for slot in slots for touch in slot.touches if touch.url == url]
