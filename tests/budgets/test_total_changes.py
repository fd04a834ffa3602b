"""Moves change totals by exactly what they say, in one order, and new promises keep to limits."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import SpendRequest, list_charges
from stoker.budgets.ledger_entries import build_reserved_entry, build_status_entry
from stoker.budgets.reservations import (
    ReservationChange,
    build_reservation,
    compute_totals,
    expire_reservation,
    list_total_changes,
    mark_sent,
    mark_uncertain,
    release_reservation,
    settle_reservation,
)
from stoker.budgets.windows import ResetRule, WindowKind

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
CAPS = [
    Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=100),
    Cap(scope=Scope.CONNECTOR, unit="credits", window=WindowKind.DAY, limit=90, connector="lusha"),
    Cap(scope=Scope.TENANT, unit="calls", window=WindowKind.HOUR, limit=80),
]


def promise(key="k", credits_=10, calls=0, *, now=NOW, at_once=True):
    request = SpendRequest(
        key=key,
        connector="lusha",
        amounts={"credits": credits_, "calls": calls},
        sends_at_once=at_once,
    )
    wanted = tuple(list_charges(request, CAPS, {}, reset=ResetRule(), now=now))
    return build_reservation(request, wanted, owner="me", until=now, now=now)


def given_move(hold):
    return ReservationChange(before=None, after=hold, entry=build_reserved_entry(hold, now=NOW))


def later_move(before, after):
    return ReservationChange(
        before=before, after=after, entry=build_status_entry(before, after, now=LATER)
    )


def changed(*moves):
    return {
        (each.cap.split("/")[0], each.cap.split("/")[2]): (each.settled, each.reserved, each.limit)
        for each in list_total_changes(moves)
    }


def test_a_new_promise_reserves_within_the_limit_of_each_cap():
    assert changed(given_move(promise(calls=2))) == {
        ("connector", "credits"): (0, 10, 90),
        ("tenant", "credits"): (0, 10, 100),
        ("tenant", "calls"): (0, 2, 80),
    }


def test_what_was_carried_over_leaves_less_room_under_the_limit():
    hold = promise()
    fuller = replace(hold, charges=tuple(replace(one, overlap_amount=30) for one in hold.charges))
    assert changed(given_move(fuller))["tenant", "credits"] == (0, 10, 70)


def test_a_cost_that_came_late_is_added_and_a_promise_taken_up_again_counts_again():
    hold = promise(at_once=False)
    back = release_reservation(hold, now=LATER, reason="")
    assert changed(later_move(back, settle_reservation(back, {"credits": 25}, now=LATER))) == {
        ("connector", "credits"): (25, 0, None),
        ("tenant", "credits"): (25, 0, None),
    }
    assert changed(later_move(back, mark_uncertain(back, reason=""))) == {
        ("connector", "credits"): (0, 10, None),
        ("tenant", "credits"): (0, 10, None),
    }


def test_a_promise_of_nothing_is_still_held_to_the_limit():
    assert changed(given_move(promise(credits_=0)))["tenant", "credits"] == (0, 0, 100)


def test_shared_caps_come_first_and_then_all_by_name_and_window():
    tomorrow = promise("b", now=NOW + timedelta(days=1))
    moves = [given_move(tomorrow), given_move(promise("a"))]
    order = [(not each.shared, each.cap, each.window) for each in list_total_changes(moves)]
    assert order == sorted(order)
    assert order == [(not e.shared, e.cap, e.window) for e in list_total_changes(moves[::-1])]
    assert len(order) == 6


def test_settling_moves_what_was_promised_into_what_it_cost_and_asks_no_limit():
    hold = promise(calls=1)
    after = settle_reservation(hold, {"credits": 25}, now=LATER)
    assert changed(later_move(hold, after)) == {
        ("connector", "credits"): (25, -10, None),
        ("tenant", "credits"): (25, -10, None),
        ("tenant", "calls"): (0, -1, None),
    }


def test_giving_back_takes_away_the_promise_and_moving_on_changes_no_total():
    hold = promise(at_once=False)
    back = {("connector", "credits"): (0, -10, None), ("tenant", "credits"): (0, -10, None)}
    assert changed(later_move(hold, release_reservation(hold, now=LATER, reason=""))) == back
    assert changed(later_move(hold, expire_reservation(hold, now=LATER))) == back
    assert changed(later_move(hold, mark_sent(hold))) == {}
    assert changed(later_move(hold, mark_uncertain(hold, reason=""))) == {}


def test_many_moves_are_summed_up():
    one, two = promise("a"), promise("b", 5)
    both = changed(
        later_move(one, settle_reservation(one, {"credits": 3}, now=LATER)),
        later_move(two, release_reservation(two, now=LATER, reason="")),
    )
    assert both["tenant", "credits"] == (3, -15, None)


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from("srul"), st.integers(0, 40))))
def test_totals_are_always_what_the_promises_count(stories):
    totals, holds = {}, []
    for nth, (credits_, fate, cost) in enumerate(stories):
        hold = promise(f"k{nth}", credits_, at_once=cost % 2 == 0)
        ends = {
            "s": lambda hold=hold, cost=cost: settle_reservation(
                hold, {"credits": cost}, now=LATER
            ),
            "r": lambda hold=hold: release_reservation(hold, now=LATER, reason=""),
            "u": lambda hold=hold: mark_uncertain(hold, reason=""),
            "l": lambda hold=hold: expire_reservation(hold, now=LATER),
        }
        after = ends[fate]()
        holds.append(after)
        for change in list_total_changes([given_move(hold)]) + list_total_changes(
            [later_move(hold, after)]
        ):
            place = (change.cap, change.window)
            settled_so_far, reserved = totals.get(place, (0, 0))
            totals[place] = (settled_so_far + change.settled, reserved + change.reserved)
    expected = {}
    for hold in holds:
        for place, (used, promised) in compute_totals(hold).items():
            before = expected.get(place, (0, 0))
            expected[place] = (before[0] + used, before[1] + promised)
    assert totals == expected


def test_shared_caps_come_first_and_each_change_says_which_kind_it_is():
    found = list_total_changes([given_move(promise(calls=2))])
    assert [(each.shared, each.cap) for each in found] == [
        (True, "connector/lusha/credits/day"),
        (False, "tenant/*/calls/hour"),
        (False, "tenant/*/credits/day"),
    ]
