from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.budgets.caps import CapChange
from stoker.budgets.charges import Charge, Refusal, SpendRequest, Totals
from stoker.budgets.ledger_entries import (
    build_cap_entry,
    build_decision_entry,
    build_refused_entry,
    build_reserved_entry,
    build_resume_entry,
    build_status_entry,
    build_stop_entry,
)
from stoker.budgets.replay import (
    Replay,
    ReplayedReservation,
    find_differences,
    rebuild_open_reservations,
    rebuild_totals,
)
from stoker.budgets.reservations import (
    OPEN_STATUSES,
    ReservationStatus,
    build_reservation,
    expire_reservation,
    mark_sent,
    mark_uncertain,
    release_reservation,
    settle_reservation,
)
from stoker.ledger.chain import NewEntry, chain_entries, validate_new_entry

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)
CAP, MONEY = "tenant_connector/lusha/credits/day", "tenant/*/money:USD/week"
SHARED = "connector/lusha/credits/hour"


def charge(cap, amount, *, window="w1"):
    return Charge(
        cap=cap,
        shared=cap == SHARED,
        window=window,
        amount=amount,
        limit=100,
        ends_at=NOW,
        reason="CAP",
    )


def hold(key="k1", amount=3, *, at_once=True, window="w1"):
    asked = SpendRequest(
        key=key,
        connector="lusha",
        amounts={"credits": amount, "money:USD": 10 * amount},
        sends_at_once=at_once,
    )
    wanted = (
        charge(SHARED, amount, window=window),
        charge(CAP, amount, window=window),
        charge(MONEY, 10 * amount),
    )
    return build_reservation(asked, wanted, owner="me", until=NOW + timedelta(minutes=2), now=NOW)


def ledger(*notes):
    return chain_entries([validate_new_entry(note) for note in notes], after=None)


def story(first, *steps):
    """The notes of one promise, and where it stood in the end."""
    notes, here = [build_reserved_entry(first, now=NOW)], first
    for step in steps:
        after = step(here)
        notes.append(build_status_entry(here, after, now=NOW))
        here = after
    return notes, here


def paid(**cost):
    return lambda here: settle_reservation(here, cost, now=NOW)


def back(here):
    return release_reservation(here, now=NOW, reason="no")


def aside(here):
    return mark_uncertain(here, reason="?")


def died(here):
    return expire_reservation(here, now=here.until)


PROMISED = {(CAP, "w1"): Totals(reserved=3), (MONEY, "w1"): Totals(reserved=30)}
NOTHING = {(CAP, "w1"): Totals(), (MONEY, "w1"): Totals()}


@pytest.mark.parametrize(
    ("steps", "totals"),
    [
        ([], PROMISED),
        ([mark_sent], PROMISED),
        ([mark_sent, aside], PROMISED),
        ([mark_sent, died], PROMISED),
        ([died], NOTHING),
        ([back], NOTHING),
        ([aside, back], NOTHING),
        ([paid()], NOTHING),
        ([back, paid(credits=2)], {**NOTHING, (CAP, "w1"): Totals(settled=2)}),
        ([died, paid(credits=9)], {**NOTHING, (CAP, "w1"): Totals(settled=9)}),
        ([back, aside], PROMISED),
        ([died, aside, back], NOTHING),
        ([back, aside, paid(credits=1)], {**NOTHING, (CAP, "w1"): Totals(settled=1)}),
        ([paid(credits=2)], {**NOTHING, (CAP, "w1"): Totals(settled=2)}),
        ([mark_sent, paid(credits=9)], {**NOTHING, (CAP, "w1"): Totals(settled=9)}),
        (
            [aside, lambda here: settle_reservation(here, {"credits": 1, "money:USD": 7}, now=NOW)],
            {(CAP, "w1"): Totals(settled=1), (MONEY, "w1"): Totals(settled=7)},
        ),
    ],
)
def test_each_step_of_a_promise_counts_as_it_did_when_it_was_taken(steps, totals):
    notes, here = story(hold(at_once=False), *steps)
    entries = ledger(*notes)

    assert rebuild_totals(entries) == totals
    assert rebuild_totals(entries, shared=True) == {(SHARED, "w1"): totals[CAP, "w1"]}
    assert set(rebuild_open_reservations(entries)) == (
        {"k1"} if here.status in OPEN_STATUSES else set()
    )


