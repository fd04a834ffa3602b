"""What every store promises about profiles, weekly plans, what came of them, and counters."""

import asyncio
from dataclasses import replace
from datetime import timedelta, timezone
from itertools import pairwise
from types import SimpleNamespace

import pytest

from contracts.backends import ACME, BACKENDS, UMBRELLA
from contracts.touching import (
    COUNTERS,
    DAY,
    HOUR,
    MONDAY,
    NOW,
    WEEK,
    handed,
    marked,
    plan,
    profile,
    touch,
    url,
)
from stoker.base.errors import ConfigError, PermanentError
from stoker.touches.model import KeptDay, KeptPlan, Outcome, ProfilesPut, ProfileStatus, Settled
from stoker.touches.state_file import TouchStateFile


class Files:
    """A file for each tenant, where there is no store."""

    def __init__(self, home):
        self._home = home

    def tenant(self, tenant):
        path = self._home / tenant / "schedule_state.json"
        file = TouchStateFile(path, tenant=tenant, now=lambda: NOW, report=pytest.fail)
        return SimpleNamespace(touches=file)


@pytest.fixture(params=[*BACKENDS, "file"])
def on_backend(request, tmp_path):
    """Run an async scenario on a backend, or on files alone."""

    def run(scenario):
        async def whole():
            if request.param == "file":
                return await scenario(Files(tmp_path))
            async with BACKENDS[request.param](tmp_path) as backend:
                return await scenario(backend)

        return asyncio.run(whole())

    return run


async def refused(verb, kind=PermanentError):
    with pytest.raises(kind) as caught:
        await verb
    assert "\n" not in str(caught.value)


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


def test_profiles_come_back_as_they_were_put_in_url_order(on_store):
    async def scenario(store):
        people = [
            profile(2, last_done_at=NOW),
            profile(0, status=ProfileStatus.PAUSED),
            replace(profile(1), name="Ünï 🙂"),
        ]
        assert await store.touches.put_profiles(people) == ProfilesPut(new=3)
        assert await store.touches.profiles() == [people[1], people[2], people[0]]
        assert await store.touches.profiles(after=url(0), limit=1) == [people[2]]
        assert await store.touches.put_profiles(people) == ProfilesPut(same=3)
        assert await store.touches.put_profiles([]) == ProfilesPut()

    on_store(scenario)


def test_a_wait_never_begins_earlier_and_an_empty_name_replaces_none(on_store):
    async def scenario(store):
        await store.touches.put_profiles([profile(1, last_done_at=NOW)])
        older = replace(profile(1, last_done_at=NOW - DAY), name="")
        unknown = profile(1, status=ProfileStatus.PRIVATE)
        later = profile(1, last_done_at=NOW + DAY)
        assert await store.touches.put_profiles([older]) == ProfilesPut(same=1)
        assert await store.touches.put_profiles([unknown, later]) == ProfilesPut(changed=2)
        assert await store.touches.profiles() == [later]

    on_store(scenario)


def test_moments_come_back_in_utc_and_those_without_a_zone_are_refused(on_store):
    async def scenario(store):
        east = NOW.astimezone(timezone(timedelta(hours=8)))
        await store.touches.put_profiles([profile(1, last_done_at=east)])
        [known] = await store.touches.profiles()
        assert known.last_done_at.utcoffset() == timedelta(0)
        naive = NOW.replace(tzinfo=None)
        await refused(store.touches.put_profiles([profile(2, last_done_at=naive)]), ConfigError)
        await refused(store.touches.put_plan(plan((), created_at=naive), seen=0), ConfigError)
        assert await store.touches.profiles() == [known]

    on_store(scenario)


