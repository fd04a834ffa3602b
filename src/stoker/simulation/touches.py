"""Simulate touch plans: how long profiles wait, whom a score picks, and when touches are made.

Waits are compared under four policies with the same budgets and random numbers: the production
planner replanned every morning, the same planner run on Mondays only, always the longest waiting
first, which is the best possible, and the formula people used before: days x 10 + 15, plus or minus
10, the best first. Both score formulas are also compared from a steady state. Times are the
product's own, before and after they are moved apart; Pearson's chi-square tests whether they follow
the hourly weights, before anything is moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from stoker.base.errors import ConfigError
from stoker.touches.model import TouchOutcome
from stoker.touches.planning.coverage import (
    MAX_GAP_DAYS,
    ChooseProfiles,
    OutcomeOdds,
    build_production_policy,
    simulate_weeks,
)
from stoker.touches.planning.planner import compute_week_budgets
from stoker.touches.planning.random import Floats, Ints, Purpose, RandomStream
from stoker.touches.planning.selection import Picks, pick_profiles
from stoker.touches.planning.times import (
    TICKS_PER_SECOND,
    TimeSpan,
    draw_day_times,
    draw_thinned,
    from_ticks,
    get_gap,
    list_open_spans,
)
from stoker.touches.settings import PlanRule

FIRST_MONDAY = date(2026, 1, 5)

REPLANNED_DAILY, WEEKLY, MAX_WAIT_FIRST = "repaired daily", "planned weekly", "longest wait first"

OLD_FORMULA = "old formula"

SHARE_DAYS = (7, 10, 12, 14, 16)  # days within which shares of gaps are reported

OLD_PER_DAY, OLD_BASE, OLD_NOISE = 10.0, 15.0, 10.0  # of the formula people used before


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageResult:
    """The result of one policy, over all runs."""

    policy: str
    within: float  # share of gaps no longer than the window
    within_days: dict[int, float]  # share of gaps no longer than so many days
    forced: float | None  # share of picks that were forced; None where the policy forces none
    pressing: float | None  # share of picks that came first beyond the forced ones
    day_sizes: tuple[int, ...]  # how many days had 0, 1, 2 … touches
    day_mean: float  # touches on a day that had any
    day_deviation: float
    frequency_mean: float  # touches of a profile in a week
    frequency_deviation: float
    frequency_least: float
    frequency_most: float
    gaps: tuple[int, ...]  # how many gaps of 0, 1, 2 … days
    runs_too_long: float  # share of runs in which a profile waited longer
    profiles_too_long: float  # share of profiles that ever did
    longest_days: int
    outcomes: dict[TouchOutcome, int]


class PickTally:
    """Counts what a policy picked: touches a day, picks of each profile, and reasons."""

    def __init__(self, profiles: int) -> None:
        self.day_sizes: list[int] = []
        self.picks = np.zeros(profiles, np.int64)
        self.forced = self.pressing = 0
        self.has_reasons = False

    def add_reasons(self, picks: Picks) -> None:
        """Count why a day's profiles were picked."""
        self.has_reasons = True
        self.forced += int(picks.forced.sum())
        self.pressing += int(picks.pressing.sum())

    def count(self, choose: ChooseProfiles) -> ChooseProfiles:
        """Return the policy, with its picks counted."""

        def counted(last_done: Ints, day: date, budget: int) -> Ints:
            picked = choose(last_done, day, budget)
            self.day_sizes.append(len(picked))
            self.picks[picked] += 1
            return picked

        return counted


BuildPolicy = Callable[[int, PickTally], ChooseProfiles]


def compare_coverage(
    *,
    profiles: int,
    weeks: int,
    runs: int,
    odds: OutcomeOdds,
    rule: PlanRule,
    seed: int = 0,
) -> tuple[CoverageResult, ...]:
    """Return how each policy did, the product's own first. Raises ConfigError."""
    if profiles < 1 or weeks < 1 or runs < 1:
        raise ConfigError("a simulation needs at least a profile, a week and a run")
    policies: dict[str, BuildPolicy] = {
        REPLANNED_DAILY: lambda nth, tally: build_production_policy(
            rule=rule, seed=nth, on_picks=tally.add_reasons
        ),
        WEEKLY: lambda nth, tally: _build_weekly_policy(rule=rule, seed=nth, tally=tally),
        MAX_WAIT_FIRST: lambda nth, tally: build_longest_wait_policy(rule=rule),
        OLD_FORMULA: lambda nth, tally: _build_old_policy(rule=rule, seed=nth),
    }
    return tuple(
        _run_policy(name, policy, profiles, weeks, runs, odds, rule, seed)
        for name, policy in policies.items()
    )


