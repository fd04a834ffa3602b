"""The day's plan: no cap exceeded, the best first, a reason for everybody, a gap that holds."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, TODAY, case, slowly
from stoker.base.errors import ConfigError
from stoker.heat.beliefs import ChangeRates
from stoker.heat.settings import TierRule
from stoker.pulls.columns import (
    CHOSEN,
    NEVER,
    NO_CAP,
    Decision,
    PullLimits,
    validate_accounts,
)
from stoker.pulls.constraints import compute_period_units
from stoker.pulls.planner import (
    DEEP,
    NOT,
    SHALLOW,
    OfferQueue,
    build_sort_keys,
    fill_cap,
    find_smallest_cap,
    get_ids,
    plan_pulls,
)
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.worth import make_offers

seeds = st.integers(0, 2**32 - 1)
policies = st.sampled_from(Policy)


def units_of(accounts, plan):
    return np.select(
        [plan.depth == SHALLOW, plan.depth == DEEP], [accounts.units, accounts.deep_units], 0
    )


def alike(size, **columns):
    return validate_accounts(
        ChangeRates(changes=np.ones(size), days=np.full(size, 10.0)),
        **{"looked": TODAY - 5.0, **columns},
    )


@settings(max_examples=120)
@given(seeds, policies, st.booleans())
def test_no_cap_is_exceeded_and_the_plan_is_the_slow_planners(seed, policy, deep_caps):
    accounts, limits, rule = case(seed, policy=policy, deep_caps=deep_caps)
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    assert plan.depth.tolist() == slowly(accounts, limits, rule).tolist()
    spent = units_of(accounts, plan)
    assert plan.spent == spent.sum() <= min(max(limits.budget, 0), limits.connector_cap)
    assert limits.deep_cap is None or (plan.depth == DEEP).sum() <= limits.deep_cap
    assert (np.isin(plan.why, CHOSEN) == (plan.depth > NOT)).all()
    assert (plan.why != Decision.FREE).all()
    assert sorted(plan.chosen.tolist()) == np.flatnonzero(plan.depth).tolist()


@settings(max_examples=40)
@given(seeds)
def test_nobody_left_out_by_value_offers_more_than_somebody_chosen_for_it(seed):
    accounts, limits, rule = case(seed)
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    inside = plan.score[np.isin(plan.why, (Decision.WORTH, Decision.SIGNAL))]
    outside = plan.score[plan.why == Decision.LOWER_VALUE]
    if len(inside) and len(outside):
        assert outside.max() <= plan.price <= inside.min()


@settings(max_examples=40)
@given(seeds, policies)
def test_the_floor_takes_at_most_its_share_and_says_whom_it_cannot_keep(seed, policy):
    accounts, limits, rule = case(seed, policy=policy, tight=0.5)
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    floor = accounts.units[plan.why == Decision.FLOOR].sum()
    assert floor <= max(limits.budget, 0) * 0.2
    waited = make_offers(accounts, now=TODAY, rule=rule).waited > 0
    assert plan.floor_missed.tolist() == np.flatnonzero(waited & (plan.depth == NOT)).tolist()
    assert plan.overdue == waited.sum()


def test_the_longest_waiting_come_first_within_the_floors_share_and_no_further():
    ages = np.array([1.0] * 50 + [61.0, 70.0, 65.0])
    values = np.array([100.0] * 50 + [1e-6] * 3)
    accounts = alike(53, looked=TODAY - ages, value=values, deep_value=0)
    plan = plan_pulls(accounts, PullLimits(budget=10), now=NOW, rule=PullRule())
    assert np.flatnonzero(plan.why == Decision.FLOOR).tolist() == [51, 52]
    assert plan.floor_missed.tolist() == [50]
    assert plan.floor_needs == pytest.approx(53 / 60)
    none = plan_pulls(accounts, PullLimits(budget=10), now=NOW, rule=PullRule(floor=None))
    assert not (none.why == Decision.FLOOR).any()
    assert len(none.floor_missed) == 0


def test_whoever_would_have_waited_too_long_by_the_next_plan_is_overdue_now():
    accounts = alike(3, looked=TODAY - np.array([58.9, 59.1, 60.1]))
    assert plan_pulls(accounts, PullLimits(budget=9), now=NOW, rule=PullRule()).overdue == 2
    hourly = PullRule(tick=timedelta(hours=1))
    assert plan_pulls(accounts, PullLimits(budget=9), now=NOW, rule=hourly).overdue == 1


def test_a_plan_of_many_accounts_is_proven_close_to_the_best():
    rng = np.random.default_rng(3)
    size = 5000
    accounts = validate_accounts(
        ChangeRates(changes=rng.gamma(1, 1, size) + 0.1, days=rng.gamma(2, 10, size) + 1),
        value=np.exp(rng.normal(0, 1.3, size)),
        deep_value=np.exp(rng.normal(0, 1.3, size)),
        looked=TODAY - rng.exponential(10, size) - 1,
        deep_looked=TODAY - rng.exponential(30, size) - 1,
    )
    limits = PullLimits(budget=700, connector_cap=750)
    plan = plan_pulls(accounts, limits, now=NOW, rule=PullRule(floor=None))
    assert plan.gap < 0.01
    assert plan.spent >= 698
    tiers = plan_pulls(accounts, limits, now=NOW, rule=PullRule(floor=None, policy=Policy.TIERS))
    assert tiers.gap > plan.gap


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize(
    "caps",
    [
        PullLimits(budget=0),
        PullLimits(budget=-1),
        PullLimits(budget=2),
        PullLimits(budget=50, connector_cap=2),
    ],
)
def test_looks_that_no_cap_can_ever_let_through_do_not_count_against_a_plan(caps, policy):
    accounts = alike(4, units=3, deep_units=5, deep_value=1.0, tier=2)
    plan = plan_pulls(accounts, caps, now=NOW, rule=PullRule(policy=policy))
    assert (len(plan.chosen), plan.value, plan.bound, plan.gap) == (0, 0.0, 0.0, 0.0)


def test_depth_that_never_fits_does_not_count_against_a_plan():
    accounts = alike(3, units=1, deep_units=100, deep_value=1.0)
    plan = plan_pulls(accounts, PullLimits(budget=10), now=NOW, rule=PullRule())
    assert plan.depth.tolist() == [SHALLOW] * 3
    assert plan.gap < 1e-5


def test_depth_is_an_upgrade_where_it_is_worth_less_and_one_offer_where_it_is_worth_more():
    accounts = alike(2, deep_looked=TODAY - 5.0, value=1.0, deep_value=[0.5, 50.0])
    offers = make_offers(accounts, now=TODAY, rule=PullRule())
    assert offers.deeper[0] < offers.look[0]
    assert offers.deeper[1] == offers.look[1] > offers.look[0]
    depth = {
        budget: plan_pulls(
            accounts, PullLimits(budget=budget), now=NOW, rule=PullRule()
        ).depth.tolist()
        for budget in range(7)
    }
    assert depth == {
        0: [NOT, NOT],
        1: [NOT, SHALLOW],  # what cannot be paid for whole is paid for as far as it goes
        2: [SHALLOW, SHALLOW],  # three units are more than there are
        3: [NOT, DEEP],
        4: [SHALLOW, DEEP],
        5: [SHALLOW, DEEP],
        6: [DEEP, DEEP],
    }


@pytest.mark.parametrize(
    ("columns", "limits", "why"),
    [
        ({}, PullLimits(budget=9), Decision.WORTH),
        ({"looked": TODAY - 0.1}, PullLimits(budget=9), Decision.FRESH_ENOUGH),
        ({"value": 0.0}, PullLimits(budget=9), Decision.LOWER_VALUE),
        ({}, PullLimits(budget=0), Decision.CAP_TENANT_DAY),
        ({}, PullLimits(budget=-1), Decision.BUDGET_UNREADABLE),
        ({}, PullLimits(budget=9, connector_cap=0), Decision.CAP_CONNECTOR_DAY),
        ({"barred": int(Decision.PAUSED)}, PullLimits(budget=9), Decision.PAUSED),
        ({"barred": int(Decision.COOLING_DOWN)}, PullLimits(budget=-1), Decision.COOLING_DOWN),
        ({"looked": NEVER}, PullLimits(budget=9), Decision.WORTH),
    ],
)
def test_the_reason_is_the_first_thing_that_refuses(columns, limits, why):
    plan = plan_pulls(alike(1, **columns), limits, now=NOW, rule=PullRule())
    assert Decision(plan.why[0]) is why


def test_who_is_worth_the_price_but_not_chosen_is_told_which_cap_was_full():
    accounts = alike(4, value=[9, 8, 7, 6], units=[1, 1, 3, 1])
    plan = plan_pulls(accounts, PullLimits(budget=3, connector_cap=2), now=NOW, rule=PullRule())
    assert [Decision(each) for each in plan.why] == [
        Decision.WORTH,
        Decision.WORTH,
        Decision.CAP_CONNECTOR_DAY,
        Decision.CAP_CONNECTOR_DAY,
    ]
    plan = plan_pulls(accounts, PullLimits(budget=2, connector_cap=3), now=NOW, rule=PullRule())
    assert [Decision(each) for each in plan.why] == [
        Decision.WORTH,
        Decision.WORTH,
        Decision.CAP_TENANT_DAY,
        Decision.LOWER_VALUE,
    ]


def test_signals_make_an_account_older_than_it_is_and_it_is_told_so():
    accounts = alike(3, value=[1.0, 1.1, 1.2], signals=[2.0, 0.0, 0.0])
    plan = plan_pulls(accounts, PullLimits(budget=1), now=NOW, rule=PullRule())
    assert [Decision(each) for each in plan.why] == [
        Decision.SIGNAL,
        Decision.LOWER_VALUE,
        Decision.LOWER_VALUE,
    ]
    deaf = plan_pulls(accounts, PullLimits(budget=1), now=NOW, rule=PullRule(signal_changes=0.0))
    assert Decision(deaf.why[2]) is Decision.WORTH


def test_the_tiers_policy_goes_by_age_over_the_tables_interval():
    accounts = alike(
        6,
        tier=[2, 2, 1, 1, 0, 0],
        heat=[0.9, 0.8, 0.5, 0.6, 0.1, 0.2],
        quiet=30.0,
        looked=TODAY - np.array([1.0, 1.0, 1.0, 1.0, 3.0, 7.0]),
        deep_looked=TODAY - np.array([1.0, 0.0, 9.0, 9.0, 9.0, 9.0]),
    )
    table = TierRule(
        hot_every=timedelta(hours=1),
        warm_every=timedelta(hours=6),
        cold_every=timedelta(days=3),
    )
    hourly = PullRule(policy=Policy.TIERS, tick=timedelta(hours=1), tiers=table)
    plan = plan_pulls(accounts, PullLimits(budget=99), now=NOW, rule=hourly)
    assert plan.depth.tolist() == [DEEP, DEEP, SHALLOW, SHALLOW, SHALLOW, SHALLOW]
    assert plan.chosen.tolist() == [0, 1, 2, 3, 5, 4]  # by age over interval
    told = replace(accounts, signals=np.array([0, 1, 0, 0, 0, 0], np.float32))
    plan = plan_pulls(told, PullLimits(budget=99), now=NOW, rule=hourly)
    assert plan.depth[1] == SHALLOW
    short = plan_pulls(accounts, PullLimits(budget=4), now=NOW, rule=hourly)
    assert short.depth.tolist() == [DEEP, SHALLOW, NOT, NOT, NOT, NOT]
    earlier = replace(hourly, by_age=False)  # as plans of before that are replayed
    due = plan_pulls(accounts, PullLimits(budget=99), now=NOW, rule=earlier)
    assert due.depth.tolist() == [DEEP, NOT, SHALLOW, SHALLOW, NOT, SHALLOW]
    assert due.chosen.tolist() == [0, 3, 2, 5]


@pytest.mark.parametrize("policy", Policy)
def test_an_account_whose_site_is_not_known_gets_a_deep_lookup_for_its_units(policy):
    accounts = alike(2, units=3, deep_units=3, looked=NEVER, known=TODAY - 1, deep_value=1)
    plan = plan_pulls(accounts, PullLimits(budget=4), now=NOW, rule=PullRule(policy=policy))
    assert (plan.depth.tolist(), plan.spent) == ([DEEP, NOT], 3)


def test_the_floor_carries_over_what_is_too_little_for_one_plan():
    rule = PullRule(value_spread=3.0)
    owed, waits = 0, []
    looked = TODAY - np.array([70.0, 1.0, 1.0, 1.0, 1.0])
    for _ in range(6):
        accounts = alike(5, looked=looked, value=[0.001, 1.0, 1.0, 1.0, 1.0])
        plan = plan_pulls(accounts, PullLimits(budget=4, owed=owed), now=NOW, rule=rule)
        assert plan.spent == 4
        owed = plan.owed
        waits.append(bool(plan.depth[0]))
    assert waits == [False, True, False, True, False, True]  # 0.8 of a unit a plan, then 1


extremes = st.sampled_from([0.0, 5e-324, 2.2e-308, 1e-40, 1.0, 1e30])


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(extremes | st.floats(0, 1e30), extremes | st.floats(0, 1e30), st.floats(-1e6, 0)),
        min_size=0,
        max_size=12,
    ),
    st.integers(0, 20),
)
def test_whatever_the_values_and_ages_a_plan_is_made_and_keeps_its_budget(rows, budget):
    columns = np.array(rows, np.float64).reshape(-1, 3)
    accounts = alike(
        len(rows),
        value=columns[:, 0],
        deep_value=columns[:, 1],
        looked=TODAY + columns[:, 2],
        deep_looked=NEVER,
    )
    for policy in Policy:
        plan = plan_pulls(
            accounts, PullLimits(budget=budget), now=NOW, rule=PullRule(policy=policy)
        )
        assert plan.spent <= budget
        assert 0.0 <= plan.gap <= 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": float("nan")},
        {"value": -1.0},
        {"looked": np.array([0.0, 1.0])},
        {"units": 0},
        {"units": 4},
        {"barred": 1},
        {"heat": 1.5},
        {"colour": 1},
    ],
)
def test_columns_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        alike(3, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget": -2},
        {"budget": 0.5},
        {"budget": 1, "connector_cap": -1},
        {"budget": 1, "deep_cap": -1},
        {"budget": 1, "deep_cap": 0.5},
        {"budget": 1, "deep_cap": 1, "deep_why": Decision.WORTH},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        PullLimits(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"floor": timedelta(hours=1)},
        {"deep_again": timedelta(hours=1)},
    ],
)
def test_rules_that_contradict_themselves_are_refused(wrong):
    with pytest.raises(ConfigError, match="every"):
        PullRule(**wrong)


def test_a_day_of_hourly_plans_spends_the_days_units_evenly():
    rule, left, spent = PullRule(tick=timedelta(hours=1)), 300, []
    for hour in range(24):
        now = NOW + timedelta(hours=hour)
        spent.append(
            compute_period_units(left, now=now, until=NOW + timedelta(hours=24), rule=rule)
        )
        left -= spent[-1]
    assert left == 0
    assert max(spent) - min(spent) <= 1


one = st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from([0, 0, 0, 61, 70, 90]))
queues = st.lists(one, min_size=1, max_size=14)
shares = st.sampled_from([0, 1, 200, 333, 500])


def queue_of(rows, share):
    cost = np.array([row[0] for row in rows], np.int64)
    return OfferQueue(
        cost=cost,
        size=cost + np.array([row[1] for row in rows]),
        waited=np.array([row[2] for row in rows], np.float32),
        share=share,
    )


def does_fit(queue, cap, place):
    return bool(fill_cap(queue, cap)[0][place])


@given(queues, shares, st.integers(0, 40))
def test_a_cap_is_never_exceeded_and_those_who_waited_take_no_more_than_their_share(
    rows, share, cap
):
    queue = queue_of(rows, share)
    inside, early = fill_cap(queue, cap)
    assert queue.cost[inside].sum() <= cap
    assert queue.cost[early].sum() <= cap * share // 1000
    assert (queue.size[inside] <= cap).all()
    assert (queue.waited[early] > 0).all()


@settings(max_examples=80)
@given(queues, shares, st.integers(0, 30), st.data())
def test_the_smallest_cap_lets_it_fit_and_no_smaller_one_does(rows, share, least, data):
    queue = queue_of(rows, share)
    place = data.draw(st.integers(0, len(rows) - 1))
    for first in (0, least):
        needed = find_smallest_cap(queue, place, least=first)
        assert first <= needed < NO_CAP
        assert does_fit(queue, needed, place)
        assert not any(does_fit(queue, cap, place) for cap in range(first, needed))


@given(st.lists(st.floats(0, width=32, exclude_min=True, allow_nan=False), max_size=60))
def test_keys_sort_the_highest_score_first_and_ties_by_id(scores):
    column = np.array(scores, np.float32)
    order = get_ids(np.sort(build_sort_keys(column, np.arange(len(scores)))))
    assert order.tolist() == sorted(range(len(scores)), key=lambda place: (-scores[place], place))
