from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.budgets.caps import CapChange, parse_cap
from stoker.budgets.charges import Charge, SpendRequest, Totals, list_charges
from stoker.budgets.reservations import (
    build_reservation,
    mark_uncertain,
    release_reservation,
    settle_reservation,
)
from stoker.budgets.statements import (
    CapBalance,
    compute_left,
    find_mismatches,
    list_balances,
    list_current_balances,
)
from stoker.budgets.windows import ResetRule

NOW = datetime(2030, 1, 1, 12, 48, tzinfo=UTC)
SINGAPORE = ResetRule(zone="Asia/Singapore", at=time(0, 0))
DAY = parse_cap("tenant/*/calls/day", limit=10)
RUN = parse_cap("tenant_connector/tavily/calls/run", limit=4)
SHARED = parse_cap("connector/tavily/calls/day", limit=100)
TODAY = "day 2029-12-31T16:00:00+00:00"
YESTERDAY = "day 2029-12-30T16:00:00+00:00"


def stated(*caps, used=None, changes=None, now=NOW):
    return list_balances(caps, changes or {}, used or {}, reset=SINGAPORE, now=now)


def hold(key, calls, *, now=NOW, caps=(DAY,)):
    request = SpendRequest(key=key, connector="tavily", amounts={"calls": calls}, run="r")
    wanted = tuple(list_charges(request, caps, {}, reset=SINGAPORE, now=now))
    return build_reservation(request, wanted, owner="w", until=now + timedelta(hours=1), now=now)


def test_a_cap_says_when_it_resets_as_its_tenant_reads_it():
    [line] = stated(DAY)

    assert (line.cap, line.window) == (DAY.id, TODAY)
    assert line.resets == "resets in 3 h 12 m (00:00 +08)"


def test_a_cap_that_tenants_share_resets_in_utc():
    [line] = stated(SHARED)

    assert line.resets == "resets in 11 h 12 m (00:00 UTC)"


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_settled_reserved_and_free_add_up_to_the_limit_and_what_is_over(limit, spent, promised):
    change = {DAY.id: CapChange(cap=DAY.id, limit=limit)}
    used = {(DAY.id, TODAY): Totals(settled=spent, reserved=promised)}
    [line] = stated(DAY, used=used, changes=change)

    assert line.used.settled + line.used.reserved + line.free - line.over == line.limit == limit
    assert line.free >= 0
    assert line.over >= 0
    assert 0 in (line.free, line.over)


def test_a_raise_is_shown_while_it_is_in_force_and_not_after():
    until = NOW + timedelta(hours=1)
    change = {DAY.id: CapChange(cap=DAY.id, raised_to=50, raised_until=until)}

    [during] = stated(DAY, changes=change)
    assert (during.limit, during.raised_until) == (50, until)
    [after] = stated(DAY, changes=change, now=until)
    assert (after.limit, after.raised_until) == (10, None)


def test_an_ended_window_is_shown_as_long_as_something_is_reserved_in_it():
    used = {
        (DAY.id, YESTERDAY): Totals(settled=3, reserved=1),
        (DAY.id, "day 2029-12-29T16:00:00+00:00"): Totals(settled=9),
        (DAY.id, TODAY): Totals(settled=2),
    }
    lines = stated(DAY, used=used)

    assert [(line.window, line.used.settled, line.resets) for line in lines] == [
        (YESTERDAY, 3, "this window has ended"),
        (TODAY, 2, "resets in 3 h 12 m (00:00 +08)"),
    ]


def test_what_overlapping_windows_gave_away_is_in_the_window_of_now():
    before = "day 2029-12-31T18:00:00+00:00"  # from when days began at another time
    used = {
        (DAY.id, before): Totals(settled=3, reserved=1),
        (DAY.id, TODAY): Totals(settled=1),
        (DAY.id, YESTERDAY): Totals(settled=9),
    }
    lines = stated(DAY, used=used)

    assert [(line.window, line.used, line.free, line.resets) for line in lines] == [
        (TODAY, Totals(settled=3, reserved=1), 6, "resets in 3 h 12 m (00:00 +08)"),
        (before, Totals(settled=3, reserved=1), 6, "counts in the window of now too"),
    ]
    [only] = stated(DAY, used=used | {(DAY.id, before): Totals(settled=4)})
    assert only.used == Totals(settled=4)


def test_a_cap_per_run_has_a_line_for_each_run_with_promises_and_for_the_latest():
    used = {
        (RUN.id, "run 20300101_010000"): Totals(reserved=1),
        (RUN.id, "run 20300101_020000"): Totals(settled=2),
        (RUN.id, "run 20300101_030000"): Totals(settled=3),
    }
    lines = stated(RUN, used=used)

    assert [line.window for line in lines] == ["run 20300101_010000", "run 20300101_030000"]
    assert {line.resets for line in lines} == {"does not reset; the next run has its own"}


