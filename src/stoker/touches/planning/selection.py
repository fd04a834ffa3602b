"""Pick the profiles of one day, with the probability of each pick.

Profiles that waited too long are forced in, up to a daily limit; those near the end of the window
come next, without a limit; the rest is drawn from the highest scores, by weight and without
replacement. A profile never touched is forced in after those whose wait is known, so that no import
pushes out one that is overdue. Only in the draw does a profile's appeal count, so it makes no
profile wait longer than the pool does. Works on numpy columns of the active profiles, in url order,
with the day each was last done; the order of input does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from operator import attrgetter

import numpy as np

from stoker.base.errors import ConfigError
from stoker.base.types import to_utc
from stoker.calendar.timezones import get_zone
from stoker.touches.model import Profile, ProfileStatus
from stoker.touches.planning.random import Flags, Floats, Ints, Purpose, RandomStream
from stoker.touches.settings import PlanRule

NEVER_DONE = -1_000_000  # the day number that stands for a profile never touched

_NEVER_SINCE = -NEVER_DONE  # days; no profile that was touched waited as long

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picks:
    """Columns about those picked: who (places in the roster), and why."""

    indexes: Ints
    scores: Floats
    since: Ints  # days; more than any calendar has for a profile never touched
    forced: Flags
    pressing: Flags  # picked for the end of the window, beyond the limit on forced ones
    probability: Floats


def compute_scores(since: Ints, *, rule: PlanRule, chance: RandomStream) -> Floats:
    """Return each profile's score: what its wait is worth up to a ceiling, and some chance."""
    waits: Floats = np.minimum(rule.score_per_day * since, rule.score_ceiling)
    return waits + rule.score_noise * chance.draw(len(since))


def pick_profiles(
    last_done: Ints,
    *,
    day: date,
    budget: int,
    rule: PlanRule,
    seed: int,
    barred: Ints | None = None,
    forced_already: int = 0,
    appeal: Floats | None = None,
    scores: Floats | None = None,
) -> Picks:
    """Return at most `budget` picks of a day among profiles by the day (its ordinal) last done.

    `barred` are places not to pick: they have a touch that day already, `forced_already` of them
    by force. No profile done within the rule's rest is picked. `appeal` is each one's, from 0 to 1.
    `scores` are computed if none are given.
    """
    since, chance = day.toordinal() - last_done, RandomStream(seed, Purpose.PICKS, day.toordinal())
    if scores is None:
        scores = compute_scores(since, rule=rule, chance=chance)
    free = since >= rule.min_rest.days
    if barred is not None:
        free[barred] = False
    limit = max(rule.force_limit - forced_already, 0)
    forced = _choose_forced(since, scores, free, limit=min(limit, budget), rule=rule)
    free[forced] = False
    pressing = _choose_pressing(since, scores, free, limit=budget - len(forced), rule=rule)
    free[pressing] = False
    others = np.flatnonzero(free)
    # Chance has its say among the best only, or the longest-waiting could be passed over.
    pool = others[_choose_best(scores[others], int(rule.pool_factor * budget))]
    weights = scores[pool]
    if appeal is not None and len(weights):
        # Measured by the largest score first, so that no factor makes a weight endless.
        weights = (
            weights / max(float(weights.max()), _TINY) * (1 + rule.appeal_factor * appeal[pool])
        )
    certain = len(forced) + len(pressing)
    drawn, probability = draw_sample(weights, budget - certain, chance=chance)
    places = np.concatenate([forced, pressing, pool[drawn]])
    ranks = np.arange(len(places))
    return Picks(
        indexes=places,
        scores=scores[places],
        since=since[places],
        forced=ranks < len(forced),
        pressing=(ranks >= len(forced)) & (ranks < certain),
        probability=np.concatenate([np.ones(certain), probability[drawn]]),
    )


def draw_sample(weights: Floats, number: int, *, chance: RandomStream) -> tuple[Ints, Floats]:
    """Draw so many without replacement; return their indexes, and each one's probability.

    Systematic sampling in shuffled order: the probability of being drawn is the share of the
    weight times the number, exactly, and 1 for a weight too large for that.
    """
    size = len(weights)
    number = min(number, size)
    if number <= 0:
        return np.zeros(0, np.int64), np.zeros(size)
    probability = compute_inclusion(weights, number)
    certain = probability >= 1.0
    options = chance.shuffle(size)
    options = options[~certain[options]]
    open_places = number - int(certain.sum())
    reach = np.cumsum(probability[options])
    start = chance.draw_one()
    if not open_places or not len(options):
        return np.flatnonzero(certain), probability
    # Sums of fractions end a hair beside the whole number they stand for.
    reach *= open_places / reach[-1]
    hits = np.searchsorted(reach, start + np.arange(open_places), side="right")
    # One step is at least as long as any probability; rounding may still hit a place twice.
    hits = np.maximum.accumulate(hits - np.arange(open_places)) + np.arange(open_places)
    hits = np.minimum(hits, len(options) - open_places + np.arange(open_places))
    return np.concatenate([np.flatnonzero(certain), options[hits]]), probability


