"""Plans made again: the same as they were, or changed by what was changed and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, TODAY, case
from stoker.base.errors import ConfigError
from stoker.enrichment.forecast import VendorNeed
from stoker.files.columns import encode_columns
from stoker.pulls.columns import NEVER, Decision
from stoker.pulls.constraints import Constraint, limit_deep_lookups
from stoker.pulls.planner import DEEP, NOT, SHALLOW, list_in_order
from stoker.pulls.saved_plans import (
    PlanSnapshot,
    WhatIf,
    apply_what_if,
    compute_fresh_share,
    compute_totals,
    decode_decisions,
    find_gained_and_lost,
    iterate_differences,
    replay_plan,
    to_decisions,
)
from stoker.pulls.settings import Policy

seeds = st.integers(0, 2**32 - 1)


def inputs_of(seed, **given):
    accounts, limits, rule = case(seed, **given)
    ids = [f"A{row:05}" for row in range(len(accounts))]
    return PlanSnapshot(ids=ids, accounts=accounts, limits=limits, rule=rule)


@settings(max_examples=40)
@given(seeds)
def test_planning_again_differs_nowhere_from_what_was_kept(seed):
    inputs = inputs_of(seed)
    decided = to_decisions(replay_plan(inputs, now=NOW))
    before = decode_decisions(encode_columns(decided.to_columns()))
    again = to_decisions(replay_plan(apply_what_if(inputs, WhatIf()), now=NOW))
    assert list(iterate_differences(before, again)) == []


@settings(max_examples=40)
@given(seeds, st.integers(0, 60), st.integers(0, 60), st.sampled_from(Policy))
def test_other_caps_are_kept_and_who_is_in_or_out_adds_up(seed, units, crawl, policy):
    inputs = inputs_of(seed)
    before = replay_plan(inputs, now=NOW)
    other = apply_what_if(inputs, WhatIf(units=units, connector_units=crawl, policy=policy))
    after = replay_plan(other, now=NOW)
    assert after.plan.spent <= min(units, crawl)
    gained, lost = find_gained_and_lost(to_decisions(before), to_decisions(after))
    assert len(after.plan.chosen) - len(before.plan.chosen) == len(gained) - len(lost)
    assert not set(gained) & set(lost)
    assert other.accounts is inputs.accounts
    assert other.rule.policy is policy


@settings(max_examples=40)
@given(seeds)
def test_freshness_is_a_share_and_looks_never_lower_it(seed):
    inputs = inputs_of(seed)
    pulls = replay_plan(inputs, now=NOW)
    nobody = compute_fresh_share(inputs.accounts, np.full(len(inputs.accounts), NOT), now=TODAY)
    found = compute_totals(pulls)
    everybody = compute_fresh_share(inputs.accounts, np.full(len(inputs.accounts), DEEP), now=TODAY)
    assert 0.0 <= nobody <= found.freshness + 1e-12
    assert found.freshness <= everybody + 1e-12 <= 1.0 + 1e-9
    assert found.looks == len(pulls.plan.chosen)


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
    pulls = replay_plan(changed, now=NOW)
    assert changed.limits.deep_cap == min(2 * calls, past)
    assert compute_totals(pulls).deep <= min(2 * calls, past)
    again = apply_what_if(changed, WhatIf(calls={"lusha": 10**6}), needs=[LUSHA, TAVILY])
    assert again.limits.deep_cap == past
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
    decided = to_decisions(replay_plan(inputs, now=NOW))
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
    plan = replay_plan(inputs, now=NOW).plan
    order = list_in_order(plan)
    assert sorted(order.tolist()) == sorted(plan.chosen.tolist())
    floor = plan.why[order] == Decision.FLOOR
    assert not floor[int(floor.sum()) :].any()
    assert order[~floor].tolist() == [row for row in plan.chosen if plan.why[row] != Decision.FLOOR]
