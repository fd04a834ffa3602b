"""Tonight's companies: the order, the cap, the money, the depth."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import Candidate, CompanyId
from stoker.base.errors import ConfigError
from stoker.base.types import Depth
from stoker.enrichment.model import WorkItem
from stoker.nightly.targets import (
    DepthRule,
    TargetPicker,
    choose_depth,
    choose_targets,
    compute_affordable,
    compute_rank,
    limit_to_capacity,
    was_visited_since,
)

NOW = datetime(2026, 11, 16, tzinfo=UTC)
moments = st.none() | st.integers(0, 2_500).map(lambda days: NOW - timedelta(days=days))
standings = st.builds(
    Candidate,
    id=st.text("abc", min_size=1, max_size=6).map(CompanyId),
    scored=st.booleans(),
    contacts=st.integers(0, 3),
    last_seen_at=moments,
    last_looked_at=moments,
    heat=st.floats(0, 1),
)
candidate_lists = st.lists(standings, max_size=30, unique_by=lambda standing: standing.id)


def candidate(name, **about):
    given = {"scored": True, "contacts": 1, "last_seen_at": NOW, "last_looked_at": NOW, **about}
    return Candidate(id=CompanyId(name), **given)


def chosen(selection):
    return [unit.company for unit in selection.items]


def test_never_scored_comes_first_then_without_contacts_then_last_seen_newest_then_heat():
    day = timedelta(days=1)
    candidates = [
        candidate("cooler-5", heat=0.2),  # by name it would come before who is hotter
        candidate("older-6", last_seen_at=NOW - day),
        candidate("hotter-4", heat=0.4),
        candidate("nobody-to-write-to-3", contacts=0, last_seen_at=NOW - 9 * day),
        candidate("never-seen-7", last_seen_at=None),
        candidate("new-2", scored=False, last_seen_at=NOW - 9 * day),
        candidate("new-and-seen-1", scored=False, contacts=0, last_seen_at=NOW),
    ]
    places = [name[-1] for name in chosen(choose_targets(candidates, cap=10, now=NOW))]
    assert places == list("1234567")


@given(candidate_lists, st.integers(0, 40), st.integers(0, 60), st.randoms())
def test_a_night_keeps_its_cap_and_its_money_and_does_not_depend_on_the_order_of_asking(
    candidates, cap, money, shuffler
):
    rule = DepthRule()
    selection = choose_targets(candidates, cap=cap, now=NOW, pull_units=money)
    cost = {Depth.SHALLOW: rule.shallow_units, Depth.DEEP: rule.deep_units}
    assert len(selection.items) <= cap
    assert sum(cost[unit.depth] for unit in selection.items) <= money
    assert [unit.rank for unit in selection.items] == list(range(len(selection.items)))
    assert (
        len(selection.items) + selection.over_cap + selection.over_budget
        == selection.candidates
        == len(candidates)
    )
    shuffled = candidates[:]
    shuffler.shuffle(shuffled)
    assert choose_targets(shuffled, cap=cap, now=NOW, pull_units=money) == selection


@given(
    candidate_lists,
    st.integers(0, 40),
    st.none() | st.integers(0, 40),
    st.integers(0, 60),
    st.integers(0, 2_500).map(lambda days: NOW - timedelta(days=days)),
)
def test_whoever_was_looked_at_today_is_not_chosen_and_has_used_up_a_place_of_the_day(
    candidates, cap, limit, money, day
):
    how = {"now": NOW, "pull_units": money}
    selection = choose_targets(candidates, cap=cap, limit=limit, day_began_at=day, **how)
    fresh = [each for each in candidates if not was_visited_since(each, day)]
    today = len(candidates) - len(fresh)
    room = max(cap - today, 0) if limit is None else min(max(cap - today, 0), limit)
    assert (selection.candidates, selection.visited_today) == (len(candidates), today)
    assert selection.items == choose_targets(fresh, cap=room, **how).items
    assert (
        len(selection.items) + selection.over_cap + selection.over_budget + today
        == selection.candidates
    )


@given(
    candidate_lists,
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(0, 2_500).map(lambda days: NOW - timedelta(days=days)),
)
def test_whoever_was_looked_at_today_has_used_up_a_place_also_if_it_fits_no_rule_any_more(
    candidates, gone, cap, day
):
    targets = TargetPicker(cap=cap, day_began_at=day)
    targets.add(candidates)
    fresh = [each for each in candidates if not was_visited_since(each, day)]
    today = len(candidates) - len(fresh) + gone

    selection = targets.pick(now=NOW, looked_at=today)
    assert selection.items == choose_targets(fresh, cap=max(cap - today, 0), now=NOW).items
    assert selection.visited_today == today - gone


@pytest.mark.parametrize(
    ("looked", "today"),
    [(NOW, True), (NOW - timedelta(microseconds=1), False), (None, False)],
)
def test_a_day_begins_with_its_first_moment(looked, today):
    assert was_visited_since(candidate("x", last_looked_at=looked), NOW) is today
    assert not was_visited_since(candidate("x", last_looked_at=looked), None)


@given(candidate_lists, st.integers(0, 40), st.integers(0, 60))
def test_nobody_left_out_was_wanted_more_than_somebody_chosen(candidates, cap, money):
    inside = set(chosen(choose_targets(candidates, cap=cap, now=NOW, pull_units=money)))
    ranks_in = [compute_rank(each) for each in candidates if each.id in inside]
    ranks_out = [compute_rank(each) for each in candidates if each.id not in inside]
    assert not ranks_in or not ranks_out or max(ranks_in) < min(ranks_out)


@pytest.mark.parametrize(
    ("about", "depth"),
    [
        ({"scored": False}, Depth.DEEP),
        ({"contacts": 0}, Depth.DEEP),
        ({"heat": 0.5}, Depth.DEEP),
        ({"heat": 0.49}, Depth.SHALLOW),
        ({"last_looked_at": NOW - timedelta(days=30)}, Depth.DEEP),
        ({"last_looked_at": NOW - timedelta(days=29)}, Depth.SHALLOW),
        ({"last_looked_at": None}, Depth.DEEP),
    ],
)
def test_how_deep_a_look_goes_follows_what_is_known_and_heat(about, depth):
    assert choose_depth(candidate("x", **about), now=NOW, rule=DepthRule())[0] is depth


def test_a_deep_look_that_cannot_be_paid_for_becomes_shallow_and_says_so():
    fresh = [candidate(name, scored=False) for name in "abc"]
    selection = choose_targets(fresh, cap=10, now=NOW, pull_units=4)
    assert [unit.depth for unit in selection.items] == [Depth.DEEP, Depth.SHALLOW]
    assert "only 1 pull units are left" in selection.items[1].reason
    assert selection.over_budget == 1


def test_everybody_chosen_can_be_told_why():
    selection = choose_targets(
        [candidate("a", scored=False), candidate("b", contacts=0), candidate("c", heat=0.9)],
        cap=3,
        now=NOW,
    )
    assert [unit.reason.split(";")[0] for unit in selection.items] == [
        "never scored",
        "scored, but without contacts",
        "last seen 2026-11-16, heat 0.90",
    ]
    assert [unit.is_first for unit in selection.items] == [True, False, False]


def test_a_night_of_fewer_than_no_places_is_refused():
    with pytest.raises(ConfigError, match="at least 0"):
        choose_targets([], cap=-1, now=NOW)
    with pytest.raises(ConfigError, match="at least 0"):
        choose_targets([], cap=1, limit=-1, now=NOW)


@given(
    candidate_lists,
    st.integers(0, 40),
    st.none() | st.integers(0, 40),
    st.integers(0, 2_500).map(lambda days: NOW - timedelta(days=days)),
)
def test_looking_again_is_no_way_around_the_cap_of_the_day(candidates, cap, limit, day):
    selection = choose_targets(
        candidates, cap=cap, limit=limit, day_began_at=day, again=True, now=NOW
    )
    chosen = {unit.company for unit in selection.items}
    looked = {each.id for each in candidates if was_visited_since(each, day)}
    most = cap if limit is None else min(cap, limit)
    new = len(candidates) - len(looked)

    assert len(chosen) == min(most, min(new, max(cap - len(looked), 0)) + len(looked))
    assert len(chosen | looked) <= max(cap, len(looked))
    assert selection.visited_today == 0


@given(candidate_lists, st.integers(0, 40))
def test_where_nobody_looks_only_what_is_known_is_chosen(candidates, cap):
    targets = TargetPicker(cap=cap, known=True)
    targets.add(candidates)
    known = [each for each in candidates if each.last_looked_at is not None]

    assert targets.pick(now=NOW) == choose_targets(known, cap=cap, now=NOW)


@given(candidate_lists, st.integers(0, 40), st.integers(0, 30))
def test_whoever_is_set_aside_is_counted_and_not_chosen(candidates, cap, many):
    targets = TargetPicker(cap=cap, aside=[each.id for each in candidates[:many]])
    targets.add(candidates)
    told, others = targets.pick(now=NOW), choose_targets(candidates[many:], cap=cap, now=NOW)

    assert (told.items, told.over_cap) == (others.items, others.over_cap)
    assert told.candidates == len(candidates)


@given(st.lists(st.sampled_from(Depth), max_size=30), st.integers(0, 60))
def test_what_looks_take_of_the_units_left_is_told_beforehand(depths, left):
    rule = DepthRule(shallow_units=2, deep_units=5)
    taken, left_out = compute_affordable(depths, rule=rule, pull_units=left)

    budget, alone = left, 0
    for depth in depths:
        wanted = [5, 2] if depth is Depth.DEEP else [2]
        price = next((each for each in wanted if each <= budget), None)
        alone += price is None
        budget -= price or 0
    assert (taken, left_out) == (left - budget, alone)


@given(
    st.lists(st.text("abc", min_size=1, max_size=3), max_size=20, unique=True),
    st.integers(0, 30),
    st.none() | st.integers(0, 30),
    st.integers(0, 30),
    st.sets(st.text("abc", min_size=1, max_size=3), max_size=20),
)
def test_what_is_taken_over_never_goes_beyond_the_days_places(names, cap, limit, others, again):
    units = [
        WorkItem(company=CompanyId(name), rank=place, depth=Depth.DEEP)
        for place, name in enumerate(names)
    ]
    today = others + len(again)
    kept = limit_to_capacity(units, cap=cap, limit=limit, looked_at_today=today, again=again)
    chosen = [unit.company for unit in kept]
    new = [name for name in chosen if name not in again]

    assert chosen == sorted(chosen, key=names.index)
    assert [unit.rank for unit in kept] == list(range(len(kept)))
    assert today + len(new) <= max(cap, today)
    assert limit is None or len(kept) <= limit
    if limit is None:
        assert {*chosen} >= again & {*names}
        assert len(new) == min(max(cap - today, 0), len({*names} - again))
