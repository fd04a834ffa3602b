"""Policies are rehearsed with the planner the product uses, and hold what is promised of it."""

import gzip
import json
from datetime import timedelta

import numpy as np
import pytest
from bench.freshness import find_lookups_needed
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.cli.main import main
from stoker.heat.beliefs import learn_change_rates
from stoker.heat.model import BY_RANK, LookupObservation
from stoker.heat.settings import ChangeRateRule, HeatRule
from stoker.pulls.settings import Objective, PullRule
from stoker.simulation.policies import (
    START,
    TIERS_BUDGET,
    ChosenLookups,
    DayObservation,
    HeatTracker,
    LookupCosts,
    LookupOutcomes,
    ProductPolicy,
    UrgencyPolicy,
    build_tiers,
    compare_policies,
    compute_bounds,
    compute_overdue,
    run_policy,
    to_tier_ranks,
)
from stoker.simulation.world import build_population, read_trace

HARMONIC, FRESHNESS = PullRule(), PullRule(objective=Objective.FRESHNESS)
FREE = {
    objective: PullRule(objective=objective, floor=None) for objective in Objective
}  # nobody is promised anything


@pytest.fixture(scope="module")
def side_by_side():
    return compare_policies(build_population(1000, seed=1), budget=TIERS_BUDGET / 2, days=180)


def test_the_product_keeps_copies_fresher_than_tiers_by_every_yardstick(side_by_side):
    ours, tiers = side_by_side.policies[0].tally, side_by_side.tiers.tally
    assert side_by_side.policies[0].policy == "production"
    assert 1 - ours.freshness < 0.9 * (1 - tiers.freshness)
    assert ours.harmonic < 0.9 * tiers.harmonic
    assert ours.capture > tiers.capture
    assert ours.delay < tiers.delay


def test_no_policy_beats_the_bound_and_the_product_comes_close(side_by_side):
    most, least = side_by_side.bounds.freshness, side_by_side.bounds.harmonic
    for each in side_by_side.policies:
        # What is measured is an average over finite time, so a hair's breadth is chance.
        assert each.tally.freshness <= most * 1.002, each.policy
        assert each.tally.harmonic >= least * 0.998, each.policy
    found = {each.policy: each.tally for each in side_by_side.policies}
    assert found["true values, for freshness"].freshness >= 0.985 * most
    assert found["true values"].harmonic <= 1.04 * least
    assert found["true values and rates"].harmonic <= 1.015 * least
    assert found["production, yields told"].freshness > found["production"].freshness


def test_all_policies_spend_the_same_and_none_more_than_there_is(side_by_side):
    assert {each.over for each in side_by_side.policies} == {0}
    for each in side_by_side.policies:
        assert each.per_day == pytest.approx(TIERS_BUDGET / 2, rel=0.01), each.policy


def test_looking_as_often_as_things_change_is_caught(side_by_side):
    found = {each.policy: each.tally.freshness for each in side_by_side.policies}
    assert found["by change rate, known"] < found["tiers"] < found["production"]
    assert found["top by heat"] < found["uniform"] < found["tiers"]


def test_a_policy_that_cannot_learn_is_caught():
    class Forgetful(ProductPolicy):
        def record_changes(self, sight, chosen, seen):
            pass

    world, budget = build_population(800, seed=2), TIERS_BUDGET / 2
    learning = run_policy(
        ProductPolicy(name="", world=world, rule=HARMONIC), world, budget=budget, days=180
    )
    naive = run_policy(
        Forgetful(name="", world=world, rule=HARMONIC), world, budget=budget, days=180
    )
    least = compute_bounds(world, budget=budget).harmonic
    assert learning.tally.harmonic < 1.04 * least < naive.tally.harmonic


