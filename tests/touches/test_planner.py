"""A week's plan: every number kept, the same seed the same bytes, on any week of any zone."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.touches.export import plan_to_json
from stoker.touches.model import Profile, ProfileStatus
from stoker.touches.planning.planner import plan_week
from stoker.touches.planning.selection import build_eligible
from stoker.touches.settings import PlanRule
from touch_promises import broken_in

RULE = PlanRule()
MONDAY = date(2026, 2, 9)
NOW = datetime(2026, 2, 8, 20, tzinfo=UTC)
NOON = timedelta(hours=12)
ZONES = ["UTC", "Asia/Singapore", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"]


def profiles(number, *, seed=0, today=NOW):
    return [
        Profile(
            url=f"https://p{nth:04d}.test/",
            name=f"P {nth}",
            last_done_at=None
            if nth % 17 == 3
            else today - timedelta(days=(nth * 7 + seed) % 16, hours=nth % 24),
        )
        for nth in range(number)
    ]


def planned(people=None, *, monday=MONDAY, rule=RULE, seed=1, zone="UTC"):
    people = profiles(100) if people is None else people
    return plan_week(people, monday=monday, rule=rule, seed=seed, zone=zone, created_at=NOW)


@settings(max_examples=60)
@given(
    st.integers(0, 120),
    st.integers(0, 2**64),
    st.dates(date(1990, 1, 1), date(2037, 12, 1)),
    st.sampled_from(ZONES),
    st.integers(35, 140),
)
def test_any_week_of_any_zone_keeps_every_promise(number, seed, day, zone, target):
    monday = day - timedelta(days=day.weekday())
    rule = replace(RULE, weekly_budget=target, weekly_cap=target)
    people = profiles(number, today=datetime.combine(monday, time(), UTC) - NOON)
    plan = planned(people, monday=monday, seed=seed, zone=zone, rule=rule)
    assert not +broken_in(plan, rule=rule, people=people)
    assert len(plan.days) == 7
    assert (plan.iso_year, plan.iso_week) == monday.isocalendar()[:2]


def written(plan):
    return json.dumps(plan_to_json(plan)).encode()


def test_the_same_seed_gives_the_same_bytes_whatever_order_profiles_come_in():
    people = profiles(100)
    assert written(planned(people)) == written(planned(people[::-1]))
    assert written(planned(people)) != written(planned(people, seed=2))


def test_every_week_is_different():
    days = {
        tuple(slot.budget for slot in planned(monday=MONDAY + timedelta(weeks=w)).days)
        for w in range(10)
    }
    assert len(days) == 10


def test_a_week_with_a_day_that_never_was_says_so_and_gives_its_share_to_the_others():
    people = profiles(100, today=datetime(2011, 12, 25, tzinfo=UTC))
    plan = planned(people, monday=date(2011, 12, 26), zone="Pacific/Apia")
    assert plan.days[4].budget == 0
    assert plan.total == 80
    assert [note.day for note in plan.notes] == [date(2011, 12, 30)]


def test_touches_that_do_not_fit_are_said_and_as_many_as_fit_are_planned():
    short = replace(RULE, closes=time(9, 30), gap=timedelta(minutes=4))
    plan = planned(rule=short)
    assert [slot.budget for slot in plan.days] == [5] * 7
    assert plan.total == 35
    assert [note.day for note in plan.notes] == [None]
    assert "room for 35 touches, fewer than the 80 asked for" in plan.notes[0].message
    none = planned(rule=replace(RULE, closes=time(9, 1), gap=timedelta(minutes=4)))
    assert [len(slot.touches) for slot in none.days] == [1] * 7
    assert len(none.notes) == 8


def test_places_that_stay_empty_are_said():
    plan = planned(profiles(4))
    assert all(len(slot.touches) <= 4 for slot in plan.days)
    assert any("places stay empty" in note.message for note in plan.notes)
    assert planned([]).total == 80


def test_only_active_profiles_are_touched():
    people = [
        replace(each, status=list(ProfileStatus)[nth % 4]) for nth, each in enumerate(profiles(80))
    ]
    active = {each.url for each in people if each.status is ProfileStatus.ACTIVE}
    assert {t.url for slot in planned(people).days for t in slot.touches} <= active


def test_what_a_touch_says_about_the_wait_is_what_was_projected():
    people = profiles(40)
    last = {p.url: p.last_done_at and p.last_done_at.date() for p in people}
    for slot in planned(people).days:
        for touch in slot.touches:
            before = last[touch.url]
            assert touch.days_since == (None if before is None else (slot.day - before).days)
            last[touch.url] = slot.day


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"monday": date(2026, 2, 10)}, "no Monday"),
        ({"people": [Profile(url="a"), Profile(url="a")]}, "listed twice"),
        ({"zone": "Mars/Olympus"}, "Mars"),
        ({"people": [Profile(url="a", last_done_at=NOW.replace(tzinfo=None))]}, "no time zone"),
    ],
)
def test_what_cannot_be_planned_is_said(change, said):
    with pytest.raises(ConfigError, match=said):
        planned(**change)


@pytest.mark.parametrize("appeal", [-0.1, 1.5, float("nan"), float("inf")])
def test_an_appeal_that_is_none_is_refused(appeal):
    with pytest.raises(ConfigError, match="from 0 to 1"):
        build_eligible([Profile(url="p")], zone="UTC", appeals={"p": appeal})
