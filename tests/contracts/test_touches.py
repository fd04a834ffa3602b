"""What every store promises about profiles, weekly plans, what came of them, and counters."""

import asyncio
from dataclasses import replace
from datetime import timedelta, timezone
from itertools import pairwise

import pytest

from contracts.backends import ACME, BACKENDS, UMBRELLA, refused
from contracts.touching import (
    COUNTERS,
    DAY,
    HOUR,
    MONDAY,
    NOW,
    WEEK,
    handed,
    marked,
    open_state_files,
    plan,
    profile,
    touch,
    url,
)
from stoker.base.errors import ConfigError, PermanentError
from stoker.touches.model import (
    PlanBasis,
    ProfileCounts,
    ProfileStatus,
    SavedDay,
    SavedWeek,
    TouchOutcome,
)


@pytest.fixture(params=["sqlite", "postgres", "file"])
def backend(request, tmp_path, runner):
    """Each database in turn, and state files."""
    opening = (BACKENDS | {"file": open_state_files})[request.param](tmp_path)
    yield runner.run(opening.__aenter__())
    runner.run(opening.__aexit__(None, None, None))


def with_touch(of, number, **changes):
    """The same plan, one touch of its changed."""
    days = tuple(
        replace(
            slot,
            touches=tuple(
                replace(each, **changes) if each.url == url(number) else each
                for each in slot.touches
            ),
        )
        for slot in of.days
    )
    return replace(of, days=days)


async def test_profiles_come_back_as_they_were_put_in_url_order(store):
    people = [
        profile(2, last_done_at=NOW),
        profile(0, status=ProfileStatus.PAUSED),
        replace(profile(1), name="Ünï 🙂"),
    ]
    assert await store.touches.save_profiles(people) == ProfileCounts(new=3)
    assert await store.touches.list_profiles() == [people[1], people[2], people[0]]
    assert await store.touches.list_profiles(after=url(0), limit=1) == [people[2]]
    assert await store.touches.save_profiles(people) == ProfileCounts(same=3)
    assert await store.touches.save_profiles([]) == ProfileCounts()


async def test_a_wait_never_begins_earlier_and_an_empty_name_replaces_none(store):
    await store.touches.save_profiles([profile(1, last_done_at=NOW)])
    older = replace(profile(1, last_done_at=NOW - DAY), name="")
    unknown = profile(1, status=ProfileStatus.PRIVATE)
    later = profile(1, last_done_at=NOW + DAY)
    assert await store.touches.save_profiles([older]) == ProfileCounts(same=1)
    assert await store.touches.save_profiles([unknown, later]) == ProfileCounts(changed=2)
    assert await store.touches.list_profiles() == [later]


async def test_moments_come_back_in_utc_and_those_without_a_zone_are_refused(store):
    east = NOW.astimezone(timezone(timedelta(hours=8)))
    await store.touches.save_profiles([profile(1, last_done_at=east)])
    [known] = await store.touches.list_profiles()
    assert known.last_done_at.utcoffset() == timedelta(0)
    naive = NOW.replace(tzinfo=None)
    await refused(store.touches.save_profiles([profile(2, last_done_at=naive)]), ConfigError)
    await refused(store.touches.save_plan(plan((), created_at=naive), seen=0), ConfigError)
    assert await store.touches.list_profiles() == [known]


async def test_a_plan_comes_back_as_it_was_put(store):
    week = plan((1, 2, 3), (4,), (), (5, 6), seed=2**70)
    odd = with_touch(week, 4, days_since=None, forced=True, probability=1.0)
    assert await store.touches.find_plan(WEEK) is None
    assert await store.touches.save_plan(odd, seen=0)
    assert await store.touches.find_plan(WEEK) == SavedWeek(plan=odd, revision=1)
    assert await store.touches.find_plan("2026-W08") is None


