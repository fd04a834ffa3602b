from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from stoker.budgets.caps import CapChange
from stoker.budgets.charges import Charge, Refusal, SpendRequest
from stoker.budgets.ledger_entries import (
    build_cap_entry,
    build_refused_entry,
    build_reserved_entry,
    build_resume_entry,
    build_status_entry,
    build_stop_entry,
)
from stoker.budgets.reservations import (
    ReservationStatus,
    build_reservation,
    expire_reservation,
    mark_sent,
    mark_uncertain,
    release_reservation,
    settle_reservation,
)
from stoker.ledger.chain import NewEntry, validate_new_entry

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)
UNTIL = NOW + timedelta(minutes=2)
CAP, SHARED = "tenant_connector/lusha/credits/day", "connector/lusha/credits/day"


def charge(cap, *, shared):
    return Charge(
        cap=cap, shared=shared, window="w1", amount=3, limit=70, ends_at=UNTIL, reason="CAP"
    )


ASKED = SpendRequest(
    key="k1",
    connector="lusha",
    amounts={"money:USD": 5, "credits": 3},
    run="r1",
    account="a1",
    sends_at_once=False,
)
HOLD = build_reservation(ASKED, (charge(CAP, shared=False),), owner="me", until=UNTIL, now=NOW)
ABOUT = {"connector": "lusha", "run": "r1", "account": "a1"}


def test_a_promise_is_noted_with_all_it_takes_to_count_it_again():
    assert build_reserved_entry(HOLD, now=NOW) == NewEntry(
        at=NOW,
        kind="RESERVED",
        subject="k1",
        reason="reserved 3 credits, USD 0.05",
        data={
            **ABOUT,
            "amounts": {"credits": 3, "money:USD": 5},
            "charges": [[CAP, "w1", 3]],
            "limits": {CAP: 70},
            "phase": "HELD",
            "owner": "me",
            "until": "2026-11-16T02:02:00+00:00",
        },
    )


def test_of_a_shared_cap_is_noted_what_was_taken_and_never_how_much_there_is():
    both = replace(HOLD, charges=(charge(SHARED, shared=True), charge(CAP, shared=False)))
    data = build_reserved_entry(both, now=NOW).data

    assert data["shared"] == [[SHARED, "w1", 3]]
    assert data["charges"] == [[CAP, "w1", 3]]
    assert data["limits"] == {CAP: 70}


def test_what_has_no_run_and_no_account_is_noted_without_them():
    data = build_reserved_entry(replace(HOLD, run=None, account=None), now=NOW).data

    assert "run" not in data
    assert "account" not in data
    assert data["connector"] == "lusha"


def test_a_refusal_is_noted_with_its_code_its_sentence_and_the_numbers_at_that_time():
    refused = Refusal(
        reason="CAP_CONNECTOR_DAY",
        message="it is full",
        cap=CAP,
        used=69,
        limit=70,
        resets_at=UNTIL.astimezone(ZoneInfo("Asia/Singapore")),
    )

    assert build_refused_entry(ASKED, refused, now=NOW) == NewEntry(
        at=NOW,
        kind="REFUSED",
        subject="k1",
        reason="it is full",
        data={
            **ABOUT,
            "amounts": {"credits": 3, "money:USD": 5},
            "code": "CAP_CONNECTOR_DAY",
            "cap": CAP,
            "used": 69,
            "limit": 70,
            "resets_at": "2026-11-16T02:02:00+00:00",
        },
    )


def test_a_refusal_by_no_cap_names_none():
    note = build_refused_entry(ASKED, Refusal(reason="STOPPED", message="stopped"), now=NOW)

    assert set(note.data) == {*ABOUT, "amounts", "code"}


def noted(before, after):
    note = build_status_entry(before, after, now=NOW)
    assert (note.at, note.subject) == (NOW, "k1")
    return note.kind, note.reason, {k: v for k, v in note.data.items() if k not in ABOUT}


def test_each_step_of_a_promise_is_noted_by_the_phase_it_came_to():
    gone, paid = mark_sent(HOLD), settle_reservation(HOLD, {"credits": 1}, now=NOW)
    aside = mark_uncertain(gone, reason="no answer")
    back = release_reservation(aside, now=NOW, reason="the vendor says no")
    nothing = {"credits": 1, "money:USD": 0}

    assert noted(HOLD, gone) == ("SENT", "request sent, no answer yet", {"from": "HELD"})
    assert noted(gone, aside) == ("UNCERTAIN", "no answer", {"from": "SENT"})
    assert noted(aside, back) == ("RELEASED", "the vendor says no", {"from": "UNCERTAIN"})
    assert noted(HOLD, expire_reservation(HOLD, now=UNTIL)) == (
        "EXPIRED",
        "its worker sent no heartbeat in time",
        {"from": "HELD"},
    )
    assert noted(HOLD, paid) == (
        "SETTLED",
        "cost 1 credit, USD 0.00",
        {"from": "HELD", "actual": nothing},
    )
    assert dict(build_status_entry(HOLD, gone, now=NOW).data, **{"from": 0}) == {**ABOUT, "from": 0}