def test_a_plan_comes_back_as_it_was_put(on_store):
    async def scenario(store):
        week = plan((1, 2, 3), (4,), (), (5, 6), seed=2**70)
        odd = with_touch(week, 4, days_since=None, forced=True, probability=1.0)
        assert await store.touches.plan(WEEK) is None
        assert await store.touches.put_plan(odd, seen=0)
        assert await store.touches.plan(WEEK) == KeptPlan(plan=odd, revision=1)
        assert await store.touches.plan("2026-W08") is None

    on_store(scenario)


def test_a_plan_is_replaced_only_by_who_saw_the_latest(on_store):
    async def scenario(store):
        first, second, third = plan((1, 2)), plan((1,), (2,)), plan((3,))
        assert not await store.touches.put_plan(first, seen=1)
        assert await store.touches.put_plan(first, seen=0)
        assert not await store.touches.put_plan(second, seen=0)
        assert await store.touches.put_plan(second, seen=1)
        assert not await store.touches.put_plan(third, seen=1)
        assert await store.touches.plan(WEEK) == KeptPlan(plan=second, revision=2)

    on_store(scenario)


def test_of_many_who_replace_the_same_plan_one_wins(on_store):
    async def scenario(store):
        await store.touches.put_plan(plan((1,)), seen=0)
        others = [plan((number,)) for number in range(2, 10)]
        won = await asyncio.gather(*(store.touches.put_plan(other, seen=1) for other in others))
        assert won.count(True) == 1
        kept = await store.touches.plan(WEEK)
        assert kept == KeptPlan(plan=others[won.index(True)], revision=2)

    on_store(scenario)


@pytest.mark.parametrize("outcome", Outcome)
def test_only_what_was_made_is_counted_and_begins_the_wait_anew(on_store, outcome):
    async def scenario(store):
        await store.touches.put_profiles([profile(1), profile(2)])
        await store.touches.put_plan(plan((1, 2)), seen=0)
        word = marked(1, outcome)
        assert await store.touches.mark(WEEK, word, counters=COUNTERS)
        done = outcome is Outcome.DONE
        counts = dict.fromkeys(COUNTERS, int(done))
        assert await store.touches.counted(COUNTERS) == counts
        wait = word.marked_at if done else None
        assert await store.touches.profiles() == [profile(1, last_done_at=wait), profile(2)]
        kept = await store.touches.plan(WEEK)
        assert kept.plan == with_touch(plan((1, 2)), 1, outcome=outcome)
        assert kept.revision == 2
        assert await store.touches.marks(since=MONDAY) == [word]

    on_store(scenario)


@pytest.mark.parametrize("outcome", Outcome)
def test_marking_twice_is_once(on_store, outcome):
    async def scenario(store):
        await store.touches.put_profiles([profile(1)])
        await store.touches.put_plan(plan((1,)), seen=0)
        assert await store.touches.mark(WEEK, marked(1, outcome), counters=COUNTERS)
        kept, counts = await store.touches.plan(WEEK), await store.touches.counted(COUNTERS)
        people = await store.touches.profiles()
        again = marked(1, outcome, at=NOW + 9 * HOUR)
        assert not await store.touches.mark(WEEK, again, counters=("another",))
        assert await store.touches.plan(WEEK) == kept
        assert await store.touches.counted([*COUNTERS, "another"]) == {**counts, "another": 0}
        assert await store.touches.profiles() == people

    on_store(scenario)


def test_a_touch_marked_by_many_at_once_is_counted_once(on_store):
    async def scenario(store):
        await store.touches.put_plan(plan((1,)), seen=0)
        news = await asyncio.gather(
            *(store.touches.mark(WEEK, marked(1), counters=COUNTERS) for _ in range(8))
        )
        assert news.count(True) == 1
        assert await store.touches.counted(COUNTERS) == dict.fromkeys(COUNTERS, 1)

    on_store(scenario)


