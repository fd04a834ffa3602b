from datetime import UTC, datetime, timedelta

import pytest

from stoker.accounts.model import CompanyId
from stoker.base.types import Depth
from stoker.enrichment.model import WorkItem, WorkState
from stoker.enrichment.summary import LateItems, format_lateness

DEADLINE = datetime(2030, 1, 1, 2, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def unit(after, *, state=WorkState.DONE, **seconds):
    return WorkItem(
        company=CompanyId("a"),
        rank=0,
        depth=Depth.DEEP,
        state=state,
        seconds=seconds,
        ended_at=DEADLINE + after if after is not None else None,
    )


def told(*units, flowed, ended):
    stragglers = LateItems(DEADLINE)
    stragglers.add(units)
    return format_lateness(
        deadline=DEADLINE,
        flowed_at=DEADLINE + flowed,
        ended_at=DEADLINE + ended,
        stragglers=stragglers,
    )


@pytest.mark.parametrize("ended", [-60 * SECOND, 0 * SECOND, SECOND / 2])
def test_a_night_that_ended_in_time_has_nothing_to_explain(ended):
    assert told(unit(ended), flowed=ended, ended=ended) == ""


def test_a_late_night_says_how_late_and_who_was_under_way_with_what():
    units = [
        unit(75 * SECOND, crawl=3.0, verify=70.0),
        unit(40 * SECOND, crawl=9.0, verify=30.0),
        unit(-9 * SECOND, crawl=500.0),
        unit(SECOND, state=WorkState.DROPPED),
        unit(None, state=WorkState.WAITING),
    ]
    assert told(*units, flowed=75 * SECOND, ended=80 * SECOND) == (
        "it ended 1 m 20 s after its deadline, because 2 companies were still under way, "
        "longest in verify"
    )
    assert "1 company was still" in told(units[0], flowed=75 * SECOND, ended=80 * SECOND)


def test_companies_that_were_cut_off_are_not_counted_but_told():
    late = told(unit(None, state=WorkState.CLAIMED), flowed=600 * SECOND, ended=600 * SECOND)
    assert late == "it ended 10 m 0 s after its deadline, because companies were still under way"


def test_a_crm_that_took_long_is_told_apart():
    late = told(unit(-SECOND, crawl=1.0), flowed=-SECOND, ended=30 * SECOND)
    assert late == "it ended 30 s after its deadline, because the CRM was still being filled"
