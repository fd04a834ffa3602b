"""Whatever they are told, all stores know of heat and pulls what the model knows."""

import asyncio
import random
from dataclasses import replace

import pytest

from contracts.attending import AT_ONCE, signal
from contracts.attention_sequences import first_difference
from contracts.backends import ACME, BACKENDS
from model.backend import MemoryBackend
from stoker.heat.heat import compute_heat

SEQUENCES = {"sqlite": 8, "postgres": 4, "json": 1}
STEPS = 80


async def compared(home, name, *, first, sequences, wrap=lambda backend: backend):
    swept, differences = 0, []
    for seed in range(first, first + sequences):
        folder = home / str(seed)
        folder.mkdir()
        async with BACKENDS[name](folder) as other:
            went, difference = await first_difference(
                seed, steps=STEPS, model=MemoryBackend(), other=wrap(other)
            )
        swept += went
        differences += [difference] if difference else []
    return swept, differences


@pytest.mark.parametrize("name", SEQUENCES)
async def test_random_sequences_leave_no_difference(name, tmp_path, record_property):
    first, n = random.randrange(10**9), SEQUENCES[name]
    swept, differences = await compared(tmp_path, name, first=first, sequences=n)
    counts = f"n={n} sequences of {STEPS} from seed {first}: {len(differences)} differences"
    record_property("fault", f"{name} has the heats the memory store has, {counts}, {swept} swept")
    assert not differences, differences[0]


class Wrapped:
    """A store of which some verb is done in another way."""

    def __init__(self, inner):
        self._get_inner_texts = inner

    def __getattr__(self, name):
        return getattr(self._get_inner_texts, name)

    def tenant(self, tenant):
        store = self._get_inner_texts.tenant(tenant)
        return replace(store, attention=type(self)(store.attention))


class Overwriting(Wrapped):
    """The naive twin: a sweep puts what it reckoned, whatever happened since it read."""

    async def update_heats(self, heats, *, expected):
        now = {heat.account: heat for heat in await self._get_inner_texts.list_heats()}
        still = [heat for heat in heats if heat.account in now]
        return await self._get_inner_texts.update_heats(
            still, expected=[now[heat.account] for heat in still]
        )


async def test_a_sweep_that_overwrites_what_moved_is_caught(tmp_path):
    _, differences = await compared(tmp_path, "sqlite", first=1, sequences=2, wrap=Overwriting)
    assert differences


class Forgetful(Wrapped):
    """The naive twin: it asks whether a look was made after the last, and never for its key."""

    async def record_lookups(self, looks, *, rule):
        again = [replace(look, key=f"{n} {look.at}") for n, look in enumerate(looks)]
        return await self._get_inner_texts.record_lookups(again, rule=rule)


async def test_a_store_that_learns_from_a_look_twice_is_caught(tmp_path):
    _, differences = await compared(tmp_path, "sqlite", first=1, sequences=2, wrap=Forgetful)
    assert differences


class ReadThenPut(Wrapped):
    """The naive twin: it reads an account's heat, and puts the new one in a second step."""

    async def add_signals(self, signals, *, rule, tiers, now):
        heats = {heat.account: heat for heat in await self._get_inner_texts.list_heats()}
        for one in signals:
            before = heats[one.account]
            after = compute_heat(before, [one], now=now, rule=rule, tiers=tiers)
            await self._get_inner_texts.update_heats([after], expected=[before])


@pytest.mark.parametrize("wrap", [Wrapped, ReadThenPut])
async def test_signals_told_at_once_are_lost_where_reading_and_putting_are_two_steps(
    tmp_path, wrap
):
    async with BACKENDS["sqlite"](tmp_path) as backend:
        attention = wrap(backend.tenant(ACME).attention)
        await attention.update_postures({"T1": 0.5}, **AT_ONCE)
        told = ([signal(f"s{n}", strength=0.5)] for n in range(8))
        await asyncio.gather(*(attention.add_signals(some, **AT_ONCE) for some in told))
        counted = len((await attention.find_heat("T1")).state.latest)
    assert counted == 8 if wrap is Wrapped else counted < 8
