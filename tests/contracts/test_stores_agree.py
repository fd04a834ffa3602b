"""Whatever is done to them, all stores say the same as the memory store, step by step."""

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from contracts.backends import BACKENDS
from contracts.sequences import compared
from model.backend import MemoryBackend

SEQUENCES, STEPS, AT_ONCE = 60, 40, 6


async def agreement(home, *names, wrap=lambda backend: backend, first=0, sequences=SEQUENCES):
    async with AsyncExitStack() as opened:
        others = {
            name: wrap(await opened.enter_async_context(BACKENDS[name](home))) for name in names
        }
        model, turn = MemoryBackend(), asyncio.Semaphore(AT_ONCE)

        async def one(seed):
            async with turn:
                return await compared(seed, steps=STEPS, model=model, others=others)

        found = await asyncio.gather(*(one(first + n) for n in range(sequences)))
        return [difference for differences in found for difference in differences]


@pytest.mark.parametrize("name", [name for name in BACKENDS if name != "model"])
async def test_random_sequences_leave_no_difference(name, tmp_path, record_property):
    first = random.randrange(10**9)
    differences = await agreement(tmp_path, name, first=first)
    counts = f"n={SEQUENCES} sequences of {STEPS} from seed {first}: {len(differences)} differences"
    record_property("fault", f"{name} against the memory store, {counts}")
    assert not differences, differences[0]


class Forgetful:
    """The naive twin: a backend that takes the key of another epoch for the right one."""

    def __init__(self, backend):
        self._backend = backend

    def tenant(self, tenant):
        store = self._backend.tenant(tenant)
        return replace(store, runs=ForgetfulRuns(store.runs))


class ForgetfulRuns:
    def __init__(self, runs):
        self._runs = runs

    def __getattr__(self, verb):
        return getattr(self._runs, verb)

    async def insert_jobs(self, key, jobs):
        run = await self._runs.find_run(key.at)
        if run is not None and run.key.fencing_token != key.fencing_token:
            key = run.key
        return await self._runs.insert_jobs(key, jobs)


async def test_a_store_that_does_not_fence_is_caught(tmp_path):
    differences = await agreement(tmp_path, "sqlite", wrap=Forgetful, first=1)
    assert any("insert_jobs" in difference.step for difference in differences)
