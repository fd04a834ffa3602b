"""A night of questions to vendors that break, lose answers and change prices; and its naive twin.

The vendors are the sandbox's, and their own bills are the oracle: kept per question here, so that
a question that was charged twice is seen.
"""

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from contracts.backends import sqlite
from faults.tally import Tally
from stoker.base.errors import StokerError
from stoker.base.events import OutcomeUncertain, Overrun
from stoker.budgets.charges import Refusal, SpendRequest, to_attempt
from stoker.budgets.model import Paid
from stoker.budgets.verify import verify_ledger
from stoker.http.client import HttpClient
from stoker.sandbox.server import HANDLERS, Sandbox
from stoker.sandbox.vendors.tavily import build_tavily_handler as honest_tavily
from stoker.sandbox.vendors.zerobounce import build_zerobounce_handler as honest_zerobounce
from stoker.testing import FakeClock
from stoker.vendors.answer_cache import build_cache_key
from stoker.vendors.client import MAX_ATTEMPTS
from stoker.vendors.email_batches import EmailBatcher
from stoker.vendors.model import FailureKind, VendorAnswer, VendorFailure
from stoker.vendors.tavily import SearchQuery
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
    for_breakdowns: Counter = field(default_factory=Counter)
    asked: Counter = field(default_factory=Counter)

    def of(self, vendor, maker, read):
        def made(world, dials, tallies):
            handler = maker(world, dials, tallies)

            def answered(asked):
                before = tallies.get_charged(vendor)
                told = handler(asked)
                questions = read(asked)
                self.asked.update(questions)
                # A batch is charged as a whole; each of its addresses may have been.
                taken = tallies.get_charged(vendor) - before
                if taken:
                    self.by_question.update(questions)
                if taken and told.status >= 500:
                    self.for_breakdowns.update(questions)
                return told

            return answered

        return made

    def twice(self):
        """Return what was charged twice, but for charges for saying that it broke down."""
        return {
            question
            for question, times in self.by_question.items()
            if times - self.for_breakdowns[question] > 1
        }


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
        **HANDLERS,
        "tavily.test": bill.of("tavily", honest_tavily, _query),
        "zerobounce.test": bill.of("zerobounce", honest_zerobounce, _addresses),
    }
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(sqlite(home))
        box = await stack.enter_async_context(
            Sandbox(seed=seed, companies=500, dials=turned, vendors=vendors)
        )
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        stack.push_async_callback(http.close)
        here = Desk(box, http, backend, clock or Quick(), limit=limit, deadline=deadline)
        async with here.budget:
            yield here, bill


