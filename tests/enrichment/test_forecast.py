"""Quotes and projected finishes."""

import math
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.base.types import Depth
from stoker.enrichment.forecast import (
    VendorCapacity,
    VendorNeed,
    add_refusals,
    close_vendors,
    compute_capacity,
    compute_quote,
    list_vendor_needs,
)
from stoker.enrichment.workers import project_finish

NOW = datetime(2026, 11, 16, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CRAWL = VendorNeed(connector="crawl", calls=1, cost={"pull_units": 1}, seconds=6)
SEARCH = VendorNeed(connector="tavily", calls=0.5, cost={"calls": 1, "money:USD": 1}, seconds=1.5)
VERIFY = VendorNeed(connector="zerobounce", calls=1, seconds=10, batch_size=100)
DEEP = {Depth.SHALLOW: [CRAWL], Depth.DEEP: [CRAWL, SEARCH, VERIFY]}


def test_a_quote_adds_up_what_looks_will_use():
    told = compute_quote({Depth.DEEP: 100, Depth.SHALLOW: 50}, DEEP, {}, at_once=8)
    assert told.calls == {"crawl": 150, "tavily": 50, "zerobounce": 1}
    assert told.cost == {"crawl/pull_units": 150, "tavily/calls": 50, "tavily/money:USD": 50}
    assert not told.refused
    assert told.slowest == "company concurrency"
    assert told.p50 == timedelta(seconds=(150 * 6 + 50 * 1.5 + 100 * 10) / 8)
    assert told.p50 < told.p90


def test_the_slowest_resource_says_when_a_night_ends():
    rooms = {"tavily": VendorCapacity(per_minute=5)}
    told = compute_quote({Depth.DEEP: 100}, DEEP, rooms, at_once=1000)
    assert (told.slowest, told.p50) == ("tavily", 10 * MINUTE)


def test_what_a_cap_will_refuse_is_told_and_not_counted():
    told = compute_quote(
        {Depth.DEEP: 100}, DEEP, {"tavily": VendorCapacity(calls_left=20)}, at_once=8
    )
    assert told.calls["tavily"] == 20
    assert told.refused == {"tavily": 30}
    assert told.cost["tavily/calls"] == 20


def test_a_connector_that_lets_nothing_through_never_ends():
    told = compute_quote({Depth.DEEP: 1}, DEEP, {"tavily": VendorCapacity(per_minute=0)}, at_once=8)
    assert told.p50 == timedelta.max


def test_whoever_is_shut_uses_nothing_and_refuses_all_that_would_have_been_asked():
    rooms = {
        "crawl": VendorCapacity(),
        "tavily": VendorCapacity(calls_left=20),
        "zerobounce": VendorCapacity(),
    }
    told = compute_quote(
        {Depth.DEEP: 100}, DEEP, close_vendors(rooms, connectors=["tavily"]), at_once=8
    )
    assert told.calls == {"crawl": 100, "tavily": 0, "zerobounce": 1}
    assert told.refused == {"tavily": 50}
    assert told.cost["tavily/calls"] == 0


@given(st.integers(0, 50), st.integers(1, 50))
def test_those_who_are_not_begun_add_what_they_are_refused_and_nothing_else(begun, others):
    rooms = {name: VendorCapacity(calls_left=9) for name in ("crawl", "tavily", "zerobounce")}
    told = compute_quote({Depth.DEEP: begun}, DEEP, rooms, at_once=8)
    nothing = compute_quote(
        {Depth.DEEP: others}, DEEP, close_vendors(rooms, connectors=rooms), at_once=8
    )
    both = add_refusals(told, nothing)
    assert (both.cost, both.p50) == (told.cost, told.p50)
    assert {name: both.calls[name] for name in told.calls} == told.calls
    needed = {"crawl": 1, "tavily": 0.5, "zerobounce": 0.01}
    for name, refused in both.refused.items():
        assert math.isclose(both.calls[name] + refused, (begun + others) * needed[name])


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 50), st.floats(0, 500))
def test_more_looks_never_cost_less_and_never_take_less_time(few, more, at_once, left):
    rooms = {"tavily": VendorCapacity(per_minute=100, calls_left=left)}
    small = compute_quote({Depth.DEEP: few}, DEEP, rooms, at_once=at_once)
    large = compute_quote({Depth.DEEP: few + more}, DEEP, rooms, at_once=at_once)
    assert large.p50 >= small.p50
    assert all(large.cost[name] >= amount for name, amount in small.cost.items())
    assert large.calls["tavily"] <= left


