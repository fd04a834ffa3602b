"""Random sequences of verbs about touches, done to two stores and compared. A seed tells one."""

import random
from dataclasses import replace

from contracts.touching import DAY, HOUR, MONDAY, NOW, WEEK, handed, marked, plan, profile, url
from stoker.base.errors import StokerError
from stoker.touches.model import PlanBasis, ProfileStatus, TouchOutcome

PEOPLE = 6
NAMES = ["", "Ann", "Ünï 🙂", "bad\0"]
COUNTERS = ["hour/1", "hour/2", "day/1", ""]


class TouchSequence:
    """One sequence of verbs, made up as it goes along."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def next(self):
        return self.rng.choice(
            [self.profiles_by_url, self.find_plan, self.find_plan]
            + [self.record_outcome] * 5
            + [self.hand] * 2
            + [self.add_to_counters]
        )()

    def profiles_by_url(self):
        rng = self.rng
        some = [
            replace(
                profile(rng.randrange(PEOPLE)),
                name=rng.choice(NAMES[:3] * 5 + NAMES),
                status=rng.choice(list(ProfileStatus)),
                last_done_at=rng.choice([None, NOW + rng.randrange(20) * HOUR]),
            )
            for _ in range(rng.randrange(5))
        ]
        return f"put_profiles {some}", lambda store: store.save_profiles(some)

    def find_plan(self):
        rng = self.rng
        days = [rng.sample(range(PEOPLE), rng.randrange(PEOPLE)) for _ in range(3)]
        made, behind = plan(*days, seed=rng.randrange(100)), rng.choice([0, 0, 0, 1])
        again, on = rng.random() < 0.5, MONDAY + rng.randrange(3) * DAY

        async def put(store):
            kept = await store.find_plan(WEEK)
            seen = kept.revision if kept else 0
            # Half of the time only some of the days differ from the plan that is there.
            week = (
                replace(made, days=(*kept.plan.days[:4], *made.days[4:]))
                if (again and kept)
                else made
            )
            settled = (
                PlanBasis(on=on, profiles_version=await store.get_profiles_version())
                if again
                else None
            )
            return await store.save_plan(week, seen=seen - behind, settled=settled)

        return f"put_plan {days} {behind}", put

    def record_outcome(self):
        rng = self.rng
        word = marked(
            rng.randrange(PEOPLE),
            rng.choice(list(TouchOutcome)),
            day=MONDAY + rng.randrange(3) * DAY,
            at=NOW + rng.randrange(50) * HOUR,
        )
        names = rng.sample(COUNTERS[:3], rng.randrange(3)) + ([""] if rng.random() < 0.05 else [])
        return f"mark {word} {names}", lambda store: store.record_outcome(
            WEEK, word, counters=names
        )

    def hand(self):
        rng = self.rng
        left = handed(
            rng.randrange(PEOPLE),
            day=MONDAY + rng.randrange(3) * DAY,
            at=NOW + rng.randrange(3) * HOUR,
            refused=rng.choice(["", "", "no"]),
        )
        return f"hand_over {left}", lambda store: store.record_delivery(WEEK, left)

    def add_to_counters(self):
        names, amount = self.rng.sample(COUNTERS, 2), self.rng.choice([-1, 0, 1, 7])
        return f"count {names} {amount}", lambda store: store.add_to_counters(names, amount)


async def told(store, verb):
    try:
        return await verb(store)
    except StokerError as error:
        return type(error)


async def known(store, *, closely):
    """Return everything a store knows; what can be told in several ways, in all of them or one."""
    told = (
        await store.list_profiles(),
        await store.list_profiles(after=url(2), limit=2),
        await store.find_plan(WEEK),
        await store.list_outcomes(since=MONDAY + DAY),
        await store.read_counters(COUNTERS[:3]),
        await store.get_profiles_version(),
    )
    if not closely:
        return told
    return (
        *told,
        [await store.find_day(WEEK, MONDAY + nth * DAY) for nth in (0, 1, 9)],
        await store.list_touches(url(1), weeks=[WEEK, "2026-W06"]),
        await store.find_profiles([url(3), url(1), "https://people.test/nobody", url(1)]),
        [await store.count_awaiting_outcome(since=NOW + hours * HOUR) for hours in (0, 1, 2)],
    )


async def first_difference(seed, *, steps, model, other):
    """Return how many touches were made, and the first step after which the two differ."""
    sequence = TouchSequence(seed)
    for number in range(steps):
        name, verb = sequence.next()
        answers = [await told(store, verb) for store in (model, other)]
        if answers[0] != answers[1]:
            return 0, f"seed {seed}, step {number}, {name}: {answers[0]} and {answers[1]}"
        closely = number % 8 == 7
        states = [await known(store, closely=closely) for store in (model, other)]
        if states[0] != states[1]:
            return 0, f"seed {seed}, step {number}, {name}: they know different things"
    made = [mark for mark in await model.list_outcomes(since=MONDAY) if mark.outcome.is_counted]
    return len(made), ""