async def test_a_plan_is_replaced_only_by_who_saw_the_latest(store):
    first, second, third = plan((1, 2)), plan((1,), (2,)), plan((3,))
    assert not await store.touches.save_plan(first, seen=1)
    assert await store.touches.save_plan(first, seen=0)
    assert not await store.touches.save_plan(second, seen=0)
    assert await store.touches.save_plan(second, seen=1)
    assert not await store.touches.save_plan(third, seen=1)
    assert await store.touches.find_plan(WEEK) == SavedWeek(plan=second, revision=2)


async def test_of_many_who_replace_the_same_plan_one_wins(store):
    await store.touches.save_plan(plan((1,)), seen=0)
    others = [plan((number,)) for number in range(2, 10)]
    won = await asyncio.gather(*(store.touches.save_plan(other, seen=1) for other in others))
    assert won.count(True) == 1
    kept = await store.touches.find_plan(WEEK)
    assert kept == SavedWeek(plan=others[won.index(True)], revision=2)


@pytest.mark.parametrize("outcome", TouchOutcome)
async def test_only_a_touch_that_was_made_is_counted_and_restarts_the_wait(store, outcome):
    await store.touches.save_profiles([profile(1), profile(2)])
    await store.touches.save_plan(plan((1, 2)), seen=0)
    word = marked(1, outcome)
    assert await store.touches.record_outcome(WEEK, word, counters=COUNTERS)
    done = outcome is TouchOutcome.DONE
    counts = dict.fromkeys(COUNTERS, int(done))
    assert await store.touches.read_counters(COUNTERS) == counts
    wait = word.marked_at if done else None
    assert await store.touches.list_profiles() == [profile(1, last_done_at=wait), profile(2)]
    kept = await store.touches.find_plan(WEEK)
    assert kept.plan == with_touch(plan((1, 2)), 1, outcome=outcome)
    assert kept.revision == 2
    assert await store.touches.list_outcomes(since=MONDAY) == [word]


@pytest.mark.parametrize("outcome", TouchOutcome)
async def test_marking_twice_is_once(store, outcome):
    await store.touches.save_profiles([profile(1)])
    await store.touches.save_plan(plan((1,)), seen=0)
    assert await store.touches.record_outcome(WEEK, marked(1, outcome), counters=COUNTERS)
    kept, counts = (
        await store.touches.find_plan(WEEK),
        await store.touches.read_counters(COUNTERS),
    )
    people = await store.touches.list_profiles()
    again = marked(1, outcome, at=NOW + 9 * HOUR)
    assert not await store.touches.record_outcome(WEEK, again, counters=("another",))
    assert await store.touches.find_plan(WEEK) == kept
    assert await store.touches.read_counters([*COUNTERS, "another"]) == {**counts, "another": 0}
    assert await store.touches.list_profiles() == people


async def test_a_touch_marked_by_many_at_once_is_counted_once(store):
    await store.touches.save_plan(plan((1,)), seen=0)
    news = await asyncio.gather(
        *(store.touches.record_outcome(WEEK, marked(1), counters=COUNTERS) for _ in range(8))
    )
    assert news.count(True) == 1
    assert await store.touches.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 1)


async def test_what_failed_may_be_made_later_and_what_was_made_stays_made(store):
    await store.touches.save_plan(plan((1,)), seen=0)
    assert await store.touches.record_outcome(
        WEEK, marked(1, TouchOutcome.FAILED), counters=COUNTERS
    )
    assert await store.touches.record_outcome(WEEK, marked(1, TouchOutcome.DONE), counters=COUNTERS)
    await refused(
        store.touches.record_outcome(WEEK, marked(1, TouchOutcome.SKIPPED), counters=COUNTERS)
    )
    assert await store.touches.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 1)
    assert await store.touches.list_outcomes(since=MONDAY) == [marked(1)]


