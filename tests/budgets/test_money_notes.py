from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from stoker.budgets.caps import CapChange
from stoker.budgets.charges import Charge, Refused, Request
from stoker.budgets.ledger_entries import (
    cap_note,
    decision_note,
    phase_note,
    refused_note,
    reserved_note,
    resume_note,
    stop_note,
)
from stoker.budgets.reservations import Phase, held, lapsed, released, sent, settled, uncertain
from stoker.ledger.chain import Note, kept_note

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)
UNTIL = NOW + timedelta(minutes=2)
CAP, SHARED = "tenant_connector/lusha/credits/day", "connector/lusha/credits/day"


def charge(cap, *, shared):
    return Charge(
        cap=cap, shared=shared, window="w1", amount=3, limit=70, ends_at=UNTIL, reason="CAP"
    )


ASKED = Request(
    key="k1",
    connector="lusha",
    amounts={"money:USD": 5, "credits": 3},
    run="r1",
    account="a1",
    sends_at_once=False,
)
HOLD = held(ASKED, (charge(CAP, shared=False),), owner="me", until=UNTIL, now=NOW)
ABOUT = {"connector": "lusha", "run": "r1", "account": "a1"}


def test_a_promise_is_noted_with_all_it_takes_to_count_it_again():
    assert reserved_note(HOLD, now=NOW) == Note(
        at=NOW,
        kind="RESERVED",
        subject="k1",
        reason="promised 3 credits, 5 money:USD of lusha",
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
    data = reserved_note(both, now=NOW).data

    assert data["shared"] == [[SHARED, "w1", 3]]
    assert data["charges"] == [[CAP, "w1", 3]]
    assert data["limits"] == {CAP: 70}


def test_what_has_no_run_and_no_account_is_noted_without_them():
    data = reserved_note(replace(HOLD, run=None, account=None), now=NOW).data

    assert "run" not in data
    assert "account" not in data
    assert data["connector"] == "lusha"


def test_a_refusal_is_noted_with_its_code_its_sentence_and_the_numbers_at_that_time():
    refused = Refused(
        reason="CAP_CONNECTOR_DAY",
        sentence="it is full",
        cap=CAP,
        used=69,
        limit=70,
        resets_at=UNTIL.astimezone(ZoneInfo("Asia/Singapore")),
    )

    assert refused_note(ASKED, refused, now=NOW) == Note(
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
    note = refused_note(ASKED, Refused(reason="STOPPED", sentence="stopped"), now=NOW)

    assert set(note.data) == {*ABOUT, "amounts", "code"}


def noted(before, after):
    note = phase_note(before, after, now=NOW)
    assert (note.at, note.subject) == (NOW, "k1")
    return note.kind, note.reason, {k: v for k, v in note.data.items() if k not in ABOUT}


def test_each_step_of_a_promise_is_noted_by_the_phase_it_came_to():
    gone, paid = sent(HOLD), settled(HOLD, {"credits": 1}, now=NOW)
    aside = uncertain(gone, reason="no answer")
    back = released(aside, now=NOW, reason="the vendor says no")
    nothing = {"credits": 1, "money:USD": 0}

    assert noted(HOLD, gone) == ("SENT", "it may be on its way to the vendor", {"from": "HELD"})
    assert noted(gone, aside) == ("UNCERTAIN", "no answer", {"from": "SENT"})
    assert noted(aside, back) == ("RELEASED", "the vendor says no", {"from": "UNCERTAIN"})
    assert noted(HOLD, lapsed(HOLD, now=UNTIL)) == (
        "EXPIRED",
        "its owner was not heard of in time",
        {"from": "HELD"},
    )
    assert noted(HOLD, paid) == (
        "SETTLED",
        "it cost 1 credits, 0 money:USD",
        {"from": "HELD", "actual": nothing},
    )
    assert dict(phase_note(HOLD, gone, now=NOW).data, **{"from": 0}) == {**ABOUT, "from": 0}


def test_a_cost_above_the_promise_is_noted_as_overrun():
    paid = settled(HOLD, {"credits": 5, "money:USD": 5}, now=NOW)

    assert noted(HOLD, paid) == (
        "SETTLED",
        "it cost 5 credits, 5 money:USD, 2 credits more than promised",
        {"from": "HELD", "actual": {"credits": 5, "money:USD": 5}, "overrun": {"credits": 2}},
    )


@pytest.mark.parametrize("phase", [Phase.RELEASED, Phase.EXPIRED], ids=str)
def test_a_cost_that_came_late_is_noted_with_its_code_and_all_of_it_as_overrun(phase):
    back = replace(HOLD, phase=phase, closed_at=NOW, reason="no")
    paid = settled(back, {"credits": 2}, now=NOW)

    assert noted(back, paid) == (
        "SETTLED",
        "it cost 2 credits, 0 money:USD, and had been given back",
        {
            "from": phase.value,
            "actual": {"credits": 2, "money:USD": 0},
            "code": "SETTLED_LATE",
            "overrun": {"credits": 2},
        },
    )


def test_a_promise_kept_aside_after_it_was_given_back_is_noted_as_any_other():
    back = released(HOLD, now=NOW, reason="no")

    assert noted(back, uncertain(back, reason="?")) == ("UNCERTAIN", "?", {"from": "RELEASED"})


def test_a_step_without_a_reason_says_that_there_was_none():
    assert noted(HOLD, released(HOLD, now=NOW, reason=""))[1] == "no reason was given"


def test_a_new_limit_is_noted():
    assert cap_note(CapChange(cap=CAP, limit=9), now=NOW) == Note(
        at=NOW,
        kind="CAP_CHANGED",
        subject=CAP,
        reason="its limit is 9 from now on",
        data={"limit": 9},
    )


def test_a_raise_is_noted_with_its_end_and_so_is_a_limit_set_with_it():
    abroad = UNTIL.astimezone(ZoneInfo("Asia/Singapore"))
    raised = CapChange(cap=CAP, raised_to=99, raised_until=abroad)

    note = cap_note(raised, now=NOW)
    both = cap_note(replace(raised, limit=9), now=NOW)

    assert (note.kind, note.reason) == ("CAP_RAISED", "it allows 99 until 2026-11-16 02:02 UTC")
    assert note.data == {"raised_to": 99, "raised_until": "2026-11-16T02:02:00+00:00"}
    assert both.kind == "CAP_RAISED"
    assert both.reason == f"its limit is 9 from now on; {note.reason}"
    assert both.data == {"limit": 9, **note.data}


def test_a_limit_that_ends_a_raise_is_no_raise():
    change = CapChange(cap=CAP, limit=9, raised_to=9, raised_until=NOW)

    note = cap_note(change, now=NOW)

    assert note.kind == "CAP_CHANGED"
    assert note.reason == "its limit is 9 from now on; it is no longer raised"
    assert note.data == {"limit": 9, "raised_to": 9, "raised_until": NOW.isoformat()}


@pytest.mark.parametrize(("connector", "subject"), [("lusha", "lusha"), ("", "*")])
def test_a_stop_and_its_end_are_noted_by_connector_or_a_star_for_all(connector, subject):
    assert stop_note(connector, reason="too dear", now=NOW) == Note(
        at=NOW, kind="STOPPED", subject=subject, reason="too dear"
    )
    assert resume_note(connector, now=NOW) == Note(
        at=NOW, kind="RESUMED", subject=subject, reason="the stop was taken back"
    )
    assert stop_note(connector, reason="", now=NOW).reason == "no reason was given"


@pytest.mark.parametrize(("chosen", "kind"), [(True, "CHOSEN"), (False, "NOT_CHOSEN")])
def test_a_decision_is_noted_with_its_numbers_and_the_part_chance_had(chosen, kind):
    said = {"reason": "TOO_COLD", "sentence": "it is cold", "numbers": {"heat": 0.1}, "now": NOW}

    plain = decision_note("acme", chosen=chosen, **said)
    drawn = decision_note("acme", chosen=chosen, probability=0.0, seed=0, **said)

    data = {"account": "acme", "code": "TOO_COLD", "numbers": {"heat": 0.1}}
    assert plain == Note(at=NOW, kind=kind, subject="acme", reason="it is cold", data=data)
    assert drawn.data == {**data, "probability": 0.0, "seed": 0}


def test_every_note_about_money_is_kept_letter_for_letter_by_every_store():
    shared = replace(HOLD, charges=(charge(SHARED, shared=True),))
    notes = [
        reserved_note(HOLD, now=NOW),
        reserved_note(shared, now=NOW),
        refused_note(ASKED, Refused(reason="X", sentence="no", resets_at=NOW), now=NOW),
        phase_note(HOLD, settled(HOLD, {"credits": 9}, now=NOW), now=NOW),
        cap_note(CapChange(cap=CAP, limit=3), now=NOW),
        stop_note("", reason="", now=NOW),
        resume_note("", now=NOW),
        decision_note("a", chosen=True, reason="R", sentence="s", numbers={}, now=NOW),
    ]

    assert [kept_note(note) for note in notes] == notes
    assert {type(note.kind) for note in notes} == {str}


def test_the_phases_have_the_same_names_in_the_ledger():
    later = [phase for phase in Phase if phase is not Phase.HELD]

    kinds = [phase_note(HOLD, replace(HOLD, phase=phase), now=NOW).kind for phase in later]

    assert kinds == [phase.value for phase in later]
