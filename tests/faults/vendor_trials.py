"""A night of questions to vendors that break, lose answers and change prices; and its naive twin.

The vendors are the sandbox's, and their own bills are the oracle: kept per question here, so that
a question that was charged twice is seen.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from contracts.backends import sqlite
from stoker.connectors.http import Http
from stoker.core.searching import Search
from stoker.errors import StokerError
from stoker.sandbox.box import VENDORS, Sandbox
from stoker.sandbox.tavily import tavily as honest_tavily
from stoker.sandbox.zerobounce import zerobounce as honest_zerobounce
from vendor_desk import Desk, Quick

LYING = {
    "fault.error": 0.07,
    "fault.error_charged": 0.07,
    "fault.close": 0.06,
    "fault.hang": 0.02,
    "fault.truncated": 0.04,
    "fault.cut_json": 0.04,
    "fault.garbage": 0.02,
    "fault.busy": 0.06,
    "fault.unavailable": 0.04,
    "fault.refused": 0.03,
}
AT_ONCE = 24


def dials(vendor, moods=LYING, **more):
    turned = {f"{vendor}.{name}": value for name, value in {**moods, **more}.items()}
    return {"zerobounce.calls": 1_000_000, **turned}


@dataclass
class Bill:
    """What a vendor charged, by what it was asked; and the most it had charged at any time."""

    by_question: Counter = field(default_factory=Counter)
    asked: Counter = field(default_factory=Counter)

    def of(self, vendor, maker, read):
        def made(world, dials, tallies):
            handler = maker(world, dials, tallies)

            def answered(asked):
                before = tallies.charged(vendor)
                told = handler(asked)
                questions = read(asked)
                self.asked.update(questions)
                # A batch is charged as a whole; each of its addresses may have been.
                taken = tallies.charged(vendor) - before
                if taken:
                    self.by_question.update(questions)
                return told

            return answered

        return made


def _query(asked):
    return [json.loads(asked.body)["query"]] if asked.path == "/search" else []


def _addresses(asked):
    if asked.path != "/v2/validatebatch":
        return []
    return [item["email_address"] for item in json.loads(asked.body)["email_batch"]]


@asynccontextmanager
async def night(home, turned, *, limit, deadline=0.25, clock=None, seed=1):
    """A tenant at its desk, with a real database, and the vendors' bills."""
    bill = Bill()
    vendors = {
        **VENDORS,
        "tavily.test": bill.of("tavily", honest_tavily, _query),
        "zerobounce.test": bill.of("zerobounce", honest_zerobounce, _addresses),
    }
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(sqlite(home))
        box = await stack.enter_async_context(
            Sandbox(seed=seed, companies=500, dials=turned, vendors=vendors)
        )
        http = Http(user_agent="Stoker test", sandbox=box.address)
        stack.push_async_callback(http.close)
        here = Desk(box, http, backend, clock or Quick(), limit=limit, deadline=deadline)
        async with here.promises:
            yield here, bill


async def each_of(items, work):
    """Do something for many, some at once; return what came of each, in order."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(item):
        async with room:
            return await work(item)

    return await asyncio.gather(*(one(item) for item in items))


def questions(count):
    return [Search(query=f"company number {number} singapore") for number in range(count)]


def ask(here, question, *, run="r1"):
    return here.asking.ask(here.search, question, account=question.query, run=run)


async def ask_naively(here, wanted, *, cap):
    """The twin: looks whether there is room, asks, tries again on any failure, counts successes."""
    spent = 0

    async def one(question):
        nonlocal spent
        for _ in range(3):
            if spent + 1 > cap:
                return None
            try:
                done = await here.search.ask(question, key="k")
            except StokerError:
                continue
            spent += here.search.price(question)["credits"]
            return done
        return None

    await each_of(wanted, one)
    return spent