async def test_an_outcome_of_an_unplanned_touch_changes_nothing(store):
    await store.touches.save_profiles([profile(1), profile(9)])
    await refused(store.touches.record_outcome(WEEK, marked(1), counters=COUNTERS))
    await store.touches.save_plan(plan((1,)), seen=0)
    kept = await store.touches.find_plan(WEEK)
    await refused(store.touches.record_outcome(WEEK, marked(9), counters=COUNTERS))
    await refused(
        store.touches.record_outcome(WEEK, marked(1, day=MONDAY + DAY), counters=COUNTERS)
    )
    await refused(store.touches.record_outcome("2026-W08", marked(1), counters=COUNTERS))
    await refused(store.touches.record_outcome("next week", marked(1), counters=COUNTERS))
    await refused(store.touches.record_delivery(WEEK, handed(9)))
    assert await store.touches.find_plan(WEEK) == kept
    assert await store.touches.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 0)
    assert await store.touches.list_profiles() == [profile(1), profile(9)]
    assert await store.touches.list_outcomes(since=MONDAY) == []


async def test_no_repair_loses_what_came_of_a_touch(store):
    await store.touches.save_plan(plan((1, 2, 3)), seen=0)
    await store.touches.record_outcome(WEEK, marked(1), counters=COUNTERS)
    await store.touches.record_delivery(WEEK, handed(2))
    anew = plan((1, 2), (3,), seed=8)
    assert not await store.touches.save_plan(anew, seen=1)
    assert await store.touches.save_plan(anew, seen=2)
    told = with_touch(anew, 1, outcome=TouchOutcome.DONE)
    left = {(MONDAY, url(2)): handed(2)}
    assert await store.touches.find_plan(WEEK) == SavedWeek(plan=told, revision=3, deliveries=left)


async def test_what_a_plan_claims_came_of_its_touches_is_not_believed(store):
    honest = with_touch(plan((1,)), 1, handed_at=NOW)
    boasting = with_touch(honest, 1, outcome=TouchOutcome.DONE)
    await store.touches.save_plan(boasting, seen=0)
    assert await store.touches.find_plan(WEEK) == SavedWeek(plan=honest, revision=1)


async def test_a_touch_leaves_once_and_not_after_it_was_marked(store):
    await store.touches.save_plan(plan((1, 2, 3)), seen=0)
    assert await store.touches.record_delivery(WEEK, handed(1))
    assert not await store.touches.record_delivery(WEEK, handed(1, way="odoo", at=NOW + 2 * HOUR))
    await store.touches.record_outcome(WEEK, marked(2, TouchOutcome.SKIPPED), counters=COUNTERS)
    assert not await store.touches.record_delivery(WEEK, handed(2))
    assert await store.touches.record_delivery(WEEK, handed(3, refused="no such person"))
    kept = await store.touches.find_plan(WEEK)
    assert kept.deliveries == {
        (MONDAY, url(1)): handed(1),
        (MONDAY, url(3)): handed(3, refused="no such person"),
    }


async def test_a_day_is_read_with_its_outcomes_and_without_the_rest_of_its_week(store):
    assert await store.touches.find_day(WEEK, MONDAY) is None
    await store.touches.save_plan(plan((1, 2), (1,)), seen=0)
    await store.touches.record_outcome(WEEK, marked(1, TouchOutcome.FAILED), counters=COUNTERS)
    await store.touches.record_delivery(WEEK, handed(2))
    slot = with_touch(plan((1, 2)), 1, outcome=TouchOutcome.FAILED).days[0]
    assert await store.touches.find_day(WEEK, MONDAY) == SavedDay(
        slot=slot, deliveries={url(2): handed(2)}
    )
    empty = await store.touches.find_day(WEEK, MONDAY + 4 * DAY)
    assert empty == SavedDay(slot=plan().days[4])
    assert await store.touches.find_day(WEEK, MONDAY + 7 * DAY) is None
    assert await store.touches.find_day("2026-W08", MONDAY) is None


