"""Find touches of a plan, decide outcomes, and check hourly, daily and weekly limits.

A touch that was made stays made, because it was counted; any other outcome gives way to a later
one. A counter whose window is over counts from 0, in the tenant's zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from hashlib import blake2b

from stoker.base.errors import PermanentError
from stoker.base.types import to_utc
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.calendar.timezones import get_zone
from stoker.touches.model import (
    Count,
    DaySlot,
    OutcomeMark,
    Profile,
    ProfileStatus,
    Touch,
    TouchOutcome,
    WeeklyPlan,
)
from stoker.touches.settings import PlanRule

MIN_MARKS = 50  # touches that tell how many succeed


def get_local_day(now: datetime, zone: str) -> date:
    """Return the day it is in a zone."""
    return to_utc(now).astimezone(get_zone(zone)).date()


def get_monday(day: date) -> date:
    """Return the Monday of a day's week."""
    return day - timedelta(days=day.weekday())


def format_week(day: date) -> str:
    """Return the ISO year and week of a day: `2026-W07`."""
    year, week, _ = day.isocalendar()
    return f"{year:04d}-W{week:02d}"


def parse_week(week: str) -> date:
    """Return the Monday of a week. Raises PermanentError when there is no such week."""
    try:
        year, number = week.strip().upper().split("-W")
        if not (len(year) == 4 and len(number) == 2 and (year + number).isascii()):
            raise ValueError(week)
        return date.fromisocalendar(int(year), int(number), 1)
    except ValueError:
        raise PermanentError(f"a week is written like 2026-W07, not {week[:20]!r}") from None


def derive_seed(tenant: str, week: str) -> int:
    """Return the default seed of a tenant's week: the same each time, another each week.

    Two processes that make the same plan at once thereby make one.
    """
    return int.from_bytes(blake2b(f"{tenant}/{week}".encode(), digest_size=7).digest())


def remove_past_touches(plan: WeeklyPlan, *, today: date) -> WeeklyPlan:
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


def list_pending(slot: DaySlot) -> list[Touch]:
    """Return a day's touches without an outcome, in time order."""
    waiting = [touch for touch in slot.touches if touch.outcome is None]
    return sorted(waiting, key=lambda touch: (touch.at, touch.url))


def filter_active(touches: Sequence[Touch], profiles: Sequence[Profile]) -> list[Touch]:
    """Return those touches whose profiles are known and active."""
    active = {each.url for each in profiles if each.status is ProfileStatus.ACTIVE}
    return [touch for touch in touches if touch.url in active]


def filter_rested(
    touches: Sequence[Touch], profiles: Sequence[Profile], *, rule: PlanRule, zone: str
) -> list[Touch]:
    """Return those touches whose profiles were not done within the rest before their day.

    A profile may have been done since its touch was planned: in a sheet, or by a late outcome.
    """
    done_on = {
        each.url: get_local_day(each.last_done_at, zone)
        for each in profiles
        if each.last_done_at is not None
    }
    return [
        touch
        for touch in touches
        if touch.url not in done_on or touch.day - done_on[touch.url] >= rule.min_rest
    ]


def get_latest_touch(touches: Sequence[Touch], url: str, *, today: date) -> Touch:
    """Return the latest of a url's touches up to today, to which an outcome belongs.

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


def compute_success_rate(marks: Sequence[OutcomeMark], *, default: float) -> float:
    """Return the share of touches that were made; the default, until enough tell."""
    if len(marks) < MIN_MARKS:
        return default
    return sum(mark.outcome.is_counted for mark in marks) / len(marks)


def build_delivery_id(tenant: str, touch: Touch) -> str:
    """Return the one id a touch is delivered under, however often that is tried."""
    named = f"{tenant}/{touch.day.isoformat()}/{touch.url}".encode()
    return f"touch-{touch.day.isoformat()}-{blake2b(named, digest_size=12).hexdigest()}"


def is_new_outcome(known: TouchOutcome | None, marked: OutcomeMark) -> bool:
    """Say whether an outcome changes what is known; saying the same again does not.

    Raises PermanentError when a touch that was made gets another outcome.
    """
    if known is TouchOutcome.DONE and marked.outcome is not TouchOutcome.DONE:
        raise PermanentError(
            f"the touch of {marked.url} on {marked.day} was made and counted, so it cannot be "
            f"{marked.outcome} any more; nothing was changed"
        )
    return marked.outcome is not known


def parse_outcome(text: str) -> TouchOutcome:
    """Return the outcome of that name. Raises PermanentError naming those there are."""
    try:
        return TouchOutcome(text.strip().lower())
    except ValueError:
        known = ", ".join(TouchOutcome)
        raise PermanentError(
            f"{text[:40]!r} is no outcome; say one of {known}, nothing was changed"
        ) from None


WINDOW_KINDS = (WindowKind.HOUR, WindowKind.DAY, WindowKind.WEEK)

_LIMIT_NAMES = {
    WindowKind.HOUR: "hourly_limit",
    WindowKind.DAY: "daily_limit",
    WindowKind.WEEK: "weekly_limit",
}

ALLOWED = "ok"

TouchCounters = Mapping[WindowKind, Count]  # of the hour, the day and the week it is now


def get_limits(rule: PlanRule) -> dict[WindowKind, int]:
    """Return how many touches each window allows."""
    return {
        WindowKind.HOUR: rule.hourly_cap,
        WindowKind.DAY: rule.daily_cap,
        WindowKind.WEEK: rule.weekly_cap,
    }


def get_window_names(now: datetime, *, zone: str) -> dict[WindowKind, str]:
    """Return the names of the hour, the day and the week a moment is in, in the tenant's zone."""
    reset = ResetRule(zone)
    return {kind: compute_window(kind, now, reset=reset).name for kind in WINDOW_KINDS}


def check_touch_limits(counters: TouchCounters, *, rule: PlanRule) -> tuple[bool, str]:
    """Return whether one more touch is allowed; if not, the first full limit: hour, day, week."""
    for kind, limit in get_limits(rule).items():
        if (used := counters[kind].used) >= limit:
            return False, f"{_LIMIT_NAMES[kind]} ({used}/{limit})"
    return True, ALLOWED
