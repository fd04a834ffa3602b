"""Validate profiles, plans, outcomes and deliveries before a store writes them.

Each function returns the value as a store gives it back, and raises PermanentError before anything
is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from stoker.base.errors import PermanentError
from stoker.base.types import to_utc
from stoker.crawl.schema import MAX_URL_BYTES
from stoker.db.values import validate_int64, validate_key, validate_texts
from stoker.touches.model import DaySlot, Delivery, OutcomeMark, Profile, Touch, WeeklyPlan

_WEEK_PATTERN = re.compile(r"[0-9]{4}-W[0-9]{2}")

MAX_COUNT = 10**9

_MAX_ZONE_DISTANCE = timedelta(days=2)  # no day of any zone is further from the same day in UTC


def validate_profile_url(url: str) -> str:
    """Return a profile's url."""
    return validate_key(url, what="a profile's url", longest=MAX_URL_BYTES)


def validate_profile(profile: Profile) -> Profile:
    """Return a profile as a store gives it back."""
    validate_profile_url(profile.url)
    validate_texts((profile.name,), what="a profile's name")
    return replace(
        profile, last_done_at=_to_utc(profile.last_done_at, what="a profile's last touch")
    )


def validate_week(week: str) -> str:
    """Return a week's name."""
    if not _WEEK_PATTERN.fullmatch(week):
        raise PermanentError(f"a week is written like 2026-W07, not {week[:20]!r}")
    return week


def validate_plan(plan: WeeklyPlan) -> WeeklyPlan:
    """Return a plan as a store gives it back before anything has come of it."""
    validate_week(plan.week)
    validate_texts((plan.zone, *plan.notes), what="a plan's notes")
    return replace(
        plan,
        days=tuple(_validate_slot(slot) for slot in plan.days),
        created_at=to_utc(plan.created_at, what="when a plan was made"),
    )


def validate_outcome(marked: OutcomeMark) -> OutcomeMark:
    """Return an outcome as a store gives it back."""
    validate_profile_url(marked.url)
    return replace(marked, marked_at=to_utc(marked.marked_at, what="when a touch was marked"))


def validate_delivery(handed: Delivery) -> Delivery:
    """Return that a touch left, as a store gives it back."""
    validate_profile_url(handed.url)
    validate_key(handed.channel, what="the way a touch left")
    validate_texts((handed.refused,), what="why a touch was refused")
    return replace(handed, at=to_utc(handed.at, what="when a touch left"))


def validate_counters(counters: Sequence[str]) -> list[str]:
    """Return counters' names in order, each once."""
    return sorted({validate_key(name, what="a counter's name") for name in counters})


def validate_amount(amount: int) -> int:
    """Return how far counters grow: never back."""
    if not 0 <= amount <= MAX_COUNT:
        raise PermanentError(f"counters grow by 0 to {MAX_COUNT}, not {amount}")
    return amount


def compute_oldest_day(since: datetime) -> date:
    """Return the first day whose touches may have left from a moment on."""
    return (to_utc(since, what="a moment") - _MAX_ZONE_DISTANCE).date()


def build_missing_touch_error(week: str, url: str) -> PermanentError:
    """Return what is raised when a plan has no such touch."""
    return PermanentError(f"the plan of {week} has no touch of {url} that day; nothing was changed")


def _validate_slot(slot: DaySlot) -> DaySlot:
    validate_int64(slot.budget, what="a day's budget")
    named: dict[str, Touch] = {}
    for touch in slot.touches:
        validate_profile_url(touch.url)
        validate_texts((touch.name,), what="a profile's name")
        if touch.day != slot.day or touch.url in named:
            raise PermanentError("a day has its own touches, each url once; nothing was written")
        if not math.isfinite(touch.score) or not 0.0 <= touch.probability <= 1.0:
            raise PermanentError("a touch has a score and a probability; nothing was written")
        at = to_utc(touch.at, what="when a touch is due")
        handed_at = _to_utc(touch.handed_at, what="when a touch was handed out")
        if touch.outcome is not None or at is not touch.at or handed_at is not touch.handed_at:
            touch = replace(touch, at=at, outcome=None, handed_at=handed_at)
        named[touch.url] = touch
    in_time = sorted(named.values(), key=lambda touch: (touch.at, touch.url))
    return replace(slot, touches=tuple(in_time))


def _to_utc(moment: datetime | None, *, what: str) -> datetime | None:
    return None if moment is None else to_utc(moment, what=what)
