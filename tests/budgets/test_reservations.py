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
    return replace(fresh, status=phase, **known | said)


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


HELD, SENT, UNCERTAIN, SETTLED, RELEASED, EXPIRED = ReservationStatus
NO_HEARTBEAT = "its worker sent no heartbeat in time"
MAYBE_SENT = "its worker sent no heartbeat after the request may have been sent"
# What a verb does, and what becomes of a reservation in each status; None: it is a conflict.
VERBS = {
    "send": (mark_sent, [SENT, SENT, None, None, None, None]),
    "settle": (
        lambda hold: settle_reservation(hold, COST, now=LATER),
        [SETTLED, SETTLED, SETTLED, SETTLED, SETTLED, SETTLED],
    ),
    "settle otherwise": (
        lambda hold: settle_reservation(hold, {**COST, "credits": 3}, now=LATER),
        [SETTLED, SETTLED, SETTLED, None, SETTLED, SETTLED],
    ),
    "release": (
        lambda hold: release_reservation(hold, now=LATER, reason="nothing was done"),
        [RELEASED, RELEASED, RELEASED, None, RELEASED, EXPIRED],
    ),
    "doubt": (
        lambda hold: mark_uncertain(hold, reason="no answer"),
        [UNCERTAIN, UNCERTAIN, UNCERTAIN, None, UNCERTAIN, UNCERTAIN],
    ),
    "expire": (
        lambda hold: expire_reservation(hold, now=UNTIL),
        [EXPIRED, UNCERTAIN, UNCERTAIN, SETTLED, RELEASED, EXPIRED],
    ),
}
CHANGED = {
    ("send", HELD): {},
    **{
        ("release", before): {"closed_at": LATER, "reason": "nothing was done"}
        for before in OPEN_STATUSES
    },
    **{
        ("doubt", before): {"closed_at": None, "reason": "no answer"}
        for before in ReservationStatus
    },
    ("expire", HELD): {"closed_at": UNTIL, "reason": NO_HEARTBEAT},
    ("expire", SENT): {"reason": MAYBE_SENT},
}


@pytest.mark.parametrize("before", ReservationStatus, ids=str)
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_changes_the_statuses_it_may_once(verb, before):
    change, ends = VERBS[verb]
    after = ends[list(ReservationStatus).index(before)]
    closed = {} if before in OPEN_STATUSES else {"closed_at": NOW}
    start = hold(before, **closed)
    if after is None:
        with pytest.raises(ConflictError, match=f"(?i)^k1 is {before}( already)?; it"):
            change(start)
        return
    end = change(start)
    assert change(end) is end
    if after is before:
        assert end is start
    elif after is SETTLED:
        late = {} if before in OPEN_STATUSES else {"reason": "SETTLED_LATE"}
        assert end == replace(start, status=SETTLED, actual=end.actual, closed_at=LATER, **late)
        assert end.actual == COST if verb == "settle" else {**COST, "credits": 3}
    else:
        assert end == replace(start, status=after, **CHANGED[verb, before])


@pytest.mark.parametrize("phase", ReservationStatus, ids=str)
def test_no_promise_lapses_before_its_lease_has_ended(phase):
    standing = hold(phase)
    assert expire_reservation(standing, now=UNTIL - TICK) is standing


@pytest.mark.parametrize("phase", [ReservationStatus.RELEASED, ReservationStatus.EXPIRED], ids=str)
def test_what_was_given_back_and_cost_something_all_the_same_is_settled_late(phase):
    back = hold(phase, closed_at=NOW, reason="nothing was done")
    late = settle_reservation(back, COST, now=LATER)

    assert is_settled_late(late)
    assert compute_overrun(late) == COST  # nothing was promised for it any more
    assert compute_totals(late) == {(CREDITS, "w1"): (2, 0), (MONEY, "w1"): (30, 0)}


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
