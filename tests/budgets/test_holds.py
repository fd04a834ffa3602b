from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError, ConflictError
from stoker.budgets.charges import Charge, Request
from stoker.budgets.reservations import (
    OPEN,
    Hold,
    Phase,
    counts,
    held,
    lapsed,
    overrun,
    released,
    sent,
    settled,
    settled_late,
    uncertain,
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
ASKED = Request(
    key="k1",
    connector="lusha",
    amounts={"credits": 3, "money:USD": 20},
    run="r1",
    account="a1",
    sends_at_once=False,
)
COST = {"credits": 2, "money:USD": 30}


def hold(phase=Phase.HELD, **said):
    fresh = held(ASKED, CHARGES, owner="me", until=UNTIL, now=NOW)
    known = {"actual": COST, "closed_at": NOW} if phase is Phase.SETTLED else {}
    return replace(fresh, phase=phase, **known, **said)


phases = st.sampled_from(Phase)


def test_a_granted_request_becomes_a_promise_with_all_that_was_asked():
    assert held(ASKED, CHARGES, owner="me", until=UNTIL, now=NOW) == Hold(
        key="k1",
        connector="lusha",
        fingerprint=ASKED.fingerprint,
        amounts={"credits": 3, "money:USD": 20},
        charges=CHARGES,
        phase=Phase.HELD,
        owner="me",
        until=UNTIL,
        reserved_at=NOW,
        run="r1",
        account="a1",
    )


def test_a_promise_that_may_be_acted_on_at_once_counts_as_sent():
    at_once = replace(ASKED, sends_at_once=True)

    assert held(at_once, CHARGES, owner="me", until=UNTIL, now=NOW).phase is Phase.SENT


def test_a_held_promise_can_be_sent_and_the_second_time_is_the_first():
    once = sent(hold())

    assert once == replace(hold(), phase=Phase.SENT)
    assert sent(once) is once


@pytest.mark.parametrize(
    "phase", [Phase.UNCERTAIN, Phase.SETTLED, Phase.RELEASED, Phase.EXPIRED], ids=str
)
def test_what_is_no_longer_held_cannot_be_sent(phase):
    with pytest.raises(ConflictError, match=f"k1 is {phase}; it cannot be sent any more"):
        sent(hold(phase))


@pytest.mark.parametrize("phase", sorted(OPEN), ids=str)
def test_an_open_promise_can_be_settled_as_it_was_be_it_more_than_promised(phase):
    done = settled(hold(phase), COST, now=LATER)

    assert done == replace(hold(phase), phase=Phase.SETTLED, actual=COST, closed_at=LATER)


def test_settling_twice_with_the_same_numbers_changes_nothing():
    done = settled(hold(), COST, now=LATER)

    assert settled(done, dict(COST), now=LATER + TICK) is done


def test_settling_twice_with_other_numbers_is_a_conflict():
    with pytest.raises(ConflictError, match="k1 is SETTLED already; it cannot be settled"):
        settled(hold(Phase.SETTLED), {**COST, "credits": 3}, now=LATER)


@pytest.mark.parametrize("phase", [Phase.RELEASED, Phase.EXPIRED], ids=str)
def test_what_was_given_back_and_cost_something_all_the_same_is_settled_late(phase):
    back = hold(phase, closed_at=NOW, reason="nothing was done")
    late = settled(back, COST, now=LATER)

    assert late == replace(
        back, phase=Phase.SETTLED, actual=COST, closed_at=LATER, reason="SETTLED_LATE"
    )
    assert settled_late(late)
    assert overrun(late) == COST  # nothing was promised for it any more
    assert counts(late) == {(CREDITS, "w1"): (2, 0), (MONEY, "w1"): (30, 0)}
    assert settled(late, dict(COST), now=LATER + TICK) is late


def test_one_unit_that_cost_something_is_enough_to_be_settled_late():
    assert settled(hold(Phase.RELEASED), {"credits": 1}, now=LATER).phase is Phase.SETTLED


@pytest.mark.parametrize("phase", [Phase.RELEASED, Phase.EXPIRED], ids=str)
@pytest.mark.parametrize("cost", [{}, {"credits": 0}], ids=str)
def test_that_what_was_given_back_cost_nothing_is_no_news(phase, cost):
    back = hold(phase, closed_at=NOW)

    assert settled(back, cost, now=LATER) is back


def test_what_was_settled_in_time_is_not_late():
    assert not settled_late(settled(hold(), COST, now=LATER))
    assert not settled_late(settled(hold(Phase.UNCERTAIN, reason="?"), COST, now=LATER))
    assert not settled_late(hold(Phase.RELEASED, reason="SETTLED_LATE"))


def test_what_was_not_said_to_have_been_used_counts_as_nothing():
    done = settled(hold(), {"credits": 1}, now=LATER)

    assert done.actual == {"credits": 1, "money:USD": 0}
    assert settled(done, {"credits": 1}, now=LATER) is done


@pytest.mark.parametrize(
    ("actual", "kind", "problem"),
    [
        ({"calls": 1, "tokens": 1, "credits": 1}, ConflictError, "not promised any calls, tokens"),
        ({"pounds": 1}, ConfigError, "is no unit"),
        ({"credits": -1}, ConfigError, "k1: credits is -1"),
        ({"credits": 10**16}, ConfigError, "k1: credits is 1"),
    ],
)
def test_a_cost_that_cannot_be_meant_leaves_the_promise_standing(actual, kind, problem):
    with pytest.raises(kind, match=problem):
        settled(hold(), actual, now=LATER)


@pytest.mark.parametrize("phase", sorted(OPEN), ids=str)
def test_an_open_promise_can_be_given_back(phase):
    back = released(hold(phase), now=LATER, reason="nothing was done")

    assert back == replace(
        hold(phase), phase=Phase.RELEASED, closed_at=LATER, reason="nothing was done"
    )
    assert released(back, now=LATER + TICK, reason="again") is back


def test_what_has_expired_is_given_back_already():
    gone = hold(Phase.EXPIRED)

    assert released(gone, now=LATER, reason="late") is gone


def test_what_is_settled_cannot_be_given_back():
    with pytest.raises(ConflictError, match="k1 is settled already; it cannot be released"):
        released(hold(Phase.SETTLED), now=LATER, reason="oh")


@pytest.mark.parametrize("phase", [Phase.HELD, Phase.SENT], ids=str)
def test_a_promise_of_unknown_outcome_is_kept_aside_and_the_second_time_is_the_first(phase):
    aside = uncertain(hold(phase), reason="no answer")

    assert aside == replace(hold(phase), phase=Phase.UNCERTAIN, reason="no answer")
    assert uncertain(aside, reason="still none") is aside


def test_a_promise_whose_cost_is_known_is_not_kept_aside():
    with pytest.raises(ConflictError, match="k1 is SETTLED already; its outcome is known"):
        uncertain(hold(Phase.SETTLED), reason="?")


@pytest.mark.parametrize("phase", [Phase.RELEASED, Phase.EXPIRED], ids=str)
def test_what_was_given_back_counts_as_promised_again_when_its_outcome_is_unknown(phase):
    aside = uncertain(hold(phase, closed_at=NOW, reason="no"), reason="no answer")

    assert aside == replace(hold(), phase=Phase.UNCERTAIN, reason="no answer")
    assert counts(aside) == counts(hold())


@given(phases)
def test_a_promise_stays_as_it_is_until_its_lease_has_ended(phase):
    standing = hold(phase)

    assert lapsed(standing, now=UNTIL - TICK) is standing


def test_a_promise_never_acted_on_comes_back_when_its_lease_ends():
    gone = lapsed(hold(), now=UNTIL)

    assert (gone.phase, gone.closed_at) == (Phase.EXPIRED, UNTIL)
    assert gone.reason == "its owner was not heard of in time"


def test_a_promise_that_may_have_been_acted_on_is_kept_aside_when_its_lease_ends():
    aside = lapsed(hold(Phase.SENT), now=UNTIL)

    assert (aside.phase, aside.closed_at) == (Phase.UNCERTAIN, None)
    assert aside.reason == "its owner was not heard of after it may have been sent"


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.HELD, Phase.SENT}), ids=str)
def test_what_is_kept_aside_or_closed_does_not_lapse(phase):
    standing = hold(phase)

    assert lapsed(standing, now=UNTIL + timedelta(days=999)) is standing