def test_an_open_promise_is_told_with_where_it_stands_and_what_it_takes():
    notes, _ = story(hold(at_once=False), mark_sent, aside)

    assert rebuild_open_reservations(ledger(*notes)) == {
        "k1": ReplayedReservation(
            key="k1",
            status=ReservationStatus.UNCERTAIN,
            charges={(CAP, "w1"): 3, (MONEY, "w1"): 30},
            shared={(SHARED, "w1"): 3},
        )
    }
    assert rebuild_open_reservations(ledger(*notes[:2]))["k1"].status is ReservationStatus.SENT
    assert rebuild_open_reservations(ledger(*notes[:1]))["k1"].status is ReservationStatus.RESERVED


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["w1", "w2"])), max_size=8))
def test_promises_add_up_window_by_window(asked):
    entries = ledger(
        *(
            build_reserved_entry(hold(f"k{n}", amount, window=window), now=NOW)
            for n, (amount, window) in enumerate(asked)
        )
    )
    totals = rebuild_totals(entries)

    for window in ("w1", "w2"):
        expected = sum(amount for amount, where in asked if where == window)
        assert totals.get((CAP, window), Totals()).reserved == expected
    assert totals.get((MONEY, "w1"), Totals()).reserved == 10 * sum(amount for amount, _ in asked)


@given(st.data())
def test_a_ledger_read_in_pages_gives_what_it_gives_whole(data):
    notes = []
    for n, steps in enumerate([[], [mark_sent], [paid(credits=1)], [aside, back], [died]]):
        notes += story(hold(f"k{n}", at_once=False), *steps)[0]
    entries = ledger(*notes)
    cut = data.draw(st.integers(0, len(entries)))
    replay = Replay()

    replay.read(entries[:cut])
    replay.read(entries[cut:])

    assert replay.own == rebuild_totals(entries)
    assert replay.shared == rebuild_totals(entries, shared=True)
    assert replay.open == rebuild_open_reservations(entries)
    assert replay.faults == []


def test_entries_about_other_things_count_for_nothing():
    refused = Refusal(reason="CAP", message="full", cap=CAP, used=1, limit=1)
    asked = SpendRequest(key="k1", connector="lusha", amounts={"credits": 1})
    entries = ledger(
        NewEntry(at=NOW, kind="STARTED", subject="upkeep", reason=""),
        build_refused_entry(asked, refused, now=NOW),
        build_cap_entry(CapChange(cap=CAP, limit=3), now=NOW),
        build_stop_entry("", reason="", now=NOW),
        build_resume_entry("", now=NOW),
        build_decision_entry("a", chosen=True, reason="R", sentence="s", numbers={}, now=NOW),
        NewEntry(at=NOW, kind="HELD", subject="k1", reason="no such entry is ever written"),
    )
    replay = Replay()

    replay.read(entries)

    assert (replay.own, replay.shared, replay.open, replay.faults) == ({}, {}, {}, [])


def test_a_promise_written_twice_counts_once_and_is_told():
    [note], _ = story(hold())
    replay = Replay()

    replay.read(ledger(note, note))

    assert replay.own == PROMISED
    assert replay.faults == ["entry 2 reserves k1 a second time"]


def test_a_key_that_was_closed_is_not_good_for_another_promise():
    notes, _ = story(hold(), back)
    replay = Replay()

    replay.read(ledger(*notes, notes[0]))

    assert replay.own == NOTHING
    assert replay.faults == ["entry 3 reserves k1 a second time"]