def test_a_projection_begins_with_the_quote_and_ends_with_what_was_seen():
    before = project_finish(began_at=NOW, now=NOW + MINUTE, ended=0, left=100, expected=60 * MINUTE)
    assert before == NOW + 60 * MINUTE
    late = project_finish(
        began_at=NOW, now=NOW + 90 * MINUTE, ended=900, left=100, expected=60 * MINUTE
    )
    assert abs(late - (NOW + 100 * MINUTE)) < MINUTE
    over = project_finish(began_at=NOW, now=NOW + MINUTE, ended=9, left=0, expected=MINUTE)
    assert over == NOW + MINUTE


def test_nobody_claims_to_know_the_end_once_the_quoted_time_is_over_and_nothing_has_ended():
    stuck = {"began_at": NOW, "ended": 0, "left": 20, "expected": 5 * MINUTE}
    assert project_finish(now=NOW + 4 * MINUTE, **stuck) == NOW + 5 * MINUTE
    assert project_finish(now=NOW + 5 * MINUTE, **stuck) is None
    rests = {"waits_until": NOW + 10 * MINUTE}
    assert project_finish(now=NOW + 5 * MINUTE, **stuck, **rests) == NOW + 10 * MINUTE
    assert project_finish(now=NOW + 10 * MINUTE, **stuck, **rests) is None


@given(
    st.integers(1, 200), st.integers(0, 200), st.integers(0, 300), st.none() | st.integers(0, 400)
)
def test_a_projected_finish_is_never_in_the_past_nor_before_what_the_rest_waits_for(
    ended, left, minutes, rests
):
    now, until = NOW + minutes * MINUTE, None if rests is None else NOW + rests * MINUTE
    how = {"began_at": NOW, "now": now, "ended": ended, "left": left, "expected": MINUTE}
    found = project_finish(**how, waits_until=until)
    assert found >= now
    if left and until is not None:
        assert found == max(project_finish(**how), until)


def test_only_those_who_can_be_asked_are_expected_to_be():
    needs = list_vendor_needs({"crawl", "tavily"})
    assert [each.connector for each in needs[Depth.SHALLOW]] == ["crawl"]
    assert [each.connector for each in needs[Depth.DEEP]] == ["crawl", "tavily"]


def test_room_is_what_the_scarcest_unit_leaves():
    free = {"calls": 300, "credits": 200}
    assert compute_capacity("zerobounce", free=free, per_minute=5).calls_left == 2
    assert compute_capacity("tavily", free={"calls": 7}, per_minute=100).calls_left == 7
    assert compute_capacity("openai", free={}, per_minute=1).calls_left == math.inf


def test_as_long_as_less_is_free_than_a_call_is_promised_nobody_is_asked():
    def left(tokens):
        return compute_capacity("openai", free={"tokens": tokens}, per_minute=1).calls_left

    assert [left(tokens) for tokens in (0, 5_999, 6_000, 7_999, 8_000)] == [0, 0, 1, 1, 2]


def test_calls_are_whole_but_a_batch_may_be_smaller():
    assert (
        compute_capacity("tavily", free={"money:USD": 3, "calls": 0}, per_minute=1).calls_left == 0
    )
    assert compute_capacity("zerobounce", free={"calls": 30}, per_minute=1).calls_left == 0.3
