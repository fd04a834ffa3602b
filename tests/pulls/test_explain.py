"""Reasons: a code and a sentence for every answer, and numbers that agree with it."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, TODAY, case
from stoker.base.reasons import Reason
from stoker.heat.beliefs import ChangeRates
from stoker.pulls.columns import CHOSEN, NEVER, Decision, PullLimits, validate_accounts
from stoker.pulls.explain import CHOSEN_BECAUSE, REASONS, explain
from stoker.pulls.planner import NOT, plan_pulls
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.worth import make_offers


def test_every_code_has_its_reason_or_says_why_it_was_chosen():
    assert set(REASONS) | set(CHOSEN_BECAUSE) == set(Decision) - {Decision.FREE}
    assert set(CHOSEN_BECAUSE) == set(CHOSEN)
    assert all(reason.value == why.name for why, reason in REASONS.items())


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from(Policy), st.data())
def test_every_account_of_every_plan_can_be_explained_in_one_line_of_numbers(seed, policy, data):
    accounts, limits, rule = case(seed, policy=policy)
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    row = data.draw(st.integers(0, len(accounts) - 1))
    found = explain(row, accounts, limits, now=NOW, rule=rule, plan=plan, name="Acme")
    assert found.why == plan.why[row]
    assert (found.why in CHOSEN) == (plan.depth[row] != NOT)
    assert found.message.startswith("Acme: ")
    assert "\n" not in found.message
    assert 0.0 <= found.stale_chance <= 1.0
    assert found.missed_changes >= 0.0
    json.dumps(found.as_json(), allow_nan=False)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_worth_over_price_says_the_same_as_being_late_and_half_the_money_never_means_sooner(seed):
    accounts, limits, rule = case(seed, floor=None)
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    for row in range(0, len(accounts), 9):
        found = explain(row, accounts, limits, now=NOW, rule=rule, plan=plan)
        if found.price > 0 and accounts.value[row] > 0:
            assert (found.worth_over_price >= 1) == (found.late >= 0)
        if plan.why[row] == Decision.WORTH:
            assert found.worth_over_price >= 1 - 1e-6
        assert found.due_every_at_more <= found.due_every <= found.due_every_at_half


def test_an_account_is_due_when_what_it_offers_reaches_the_price():
    accounts = validate_accounts(
        ChangeRates(changes=np.ones(3), days=np.array([3.0, 10.0, 10.0])),
        value=[1.0, 1.0, 0.8],
        looked=TODAY - np.array([6.0, 6.0, 6.0]),
        deep_value=0.0,
    )
    rule = PullRule()
    plan = plan_pulls(accounts, PullLimits(budget=1), now=NOW, rule=rule)
    first = explain(0, accounts, PullLimits(budget=1), now=NOW, rule=rule, plan=plan, name="Acme")
    assert first.stale_chance == pytest.approx(1 - 1 / 3)
    assert first.missed_changes == pytest.approx(2.0)
    assert first.days_between_changes == pytest.approx(3.0)
    assert first.worth_over_price > 1
    assert first.message.startswith(
        "Acme: researched 6.0 days ago, changes about every 3.0 days, 67% likely stale. "
        "Selected, shallow: worth its cost. Its value is "
    )
    other = explain(2, accounts, PullLimits(budget=1), now=NOW, rule=rule, plan=plan)
    assert other.late < 0
    assert f"Not selected: {Reason.LOWER_VALUE.message}" in other.message
    later = replace(accounts, looked=accounts.looked + np.array([0.0, 0.0, other.late]))
    offers = make_offers(later, now=TODAY, rule=rule)
    assert offers.look[2] == pytest.approx(plan.price, rel=1e-5)


def test_somebody_never_looked_at_and_room_for_everybody_are_said_plainly():
    accounts = validate_accounts(ChangeRates(changes=np.ones(1), days=np.ones(1)), looked=NEVER)
    plan = plan_pulls(accounts, PullLimits(budget=9), now=NOW, rule=PullRule())
    found = explain(0, accounts, PullLimits(budget=9), now=NOW, rule=PullRule(), plan=plan)
    assert found.message == (
        "This account: never researched. Selected, shallow: worth its cost. "
        "There was budget for all accounts."
    )
    assert math.isinf(found.age)
    assert found.as_json()["age_days"] is None


def test_under_the_table_the_tier_explains():
    accounts = validate_accounts(
        ChangeRates(changes=np.ones(1), days=np.ones(1)),
        looked=TODAY - 3.0,
        deep_looked=TODAY - 3.0,
        tier=1,
        heat=0.5,
    )
    rule = PullRule(policy=Policy.TIERS)
    plan = plan_pulls(accounts, PullLimits(budget=9), now=NOW, rule=rule)
    found = explain(0, accounts, PullLimits(budget=9), now=NOW, rule=rule, plan=plan)
    assert "Selected, shallow: due by its tier. WARM, heat 0.50: due every 3.0 days." in (
        found.message
    )
