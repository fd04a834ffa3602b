"""A process held still for so long that another one did its work does not pay for it again."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from stoker.base.clock import SystemClock
from stoker.budgets.reservations import OPEN_STATUSES
from stoker.vendors.email_batches import EmailBatcher
from stoker.vendors.model import FailureKind, VendorAnswer
from stoker.vendors.tavily import SearchQuery
from vendor_desk import Desk, at_desk

QUESTION = SearchQuery(query="singapore ship chandlers")


class Still:
    """A part of a store at one of whose verbs a process is held still, before it is done."""

    def __init__(self, part, verb):
        self._part, self._verb = part, verb
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, verb):
        if verb != self._verb:
            return getattr(self._part, verb)

        async def later(*given, **named):
            self.reached.set()
            await self.go.wait()
            return await getattr(self._part, verb)(*given, **named)

        return later


async def overtaken(here, verb, work):
    """Hold a process still at a verb, let this one do the same work; return what both got."""
    still = []

    def held(real):
        still.append(Still(real.money, verb))
        return replace(real, money=still[0])

    late = Desk(here.box, here.http, here.backend, here.clock, owner="late", store=held)
    waiting = asyncio.create_task(work(late))
    await still[0].reached.wait()
    first = await work(here)
    still[0].go.set()
    return first, await waiting


@pytest.mark.parametrize("verb", ["find_latest_attempt", "reserve"])
async def test_a_question_answered_meanwhile_is_not_paid_for_again(verb):
    async def asked(desk):
        return await desk.get_vendor_client.ask(
            desk.search, QUESTION, account="201900001A", run="r1"
        )

    async def work(here):
        return await overtaken(here, verb, asked), here.charged("tavily")

    (first, late), charged = await at_desk(work, clock=SystemClock())
    assert isinstance(first, VendorAnswer)
    assert isinstance(late, VendorAnswer)
    assert late.saved == first.cost
    assert charged == 1


@pytest.mark.parametrize("verb", ["find_latest_attempt", "reserve"])
@pytest.mark.parametrize("more", [0, 1])
async def test_addresses_verified_meanwhile_are_not_paid_for_again(verb, more):
    async def work(here):
        people = [p.email for c in map(here.box.world.get_company, range(20)) for p in c.people][:6]

        async def verified(desk):
            # The other process may have met the same addresses in another batch.
            emails = people[: 5 + more] if desk is here else people[:5]
            async with EmailBatcher(
                desk.get_vendor_client, desk.verifier, wait=timedelta(0)
            ) as batching:
                with batching.producing():
                    return await batching.verify(emails)

        both = await overtaken(here, verb, verified)
        return both, here.charged("zerobounce")

    (first, late), charged = await at_desk(work, clock=SystemClock())
    verdicts = {email: said.answer.verdict for email, said in first.items()}
    assert {email: said.answer.verdict for email, said in late.items()} == {
        email: verdicts[email] for email in late
    }
    assert charged == sum(said.cost["credits"] for said in first.values())


@pytest.mark.parametrize("verb", ["find_latest_attempt", "reserve", "mark_sent"])
async def test_who_was_held_still_while_asking_asks_nothing_once_its_work_is_no_longer_its_own(
    verb,
):
    async def work(here):
        still, ours = [], [True]

        def held(real):
            still.append(Still(real.money, verb))
            return replace(real, money=still[0])

        late = Desk(here.box, here.http, here.backend, here.clock, owner="late", store=held)
        asking = asyncio.create_task(
            late.get_vendor_client.ask(
                late.search, QUESTION, account="201900001A", run="r1", still_owner=lambda: ours[0]
            )
        )
        await still[0].reached.wait()
        ours[0] = False
        still[0].go.set()
        outcome = await asking
        return (
            outcome,
            here.charged("tavily"),
            await here.store.money.list_reservations(phases=tuple(OPEN_STATUSES)),
        )

    outcome, charged, holds = await at_desk(work, clock=SystemClock())
    assert (outcome.kind, charged) == (FailureKind.LATER, 0)
    assert "another process" in outcome.reason
    assert holds == []
