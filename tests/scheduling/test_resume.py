from datetime import UTC, datetime, timedelta

import pytest

from stoker.runs.model import PROCESS_DIED, Run, RunKey, RunState
from stoker.scheduling.model import MAX_DEATHS, find_run_to_resume

MIDNIGHT = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def ran(hour, state=RunState.FAILED, *, reason=PROCESS_DIED, scheduled=True):
    at = MIDNIGHT + hour * HOUR
    return Run(
        key=RunKey(at, 1),
        kind="nightly",
        state=state,
        reason=reason,
        instant=at if scheduled else None,
    )


def test_a_scheduled_run_whose_process_died_is_gone_on_with():
    assert find_run_to_resume([ran(2)], since=MIDNIGHT) == ran(2)


@pytest.mark.parametrize(
    "latest",
    [
        ran(2, RunState.RUNNING),
        ran(2, RunState.DONE),
        ran(2, RunState.PARTIAL),
        ran(2, RunState.CANCELLED, reason=f"cancelled by ann; {PROCESS_DIED}"),
        ran(2, RunState.FAILED, reason="the vendor is away"),
    ],
)
def test_a_run_that_goes_on_or_came_to_an_end_of_its_own_is_not(latest):
    assert not find_run_to_resume([latest], since=MIDNIGHT)
    assert not find_run_to_resume([latest, ran(1)], since=MIDNIGHT)


def test_what_somebody_began_by_hand_is_left_to_them():
    assert not find_run_to_resume([ran(2, scheduled=False)], since=MIDNIGHT)
    assert not find_run_to_resume([ran(2, scheduled=False), ran(1, RunState.DONE)], since=MIDNIGHT)


def test_what_went_on_with_a_scheduled_run_and_died_too_is_gone_on_with():
    latest = ran(2, scheduled=False)

    assert find_run_to_resume([latest, ran(1)], since=MIDNIGHT) == latest


def test_a_run_of_another_day_has_left_nothing():
    assert not find_run_to_resume([ran(-1)], since=MIDNIGHT)
    assert not find_run_to_resume([ran(1, scheduled=False), ran(-1)], since=MIDNIGHT)


def test_after_so_many_deaths_in_a_row_the_next_instant_is_waited_for():
    dead = [ran(hour, scheduled=hour == 1) for hour in range(MAX_DEATHS, 0, -1)]

    assert find_run_to_resume(dead[1:], since=MIDNIGHT)
    assert not find_run_to_resume(dead, since=MIDNIGHT)


def test_where_nothing_ran_there_is_nothing_to_go_on_with():
    assert not find_run_to_resume([], since=MIDNIGHT)
