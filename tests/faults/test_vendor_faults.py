"""Vendors that charge and lose the answer, change prices, are asked again: caps and once hold."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from faults.vendor_trials import LYING, ask, ask_naively, dials, each_of, night, questions
from stoker.core.budget import Refused, Request
from stoker.core.events import OutcomeUncertain, Overrun
from stoker.core.questions import question_key
from stoker.engine.asking import Answered, Ending, Failed
from stoker.engine.batching import Batching
from stoker.engine.paying import Gate, attempt
from stoker.engine.verifying import verified
from stoker.errors import StokerError
from stoker.sources import Done
from stoker.testing import FakeClock

pytestmark = pytest.mark.faults

CALLS = 1_000
CAP = 700


def outcomes(answers):
    return Counter(
        answer.ending.value if isinstance(answer, Failed) else type(answer).__name__
        for answer in answers
    )


def test_a_thousand_calls_to_a_lying_vendor_stay_within_cap_ledger_and_once(
    tmp_path, record_property
):
    async def trial():
        async with night(tmp_path, dials("tavily"), limit=CAP) as (here, bill):
            first = await each_of(questions(CALLS), lambda question: ask(here, question))
            settled, reserved = await here.counted("tavily")
            at_first = here.charged("tavily")
            assert at_first <= CAP
            assert at_first <= settled + reserved <= CAP
            for mood in LYING:
                here.box.dials.turn(f"tavily.{mood}", 0)
            again = await each_of(questions(CALLS), lambda question: ask(here, question, run="r2"))
            settled, reserved = await here.counted("tavily")
            assert here.charged("tavily") <= settled + reserved <= CAP
            verdict = await verified(here.store)
            uncertain = here.told.of(OutcomeUncertain)
            return first, again, bill, here.charged("tavily"), verdict.problems, uncertain, reserved

    first, again, bill, charged, problems, uncertain, reserved = asyncio.run(trial())
    assert max(bill.by_question.values()) == 1  # nobody paid twice for a question
    assert sum(bill.by_question.values()) == charged
    assert not problems
    unknown = [isinstance(answer, Failed) and answer.ending is Ending.UNKNOWN for answer in first]
    assert sum(unknown) == len(uncertain) == reserved > 100
    for before, after, was_unknown in zip(first, again, unknown, strict=True):
        if was_unknown:
            assert after.ending is Ending.UNKNOWN
        if isinstance(before, Answered):
            assert after.answer == before.answer
            assert after.saved
    assert outcomes(first)["Refused"] > 0
    record_property("fault", f"C2 asking: n={CALLS}, {dict(outcomes(first))}, charged {charged}")


def test_a_naive_twin_pays_twice_and_goes_over_its_cap(tmp_path):
    async def trial():
        async with night(tmp_path, dials("tavily"), limit=CAP) as (here, bill):
            counted = await ask_naively(here, questions(600), cap=250)
            return counted, here.charged("tavily"), bill

    counted, charged, bill = asyncio.run(trial())
    assert charged > 250, "a vendor that never charges for lost answers shows nothing"
    assert charged > counted
    assert max(bill.by_question.values()) > 1


def test_addresses_are_charged_once_however_their_batches_fail_and_meet(tmp_path, record_property):
    count = 1_000
    emails = [f"person{number}@somewhere{number % 7}.com" for number in range(count)]

    # Without 429, which keeps everybody out for ten minutes.
    moods = {mood: often for mood, often in LYING.items() if mood != "fault.busy"}

    async def trial():
        async with night(tmp_path, dials("zerobounce", moods), limit=5_000) as (here, bill):
            told = {}
            for number, (size, step) in enumerate([(9, 1), (13, 3), (20, 7), (31, 11)]):
                if number == 3:
                    for mood in LYING:
                        here.box.dials.turn(f"zerobounce.{mood}", 0)
                shuffled = [emails[(place * step) % count] for place in range(count)]
                async with Batching(here.asking, here.verifier, most=size) as together:
                    parts = [shuffled[start : start + 5] for start in range(0, count, 5)]
                    for found in await each_of(parts, together.verify):
                        told.update(found)
            settled, reserved = await here.counted("zerobounce")
            problems = (await verified(here.store)).problems
            return told, bill, here.charged("zerobounce"), settled + reserved, problems

    told, bill, charged, counted, problems = asyncio.run(trial())
    assert max(bill.by_question.values()) == 1
    assert charged <= counted
    assert not problems
    ends = outcomes(told.values())
    assert ends.keys() <= {"Answered", "unknown"}
    assert ends["Answered"] > ends["unknown"] > 0
    record_property("fault", f"C2 batches: n={count} addresses in 4 passes, {dict(ends)}")


@pytest.mark.parametrize("percent", [150, 200, 700])
def test_a_dearer_vendor_is_seen_at_once_and_refused_the_next_time(
    tmp_path, percent, record_property
):
    cap, calls = 20, 50

    async def trial():
        async with night(tmp_path, {}, limit=cap) as (here, _):
            answers = []
            for number, question in enumerate(questions(calls)):
                if number == 5:
                    here.box.dials.turn("tavily.price_percent", percent)
                before = here.charged("tavily")
                answers.append(await ask(here, question))
                settled, reserved = await here.counted("tavily")
                assert settled + reserved == here.charged("tavily")
                if before >= cap:
                    assert isinstance(answers[-1], Refused)
            return answers, here.charged("tavily"), here.told.of(Overrun)

    answers, charged, overruns = asyncio.run(trial())
    dearer = -(-percent // 100)
    assert cap <= charged < cap + dearer
    assert len(overruns) == outcomes(answers)["Answered"] - 5
    record_property("fault", f"C5 price x{dearer}: n={calls}, charged {charged} of {cap}, all told")


def test_a_naive_twin_does_not_notice_the_price(tmp_path):
    async def trial():
        async with night(tmp_path, dials("tavily", {}, price_percent=300), limit=20) as (here, _):
            counted = await ask_naively(here, questions(50), cap=20)
            return counted, here.charged("tavily")

    counted, charged = asyncio.run(trial())
    assert charged == 3 * counted > 20


def test_a_key_asked_again_later_is_not_charged_again_and_with_other_words_refused(
    tmp_path, record_property
):
    n, clock = 50, FakeClock()

    async def trial():
        async with night(tmp_path, {}, limit=1_000, clock=clock) as (here, bill):
            wanted = questions(n)
            first = [await ask(here, question) for question in wanted]
            replays = []
            for later in (timedelta(minutes=10), timedelta(hours=24)):
                clock.advance(later)
                replays += [await ask(here, question, run=f"r{later}") for question in wanted]
            gate = Gate(here.promises, clock=clock)
            refused = 0
            for question in wanted:
                name = question.query
                key = question_key("tavily", account=name, asked=question.as_json())
                other = Request(key=key, connector="tavily", amounts={"calls": 1, "credits": 9})

                async def step(question=question):
                    await here.search.ask(question, key="k")
                    return Done(answer=None, cost={"calls": 1, "credits": 9})

                try:
                    await gate.pay_for(attempt(other, 1), step)
                except StokerError:
                    refused += 1
            return first, replays, refused, bill

    first, replays, refused, bill = asyncio.run(trial())
    assert all(answer.cost for answer in first)
    assert all(answer.saved and not answer.cost for answer in replays)
    assert refused == n
    assert set(bill.asked.values()) == {1}
    record_property("fault", f"C6 replays: n={2 * n} later, {n} with other words, charged again 0")


def test_a_naive_twin_charges_again_for_a_key_it_used_before(tmp_path):
    async def trial():
        async with night(tmp_path, {}, limit=1_000) as (here, bill):
            for _ in range(2):
                await ask_naively(here, questions(5), cap=1_000)
            return bill

    assert set(asyncio.run(trial()).by_question.values()) == {2}
