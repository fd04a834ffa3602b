"""Batches that stand in line stay open: tenants who share a vendor's pace make few, full ones."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from stoker.backends.sqlite import MemoryBackend
from stoker.base.clock import SystemClock
from stoker.base.errors import TransientError
from stoker.base.types import TenantId
from stoker.budgets.charges import Refusal
from stoker.budgets.reservations import OPEN_STATUSES
from stoker.http.client import HttpClient
from stoker.rate_limits.limiter import VendorLimit, VendorLimits
from stoker.rate_limits.rate_limit import Rate
from stoker.sandbox.server import Sandbox
from stoker.testing import FakeClock
from stoker.vendors.email_batches import EmailBatcher
from stoker.vendors.model import FailureKind, VendorAnswer
from vendor_desk import A_LOT, ACME, Desk, Failing

BOLT = TenantId("bolt")
HOUR = timedelta(hours=1)
QUICK = Rate(calls=A_LOT, per=timedelta(seconds=1), burst=A_LOT // 2)
ONE_AN_HOUR = Rate(calls=1, per=HOUR)
LONG = 120  # seconds; longer than anything here takes, so that a hang fails


class Watched(Sandbox):
    """Keeps the addresses of every batch it is asked about."""

    def __init__(self, **dials):
        super().__init__(companies=50, dials={"zerobounce.calls": A_LOT, **dials})
        self.read_batches = []

    def answer(self, asked):
        if asked.path == "/v2/validatebatch":
            self.read_batches.append(
                [each["email_address"] for each in asked.parse_json()["email_batch"]]
            )
        return super().answer(asked)


class Office:
    """Two tenants with one key: what is in front of the vendor is in front of both."""

    def __init__(self, box, http, *, clock, rate, places=1, shared=None, limit=A_LOT):
        self.box, self.clock = box, clock
        way = VendorLimit(rate=rate, concurrency=places)
        self.vendor_limits = VendorLimits(lambda _: way, shared=shared, owner="one", clock=clock)
        backend = MemoryBackend()
        self.desks = {
            tenant: Desk(
                box, http, backend, clock, tenant=tenant, traffic=self.vendor_limits, limit=limit
            )
            for tenant in (ACME, BOLT)
        }

    def batching(self, tenant, *, most=100, wait=timedelta(0)):
        desk = self.desks[tenant]
        return EmailBatcher(
            desk.get_vendor_client, desk.verifier, run="r1", batch_size=most, wait=wait
        )

    def passage(self):
        return self.desks[ACME].get_limiter.acquire_slot("zerobounce")

    async def asked_about(self, number):
        """Wait until so many batches have come to the vendor."""
        for _ in range(10_000):
            if len(self.box.read_batches) >= number:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"{len(self.box.read_batches)} of {number} batches have come")

    async def all_in_line(self, number):
        """Wait until so many batches stand at the turnstile."""
        turnstile = self.vendor_limits.get_limiter("zerobounce").queue
        for _ in range(10_000):
            if len(turnstile) >= number:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"{len(turnstile)} of {number} batches stand in line")


@asynccontextmanager
async def office(clock=None, rate=QUICK, dials=None, **kind):
    async with Watched(**dials or {}) as box:
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        try:
            yield Office(box, http, clock=clock or SystemClock(), rate=rate, **kind)
        finally:
            await http.close()


async def everybodys_turn():
    """Let all tasks come as far as they can without an answer from outside."""
    for _ in range(200):
        await asyncio.sleep(0)


async def at_office(work, **kind):
    async with office(**kind) as here:
        return await asyncio.wait_for(work(here), LONG)


def addresses(tenant, first, count):
    return [f"p{number}@{tenant}.example.com" for number in range(first, first + count)]


async def brought(together, tenant, sizes):
    """Have one company after the other bring so many addresses; return all outcomes."""
    tasks, first = [], 0
    for size in sizes:
        tasks.append(asyncio.create_task(together.verify(addresses(tenant, first, size))))
        first += size
        await everybodys_turn()
    return tasks


async def verdicts_of(tasks):
    return [each for told in await asyncio.gather(*tasks) for each in told.values()]


async def everybody(here, sizes, *, most):
    """Let both tenants bring addresses while the vendor's only place is taken, then let go."""
    async with (
        here.batching(ACME, most=most) as acmes,
        here.batching(BOLT, most=most) as bolts,
    ):
        both = {ACME: acmes, BOLT: bolts}
        async with here.passage():
            tasks = {tenant: await brought(both[tenant], tenant, sizes[tenant]) for tenant in sizes}
            due = sum(-(-sum(each) // most) for each in sizes.values())
            await here.all_in_line(due)
        return {tenant: await verdicts_of(each) for tenant, each in tasks.items()}


async def test_two_tenants_that_share_one_pace_make_few_full_batches():
    async def work(here):
        told = await everybody(here, {ACME: [3] * 20, BOLT: [2] * 20}, most=100)
        return told, here.box.read_batches

    told, batches = await at_office(work)
    assert sorted(map(len, batches)) == [40, 60]
    assert {tenant: len(each) for tenant, each in told.items()} == {ACME: 60, BOLT: 40}


sizes = st.lists(st.integers(1, 4), max_size=6)


@how(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(sizes, sizes, st.integers(1, 5), st.integers(0, 12))
async def test_batches_are_as_few_as_can_be_of_one_tenant_each_and_every_address_is_paid_for_once(
    acmes, bolts, most, limit
):
    async def work(here):
        told = await everybody(here, {ACME: acmes, BOLT: bolts}, most=most)
        kept = {tenant: await desk.counted("zerobounce") for tenant, desk in here.desks.items()}
        return told, here.box.read_batches, here.box.charges.get("zerobounce", {}), kept

    told, batches, charged, kept = await at_office(work, limit=limit)
    sent = [email for batch in batches for email in batch]
    assert len(set(sent)) == len(sent)
    assert all(len({email.split("@")[1] for email in batch}) == 1 for batch in batches)
    assert all(len(batch) <= most for batch in batches)
    for tenant, brought_by in ((ACME, acmes), (BOLT, bolts)):
        fits = min(sum(brought_by), limit)
        of_theirs = [batch for batch in batches if str(tenant) in batch[0]]
        assert len(of_theirs) == -(-fits // most)
        kinds = [type(each) for each in told[tenant]]
        assert (kinds.count(VendorAnswer), kinds.count(Refusal)) == (fits, sum(brought_by) - fits)
    assert sum(settled for settled, _ in kept.values()) == charged.get("credits", 0)
    assert all(promised == 0 for _, promised in kept.values())


async def test_a_batch_fills_while_the_pace_makes_it_wait():
    class Held(FakeClock):
        """A clock on which the pace's hour passes only when told to."""

        def __init__(self):
            super().__init__()
            self.go = asyncio.Event()

        async def sleep(self, duration):
            if duration:
                await self.go.wait()
            await super().sleep(duration)

    async def work(here):
        async with here.batching(ACME) as together:
            await together.verify(addresses(ACME, 100, 1))
            tasks = await brought(together, ACME, [1] * 30)
            here.clock.go.set()
            return await verdicts_of(tasks), here.box.read_batches

    told, batches = await at_office(work, clock=Held(), rate=ONE_AN_HOUR, places=4)
    assert len(told) == 30
    assert list(map(len, batches)) == [1, 30]


async def test_what_a_cap_refuses_uses_up_nobody_elses_turn():
    async def work(here):
        async with here.batching(ACME) as acmes, here.batching(BOLT) as bolts:
            began_at = here.clock.now()
            refused = await acmes.verify(addresses(ACME, 0, 3))
            again = await bolts.verify(addresses(BOLT, 0, 3))
            return refused, again, here.clock.now() - began_at, here.box.read_batches

    refused, again, took, batches = await at_office(
        work, clock=FakeClock(), rate=ONE_AN_HOUR, limit=0
    )
    assert {type(each) for each in (*refused.values(), *again.values())} == {Refusal}
    assert (took, batches) == (timedelta(0), [])


async def test_a_batch_whose_turn_cannot_be_had_is_told_to_everybody_in_it():
    async def work(here):
        async with here.batching(ACME) as together:
            return await together.verify(addresses(ACME, 0, 3)), here.box.read_batches

    shared = Failing(
        MemoryBackend().shared(),
        find_next_at=[TransientError("away")] * 9,
        acquire_call=[TransientError("away")] * 9,
    )
    told, batches = await at_office(work, clock=FakeClock(), shared=shared)
    assert {each.kind for each in told.values()} == {FailureKind.LATER}
    assert batches == []


async def test_a_batch_that_failed_once_goes_again_without_standing_in_its_own_way():
    async def work(here):
        async with here.batching(ACME) as acmes, here.batching(BOLT) as bolts:
            told = await asyncio.gather(
                acmes.verify(addresses(ACME, 0, 3)), bolts.verify(addresses(BOLT, 0, 3))
            )
            return [each for all_of in told for each in all_of.values()], here.box.read_batches

    told, batches = await at_office(
        work, clock=FakeClock(), rate=QUICK, dials={"zerobounce.fault.unavailable": 1.0}
    )
    assert {each.kind for each in told} == {FailureKind.LATER}
    assert len(batches) == 6


async def test_leaving_while_a_batch_stands_in_line_promises_and_asks_nothing():
    async def work(here):
        async with here.passage():
            async with here.batching(ACME) as together:
                asked = asyncio.create_task(together.verify(addresses(ACME, 0, 3)))
                await here.all_in_line(1)
            told = await asked
        open_promises = await here.desks[ACME].store.budgets.list_reservations(
            phases=tuple(OPEN_STATUSES)
        )
        return told, here.box.read_batches, open_promises

    told, batches, promises = await at_office(work)
    assert {each.kind for each in told.values()} == {FailureKind.LATER}
    assert (batches, promises) == ([], [])


async def test_an_address_wanted_while_its_batch_stands_in_line_is_asked_about_once():
    async def work(here):
        async with here.batching(ACME) as together:
            async with here.passage():
                one = asyncio.create_task(together.verify(addresses(ACME, 0, 3)))
                await here.all_in_line(1)
                other = asyncio.create_task(together.verify(addresses(ACME, 1, 3)))
                await everybodys_turn()
            return await verdicts_of([one, other]), here.box.read_batches

    told, batches = await at_office(work, places=1)
    assert [type(each) for each in told] == [VendorAnswer] * 6
    assert batches == [addresses(ACME, 0, 4)]


async def test_a_company_that_gives_up_takes_nobody_elses_verdict_along():
    async def work(here):
        async with here.batching(ACME) as together:
            async with here.passage():
                one = asyncio.create_task(together.verify(addresses(ACME, 0, 3)))
                await here.all_in_line(1)
                other = asyncio.create_task(together.verify(addresses(ACME, 0, 3)))
                await everybodys_turn()
                one.cancel()
                await everybodys_turn()
            return await verdicts_of([other]), here.box.read_batches

    told, batches = await at_office(work)
    assert [type(each) for each in told] == [VendorAnswer] * 3
    assert batches == [addresses(ACME, 0, 3)]


async def test_who_is_cut_off_leaves_no_batch_behind_that_waits_for_its_vendor():
    dials = {"zerobounce.status": 429}  # which keeps everybody out for ten minutes
    async with office(clock=SystemClock(), dials=dials) as here:
        before = asyncio.all_tasks()

        async def verifying():
            async with here.batching(ACME) as together:
                with together.producing():
                    await together.verify(["a@b.test"])

        doing = asyncio.create_task(verifying())
        await here.asked_about(1)
        await asyncio.sleep(0.1)
        doing.cancel()
        await asyncio.wait({doing}, timeout=LONG)
        assert (doing.done(), asyncio.all_tasks() - before - {doing}) == (True, set())
