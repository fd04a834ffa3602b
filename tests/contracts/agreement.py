"""Apply random sequences of store verbs to two backends and compare every answer.

The reference is SQLite in memory, and for money a model in dictionaries.
"""

import asyncio
import random
from contextlib import AsyncExitStack
from datetime import datetime, timedelta, timezone

from contracts.backends import ACME, UMBRELLA
from contracts.knowledge import NOW
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import StokerError

TEXTS = ["", "plain", "ünï – 日本語 🙂", "quote ' and \" and \\", "line\nbreak\ttab"]
BAD_TEXTS = ["a\0b", "half \ud800"]
OF_ALL_TENANTS = ("shared", "registry", "directory")


class Sequence:
    """One random sequence of verbs; the seed reproduces it."""

    reference = MemoryBackend
    seconds = (0, 1, 90)  # how far the clock moves before a step
    seconds_back = (0,) * 8 + (1, 600)  # how far a step's own moment is behind the clock
    bad_share = 0.01
    at_once = 1  # sequences that share a backend

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.clock = NOW
        self.tenants = [ACME, ACME, ACME, UMBRELLA]
        self.tenant = ACME

    async def prepare(self, backend):
        """Fill a backend before the first step."""

    async def observe(self, reference):
        """Choose a tenant and read its state, so that most steps make sense."""
        self.tenant = self.rng.choice(self.tenants)

    def next(self):
        """Return the next step: its description, and a verb to call with a backend."""
        raise NotImplementedError

    def call(self, verb, *args, **kwargs):
        """Return a step that calls a store's verb, such as "runs.find_run"."""
        tenant, (store, name) = self.tenant, verb.split(".")

        def run(backend):
            owner = backend if store in OF_ALL_TENANTS else backend.tenant(tenant)
            stores = getattr(owner, store)
            return getattr(stores() if owner is backend else stores, name)(*args, **kwargs)

        return f"{verb} of {tenant} with {args} {kwargs}", run

    async def dump(self, backend):
        """Return everything the backend stores."""
        raise NotImplementedError

    async def dump_after_step(self, backend, number):
        """Return what is also compared after every step."""

    def is_counted(self, step, answer):
        """Whether the step did what the sequence is about: a test must see some of these."""
        raise NotImplementedError

    def now(self) -> datetime:
        self.clock += timedelta(seconds=self.rng.choice(self.seconds))
        back = self.rng.choice(self.seconds_back)
        now = (self.clock - timedelta(seconds=back, microseconds=back)).astimezone(self.zone())
        return now.replace(tzinfo=None) if self.rng.random() < self.bad_share else now

    def zone(self) -> timezone:
        return timezone(timedelta(hours=self.rng.choice([0, 8, -5])))

    def text(self) -> str:
        return self.rng.choice(BAD_TEXTS if self.rng.random() < self.bad_share else TEXTS)


async def find_differences(kind, opener, home, *, first, sequences, steps, wrap=lambda one: one):
    """Return how many steps counted, and the first difference of each sequence that has one."""
    counted, differences = 0, []
    for start in range(first, first + sequences, kind.at_once):
        folder = home / str(start)
        folder.mkdir()
        reference = kind.reference()
        async with AsyncExitStack() as opened:
            if close := getattr(reference, "close", None):
                opened.push_async_callback(close)
            other = wrap(await opened.enter_async_context(opener(folder)))
            seeds = range(start, min(start + kind.at_once, first + sequences))
            results = await asyncio.gather(
                *(_compare(kind(seed), seed, reference, other, steps=steps) for seed in seeds)
            )
        counted += sum(count for count, _ in results)
        differences += [difference for _, difference in results if difference]
    return counted, differences


async def _compare(sequence, seed, reference, other, *, steps):
    counted = 0
    for backend in (reference, other):
        await sequence.prepare(backend)
    for number in range(steps):
        await sequence.observe(reference)
        try:
            step, verb = sequence.next()
        except StokerError:
            continue  # the sequence chose a value that cannot exist
        expected, got = await _answer(verb, reference), await _answer(verb, other)
        if got != expected:
            return counted, f"seed {seed}, {step}: expected {expected}, got {got}"
        counted += sequence.is_counted(step, expected)
        states = [await sequence.dump_after_step(one, number) for one in (reference, other)]
        if states[0] != states[1]:
            return counted, f"seed {seed}, {step}: afterwards {states[0]}, got {states[1]}"
    expected, got = await sequence.dump(reference), await sequence.dump(other)
    difference = f"seed {seed}, at the end: expected {expected}, got {got}"
    return counted, None if got == expected else difference


async def _answer(verb, backend):
    """Return the verb's answer, or the type of the error it raises."""
    try:
        return await verb(backend)
    except StokerError as error:
        return type(error)