def test_a_cap_per_run_before_any_run_is_all_free():
    [line] = stated(RUN)

    assert (line.window, line.free, line.limit) == ("run", 4, 4)


def test_promises_under_a_cap_that_is_gone_are_still_shown():
    used = {("tenant/*/tokens/day", TODAY): Totals(settled=1, reserved=5)}
    gone, _ = sorted(stated(DAY, used=used), key=lambda line: line.limit is not None)

    assert (gone.cap, gone.limit, gone.free, gone.over) == ("tenant/*/tokens/day", None, 0, 0)
    assert gone.resets == "there is no such cap any more"
    assert len(stated(DAY, used={("tenant/*/tokens/day", TODAY): Totals(settled=1)})) == 1


def test_lines_are_sorted_by_cap():
    lines = stated(SHARED, RUN, DAY)

    assert [line.cap for line in lines] == [SHARED.id, DAY.id, RUN.id]


def test_open_promises_explain_what_is_reserved():
    promises = [
        hold("a", 3),
        mark_uncertain(hold("b", 2), reason=""),
        settle_reservation(hold("c", 5), {"calls": 5}, now=NOW),
        release_reservation(hold("d", 1), reason="", now=NOW),
    ]

    assert find_mismatches(promises, {(DAY.id, TODAY): Totals(settled=5, reserved=5)}) == []
    assert find_mismatches([], {}) == []


@pytest.mark.parametrize(
    ("promises", "used", "sentence"),
    [
        (
            [hold("a", 3)],
            Totals(reserved=2),
            "2 is reserved, but its open reservations add up to 3",
        ),
        ([hold("a", 3)], Totals(), "0 is reserved, but its open reservations add up to 3"),
        ([], Totals(reserved=1), "1 is reserved, but its open reservations add up to 0"),
    ],
)
def test_what_is_reserved_without_a_promise_or_promised_without_being_reserved_is_told(
    promises, used, sentence
):
    [told] = find_mismatches(promises, {(DAY.id, TODAY): used})

    assert told == f"{DAY.id} in {TODAY}: {sentence}"


def test_a_promise_without_any_total_is_told():
    assert len(find_mismatches([hold("a", 3)], {})) == 1


def test_what_is_taken_from_shared_caps_is_not_held_against_a_tenants_totals():
    both = hold("a", 3, caps=(DAY, SHARED))

    assert any(isinstance(charge, Charge) and charge.shared for charge in both.charges)
    assert find_mismatches([both], {(DAY.id, TODAY): Totals(reserved=3)}) == []


def left(*caps, used=None, changes=None):
    found = compute_left(
        ["tavily", "openai", ""], caps, changes or {}, used or {}, reset=SINGAPORE, now=NOW
    )
    return [units.get("calls") for units in found.values()]


def test_what_is_left_is_what_the_narrowest_cap_leaves():
    loose = parse_cap("tenant_connector/tavily/calls/day", limit=1000)
    tight = parse_cap("tenant_connector/tavily/calls/week", limit=3)
    assert left() == [None, None, None]
    assert left(DAY, loose) == left(loose, DAY) == [10, 10, 10]
    assert left(DAY, loose, tight, used={(DAY.id, TODAY): Totals(settled=2, reserved=1)}) == [
        3,
        7,
        7,
    ]


def test_of_caps_that_tenants_share_what_is_left_in_their_own_window_counts():
    shared_day = "day 2030-01-01T00:00:00+00:00"
    used = {(SHARED.id, shared_day): Totals(settled=95), (SHARED.id, TODAY): Totals(settled=100)}
    assert left(DAY, SHARED, used=used) == [5, 10, 10]


def test_a_cap_per_run_is_unused_by_the_run_that_begins():
    used = {(RUN.id, "run r"): Totals(settled=4)}
    changed = {RUN.id: CapChange(cap=RUN.id, limit=6)}
    assert left(DAY, RUN, used=used) == [4, 10, 10]
    assert left(DAY, RUN, used=used, changes=changed) == [6, 10, 10]


def test_a_cap_that_is_gone_has_nothing_free_and_is_never_over():
    gone = CapBalance(cap=DAY.id, window=TODAY, used=Totals(), limit=None, resets="")

    assert (gone.free, gone.over) == (0, 0)


def test_current_balances_are_those_of_own_caps_that_reset():
    found = list_current_balances((DAY, RUN, SHARED), {}, {}, reset=SINGAPORE, now=NOW)

    assert [(cap.id, line.window) for cap, line, _ in found] == [(DAY.id, TODAY)]
