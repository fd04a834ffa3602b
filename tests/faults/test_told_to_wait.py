"""A real server that answers 429, and says anything at all about when to come back."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from stoker.base.errors import TransientError
from stoker.sandbox.http import Response
from stoker.testing import FakeClock
from stoker.vendors.client import MAX_ATTEMPTS
from stoker.vendors.model import FailureKind, VendorAnswer, VendorFailure
from stoker.vendors.tavily import SearchQuery
from vendor_desk import Saying, desk

pytestmark = pytest.mark.faults

N = 100
FOUND = {"results": [{"url": "http://a.test/", "title": "A", "content": "c"}]}
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
BACKOFFS = timedelta(seconds=3)  # what we wait by ourselves between three attempts, at most


def dated(moment):
    date = format_datetime(NOON, usegmt=True)
    return {"date": date, "retry-after": format_datetime(moment, usegmt=True)}


SAYS = {
    "seconds": {"retry-after": "7"},
    "a date": dated(NOON + timedelta(seconds=20)),
    "a date that is past": dated(NOON - timedelta(days=1)),
    "1e9 seconds": {"retry-after": "1000000000"},
    "1e9": {"retry-after": "1e9"},
    "nan": {"retry-after": "nan"},
    "-1": {"retry-after": "-1"},
    "nothing": {},
}
USABLE = {"seconds": timedelta(seconds=7), "a date": timedelta(seconds=20)}
GONE = ("1e9 seconds",)  # so long that the question is left for another time


class Busy(Saying):
    """Refuses so many times, always with the same words about waiting, and then answers."""

    def __init__(self, headers, *, times):
        super().__init__(FOUND)
        self._refusal = Response(status=429, headers=headers)
        self._left = times

    def __call__(self, asked):
        answer = super().__call__(asked)
        self._left -= 1
        return answer if self._left < 0 else self._refusal


async def told_to_wait(what, number, work):
    """Do something with a vendor that refuses once, twice or for ever."""
    busy = Busy(SAYS[what], times=(1, 2, 1_000)[number % 3])

    async with desk(says=busy, clock=FakeClock(), companies=1) as here:
        before = here.clock.elapsed()
        told = await work(here, SearchQuery(query=f"company {number}"))
        return (
            *(told, here.clock.elapsed() - before, await here.counted("tavily")),
            len(busy.asked),
        )


async def ask(here, question):
    return await here.get_vendor_client.ask(here.search, question, account=question.query, run="r1")


def ask_naively(waits):
    """Return the twin: it waits as long as a header says, or not at all."""

    async def ask(here, question):
        for _ in range(50):
            try:
                return await here.search.ask(question, key="k")
            except TransientError:
                await here.clock.sleep(waits)
        return None

    return ask


def problems(what, number, outcome):
    """Return what is wrong about how a question to a busy vendor went."""
    told, waited, counted, asked = outcome
    times = (1, 2, 1_000)[number % 3]
    answered = times < MAX_ATTEMPTS and what not in GONE
    if asked > MAX_ATTEMPTS:
        yield f"a hot loop: asked {asked} times"
    wanted = USABLE.get(what, timedelta(0)) * min(times, MAX_ATTEMPTS - 1)
    if waited > wanted + BACKOFFS:
        yield f"waited {waited}"
    if waited < wanted or (waited <= timedelta(0) and what not in GONE):
        yield f"came back too soon, after {waited}"
    if isinstance(told, VendorAnswer) is not answered:
        yield f"ended as {told}"
    if isinstance(told, VendorFailure) and told.kind is not FailureKind.LATER:
        yield f"ended {told.kind}"
    if counted != ((1, 0) if answered else (0, 0)):
        yield f"refusals were charged: {counted}"


async def test_waits_are_bounded_without_hot_loops_and_refusals_are_not_charged(record_property):
    chance, met, wrong = random.Random(1), Counter(), []
    for number in range(N):
        what = list(SAYS)[number % len(SAYS)] if number < 48 else chance.choice(list(SAYS))
        outcome = await told_to_wait(what, number, ask)
        met[type(outcome[0]).__name__] += 1
        wrong += [f"{what}, {number}: {each}" for each in problems(what, number, outcome)]

    assert not wrong
    assert min(met["VendorAnswer"], met["VendorFailure"]) > 10
    record_property("fault", f"C1 told to wait: n={N}, {len(SAYS)} ways, {dict(met)}, charged 0")


@pytest.mark.parametrize(("seconds", "caught"), [(1e9, "waited"), (0, "a hot loop")])
async def test_a_naive_twin_is_caught(seconds, caught):
    twin = ask_naively(timedelta(seconds=seconds))
    found = list(problems("1e9 seconds", 2, await told_to_wait("1e9 seconds", 2, twin)))
    assert any(each.startswith(caught) for each in found)