def test_what_failed_may_be_made_later_and_what_was_made_stays_made(on_store):
    async def scenario(store):
        await store.touches.put_plan(plan((1,)), seen=0)
        assert await store.touches.mark(WEEK, marked(1, Outcome.FAILED), counters=COUNTERS)
        assert await store.touches.mark(WEEK, marked(1, Outcome.DONE), counters=COUNTERS)
        await refused(store.touches.mark(WEEK, marked(1, Outcome.SKIPPED), counters=COUNTERS))
        assert await store.touches.counted(COUNTERS) == dict.fromkeys(COUNTERS, 1)
        assert await store.touches.marks(since=MONDAY) == [marked(1)]

    on_store(scenario)


def test_a_touch_nobody_planned_changes_nothing(on_store):
    async def scenario(store):
        await store.touches.put_profiles([profile(1), profile(9)])
        await refused(store.touches.mark(WEEK, marked(1), counters=COUNTERS))
        await store.touches.put_plan(plan((1,)), seen=0)
        kept = await store.touches.plan(WEEK)
        await refused(store.touches.mark(WEEK, marked(9), counters=COUNTERS))
        await refused(store.touches.mark(WEEK, marked(1, day=MONDAY + DAY), counters=COUNTERS))
        await refused(store.touches.mark("2026-W08", marked(1), counters=COUNTERS))
        await refused(store.touches.mark("next week", marked(1), counters=COUNTERS))
        await refused(store.touches.hand_over(WEEK, handed(9)))
        assert await store.touches.plan(WEEK) == kept
        assert await store.touches.counted(COUNTERS) == dict.fromkeys(COUNTERS, 0)
        assert await store.touches.profiles() == [profile(1), profile(9)]
        assert await store.touches.marks(since=MONDAY) == []

    on_store(scenario)


def test_no_repair_loses_what_came_of_a_touch(on_store):
    async def scenario(store):
        await store.touches.put_plan(plan((1, 2, 3)), seen=0)
        await store.touches.mark(WEEK, marked(1), counters=COUNTERS)
        await store.touches.hand_over(WEEK, handed(2))
        anew = plan((1, 2), (3,), seed=8)
        assert not await store.touches.put_plan(anew, seen=1)
        assert await store.touches.put_plan(anew, seen=2)
        told = with_touch(anew, 1, outcome=Outcome.DONE)
        left = {(MONDAY, url(2)): handed(2)}
        assert await store.touches.plan(WEEK) == KeptPlan(plan=told, revision=3, handed=left)

    on_store(scenario)


def test_what_a_plan_claims_came_of_its_touches_is_not_believed(on_store):
    async def scenario(store):
        honest = with_touch(plan((1,)), 1, handed_at=NOW)
        boasting = with_touch(honest, 1, outcome=Outcome.DONE)
        await store.touches.put_plan(boasting, seen=0)
        assert await store.touches.plan(WEEK) == KeptPlan(plan=honest, revision=1)

    on_store(scenario)


def test_a_touch_leaves_once_and_not_after_it_was_marked(on_store):
    async def scenario(store):
        await store.touches.put_plan(plan((1, 2, 3)), seen=0)
        assert await store.touches.hand_over(WEEK, handed(1))
        assert not await store.touches.hand_over(WEEK, handed(1, way="odoo", at=NOW + 2 * HOUR))
        await store.touches.mark(WEEK, marked(2, Outcome.SKIPPED), counters=COUNTERS)
        assert not await store.touches.hand_over(WEEK, handed(2))
        assert await store.touches.hand_over(WEEK, handed(3, refused="no such person"))
        kept = await store.touches.plan(WEEK)
        assert kept.handed == {
            (MONDAY, url(1)): handed(1),
            (MONDAY, url(3)): handed(3, refused="no such person"),
        }

    on_store(scenario)