def compute_inclusion(weights: Floats, number: int) -> Floats:
    """Return each one's probability of being among so many drawn, in proportion to its weight."""
    probability = np.zeros(len(weights))
    rest = np.arange(len(weights))
    left = number
    shares = np.where(weights > 0, weights, 0.0)
    if not shares.any():
        shares = np.ones(len(weights))
    # A profile with a share above 1 is certain; the others share what that leaves. Each round
    # makes at least one certain, so there are at most as many rounds as picks.
    while left > 0 and len(rest):
        largest = float(shares[rest].max())
        # Weights are measured by the largest of them: a sum of the very smallest divides nothing.
        parts = shares[rest] / largest if largest > 0 else np.ones(len(rest))
        wanted = parts * (left / float(parts.sum()))
        over = wanted >= 1.0
        if not over.any():
            probability[rest] = wanted
            break
        probability[rest[over]] = 1.0
        left -= int(over.sum())
        rest = rest[~over]
    return probability


def _choose_forced(since: Ints, scores: Floats, free: Flags, *, limit: int, rule: PlanRule) -> Ints:
    overdue = np.flatnonzero(free & (since > rule.force_after.days))
    return _sort_by_wait(overdue, since, scores)[:limit]


def _choose_pressing(
    since: Ints, scores: Floats, free: Flags, *, limit: int, rule: PlanRule
) -> Ints:
    # A touch in five fails, so one last try is not enough: four of them are. A profile never
    # touched has no window that could end.
    if not rule.pressing:
        return np.zeros(0, np.int64)
    begins = rule.window.days - rule.pressing.days
    near = np.flatnonzero(free & (since >= begins) & (since < _NEVER_SINCE))
    return _sort_by_wait(near, since, scores)[:limit]


def _sort_by_wait(places: Ints, since: Ints, scores: Floats) -> Ints:
    """Return places by wait, the longest first; profiles never touched come after the others."""
    waits = since[places]
    waits = np.where(waits >= _NEVER_SINCE, -1, waits)
    return places[np.lexsort((-scores[places], -waits))]


def _choose_best(scores: Floats, number: int) -> Ints:
    if number >= len(scores):
        return np.arange(len(scores))
    best = np.argpartition(-scores, number)[:number] if number else np.zeros(0, np.int64)
    return np.sort(best)


@dataclass(frozen=True, slots=True, kw_only=True)
class EligibleProfiles:
    """Active profiles by url, and the ordinal of the day each was last done, or NEVER."""

    profiles: Sequence[Profile]
    last_done: Ints
    appeal: Floats | None = None  # 0 to 1, where anything is known of it

    def find_indexes(self, urls: Iterable[str]) -> Ints:
        """Return where these stand, passing over those that are not there."""
        wanted = set(urls)
        if not wanted:
            return np.zeros(0, np.int64)
        found = [place for place, each in enumerate(self.profiles) if each.url in wanted]
        return np.array(found, np.int64)


def build_eligible(
    profiles: Iterable[Profile], *, zone: str, appeals: Mapping[str, float] | None = None
) -> EligibleProfiles:
    """Return the active ones of these profiles; `appeals` are by url, 0 where one is missing.

    Raises ConfigError when one is listed twice, or an appeal is not from 0 to 1.
    """
    wall = get_zone(zone)
    active = [each for each in profiles if each.status is ProfileStatus.ACTIVE]
    active.sort(key=attrgetter("url"))
    for one, other in pairwise(active):
        if one.url == other.url:
            raise ConfigError(f"the profile {one.url[:200]!r} is listed twice; keep one of them")
    days = [
        NEVER_DONE
        if each.last_done_at is None
        else _ensure_aware(each.last_done_at).astimezone(wall).toordinal()
        for each in active
    ]
    return EligibleProfiles(
        profiles=active,
        last_done=np.array(days, np.int64),
        appeal=_build_appeal_column(active, appeals or {}),
    )


def _build_appeal_column(active: Sequence[Profile], appeals: Mapping[str, float]) -> Floats | None:
    if not appeals:
        return None
    for url, appeal in appeals.items():
        if not 0.0 <= appeal <= 1.0:
            raise ConfigError(f"the appeal of {url[:200]!r} is from 0 to 1, not {appeal!r}")
    return np.array([appeals.get(each.url, 0.0) for each in active], np.float64)


def _ensure_aware(last_done_at: datetime) -> datetime:
    # Called a million times: only a wrong value takes the slow way, which raises.
    return last_done_at if last_done_at.tzinfo is not None else to_utc(last_done_at)
