"""Random sequences of verbs give the same answers and leave the same state in every backend."""

import asyncio
import random
from dataclasses import replace

import pytest

from contracts.accounts import planned, taken
from contracts.agreement import find_differences
from contracts.attending import AT_ONCE, signal
from contracts.backends import ACME, BACKENDS
from contracts.money_sequences import MoneySequence
from contracts.sequences import RunSequence
from contracts.touch_sequences import TouchSequence
from contracts.touching import open_state_files
from heat_cases import compute_heat
from kit.wrapped import Wrapped, wrap_store
from stoker.budgets.charges import Refusal
from stoker.enrichment.model import WorkState
from stoker.touches.model import Profile

OPENERS = BACKENDS | {"file": open_state_files}
# What is compared with the reference: how many sequences, and steps in each. Runs and touches are
# also files, and money has a model; the other stores are one SQL text, which their contracts run on
# both databases.
PLANS = [
    (RunSequence, "postgres", 18, 60),
    (RunSequence, "json", 30, 60),
    (TouchSequence, "postgres", 6, 80),
    (TouchSequence, "file", 6, 80),
    (MoneySequence, "sqlite", 30, 60),
    (MoneySequence, "postgres", 30, 60),
]


@pytest.mark.parametrize(("kind", "name", "sequences", "steps"), PLANS)
async def test_random_sequences_leave_no_difference(
    kind, name, sequences, steps, tmp_path, record_property
):
    first = random.randrange(10**9)
    counted, differences = await find_differences(
        kind, OPENERS[name], tmp_path, first=first, sequences=sequences, steps=steps
    )
    counts = f"n={sequences} sequences of {steps} from seed {first}, {counted} counted"
    record_property("fault", f"{kind.__name__} on {name}, {counts}: {len(differences)} differ")
    assert not differences, differences[0]
    assert counted > sequences // 4


class UnfencedRuns(Wrapped):
    """Accepts a run's key with another fencing token."""

    async def insert_jobs(self, key, jobs):
        run = await self._inner.find_run(key.at)
        if run is not None and run.key.fencing_token != key.fencing_token:
            key = run.key
        return await self._inner.insert_jobs(key, jobs)


class EagerTouches(Wrapped):
    """Counts every attempt."""

    async def record_outcome(self, week, marked, *, counters):
        news = await self._inner.record_outcome(week, marked, counters=counters)
        if news and not marked.outcome.is_counted:
            await self._inner.add_to_counters(counters, 1)
        return news


class ForgetfulTouches(Wrapped):
    """Loses at an import what was known about a profile."""

    async def save_profiles(self, profiles):
        known = {each.url for each in await self._inner.list_profiles()}
        later = [
            Profile(url=each.url, name=each.name or each.url, status=each.status)
            for each in profiles
            if each.url in known
        ]
        saved = await self._inner.save_profiles(profiles)
        await self._inner.save_profiles(later)
        return saved


class LastPlanWins(Wrapped):
    """Saves a plan over one that another process saved first."""

    async def save_plan(self, plan, *, seen, basis=None):
        earlier = await self._inner.find_plan(plan.week)
        latest = earlier.revision if earlier else 0
        return await self._inner.save_plan(plan, seen=latest, basis=basis)


class GenerousBudget(Wrapped):
    """Grants what does not fit a cap."""

    async def reserve(self, request, *, caps, **terms):
        answer = await self._inner.reserve(request, caps=caps, **terms)
        if isinstance(answer, Refusal) and answer.cap:
            roomy = [replace(cap, limit=10**9) for cap in caps]
            return await self._inner.reserve(request, caps=roomy, **terms)
        return answer


@pytest.mark.parametrize(
    ("kind", "wrap", "sequences"),
    [
        (RunSequence, wrap_store("runs", UnfencedRuns), 24),
        (TouchSequence, wrap_store("touches", EagerTouches), 3),
        (TouchSequence, wrap_store("touches", ForgetfulTouches), 3),
        (TouchSequence, wrap_store("touches", LastPlanWins), 3),
        (MoneySequence, wrap_store("budgets", GenerousBudget), 12),
    ],
)
async def test_a_naive_twin_is_caught(kind, wrap, sequences, tmp_path):
    _, differences = await find_differences(
        kind, OPENERS["memory"], tmp_path, first=1, sequences=sequences, steps=80, wrap=wrap
    )
    assert differences


class ReadThenPut(Wrapped):
    """The naive twin: it reads an account's heat, and writes the new one in a second step."""

    async def add_signals(self, signals, *, rule, now):
        heats = {heat.account: heat for heat in await self._inner.list_heats()}
        for one in signals:
            before = heats[one.account]
            after = compute_heat(before, [one], now=now, rule=rule)
            await self._inner.update_heats([after], expected=[before])


@pytest.mark.parametrize("wrap", [Wrapped, ReadThenPut])
async def test_signals_at_once_are_lost_only_where_reading_and_writing_are_two_steps(
    tmp_path, wrap
):
    async with BACKENDS["sqlite"](tmp_path) as backend:
        attention = wrap(backend.tenant(ACME).heat)
        await attention.update_postures({"T1": 0.5}, **AT_ONCE)
        batches = ([signal(f"s{n}", strength=0.5)] for n in range(8))
        await asyncio.gather(*(attention.add_signals(some, **AT_ONCE) for some in batches))
        counted = len((await attention.find_heat("T1")).state.latest)
    assert counted == 8 if wrap is Wrapped else counted < 8


class ReadThenClaim(Wrapped):
    """The naive twin: it lists free items, and claims them in a second step."""

    async def claim_items(self, run, *, owner, until, now, limit):
        free = await self._inner.list_items(run, states=[WorkState.WAITING], limit=limit)
        await asyncio.sleep(0)
        claimed = await self._inner.claim_items(run, owner=owner, until=until, now=now, limit=limit)
        return claimed or [replace(one, owner=owner) for one in free]


async def test_workers_that_read_before_they_claim_are_caught_claiming_an_item_twice(tmp_path):
    async with BACKENDS["sqlite"](tmp_path) as backend:
        nights = ReadThenClaim(backend.tenant(ACME).work_items)
        await planned(nights, 4)
        claims = await asyncio.gather(*(taken(nights, owner=f"w{n}") for n in range(8)))
        claimed = [one.company for some in claims for one in some]
    assert len(claimed) > len(set(claimed))
