"""How a night went, told to a person, also when it was cut off."""

from datetime import UTC, datetime, timedelta

import pytest

from stoker.base.types import TenantId
from stoker.enrichment.model import KIND
from stoker.nightly.report import NightReport, print_night
from stoker.runs.model import Manifest, Run, RunKey, RunState

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def said(capsys):
    """Return what is said of a night that ended so."""

    def telling(state, **manifest):
        run = Run(key=RunKey(NOON, 1), kind=KIND).end(
            state, at=NOON + timedelta(minutes=1), reason="", manifest=Manifest(**manifest)
        )
        print_night(
            NightReport(tenant=TenantId("acme"), run=run, leads=0, min_score=0.5, top_leads=())
        )
        return " ".join(capsys.readouterr().out.split())

    return telling


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"selected": 20, "candidates": 52}, "looked 20 of 52 candidates: 20 not begun"),
        ({"selected": 20, "candidates": 0}, "looked 20 that an earlier run chose: 20 not begun"),
        ({"selected": 20}, "looked 20 companies: 20 not begun"),
        ({}, "looked 20 companies: 20 not begun"),  # as older runs that were cut off are kept
    ],
)
def test_a_night_says_whence_its_companies_were_as_far_as_it_is_known(said, counts, words):
    chosen = tuple(f"c{number}" for number in range(20))
    counts = {**counts, "units_waiting": 20}
    assert words in said(RunState.CANCELLED, counts=counts, selected=chosen)


def test_what_may_have_been_spent_is_told_apart_from_what_was(said):
    out = said(
        RunState.FAILED,
        cost={"tavily/calls": 3},
        counts={"unknown openai/calls": 2, "saved a/b": 1},
    )
    assert "spent tavily 3 calls" in out
    assert "unknown openai 2 calls may have been spent besides; see: stoker holds" in out
    assert "unknown" not in said(RunState.DONE, cost={"tavily/calls": 3})


@pytest.mark.parametrize("state", list(RunState)[1:])
def test_a_night_that_was_cut_off_says_how_what_it_wrote_is_taken_back(said, state):
    out = said(state, counts={"crm_written": 90, "crm_unknown": 2})
    assert "crm 90 rows written, 2 that may be there or not" in out
    cut_off = state in (RunState.CANCELLED, RunState.FAILED)
    assert ("stoker undo 20300101_120000 --tenant acme takes back" in out) == cut_off
    assert "stoker undo" not in said(state)
