from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError, ConflictError
from stoker.budgets.charges import Charge, SpendRequest
from stoker.budgets.reservations import (
    OPEN_STATUSES,
    Reservation,
    ReservationStatus,
    build_reservation,
    compute_overrun,
    compute_totals,
    expire_reservation,
    is_settled_late,
    mark_sent,
    mark_uncertain,
    release_reservation,
    settle_reservation,
)

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)
UNTIL = NOW + timedelta(minutes=2)
LATER = NOW + timedelta(minutes=1)
TICK = timedelta.resolution
CREDITS, MONEY = "tenant_connector/lusha/credits/day", "tenant/*/money:USD/week"
CHARGES = tuple(
    Charge(
        cap=cap,
        shared=False,
        window="w1",
        amount=amount,
        limit=100,
        ends_at=NOW + timedelta(days=1),
        reason="CAP",
    )
    for cap, amount in ((CREDITS, 3), (MONEY, 20))
)
ASKED = SpendRequest(
    key="k1",
    connector="lusha",
    amounts={"credits": 3, "money:USD": 20},
    run="r1",
    account="a1",
    sends_at_once=False,
)
COST = {"credits": 2, "money:USD": 30}


def hold(phase=ReservationStatus.RESERVED, **said):
    fresh = build_reservation(ASKED, CHARGES, owner="me", until=UNTIL, now=NOW)
    known = {"actual": COST, "closed_at": NOW} if phase is ReservationStatus.SETTLED else {}
    return replace(fresh, status=phase, **known, **said)


phases = st.sampled_from(ReservationStatus)


def test_a_granted_request_becomes_a_promise_with_all_that_was_asked():
    assert build_reservation(ASKED, CHARGES, owner="me", until=UNTIL, now=NOW) == Reservation(
        key="k1",
        connector="lusha",
        fingerprint=ASKED.fingerprint,
        amounts={"credits": 3, "money:USD": 20},
        charges=CHARGES,
        status=ReservationStatus.RESERVED,
        owner="me",
        until=UNTIL,
        reserved_at=NOW,
        run="r1",
        account="a1",
    )


def test_a_promise_that_may_be_acted_on_at_once_counts_as_sent():
    at_once = replace(ASKED, sends_at_once=True)

    assert (
        build_reservation(at_once, CHARGES, owner="me", until=UNTIL, now=NOW).status
        is ReservationStatus.SENT
    )


def test_a_held_promise_can_be_sent_and_the_second_time_is_the_first():
    once = mark_sent(hold())

    assert once == replace(hold(), status=ReservationStatus.SENT)
    assert mark_sent(once) is once


@pytest.mark.parametrize(
    "phase",
    [
        ReservationStatus.UNCERTAIN,
        ReservationStatus.SETTLED,
        ReservationStatus.RELEASED,
        ReservationStatus.EXPIRED,
    ],
    ids=str,
)
def test_what_is_no_longer_held_cannot_be_sent(phase):
    with pytest.raises(ConflictError, match=f"k1 is {phase}; it cannot be sent any more"):
        mark_sent(hold(phase))


@pytest.mark.parametrize("phase", sorted(OPEN_STATUSES), ids=str)
def test_an_open_promise_can_be_settled_as_it_was_be_it_more_than_promised(phase):
    done = settle_reservation(hold(phase), COST, now=LATER)

    assert done == replace(
        hold(phase), status=ReservationStatus.SETTLED, actual=COST, closed_at=LATER
    )


def test_settling_twice_with_the_same_numbers_changes_nothing():
    done = settle_reservation(hold(), COST, now=LATER)

    assert settle_reservation(done, dict(COST), now=LATER + TICK) is done


def test_settling_twice_with_other_numbers_is_a_conflict():
    with pytest.raises(ConflictError, match="k1 is SETTLED already; it cannot be settled"):
        settle_reservation(hold(ReservationStatus.SETTLED), {**COST, "credits": 3}, now=LATER)