async def each_of(items, work):
    """Do something for many, some at once; return what came of each, in order."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(item):
        async with room:
            return await work(item)

    return await asyncio.gather(*(one(item) for item in items))


def questions(count):
    return [SearchQuery(query=f"company number {number} singapore") for number in range(count)]


def ask(here, question, *, run="r1"):
    return here.get_vendor_client.ask(here.search, question, account=question.query, run=run)


def outcomes(answers):
    return Counter(
        answer.kind.value if isinstance(answer, VendorFailure) else type(answer).__name__
        for answer in answers
    )


class Judge:
    """Keeps what did not hold, in words."""

    def __init__(self):
        self.tally = Tally()

    def holds(self, what, so):
        if not so:
            self.tally.broken.append(what)


def lied_to(home, *, calls, cap, seed=1):
    """Ask a vendor that charges and loses answers, then once more when it is honest.

    Returns the tally, and how the first time ended.
    """
    judge = Judge()

    async def trial():
        async with night(home, dials("tavily"), limit=cap, seed=seed) as (here, bill):
            first = await each_of(questions(calls), lambda question: ask(here, question))
            settled, reserved = await here.counted("tavily")
            at_first = here.charged("tavily")
            judge.holds(
                f"charged {at_first}, known {settled + reserved}, cap {cap}",
                at_first <= settled + reserved <= cap,
            )
            uncertain = len(here.told.of_type(OutcomeUncertain))
            unknown = [
                isinstance(each, VendorFailure) and each.kind is FailureKind.UNKNOWN
                for each in first
            ]
            judge.holds(
                f"{sum(unknown)} unknown, {uncertain} told, {reserved} promised",
                sum(unknown) <= uncertain == reserved,
            )
            judge.holds("asked more than three times", max(bill.asked.values()) <= MAX_ATTEMPTS)
            for mood in LYING:
                here.box.faults.set_value(f"tavily.{mood}", 0)
            again = await each_of(questions(calls), lambda question: ask(here, question, run="r2"))
            settled, reserved = await here.counted("tavily")
            charged = here.charged("tavily")
            judge.holds("charged more than was known, or allowed", charged <= settled + reserved)
            judge.holds("known to be above the cap", settled + reserved <= cap)
            judge.holds(f"paid twice for {bill.twice()}", not bill.twice())
            judge.holds("a charge nobody asked for", sum(bill.by_question.values()) == charged)
            for problem in (await verify_ledger(here.store)).problems:
                judge.holds(f"the ledger: {problem}", so=False)
            for before, after, was_unknown in zip(first, again, unknown, strict=True):
                if was_unknown:
                    still = isinstance(after, VendorFailure) and after.kind is FailureKind.UNKNOWN
                    judge.holds("an unknown outcome was asked again the same day", still)
                if isinstance(before, VendorAnswer):
                    kept = isinstance(after, VendorAnswer) and after.answer == before.answer
                    judge.holds("an answer that was paid for is lost", kept and bool(after.saved))
            return first

    first = asyncio.run(trial())
    judge.tally.n, judge.tally.acked = calls, outcomes(first)["VendorAnswer"]
    return judge.tally, outcomes(first)


def batched(home, *, count, seed=1):
    """Verify addresses in batches that fail and meet; return the tally, and how they ended."""
    judge = Judge()
    emails = [f"person{number}@somewhere{number % 7}.com" for number in range(count)]
    # Without 429, which keeps everybody out for ten minutes.
    moods = {mood: often for mood, often in LYING.items() if mood != "fault.busy"}

    async def trial():
        limit = 5 * count
        async with night(home, dials("zerobounce", moods), limit=limit, seed=seed) as (here, bill):
            told = {}
            for number, (size, step) in enumerate([(9, 1), (13, 3), (20, 7), (31, 11)]):
                if number == 3:
                    for mood in LYING:
                        here.box.faults.set_value(f"zerobounce.{mood}", 0)
                shuffled = [emails[(place * step) % count] for place in range(count)]
                async with EmailBatcher(
                    here.get_vendor_client, here.verifier, batch_size=size
                ) as together:
                    parts = [shuffled[start : start + 5] for start in range(0, count, 5)]
                    for found in await each_of(parts, together.verify):
                        told.update(found)
            settled, reserved = await here.counted("zerobounce")
            judge.holds("an address was paid twice", max(bill.by_question.values(), default=0) <= 1)
            judge.holds(
                "charged more than was known", here.charged("zerobounce") <= settled + reserved
            )
            for problem in (await verify_ledger(here.store)).problems:
                judge.holds(f"the ledger: {problem}", so=False)
            return told

    ends = outcomes(asyncio.run(trial()).values())
    judge.holds(f"ends that cannot be: {dict(ends)}", ends.keys() <= {"VendorAnswer", "unknown"})
    judge.tally.n, judge.tally.acked = count, ends["VendorAnswer"]
    return judge.tally, ends


def dearer(home, *, percent, calls=50, cap=20, seed=1):
    """Ask a vendor that becomes dearer; return the tally, and what it charged in all."""
    judge = Judge()

    async def trial():
        async with night(home, {}, limit=cap, seed=seed) as (here, _):
            answers = []
            for number, question in enumerate(questions(calls)):
                if number == 5:
                    here.box.faults.set_value("tavily.price_percent", percent)
                before = here.charged("tavily")
                answers.append(await ask(here, question))
                settled, reserved = await here.counted("tavily")
                judge.holds("not counted as it was", settled + reserved == here.charged("tavily"))
                if before >= cap:
                    judge.holds("granted above the cap", isinstance(answers[-1], Refusal))
            return answers, here.charged("tavily"), here.told.of_type(Overrun)

    answers, charged, overruns = asyncio.run(trial())
    times = -(-percent // 100)
    judge.holds(f"charged {charged} of {cap} at {percent} %", cap <= charged < cap + times)
    judge.holds(
        "an overrun nobody was told of", len(overruns) == outcomes(answers)["VendorAnswer"] - 5
    )
    judge.tally.n, judge.tally.acked = calls, outcomes(answers)["VendorAnswer"]
    return judge.tally, charged


def replayed(home, *, n, seed=1):
    """Ask again ten minutes and a day later, and under an old key for something else."""
    judge, clock = Judge(), FakeClock()

    async def trial():
        async with night(home, {}, limit=20 * n, clock=clock, seed=seed) as (here, bill):
            wanted = questions(n)
            first = [await ask(here, question) for question in wanted]
            judge.holds("a first answer was free", all(answer.cost for answer in first))
            for later in (timedelta(minutes=10), timedelta(hours=24)):
                clock.advance(later)
                for question in wanted:
                    again = await ask(here, question, run=f"r{later}")
                    judge.tally.n += 1
                    judge.tally.acked += bool(again.saved)
                    judge.holds(f"paid again {later} later", again.saved and not again.cost)
            for question in wanted:
                judge.tally.n += 1
                judge.holds(
                    "an old key paid for other words", await _refused(here, here.budget, question)
                )
            judge.holds("the vendor was asked again", set(bill.asked.values()) == {1})

    asyncio.run(trial())
    return judge.tally


async def _refused(here, gate, question):
    """Ask for something dearer under a key that was used; say whether that was refused."""
    key = build_cache_key("tavily", account=question.query, asked=question.as_json())
    other = SpendRequest(key=key, connector="tavily", amounts={"calls": 1, "credits": 9})

    async def step():
        await here.search.ask(question, key="k")
        return Paid(answer=None, cost={"calls": 1, "credits": 9})

    try:
        await gate.spend(to_attempt(other, 1), step)
    except StokerError:
        return True
    return False


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
