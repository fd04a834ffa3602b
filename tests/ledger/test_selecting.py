from datetime import UTC, datetime, timedelta

import pytest

from stoker.budgets.caps import CapChange
from stoker.budgets.ledger_entries import cap_note, decision_note, resume_note, stop_note
from stoker.ledger.chain import Note, chained
from stoker.ledger.query import Selection, said

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def entry(note):
    [made] = chained([note], after=None)
    return made


REFUSED = entry(
    Note(
        at=NOW,
        kind="REFUSED",
        subject="k",
        reason="Not enough left",
        data={"connector": "lusha", "account": "a1", "run": "r1", "code": "CAP_TENANT_DAY"},
    )
)
STOP = entry(stop_note("lusha", reason="too dear", now=NOW))
STOP_ALL = entry(stop_note("", reason="too dear", now=NOW))
RESUME = entry(resume_note("lusha", now=NOW))
CAP = entry(cap_note(CapChange(cap="tenant_connector/lusha/calls/day", limit=1), now=NOW))
RAISED = entry(
    cap_note(CapChange(cap="connector/lusha/calls/day", raised_to=1, raised_until=NOW), now=NOW)
)
CHOSEN = entry(
    decision_note("a1", chosen=True, reason="DUE", sentence="it is due", numbers={}, now=NOW)
)
ODD_CAP = entry(Note(at=NOW, kind="CAP_CHANGED", subject="lusha", reason=""))
PLAIN = entry(Note(at=NOW, kind="NOTED", subject="lusha", reason="", data={"run": None}))
EVERYTHING = [REFUSED, STOP, STOP_ALL, RESUME, CAP, RAISED, CHOSEN, ODD_CAP, PLAIN]


def test_asking_for_nothing_in_particular_finds_everything():
    assert all(Selection().wants(one) for one in EVERYTHING)


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (Selection(kind="REFUSED"), [REFUSED]),
        (Selection(kind="refused"), [REFUSED]),
        (Selection(kind="REFUSE"), []),
        (Selection(account="a1"), [REFUSED, CHOSEN]),
        (Selection(account="a"), []),
        (Selection(run="r1"), [REFUSED]),
        (Selection(run=""), [STOP, STOP_ALL, RESUME, CAP, RAISED, CHOSEN, ODD_CAP, PLAIN]),
        (Selection(connector="lusha"), [REFUSED, STOP, RESUME, CAP, RAISED]),
        (Selection(connector="*"), []),
        (Selection(connector="!"), []),
        (Selection(connector=""), [STOP_ALL, CHOSEN, ODD_CAP, PLAIN]),
        (Selection(reason="CAP_TENANT_DAY"), [REFUSED]),
        (Selection(reason="cap_tenant_day"), [REFUSED]),
        (Selection(reason="CAP_TENANT"), []),
        (Selection(reason="TOO dear"), [STOP, STOP_ALL]),
        (Selection(reason="due", account="a1"), [CHOSEN]),
        (Selection(kind="CHOSEN", account="a2"), []),
        (Selection(since=NOW), EVERYTHING),
        (Selection(since=NOW + timedelta(microseconds=1)), []),
        (Selection(until=NOW), []),
        (Selection(until=NOW + timedelta(microseconds=1)), EVERYTHING),
    ],
)
def test_an_entry_is_found_by_what_it_says_wherever_it_says_it(selection, wanted):
    assert [one for one in EVERYTHING if selection.wants(one)] == wanted


def test_what_an_entry_does_not_say_is_empty():
    assert said(REFUSED, "account") == "a1"
    assert said(REFUSED, "nothing") == ""
    assert said(PLAIN, "run") == ""