def build_steady_state(number: int, *, odds: OutcomeOdds, rule: PlanRule, seed: int) -> Ints:
    """Return last-done days as after a long time of touches: evenly spread."""
    turn = 7 * number / max(rule.target * odds.done, 1)
    days = max(min(round(turn), rule.window.days), 1)
    chance = RandomStream(seed, Purpose.OUTCOMES, 0)
    return FIRST_MONDAY.toordinal() - 1 - (chance.draw(number) * days).astype(np.int64)


def build_longest_wait_policy(*, rule: PlanRule) -> ChooseProfiles:
    """Return the policy that picks the longest waiting profiles that had their rest."""

    def choose(last_done: Ints, day: date, budget: int) -> Ints:
        oldest = np.argsort(last_done, kind="stable")
        rested = day.toordinal() - last_done[oldest] >= rule.min_rest.days
        return oldest[rested][:budget].astype(np.int64, copy=False)

    return choose


def compute_old_scores(since: Ints, *, chance: RandomStream) -> Floats:
    """Return the scores people used before: days x 10 + 15, plus or minus 10."""
    noise = OLD_NOISE * (2 * chance.draw(len(since)) - 1)
    scores: Floats = OLD_PER_DAY * since + OLD_BASE + noise
    return scores


def _pick_by_old_formula(
    last_done: Ints, *, day: date, budget: int, rule: PlanRule, seed: int
) -> tuple[Ints, Floats]:
    since = day.toordinal() - last_done
    scores = compute_old_scores(since, chance=RandomStream(seed, Purpose.PICKS, day.toordinal()))
    rested = np.flatnonzero(since >= rule.min_rest.days)
    best = rested[np.argsort(-scores[rested], kind="stable")][:budget]
    return best, scores[best]


def _build_old_policy(*, rule: PlanRule, seed: int) -> ChooseProfiles:
    def choose(last_done: Ints, day: date, budget: int) -> Ints:
        return _pick_by_old_formula(last_done, day=day, budget=budget, rule=rule, seed=seed)[0]

    return choose


def _build_weekly_policy(*, rule: PlanRule, seed: int, tally: PickTally) -> ChooseProfiles:
    projected: list[Ints] = []

    def choose(last_done: Ints, day: date, budget: int) -> Ints:
        if day.isoweekday() == 1:
            projected[:] = [last_done.copy()]
        picks = pick_profiles(projected[0], day=day, budget=budget, rule=rule, seed=seed)
        projected[0][picks.indexes] = day.toordinal()
        tally.add_reasons(picks)
        return picks.indexes

    return choose


def _run_policy(
    name: str,
    policy: BuildPolicy,
    profiles: int,
    weeks: int,
    runs: int,
    odds: OutcomeOdds,
    rule: PlanRule,
    seed: int,
) -> CoverageResult:
    gaps = np.zeros(MAX_GAP_DAYS + 1, np.int64)
    outcomes = dict.fromkeys(TouchOutcome, 0)
    late_runs = late_profiles = forced = pressing = 0
    sizes: list[int] = []
    frequencies: list[Floats] = []
    has_reasons = False
    for run in range(seed, seed + runs):
        tally = PickTally(profiles)
        seen = simulate_weeks(
            build_steady_state(profiles, odds=odds, rule=rule, seed=run),
            monday=FIRST_MONDAY,
            weeks=weeks,
            rule=rule,
            seed=run,
            zone="UTC",
            odds=odds,
            choose=tally.count(policy(run, tally)),
        )
        sizes += tally.day_sizes
        frequencies.append(tally.picks / weeks)
        forced, pressing = forced + tally.forced, pressing + tally.pressing
        has_reasons = tally.has_reasons
        gaps += seen.gaps
        late_runs += bool(len(seen.overdue))
        late_profiles += len(seen.overdue)
        for outcome, number in seen.outcomes.items():
            outcomes[outcome] += number
    there = np.flatnonzero(gaps)
    longest = int(there[-1]) if len(there) else 0
    picks = max(sum(sizes), 1)
    working = np.array([size for size in sizes if size] or [0])
    frequency = np.concatenate(frequencies)
    return CoverageResult(
        policy=name,
        gaps=tuple(gaps[: longest + 1].tolist()),
        within=_compute_share(gaps, rule.window.days),
        within_days={days: _compute_share(gaps, days) for days in SHARE_DAYS},
        forced=forced / picks if has_reasons else None,
        pressing=pressing / picks if has_reasons else None,
        day_sizes=tuple(np.bincount(sizes).tolist()),
        day_mean=float(working.mean()),
        day_deviation=float(working.std()),
        frequency_mean=float(frequency.mean()),
        frequency_deviation=float(frequency.std()),
        frequency_least=float(frequency.min()),
        frequency_most=float(frequency.max()),
        runs_too_long=late_runs / runs,
        profiles_too_long=late_profiles / (runs * profiles),
        longest_days=longest,
        outcomes=outcomes,
    )


