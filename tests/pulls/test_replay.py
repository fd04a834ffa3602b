"""Plans made again: the same as they were, or changed by what was changed and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, TODAY, case
from stoker.base.errors import ConfigError
from stoker.enrichment.forecast import VendorNeed
from stoker.pulls.columns import NEVER, Decision, Policy
from stoker.pulls.constraints import Constraint, limit_deep_lookups
from stoker.pulls.plan_record import (
    PlanSnapshot,
    compute_columns_digest,
    decode_decisions,
    encode_decisions,
    to_decision_columns,
)
from stoker.pulls.planner import DEEP, NOT, SHALLOW, list_in_order
from stoker.pulls.replay import (
    WhatIf,
    apply_what_if,
    compute_fresh_share,
    compute_totals,
    find_gained_and_lost,
    iterate_differences,
    replay_plan,
)

seeds = st.integers(0, 2**32 - 1)


def inputs_of(seed, **given):
    accounts, limits, rule = case(seed, tenants=1, **given)
    ids = [f"A{row:05}" for row in range(len(accounts))]
    limits = replace(limits, domain_cap=np.zeros(0, np.int64))
    return PlanSnapshot(ids=ids, accounts=accounts, limits=limits, rule=rule)


@settings(max_examples=40)
@given(seeds)
def test_planning_again_differs_nowhere_from_what_was_kept(seed):
    inputs = inputs_of(seed)
    _, decided = replay_plan(inputs, now=NOW)
    before = decode_decisions(encode_decisions(decided))
    _, again = replay_plan(apply_what_if(inputs, WhatIf()), now=NOW)
    assert list(iterate_differences(before, again)) == []
    assert compute_columns_digest(to_decision_columns(before)) == compute_columns_digest(
        to_decision_columns(again)
    )


@settings(max_examples=40)
@given(seeds, st.integers(0, 60), st.integers(0, 60), st.sampled_from(Policy))
def test_other_caps_are_kept_and_who_is_in_or_out_adds_up(seed, units, crawl, policy):
    inputs = inputs_of(seed)
    before, decided = replay_plan(inputs, now=NOW)
    other = apply_what_if(inputs, WhatIf(units=units, connector_units=crawl, policy=policy))
    after, changed = replay_plan(other, now=NOW)
    assert int(after.spent[0]) <= units
    gained, lost = find_gained_and_lost(decided, changed)
    assert len(after.chosen) - len(before.chosen) == len(gained) - len(lost)
    assert not set(gained) & set(lost)
    assert other.accounts is inputs.accounts
    assert other.rule.policy is policy


@settings(max_examples=40)
@given(seeds)
def test_freshness_is_a_share_and_looks_never_lower_it(seed):
    inputs = inputs_of(seed)
    plan, _ = replay_plan(inputs, now=NOW)
    nobody = compute_fresh_share(inputs.accounts, np.full(len(inputs.accounts), NOT), now=TODAY)
    found = compute_totals(inputs, plan, now=NOW)
    everybody = compute_fresh_share(inputs.accounts, np.full(len(inputs.accounts), DEEP), now=TODAY)
    assert 0.0 <= nobody <= found.freshness + 1e-12
    assert found.freshness <= everybody + 1e-12 <= 1.0 + 1e-9
    assert found.looks == len(plan.chosen)


LUSHA = VendorNeed(connector="lusha", calls=0.5, cost={"calls": 1})
TAVILY = VendorNeed(connector="tavily", calls=1.0, cost={"calls": 1})


@settings(max_examples=40)
@given(seeds, st.integers(0, 5), st.integers(0, 12))
def test_a_vendors_calls_say_how_many_looks_may_be_deep_beside_what_else_does(seed, calls, past):
    inputs = inputs_of(seed)
    other = Constraint(why=Decision.RATE_LIMIT, connector="tavily", looks=past)
    inputs = replace(
        inputs, constraints=(other,), limits=limit_deep_lookups(inputs.limits, [other])
    )
    changed = apply_what_if(inputs, WhatIf(calls={"lusha": calls}), needs=[LUSHA, TAVILY])
    plan, _ = replay_plan(changed, now=NOW)
    assert changed.limits.deep_cap.tolist() == [min(2 * calls, past)]
    assert compute_totals(changed, plan, now=NOW).deep <= min(2 * calls, past)
    again = apply_what_if(changed, WhatIf(calls={"lusha": 10**6}), needs=[LUSHA, TAVILY])
    assert again.limits.deep_cap.tolist() == [past]
    assert [each.connector for each in again.constraints] == ["tavily", "lusha"]


def test_accounts_never_looked_at_count_as_out_of_date():
    inputs = inputs_of(11)
    never = replace(
        inputs.accounts,
        looked=np.full(len(inputs.accounts), NEVER),
        deep_looked=np.full(len(inputs.accounts), NEVER),
    )
    depth = np.full(len(never), NOT)
    assert compute_fresh_share(never, depth, now=TODAY) < 0.2
    worthless = replace(never, value=np.zeros(len(never)), deep_value=np.zeros(len(never)))
    assert compute_fresh_share(worthless, depth, now=TODAY) == 0.0


def test_every_account_that_differs_is_named_also_when_only_its_worth_does():
    inputs = inputs_of(3)
    _, decided = replay_plan(inputs, now=NOW)
    depth, score = decided.depth.copy(), decided.score.copy()
    depth[0] = DEEP if depth[0] != DEEP else SHALLOW
    score[1] = np.nextafter(score[1], np.float32(np.inf))
    found = list(iterate_differences(decided, replace(decided, depth=depth, score=score)))
    assert [each.account for each in found] == list(inputs.ids[:2])
    assert found[0].depth_after == depth[0]
    with pytest.raises(ConfigError, match="other accounts"):
        list(
            iterate_differences(
                decided, replace(decided, account=[f"B{id_}" for id_ in inputs.ids])
            )
        )
    with pytest.raises(ConfigError, match="from 0 up"):
        apply_what_if(inputs, WhatIf(units=-1))


@settings(max_examples=40)
@given(seeds)
def test_whoever_waited_too_long_has_its_turn_first_and_nobody_is_lost(seed):
    inputs = inputs_of(seed, tight=0.5)
    plan, _ = replay_plan(inputs, now=NOW)
    order = list_in_order(plan)
    assert sorted(order.tolist()) == sorted(plan.chosen.tolist())
    floor = plan.why[order] == Decision.FLOOR
    assert not floor[int(floor.sum()) :].any()
    assert order[~floor].tolist() == [row for row in plan.chosen if plan.why[row] != Decision.FLOOR]
