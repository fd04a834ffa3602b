"""Clocks that jump, and two schedulers of which one is paused: no instant is run twice."""

import pytest

from faults import clocks, pauses

pytestmark = pytest.mark.faults


def test_no_instant_runs_twice_however_the_clock_jumps(rng, report):
    tally = report("A10 clock jumps", clocks.jump_trials(n=200, rng=rng))
    assert tally.broken == []


def test_clock_jumps_catch_a_schedule_that_remembers_only_a_date(rng, report):
    tally = report("A10 twin, by date", clocks.naive_jump_trials(n=200, rng=rng))
    assert any(" times" in broken for broken in tally.broken)


def test_a_scheduler_paused_longer_than_its_lease_is_refused_and_nothing_runs_twice(
    workers, rng, report
):
    tally = report("B2 two schedulers, one paused", pauses.paused(workers, n=50, rng=rng))
    assert tally.n == 50
    assert tally.broken == []


def test_pauses_catch_a_lease_without_fencing(workers, rng, report):
    pausing = pauses.paused_naively(workers, n=15, rng=rng)
    tally = report("B2 twin, a lease and no fence", pausing)
    assert any(" times" in broken for broken in tally.broken)
