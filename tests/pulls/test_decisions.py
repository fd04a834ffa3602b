"""Decisions: compact, and back letter for letter; damage is told, never read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pull_cases import NOW, TODAY, case
from stoker.base.errors import PermanentError
from stoker.pulls.columns import Why
from stoker.pulls.plan_record import (
    counts,
    decisions_of,
    digest,
    kept,
    packed,
    recalled,
    summary,
    unpacked,
)
from stoker.pulls.planner import plan_day

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
    parts = packed(columns, part=part)
    found = unpacked(parts)
    assert len(parts) == max(-(-rows // part), 1)
    assert found["text"] == columns["text"]
    for name, column in columns.items():
        if name != "text":
            assert found[name].dtype == column.dtype
            assert found[name].tobytes() == column.tobytes()
    assert digest(found) == digest(columns)


@settings(max_examples=40)
@given(st.binary(max_size=200), st.integers(0, 10_000), st.integers(1, 255))
def test_damage_anywhere_is_told_or_changes_nothing(noise, at, flip):
    columns = {"account": ["a", "b", "c"], "why": np.array([1, 2, 3], np.uint8)}
    (part,) = packed(columns)
    broken = bytearray(part)
    broken[at % len(part)] ^= flip
    for damaged in (bytes(broken), part[: at % len(part)], noise, part + noise):
        try:
            found = unpacked([damaged])
        except PermanentError:
            continue
        assert isinstance(found, dict)  # whatever it says, it has the form of columns
        assert len({len(column) for column in found.values()}) <= 1


def test_a_part_that_says_it_unfolds_into_more_than_it_is_allowed_is_refused():
    (part,) = packed({"why": np.zeros(60_000, np.uint8)})
    with pytest.raises(PermanentError, match="damaged"):
        unpacked([part.replace(b'"u1",60000', b'"u1",50000')])
    head, tail = part.split(b"[[", 1)
    magic, length = head[:17], int.from_bytes(head[17:21], "big")
    grown = tail.replace(b'"u1",60000', b'"u1",9000000000')
    with pytest.raises(PermanentError, match="too large"):
        unpacked([magic + (length + 5).to_bytes(4, "big") + head[21:] + b"[[" + grown])


def test_a_part_that_was_cut_off_is_refused_even_where_all_its_rows_are_there():
    (part,) = packed({"why": np.arange(100, dtype=np.uint8)})
    for cut in range(1, 5):
        with pytest.raises(PermanentError, match="damaged"):
            unpacked([part[:-cut]])


def test_parts_that_do_not_belong_together_are_refused():
    one, other = packed({"a": np.zeros(1)}), packed({"b": np.zeros(1)})
    for wrong in ([], one + other):
        with pytest.raises(PermanentError, match="belong together"):
            unpacked(wrong)
    with pytest.raises(PermanentError, match="no decisions"):
        recalled(one)
    with pytest.raises(PermanentError, match="one length"):
        packed({"a": np.zeros(1), "b": np.zeros(2)})
    with pytest.raises(PermanentError, match="cannot be kept"):
        packed({"a": np.zeros(1, np.complex128)})


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_what_a_plan_decided_about_a_tenant_is_found_again_by_account(seed):
    accounts, limits, rule = case(seed)
    plan = plan_day(accounts, limits, now=NOW, rule=rule)
    for tenant in range(limits.tenants):
        rows = np.flatnonzero(accounts.tenant == tenant)
        ids = [f"acc-{row:05d}" for row in rows]
        made = decisions_of(plan, accounts, ids, tenant=tenant, now=TODAY)
        found = recalled(kept(made))
        for row, name in zip(rows, ids, strict=True):
            place = found.place(name)
            assert (found.why[place], found.depth[place]) == (plan.why[row], plan.depth[row])
        assert found.place("nobody") is None
        told = counts(made)
        assert sum(told[code.name] for code in Why if code.name in told) == len(rows)
        assert summary(plan, limits, rule, tenant=tenant)["spent"] == plan.spent[tenant]


def test_decisions_take_no_more_than_sixteen_bytes_an_account():
    accounts, limits, rule = case(7, most=30_000, tenants=1, tight=0.1)
    assert len(accounts) > 10_000
    plan = plan_day(accounts, limits, now=NOW, rule=rule)
    ids = [f"20{row % 25:02d}{row:05d}K" for row in range(len(accounts))]
    made = decisions_of(plan, accounts, sorted(ids), tenant=0, now=TODAY)
    assert sum(map(len, kept(made))) <= 16 * len(accounts)


def test_decisions_out_of_order_or_of_too_few_accounts_are_refused():
    accounts, limits, rule = case(7, tenants=1)
    plan = plan_day(accounts, limits, now=NOW, rule=rule)
    with pytest.raises(PermanentError, match="accounts in the plan"):
        decisions_of(plan, accounts, [], tenant=0, now=TODAY)
    names = [f"{row:05d}" for row in range(len(accounts))]
    with pytest.raises(PermanentError, match="order"):
        decisions_of(plan, accounts, names[::-1], tenant=0, now=TODAY)