def _compute_share(gaps: Ints, days: int) -> float:
    return float(gaps[: days + 1].sum() / max(gaps.sum(), 1))


BUCKETS = ((2, 4), (5, 7), (8, 10), (11, 12), (13, 14), (15, 10_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitBucket:
    """Those who waited from so many to so many days."""

    min_days: int
    max_days: int
    seen: int = 0  # profiles times days
    picked: int = 0
    scores: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def frequency(self) -> float:
        """Return how often one of them was picked."""
        return self.picked / self.seen if self.seen else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaResult:
    """What one formula did."""

    name: str
    buckets: tuple[WaitBucket, ...]
    forced_picks: float  # share of picks that were forced
    forced_days: float  # share of days with at least one
    within: float  # share of gaps no longer than the window


def compare_formulas(
    *, profiles: int, weeks: int, odds: OutcomeOdds, rule: PlanRule, seed: int = 0
) -> tuple[FormulaResult, FormulaResult]:
    """Return what the formula of today did, and the one before it."""
    return (
        _run_formula("new", profiles, weeks, odds, rule, seed),
        _run_formula("old", profiles, weeks, odds, rule, seed),
    )


def _run_formula(
    name: str, profiles: int, weeks: int, odds: OutcomeOdds, rule: PlanRule, seed: int
) -> FormulaResult:
    state = build_steady_state(profiles, odds=odds, rule=rule, seed=seed)
    luck = RandomStream(seed, Purpose.OUTCOMES, 1)
    seen: list[Ints] = []
    waits: list[Ints] = []
    scores: list[Floats] = []
    forced = picks = forced_days = 0
    budget_of: dict[int, int] = {}
    days = [FIRST_MONDAY + timedelta(days=nth) for nth in range(7 * weeks)]
    for day in days:
        number = day.toordinal()
        if day.isoweekday() == 1:
            drawn, _ = compute_week_budgets(day, rule=rule, seed=seed, zone="UTC")
            budget_of = {number + nth: budget for nth, budget in enumerate(drawn.days)}
        since = number - state
        seen.append(since)
        if name == "new":
            found = pick_profiles(state, day=day, budget=budget_of[number], rule=rule, seed=seed)
            places, points = found.indexes, found.scores
            forced += int(found.forced.sum())
            forced_days += bool(found.forced.any())
        else:
            places, points = _pick_by_old_formula(
                state, day=day, budget=budget_of[number], rule=rule, seed=seed
            )
        picks += len(places)
        waits.append(since[places])
        scores.append(points)
        state[places[luck.draw(len(places)) < odds.done]] = number
    return FormulaResult(
        name=name,
        buckets=_to_buckets(np.concatenate(seen), np.concatenate(waits), np.concatenate(scores)),
        forced_picks=forced / max(picks, 1),
        forced_days=forced_days / len(days),
        within=_compute_within(waits, rule=rule),
    )


def _compute_within(waits: list[Ints], *, rule: PlanRule) -> float:
    every = np.concatenate(waits)
    return float((every <= rule.window.days).mean()) if len(every) else 1.0


def _to_buckets(seen: Ints, picked: Ints, scores: Floats) -> tuple[WaitBucket, ...]:
    return tuple(
        WaitBucket(
            min_days=least,
            max_days=most,
            seen=int(((seen >= least) & (seen <= most)).sum()),
            picked=int(((picked >= least) & (picked <= most)).sum()),
            scores=scores[(picked >= least) & (picked <= most)],
        )
        for least, most in BUCKETS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingResult:
    """What was seen in so many days."""

    days: int
    hours: tuple[int, ...]  # those of the wall that are open
    drawn: tuple[int, ...]  # moments in each, as the process gave them
    planned: tuple[int, ...]  # after jitter and gap
    expected: tuple[float, ...]  # by the table of rates
    chi_square: float
    p: float
    shortest_seconds: float | None  # between two touches of a day
    median_seconds: float | None
    longest_seconds: float | None
    gap_violations: int
    outside_hours: int


def simulate_timing(
    *, days: int, per_day: int, rule: PlanRule, seed: int = 0, zone: str = "UTC"
) -> TimingResult:
    """Return how so many touches a day lie, over so many days. Raises ConfigError."""
    if days < 1 or per_day < 1:
        raise ConfigError("a simulation of times needs at least a day and a touch a day")
    drawn, planned, apart, outside = [], [], [], 0
    weights: dict[int, float] = {}
    for nth in range(days):
        day = FIRST_MONDAY + timedelta(days=nth)
        stretches = list_open_spans(day, rule=rule, zone=zone)
        if not stretches:
            continue
        raw = draw_thinned(per_day, stretches, chance=RandomStream(seed, Purpose.TIMES, nth, 1))
        times = draw_day_times(
            per_day, stretches, rule=rule, chance=RandomStream(seed, Purpose.TIMES, nth)
        )
        hours = _list_local_hours(stretches, zone)
        for hour, stretch in zip(hours, stretches, strict=True):
            weights[hour] = weights.get(hour, 0.0) + stretch.rate * (stretch.end - stretch.start)
        drawn.append(_to_local_hours(raw, stretches, hours))
        planned.append(_to_local_hours(times, stretches, hours))
        outside += int((planned[-1] < 0).sum())
        apart.append(np.diff(times))
    seen, moved = _concatenate(drawn), _concatenate(planned)
    known = sorted(weights)
    whole = sum(weights.values())
    expected = tuple(len(seen) * weights[hour] / whole for hour in known)
    counts = tuple(int((seen == hour).sum()) for hour in known)
    statistic = compute_chi_square(counts, expected)
    gaps = _concatenate(apart)
    return TimingResult(
        days=days,
        hours=tuple(known),
        drawn=counts,
        planned=tuple(int((moved == hour).sum()) for hour in known),
        expected=expected,
        chi_square=statistic,
        p=compute_chi_square_p(statistic, freedom=len(known) - 1),
        shortest_seconds=_to_seconds(gaps.min()) if len(gaps) else None,
        median_seconds=_to_seconds(np.median(gaps)) if len(gaps) else None,
        longest_seconds=_to_seconds(gaps.max()) if len(gaps) else None,
        gap_violations=int((gaps < get_gap(rule)).sum()),
        outside_hours=outside,
    )


def compute_chi_square(seen: Sequence[int], expected: Sequence[float]) -> float:
    """Return Pearson's statistic of counts against what was expected."""
    return sum(
        (count - wanted) ** 2 / wanted
        for count, wanted in zip(seen, expected, strict=True)
        if wanted > 0
    )


def compute_chi_square_p(statistic: float, *, freedom: int) -> float:
    """Return how likely a statistic at least as large is, if only chance is at work."""
    if freedom < 1:
        return 1.0
    half = statistic / 2
    # From one or two degrees on, each further two add one term.
    at, tail = (1.0, math.exp(-half)) if freedom % 2 == 0 else (0.5, math.erfc(math.sqrt(half)))
    while at < freedom / 2:
        if half > 0:
            tail += math.exp(at * math.log(half) - half - math.lgamma(at + 1))
        at += 1
    return min(tail, 1.0)


def _list_local_hours(stretches: Sequence[TimeSpan], zone: str) -> list[int]:
    wall = ZoneInfo(zone)
    return [from_ticks(stretch.start).astimezone(wall).hour for stretch in stretches]


def _to_local_hours(at: Ints, stretches: Sequence[TimeSpan], hours: Sequence[int]) -> Ints:
    """Return each moment's hour on the wall, or -1 when it is in none of the stretches."""
    starts = np.array([stretch.start for stretch in stretches])
    ends = np.array([stretch.end for stretch in stretches])
    where = np.searchsorted(starts, at, side="right") - 1
    inside = (where >= 0) & (at < ends[where])
    return np.where(inside, np.array(hours)[where], -1)


def _concatenate(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _to_seconds(ticks: float | np.int64 | Floats) -> float:
    return float(ticks) / TICKS_PER_SECOND