async def test_the_touches_of_one_url_are_listed_by_day_in_the_given_weeks(store):
    later = plan((2,), (1,))
    days = tuple(
        replace(
            slot,
            day=slot.day + 7 * DAY,
            touches=tuple(replace(t, day=t.day + 7 * DAY) for t in slot.touches),
        )
        for slot in later.days
    )
    next_week = replace(later, iso_week=8, monday=MONDAY + 7 * DAY, days=days)
    await store.touches.save_plan(plan((1, 2), (), (1,)), seen=0)
    await store.touches.save_plan(next_week, seen=0)
    await store.touches.record_outcome(WEEK, marked(1), counters=())
    first = touch(1, outcome=TouchOutcome.DONE)
    both = [first, touch(1, day=MONDAY + 2 * DAY)]
    assert await store.touches.list_touches(url(1), weeks=[WEEK]) == both
    told = await store.touches.list_touches(url(1), weeks=["2026-W08", WEEK, WEEK])
    assert [each.day for each in told] == [MONDAY, MONDAY + 2 * DAY, MONDAY + 8 * DAY]
    assert await store.touches.list_touches(url(9), weeks=[WEEK]) == []
    assert await store.touches.list_touches(url(1), weeks=[]) == []


async def test_profiles_are_found_by_url_and_unknown_urls_are_skipped(store):
    await store.touches.save_profiles([profile(number) for number in range(4)])
    asked = [url(3), url(9), url(1), url(3)]
    assert await store.touches.find_profiles(asked) == [profile(1), profile(3)]
    assert await store.touches.find_profiles([]) == []


async def test_the_roster_is_another_one_once_profiles_were_new_or_differed(store):
    seen = [await store.touches.get_profiles_version()]
    for people in ([profile(1)], [profile(1)], [], [replace(profile(1), name="Ann")]):
        await store.touches.save_profiles(people)
        seen.append(await store.touches.get_profiles_version())
    assert [b != a for a, b in pairwise(seen)] == [True, False, False, True]


async def test_a_plan_knows_what_it_was_brought_in_line_with_until_something_comes_of_it(store):
    settled = PlanBasis(on=MONDAY, profiles_version=3, rule_digest="ünï")
    assert await store.touches.save_plan(plan((1, 2)), seen=0, basis=settled)
    assert (await store.touches.find_plan(WEEK)).basis == settled
    await store.touches.record_delivery(WEEK, handed(1))
    assert (await store.touches.find_plan(WEEK)).basis == settled
    assert not (await store.touches.find_day(WEEK, MONDAY)).has_new_outcomes
    await store.touches.record_outcome(WEEK, marked(1, TouchOutcome.SKIPPED), counters=())
    assert (await store.touches.find_plan(WEEK)).basis is None
    day = await store.touches.find_day(WEEK, MONDAY)
    assert (day.basis, day.has_new_outcomes) == (settled, True)
    kept = await store.touches.find_plan(WEEK)
    assert await store.touches.save_plan(kept.plan, seen=kept.revision)
    assert (await store.touches.find_day(WEEK, MONDAY)).basis is None


async def test_a_plan_of_which_some_days_differ_comes_back_whole(store):
    first, second = plan((1, 2), (3,), (4, 5)), plan((1, 2), (), (4, 6), (7,))
    assert await store.touches.save_plan(first, seen=0)
    assert await store.touches.save_plan(second, seen=1)
    assert await store.touches.find_plan(WEEK) == SavedWeek(plan=second, revision=2)
    assert await store.touches.save_plan(first, seen=2)
    assert await store.touches.find_plan(WEEK) == SavedWeek(plan=first, revision=3)


async def test_a_delivered_touch_without_an_outcome_awaits_one(store):
    await store.touches.save_plan(plan((1, 2, 3, 4)), seen=0)
    assert await store.touches.count_awaiting_outcome(since=NOW) == 0
    await store.touches.record_delivery(WEEK, handed(1, at=NOW))
    await store.touches.record_delivery(WEEK, handed(2, at=NOW + HOUR))
    await store.touches.record_delivery(WEEK, handed(3, at=NOW + HOUR, refused="no"))
    out = [
        await store.touches.count_awaiting_outcome(since=NOW + h * HOUR) for h in (-1, 0, 0.5, 1, 2)
    ]
    assert out == [2, 2, 1, 1, 0]
    await store.touches.record_outcome(WEEK, marked(2, TouchOutcome.NO_POSTS), counters=())
    assert await store.touches.count_awaiting_outcome(since=NOW) == 1


