"""Whatever is done to their money, all stores say the same as the memory store, step by step."""

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from contracts.backends import BACKENDS
from contracts.money_sequences import money_compared
from model.backend import MemoryBackend
from stoker.budgets.charges import Refusal

SEQUENCES, STEPS, AT_ONCE = 30, 60, 6


async def agreement(home, *names, wrap=lambda backend: backend, first=0, sequences=SEQUENCES):
    async with AsyncExitStack() as opened:
        others = {
            name: wrap(await opened.enter_async_context(BACKENDS[name](home))) for name in names
        }
        model, turn = MemoryBackend(), asyncio.Semaphore(AT_ONCE)

        async def one(seed):
            async with turn:
                return await money_compared(seed, steps=STEPS, model=model, others=others)

        found = await asyncio.gather(*(one(first + n) for n in range(sequences)))
        granted = sum(count for count, _ in found)
        return granted, [difference for _, differences in found for difference in differences]


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
async def test_random_sequences_of_money_leave_no_difference(name, tmp_path, record_property):
    first = random.randrange(10**9)
    granted, differences = await agreement(tmp_path, name, first=first)
    counts = f"n={SEQUENCES} sequences of {STEPS} from seed {first}, {granted} promises given"
    record_property("fault", f"money, {name} against memory, {counts}: {len(differences)} differ")
    assert granted > SEQUENCES
    assert not differences, differences[0]


class Generous:
    """The naive twin: a backend that takes a full cap for one with room."""

    def __init__(self, backend):
        self._backend = backend

    def __getattr__(self, verb):
        return getattr(self._backend, verb)

    def tenant(self, tenant):
        store = self._backend.tenant(tenant)
        return replace(store, money=GenerousMoney(store.money))


class GenerousMoney:
    def __init__(self, money):
        self._money = money

    def __getattr__(self, verb):
        return getattr(self._money, verb)

    async def reserve(self, request, *, caps, **terms):
        answer = await self._money.reserve(request, caps=caps, **terms)
        if isinstance(answer, Refusal) and answer.cap:
            roomy = [replace(cap, limit=10**9) for cap in caps]
            return await self._money.reserve(request, caps=roomy, **terms)
        return answer


async def test_a_store_that_grants_what_does_not_fit_is_caught(tmp_path):
    _, differences = await agreement(tmp_path, "sqlite", wrap=Generous, first=1)
    assert any("reserve" in difference.step for difference in differences)
