"""What operators ordered, worked out from the ledger of their orders alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.budgets.caps import CapChange, merge_changes
from stoker.budgets.ledger_entries import (
    OperatorSettings,
    build_cap_entry,
    build_resume_entry,
    build_stop_entry,
    find_operator_mismatches,
)
from stoker.ledger.chain import NewEntry, chain_entries

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
UNTIL = NOW + timedelta(hours=2)
CAP = "connector/lusha/credits/day"


def orders(*notes):
    read = OperatorSettings()
    read.read(chain_entries(notes, after=None))
    return read


connectors = st.sampled_from(["", "lusha", "tavily"])
changes = st.builds(
    CapChange,
    cap=st.sampled_from([CAP, "connector/tavily/calls/hour"]),
    limit=st.integers(0, 9),
) | st.builds(
    CapChange,
    cap=st.just(CAP),
    raised_to=st.integers(0, 9),
    raised_until=st.sampled_from([NOW - timedelta(hours=1), UNTIL]),
)


@given(st.lists(st.tuples(st.just("stop") | st.just("resume"), connectors) | changes))
def test_what_stands_is_what_was_ordered_last(said):
    stops, told, notes = set(), {}, []
    for order in said:
        if isinstance(order, CapChange):
            told[order.cap] = merge_changes(told.get(order.cap), order)
            notes.append(build_cap_entry(order, now=NOW))
        elif order[0] == "stop":
            stops.add(order[1])
            notes.append(build_stop_entry(order[1], reason="", now=NOW))
        else:
            stops.discard(order[1])
            notes.append(build_resume_entry(order[1], now=NOW))
    read = orders(*notes)
    assert (read.stops, read.changes, read.faults) == (stops, told, [])
    assert find_operator_mismatches(read, stops=stops, changes=told) == []


def test_every_difference_is_a_sentence():
    change = CapChange(cap=CAP, limit=5, raised_to=7, raised_until=UNTIL)
    read = orders(build_stop_entry("lusha", reason="", now=NOW), build_cap_entry(change, now=NOW))
    assert find_operator_mismatches(
        read, stops=[""], changes={CAP: replace(change, limit=500)}
    ) == [
        "the ledger stops lusha, the store does not",
        "the store stops every connector, the ledger has no entry of it",
        f"{CAP}: the ledger says limit 5, 7 until 2026-02-07 03:30:00 UTC, the store says "
        "limit 500, 7 until 2026-02-07 03:30:00 UTC",
    ]
    assert find_operator_mismatches(
        orders(), stops=[], changes={CAP: CapChange(cap=CAP, limit=9)}
    ) == [f"{CAP}: the ledger says nothing, the store says limit 9"]


@pytest.mark.parametrize(
    "data",
    [
        {"limit": "many"},
        {"limit": -1},
        {"raised_to": 5},
        {"raised_to": 5, "raised_until": 7},
        {"raised_to": 5, "raised_until": "soon"},
        {"raised_to": 5, "raised_until": "2026-02-07T03:30:00"},
    ],
)
def test_an_order_that_cannot_be_understood_is_a_fault_and_changes_nothing(data):
    odd = NewEntry(at=NOW, kind="CAP_CHANGED", subject=CAP, reason="", data=data)
    read = orders(build_stop_entry("", reason="", now=NOW), odd)
    assert read.changes == {}
    [fault] = read.faults
    assert fault.startswith("entry 2 cannot be understood")


def test_an_entry_that_orders_nothing_is_passed_over():
    read = orders(NewEntry(at=NOW, kind="RUN_MISSED", subject="x", reason=""))
    assert (read.stops, read.changes, read.faults) == (set(), {}, [])
