"""Whatever they are told, all stores know of tenants, companies and units what the model knows."""

import asyncio
import random
from dataclasses import replace

import pytest

from contracts.accounts import planned, taken
from contracts.backends import ACME, BACKENDS
from contracts.night_sequences import first_difference
from model.backend import MemoryBackend
from stoker.enrichment.model import WorkState

SEQUENCES = {"sqlite": 12, "postgres": 6, "json": 2}
STEPS = 120


async def compared(home, name, *, first, sequences, wrap=lambda backend: backend):
    ends, differences = 0, []
    for seed in range(first, first + sequences):
        folder = home / str(seed)
        folder.mkdir()
        async with BACKENDS[name](folder) as other:
            went, difference = await first_difference(
                seed, steps=STEPS, model=MemoryBackend(), other=wrap(other)
            )
        ends += went
        differences += [difference] if difference else []
    return ends, differences


@pytest.mark.parametrize("name", SEQUENCES)
async def test_random_sequences_leave_no_difference(name, tmp_path, record_property):
    first, n = random.randrange(10**9), SEQUENCES[name]
    ends, differences = await compared(tmp_path, name, first=first, sequences=n)
    counts = f"n={n} sequences of {STEPS} from seed {first}: {len(differences)} differences"
    record_property("fault", f"{name} has the nights the memory store has, {counts}, {ends} ended")
    assert not differences, differences[0]
    assert ends


class Wrapped:
    """A store of which some verb is done in another way."""

    def __init__(self, inner):
        self._get_inner_texts = inner

    def __getattr__(self, name):
        return getattr(self._get_inner_texts, name)


class Forgetful(Wrapped):
    """The naive twin: what a look did not find is taken for what there is not."""

    def tenant(self, tenant):
        store = self._get_inner_texts.tenant(tenant)
        return replace(store, nights=ForgetfulNights(store.nights))


class ForgetfulNights(Wrapped):
    async def finish_item(self, run, unit, dossier):
        if dossier and not dossier.company.name:
            bare = replace(dossier.company, name="unknown")
            dossier = replace(dossier, company=bare)
        return await self._get_inner_texts.finish_item(run, unit, dossier)


async def test_a_store_in_which_silence_replaces_a_word_is_caught(tmp_path):
    _, differences = await compared(tmp_path, "sqlite", first=1, sequences=4, wrap=Forgetful)
    assert differences


class Trusting(Wrapped):
    """The naive twin: it believes whoever ends a unit to be the one who has it."""

    def tenant(self, tenant):
        store = self._get_inner_texts.tenant(tenant)
        return replace(store, nights=TrustingNights(store.nights))


class TrustingNights(Wrapped):
    async def finish_item(self, run, unit, dossier):
        known = {one.company: one for one in await self._get_inner_texts.list_items(run)}
        owner = known[unit.company].owner if unit.company in known else unit.owner
        return await self._get_inner_texts.finish_item(run, replace(unit, owner=owner), dossier)


async def test_a_store_that_believes_a_late_owner_is_caught(tmp_path):
    _, differences = await compared(tmp_path, "sqlite", first=1, sequences=4, wrap=Trusting)
    assert differences


class LookThenTake(Wrapped):
    """The naive twin: it looks which units are free, and takes them in a second step."""

    async def claim_items(self, run, *, owner, until, now, limit):
        free = await self._get_inner_texts.list_items(run, states=[WorkState.WAITING], limit=limit)
        await asyncio.sleep(0)
        taken = await self._get_inner_texts.claim_items(
            run, owner=owner, until=until, now=now, limit=limit
        )
        return taken or [replace(one, owner=owner) for one in free]


async def test_takers_who_look_first_are_caught_taking_a_unit_twice(tmp_path):
    async with BACKENDS["sqlite"](tmp_path) as backend:
        nights = LookThenTake(backend.tenant(ACME).nights)
        await planned(nights, 4)
        won = await asyncio.gather(*(taken(nights, owner=f"w{n}") for n in range(8)))
        won = [one.company for some in won for one in some]
    assert len(won) > len(set(won))
