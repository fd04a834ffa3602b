from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConflictError
from stoker.budgets.charges import SpendRequest
from stoker.budgets.ledger_entries import build_reserved_entry, build_status_entry
from stoker.budgets.reservations import (
    ReservationStatus,
    build_reservation,
    expire_reservation,
    mark_sent,
    mark_uncertain,
    release_reservation,
    settle_reservation,
)
from stoker.budgets.statements import RunCostCounter
from stoker.ledger.chain import chain_entries

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)
UNTIL = NOW + timedelta(minutes=2)
MOVES = {
    "sent": mark_sent,
    "settled": lambda hold: settle_reservation(hold, {"calls": 1, "credits": 2}, now=NOW),
    "released": lambda hold: release_reservation(hold, now=NOW, reason="nothing was done"),
    "uncertain": lambda hold: mark_uncertain(hold, reason="cut off"),
    "lapsed": lambda hold: expire_reservation(hold, now=UNTIL),
}


def promised(key, *, run="r1", account="a1", at_once=False):
    request = SpendRequest(
        key=key,
        connector="lusha",
        amounts={"calls": 1, "credits": 5},
        run=run,
        account=account,
        sends_at_once=at_once,
    )
    return build_reservation(request, (), owner="me", until=UNTIL, now=NOW)


def lived(hold, moves):
    """Return a promise after these moves, and what the ledger says of it."""
    notes = [build_reserved_entry(hold, now=NOW)]
    for move in moves:
        try:
            after = MOVES[move](hold)
        except ConflictError:
            continue
        if after.status is not hold.status:
            notes.append(build_status_entry(hold, after, now=NOW))
        hold = after
    return hold, notes


def spent(notes, holds, *, account=None, after=None):
    spending = RunCostCounter("r1", account=account)
    spending.add(chain_entries(notes[:after], after=None))
    for hold in holds:
        if hold.key in spending.open_keys:
            spending.add_open_reservation(hold)
    assert not spending.open_keys
    return spending.get_cost()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["r1", "r2", None]),
            st.booleans(),
            st.lists(st.sampled_from(sorted(MOVES)), max_size=5),
        ),
        max_size=6,
    )
)
def test_what_was_spent_under_a_run_is_what_its_promises_say(lives):
    holds, notes = [], []
    for number, (run, at_once, moves) in enumerate(lives):
        hold, told = lived(promised(f"k{number}", run=run, at_once=at_once), moves)
        holds.append(hold)
        notes += told
    found = spent(notes, holds)
    ours = [hold for hold in holds if hold.run == "r1"]
    done = [hold for hold in ours if hold.status is ReservationStatus.SETTLED]
    unsure = [
        hold
        for hold in ours
        if hold.status in (ReservationStatus.SENT, ReservationStatus.UNCERTAIN)
    ]
    assert found.settled.get("lusha/credits", 0) == 2 * len(done)
    assert found.unknown.get("lusha/credits", 0) == 5 * len(unsure)


@pytest.mark.parametrize(
    ("moves", "settled_calls", "unknown_calls"),
    [
        ([], 0, 0),  # never sent: it comes back
        (["sent"], 0, 1),
        (["sent", "uncertain"], 0, 1),
        (["sent", "uncertain", "released"], 0, 0),
        (["sent", "settled"], 1, 0),
        (["released", "settled"], 1, 0),  # late, and gone all the same
    ],
)
def test_a_promise_is_spent_not_spent_or_nobody_knows(moves, settled_calls, unknown_calls):
    hold, notes = lived(promised("k"), moves)
    found = spent(notes, [hold])
    assert found.settled.get("lusha/calls", 0) == settled_calls
    assert found.unknown.get("lusha/calls", 0) == unknown_calls


def test_what_became_known_after_the_last_entry_read_counts_as_it_stands_now():
    hold, notes = lived(promised("k"), ["sent", "settled"])
    assert spent(notes, [hold], after=1).settled == {"lusha/calls": 1, "lusha/credits": 2}


def test_of_one_account_only_what_was_promised_for_it_counts():
    one, its = lived(promised("k1"), ["sent", "settled"])
    other, others = lived(replace(promised("k2"), account="a2"), ["sent", "settled"])
    assert spent([*its, *others], [one, other], account="a2").settled["lusha/calls"] == 1
    assert spent([*its, *others], [one, other]).settled["lusha/calls"] == 2
