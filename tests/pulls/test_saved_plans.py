"""Saved plans: read, replayed and saved again without any difference; damage is told.

`samples/saved_pull_plans.json` has records, parts and ledger entries as release 0.1 wrote them.
"""

import json
from base64 import b85decode
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, TODAY, case
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import ConfigError, PermanentError
from stoker.base.types import TenantId
from stoker.files.columns import compute_columns_digest, decode_columns, encode_columns
from stoker.heat.settings import TierRule
from stoker.ledger.chain import NewEntry
from stoker.pulls.columns import NEVER, Decision
from stoker.pulls.constraints import Constraint, limit_deep_lookups
from stoker.pulls.planner import DEEP, NOT, SHALLOW, list_in_order
from stoker.pulls.reports import (
    WhatIf,
    apply_what_if,
    compute_fresh_share,
    compute_totals,
    find_gained_and_lost,
    iterate_differences,
)
from stoker.pulls.schema import PlanRecord
from stoker.pulls.settings import Objective, Policy, PullRule
from stoker.pulls.store import (
    PlanSnapshot,
    count_decisions,
    decode_decisions,
    find_ledger_digest,
    load_plan,
    parse_inputs,
    parse_rule,
    replay_plan,
    save_plan,
    to_decisions,
    to_input_columns,
    to_limits_json,
    to_rule_json,
)
from stoker.vendors.table import VendorNeed

SAMPLE = Path(__file__).parents[1] / "samples" / "saved_pull_plans.json"
SAVED = json.loads(SAMPLE.read_text())
seeds = st.integers(0, 2**32 - 1)
every_plan = pytest.mark.parametrize("saved", SAVED, ids=[each["run"] for each in SAVED])


async def open_store():
    backend = MemoryBackend()
    await backend.migrate()
    return backend.tenant(TenantId("acme"))


async def insert(store, saved, *, parts=None):
    at = datetime.fromisoformat(saved["at"])
    record = PlanRecord(run=saved["run"], at=at, policy=saved["policy"], header=saved["header"])
    entry = NewEntry(at=at, **saved["entry"])
    await store.plans.insert_plan(record, parts or list_parts(saved), entry=entry)


def list_parts(saved):
    return [b85decode(part) for part in saved["parts"]]


async def read_parts(store, run):
    parts = []
    while (part := await store.plans.find_plan_part(run, len(parts))) is not None:
        parts.append(part)
    return parts


@every_plan
async def test_an_old_plan_gives_the_same_decisions_again(saved):
    store = await open_store()
    await insert(store, saved)
    found = await load_plan(store, saved["run"])
    decided = to_decisions(replay_plan(found.inputs, now=found.record.at))
    assert list(iterate_differences(found.decisions, decided)) == []
    assert await find_ledger_digest(store, saved["run"]) == saved["header"]["digest"]


@every_plan
async def test_an_old_plan_is_saved_again_with_the_same_columns_header_and_entry(saved):
    store = await open_store()
    await insert(store, saved)
    found = await load_plan(store, saved["run"])
    again = await open_store()
    await save_plan(again, saved["run"], replay_plan(found.inputs, now=found.record.at))
    record = await again.plans.find_plan(saved["run"])
    assert record.header == {**saved["header"], "gap": pytest.approx(saved["header"]["gap"])}
    [entry] = await again.ledger.list_entries()
    assert entry.data == {
        **saved["entry"]["data"],
        "gap": pytest.approx(saved["header"]["gap"]),
    }
    for part, before in zip(await read_parts(again, saved["run"]), list_parts(saved), strict=True):
        columns, earlier = decode_columns([part]), decode_columns([before])
        assert list(columns) == list(earlier)
        assert {name: list(each) for name, each in columns.items()} == {
            name: list(each) for name, each in earlier.items()
        }


async def test_a_plan_whose_parts_were_exchanged_is_refused_as_damaged():
    store = await open_store()
    saved, other = SAVED[:2]
    await insert(store, saved, parts=[list_parts(saved)[0], list_parts(other)[1]])
    with pytest.raises(PermanentError, match="damaged"):
        await load_plan(store, saved["run"])
    with pytest.raises(ConfigError, match="no plan of run"):
        await load_plan(store, other["run"])


