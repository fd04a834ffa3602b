"""What a plan was made of comes back from bytes and JSON, and makes the same plan."""

import json
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, TODAY, case
from stoker.base.errors import PermanentError
from stoker.heat.tiers import TierRule
from stoker.pulls.columns import Decision, Policy, PullRule, validate_limits
from stoker.pulls.constraints import Constraint
from stoker.pulls.plan_record import (
    PlanSnapshot,
    compute_columns_digest,
    decode_columns,
    encode_columns,
    parse_inputs,
    parse_limits,
    parse_rule,
    to_decision_columns,
    to_decisions,
    to_input_columns,
    to_limits_json,
    to_rule_json,
)
from stoker.pulls.planner import plan_pulls
from stoker.pulls.worth import Objective

seeds = st.integers(0, 2**32 - 1)


def inputs_of(seed, **rule):
    accounts, limits, rule = case(seed, tenants=1, **rule)
    ids = [f"A{row:05}" for row in range(len(accounts))]
    limits = replace(limits, domain_cap=np.zeros(0, np.int64))
    told = tuple(
        Constraint(why=Decision(int(why)), connector="lusha", looks=int(looks), until=NOW)
        for looks, why in zip(limits.deep_cap, limits.deep_why, strict=True)
    )
    return PlanSnapshot(ids=ids, accounts=accounts, limits=limits, rule=rule, constraints=told)


def back(inputs, *, part=7):
    header = {"limits": to_limits_json(inputs.limits), "rule": to_rule_json(inputs.rule)}
    if inputs.constraints:
        header["hindrances"] = [each.as_json() for each in inputs.constraints]
    said = json.loads(json.dumps(header))
    return parse_inputs(decode_columns(encode_columns(to_input_columns(inputs), part=part)), said)


def decided(inputs):
    plan = plan_pulls(inputs.accounts, inputs.limits, now=NOW, rule=inputs.rule)
    found = to_decisions(plan, inputs.accounts, inputs.ids, tenant=0, now=TODAY)
    return compute_columns_digest(to_decision_columns(found))


@settings(max_examples=50)
@given(seeds, st.sampled_from(Policy), st.sampled_from(Objective), st.booleans())
def test_a_plan_made_of_what_came_back_is_the_same_letter_for_letter(
    seed, policy, objective, deep_caps
):
    inputs = inputs_of(seed, policy=policy, objective=objective, deep_caps=deep_caps)
    again = back(inputs)
    assert again.constraints == inputs.constraints
    assert again.limits.deep_cap.tolist() == inputs.limits.deep_cap.tolist()
    assert again.limits.deep_why.tolist() == inputs.limits.deep_why.tolist()
    assert again.ids == inputs.ids
    assert again.rule == inputs.rule
    assert compute_columns_digest(to_input_columns(again)) == compute_columns_digest(
        to_input_columns(inputs)
    )
    assert decided(again) == decided(inputs)


spans = st.timedeltas(timedelta(hours=1), timedelta(days=30))


@settings(max_examples=60)
@given(
    tick=spans,
    floor=st.none() | st.timedeltas(timedelta(days=31), timedelta(days=36_600)),
    share=st.floats(0, 0.5),
    signal=st.floats(0, 1000),
    spread=st.floats(1, 1000),
    hot=st.timedeltas(timedelta(microseconds=1), timedelta(days=4)),
    cold=st.timedeltas(timedelta(days=7), timedelta(days=36_600)),
    policy=st.sampled_from(Policy),
)
def test_every_rule_comes_back_as_it_was(tick, floor, share, signal, spread, hot, cold, policy):
    rule = PullRule(
        policy=policy,
        tick=tick,
        floor=floor,
        floor_share=share,
        signal_changes=signal,
        value_spread=spread,
        tiers=TierRule(
            hot_every=min(hot, timedelta(hours=6)), hot_cooldown=hot, coldest_every=cold
        ),
    )
    assert parse_rule(json.loads(json.dumps(to_rule_json(rule)))) == rule


@given(
    st.integers(-1, 10**15),
    st.none() | st.lists(st.integers(-1, 10**15), min_size=1, max_size=4),
)
def test_caps_come_back_as_they_were_also_those_that_are_none(budget, caps):
    limits = validate_limits([budget], connector_cap=None if caps is None else [caps])
    again = parse_limits(json.loads(json.dumps(to_limits_json(limits))))
    assert again.budget.tolist() == limits.budget.tolist()
    assert again.connector_cap.tolist() == limits.connector_cap.tolist()
    assert again.connector_cap.shape == limits.connector_cap.shape


@pytest.mark.parametrize("gone", ["account", "surface_days", "looked", "limits", "rule"])
def test_what_is_not_a_plans_is_told_and_not_guessed(gone):
    inputs = inputs_of(3)
    columns = dict(to_input_columns(inputs))
    said = {"limits": to_limits_json(inputs.limits), "rule": to_rule_json(inputs.rule)}
    if gone == "looked":
        columns[gone] = columns[gone][:-1]
    columns = {name: column for name, column in columns.items() if name != gone or gone == "looked"}
    said.pop(gone, None)
    if len(inputs.ids) > 1 or gone != "looked":
        with pytest.raises(PermanentError, match="cannot be read"):
            parse_inputs(columns, said)