def test_a_day_is_told_with_what_came_of_it_and_without_the_rest_of_its_week(on_store):
    async def scenario(store):
        assert await store.touches.day(WEEK, MONDAY) is None
        await store.touches.put_plan(plan((1, 2), (1,)), seen=0)
        await store.touches.mark(WEEK, marked(1, Outcome.FAILED), counters=COUNTERS)
        await store.touches.hand_over(WEEK, handed(2))
        slot = with_touch(plan((1, 2)), 1, outcome=Outcome.FAILED).days[0]
        assert await store.touches.day(WEEK, MONDAY) == KeptDay(
            slot=slot, handed={url(2): handed(2)}
        )
        empty = await store.touches.day(WEEK, MONDAY + 4 * DAY)
        assert empty == KeptDay(slot=plan().days[4])
        assert await store.touches.day(WEEK, MONDAY + 7 * DAY) is None
        assert await store.touches.day("2026-W08", MONDAY) is None

    on_store(scenario)


def test_the_touches_of_one_url_are_told_by_day_in_the_weeks_asked_for(on_store):
    async def scenario(store):
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
        await store.touches.put_plan(plan((1, 2), (), (1,)), seen=0)
        await store.touches.put_plan(next_week, seen=0)
        await store.touches.mark(WEEK, marked(1), counters=())
        first = touch(1, outcome=Outcome.DONE)
        both = [first, touch(1, day=MONDAY + 2 * DAY)]
        assert await store.touches.touches_of(url(1), weeks=[WEEK]) == both
        told = await store.touches.touches_of(url(1), weeks=["2026-W08", WEEK, WEEK])
        assert [each.day for each in told] == [MONDAY, MONDAY + 2 * DAY, MONDAY + 8 * DAY]
        assert await store.touches.touches_of(url(9), weeks=[WEEK]) == []
        assert await store.touches.touches_of(url(1), weeks=[]) == []

    on_store(scenario)


def test_some_profiles_are_told_by_url_and_the_unknown_are_passed_over(on_store):
    async def scenario(store):
        await store.touches.put_profiles([profile(number) for number in range(4)])
        asked = [url(3), url(9), url(1), url(3)]
        assert await store.touches.some_profiles(asked) == [profile(1), profile(3)]
        assert await store.touches.some_profiles([]) == []

    on_store(scenario)


def test_the_roster_is_another_one_once_profiles_were_new_or_differed(on_store):
    async def scenario(store):
        seen = [await store.touches.roster()]
        for people in ([profile(1)], [profile(1)], [], [replace(profile(1), name="Ann")]):
            await store.touches.put_profiles(people)
            seen.append(await store.touches.roster())
        assert [b != a for a, b in pairwise(seen)] == [True, False, False, True]

    on_store(scenario)


def test_a_plan_knows_what_it_was_brought_in_line_with_until_something_comes_of_it(on_store):
    async def scenario(store):
        settled = Settled(on=MONDAY, roster=3, rule="ünï")
        assert await store.touches.put_plan(plan((1, 2)), seen=0, settled=settled)
        assert (await store.touches.plan(WEEK)).settled == settled
        await store.touches.hand_over(WEEK, handed(1))
        assert (await store.touches.plan(WEEK)).settled == settled
        assert not (await store.touches.day(WEEK, MONDAY)).marked_since
        await store.touches.mark(WEEK, marked(1, Outcome.SKIPPED), counters=())
        assert (await store.touches.plan(WEEK)).settled is None
        day = await store.touches.day(WEEK, MONDAY)
        assert (day.settled, day.marked_since) == (settled, True)
        kept = await store.touches.plan(WEEK)
        assert await store.touches.put_plan(kept.plan, seen=kept.revision)
        assert (await store.touches.day(WEEK, MONDAY)).settled is None

    on_store(scenario)


def test_a_plan_of_which_some_days_differ_comes_back_whole(on_store):
    async def scenario(store):
        first, second = plan((1, 2), (3,), (4, 5)), plan((1, 2), (), (4, 6), (7,))
        assert await store.touches.put_plan(first, seen=0)
        assert await store.touches.put_plan(second, seen=1)
        assert await store.touches.plan(WEEK) == KeptPlan(plan=second, revision=2)
        assert await store.touches.put_plan(first, seen=2)
        assert await store.touches.plan(WEEK) == KeptPlan(plan=first, revision=3)

    on_store(scenario)