@pytest.mark.parametrize("phase", [ReservationStatus.RELEASED, ReservationStatus.EXPIRED], ids=str)
def test_what_was_given_back_and_cost_something_all_the_same_is_settled_late(phase):
    back = hold(phase, closed_at=NOW, reason="nothing was done")
    late = settle_reservation(back, COST, now=LATER)

    assert late == replace(
        back, status=ReservationStatus.SETTLED, actual=COST, closed_at=LATER, reason="SETTLED_LATE"
    )
    assert is_settled_late(late)
    assert compute_overrun(late) == COST  # nothing was promised for it any more
    assert compute_totals(late) == {(CREDITS, "w1"): (2, 0), (MONEY, "w1"): (30, 0)}
    assert settle_reservation(late, dict(COST), now=LATER + TICK) is late


def test_one_unit_that_cost_something_is_enough_to_be_settled_late():
    assert (
        settle_reservation(hold(ReservationStatus.RELEASED), {"credits": 1}, now=LATER).status
        is ReservationStatus.SETTLED
    )


@pytest.mark.parametrize("phase", [ReservationStatus.RELEASED, ReservationStatus.EXPIRED], ids=str)
@pytest.mark.parametrize("cost", [{}, {"credits": 0}], ids=str)
def test_that_what_was_given_back_cost_nothing_is_no_news(phase, cost):
    back = hold(phase, closed_at=NOW)

    assert settle_reservation(back, cost, now=LATER) is back


def test_what_was_settled_in_time_is_not_late():
    assert not is_settled_late(settle_reservation(hold(), COST, now=LATER))
    assert not is_settled_late(
        settle_reservation(hold(ReservationStatus.UNCERTAIN, reason="?"), COST, now=LATER)
    )
    assert not is_settled_late(hold(ReservationStatus.RELEASED, reason="SETTLED_LATE"))


def test_what_was_not_said_to_have_been_used_counts_as_nothing():
    done = settle_reservation(hold(), {"credits": 1}, now=LATER)

    assert done.actual == {"credits": 1, "money:USD": 0}
    assert settle_reservation(done, {"credits": 1}, now=LATER) is done


@pytest.mark.parametrize(
    ("actual", "kind", "problem"),
    [
        (
            {"calls": 1, "tokens": 1, "credits": 1},
            ConflictError,
            "did not reserve any calls, tokens",
        ),
        ({"pounds": 1}, ConfigError, "is no unit"),
        ({"credits": -1}, ConfigError, "k1: credits is -1"),
        ({"credits": 10**16}, ConfigError, "k1: credits is 1"),
    ],
)
def test_a_cost_that_cannot_be_meant_leaves_the_promise_standing(actual, kind, problem):
    with pytest.raises(kind, match=problem):
        settle_reservation(hold(), actual, now=LATER)


@pytest.mark.parametrize("phase", sorted(OPEN_STATUSES), ids=str)
def test_an_open_promise_can_be_given_back(phase):
    back = release_reservation(hold(phase), now=LATER, reason="nothing was done")

    assert back == replace(
        hold(phase), status=ReservationStatus.RELEASED, closed_at=LATER, reason="nothing was done"
    )
    assert release_reservation(back, now=LATER + TICK, reason="again") is back


def test_what_has_expired_is_given_back_already():
    gone = hold(ReservationStatus.EXPIRED)

    assert release_reservation(gone, now=LATER, reason="late") is gone


def test_what_is_settled_cannot_be_given_back():
    with pytest.raises(ConflictError, match="k1 is settled already; it cannot be released"):
        release_reservation(hold(ReservationStatus.SETTLED), now=LATER, reason="oh")


@pytest.mark.parametrize("phase", [ReservationStatus.RESERVED, ReservationStatus.SENT], ids=str)
def test_a_promise_of_unknown_outcome_is_kept_aside_and_the_second_time_is_the_first(phase):
    aside = mark_uncertain(hold(phase), reason="no answer")

    assert aside == replace(hold(phase), status=ReservationStatus.UNCERTAIN, reason="no answer")
    assert mark_uncertain(aside, reason="still none") is aside


def test_a_promise_whose_cost_is_known_is_not_kept_aside():
    with pytest.raises(ConflictError, match="k1 is SETTLED already; its outcome is known"):
        mark_uncertain(hold(ReservationStatus.SETTLED), reason="?")


