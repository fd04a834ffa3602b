"""Whatever they are told, all stores know of registers, pages and answers what the model knows."""

import random

import pytest

from contracts.backends import BACKENDS
from contracts.knowledge_sequences import first_difference
from model.backend import MemoryBackend

SEQUENCES = {"sqlite": 12, "postgres": 6, "json": 3}
STEPS = 60


async def compared(home, name, *, first, sequences, wrap=lambda backend: backend):
    gone, differences = 0, []
    for seed in range(first, first + sequences):
        folder = home / str(seed)
        folder.mkdir()
        async with BACKENDS[name](folder) as other:
            went, difference = await first_difference(
                seed, steps=STEPS, model=MemoryBackend(), other=wrap(other)
            )
        gone += went
        differences += [difference] if difference else []
    return gone, differences


@pytest.mark.parametrize("name", SEQUENCES)
async def test_random_sequences_leave_no_difference(name, tmp_path, record_property):
    first, n = random.randrange(10**9), SEQUENCES[name]
    gone, differences = await compared(tmp_path, name, first=first, sequences=n)
    counts = f"n={n} sequences of {STEPS} from seed {first}: {len(differences)} differences"
    record_property("fault", f"{name} knows what the memory store knows, {counts}, {gone} gone")
    assert not differences, differences[0]


class Hasty:
    """The naive twin: when one file of a release has ended, it takes the whole of it to have."""

    def __init__(self, backend):
        self._backend = backend

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def registry(self):
        return HastyRegistry(self._backend.registry())


class HastyRegistry:
    def __init__(self, registry):
        self._registry = registry

    def __getattr__(self, name):
        return getattr(self._registry, name)

    async def end_load(self, load, *, now):
        ended = await self._registry.end_load(load, now=now)
        for one in await self._registry.list_loads(limit=100):
            if one.release == load.release and one.ended_at is None:
                await self._registry.end_load(one, now=now)
        return ended


async def test_a_register_that_takes_absence_from_a_part_for_the_end_is_caught(tmp_path):
    _, differences = await compared(tmp_path, "sqlite", first=1, sequences=4, wrap=Hasty)
    assert differences


class Undated(Hasty):
    """The naive twin: it dates changes by a clock that goes back, and by the hour."""

    def registry(self):
        return UndatedRegistry(self._backend.registry())


class UndatedRegistry(HastyRegistry):
    async def end_load(self, load, *, now):
        return await self._registry.end_load(load, now=now)

    async def load_entities(self, load, rows, *, now):
        on_the_hour = now.replace(minute=0, second=0, microsecond=0)
        return await self._registry.load_entities(load, rows, now=on_the_hour)


async def test_a_register_that_dates_changes_otherwise_is_caught(tmp_path):
    _, differences = await compared(tmp_path, "sqlite", first=1, sequences=2, wrap=Undated)
    assert differences