def test_the_rehearsal_learns_as_the_product_does():
    world, beliefs = build_population(6, seed=5, deep=True), ChangeRateRule()
    policy, luck = ProductPolicy(name="", world=world, beliefs=beliefs), np.random.default_rng(1)
    rank = np.array([0, 1, 2, 0, 1, 2])
    tiers = {str(n): BY_RANK[each] for n, each in enumerate(rank.tolist())}
    seen = np.zeros((2, 6), np.int64)
    known = learn_change_rates(
        [looked_at(n, 0, surface=True, deep=True) for n in range(6)],
        known={},
        tiers=tiers,
        rule=beliefs,
    )
    for day in range(1, 30):
        sight = DayObservation(
            day=day, age=day - seen[0], deep_age=day - seen[1], heat=np.zeros(6), rank=rank
        )
        accounts = np.flatnonzero(luck.random(6) < 0.4)
        deep, changed = luck.random((2, len(accounts))) < 0.5
        deep_changed = luck.random(deep.sum()) < 0.3
        policy.record_changes(
            sight,
            ChosenLookups(accounts=accounts, deep=deep),
            LookupOutcomes(
                changed=[changed, deep_changed],
                failed=np.zeros_like(changed),
                gone=np.zeros_like(changed),
                brought=np.full(len(changed), np.nan),
            ),
        )
        told = iter(deep_changed.tolist())
        looks = [
            looked_at(n, day, surface=bool(found), deep=next(told) if deeply else None)
            for n, found, deeply in zip(accounts.tolist(), changed, deep, strict=True)
        ]
        known |= learn_change_rates(looks, known=known, tiers=tiers, rule=beliefs)
        seen[0][accounts], seen[1][accounts[deep]] = day, day
    today = DayObservation(day=29, age=0.0 * rank, deep_age=0.0 * rank, heat=np.zeros(6), rank=rank)
    surface, deeper = policy.estimate_today(today)
    assert surface.changes.tolist() == [known[str(n)].surface.changes for n in range(6)]
    assert surface.days.tolist() == [known[str(n)].surface.days for n in range(6)]
    assert deeper.changes.tolist() == [known[str(n)].deep.changes for n in range(6)]


def looked_at(account, day, *, surface, deep):
    return LookupObservation(
        key=f"{account} {day}",
        account=str(account),
        at=START + timedelta(days=day),
        surface=surface,
        deep=deep,
    )


def test_the_tiers_freshness_is_had_for_three_quarters_of_their_looks():
    world, budget = build_population(600, seed=3), TIERS_BUDGET / 2
    tiers = run_policy(build_tiers(), world, budget=budget, days=120).tally.freshness

    def ours():
        return ProductPolicy(name="", world=world, rule=FREE[Objective.FRESHNESS])

    share = find_lookups_needed(ours, world, freshness=tiers, budget=budget, days=120, turns=4)
    assert 0.5 < share <= 0.75
    assert find_lookups_needed(ours, world, freshness=1.0, budget=budget, days=60, turns=2) == 1.0


def test_deep_looks_are_bought_where_they_are_worth_their_price():
    world, costs = build_population(600, seed=4, deep=True), LookupCosts(shallow=1, deep=5)
    most = compute_bounds(world, budget=0.3, costs=costs).freshness
    rule = FREE[Objective.FRESHNESS]

    def kept(policy):
        return run_policy(policy, world, budget=0.3, days=180, costs=costs)

    known = kept(ProductPolicy(name="", world=world, rule=rule, known=True, costs=costs))
    learned = kept(ProductPolicy(name="", world=world, rule=rule, costs=costs))
    always = kept(
        UrgencyPolicy(
            name="",
            urgency=compute_overdue,
            deep=lambda sight: sight.age > 0,
            costs=costs,
        )
    )
    assert known.tally.freshness >= 0.99 * most
    assert learned.tally.freshness >= 0.97 * most
    assert always.tally.freshness < 0.9 * most
    assert 0 < learned.deep_looks < learned.looks
    assert known.over == learned.over == always.over == 0


heats = st.lists(st.floats(0, 1), min_size=1, max_size=60).map(np.array)


@given(heats, st.integers(0, 200), st.booleans())
def test_the_most_urgent_never_cost_more_than_the_budget(heat, budget, deep):
    sight = DayObservation(
        day=0, age=1 + heat, deep_age=1 + heat, heat=heat, rank=to_tier_ranks(heat)
    )
    costs = LookupCosts(shallow=2, deep=7)
    policy = UrgencyPolicy(
        name="",
        urgency=lambda sight: sight.heat,
        deep=lambda sight: sight.heat > 0.5 * deep,
        costs=costs,
    )
    chosen = policy.choose_lookups(sight, budget=budget)
    spent = np.where(chosen.deep, costs.deep, costs.shallow).sum()
    assert spent <= budget
    assert len(set(chosen.accounts.tolist())) == len(chosen.accounts)
    left = np.delete(heat, chosen.accounts)
    assert not len(left) or not len(chosen.accounts) or heat[chosen.accounts].min() >= left.max()


