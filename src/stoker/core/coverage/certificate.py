"""What a week's plan can promise about coverage, before it starts.

Feasible: as long as every touch succeeds, can everybody be reached in time? And with touches that
fail as often as they did: how likely is it that somebody waits too long? The second answer is a
probability, found by rehearsing the production planner, and never a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from stoker.core.coverage.chance import Ints
from stoker.core.coverage.picking import NEVER
from stoker.core.coverage.planning import budgets_of
from stoker.core.coverage.rehearsing import Odds, rehearsed, repairing_daily
from stoker.core.coverage.rosters import roster_of
from stoker.core.coverage.values import PlanRule, Profile
from stoker.errors import ConfigError

_Z95 = 1.959964  # standard deviations to either side of 95 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """Whether everybody can be reached in time, if every touch succeeds."""

    feasible: bool
    failing_day: date | None  # the first on which more are due than there was room for
    shortfall: int  # how many touches are missing by then
    smallest_weekly: int | None  # spread evenly over its open days, so much a week would do


@dataclass(frozen=True, slots=True, kw_only=True)
class Probability:
    """An estimate and its 95 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What can be promised, and under which assumptions."""

    profiles: int
    feasibility: Feasibility
    one_waits: Probability  # that a given profile waits longer than the window
    any_waits: Probability  # that at least one does
    window: timedelta
    weeks: int
    runs: int
    success_rate: float

    @property
    def sentence(self) -> str:
        """Say it to a tenant."""
        if not self.profiles:
            return "there is no active profile to promise anything about; import some first"
        one, some = self.one_waits, self.any_waits
        days, found = self.window.days, self.feasibility
        chances = (
            f"at {self.success_rate:.0%} success a given profile waits longer than {days} days "
            f"within {self.weeks} weeks with probability {one.estimate:.2%} (95 % interval "
            f"{one.low:.2%} to {one.high:.2%}), at least one of {self.profiles} with "
            f"{some.estimate:.0%} ({some.low:.0%} to {some.high:.0%})"
        )
        if found.feasible:
            return f"feasible if every touch succeeds; {chances}"
        would_do = "no weekly budget would do, as no day is open by then"
        if found.smallest_weekly is not None:
            would_do = f"{found.smallest_weekly} a week would do"
        return (
            f"not feasible: by {found.failing_day} {found.shortfall} touches are missing; "
            f"{would_do}; {chances}"
        )


def certified(
    profiles: Iterable[Profile],
    *,
    monday: date,
    rule: PlanRule,
    seed: int,
    zone: str,
    success_rate: float,
    weeks: int = 10,
    runs: int = 200,
    appeals: Mapping[str, float] | None = None,
) -> Certificate:
    """Return what can be promised from this Monday on. Raises ConfigError.

    Every run rehearses the weeks with other budgets, picks and outcomes.
    """
    if not 0 < success_rate <= 1 or weeks < 1 or runs < 1:
        raise ConfigError("a certificate needs a success rate above 0 up to 1, a week and a run")
    roster = roster_of(profiles, zone=zone, appeals=appeals)
    last_done = roster.last_done
    counts = [
        len(
            rehearsed(
                last_done,
                monday=monday,
                weeks=weeks,
                rule=rule,
                seed=seed + run,
                zone=zone,
                odds=Odds(failed=1 - success_rate),
                choose=repairing_daily(rule=rule, seed=seed + run, appeal=roster.appeal),
            ).too_long
        )
        for run in range(runs)
    ]
    return Certificate(
        profiles=len(last_done),
        feasibility=feasibility(
            last_done,
            monday=monday,
            budgets=_coming(monday, rule, seed, zone),
            window=rule.window,
            weekdays=rule.weekdays,
        ),
        one_waits=clustered(counts, len(last_done)),
        any_waits=wilson(sum(count > 0 for count in counts), runs),
        window=rule.window,
        weeks=weeks,
        runs=runs,
        success_rate=success_rate,
    )


def feasibility(
    last_done: Ints,
    *,
    monday: date,
    budgets: Sequence[int],
    window: timedelta,
    weekdays: Collection[int] = range(1, 8),
) -> Feasibility:
    """Say whether budgets of the days from Monday on reach everybody by their deadlines.

    They do if and only if on no day more profiles are due by then than there was room for.
    Somebody never touched waits from Monday on; whoever is overdue is due on the first day.
    """
    days = len(budgets)
    due_in = last_done + window.days - monday.toordinal()
    due_in = np.where(last_done == NEVER, window.days - 1, np.maximum(due_in, 0))
    due_by = np.cumsum(np.bincount(due_in[due_in < days], minlength=days)[:days])
    missing = due_by - np.cumsum(np.array(budgets, np.int64))
    failing = np.flatnonzero(missing > 0)
    enough = _enough(due_by.tolist(), weekdays)
    if not len(failing):
        return Feasibility(feasible=True, failing_day=None, shortfall=0, smallest_weekly=enough)
    first = int(failing[0])
    return Feasibility(
        feasible=False,
        failing_day=monday + timedelta(days=first),
        shortfall=int(missing[first]),
        smallest_weekly=enough,
    )


def _enough(due_by: Sequence[int], weekdays: Collection[int]) -> int | None:
    """Return the weekly budget, spread evenly over these weekdays, that is never behind."""
    enough = opened = 0
    for place, due in enumerate(due_by):
        opened += place % 7 + 1 in weekdays
        if due and not opened:
            return None
        enough = max(enough, -(-due * len(set(weekdays)) // max(opened, 1)))
    return enough


def wilson(successes: float, number: float) -> Probability:
    """Return a share and its 95 % interval by Wilson's score, which stays within 0 and 1."""
    if number <= 0:
        return Probability(estimate=0.0, low=0.0, high=1.0)
    share, spread = successes / number, _Z95**2 / number
    middle = (share + spread / 2) / (1 + spread)
    half = _Z95 / (1 + spread) * math.sqrt(share * (1 - share) / number + spread / number / 4)
    return Probability(
        estimate=share, low=max(min(middle - half, share), 0.0), high=min(middle + half, 1.0)
    )


def clustered(counts: Sequence[int], size: int) -> Probability:
    """Return the share of all that these counts, each out of `size`, are; runs are independent.

    Within a run one who waits makes others wait, so a run says less than its size promises.
    """
    number = len(counts) * size
    if not number:
        return Probability(estimate=0.0, low=0.0, high=1.0 if counts else 0.0)
    share = sum(counts) / number
    alone = size * share * (1 - share)
    seen = float(np.var(counts, ddof=1)) if len(counts) > 1 else alone
    effect = max(seen / alone, 1.0) if alone > 0 else 1.0
    return wilson(share * number / effect, number / effect)


def _coming(monday: date, rule: PlanRule, seed: int, zone: str) -> list[int]:
    weeks = -(-rule.window.days // 7)
    days = [
        budget
        for week in range(weeks)
        for budget in budgets_of(monday + timedelta(weeks=week), rule=rule, seed=seed, zone=zone)[
            0
        ].days
    ]
    return days[: rule.window.days]
