"""Whatever they are told, all stores know of touches what the model knows."""

import random

import pytest

from contracts.backends import ACME, BACKENDS
from contracts.touch_sequences import first_difference
from contracts.touching import NOW
from model.touches import MemoryTouches
from stoker.touches.model import Profile
from stoker.touches.state_file import TouchStateFile

SEQUENCES = {"sqlite": 8, "postgres": 4, "file": 4}
STEPS = 80


async def compared(home, name, *, first, sequences, wrap=lambda store: store):
    made, differences = 0, []
    for seed in range(first, first + sequences):
        folder = home / str(seed)
        folder.mkdir()
        model = MemoryTouches()
        if name == "file":
            path = folder / "schedule_state.json"
            file = TouchStateFile(path, tenant=ACME, now=lambda: NOW, report=pytest.fail)
            went, difference = await first_difference(
                seed, steps=STEPS, model=model, other=wrap(file)
            )
        else:
            async with BACKENDS[name](folder) as backend:
                other = wrap(backend.tenant(ACME).touches)
                went, difference = await first_difference(
                    seed, steps=STEPS, model=model, other=other
                )
        made += went
        differences += [difference] if difference else []
    return made, differences


@pytest.mark.parametrize("name", SEQUENCES)
async def test_random_sequences_leave_no_difference(name, tmp_path, record_property):
    first, n = random.randrange(10**9), SEQUENCES[name]
    made, differences = await compared(tmp_path, name, first=first, sequences=n)
    counts = f"n={n} sequences of {STEPS} from seed {first}: {len(differences)} differences"
    record_property("fault", f"{name} has the touches the memory store has, {counts}, {made} made")
    assert not differences, differences[0]
    assert made


class Wrapped:
    """A store of which some verb is done in another way."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Eager(Wrapped):
    """The naive twin: it counts whatever was tried."""

    async def record_outcome(self, week, marked, *, counters):
        news = await self._inner.record_outcome(week, marked, counters=counters)
        if news and not marked.outcome.is_counted:
            await self._inner.add_to_counters(counters, 1)
        return news


class Forgetful(Wrapped):
    """The naive twin: an import replaces what was known, and a wait begins earlier."""

    async def save_profiles(self, profiles):
        known = {each.url: each for each in await self._inner.list_profiles()}
        later = [
            Profile(url=each.url, name=each.name or each.url, status=each.status)
            for each in profiles
            if each.url in known
        ]
        told = await self._inner.save_profiles(profiles)
        await self._inner.save_profiles(later)
        return told


class LastWins(Wrapped):
    """The naive twin: it does not look whether somebody was there first."""

    async def save_plan(self, plan, *, seen, settled=None):
        kept = await self._inner.find_plan(plan.week)
        latest = kept.revision if kept else 0
        return await self._inner.save_plan(plan, seen=latest, settled=settled)


@pytest.mark.parametrize("twin", [Eager, Forgetful, LastWins])
async def test_a_naive_store_is_caught(twin, tmp_path):
    _, differences = await compared(tmp_path, "sqlite", first=1, sequences=3, wrap=twin)
    assert differences