def test_hot_accounts_are_few_and_tiers_cost_what_they_say():
    rank = to_tier_ranks(np.linspace(0, 1, 1000))
    assert np.bincount(rank).tolist() == [600, 300, 100]
    assert pytest.approx(2 / 7) == TIERS_BUDGET


def test_what_is_found_warms_an_account_and_cools_again():
    warmth = HeatTracker(np.array([0.5, 0.5]), rule=HeatRule())
    before = warmth.compute_heat_on(3)
    warmth.add_changes(np.array([1]), day=3)
    warm, week = warmth.compute_heat_on(3), warmth.compute_heat_on(10)
    assert before[0] == before[1] == warm[0]
    assert warm[1] > week[1] > before[1]
    warmth.add_changes(np.array([1]), day=3)
    assert warmth.compute_heat_on(3)[1] > warm[1]


@pytest.mark.parametrize(("budget", "days"), [(0.0, 10), (-1.0, 10), (0.1, 1), (float("nan"), 10)])
def test_a_rehearsal_of_nothing_is_refused(budget, days):
    with pytest.raises(ConfigError, match="a simulation takes"):
        run_policy(build_tiers(), build_population(5), budget=budget, days=days)


def test_the_same_seed_is_the_same_rehearsal():
    world = build_population(100, seed=1)
    one, same, other = (
        run_policy(ProductPolicy(name="", world=world), world, budget=0.1, days=60, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one == same != other


def write_trace(path, *, items, days):
    """Write changes that come in bursts, some items' often and most items' seldom."""
    luck = np.random.default_rng(7)
    rows = ["item,unix_time"]
    for item, every in enumerate(np.exp(luck.normal(4.0, 1.3, items))):
        began = np.cumsum(luck.exponential(2 * every, 1 + int(days / every)))
        burst = began[:, None] + luck.exponential(0.5, (len(began), 2))
        rows += [f"page {item},{int(at * 86_400)}" for at in burst.ravel() if at < days]
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    return path


def test_on_recorded_changes_the_product_beats_tiers(tmp_path):
    world = read_trace(write_trace(tmp_path / "t.csv.gz", items=600, days=500), days=400)
    ours, tiers = (
        run_policy(policy, world, budget=0.1, days=400).tally
        for policy in (ProductPolicy(name="", world=world), build_tiers())
    )
    assert 1 - ours.freshness < 0.85 * (1 - tiers.freshness)
    assert ours.capture > tiers.capture
    assert ours.delay < tiers.delay


def test_simulate_pulls_prints_a_table_and_json_and_draws(tmp_path, capsys):
    picture = tmp_path / "bars.png"
    command = ["simulate", "pulls", "--accounts", "60", "--days", "30"]
    assert main([*command, "--picture", str(picture)]) == 0
    told = capsys.readouterr().out
    assert "no policy can beat" in told
    assert "tiers, HOT first" in told
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accounts"] == 60
    assert {each["looks_over_budget"] for each in found["policies"]} == {0}
    assert found["policies"][0]["policy"] == "production"


def test_simulate_pulls_reads_a_trace(tmp_path, capsys):
    trace, names = tmp_path / "trace.csv", tmp_path / "names.csv"
    trace.write_text("item,unix_time\n" + "".join(f"i{n % 9},{n * 40_000}\n" for n in range(200)))
    names.write_text("item,uses\ni1,10\ni2,20\n")
    command = ["simulate", "pulls", "--trace", str(trace), "--importance", str(names)]
    assert main([*command, "--days", "40", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["accounts"], found["bound"]) == (9, None)
    assert main([*command, "--days", "40"]) == 0
    assert "no policy can beat" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--trace", "x.csv", "--accounts", "5"], "leave one out"),
        (["--importance", "x.csv"], "give --trace too"),
        (["--trace", "gone.csv"], "gone.csv cannot be read"),
    ],
)
def test_what_cannot_be_rehearsed_is_a_sentence(flags, told, capsys):
    assert main(["simulate", "pulls", *flags]) == 2
    assert told in capsys.readouterr().err
