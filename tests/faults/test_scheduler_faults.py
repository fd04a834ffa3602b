"""Clocks that jump, and two schedulers of which one is paused: no instant is run twice."""

import pytest

from faults import clocks

pytestmark = pytest.mark.faults


def test_no_instant_runs_twice_however_the_clock_jumps(rng, report):
    tally = report("A10 clock jumps", clocks.jump_trials(n=200, rng=rng))
    assert tally.broken == []


def test_clock_jumps_catch_a_schedule_that_remembers_only_a_date(rng, report):
    tally = report("A10 twin, by date", clocks.naive_jump_trials(n=200, rng=rng))
    assert any("ran 2 times" in broken for broken in tally.broken)
