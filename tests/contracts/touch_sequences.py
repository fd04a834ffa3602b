"""Random sequences about profiles, weekly plans, outcomes and deliveries of touches."""

from dataclasses import replace

from contracts.agreement import Sequence
from contracts.backends import ACME
from contracts.touching import DAY, HOUR, MONDAY, NOW, WEEK, handed, marked, plan, profile, url
from stoker.touches.model import PlanBasis, ProfileStatus, TouchOutcome

PEOPLE = 6
NAMES = ["", "Ann", "Ünï 🙂", "bad\0"]
COUNTERS = ["hour/1", "hour/2", "day/1", ""]


class TouchSequence(Sequence):
    def __init__(self, seed):
        super().__init__(seed)
        self.tenants = [ACME]

    def next(self):
        return self.rng.choice(
            [self.save_profiles] + [self.save_plan] * 2 + [self.record_outcome] * 5
            + [self.record_delivery] * 2 + [self.add_to_counters]
        )()  # fmt: skip

    def save_profiles(self):
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
        return self.call("touches.save_profiles", some)

    def save_plan(self):
        rng = self.rng
        days = [rng.sample(range(PEOPLE), rng.randrange(PEOPLE)) for _ in range(3)]
        made, behind = plan(*days, seed=rng.randrange(100)), rng.choice([0, 0, 0, 1])
        again, on = rng.random() < 0.5, MONDAY + rng.randrange(3) * DAY

        async def save(backend):
            store = backend.tenant(ACME).touches
            earlier, week, basis = await store.find_plan(WEEK), made, None
            if again:
                basis = PlanBasis(on=on, profiles_version=await store.get_profiles_version())
                if earlier:  # only some of the days differ
                    week = replace(made, days=(*earlier.plan.days[:4], *made.days[4:]))
            seen = (earlier.revision if earlier else 0) - behind
            return await store.save_plan(week, seen=seen, basis=basis)

        return f"save_plan {days} {behind}", save

    def record_outcome(self):
        rng = self.rng
        mark = marked(
            rng.randrange(PEOPLE),
            rng.choice(list(TouchOutcome)),
            day=MONDAY + rng.randrange(3) * DAY,
            at=NOW + rng.randrange(50) * HOUR,
        )
        names = rng.sample(COUNTERS[:3], rng.randrange(3)) + ([""] if rng.random() < 0.05 else [])
        return self.call("touches.record_outcome", WEEK, mark, counters=names)

    def record_delivery(self):
        rng = self.rng
        delivery = handed(
            rng.randrange(PEOPLE),
            day=MONDAY + rng.randrange(3) * DAY,
            at=NOW + rng.randrange(3) * HOUR,
            refused=rng.choice(["", "", "no"]),
        )
        return self.call("touches.record_delivery", WEEK, delivery)

    def add_to_counters(self):
        names, amount = self.rng.sample(COUNTERS, 2), self.rng.choice([-1, 0, 1, 7])
        return self.call("touches.add_to_counters", names, amount)

    async def dump_after_step(self, backend, number):
        store = backend.tenant(ACME).touches
        found = [
            await store.list_profiles(),
            await store.list_profiles(after=url(2), limit=2),
            await store.find_plan(WEEK),
            await store.list_outcomes(since=MONDAY + DAY),
            await store.read_counters(COUNTERS[:3]),
            await store.get_profiles_version(),
        ]
        return found if number % 8 else [*found, *await self.dump(backend)]

    async def dump(self, backend):
        store = backend.tenant(ACME).touches
        return [
            [await store.find_day(WEEK, MONDAY + nth * DAY) for nth in (0, 1, 9)],
            await store.list_touches(url(1), weeks=[WEEK, "2026-W06"]),
            await store.find_profiles([url(3), url(1), "https://people.test/unknown", url(1)]),
            [await store.count_awaiting_outcome(since=NOW + hours * HOUR) for hours in (0, 1, 2)],
        ]

    def is_counted(self, step, answer):
        return step.startswith("touches.record_outcome") and bool(answer)
