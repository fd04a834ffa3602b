from datetime import UTC, datetime, timedelta

import pytest

from stoker.budgets.caps import CapChange
from stoker.budgets.ledger_entries import (
    build_cap_entry,
    build_resume_entry,
    build_stop_entry,
)
from stoker.ledger.chain import NewEntry, chain_entries
from stoker.ledger.query import EntryKind, LedgerFilter, get_data_text

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def entry(note):
    [made] = chain_entries([note], after=None)
    return made


REFUSED = entry(
    NewEntry(
        at=NOW,
        kind="REFUSED",
        subject="k",
        reason="Not enough left",
        data={"connector": "lusha", "account": "a1", "run": "r1", "code": "CAP_TENANT_DAY"},
    )
)
STOP = entry(build_stop_entry("lusha", reason="too dear", now=NOW))
STOP_ALL = entry(build_stop_entry("", reason="too dear", now=NOW))
RESUME = entry(build_resume_entry("lusha", now=NOW))
CAP = entry(build_cap_entry(CapChange(cap="tenant_connector/lusha/calls/day", limit=1), now=NOW))
RAISED = entry(
    build_cap_entry(
        CapChange(cap="connector/lusha/calls/day", raised_to=1, raised_until=NOW), now=NOW
    )
)
CHOSEN = entry(
    NewEntry(
        at=NOW,
        kind="CHOSEN",
        subject="a1",
        reason="it is due",
        data={"account": "a1", "code": "DUE"},
    )
)
ODD_CAP = entry(NewEntry(at=NOW, kind="CAP_CHANGED", subject="lusha", reason=""))
PLAIN = entry(NewEntry(at=NOW, kind="NOTED", subject="lusha", reason="", data={"run": None}))
EVERYTHING = [REFUSED, STOP, STOP_ALL, RESUME, CAP, RAISED, CHOSEN, ODD_CAP, PLAIN]


def test_asking_for_nothing_in_particular_finds_everything():
    assert all(LedgerFilter().matches(one) for one in EVERYTHING)


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (LedgerFilter(kind="REFUSED"), [REFUSED]),
        (LedgerFilter(kind="refused"), [REFUSED]),
        (LedgerFilter(kind="REFUSE"), []),
        (LedgerFilter(account="a1"), [REFUSED, CHOSEN]),
        (LedgerFilter(account="a"), []),
        (LedgerFilter(run="r1"), [REFUSED]),
        (LedgerFilter(run=""), [STOP, STOP_ALL, RESUME, CAP, RAISED, CHOSEN, ODD_CAP, PLAIN]),
        (LedgerFilter(connector="lusha"), [REFUSED, STOP, RESUME, CAP, RAISED]),
        (LedgerFilter(connector="*"), []),
        (LedgerFilter(connector="!"), []),
        (LedgerFilter(connector=""), [STOP_ALL, CHOSEN, ODD_CAP, PLAIN]),
        (LedgerFilter(reason="CAP_TENANT_DAY"), [REFUSED]),
        (LedgerFilter(reason="cap_tenant_day"), [REFUSED]),
        (LedgerFilter(reason="CAP_TENANT"), []),
        (LedgerFilter(reason="TOO dear"), [STOP, STOP_ALL]),
        (LedgerFilter(reason="due", account="a1"), [CHOSEN]),
        (LedgerFilter(kind="CHOSEN", account="a2"), []),
        (LedgerFilter(since=NOW), EVERYTHING),
        (LedgerFilter(since=NOW + timedelta(microseconds=1)), []),
        (LedgerFilter(until=NOW), []),
        (LedgerFilter(until=NOW + timedelta(microseconds=1)), EVERYTHING),
    ],
)
def test_an_entry_is_found_by_what_it_says_wherever_it_says_it(selection, wanted):
    assert [one for one in EVERYTHING if selection.matches(one)] == wanted


def test_what_an_entry_does_not_say_is_empty():
    assert get_data_text(REFUSED, "account") == "a1"
    assert get_data_text(REFUSED, "nothing") == ""
    assert get_data_text(PLAIN, "run") == ""


def test_kinds_are_stored_under_names_that_never_change():
    assert [kind.value for kind in EntryKind] == [
        *("RESERVED", "REFUSED", "SENT", "SETTLED", "RELEASED", "EXPIRED", "UNCERTAIN"),
        *("CAP_CHANGED", "CAP_RAISED", "STOPPED", "RESUMED", "CHOSEN", "NOT_CHOSEN"),
    ]
