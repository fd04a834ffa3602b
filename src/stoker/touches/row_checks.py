"""What every store can keep of profiles, plans and what came of them; the rest is refused.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Nothing was written when one of them refuses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from stoker.base.errors import PermanentError
from stoker.base.types import in_utc
from stoker.crawl.row_checks import LONGEST_URL
from stoker.db.values import kept_name, kept_texts, kept_whole
from stoker.touches.model import DaySlot, HandOver, Marked, Profile, Touch, WeeklyPlan

_WEEK = re.compile(r"[0-9]{4}-W[0-9]{2}")

MOST_COUNTED = 10**9

_WIDEST = timedelta(days=2)  # no day of any zone is further from the same day in UTC


def kept_url(url: str) -> str:
    """Return a profile's url."""
    return kept_name(url, what="a profile's url", longest=LONGEST_URL)


def kept_profile(profile: Profile) -> Profile:
    """Return a profile as a store gives it back."""
    kept_url(profile.url)
    kept_texts((profile.name,), what="a profile's name")
    return replace(profile, last_done_at=_utc(profile.last_done_at, what="a profile's last touch"))


def kept_week(week: str) -> str:
    """Return a week's name."""
    if not _WEEK.fullmatch(week):
        raise PermanentError(f"a week is said like 2026-W07, not {week[:20]!r}")
    return week


def kept_plan(plan: WeeklyPlan) -> WeeklyPlan:
    """Return a plan as a store gives it back before anything has come of it."""
    kept_week(plan.week)
    kept_texts((plan.zone, *plan.notes), what="a plan's notes")
    return replace(
        plan,
        days=tuple(_slot(slot) for slot in plan.days),
        created_at=in_utc(plan.created_at, what="when a plan was made"),
    )


def kept_mark(marked: Marked) -> Marked:
    """Return somebody's word on a touch as a store gives it back."""
    kept_url(marked.url)
    return replace(marked, marked_at=in_utc(marked.marked_at, what="when a touch was marked"))


def kept_handover(handed: HandOver) -> HandOver:
    """Return that a touch left, as a store gives it back."""
    kept_url(handed.url)
    kept_name(handed.way, what="the way a touch left")
    kept_texts((handed.refused,), what="why a touch was refused")
    return replace(handed, at=in_utc(handed.at, what="when a touch left"))


def kept_counters(counters: Sequence[str]) -> list[str]:
    """Return counters' names in order, each once."""
    return sorted({kept_name(name, what="a counter's name") for name in counters})


def kept_amount(amount: int) -> int:
    """Return how far counters grow: never back."""
    if not 0 <= amount <= MOST_COUNTED:
        raise PermanentError(f"counters grow by 0 to {MOST_COUNTED}, not {amount}")
    return amount


def oldest_day(since: datetime) -> date:
    """Return the first day whose touches may have left from a moment on."""
    return (in_utc(since, what="a moment") - _WIDEST).date()


def no_such_touch(week: str, url: str) -> PermanentError:
    """Return what is raised when a plan has no such touch."""
    return PermanentError(f"the plan of {week} has no touch of {url} that day; nothing was changed")


def _slot(slot: DaySlot) -> DaySlot:
    kept_whole(slot.budget, what="a day's budget")
    named: dict[str, Touch] = {}
    for touch in slot.touches:
        kept_url(touch.url)
        kept_texts((touch.name,), what="a profile's name")
        if touch.day != slot.day or touch.url in named:
            raise PermanentError("a day has its own touches, nobody twice; nothing was written")
        if not math.isfinite(touch.score) or not 0.0 <= touch.probability <= 1.0:
            raise PermanentError("a touch has a score and a probability; nothing was written")
        at = in_utc(touch.at, what="when a touch is due")
        handed_at = _utc(touch.handed_at, what="when a touch was handed out")
        if touch.outcome is not None or at is not touch.at or handed_at is not touch.handed_at:
            touch = replace(touch, at=at, outcome=None, handed_at=handed_at)
        named[touch.url] = touch
    in_time = sorted(named.values(), key=lambda touch: (touch.at, touch.url))
    return replace(slot, touches=tuple(in_time))


def _utc(moment: datetime | None, *, what: str) -> datetime | None:
    return None if moment is None else in_utc(moment, what=what)
