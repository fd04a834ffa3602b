"""What a day's runs left: each company by its latest unit, whatever was chosen in between."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import CompanyId
from stoker.base.types import Depth
from stoker.enrichment.model import WorkItem, WorkState
from stoker.nightly.resume import RETRYABLE_STATES, UnfinishedWork

WAITING, TAKEN, DONE = WorkState.WAITING, WorkState.CLAIMED, WorkState.DONE
DEGRADED, SHED, UNKNOWN = WorkState.DEGRADED, WorkState.DROPPED, WorkState.UNKNOWN
LOOKED = {"crawl": 0.1}
days = st.lists(
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(WorkState)), max_size=5
)  # what each run of a day made of whom, the newest first


def unit(company, state, *, place=0, seconds=LOOKED):
    return WorkItem(
        company=CompanyId(company), rank=place, depth=Depth.DEEP, state=state, seconds=seconds
    )


def gathered(*runs):
    """The leftovers of runs that ended so, the newest first; told as dictionaries."""
    leftovers = UnfinishedWork()
    for nth, states in enumerate(runs):
        units = [unit(name, state, place=place) for place, (name, state) in enumerate(states)]
        leftovers.add(f"run {len(runs) - nth}", units)
    return leftovers


def named(left):
    return "".join(each.item.company for each in left)


@given(days)
def test_a_company_is_left_if_its_latest_unit_of_the_day_is_whoever_chose_it(day):
    latest = {}
    for states in day:
        latest = {**states, **latest}
    left = gathered(*(states.items() for states in day)).list_unfinished()

    assert sorted(named(left)) == sorted(
        c for c, state in latest.items() if state in RETRYABLE_STATES
    )
    assert {each.item.state for each in left} == {latest[each.item.company] for each in left}


@given(days)
def test_what_was_tried_in_vain_comes_after_everybody_else(day):
    left = gathered(*(states.items() for states in day)).list_unfinished()
    tries = [min(each.tries, 2) for each in left]

    assert tries == sorted(tries)
    assert [each.retries_used_up for each in left] == [number == 2 for number in tries]


def test_what_was_tried_longest_ago_is_tried_next():
    first = [(name, DEGRADED) for name in "abcd"]
    assert named(gathered([("a", DEGRADED), ("b", DEGRADED)], first).list_unfinished()) == "cdab"
    assert named(
        gathered([("c", DEGRADED)], [("a", DEGRADED), ("b", DEGRADED)], first).list_unfinished()
    ) == ("dabc")


def test_what_was_finished_in_between_begins_anew():
    [left] = gathered([("a", DEGRADED)], [("a", DONE)], [("a", DEGRADED)]).list_unfinished()
    assert (left.tries, left.retries_used_up) == (1, False)


@pytest.mark.parametrize("state", [DONE, UNKNOWN])
def test_what_no_look_of_the_day_makes_good_is_not_left(state):
    assert gathered([("a", state)], [("a", DEGRADED)]).list_unfinished() == ()


def test_what_was_only_scored_or_found_nobody_to_ask_is_still_left_but_was_tried():
    leftovers = UnfinishedWork()
    leftovers.add("run 2", [unit("a", DONE, seconds={"score": 0.1}), unit("b", DONE, seconds={})])
    leftovers.add("run 1", [unit("a", WAITING)])

    [left] = leftovers.list_unfinished()
    assert (left.item.company, left.run, left.tries, left.paid) == ("a", "run 1", 1, False)


@pytest.mark.parametrize(
    ("runs", "paid"),
    [
        ([(WAITING, {})], False),
        ([(SHED, {})], False),
        ([(TAKEN, {})], True),  # nobody wrote down what it had come to
        ([(DEGRADED, {})], False),
        ([(DEGRADED, {"crawl/pull_units": 3})], True),
        ([(WAITING, {}), (DEGRADED, {"crawl/pull_units": 3})], True),
        ([(DEGRADED, {}), (DONE, {"crawl/pull_units": 1})], True),
    ],
)
def test_a_look_is_paid_for_if_any_run_of_the_day_has_paid_for_it(runs, paid):
    leftovers = UnfinishedWork()
    for nth, (state, cost) in enumerate(runs):
        leftovers.add(f"run {nth}", [replace(unit("a", state), cost=cost)])
    [left] = leftovers.list_unfinished()
    assert left.paid is paid
