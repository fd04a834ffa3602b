"""Servers that never end, bodies that swell and JSON from madmen harm nobody but themselves."""

import json

import pytest

from faults import web_trials
from faults.hostile_server import BOMBS
from stoker.base.strict_json import parse_json

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


def test_no_answer_however_mad_gets_past_the_edge(report, rng):
    assert not report("mad JSON, through a server", web_trials.answering(rng, 500)).broken
    read = report("mad JSON", web_trials.reading(rng, 2000, read=parse_json))
    assert not read.broken
    assert 200 < read.acked < 1800


def test_reading_json_just_so_is_caught(rng):
    broken = " ".join(web_trials.reading(rng, 2000, read=json.loads).broken)
    for what in ("RecursionError", "JSONDecodeError", "no store can keep", "none", "endless"):
        assert what in broken
