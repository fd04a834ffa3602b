"""The rest of a week from what happened: what was handed out stays, what failed comes again."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.touches.model import OutcomeMark, Profile, ProfileStatus, TouchOutcome
from stoker.touches.planning.planner import (
    apply_outcomes,
    mark_handed_out,
    plan_week,
    replan_week,
)
from stoker.touches.settings import PlanRule

RULE = PlanRule()
MONDAY = date(2026, 2, 9)
BEFORE = datetime(2026, 2, 8, 20, tzinfo=UTC)
PEOPLE = [
    Profile(url=f"p{nth:03d}", last_done_at=BEFORE - timedelta(days=nth * 5 % 14))
    for nth in range(100)
]
PLAN = plan_week(PEOPLE, monday=MONDAY, rule=RULE, seed=3, zone="UTC", created_at=BEFORE)
DAY = timedelta(days=1)


def at(day, hour=8, minute=0):
    return datetime(2026, 2, 9, hour, minute, tzinfo=UTC) + day * DAY


def outcomes_of(slot, kinds):
    return [
        OutcomeMark(url=t.url, day=slot.day, outcome=kind, marked_at=t.at)
        for t, kind in zip(slot.touches, kinds, strict=False)
    ]


def test_past_days_stay_and_every_budget_stays():
    after = replan_week(PLAN, PEOPLE, [], rule=RULE, now=at(3))
    assert after.days[:3] == PLAN.days[:3]
    assert [slot.budget for slot in after.days] == [slot.budget for slot in PLAN.days]
    assert (after.total, after.seed, after.created_at) == (PLAN.total, PLAN.seed, PLAN.created_at)


kinds = st.lists(st.sampled_from([*TouchOutcome, None]), min_size=20, max_size=20)


@settings(max_examples=60)
@given(st.integers(0, 6), st.integers(0, 23), kinds, kinds, st.booleans())
def test_a_repaired_week_keeps_every_promise(day, hour, yesterday, today, handed):
    said = []
    for nth, given_kinds in ((day - 1, yesterday), (day, today)):
        if nth >= 0:
            some = [(t, k) for t, k in zip(PLAN.days[nth].touches, given_kinds, strict=False) if k]
            said += [
                OutcomeMark(url=t.url, day=PLAN.days[nth].day, outcome=k, marked_at=t.at)
                for t, k in some
            ]
    now = at(day, hour, 30)
    plan = mark_handed_out(PLAN, day=PLAN.days[day].day, at=now - DAY / 24) if handed else PLAN
    after = replan_week(plan, PEOPLE, said, rule=RULE, now=now)
    stood = {
        t.url: t for t in apply_outcomes(plan, said).days[day].touches if t.outcome or t.handed_at
    }
    done = {(m.url, m.day) for m in said if m.outcome is TouchOutcome.DONE}
    for slot in after.days[day:]:
        assert len(slot.touches) <= slot.budget
        assert len({t.url for t in slot.touches}) == len(slot.touches)
        assert all(b.at - a.at >= RULE.gap for a, b in pairwise(slot.touches))
        for touch in slot.touches:
            assert 9 <= touch.at.hour < 18
            assert (touch.url, slot.day - DAY) not in done
            assert touch.url in stood or slot.day > after.days[day].day or touch.at >= now
    here = {t.url: t for t in after.days[day].touches}
    assert all(here[url] == touch for url, touch in stood.items())
    for one, other in pairwise(after.days[day:]):
        pending = {t.url for t in one.touches if t.outcome is None}
        assert not pending & {t.url for t in other.touches}


def test_repairing_twice_is_repairing_once():
    failed = outcomes_of(PLAN.days[0], [TouchOutcome.FAILED, TouchOutcome.DONE] * 9)
    once = replan_week(PLAN, PEOPLE, failed, rule=RULE, now=at(1))
    assert replan_week(once, PEOPLE, failed, rule=RULE, now=at(1)) == once


def test_when_everything_went_as_planned_the_rest_of_the_week_stays():
    done = outcomes_of(PLAN.days[0], [TouchOutcome.DONE] * 30)
    after = replan_week(PLAN, PEOPLE, done, rule=RULE, now=at(1))
    assert after.days[1:] == PLAN.days[1:]


def test_somebody_paused_during_the_week_is_left_out_unless_already_handed_out():
    first = PLAN.days[0].touches[0].url
    people = [replace(p, status=ProfileStatus.PAUSED) if p.url == first else p for p in PEOPLE]
    after = replan_week(PLAN, people, [], rule=RULE, now=at(0))
    assert all(t.url != first for slot in after.days for t in slot.touches)
    handed = mark_handed_out(PLAN, day=MONDAY, at=at(0))
    kept = replan_week(handed, people, [], rule=RULE, now=at(0, 9))
    assert first in {t.url for t in kept.days[0].touches if t.handed_at}


def test_a_day_that_is_nearly_over_says_what_no_longer_fits():
    after = replan_week(PLAN, PEOPLE, [], rule=RULE, now=at(0, 17, 57))
    assert len(after.days[0].touches) == 1
    assert [note.day for note in after.notes] == [MONDAY]
    again = replan_week(after, PEOPLE, [], rule=RULE, now=at(0, 17, 58))
    assert [note.day for note in again.notes] == [MONDAY]


def test_a_week_that_is_over_keeps_its_touches_and_takes_late_outcomes():
    late = outcomes_of(PLAN.days[6], [TouchOutcome.DONE])
    after = replan_week(PLAN, PEOPLE, late, rule=RULE, now=at(9))
    assert after.days[6].completed == 1
    assert after.days[:6] == PLAN.days[:6]


def test_what_was_handed_out_keeps_its_first_moment():
    once = mark_handed_out(PLAN, day=MONDAY, at=at(0))
    twice = mark_handed_out(once, day=MONDAY, at=at(0, 12))
    assert twice == once
    assert all(t.handed_at == at(0) for t in once.days[0].touches)
    assert not any(t.handed_at for slot in once.days[1:] for t in slot.touches)
