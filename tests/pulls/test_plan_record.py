"""Decisions: compact, and back letter for letter; damage is told, never read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, TODAY, case
from stoker.base.errors import PermanentError
from stoker.pulls.columns import Decision
from stoker.pulls.plan_record import (
    compute_columns_digest,
    count_decisions,
    decode_columns,
    decode_decisions,
    encode_columns,
    encode_decisions,
    summarize_plan,
    to_decisions,
)
from stoker.pulls.planner import plan_pulls

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
kinds = st.sampled_from([np.uint8, np.uint16, np.int32, np.int64, np.float32, np.float64])


@settings(max_examples=60)
@given(st.data(), st.integers(0, 50), st.integers(1, 20))
def test_columns_come_back_letter_for_letter_in_parts_of_any_length(data, rows, part):
    numbers = np.frombuffer(data.draw(st.binary(min_size=8 * rows, max_size=8 * rows)), np.uint8)
    columns = {"text": data.draw(st.lists(texts, min_size=rows, max_size=rows))}
    for nth in range(data.draw(st.integers(0, 3))):
        kind = np.dtype(data.draw(kinds))
        columns[f"c{nth}"] = numbers[: rows * kind.itemsize].view(kind)
    parts = encode_columns(columns, part=part)
    found = decode_columns(parts)
    assert len(parts) == max(-(-rows // part), 1)
    assert found["text"] == columns["text"]
    for name, column in columns.items():
        if name != "text":
            assert found[name].dtype == column.dtype
            assert found[name].tobytes() == column.tobytes()
    assert compute_columns_digest(found) == compute_columns_digest(columns)


@settings(max_examples=40)
@given(st.binary(max_size=200), st.integers(0, 10_000), st.integers(1, 255))
def test_damage_anywhere_is_told_or_changes_nothing(noise, at, flip):
    columns = {"account": ["a", "b", "c"], "why": np.array([1, 2, 3], np.uint8)}
    (part,) = encode_columns(columns)
    broken = bytearray(part)
    broken[at % len(part)] ^= flip
    for damaged in (bytes(broken), part[: at % len(part)], noise, part + noise):
        try:
            found = decode_columns([damaged])
        except PermanentError:
            continue
        assert isinstance(found, dict)  # whatever it says, it has the form of columns
        assert len({len(column) for column in found.values()}) <= 1


def test_a_part_that_says_it_unfolds_into_more_than_it_is_allowed_is_refused():
    (part,) = encode_columns({"why": np.zeros(60_000, np.uint8)})
    with pytest.raises(PermanentError, match="damaged"):
        decode_columns([part.replace(b'"u1",60000', b'"u1",50000')])
    head, tail = part.split(b"[[", 1)
    magic, length = head[:17], int.from_bytes(head[17:21], "big")
    grown = tail.replace(b'"u1",60000', b'"u1",9000000000')
    with pytest.raises(PermanentError, match="too large"):
        decode_columns([magic + (length + 5).to_bytes(4, "big") + head[21:] + b"[[" + grown])


def test_a_part_that_was_cut_off_is_refused_even_where_all_its_rows_are_there():
    (part,) = encode_columns({"why": np.arange(100, dtype=np.uint8)})
    for cut in range(1, 5):
        with pytest.raises(PermanentError, match="damaged"):
            decode_columns([part[:-cut]])


def test_parts_that_do_not_belong_together_are_refused():
    one, other = encode_columns({"a": np.zeros(1)}), encode_columns({"b": np.zeros(1)})
    for wrong in ([], one + other):
        with pytest.raises(PermanentError, match="belong together"):
            decode_columns(wrong)
    with pytest.raises(PermanentError, match="no decisions"):
        decode_decisions(one)
    with pytest.raises(PermanentError, match="one length"):
        encode_columns({"a": np.zeros(1), "b": np.zeros(2)})
    with pytest.raises(PermanentError, match="cannot be saved"):
        encode_columns({"a": np.zeros(1, np.complex128)})


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_what_a_plan_decided_about_a_tenant_is_found_again_by_account(seed):
    accounts, limits, rule = case(seed)
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    for tenant in range(limits.tenants):
        rows = np.flatnonzero(accounts.tenant == tenant)
        ids = [f"acc-{row:05d}" for row in rows]
        made = to_decisions(plan, accounts, ids, tenant=tenant, now=TODAY)
        found = decode_decisions(encode_decisions(made))
        for row, name in zip(rows, ids, strict=True):
            place = found.find_row(name)
            assert (found.why[place], found.depth[place]) == (plan.why[row], plan.depth[row])
        assert found.find_row("nobody") is None
        told = count_decisions(made)
        assert sum(told[code.name] for code in Decision if code.name in told) == len(rows)
        assert summarize_plan(plan, limits, rule, tenant=tenant)["spent"] == plan.spent[tenant]


def test_decisions_take_no_more_than_sixteen_bytes_an_account():
    accounts, limits, rule = case(7, most=30_000, tenants=1, tight=0.1)
    assert len(accounts) > 10_000
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    ids = [f"20{row % 25:02d}{row:05d}K" for row in range(len(accounts))]
    made = to_decisions(plan, accounts, sorted(ids), tenant=0, now=TODAY)
    assert sum(map(len, encode_decisions(made))) <= 16 * len(accounts)


def test_decisions_out_of_order_or_of_too_few_accounts_are_refused():
    accounts, limits, rule = case(7, tenants=1)
    plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
    with pytest.raises(PermanentError, match="accounts in the plan"):
        to_decisions(plan, accounts, [], tenant=0, now=TODAY)
    names = [f"{row:05d}" for row in range(len(accounts))]
    with pytest.raises(PermanentError, match="order"):
        to_decisions(plan, accounts, names[::-1], tenant=0, now=TODAY)