def test_a_cost_above_the_promise_is_noted_as_overrun():
    paid = settle_reservation(HOLD, {"credits": 5, "money:USD": 5}, now=NOW)

    assert noted(HOLD, paid) == (
        "SETTLED",
        "cost 5 credits, USD 0.05, 2 credits more than reserved",
        {"from": "HELD", "actual": {"credits": 5, "money:USD": 5}, "overrun": {"credits": 2}},
    )


@pytest.mark.parametrize("phase", [ReservationStatus.RELEASED, ReservationStatus.EXPIRED], ids=str)
def test_a_cost_that_came_late_is_noted_with_its_code_and_all_of_it_as_overrun(phase):
    back = replace(HOLD, status=phase, closed_at=NOW, reason="no")
    paid = settle_reservation(back, {"credits": 2}, now=NOW)

    assert noted(back, paid) == (
        "SETTLED",
        "cost 2 credits, USD 0.00; the reservation was released before",
        {
            "from": phase.value,
            "actual": {"credits": 2, "money:USD": 0},
            "code": "SETTLED_LATE",
            "overrun": {"credits": 2},
        },
    )


def test_a_promise_kept_aside_after_it_was_given_back_is_noted_as_any_other():
    back = release_reservation(HOLD, now=NOW, reason="no")

    assert noted(back, mark_uncertain(back, reason="?")) == ("UNCERTAIN", "?", {"from": "RELEASED"})


def test_a_step_without_a_reason_says_that_there_was_none():
    assert noted(HOLD, release_reservation(HOLD, now=NOW, reason=""))[1] == "no reason was given"


def test_a_new_limit_is_noted():
    assert build_cap_entry(CapChange(cap=CAP, limit=9), now=NOW) == NewEntry(
        at=NOW,
        kind="CAP_CHANGED",
        subject=CAP,
        reason="limit 9 from now on",
        data={"limit": 9},
    )


def test_a_raise_is_noted_with_its_end_and_so_is_a_limit_set_with_it():
    abroad = UNTIL.astimezone(ZoneInfo("Asia/Singapore"))
    raised = CapChange(cap=CAP, raised_to=99, raised_until=abroad)

    note = build_cap_entry(raised, now=NOW)
    both = build_cap_entry(replace(raised, limit=9), now=NOW)

    assert (note.kind, note.reason) == ("CAP_RAISED", "raised to 99 until 2026-11-16 02:02 UTC")
    assert note.data == {"raised_to": 99, "raised_until": "2026-11-16T02:02:00+00:00"}
    assert both.kind == "CAP_RAISED"
    assert both.reason == f"limit 9 from now on; {note.reason}"
    assert both.data == {"limit": 9, **note.data}


def test_a_limit_that_ends_a_raise_is_no_raise():
    change = CapChange(cap=CAP, limit=9, raised_to=9, raised_until=NOW)

    note = build_cap_entry(change, now=NOW)

    assert note.kind == "CAP_CHANGED"
    assert note.reason == "limit 9 from now on; the temporary raise has ended"
    assert note.data == {"limit": 9, "raised_to": 9, "raised_until": NOW.isoformat()}


@pytest.mark.parametrize(("connector", "subject"), [("lusha", "lusha"), ("", "*")])
def test_a_stop_and_its_end_are_noted_by_connector_or_a_star_for_all(connector, subject):
    assert build_stop_entry(connector, reason="too dear", now=NOW) == NewEntry(
        at=NOW, kind="STOPPED", subject=subject, reason="too dear"
    )
    assert build_resume_entry(connector, now=NOW) == NewEntry(
        at=NOW, kind="RESUMED", subject=subject, reason="spending is allowed again"
    )
    assert build_stop_entry(connector, reason="", now=NOW).reason == "no reason was given"


def test_every_note_about_money_is_kept_letter_for_letter_by_every_store():
    shared = replace(HOLD, charges=(charge(SHARED, shared=True),))
    notes = [
        build_reserved_entry(HOLD, now=NOW),
        build_reserved_entry(shared, now=NOW),
        build_refused_entry(ASKED, Refusal(reason="X", message="no", resets_at=NOW), now=NOW),
        build_status_entry(HOLD, settle_reservation(HOLD, {"credits": 9}, now=NOW), now=NOW),
        build_cap_entry(CapChange(cap=CAP, limit=3), now=NOW),
        build_stop_entry("", reason="", now=NOW),
        build_resume_entry("", now=NOW),
    ]

    assert [validate_new_entry(note) for note in notes] == notes
    assert {type(note.kind) for note in notes} == {str}


def test_the_phases_have_the_same_names_in_the_ledger():
    later = [phase for phase in ReservationStatus if phase is not ReservationStatus.RESERVED]

    kinds = [build_status_entry(HOLD, replace(HOLD, status=phase), now=NOW).kind for phase in later]

    assert kinds == [phase.value for phase in later]