async def test_concurrent_counts_are_all_added(store):
    await asyncio.gather(
        *(store.touches.add_to_counters(("day/1", "week/1"), 2) for _ in range(10))
    )
    await store.touches.add_to_counters(("day/2", "week/1"), 1)
    await store.touches.add_to_counters((), 5)
    counts = {"day/1": 20, "day/2": 1, "week/1": 21, "week/2": 0}
    assert await store.touches.read_counters(list(counts)) == counts
    assert await store.touches.read_counters(()) == {}
    await refused(store.touches.add_to_counters(("day/1",), -1))
    assert (await store.touches.read_counters(("day/1",)))["day/1"] == 20


async def test_outcomes_are_listed_from_a_day_on_by_day_then_url(store):
    await store.touches.save_plan(plan((2, 1), (1,)), seen=0)
    words = [
        marked(1),
        marked(2, TouchOutcome.FAILED),
        marked(1, TouchOutcome.NO_POSTS, day=MONDAY + DAY),
    ]
    for word in reversed(words):
        await store.touches.record_outcome(WEEK, word, counters=())
    assert await store.touches.list_outcomes(since=MONDAY) == words
    assert await store.touches.list_outcomes(since=MONDAY + DAY) == words[2:]


async def test_what_no_store_could_keep_is_refused_unwritten(store):
    for text in ("", "x\0", "\ud800", "https://people.test/" + "x" * 2_000):
        await refused(store.touches.save_profiles([profile(1), replace(profile(2), url=text)]))
    twice = replace(plan((1,)).days[0], touches=(touch(1), touch(1)))
    for wrong in (
        with_touch(plan((1,)), 1, url="x\0"),
        with_touch(plan((1,)), 1, score=float("nan")),
        with_touch(plan((1,)), 1, probability=1.5),
        with_touch(plan((1,)), 1, day=MONDAY + DAY),
        replace(plan(), days=(twice,)),
    ):
        await refused(store.touches.save_plan(wrong, seen=0))
    assert await store.touches.list_profiles() == []
    assert await store.touches.find_plan(WEEK) is None


async def test_one_tenant_sees_nothing_of_anothers_touches(backend):
    mine, theirs = backend.tenant(ACME).touches, backend.tenant(UMBRELLA).touches
    await mine.save_profiles([profile(1)])
    await mine.save_plan(plan((1,)), seen=0)
    await mine.record_outcome(WEEK, marked(1), counters=COUNTERS)
    assert await theirs.list_profiles() == []
    assert await theirs.find_plan(WEEK) is None
    assert await theirs.list_outcomes(since=MONDAY) == []
    assert await theirs.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 0)
    assert await theirs.save_plan(plan((2,)), seen=0)
    assert (await mine.find_plan(WEEK)).plan.days[0].touches[0].url == url(1)


async def test_an_outcome_that_no_plan_has_is_recorded_once_and_counts(store):
    await store.touches.save_profiles([profile(9)])
    kept = store.touches.record_unplanned_outcome
    assert await kept(marked(9), counters=COUNTERS)
    assert not await kept(marked(9), counters=COUNTERS)
    assert await store.touches.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 1)
    assert await store.touches.list_outcomes(since=MONDAY) == [marked(9)]
    [known] = await store.touches.list_profiles()
    assert known.last_done_at == marked(9).marked_at
    other = replace(marked(9), outcome=TouchOutcome.FAILED)
    await refused(kept(other, counters=COUNTERS), PermanentError)
    skipped = replace(marked(8), outcome=TouchOutcome.SKIPPED)
    assert await kept(skipped, counters=COUNTERS)
    assert await store.touches.read_counters(COUNTERS) == dict.fromkeys(COUNTERS, 1)


async def test_counters_are_replaced_and_the_others_stay(store):
    await store.touches.add_to_counters(["a", "b"], 3)
    await store.touches.replace_counters({"a": 1, "new": 7})
    found = await store.touches.read_counters(["a", "b", "new"])
    assert found == {"a": 1, "b": 3, "new": 7}