@pytest.mark.parametrize("phase", [ReservationStatus.RELEASED, ReservationStatus.EXPIRED], ids=str)
def test_what_was_given_back_counts_as_promised_again_when_its_outcome_is_unknown(phase):
    aside = mark_uncertain(hold(phase, closed_at=NOW, reason="no"), reason="no answer")

    assert aside == replace(hold(), status=ReservationStatus.UNCERTAIN, reason="no answer")
    assert compute_totals(aside) == compute_totals(hold())


@given(phases)
def test_a_promise_stays_as_it_is_until_its_lease_has_ended(phase):
    standing = hold(phase)

    assert expire_reservation(standing, now=UNTIL - TICK) is standing


def test_a_promise_never_acted_on_comes_back_when_its_lease_ends():
    gone = expire_reservation(hold(), now=UNTIL)

    assert (gone.status, gone.closed_at) == (ReservationStatus.EXPIRED, UNTIL)
    assert gone.reason == "its worker sent no heartbeat in time"


def test_a_promise_that_may_have_been_acted_on_is_kept_aside_when_its_lease_ends():
    aside = expire_reservation(hold(ReservationStatus.SENT), now=UNTIL)

    assert (aside.status, aside.closed_at) == (ReservationStatus.UNCERTAIN, None)
    assert aside.reason == "its worker sent no heartbeat after the request may have been sent"


@pytest.mark.parametrize(
    "phase",
    sorted(set(ReservationStatus) - {ReservationStatus.RESERVED, ReservationStatus.SENT}),
    ids=str,
)
def test_what_is_kept_aside_or_closed_does_not_lapse(phase):
    standing = hold(phase)

    assert expire_reservation(standing, now=UNTIL + timedelta(days=999)) is standing


@given(phases)
def test_a_promise_counts_as_reserved_while_it_is_open_as_spent_once_settled_else_not_at_all(phase):
    spent_credits, spent_money = {
        ReservationStatus.SETTLED: ((2, 0), (30, 0)),
        ReservationStatus.RELEASED: ((0, 0), (0, 0)),
        ReservationStatus.EXPIRED: ((0, 0), (0, 0)),
    }.get(phase, ((0, 3), (0, 20)))

    assert compute_totals(hold(phase)) == {
        (CREDITS, "w1"): spent_credits,
        (MONEY, "w1"): spent_money,
    }


def test_a_settled_promise_counts_nothing_for_a_unit_nobody_named():
    assert compute_totals(
        hold(
            ReservationStatus.SETTLED,
        )
    )[CREDITS, "w1"] == (2, 0)
    assert compute_totals(replace(hold(ReservationStatus.SETTLED), actual={}))[CREDITS, "w1"] == (
        0,
        0,
    )


def test_an_overrun_is_what_was_paid_above_the_promise_unit_by_unit():
    assert compute_overrun(hold(ReservationStatus.SETTLED)) == {"money:USD": 10}
    assert compute_overrun(
        replace(hold(ReservationStatus.SETTLED), actual={"credits": 3, "money:USD": 21})
    ) == {"money:USD": 1}
    assert (
        compute_overrun(
            replace(hold(ReservationStatus.SETTLED), actual={"credits": 3, "money:USD": 20})
        )
        == {}
    )
    assert compute_overrun(replace(hold(ReservationStatus.SETTLED), actual={})) == {}


@pytest.mark.parametrize(
    "phase", sorted(set(ReservationStatus) - {ReservationStatus.SETTLED}), ids=str
)
def test_there_is_no_overrun_before_the_cost_is_known(phase):
    assert compute_overrun(replace(hold(phase), actual={"credits": 99})) == {}


def test_money_we_are_unsure_about_is_open():
    assert (
        frozenset({ReservationStatus.RESERVED, ReservationStatus.SENT, ReservationStatus.UNCERTAIN})
        == OPEN_STATUSES
    )


def test_phases_keep_the_names_that_stores_have_written_down():
    assert [phase.value for phase in ReservationStatus] == [
        "HELD",
        "SENT",
        "UNCERTAIN",
        "SETTLED",
        "RELEASED",
        "EXPIRED",
    ]


def test_a_fresh_promise_has_no_cost_no_end_and_nothing_to_explain():
    fresh = hold()

    assert (fresh.actual, fresh.closed_at, fresh.reason) == ({}, None, "")
