"""Certify a week's coverage before it starts, and simulate weeks for it.

Feasible means: if every touch succeeds, every profile is reached in time. With touches that fail as
often as they did, the certificate estimates how likely a profile waits too long: a probability from
simulated weeks of the production planner, never a guarantee. A simulation draws only the outcomes;
a policy sees what happened so far and may ignore it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from stoker.base.errors import ConfigError
from stoker.touches.model import Profile, TouchOutcome
from stoker.touches.planning.planner import compute_week_budgets
from stoker.touches.planning.random import Floats, Ints, Purpose, RandomStream
from stoker.touches.planning.selection import (
    NEVER_DONE,
    Picks,
    build_eligible,
    pick_profiles,
)
from stoker.touches.settings import PlanRule

MAX_GAP_DAYS = 400  # days; longer gaps are counted with these


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeOdds:
    """How often a touch ends otherwise than done."""

    failed: float = 0.0
    already_reacted: float = 0.0
    no_posts: float = 0.0

    def __post_init__(self) -> None:
        parts = (self.failed, self.already_reacted, self.no_posts)
        if not all(0 <= part <= 1 for part in parts) or sum(parts) >= 1:
            raise ConfigError(
                "the shares of touches that come to nothing are each from 0 to 1 and together "
                "below 1, or nothing would ever be done"
            )

    @property
    def done(self) -> float:
        """Return how often a touch is made."""
        return 1 - self.failed - self.already_reacted - self.no_posts


# Takes the day each was last done, a day and its budget; returns the positions it picks.
ChooseProfiles = Callable[[Ints, date, int], Ints]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWeeks:
    """What came of some weeks."""

    gaps: Ints  # how many gaps of 0, 1, 2 … days; waits not over count once they are too long
    overdue: Ints  # places of those who waited longer than the window, at least once
    outcomes: dict[TouchOutcome, int]


def build_production_policy(
    *,
    rule: PlanRule,
    seed: int,
    appeal: Floats | None = None,
    on_picks: Callable[[Picks], None] | None = None,
) -> ChooseProfiles:
    """Return the production policy: every morning picks from what really happened.

    `on_picks` gets each day's picks with their reasons.
    """

    def choose(last_done: Ints, day: date, budget: int) -> Ints:
        picks = pick_profiles(
            last_done, day=day, budget=budget, rule=rule, seed=seed, appeal=appeal
        )
        if on_picks is not None:
            on_picks(picks)
        return picks.indexes

    return choose


def simulate_weeks(
    last_done: Ints,
    *,
    monday: date,
    weeks: int,
    rule: PlanRule,
    seed: int,
    zone: str,
    odds: OutcomeOdds,
    choose: ChooseProfiles,
) -> SimulatedWeeks:
    """Return what came of so many weeks from a Monday on.

    A profile never touched waits from that Monday on; the others keep their past.
    """
    first = monday.toordinal()
    state = last_done.copy()
    waiting_since = np.where(state == NEVER_DONE, first, state)
    gaps = np.zeros(MAX_GAP_DAYS + 1, np.int64)
    late = np.zeros(len(state), bool)
    ends = np.zeros(4, np.int64)
    chance = RandomStream(seed, Purpose.OUTCOMES, first)
    edges = np.cumsum([odds.done, odds.failed, odds.already_reacted])
    for week in range(weeks):
        begins = monday + timedelta(weeks=week)
        budgets, _ = compute_week_budgets(begins, rule=rule, seed=seed, zone=zone)
        for place, budget in enumerate(budgets.days):
            day = begins + timedelta(days=place)
            picked = choose(state, day, budget)
            kinds = np.searchsorted(edges, chance.draw(len(picked)), side="right")
            ends += np.bincount(kinds, minlength=4)
            done = picked[kinds == 0]
            waited = day.toordinal() - waiting_since[done]
            known = waited[state[done] != NEVER_DONE]
            gaps += np.bincount(np.minimum(known, MAX_GAP_DAYS), minlength=MAX_GAP_DAYS + 1)
            late[done[waited > rule.window.days]] = True
            state[done] = waiting_since[done] = day.toordinal()
    open_waits = first + 7 * weeks - waiting_since
    overdue = open_waits > rule.window.days
    gaps += np.bincount(np.minimum(open_waits[overdue], MAX_GAP_DAYS), minlength=MAX_GAP_DAYS + 1)
    kinds_of_end = (
        TouchOutcome.DONE,
        TouchOutcome.FAILED,
        TouchOutcome.ALREADY_REACTED,
        TouchOutcome.NO_POSTS,
    )
    return SimulatedWeeks(
        gaps=gaps,
        overdue=np.flatnonzero(late | overdue),
        outcomes=dict(zip(kinds_of_end, ends.tolist(), strict=True)),
    )


_Z95 = 1.959964  # standard deviations to either side of 95 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """Whether every profile can be reached in time, if every touch succeeds."""

    feasible: bool
    failing_day: date | None  # the first on which more are due than there was room for
    shortfall: int  # how many touches are missing by then
    smallest_weekly: int | None  # spread evenly over its open days, so much a week is enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Probability:
    """An estimate and its 95 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What can be guaranteed, and under which assumptions."""

    profiles: int
    feasibility: Feasibility
    one_waits: Probability  # that a given profile waits longer than the window
    any_waits: Probability  # that at least one does
    window: timedelta
    weeks: int
    runs: int
    success_rate: float

    @property
    def message(self) -> str:
        """Return the guarantee in words, one statement a line."""
        if not self.profiles:
            return "There is no active profile; import some first."
        one, some = self.one_waits, self.any_waits
        days, found = self.window.days, self.feasibility
        chances = (
            f"At {self.success_rate:.0%} success, within {self.weeks} weeks:\n"
            f"  one profile waits over {days} days: {one.estimate:.2%} "
            f"(95 %: {one.low:.2%} to {one.high:.2%})\n"
            f"  any of {self.profiles} does: {some.estimate:.0%} "
            f"(95 %: {some.low:.0%} to {some.high:.0%})"
        )
        if found.feasible:
            return f"Feasible: yes, if every touch succeeds.\n{chances}"
        needed = "no weekly budget is enough, as no day is open by then"
        if found.smallest_weekly is not None:
            needed = f"{found.smallest_weekly} a week are enough"
        return (
            f"Feasible: no, by {found.failing_day} {found.shortfall} touches are missing; "
            f"{needed}.\n{chances}"
        )


def compute_certificate(
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
    """Return what can be guaranteed from this Monday on. Raises ConfigError.

    Every run simulates the weeks with other budgets, picks and outcomes.
    """
    if not 0 < success_rate <= 1 or weeks < 1 or runs < 1:
        raise ConfigError("a certificate needs a success rate above 0 up to 1, a week and a run")
    eligible = build_eligible(profiles, zone=zone, appeals=appeals)
    last_done = eligible.last_done
    counts = [
        len(
            simulate_weeks(
                last_done,
                monday=monday,
                weeks=weeks,
                rule=rule,
                seed=seed + run,
                zone=zone,
                odds=OutcomeOdds(failed=1 - success_rate),
                choose=build_production_policy(rule=rule, seed=seed + run, appeal=eligible.appeal),
            ).overdue
        )
        for run in range(runs)
    ]
    return Certificate(
        profiles=len(last_done),
        feasibility=check_feasibility(
            last_done,
            monday=monday,
            budgets=_list_coming_budgets(monday, rule, seed, zone),
            window=rule.window,
            weekdays=rule.weekdays,
        ),
        one_waits=compute_clustered_interval(counts, len(last_done)),
        any_waits=compute_wilson_interval(sum(count > 0 for count in counts), runs),
        window=rule.window,
        weeks=weeks,
        runs=runs,
        success_rate=success_rate,
    )


def check_feasibility(
    last_done: Ints,
    *,
    monday: date,
    budgets: Sequence[int],
    window: timedelta,
    weekdays: Collection[int] = range(1, 8),
) -> Feasibility:
    """Return whether the daily budgets reach every profile by its deadline.

    They do if and only if on no day more profiles are due by then than there was room for.
    A profile never touched waits from Monday on; an overdue one is due on the first day.
    """
    days = len(budgets)
    due_in = last_done + window.days - monday.toordinal()
    due_in = np.where(last_done == NEVER_DONE, window.days - 1, np.maximum(due_in, 0))
    due_by = np.cumsum(np.bincount(due_in[due_in < days], minlength=days)[:days])
    missing = due_by - np.cumsum(np.array(budgets, np.int64))
    failing = np.flatnonzero(missing > 0)
    enough = _find_smallest_weekly(due_by.tolist(), weekdays)
    if not len(failing):
        return Feasibility(feasible=True, failing_day=None, shortfall=0, smallest_weekly=enough)
    first = int(failing[0])
    return Feasibility(
        feasible=False,
        failing_day=monday + timedelta(days=first),
        shortfall=int(missing[first]),
        smallest_weekly=enough,
    )


def _find_smallest_weekly(due_by: Sequence[int], weekdays: Collection[int]) -> int | None:
    """Return the weekly budget, spread evenly over these weekdays, that is never behind."""
    enough = opened = 0
    for place, due in enumerate(due_by):
        opened += place % 7 + 1 in weekdays
        if due and not opened:
            return None
        enough = max(enough, -(-due * len(set(weekdays)) // max(opened, 1)))
    return enough


def compute_wilson_interval(successes: float, number: float) -> Probability:
    """Return a share and its 95 % interval by Wilson's score, which stays within 0 and 1."""
    if number <= 0:
        return Probability(estimate=0.0, low=0.0, high=1.0)
    share, spread = successes / number, _Z95**2 / number
    middle = (share + spread / 2) / (1 + spread)
    half = _Z95 / (1 + spread) * math.sqrt(share * (1 - share) / number + spread / number / 4)
    return Probability(
        estimate=share, low=max(min(middle - half, share), 0.0), high=min(middle + half, 1.0)
    )


def compute_clustered_interval(counts: Sequence[int], size: int) -> Probability:
    """Return the share of all that these counts, each out of `size`, are; runs are independent.

    Within a run one who waits makes others wait, so a run counts for less than its size.
    """
    number = len(counts) * size
    if not number:
        return Probability(estimate=0.0, low=0.0, high=1.0 if counts else 0.0)
    share = sum(counts) / number
    alone = size * share * (1 - share)
    seen = float(np.var(counts, ddof=1)) if len(counts) > 1 else alone
    effect = max(seen / alone, 1.0) if alone > 0 else 1.0
    return compute_wilson_interval(share * number / effect, number / effect)


def _list_coming_budgets(monday: date, rule: PlanRule, seed: int, zone: str) -> list[int]:
    weeks = -(-rule.window.days // 7)
    days = [
        budget
        for week in range(weeks)
        for budget in compute_week_budgets(
            monday + timedelta(weeks=week), rule=rule, seed=seed, zone=zone
        )[0].days
    ]
    return days[: rule.window.days]