@given(phases)
def test_a_promise_counts_as_reserved_while_it_is_open_as_spent_once_settled_else_not_at_all(phase):
    spent_credits, spent_money = {
        Phase.SETTLED: ((2, 0), (30, 0)),
        Phase.RELEASED: ((0, 0), (0, 0)),
        Phase.EXPIRED: ((0, 0), (0, 0)),
    }.get(phase, ((0, 3), (0, 20)))

    assert counts(hold(phase)) == {
        (CREDITS, "w1"): spent_credits,
        (MONEY, "w1"): spent_money,
    }


def test_a_settled_promise_counts_nothing_for_a_unit_nobody_named():
    assert counts(
        hold(
            Phase.SETTLED,
        )
    )[CREDITS, "w1"] == (2, 0)
    assert counts(replace(hold(Phase.SETTLED), actual={}))[CREDITS, "w1"] == (0, 0)


def test_an_overrun_is_what_was_paid_above_the_promise_unit_by_unit():
    assert overrun(hold(Phase.SETTLED)) == {"money:USD": 10}
    assert overrun(replace(hold(Phase.SETTLED), actual={"credits": 3, "money:USD": 21})) == {
        "money:USD": 1
    }
    assert overrun(replace(hold(Phase.SETTLED), actual={"credits": 3, "money:USD": 20})) == {}
    assert overrun(replace(hold(Phase.SETTLED), actual={})) == {}


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.SETTLED}), ids=str)
def test_there_is_no_overrun_before_the_cost_is_known(phase):
    assert overrun(replace(hold(phase), actual={"credits": 99})) == {}


def test_money_we_are_unsure_about_is_open():
    assert frozenset({Phase.HELD, Phase.SENT, Phase.UNCERTAIN}) == OPEN


def test_phases_keep_the_names_that_stores_have_written_down():
    assert [phase.value for phase in Phase] == [
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
