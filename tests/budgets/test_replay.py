from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.budgets.caps import CapChange
from stoker.budgets.charges import Charge, Refusal, SpendRequest, Totals
from stoker.budgets.ledger_entries import (
    Replay,
    ReplayedReservation,
    build_cap_entry,
    build_refused_entry,
    build_reserved_entry,
    build_resume_entry,
    build_status_entry,
    build_stop_entry,
    find_differences,
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
from stoker.budgets.windows import RETENTION
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


def replayed(*pages):
    replay = Replay()
    for entries in pages:
        replay.read(entries)
    return replay


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
    replay = replayed(ledger(*notes))
    assert replay.own == totals
    assert replay.shared == {(SHARED, "w1"): totals[CAP, "w1"]}
    assert set(replay.open) == ({"k1"} if here.status in OPEN_STATUSES else set())


def test_an_open_reservation_has_its_status_and_what_it_takes():
    notes, _ = story(hold(at_once=False), mark_sent, aside)
    assert replayed(ledger(*notes)).open == {
        "k1": ReplayedReservation(
            key="k1",
            status=ReservationStatus.UNCERTAIN,
            charges={(CAP, "w1"): 3, (MONEY, "w1"): 30},
            shared={(SHARED, "w1"): 3},
        )
    }
    statuses = [replayed(ledger(*notes[:n])).open["k1"].status for n in (1, 2)]
    assert statuses == [ReservationStatus.RESERVED, ReservationStatus.SENT]


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["w1", "w2"])), max_size=8))
def test_promises_add_up_window_by_window(asked):
    entries = ledger(
        *(
            build_reserved_entry(hold(f"k{n}", amount, window=window), now=NOW)
            for n, (amount, window) in enumerate(asked)
        )
    )
    totals = replayed(entries).own

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
    assert replayed(entries[:cut], entries[cut:]) == replayed(entries)
    assert replayed(entries).faults == []


def test_entries_about_other_things_count_for_nothing():
    refused = Refusal(reason="CAP", message="full", cap=CAP, used=1, limit=1)
    asked = SpendRequest(key="k1", connector="lusha", amounts={"credits": 1})
    entries = ledger(
        NewEntry(at=NOW, kind="STARTED", subject="upkeep", reason=""),
        build_refused_entry(asked, refused, now=NOW),
        build_cap_entry(CapChange(cap=CAP, limit=3), now=NOW),
        build_stop_entry("", reason="", now=NOW),
        build_resume_entry("", now=NOW),
        NewEntry(at=NOW, kind="HELD", subject="k1", reason="no such entry is ever written"),
    )
    replay = replayed(entries)
    assert (replay.own, replay.shared, replay.open, replay.faults) == ({}, {}, {}, [])


OPEN, BACK = story(hold())[0], story(hold(), back)[0]
SETTLED, LATE = story(hold(), paid(credits=2))[0], story(hold(), back, paid(credits=2))[0]
COST_2 = {**NOTHING, (CAP, "w1"): Totals(settled=2)}


@pytest.mark.parametrize(
    ("notes", "totals", "faults"),
    [
        (OPEN * 2, PROMISED, ["2 reserves k1 a second time"]),
        ([*BACK, *OPEN], NOTHING, ["3 reserves k1 a second time"]),
        ([*SETTLED, *OPEN], COST_2, ["3 reserves k1 a second time"]),
        ([SETTLED[1], *OPEN], PROMISED, ["1 says SETTLED of k1, which was never reserved"]),
        ([*SETTLED, SETTLED[1]], COST_2, ["3 says SETTLED of k1, which was closed before"]),
        *(
            (
                [*BACK, replace(BACK[1], kind=kind)],
                NOTHING,
                [f"3 says {kind} of k1, which was closed before"],
            )
            for kind in ("SENT", "RELEASED", "EXPIRED")
        ),
        (
            [*LATE[:2], replace(LATE[2], data={}), LATE[2], LATE[2]],
            COST_2,
            [
                "3 does not say what was charged",
                "5 says SETTLED of k1, which was closed before",
            ],
        ),
    ],
)
def test_an_entry_that_contradicts_earlier_ones_counts_for_nothing_and_is_named(
    notes, totals, faults
):
    replay = replayed(ledger(*notes))
    assert replay.own == totals
    assert replay.faults == [f"entry {fault}" for fault in faults]


def test_a_key_is_good_again_once_its_reservation_may_have_been_deleted():
    for age, faults in ((RETENTION, 0), (RETENTION - timedelta(seconds=1), 1)):
        again = replace(OPEN[0], at=NOW + age)
        replay = replayed(ledger(*BACK, again, replace(SETTLED[1], at=NOW + age)))
        assert len(replay.faults) == faults
        assert replay.own == COST_2


def test_a_partial_replay_passes_over_what_began_before_it():
    replay = Replay(partial=True)
    replay.read(ledger(SETTLED[1], *BACK, BACK[1])[0:])
    assert replay.own == NOTHING
    assert replay.faults == ["entry 4 says RELEASED of k1, which was closed before"]


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
    replay = replayed(ledger(replace(note, data=data)))
    assert (replay.own, replay.shared, replay.open) == ({}, {}, {})
    assert replay.faults == ["entry 1 does not say what was charged"]


@pytest.mark.parametrize(
    "data", [{}, {"actual": None}, {"actual": {"credits": "x"}}, {"actual": [1]}]
)
def test_a_settlement_that_cannot_be_read_leaves_the_promise_standing(data):
    notes, _ = story(hold(), paid(credits=2))
    replay = replayed(ledger(notes[0], replace(notes[1], data=data)))
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


@pytest.mark.parametrize(
    ("stored", "differs"),
    [
        (Totals(), False),
        (Totals(settled=3), False),
        (Totals(settled=4), False),
        (Totals(settled=5), True),
        (Totals(reserved=1), True),
    ],
)
def test_of_an_old_window_less_may_be_left_and_never_more(stored, differs):
    place, settled = (CAP, "day 2026-11-16T00:00:00+00:00"), Totals(settled=4)
    later = NOW + RETENTION
    assert bool(find_differences({place: settled}, {place: stored}, now=later)) is differs
    assert bool(find_differences({place: settled}, {place: stored}, now=NOW)) is (settled != stored)