def test_what_left_and_nobody_has_spoken_of_is_still_out(on_store):
    async def scenario(store):
        await store.touches.put_plan(plan((1, 2, 3, 4)), seen=0)
        assert await store.touches.still_out(since=NOW) == 0
        await store.touches.hand_over(WEEK, handed(1, at=NOW))
        await store.touches.hand_over(WEEK, handed(2, at=NOW + HOUR))
        await store.touches.hand_over(WEEK, handed(3, at=NOW + HOUR, refused="no"))
        out = [await store.touches.still_out(since=NOW + h * HOUR) for h in (-1, 0, 0.5, 1, 2)]
        assert out == [2, 2, 1, 1, 0]
        await store.touches.mark(WEEK, marked(2, Outcome.NO_POSTS), counters=())
        assert await store.touches.still_out(since=NOW) == 1

    on_store(scenario)


def test_counters_grow_together_and_nobodys_count_is_lost(on_store):
    async def scenario(store):
        await asyncio.gather(*(store.touches.count(("day/1", "week/1"), 2) for _ in range(10)))
        await store.touches.count(("day/2", "week/1"), 1)
        await store.touches.count((), 5)
        counts = {"day/1": 20, "day/2": 1, "week/1": 21, "week/2": 0}
        assert await store.touches.counted(list(counts)) == counts
        assert await store.touches.counted(()) == {}
        await refused(store.touches.count(("day/1",), -1))
        assert (await store.touches.counted(("day/1",)))["day/1"] == 20

    on_store(scenario)


def test_marks_are_told_from_a_day_on_by_day_then_url(on_store):
    async def scenario(store):
        await store.touches.put_plan(plan((2, 1), (1,)), seen=0)
        words = [
            marked(1),
            marked(2, Outcome.FAILED),
            marked(1, Outcome.NO_POSTS, day=MONDAY + DAY),
        ]
        for word in reversed(words):
            await store.touches.mark(WEEK, word, counters=())
        assert await store.touches.marks(since=MONDAY) == words
        assert await store.touches.marks(since=MONDAY + DAY) == words[2:]

    on_store(scenario)


def test_what_no_store_could_keep_is_refused_unwritten(on_store):
    async def scenario(store):
        for text in ("", "x\0", "\ud800", "https://people.test/" + "x" * 2_000):
            await refused(store.touches.put_profiles([profile(1), replace(profile(2), url=text)]))
        twice = replace(plan((1,)).days[0], touches=(touch(1), touch(1)))
        for wrong in (
            with_touch(plan((1,)), 1, url="x\0"),
            with_touch(plan((1,)), 1, score=float("nan")),
            with_touch(plan((1,)), 1, probability=1.5),
            with_touch(plan((1,)), 1, day=MONDAY + DAY),
            replace(plan(), days=(twice,)),
        ):
            await refused(store.touches.put_plan(wrong, seen=0))
        assert await store.touches.profiles() == []
        assert await store.touches.plan(WEEK) is None

    on_store(scenario)


def test_one_tenant_sees_nothing_of_anothers_touches(on_backend):
    async def scenario(backend):
        mine, theirs = backend.tenant(ACME).touches, backend.tenant(UMBRELLA).touches
        await mine.put_profiles([profile(1)])
        await mine.put_plan(plan((1,)), seen=0)
        await mine.mark(WEEK, marked(1), counters=COUNTERS)
        assert await theirs.profiles() == []
        assert await theirs.plan(WEEK) is None
        assert await theirs.marks(since=MONDAY) == []
        assert await theirs.counted(COUNTERS) == dict.fromkeys(COUNTERS, 0)
        assert await theirs.put_plan(plan((2,)), seen=0)
        assert (await mine.plan(WEEK)).plan.days[0].touches[0].url == url(1)

    on_backend(scenario)