def planned(seed, **given):
    accounts, limits, rule = case(seed, **given)
    ids = [f"A{row:05}" for row in range(len(accounts))]
    constraints = ()
    if limits.deep_cap is not None:
        constraints = (
            Constraint(why=limits.deep_why, connector="lusha", looks=limits.deep_cap, until=NOW),
        )
    return replay_plan(
        PlanSnapshot(ids=ids, accounts=accounts, limits=limits, rule=rule, constraints=constraints),
        now=NOW,
    )


def header_of(inputs):
    header = {
        "limits": to_limits_json(inputs.limits),
        "rule": to_rule_json(inputs.rule),
        "hindrances": [each.as_json() for each in inputs.constraints],
    }
    return json.loads(json.dumps(header))


def digest_of(pulls):
    return compute_columns_digest(to_decisions(pulls).to_columns())


@settings(max_examples=50)
@given(seeds, st.sampled_from(Policy), st.sampled_from(Objective), st.booleans())
def test_a_plan_made_of_what_came_back_is_the_same_letter_for_letter(
    seed, policy, objective, deep_caps
):
    pulls = planned(seed, policy=policy, objective=objective, deep_caps=deep_caps)
    inputs, columns = pulls.inputs, to_input_columns(pulls.inputs)
    again = parse_inputs(decode_columns(encode_columns(columns, part=7)), header_of(inputs))
    assert (again.ids, again.constraints) == (inputs.ids, inputs.constraints)
    assert (again.limits, again.rule) == (inputs.limits, inputs.rule)
    assert compute_columns_digest(to_input_columns(again)) == compute_columns_digest(columns)
    assert digest_of(replay_plan(again, now=NOW)) == digest_of(pulls)


spans = st.timedeltas(timedelta(hours=1), timedelta(days=30))


@settings(max_examples=60)
@given(
    tick=spans,
    floor=st.none() | st.timedeltas(timedelta(days=31), timedelta(days=36_600)),
    share=st.floats(0, 0.5),
    signal=st.floats(0, 1000),
    spread=st.floats(1, 1000),
    hot=st.timedeltas(timedelta(minutes=1), timedelta(days=4)),
    cold=st.timedeltas(timedelta(days=7), timedelta(days=3650)),
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


@pytest.mark.parametrize("gone", ["account", "surface_days", "looked", "limits", "rule"])
def test_what_is_not_a_plans_is_told_and_not_guessed(gone):
    inputs = planned(3).inputs
    columns, header = dict(to_input_columns(inputs)), header_of(inputs)
    if gone == "looked":
        columns[gone] = columns[gone][:-1]
    else:
        (header if gone in header else columns).pop(gone)
    with pytest.raises(PermanentError, match="cannot be read"):
        parse_inputs(columns, header)


@settings(max_examples=30)
@given(seeds)
def test_what_a_plan_decided_is_found_again_by_account(seed):
    pulls = planned(seed)
    plan, made = pulls.plan, to_decisions(pulls)
    found = decode_decisions(encode_columns(made.to_columns()))
    for row, name in enumerate(pulls.inputs.ids):
        place = found.find_row(name)
        assert (found.why[place], found.depth[place]) == (plan.why[row], plan.depth[row])
    assert found.find_row("nobody") is None
    told = count_decisions(plan)
    assert sum(told[code.name] for code in Decision if code.name in told) == len(plan.why)


def test_decisions_take_no_more_than_sixteen_bytes_an_account():
    pulls = planned(7, most=30_000, tight=0.1)
    size = len(pulls.inputs.ids)
    assert size > 10_000
    assert sum(map(len, encode_columns(to_decisions(pulls).to_columns()))) <= 16 * size


def test_decisions_out_of_order_or_of_too_few_accounts_are_refused():
    pulls = planned(7)
    for ids, said in (([], "accounts are in the plan"), (pulls.inputs.ids[::-1], "order")):
        with pytest.raises(PermanentError, match=said):
            to_decisions(replace(pulls, inputs=replace(pulls.inputs, ids=ids)))
    with pytest.raises(PermanentError, match="no decisions"):
        decode_decisions(encode_columns({"a": np.zeros(1)}))


def inputs_of(seed, **given):
    return planned(seed, **given).inputs


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
    assert found.accounts == len(pulls.plan.chosen)


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