def test_a_settlement_of_nothing_or_of_what_was_closed_counts_for_nothing_and_is_told():
    notes, _ = story(hold(), paid(credits=2))
    replay = Replay()

    replay.read(ledger(notes[1], *notes, notes[1]))

    assert replay.own[CAP, "w1"] == Totals(settled=2)
    assert replay.faults == [
        "entry 1 says SETTLED of k1, which was never reserved",
        "entry 4 says SETTLED of k1, which was closed before",
    ]


@pytest.mark.parametrize("kind", ["SENT", "RELEASED", "EXPIRED"])
def test_what_was_given_back_is_neither_sent_nor_given_back_again(kind):
    notes, _ = story(hold(), back)
    replay = Replay()

    replay.read(ledger(*notes, replace(notes[1], kind=kind)))

    assert (replay.own, replay.open) == (NOTHING, {})
    assert replay.faults == [f"entry 3 says {kind} of k1, which was closed before"]


def test_a_late_settlement_that_cannot_be_read_counts_for_nothing_and_a_sound_one_still_does():
    notes, _ = story(hold(), back, paid(credits=2))
    replay = Replay()

    replay.read(ledger(*notes[:2], replace(notes[2], data={}), notes[2], notes[2]))

    assert replay.own[CAP, "w1"] == Totals(settled=2)
    assert replay.faults == [
        "entry 3 does not say what was charged",
        "entry 5 says SETTLED of k1, which was closed before",
    ]


BROKEN = [
    {},
    {"phase": "SENT"},
    {"phase": "NEVER", "charges": []},
    {"phase": "SENT", "charges": [[CAP, "w1"]]},
    {"phase": "SENT", "charges": [["no cap", "w1", 1]]},
    {"phase": "SENT", "charges": [[CAP, "w1", "x"]]},
    {"phase": "SENT", "charges": [[CAP, "w1", None]]},
    {"phase": "SENT", "charges": 7},
    {"phase": "SENT", "charges": [[7, "w1", 1]]},
    {"phase": "SENT", "charges": [[CAP, "w1", 1]], "shared": [["x", "w1", 1]]},
]


@pytest.mark.parametrize("data", BROKEN)
def test_a_promise_that_cannot_be_read_counts_for_nothing_and_is_told(data):
    [note], _ = story(hold())
    replay = Replay()

    replay.read(ledger(replace(note, data=data)))

    assert (replay.own, replay.shared, replay.open) == ({}, {}, {})
    assert replay.faults == ["entry 1 does not say what was charged"]


@pytest.mark.parametrize(
    "data", [{}, {"actual": None}, {"actual": {"credits": "x"}}, {"actual": [1]}]
)
def test_a_settlement_that_cannot_be_read_leaves_the_promise_standing(data):
    notes, _ = story(hold(), paid(credits=2))
    replay = Replay()

    replay.read(ledger(notes[0], replace(notes[1], data=data)))

    assert replay.own == PROMISED
    assert set(replay.open) == {"k1"}
    assert replay.faults == ["entry 2 does not say what was charged"]


def test_totals_that_are_what_the_entries_add_up_to_show_no_difference():
    assert find_differences(PROMISED, dict(PROMISED)) == []
    assert find_differences({}, {(CAP, "w1"): Totals()}) == []
    assert find_differences({(CAP, "w1"): Totals()}, {}) == []


def test_every_total_that_is_not_what_the_entries_add_up_to_is_told_in_order():
    truth = {(MONEY, "w1"): Totals(settled=1), (CAP, "w2"): Totals(settled=4, reserved=5)}
    cache = {(CAP, "w2"): Totals(settled=5, reserved=4), (CAP, "w1"): Totals(reserved=1)}

    assert find_differences(truth, cache) == [
        f"{MONEY} in w1: its entries add up to 1 settled and 0 reserved, the total is 0 and 0",
        f"{CAP} in w1: its entries add up to 0 settled and 0 reserved, the total is 0 and 1",
        f"{CAP} in w2: its entries add up to 4 settled and 5 reserved, the total is 5 and 4",
    ]
