"""Score profiles, pick those of a day and draw its times, by the planner's own functions."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from typing import Any

import numpy as np

from stoker.base.clock import SystemClock
from stoker.base.errors import PermanentError
from stoker.base.types import to_utc
from stoker.calendar.timezones import get_zone
from stoker.compat.touches.profiles import parse_rows
from stoker.compat.touches.rule import build_rule, get_zone_name
from stoker.touches.model import Profile, ProfileStatus
from stoker.touches.planning.random import Purpose, RandomStream
from stoker.touches.planning.selection import compute_scores, pick_profiles
from stoker.touches.planning.times import draw_day_times, from_ticks, list_open_spans
from stoker.touches.queue import get_local_day
from stoker.touches.schedule_state import NEVER_DAYS

_SEED_BITS = 63

_ANY_ADDRESS = "https://profile.test/"


@dataclass
class ScoredProfile:
    """A profile with its score; forced when it waited longer than allowed."""

    linkedin_url: str
    name: str
    priority_score: float
    days_since_last_like: float  # 999: never
    forced: bool = False


def calculate_priority(profile: Mapping[str, Any], current_time: datetime | None = None) -> float:
    """Return a profile's score: what its wait is worth up to a ceiling, and some chance."""
    rule, zone, now = build_rule(), get_zone_name(), _to_moment(current_time)
    # Neither address nor status matters to a score.
    row = {**profile, "linkedin_url": _ANY_ADDRESS, "status": ProfileStatus.ACTIVE.value}
    parsed = parse_rows([row], zone=zone, now=now)
    for bad in parsed.bad_rows:
        raise PermanentError(f"this profile cannot be scored: {bad.reason}")
    today = get_local_day(now, zone)
    since = np.array([_count_days(parsed.profiles[0], today, zone)], np.int64)
    return float(compute_scores(since, rule=rule, chance=_open_stream(today))[0])


def score_all_profiles(
    state_data: Sequence[Mapping[str, Any]], current_time: datetime | None = None
) -> list[ScoredProfile]:
    """Return every active profile with its score, the highest first."""
    rule, zone, now = build_rule(), get_zone_name(), _to_moment(current_time)
    today = get_local_day(now, zone)
    parsed = parse_rows(state_data, zone=zone, now=now)
    active = [each for each in parsed.profiles if each.status is ProfileStatus.ACTIVE]
    since = [_count_days(each, today, zone) for each in active]
    scores = compute_scores(np.array(since, np.int64), rule=rule, chance=_open_stream(today))
    found = [
        ScoredProfile(
            linkedin_url=profile.url,
            name=profile.name,
            priority_score=score,
            days_since_last_like=days,
            forced=days > rule.force_after.days,
        )
        for profile, days, score in zip(active, since, scores.tolist(), strict=True)
    ]
    return sorted(found, key=lambda each: each.priority_score, reverse=True)


def select_for_day(
    scored: Sequence[ScoredProfile], budget: int, yesterday_urls: Collection[str] = ()
) -> list[ScoredProfile]:
    """Return who is touched on a day: the overdue first, the others drawn by their scores.

    Not those of `yesterday_urls`, nor any that has not had its rest.
    """
    if budget <= 0 or not scored:
        return []
    today = get_local_day(SystemClock().now(), get_zone_name())
    waits = np.array([int(each.days_since_last_like) for each in scored], np.int64)
    barred = [n for n, each in enumerate(scored) if each.linkedin_url in yesterday_urls]
    picks = pick_profiles(
        today.toordinal() - waits,
        day=today,
        budget=budget,
        rule=build_rule(),
        seed=secrets.randbits(_SEED_BITS),
        barred=np.array(barred, np.int64),
        scores=np.array([each.priority_score for each in scored], np.float64),
    )
    return [scored[place] for place in picks.indexes.tolist()]


def generate_daily_timestamps(
    n: int, day: date | time | None = None, operating_end: time | None = None
) -> list[time]:
    """Return so many times of a day in order, to the minute, or as many as fit into its hours.

    Instead of a day, its hours may be given: when they begin, and when they end.
    """
    rule, zone = build_rule(), get_zone_name()
    if isinstance(day, time):
        rule = replace(rule, opens=day, closes=operating_end or rule.closes)
    today = get_local_day(SystemClock().now(), zone)
    chosen = day if isinstance(day, date) else today
    chosen = chosen.date() if isinstance(chosen, datetime) else chosen
    spans = list_open_spans(chosen, rule=rule, zone=zone)
    if not spans:
        return []
    ticks = draw_day_times(n, spans, rule=rule, chance=_open_stream(chosen, Purpose.TIMES))
    local = [from_ticks(at).astimezone(get_zone(zone)) for at in ticks.tolist()]
    return [time(at.hour, at.minute) for at in local]


def _count_days(profile: Profile, today: date, zone: str) -> float:
    if profile.last_done_at is None:
        return NEVER_DAYS
    return float((today - get_local_day(profile.last_done_at, zone)).days)


def _to_moment(given: datetime | None) -> datetime:
    if given is None:
        return SystemClock().now()
    return to_utc(given if given.tzinfo else given.replace(tzinfo=get_zone(get_zone_name())))


def _open_stream(day: date, purpose: Purpose = Purpose.PICKS) -> RandomStream:
    return RandomStream(secrets.randbits(_SEED_BITS), purpose, day.toordinal())
