"""Servers that never end, and bodies that swell harm nobody but themselves."""

import pytest

from faults import web_trials
from faults.hostile_server import BOMBS

pytestmark = pytest.mark.faults


def test_a_call_ends_at_its_deadline_whatever_the_server_does(report):
    assert not report("servers that never end", web_trials.ending(28)).broken


def test_a_time_limit_for_each_read_is_caught():
    caught = web_trials.ending(14, way=web_trials.per_read, patience=3).broken
    assert any(each.startswith("drip") for each in caught)
    assert any(each.startswith("endless") for each in caught)


def test_no_bomb_takes_more_memory_than_it_may(report):
    tally, growth = web_trials.eating(10)
    told = report(f"bombs (memory grew by {growth / web_trials.MIB:.1f} MiB at most)", tally)
    assert not told.broken
    assert told.n == 10 * len(BOMBS)


def test_undoing_a_body_in_one_go_is_caught():
    tally, _ = web_trials.eating(1, way="swallowed", kinds=("gzip",))
    assert tally.broken
