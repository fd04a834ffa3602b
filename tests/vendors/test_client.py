"""Asking a vendor once: kept answers, promises, attempts, crashes in between; and batches."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.model import EmailStatus
from stoker.base.clock import SystemClock
from stoker.base.errors import TransientError, UncertainError
from stoker.base.events import ConnectorOff, ConnectorRests, OutcomeUncertain, Overrun
from stoker.budgets.charges import Refusal
from stoker.budgets.reservations import OPEN_STATUSES, Reservation, ReservationStatus
from stoker.budgets.windows import ResetRule, WindowKind, compute_window
from stoker.sandbox.http import Response
from stoker.testing import FakeClock
from stoker.vendors.answer_cache import (
    MIN_RETRY_DELAY,
    build_cache_key,
    compute_retry_at,
    is_blocked_by,
)
from stoker.vendors.client import (
    MAX_ATTEMPTS,
    MAX_RETRY_WAIT,
    MAX_SERVER_ERRORS,
    MAX_WAIT_FOR_OTHERS,
    POLL_INTERVAL,
)
from stoker.vendors.email_batches import EmailBatcher
from stoker.vendors.model import FailureKind, VendorAnswer
from stoker.vendors.tavily import SEARCH_TTL, SearchQuery
from stoker.vendors.zerobounce import EmailQuery
from vendor_desk import ACME, CANARY, Desk, Failing, Quick, Saying, at_desk

QUESTION = SearchQuery(query="singapore ship chandlers")
KEY = build_cache_key("tavily", account="201900001A", asked=QUESTION.as_json())
FOUND = {"results": [{"url": "http://a.test/", "title": "A", "content": "c"}]}


def ask(here, question=QUESTION, **how):
    return here.get_vendor_client.ask(
        here.search, question, **{"account": "201900001A", "run": "r1", **how}
    )


class Scripted(Saying):
    """Says one thing after the other, the last for ever."""

    def __init__(self, *told):
        super().__init__(FOUND)
        self.left = list(told)

    def __call__(self, asked):
        honest = super().__call__(asked)
        if not self.left:
            return honest
        told = self.left.pop(0)
        return honest if told is None else told


BUSY, BROKEN = Response(status=429, headers={"retry-after": "1"}), Response(status=500)
CUT_OFF = Response(close_after=0)


def beside(here):
    """Another process of the same tenant."""
    return Desk(here.box, here.http, here.backend, here.clock, owner="two")


def failing(part, **fails):
    """Stores of which one part fails at these verbs, and then no more."""
    return lambda real: replace(real, **{part: Failing(getattr(real, part), **fails)})


async def phases(here, key=KEY):
    found = []
    while (
        hold := await here.store.budgets.find_reservation(f"{key}/{len(found) + 1}")
    ) is not None:
        found.append(hold.status)
    return found


async def test_a_kept_answer_costs_nothing_and_is_counted_as_saved():
    async def work(here):
        first, again = await ask(here), await ask(here, run="r2")
        return first, again, here.charged("tavily"), await here.counted("tavily")

    first, again, charged, counted = await at_desk(work)
    assert (first.cost, first.saved) == ({"calls": 1, "credits": 1}, {})
    assert (again.cost, again.saved) == ({}, {"calls": 1, "credits": 1})
    assert again.answer == first.answer
    assert charged == 1
    assert counted == (1, 0)


async def test_another_account_or_question_is_another_answer():
    async def work(here):
        for how in ({}, {"account": "other"}, {"question": SearchQuery(query="something else")}):
            await ask(here, **how)
        return here.charged("tavily")

    assert await at_desk(work) == 3


async def test_an_answer_that_is_no_longer_good_is_paid_for_again():
    async def work(here):
        answers = [await ask(here)]
        here.clock.advance(SEARCH_TTL - timedelta(seconds=1))
        answers.append(await ask(here))
        here.clock.advance(timedelta(seconds=1))
        answers.append(await ask(here))
        here.clock.advance(timedelta(hours=2))
        answers.append(await ask(here))
        return answers, here.charged("tavily"), await phases(here)

    answers, charged, all_phases = await at_desk(work, clock=FakeClock(), companies=500)
    assert [bool(answer.saved) for answer in answers] == [False, True, False, True]
    assert charged == 2
    assert all_phases == [ReservationStatus.SETTLED] * 2


async def test_whoever_asks_the_same_at_once_waits_for_the_one_answer():
    async def work(here):
        answers = await asyncio.gather(*(ask(here) for _ in range(20)))
        return answers, here.charged("tavily"), here.clock.slept

    answers, charged, slept = await at_desk(work, {"tavily.latency": "20ms"})
    assert charged == 1
    assert POLL_INTERVAL not in slept  # they wait for the answer itself
    assert sum(1 for answer in answers if answer.cost) == 1


async def test_everybody_with_the_same_key_waits_when_the_vendor_says_so():
    async def work(here):
        await ask(here)
        began_at = here.clock.now()
        async with here.get_limiter.acquire_slot("tavily"):
            return here.clock.now() - began_at

    vendor = Scripted(BUSY, BUSY, BUSY)
    assert await at_desk(work, says=vendor, clock=FakeClock()) >= timedelta(seconds=0.5)


RELEASED, SETTLED = ReservationStatus.RELEASED, ReservationStatus.SETTLED
UNCERTAIN = ReservationStatus.UNCERTAIN
GONE = Response(status=503, headers={"retry-after": str(MAX_RETRY_WAIT.seconds + 1)})


@pytest.mark.parametrize(
    ("script", "kind", "expected", "counted"),
    [
        ([BUSY, BUSY], None, [RELEASED, RELEASED, SETTLED], (1, 0)),
        ([BUSY] * 9, FailureKind.LATER, [RELEASED] * MAX_ATTEMPTS, (0, 0)),
        ([GONE], FailureKind.LATER, [RELEASED], (0, 0)),
        ([BROKEN, BUSY], None, [UNCERTAIN, RELEASED, SETTLED], (1, 1)),
        ([BROKEN] * 9, FailureKind.UNKNOWN, [UNCERTAIN] * MAX_ATTEMPTS, (0, MAX_ATTEMPTS)),
        *(
            ([Response(status=status)] * 9, FailureKind.NEVER, [RELEASED], (0, 0))
            for status in (400, 404, 422)
        ),
    ],
)
async def test_each_attempt_has_a_reservation_that_ends_as_the_vendor_answers(
    script, kind, expected, counted
):
    vendor = Scripted(*script)

    async def work(here):
        return await ask(here), await phases(here), await here.counted("tavily"), here.clock.slept

    outcome, all_phases, used, slept = await at_desk(work, says=vendor)
    assert getattr(outcome, "kind", None) is kind
    assert (all_phases, used, len(vendor.asked)) == (expected, counted, len(expected))
    if script[0] is BUSY:  # which asks for a second
        assert sum(wait >= timedelta(seconds=0.9) for wait in slept) >= len(expected) - 1


class Patient(FakeClock):
    """Time stands still for whoever sleeps, until somebody lets it pass."""

    def __init__(self):
        super().__init__()
        self.goes_on = asyncio.Event()
        self.sleepers = 0

    async def sleep(self, duration):
        self.sleepers += 1
        await self.goes_on.wait()
        await super().sleep(duration)


TEN_MINUTES = Response(status=429, headers={"retry-after": "600"})


async def test_that_a_vendor_wants_to_be_left_alone_is_told_once_however_many_asked():
    vendor = Scripted(*[TEN_MINUTES] * 12)

    async def work(here):
        questions = [SearchQuery(query=f"q{number}") for number in range(12)]
        asking = asyncio.gather(*(ask(here, question) for question in questions))
        while here.clock.sleepers < 12:  # a clock rings no bell
            await asyncio.sleep(0.01)
        here.clock.goes_on.set()
        await asking
        return here.told.of_type(ConnectorRests), len(vendor.asked)

    told, asked = await at_desk(work, says=vendor, clock=Patient())
    assert asked == 24
    [event] = told
    assert (event.tenant, event.connector) == (ACME, "tavily")
    assert event.until - event.at == timedelta(minutes=10)
    until = f"{event.until:%H:%M:%S} UTC"
    assert event.message() == f"tavily asked us to slow down; no calls to it before {until}"


async def test_each_time_a_vendor_wants_to_be_left_alone_anew_is_told_and_a_second_is_not():
    async def work(here):
        await ask(here)
        return [event.until - event.at for event in here.told.of_type(ConnectorRests)]

    twice = Scripted(TEN_MINUTES, TEN_MINUTES)
    assert await at_desk(work, says=twice, clock=FakeClock()) == [timedelta(minutes=10)] * 2
    assert await at_desk(work, says=Scripted(BUSY, BUSY), clock=FakeClock()) == []


async def test_who_waits_for_which_vendor_is_known_while_it_wants_to_be_left_alone():
    long = Response(status=429, headers={"retry-after": str(MAX_RETRY_WAIT.seconds + 1)})

    async def work(here):
        before = await here.get_vendor_client.list_cooldowns()
        asking = asyncio.create_task(ask(here))
        while not here.clock.sleepers:  # a clock rings no bell
            await asyncio.sleep(0.01)
        resting = await here.get_vendor_client.list_cooldowns()
        until = here.clock.now() + timedelta(minutes=10)
        here.clock.goes_on.set()
        await asking
        return before, resting, until, await here.get_vendor_client.list_cooldowns()

    before, resting, until, after = await at_desk(work, says=Scripted(TEN_MINUTES), clock=Patient())
    assert (before, after) == ({}, {})
    assert resting == {"tavily": until}

    async def given_up(here):
        return await ask(here), await here.get_vendor_client.list_cooldowns()

    failed, nobody_waits = await at_desk(given_up, says=Scripted(long), clock=FakeClock())
    assert failed.kind is FailureKind.LATER
    assert nobody_waits == {}


async def came_to(asked, wanted):
    """Wait until an answer is the one that is wanted."""
    for _ in range(1000):
        if await asked() == wanted:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it is still {await asked()}")


GONE_FOR_LONG = timedelta(minutes=10)
LONG = 120  # seconds; longer than anything here takes, so that a hang fails


async def test_nobody_waits_for_a_vendor_once_it_is_not_theirs_to_ask_any_more():
    busy = Response(status=429, headers={"retry-after": str(GONE_FOR_LONG.seconds)})
    vendor = Scripted(*[busy] * 5)

    async def work(here):
        theirs = True
        asking = asyncio.create_task(ask(here, still_owner=lambda: theirs))
        await came_to(lambda: phases(here), [ReservationStatus.RELEASED])
        theirs = False
        return await asyncio.wait_for(asking, LONG), await phases(here)

    failed, all_phases = await at_desk(work, says=vendor, clock=SystemClock())
    assert failed.kind is FailureKind.LATER
    assert all_phases == [ReservationStatus.RELEASED]


async def test_nobody_stands_in_line_once_it_is_not_theirs_to_ask_any_more():
    async def work(here):
        await here.get_limiter.delay_until("tavily", here.clock.now() + GONE_FOR_LONG)
        theirs = True
        asking = asyncio.create_task(ask(here, still_owner=lambda: theirs))
        await came_to(lambda: phases(here), [ReservationStatus.RESERVED])
        theirs = False
        failed = await asyncio.wait_for(asking, LONG)
        return failed, await phases(here), here.charged("tavily")

    failed, all_phases, charged = await at_desk(work, clock=SystemClock())
    assert failed.kind is FailureKind.LATER
    assert (all_phases, charged) == ([ReservationStatus.RELEASED], 0)


@pytest.mark.parametrize(
    "told",
    [
        CUT_OFF,
        Response(body=b"{"),
        Response(body=b"{}"),
        Response(hang=True),
        Response(status=500, headers={"x-should-retry": "false"}),
    ],
)
async def test_what_may_have_been_charged_is_kept_aside_and_not_asked_again(told):
    vendor = Scripted(told)

    async def work(here):
        answers = [await ask(here), await ask(here, run="r2")]
        return answers, await phases(here), await here.counted("tavily"), here.told

    answers, all_phases, counted, events = await at_desk(work, says=vendor, deadline=0.3)
    assert [answer.kind for answer in answers] == [FailureKind.UNKNOWN] * 2
    assert all_phases == [ReservationStatus.UNCERTAIN]
    assert (len(vendor.asked), counted) == (1, (0, 1))
    assert [event.connector for event in events.of_type(OutcomeUncertain)] == ["tavily"]


@pytest.mark.parametrize("status", [500, 502, 504, 599])
async def test_a_vendor_that_says_it_broke_down_is_asked_again_for_other_money(status):
    vendor = Scripted(Response(status=status), Response(status=status))

    async def work(here):
        answered = await ask(here)
        return answered, await phases(here), await here.counted("tavily"), here.clock.slept

    answered, all_phases, counted, slept = await at_desk(work, says=vendor)
    assert answered.cost == {"calls": 1, "credits": 1}
    assert f"{KEY}/2" in answered.note  # whoever reads of it learns what to find out
    assert all_phases == [
        ReservationStatus.UNCERTAIN,
        ReservationStatus.UNCERTAIN,
        ReservationStatus.SETTLED,
    ]
    assert counted == (1, 2)
    assert len(slept) >= 2


async def test_asking_again_after_a_breakdown_is_refused_where_its_money_is_not_there():
    vendor = Scripted(*[BROKEN] * 10)

    async def work(here):
        return await ask(here), await here.counted("tavily")

    refused, counted = await at_desk(work, says=vendor, limit=2)
    assert isinstance(refused, Refusal)
    assert (counted, len(vendor.asked)) == ((0, 2), 2)


async def test_a_vendor_that_is_down_is_asked_each_question_once_until_it_answers_again():
    vendor = Scripted(*[BROKEN] * (MAX_SERVER_ERRORS + 1), None, BROKEN)

    async def work(here):
        asked = []
        for number in range(8):
            before = len(vendor.asked)
            await ask(here, account=str(number))
            asked.append(len(vendor.asked) - before)
        return asked

    # Three questions at three times, then one is given up at the tenth breakdown in a row and one
    # at the next; the one after that is answered, and then a breakdown is worth another question.
    assert await at_desk(work, says=vendor) == [3, 3, 3, 1, 1, 1, 2, 1]


async def test_nobody_asks_again_after_a_breakdown_what_is_no_longer_theirs():
    vendor = Scripted(*[BROKEN] * 10)

    async def work(here):
        return await ask(here, still_owner=lambda: not vendor.asked), await phases(here)

    failed, all_phases = await at_desk(work, says=vendor)
    assert failed.kind is FailureKind.UNKNOWN
    assert all_phases == [ReservationStatus.UNCERTAIN]


class Tomorrow(Quick):
    """A clock that can be set ahead."""

    proceed = timedelta(0)

    def now(self):
        return super().now() + self.proceed


async def test_another_day_it_is_asked_again_under_a_new_promise_and_the_old_one_still_counts():
    vendor, clock = Scripted(CUT_OFF), Tomorrow()

    async def work(here):
        first = await ask(here)
        clock.proceed = timedelta(days=2)
        return first, await ask(here), await phases(here), await here.counted("tavily")

    first, anew, all_phases, counted = await at_desk(work, says=vendor, clock=clock)
    assert first.kind is FailureKind.UNKNOWN
    assert isinstance(anew, VendorAnswer)
    assert "called again" in anew.note
    assert all_phases == [ReservationStatus.UNCERTAIN, ReservationStatus.SETTLED]
    assert (len(vendor.asked), counted) == (2, (1, 1))


async def test_once_somebody_found_out_it_is_asked_again():
    vendor = Scripted(CUT_OFF)

    async def work(here):
        await ask(here)
        money = here.store.budgets
        await money.release(f"{KEY}/1", reason="not on the bill", now=here.clock.now())
        return await ask(here), await phases(here)

    answered, all_phases = await at_desk(work, says=vendor)
    assert isinstance(answered, VendorAnswer)
    assert all_phases == [ReservationStatus.RELEASED, ReservationStatus.SETTLED]


@pytest.mark.parametrize("status", [401, 402, 403, 432, 433, 301])
async def test_a_connector_that_will_not_work_is_off_for_the_run_and_costs_nothing(status):
    vendor = Scripted(*[Response(status=status)] * 2)

    async def work(here):
        answers = [await ask(here), await ask(here, SearchQuery(query="other"))]
        answers.append(await ask(here, run="r2"))
        return answers, await here.counted("tavily"), here.told.of_type(ConnectorOff)

    answers, counted, events = await at_desk(work, says=vendor)
    assert [answer.kind for answer in answers] == [FailureKind.OFF] * 3
    assert len(vendor.asked) == 2  # once in each run
    assert counted == (0, 0)
    assert len(events) == 2
    assert str(status) in events[0].message()
    assert CANARY not in str((answers, events))


async def test_no_cap_on_a_unit_is_for_a_person_to_mend():
    async def work(here):
        return await ask(here), here.charged("tavily")

    failed, charged = await at_desk(work, capped=["lusha"])
    assert failed.kind is FailureKind.OFF
    assert "stoker caps set" in failed.reason
    assert charged == 0


async def test_a_cap_that_is_used_up_refuses_and_nothing_is_asked():
    async def work(here):
        answers = [await ask(here, account=str(number)) for number in range(4)]
        return answers, here.charged("tavily")

    answers, charged = await at_desk(work, limit=2)
    assert [type(answer) for answer in answers] == [VendorAnswer, VendorAnswer, Refusal, Refusal]
    assert answers[2].reason == "CAP_CONNECTOR_DAY"
    assert charged == 2


async def test_a_vendor_that_charges_more_is_settled_as_it_was_and_told_of():
    async def work(here):
        answers = [await ask(here, account=str(number)) for number in range(3)]
        return (
            answers,
            here.charged("tavily"),
            await here.counted("tavily"),
            here.told.of_type(Overrun),
        )

    answers, charged, counted, overruns = await at_desk(
        work, {"tavily.price_percent": 300}, limit=5
    )
    assert [type(answer) for answer in answers] == [VendorAnswer, VendorAnswer, Refusal]
    assert counted == (charged, 0) == (6, 0)
    assert len(overruns) == 2


async def test_that_a_vendor_charged_more_is_told_once_however_often_its_answer_is_used():
    async def work(here):
        answers = [await ask(here) for _ in range(3)]
        return answers, await phases(here), here.told.of_type(Overrun)

    answers, all_phases, overruns = await at_desk(work, {"tavily.price_percent": 300})
    assert [bool(answer.saved) for answer in answers] == [False, True, True]
    assert all_phases == [ReservationStatus.SETTLED]
    assert len(overruns) == 1


async def test_whoever_dies_between_keeping_and_settling_has_paid_once():
    async def work(here):
        answered = await ask(here)
        before = await phases(here)
        again = await ask(beside(here))
        return answered, before, again, await phases(here), await here.counted("tavily")

    gone = [UncertainError("the store is gone")] * 100
    answered, before, again, after, counted = await at_desk(
        work, store=failing("budgets", settle=gone)
    )
    assert isinstance(answered, VendorAnswer)
    assert before == [ReservationStatus.SENT]
    assert again.saved == {"calls": 1, "credits": 1}
    assert after == [ReservationStatus.SETTLED]
    assert counted == (1, 0)


async def test_a_paid_answer_that_cannot_be_saved_is_not_paid_for_again():
    async def work(here):
        answers = [await ask(here), await ask(here), await ask(here)]
        saved = await here.store.answers.find_answers([KEY])
        return answers, here.charged("tavily"), await here.counted("tavily"), saved

    full = failing("answers", save_answers=[TransientError("full")])
    answers, charged, counted, saved = await at_desk(work, store=full)
    assert [bool(answer.saved) for answer in answers] == [False, True, True]
    assert counted == (charged, 0) == (1, 0)
    assert KEY in saved  # the next query saved it


async def test_a_paid_answer_serves_this_process_while_the_store_takes_none():
    async def work(here):
        answers = [await ask(here) for _ in range(3)]
        return answers, here.charged("tavily")

    full = failing("answers", save_answers=[TransientError("full")] * 100)
    answers, charged = await at_desk(work, store=full)
    assert [bool(answer.saved) for answer in answers] == [False, True, True]
    assert charged == 1


async def test_two_processes_that_ask_the_same_pay_once():
    async def work(here):
        other = beside(here)
        answers = await asyncio.gather(ask(here), ask(other), ask(here, run="r2"))
        return answers, here.charged("tavily")

    answers, charged = await at_desk(work, {"tavily.latency": "30ms"})
    assert all(isinstance(answer, VendorAnswer) for answer in answers)
    assert charged == 1


async def test_a_question_of_a_process_that_hangs_is_left_to_it():
    async def work(here):
        other = beside(here)
        hung = asyncio.create_task(ask(other))
        for _ in range(10_000):
            if await phases(here):
                break
            await asyncio.sleep(0.001)
        failed = await ask(here)
        hung.cancel()
        return failed, here.clock.elapsed()

    failed, waited = await at_desk(work, {"tavily.fault.hang": 1.0}, clock=FakeClock())
    assert failed.kind is FailureKind.LATER
    assert waited >= MAX_WAIT_FOR_OTHERS


async def test_a_kept_answer_that_cannot_be_read_is_asked_for_anew():
    async def work(here):
        await ask(here)
        kept = (await here.store.answers.find_answers([KEY]))[KEY]
        seen = []
        for damage in (None, {}, {"under": "x", "cost": {}, "said": {"pages": 3}}, {"under": 1}):
            await here.store.answers.save_answers([replace(kept, answer=damage)])
            seen.append(bool((await ask(here)).cost))
        return seen

    assert await at_desk(work) == [True] * 4


# Batches of addresses


def people_of(here, count):
    world = here.box.world
    found = [p.email.lower() for c in map(world.get_company, range(100)) for p in c.people]
    return list(dict.fromkeys(found))[:count]


def batching(here, **how):
    return EmailBatcher(here.get_vendor_client, here.verifier, run="r1", **how)


def verdicts(told):
    return {email: each.answer.verdict for email, each in told.items()}


def batches(here):
    return sum(1 for seen in here.box.log if seen.target == "/v2/validatebatch")


async def test_addresses_of_many_companies_go_together_when_nobody_else_can_come():
    async def work(here):
        emails = people_of(here, 60)

        async def company(number, together):
            with together.producing():
                await asyncio.sleep(0.001 * number)
                return await together.verify(emails[number * 3 : number * 3 + 3])

        async with batching(here, wait=timedelta(hours=1)) as together:
            told = await asyncio.gather(*(company(number, together) for number in range(20)))
        return [answer for each in told for answer in each.values()], batches(here)

    answers, calls = await at_desk(work, clock=SystemClock())
    assert len(answers) == 60
    assert all(isinstance(answer, VendorAnswer) for answer in answers)
    assert calls == 1


async def test_a_full_batch_goes_at_once_and_the_rest_after_a_while():
    async def work(here):
        emails = people_of(here, 150)
        async with batching(here, wait=timedelta(seconds=2)) as together:
            told = await together.verify(emails)
        return told, batches(here), here.clock.slept

    told, calls, slept = await at_desk(work)
    assert len(verdicts(told)) == 150
    assert calls == 2
    assert timedelta(seconds=2) in slept


async def test_each_address_is_kept_by_itself_and_never_paid_for_twice():
    async def work(here):
        emails = people_of(here, 40)
        async with batching(here) as together:
            first = await together.verify(emails[:30])
            charged = here.charged("zerobounce")
            again = await together.verify([email.upper() for email in emails[10:40]])
        return first, again, charged, here.charged("zerobounce"), await here.counted("zerobounce")

    first, again, charged, in_all, counted = await at_desk(work)
    known = verdicts(first)
    for email, answer in again.items():
        assert bool(answer.saved) == (email.lower() in known)
        assert known.setdefault(email.lower(), answer.answer.verdict) is answer.answer.verdict
    new = [answer for answer in again.values() if answer.cost]
    assert in_all - charged == sum(answer.cost["credits"] for answer in new)
    assert counted == (in_all, 0)


async def test_the_same_address_wanted_twice_at_once_is_asked_about_once():
    async def work(here):
        emails = people_of(here, 5)
        async with batching(here, wait=timedelta(0)) as together:
            told = await asyncio.gather(*(together.verify(emails) for _ in range(8)))
        return told, here.charged("zerobounce"), batches(here)

    told, charged, calls = await at_desk(work, {"zerobounce.latency": "30ms"})
    assert all(each == told[0] for each in told)
    assert charged <= 5
    assert calls == 1


async def test_what_is_no_address_is_told_and_never_sent():
    async def work(here):
        async with batching(here) as together:
            return await together.verify(["nobody", "valid@example.com", ""])

    told = await at_desk(work)
    assert [told[text].kind for text in ("nobody", "")] == [FailureKind.NEVER] * 2
    assert told["valid@example.com"].answer.verdict is EmailStatus.VALID


async def test_a_cap_with_room_for_some_verifies_those_and_leaves_the_rest():
    async def work(here):
        emails = people_of(here, 50)
        async with batching(here) as together:
            told = await together.verify(emails)
        return told, here.charged("zerobounce"), await here.counted("zerobounce", "calls")

    told, charged, counted = await at_desk(work, limit=20)
    kinds = [type(answer) for answer in told.values()]
    assert (kinds.count(VendorAnswer), kinds.count(Refusal)) == (20, 30)
    assert counted == (20, 0)
    assert charged <= 20


async def test_addresses_of_a_batch_whose_answer_was_lost_are_not_paid_for_in_another_one():
    async def work(here):
        emails = people_of(here, 30)
        async with batching(here) as together:
            lost = await together.verify(emails[:20])
        charged = here.charged("zerobounce")
        here.box.faults.set_value("zerobounce.fault.close", 0)
        async with batching(here) as together:
            again = await together.verify(emails[10:30])
        return lost, again, charged, here.charged("zerobounce")

    lost, again, charged, in_all = await at_desk(work, {"zerobounce.fault.close": 1.0})
    assert {each.kind for each in lost.values()} == {FailureKind.UNKNOWN}
    told = list(again.values())
    assert {each.kind for each in told[:10]} == {FailureKind.UNKNOWN}
    assert all(isinstance(each, VendorAnswer) for each in told[10:])
    assert charged + sum(each.cost["credits"] for each in told[10:]) == in_all


async def test_another_day_addresses_of_a_lost_batch_are_verified_anew():
    clock = Tomorrow()

    async def work(here):
        emails = people_of(here, 5)
        async with batching(here) as together:
            lost = await together.verify(emails)
        here.box.faults.set_value("zerobounce.fault.close", 0)
        async with batching(here) as together:
            same_day = await together.verify(emails)
            clock.proceed = timedelta(days=2)
            return lost, same_day, await together.verify(emails)

    lost, same_day, anew = await at_desk(work, {"zerobounce.fault.close": 1.0}, clock=clock)
    assert {each.kind for each in lost.values()} == {FailureKind.UNKNOWN}
    assert {each.kind for each in same_day.values()} == {FailureKind.UNKNOWN}
    assert all("called again after" in each.reason for each in same_day.values())
    assert len(verdicts(anew)) == 5


async def test_a_batch_that_came_to_nothing_is_asked_about_again():
    async def work(here):
        emails = people_of(here, 3)
        async with batching(here) as together:
            failed = await together.verify(emails)
            here.box.faults.set_value("zerobounce.fault.unavailable", 0)
            told = await together.verify(emails)
        return failed, told

    failed, told = await at_desk(work, {"zerobounce.fault.unavailable": 1.0})
    assert {each.kind for each in failed.values()} == {FailureKind.LATER}
    assert len(verdicts(told)) == 3


async def test_a_store_that_fails_tells_everybody_who_waits():
    async def work(here):
        async with batching(here) as together:
            return await together.verify(people_of(here, 2))

    gone = failing("answers", find_answers=[TransientError("gone")])
    assert {each.reason for each in (await at_desk(work, store=gone)).values()} == {"gone"}


async def test_verdicts_are_kept_for_as_long_as_they_are_sure():
    async def work(here):
        async with batching(here) as together:
            await together.verify(["valid@example.com", "unknown@example.com"])
        keys = {
            name: build_cache_key("zerobounce", account="", asked=EmailQuery(email=name).as_json())
            for name in ("valid@example.com", "unknown@example.com")
        }
        kept = await here.store.answers.find_answers(list(keys.values()))
        return [kept[key].expires_at - kept[key].at for key in keys.values()]

    valid, unknown = await at_desk(work)
    assert valid > timedelta(days=30) > timedelta(days=7) > unknown > timedelta(0)


async def test_the_tenant_is_named_in_what_is_told():
    async def work(here):
        await ask(here)
        return here.told.events

    events = await at_desk(work, says=Scripted(Response(status=401)))
    assert [event.tenant for event in events] == [ACME]


RESETS = st.builds(
    ResetRule,
    zone=st.sampled_from(["UTC", "Asia/Singapore", "America/New_York", "Australia/Lord_Howe"]),
    at=st.builds(time, st.integers(0, 23), st.integers(0, 59)),
)
START = datetime(2000, 1, 1, tzinfo=UTC)
MOMENTS = st.timedeltas(timedelta(0), timedelta(days=90 * 365)).map(lambda span: START + span)


def promise(at, phase=ReservationStatus.UNCERTAIN):
    return Reservation(
        key="tavily/0/1",
        connector="tavily",
        fingerprint="",
        amounts={"calls": 1},
        charges=(),
        status=phase,
        owner="one",
        until=at,
        reserved_at=at,
    )


@given(MOMENTS, RESETS, st.timedeltas(timedelta(0), timedelta(days=3)))
def test_what_may_have_been_paid_for_is_never_asked_again_the_same_day_and_always_two_days_later(
    at, reset, later
):
    now = at + later
    waits = is_blocked_by(promise(at), now=now, reset=reset)
    assert waits is (now < compute_retry_at(promise(at), reset=reset))
    if now < compute_window(WindowKind.DAY, at, reset=reset).end or later < MIN_RETRY_DELAY:
        assert waits
    if later > timedelta(days=2):
        assert not waits


@given(MOMENTS, RESETS, st.timedeltas(timedelta(0), timedelta(days=900)))
def test_a_clock_that_was_set_back_asks_nothing_early(at, reset, back):
    assert is_blocked_by(promise(at), now=at - back, reset=reset)


@pytest.mark.parametrize("phase", sorted(set(ReservationStatus) - {ReservationStatus.UNCERTAIN}))
def test_only_what_nobody_knows_stands_in_the_way(phase):
    at = datetime(2026, 11, 16, tzinfo=UTC)
    assert not is_blocked_by(promise(at, phase), now=at, reset=ResetRule())
    assert not is_blocked_by(None, now=at, reset=ResetRule())


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
        still.append(Still(real.budgets, verb))
        return replace(real, budgets=still[0])

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
            still.append(Still(real.budgets, verb))
            return replace(real, budgets=still[0])

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
            await here.store.budgets.list_reservations(phases=tuple(OPEN_STATUSES)),
        )

    outcome, charged, holds = await at_desk(work, clock=SystemClock())
    assert (outcome.kind, charged) == (FailureKind.LATER, 0)
    assert "another process" in outcome.reason
    assert holds == []
