"""How fresh production keeps what is known, held against the bound, true values and tiers.

`chain` runs what production runs, from posture to lesson, over 11 scenarios and what traces are at
hand: 1,000 accounts for a year, three seeds, sweeps every 6 hours. The rest is the yardstick "true
values": the planner alone, told what accounts are worth: 10,000 made-up accounts for a year, its
second half measured, three seeds; and two public traces of real changes, where `../shared/data` has
them, five seeds. The promise of at most 60 days of waiting is left out there, as the demands
leave it out, except where a row says so.

    python -m bench.freshness chain | population | needed | depth | traces
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache, partial
from pathlib import Path

from stoker.heat.beliefs import Floats
from stoker.heat.settings import HeatSettings
from stoker.pulls.settings import Objective, PullRule
from stoker.simulation.chain import ChainRule
from stoker.simulation.policies import (
    TIERS_BUDGET,
    ChainPolicy,
    DayObservation,
    LookupCosts,
    LookupPolicy,
    PolicyResult,
    ProductPolicy,
    UrgencyPolicy,
    build_tiers,
    compute_bounds,
    compute_overdue,
    run_policy,
)
from stoker.simulation.scenarios import SCENARIOS, build_scenario
from stoker.simulation.world import FreshnessTally, SimWorld, build_population, read_trace

TRACES = Path(__file__).parents[2] / "shared" / "data"
ACCOUNTS, DAYS, SEEDS, TRACE_SEEDS = 10_000, 365, (0, 1, 2), (0, 1, 2, 3, 4)
TIMES = (0.1, 0.25, 0.5, 1.0)  # what the tiers would take: 0.029, 0.071, 0.143, 0.286
FRESHNESS = PullRule(objective=Objective.FRESHNESS, floor=None)
HARMONIC = PullRule(objective=Objective.HARMONIC, floor=None)
PROMISING = PullRule()  # as it is unless settings say otherwise
KNOWN = {
    "homebrew casks": (
        "homebrew_cask_version_bumps_2023_2026.csv.gz",
        "homebrew_cask_installs_365d_2020.csv.gz",
        1020,
    ),
    "terms pages": ("open_terms_archive_contrib_changes_2020_2026.csv.gz", None, 2190),
}

Row = tuple[str, str, str, str]


@cache
def made_up(seed: int) -> SimWorld:
    return build_population(ACCOUNTS, seed=seed)


@cache
def kept(seed: int, times: float, rule: PullRule | None, known: bool = False) -> PolicyResult:
    world = made_up(seed)
    policy = (
        build_tiers()
        if rule is None
        else ProductPolicy(name="", world=world, rule=rule, known=known)
    )
    return run_policy(policy, world, budget=times * TIERS_BUDGET, days=DAYS, seed=seed)


@cache
def bound(seed: int, times: float, objective: Objective) -> float:
    found = compute_bounds(made_up(seed), budget=times * TIERS_BUDGET)
    return found.freshness if objective is Objective.FRESHNESS else found.harmonic


def fresh(times: float, rule: PullRule, known: bool = False) -> float:
    """Return freshness as a share of the bound, the mean over seeds."""
    return mean(
        kept(seed, times, rule, known).tally.freshness / bound(seed, times, Objective.FRESHNESS)
        for seed in SEEDS
    )


def missed(times: float, rule: PullRule, known: bool = False) -> float:
    """Return harmonic cost over the bound, the mean over seeds."""
    return mean(
        kept(seed, times, rule, known).tally.harmonic / bound(seed, times, Objective.HARMONIC) - 1
        for seed in SEEDS
    )


def stale(ours: FreshnessTally, theirs: FreshnessTally) -> float:
    """Return by how much one is out of date less than the other: below 0 is less."""
    return (1 - ours.freshness) / (1 - theirs.freshness) - 1


def better(ours: FreshnessTally, theirs: FreshnessTally) -> bool:
    """Return whether one beats the other in freshness, in captured value and in delay."""
    return (
        ours.freshness > theirs.freshness
        and ours.capture > theirs.capture
        and ours.delay < theirs.delay
    )


def mean(numbers: Iterator[float]) -> float:
    each = list(numbers)
    return sum(each) / len(each)


def row(what: str, ours: list[float], asked: str, *, form: str = ".1%") -> Row:
    return (what, " / ".join(format(each, form) for each in ours), f"{asked} asked", "-")


def of_population() -> Iterator[Row]:
    at = "0.029 / 0.071 / 0.143 / 0.286 looks a day"
    yield row(
        f"freshness of the bound, rates known, {at}",
        [fresh(times, FRESHNESS, known=True) for times in TIMES],
        "99.5%",
    )
    yield row(
        "missed changes over the bound, rates known, the same looks",
        [missed(times, HARMONIC, known=True) for times in TIMES],
        "at most 1.5%",
    )
    yield row(
        "missed changes over the bound, no history, the same looks",
        [missed(times, HARMONIC) for times in TIMES],
        "at most 4%",
    )
    yield row(
        "the same, promising that nobody waits longer than 60 days",
        [missed(times, PROMISING) for times in TIMES],
        "nothing",
    )
    yield row(
        "freshness of the bound, no history, 0.071 / 0.143 / 0.286",
        [fresh(times, FRESHNESS) for times in TIMES[1:]],
        "98 / 99 / 99.3%",
    )
    yield row(
        "tiers' freshness of the bound, the same looks",
        [
            mean(
                kept(seed, times, None).tally.freshness / bound(seed, times, Objective.FRESHNESS)
                for seed in SEEDS
            )
            for times in TIMES[1:]
        ],
        "nothing",
    )
    yield row(
        "time out of date beside tiers, for freshness, the same looks",
        [
            mean(
                stale(kept(seed, times, FRESHNESS).tally, kept(seed, times, None).tally)
                for seed in SEEDS
            )
            for times in TIMES[1:]
        ],
        "-15%",
        form="+.1%",
    )
    pairs = [(seed, times) for seed in SEEDS for times in TIMES]
    wins = sum(better(kept(*each, HARMONIC).tally, kept(*each, None).tally) for each in pairs)
    yield (
        "beats tiers in freshness, captured value and delay, made-up accounts",
        f"{wins} of {len(pairs)}",
        "all asked",
        "-",
    )
    every = [
        kept(*each, rule)
        for each in pairs
        for rule in (HARMONIC, FRESHNESS, PROMISING)
        if rule is not FRESHNESS or each[1] > TIMES[0]
    ]
    yield (
        f"looks over a day's budget (n={len(every) * DAYS:,} days planned)",
        str(sum(each.over for each in every)),
        "0 asked",
        "-",
    )


def find_lookups_needed(
    make: Callable[[], LookupPolicy],
    world: SimWorld,
    *,
    freshness: float,
    budget: float,
    days: int,
    seed: int = 0,
    turns: int = 5,
) -> float:
    """Return which share of a budget a policy needs to reach a freshness, rather too much.

    At least half of it; 1 if all of it is not enough.
    """

    def compute_freshness(share: float) -> float:
        return run_policy(
            make(), world, budget=share * budget, days=days, seed=seed
        ).tally.freshness

    low, high = 0.5, 1.0
    below, above = compute_freshness(low), compute_freshness(high)
    if above < freshness:
        return 1.0
    for _ in range(turns - 2):
        share = _interpolate(low, high, below, above, freshness)
        at = compute_freshness(share)
        if at < freshness:
            low, below = share, at
        else:
            high, above = share, at
    return _interpolate(low, high, below, above, freshness)


def _interpolate(low: float, high: float, below: float, above: float, wanted: float) -> float:
    # Each further lookup brings a little less, so on a straight line it takes rather more of them.
    return low + (high - low) * min(max((wanted - below) / max(above - below, 1e-12), 0.0), 1.0)


def of_needed() -> Iterator[Row]:
    shares = []
    for times in TIMES[1:]:
        world = made_up(0)
        shares.append(
            find_lookups_needed(
                partial(ProductPolicy, name="", world=world, rule=FRESHNESS),
                world,
                freshness=kept(0, times, None).tally.freshness,
                budget=times * TIERS_BUDGET,
                days=DAYS,
            )
        )
    yield row("looks needed for the tiers' freshness, of theirs", shares, "at most 75%")


def of_depth() -> Iterator[Row]:
    world, costs = build_population(ACCOUNTS, seed=0, deep=True), LookupCosts(shallow=1, deep=5)
    most = compute_bounds(world, budget=0.3, costs=costs).freshness
    ours = [
        run_policy(policy, world, budget=0.3, days=DAYS, costs=costs)
        for policy in (
            ProductPolicy(name="", world=world, rule=FRESHNESS, known=True, costs=costs),
            ProductPolicy(name="", world=world, rule=FRESHNESS, costs=costs),
            UrgencyPolicy(
                name="", urgency=compute_overdue, deep=lambda sight: sight.rank == 2, costs=costs
            ),
        )
    ]
    shares = [each.tally.freshness / most for each in ours]
    yield row(
        "freshness of the bound with deep looks at 5, 0.3 units a day, known / no history",
        shares[:2],
        "99 / 98%",
    )
    yield row("tiers with HOT ones deep, the same units", shares[2:], "nothing")


def of_traces() -> Iterator[Row]:
    for name, (trace, importance, days) in KNOWN.items():
        if not (TRACES / trace).exists():
            print(f"{name}: the trace is not at hand, left out", file=sys.stderr)
            continue
        for budget in (0.03, 0.1):
            ours, theirs = [], []
            for seed in TRACE_SEEDS:
                world = read_trace(
                    TRACES / trace,
                    days=days,
                    importance=importance and TRACES / importance,
                    seed=seed,
                )
                policy = ProductPolicy(name="", world=world, rule=HARMONIC)
                for into, each in ((ours, policy), (theirs, build_tiers())):
                    into.append(run_policy(each, world, budget=budget, days=days, seed=seed).tally)
            beside = [stale(a, b) for a, b in zip(ours, theirs, strict=True)]
            wins = sum(better(a, b) for a, b in zip(ours, theirs, strict=True))
            yield (
                f"{name}, {budget} looks a day: time out of date beside tiers "
                f"({mean(each.freshness for each in theirs):.3f} to "
                f"{mean(each.freshness for each in ours):.3f} fresh; "
                f"better in freshness, value and delay {wins} of {len(ours)})",
                f"{mean(iter(beside)):+.1%} ({min(beside):+.0%} to {max(beside):+.0%})",
                "-25% asked",
                "-",
            )


BUDGETS = (0.03, 0.1, 0.286)
TUNED = ("steady", "self-exciting", "homebrew casks")  # what settings were chosen on
CHAIN_ACCOUNTS = 1000
SWEPT = ChainRule(heat=HeatSettings(sweep_every=timedelta(hours=6)))


def list_worlds(seed: int) -> Iterator[tuple[str, SimWorld, int]]:
    """Yield every scenario and every trace at hand, with its days."""
    for name in SCENARIOS:
        yield name, build_scenario(name, CHAIN_ACCOUNTS, days=DAYS, seed=seed), DAYS
    for name, (trace, importance, days) in KNOWN.items():
        if not (TRACES / trace).exists():
            print(f"{name}: the trace is not at hand, left out", file=sys.stderr)
            continue
        days = min(days, 1460)
        yield (
            name,
            read_trace(
                TRACES / trace, days=days, importance=importance and TRACES / importance, seed=seed
            ),
            days,
        )


def of_chain() -> Iterator[Row]:
    """Yield what production reaches on each world, and over those that nothing was chosen on."""
    beside: dict[tuple[str, float, str], list[float]] = {}
    wins = Counter[str]()
    runs = over = 0
    for seed in SEEDS:
        for name, world, days in list_worlds(seed):
            for budget in BUDGETS:
                tiers, *ours = (
                    run_policy(policy, world, budget=budget, days=days, seed=seed)
                    for policy in (
                        build_tiers(),
                        ChainPolicy(name="production", world=world, rule=SWEPT),
                        ChainPolicy(name="yields told", world=world, rule=SWEPT, told_yields=True),
                        ProductPolicy(name="true values", world=world),
                        UrgencyPolicy(name="by value", urgency=partial(_age_by_value, world)),
                    )
                )
                runs += 1
                for each in ours:
                    key = (name, budget, each.policy)
                    beside.setdefault(key, []).append(stale(each.tally, tiers.tally))
                    wins[each.policy] += better(each.tally, tiers.tally)
                    over += each.over
    worlds = list(dict.fromkeys(name for name, _, _ in beside))
    for policy in ("production", "yields told", "true values", "by value"):
        means = {
            name: [mean(iter(beside[name, budget, policy])) for budget in BUDGETS]
            for name in worlds
        }
        held = [name for name in worlds if name not in TUNED]
        columns = list(zip(*(means[name] for name in held), strict=True))
        asked = {"production": "-6 / -14 / -12%", "yields told": "-12 / -21 / -17%"}
        yield row(
            f"{policy}: time out of date beside tiers, {len(held)} held-out worlds, "
            f"0.03 / 0.1 / 0.286 looks a day (better in freshness, value and delay "
            f"{wins[policy]} of {runs})",
            [sum(each) / len(each) for each in columns],
            asked.get(policy, "nothing"),
            form="+.1%",
        )
        yield row(
            f"{policy}: the worst of these worlds",
            [max(each) for each in columns],
            "+2 / -5 / -5%" if policy == "production" else "nothing",
            form="+.1%",
        )
    yield (f"units over a day's budget ({4 * runs} runs)", str(over), "0 asked", "-")


def _age_by_value(world: SimWorld, sight: DayObservation) -> Floats:
    return sight.age * world.surface.value


PARTS = {
    "chain": of_chain,
    "population": of_population,
    "needed": of_needed,
    "depth": of_depth,
    "traces": of_traces,
}


def main() -> list[Row]:
    return [each for part in PARTS.values() for each in part()]


if __name__ == "__main__":
    for asked_part in sys.argv[1:] or PARTS:
        for each_row in PARTS[asked_part]():
            print(*each_row, sep="  ", flush=True)
