"""What stands in the way of looks: as many deep looks as fit, and its numbers said."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pull_cases import NOW
from stoker.base.errors import ConfigError
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Totals
from stoker.budgets.statements import list_current_balances
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.pulls.columns import DEPTH_REFUSALS, Decision, PullLimits
from stoker.pulls.constraints import (
    Constraint,
    build_backoff_constraint,
    build_cap_constraint,
    build_rate_constraint,
    find_excluded_vendors,
    find_tightest,
    is_stopped,
    limit_deep_lookups,
    list_binding,
    parse_constraints,
    replace_call_caps,
)
from stoker.pulls.settings import PullRule
from stoker.rate_limits.rate_limit import Rate, check_rate, compute_postponed_until
from stoker.vendors.table import VendorNeed

SEARCH = VendorNeed(connector="tavily", calls=1.0, cost={"calls": 1, "credits": 2})
MODEL = VendorNeed(connector="openai", calls=0.8, cost={"calls": 1, "money:USD": 5})
BATCH = VendorNeed(connector="zerobounce", calls=0.8, cost={"calls": 100}, batch_size=100)
NEEDS = (SEARCH, MODEL, BATCH)
RULE, HOUR, MINUTE = PullRule(), timedelta(hours=1), timedelta(minutes=1)
TEN_A_MINUTE = Rate(calls=10, per=MINUTE, burst=2)


def cap_of(connector, unit, limit, window=WindowKind.DAY):
    scope = Scope.TENANT_CONNECTOR if connector else Scope.TENANT
    return Cap(scope=scope, connector=connector, unit=unit, window=window, limit=limit)


def standing(cap, used=0):
    [found] = list_current_balances([cap], {}, {}, reset=ResetRule(), now=NOW)
    place = {(cap.id, found[1].window): Totals(settled=used)}
    [found] = list_current_balances([cap], {}, place, reset=ResetRule(), now=NOW)
    return found


def shortage(cap, *, used=0, rule=RULE):
    _, line, ends_at = standing(cap, used)
    return build_cap_constraint(cap, line, NEEDS, ends_at=ends_at, now=NOW, rule=rule)


@pytest.mark.parametrize(
    ("cap", "used", "why", "needed", "looks"),
    [
        (cap_of("tavily", "calls", 10), 4, Decision.CAP_CONNECTOR_DAY, 1.0, 6),
        (cap_of("tavily", "credits", 10), 3, Decision.CAP_CONNECTOR_DAY, 2.0, 3),
        (cap_of("openai", "calls", 4), 0, Decision.CAP_CONNECTOR_DAY, 0.8, 5),
        (cap_of("zerobounce", "calls", 4), 0, Decision.CAP_CONNECTOR_DAY, 0.8, 5),  # of a batch
        (cap_of("", "money:USD", 40), 20, Decision.CAP_TENANT_DAY, 4.0, 5),
        (cap_of("", "calls", 26), 0, Decision.CAP_TENANT_DAY, 2.6, 10),  # all vendors together
        (cap_of("tavily", "calls", 10), 99, Decision.CAP_CONNECTOR_DAY, 1.0, 0),
    ],
)
def test_a_cap_has_room_for_as_many_deep_looks_as_it_has_left_for(cap, used, why, needed, looks):
    found = shortage(cap, used=used)
    assert (found.why, found.looks) == (why, looks)
    assert found.needed == pytest.approx(needed)
    assert found.had == max(cap.limit - used, 0)
    assert (found.limit, found.cap, found.unit) == (cap.limit, cap.id, cap.unit)
    assert found.until == NOW.replace(hour=0) + timedelta(days=1)


def test_a_cap_that_deep_looks_take_nothing_of_is_not_in_the_way():
    assert shortage(cap_of("lusha", "calls", 0)) is None
    assert shortage(cap_of("tavily", "tokens", 0)) is None


def test_a_plan_of_many_a_day_takes_its_ticks_share_of_a_vendors_calls():
    hourly = PullRule(tick=HOUR)
    assert shortage(cap_of("tavily", "calls", 180), rule=hourly).looks == 10  # 18 hours are left


def test_a_cap_of_nothing_means_that_nobody_is_asked():
    caps = [cap_of("tavily", "credits", 0), cap_of("openai", "calls", 9)]
    lines = [standing(cap)[:2] for cap in caps]
    assert find_excluded_vendors(lines, NEEDS) == {"tavily"}
    spent = [standing(cap_of("tavily", "credits", 5), used=5)[:2]]
    assert find_excluded_vendors(spent, NEEDS) == set()


@given(
    st.integers(1, 50),
    st.integers(1, 3600),
    st.integers(1, 50),
    st.sampled_from(NEEDS),
    st.timedeltas(timedelta(seconds=1), timedelta(hours=2)),
)
def test_no_rate_carries_more_calls_than_it_lets_through_one_by_one(
    calls, seconds, burst, need, within
):
    rate = Rate(calls=calls, per=timedelta(seconds=seconds), burst=min(burst, calls))
    found = build_rate_constraint(need, rate, now=NOW, within=within)
    gone, next_at = 0, None
    while gone <= found.had:
        at = NOW if next_at is None else max(next_at - rate.slack, NOW)
        if at > NOW + within:
            break
        next_at = check_rate(rate, next_at, now=at).next_at
        gone += 1
    assert gone == found.had
    assert found.looks * need.calls / need.batch_size <= found.had + 1e-6
    assert found.until == NOW + within


def rests(wait, *, within=HOUR, patience=15 * MINUTE, rate=TEN_A_MINUTE):
    remembered = compute_postponed_until(rate, until=NOW + wait)
    opens_at = check_rate(rate, remembered, now=NOW).at
    return build_backoff_constraint(
        SEARCH, rate, opens_at=opens_at, now=NOW, within=within, patience=patience
    )


def test_whoever_wants_to_be_left_alone_is_waited_for_as_long_as_we_are_patient():
    after = rests(10 * MINUTE)
    assert (after.why, after.until) == (Decision.COOLING_DOWN, NOW + 10 * MINUTE)
    assert 0 < after.looks < build_rate_constraint(SEARCH, TEN_A_MINUTE, now=NOW, within=HOUR).looks
    assert "then has time for" in after.message
    gone = rests(16 * MINUTE)
    assert (gone.looks, gone.until) == (0, NOW + 16 * MINUTE)
    assert gone.message == "tavily is backing off until 2026-11-16 06:16 UTC"
    assert rests(10 * MINUTE, within=5 * MINUTE).looks == 0


@pytest.mark.parametrize("wait", [timedelta(0), TEN_A_MINUTE.interval])
def test_a_wait_that_the_rate_itself_explains_is_no_rest(wait):
    assert rests(wait) is None


hindrances = st.builds(
    Constraint,
    why=st.sampled_from(DEPTH_REFUSALS),
    connector=st.sampled_from(["", "tavily", "crawl"]),
    looks=st.none() | st.integers(0, 9),
    had=st.integers(0, 10**15),
    limit=st.integers(0, 10**15),
    needed=st.floats(0, 1e6),
    unit=st.sampled_from(["calls", "money:USD"]),
    cap=st.sampled_from(["tenant/*/pull_units/day", "tenant_connector/tavily/calls/day"]),
    until=st.none() | st.just(NOW),
    stop_text=st.text(max_size=20),
)


@given(st.lists(hindrances, max_size=6))
def test_what_stood_in_the_way_comes_back_as_it_was_and_can_be_said(found):
    said = json.loads(json.dumps([each.as_json() for each in found]))
    assert parse_constraints(said) == tuple(found)
    assert all(each.message for each in found)
    limits = limit_deep_lookups(PullLimits(budget=7), found)
    deep = [each.looks for each in found if each.looks is not None]
    assert limits.deep_cap == (min(deep) if deep else None)
    if deep:
        assert limits.deep_why == find_tightest(found).why
    assert limits.budget == 7


@pytest.mark.parametrize("said", [[{}], [{"why": "NONSENSE", "until": None}], [7]])
def test_what_is_no_hindrance_is_not_guessed(said):
    with pytest.raises((KeyError, TypeError, ValueError)):
        parse_constraints(said)


def test_a_plan_that_says_nothing_of_it_had_nothing_in_its_way():
    assert parse_constraints(None) == ()
    assert limit_deep_lookups(PullLimits(budget=7), ()).deep_cap is None


def test_only_what_did_stand_in_the_way_is_told():
    all_looks = Constraint(why=Decision.CAP_CONNECTOR_DAY, connector="crawl")
    wide = Constraint(why=Decision.RATE_LIMIT, connector="tavily", looks=9)
    narrow = Constraint(why=Decision.RATE_LIMIT, connector="openai", looks=3)
    found = (all_looks, wide, narrow)
    assert list_binding(found, {Decision.WORTH}, withheld=False) == []
    assert list_binding(found, {Decision.WORTH, Decision.RATE_LIMIT}, withheld=True) == [narrow]
    assert list_binding(found, {Decision.CAP_CONNECTOR_DAY}, withheld=True) == [all_looks, narrow]
    assert not is_stopped(found)
    assert not is_stopped([Constraint(why=Decision.PAUSED, connector="tavily", looks=0)])
    assert is_stopped([Constraint(why=Decision.PAUSED, connector="")])


def test_a_cap_of_fewer_than_no_calls_is_refused():
    with pytest.raises(ConfigError, match="from 0 up"):
        replace_call_caps((), {"tavily": -1}, NEEDS)
