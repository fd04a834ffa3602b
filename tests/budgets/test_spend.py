import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import apsw
import pytest

from kit.virtual_time import LoopClock, run_virtually
from stoker.backends.sqlite import MemoryBackend, SqliteBackend
from stoker.base.errors import (
    ConfigError,
    ConflictError,
    PermanentError,
    TransientError,
    UncertainError,
)
from stoker.base.events import OutcomeUncertain, Overrun
from stoker.base.reasons import Reason
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest, to_attempt
from stoker.budgets.model import Paid
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.service import AlreadySpent, BudgetService, SettledCall
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.rate_limits.limiter import CallLimiter, VendorLimit, VendorLimits
from stoker.rate_limits.rate_limit import Rate
from stoker.testing import EventRecorder, FakeClock

ACME = TenantId("acme")
LEASE = timedelta(seconds=60)
CAP = Cap(
    scope=Scope.TENANT_CONNECTOR,
    unit="credits",
    window=WindowKind.DAY,
    limit=10,
    connector="lusha",
)


class LosesAnswers:
    """A money store told to fail, before it did what it was asked or after; or to wait."""

    def __init__(self, money):
        self._money, self.asked = money, []
        self.before, self.after, self.waits_for, self.answers_after = {}, {}, {}, {}

    def __getattr__(self, verb):
        real = getattr(self._money, verb)

        async def asked(*words, **named):
            self.asked.append(verb)
            if verb in self.waits_for:
                await self.waits_for[verb].wait()
            if self.before.get(verb):
                raise self.before[verb].pop(0)
            answer = await real(*words, **named)
            if verb in self.answers_after:
                await self.answers_after[verb].wait()
            if self.after.get(verb):
                raise self.after[verb].pop(0)
            return answer

        return asked


class Office:
    """One tenant's money, and processes that spend it through gates of their own."""

    def __init__(self):
        self.clock, self.heard = FakeClock(), EventRecorder()
        self.money = LosesAnswers(MemoryBackend().tenant(ACME).budgets)
        self.calls = []

    def get_gate(self, owner="one", lease=LEASE):
        return BudgetService(
            self.money,
            caps=[CAP],
            reset=ResetRule(),
            owner=owner,
            clock=self.clock,
            lease=lease,
            tenant=ACME,
            observer=self.heard,
        )

    def step(self, *, cost=2, raises=None, answer="found"):
        async def step():
            self.calls.append(answer)
            if raises is not None:
                raise raises
            return Paid(answer=answer, cost={"credits": cost})

        return step

    async def hold(self, key="pull-1"):
        return await self.money.find_reservation(key)

    async def is_in(self, *phases):
        hold = await self.hold()
        return hold is not None and hold.status in phases

    async def was_asked(self, verb):
        return verb in self.money.asked

    async def has_failed(self):
        return not any([*self.money.before.values(), *self.money.after.values()])

    async def used(self):
        usage = await self.money.list_usage()
        return sum(each.used.settled for each in usage), sum(each.used.reserved for each in usage)


@pytest.fixture
def office():
    return Office()


def asking(key="pull-1", cost=5):
    return SpendRequest(key=key, connector="lusha", amounts={"credits": cost})


async def eventually(is_so):
    for _ in range(10_000):
        if await is_so():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came about")


@pytest.mark.parametrize("cost", [0, 2, 5])
async def test_a_finished_step_is_charged_what_it_really_cost(office, cost):
    paid = await office.get_gate().spend(asking(), office.step(cost=cost))

    assert isinstance(paid, SettledCall)
    assert (paid.answer, paid.reservation.status) == ("found", ReservationStatus.SETTLED)
    assert await office.used() == (cost, 0)
    assert office.heard.events == []


async def test_a_step_that_does_not_fit_is_not_taken_and_says_which_cap_refused(office):
    refused = await office.get_gate().spend(asking(cost=11), office.step())

    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.cap) == (Reason.CAP_CONNECTOR_DAY, CAP.id)
    assert office.calls == []


@pytest.mark.parametrize("error", [TransientError("503"), PermanentError("401")])
async def test_a_step_that_did_nothing_gives_its_promise_back(office, error):
    with pytest.raises(type(error)):
        await office.get_gate().spend(asking(), office.step(raises=error))

    assert await office.used() == (0, 0)
    assert (await office.hold()).status is ReservationStatus.RELEASED
    assert office.heard.events == []


@pytest.mark.parametrize("error", [UncertainError("no answer"), RuntimeError("nobody expected it")])
async def test_an_unknown_outcome_keeps_its_promise_aside(office, error):
    with pytest.raises(type(error)):
        await office.get_gate().spend(asking(), office.step(raises=error))

    assert await office.used() == (0, 5)
    hold = await office.hold()
    assert (hold.status, hold.reason) == (ReservationStatus.UNCERTAIN, str(error))
    [event] = office.heard.of_type(OutcomeUncertain)
    assert (event.tenant, event.key) == (ACME, "pull-1")
    assert str(error) in event.message()
    assert "stoker holds" in event.message()


async def test_a_step_that_is_cancelled_keeps_its_promise_aside(office):
    async def hangs():
        await asyncio.sleep(60)

    paying = asyncio.create_task(office.get_gate().spend(asking(), hangs))
    await eventually(lambda: office.is_in(*ReservationStatus))
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    assert (await office.hold()).status is ReservationStatus.UNCERTAIN


async def test_cancelling_while_the_cost_is_being_written_does_not_lose_it(office):
    office.money.waits_for["settle"] = asyncio.Event()
    paying = asyncio.create_task(office.get_gate().spend(asking(), office.step(cost=4)))
    await eventually(lambda: office.was_asked("settle"))
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    office.money.waits_for["settle"].set()
    await eventually(lambda: office.is_in(ReservationStatus.SETTLED))
    assert await office.used() == (4, 0)


async def test_a_key_whose_cost_is_still_being_written_is_not_acted_on_again(office):
    office.money.waits_for["settle"] = asyncio.Event()
    gate = office.get_gate()
    paying = asyncio.create_task(gate.spend(asking(), office.step()))
    await eventually(lambda: office.was_asked("settle"))
    paying.cancel()
    await asyncio.gather(paying, return_exceptions=True)
    again = await gate.spend(asking(), office.step())
    office.money.waits_for["settle"].set()
    await eventually(lambda: office.is_in(ReservationStatus.SETTLED))
    assert isinstance(again, AlreadySpent)
    assert len(office.calls) == 1


async def test_closing_waits_for_what_is_still_being_written(office):
    settling = office.money.waits_for["settle"] = asyncio.Event()
    async with office.get_gate() as gate:
        paying = asyncio.create_task(gate.spend(asking(), office.step(cost=4)))
        await eventually(lambda: office.was_asked("settle"))
        paying.cancel()
        asyncio.get_running_loop().call_later(0.05, settling.set)
    assert (await office.hold()).status is ReservationStatus.SETTLED


async def test_a_key_already_settled_is_answered_without_acting(office):
    await office.get_gate("one").spend(asking(), office.step())

    again = await office.get_gate("two").spend(asking(), office.step())

    assert isinstance(again, AlreadySpent)
    assert (again.reservation.status, dict(again.reservation.actual)) == (
        ReservationStatus.SETTLED,
        {"credits": 2},
    )
    assert len(office.calls) == 1


async def test_of_two_callers_with_one_key_in_one_process_one_acts(office):
    gate = office.get_gate()
    first, second = await asyncio.gather(
        *(gate.spend(asking(), office.step()) for _ in range(2)), return_exceptions=True
    )

    assert isinstance(first, SettledCall)
    assert isinstance(second, AlreadySpent)
    assert len(office.calls) == 1


async def test_a_promise_another_process_is_acting_on_is_left_to_it(office):
    others, done = office.get_gate("other"), []

    async def meanwhile():
        done.append(await office.get_gate("one").spend(asking(), office.step()))
        return Paid(answer="theirs", cost={"credits": 1})

    await others.spend(asking(), meanwhile)
    earlier = done[0]

    assert isinstance(earlier, AlreadySpent)
    assert earlier.reservation.status is ReservationStatus.SENT
    assert office.calls == []


async def test_the_same_key_for_something_else_is_a_conflict(office):
    await office.get_gate().spend(asking(), office.step())

    with pytest.raises(ConflictError):
        await office.get_gate().spend(asking(cost=6), office.step())


async def test_trying_again_is_a_new_attempt_with_its_own_promise(office):
    gate = office.get_gate()
    with pytest.raises(UncertainError):
        await gate.spend(to_attempt(asking(), 1), office.step(raises=UncertainError("lost")))
    assert isinstance(await gate.spend(to_attempt(asking(), 2), office.step(cost=2)), SettledCall)
    # The first may have been charged: both count.
    assert await office.used() == (2, 5)


# A store that cannot be relied on


@pytest.mark.parametrize("error", [TransientError("locked"), UncertainError("cut off")])
async def test_a_budget_that_cannot_be_read_is_a_refusal_and_nothing_is_done(office, error):
    office.money.before["reserve"] = [error] * 2

    refused = await office.get_gate().spend(asking(), office.step())

    assert isinstance(refused, Refusal)
    assert refused.reason == Reason.BUDGET_UNREADABLE
    assert str(error) in refused.message
    assert office.calls == []


async def test_a_promise_whose_answer_was_lost_is_found_by_asking_again(office):
    office.money.after["reserve"] = [UncertainError("cut off")]

    assert isinstance(await office.get_gate().spend(asking(), office.step()), SettledCall)
    assert len(office.calls) == 1


async def test_a_promise_given_but_never_heard_of_comes_back(office):
    office.money.after["reserve"] = [UncertainError("cut off")] * 2

    gate = office.get_gate()
    await gate.spend(asking(), office.step())
    assert (await office.hold()).status is ReservationStatus.SENT
    await gate.heartbeat()
    assert (await office.hold()).status is ReservationStatus.RELEASED
    assert office.calls == []


async def test_a_promise_whose_asker_was_cancelled_comes_back(office):
    office.money.answers_after["reserve"] = asyncio.Event()
    gate = office.get_gate()
    paying = asyncio.create_task(gate.spend(asking(), office.step()))
    await eventually(lambda: office.is_in(ReservationStatus.SENT))
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    await gate.heartbeat()
    assert (await office.hold()).status is ReservationStatus.RELEASED


async def test_a_promise_that_arrives_after_its_asker_gave_up_comes_back(office):
    office.money.before["reserve"] = [UncertainError("cut off")] * 2

    gate = office.get_gate()
    await gate.spend(asking(), office.step())
    await gate.heartbeat()
    await office.get_gate().reserve(asking())  # what was asked for goes through after all
    await gate.heartbeat()
    assert (await office.hold()).status is ReservationStatus.RELEASED


async def test_what_another_process_promised_under_the_same_key_is_left_to_it(office):
    office.money.before["reserve"] = [UncertainError("cut off")] * 2

    gate = office.get_gate()
    await gate.spend(asking(), office.step())
    await office.get_gate("other").reserve(asking())
    await gate.heartbeat()
    assert (await office.hold()).status is ReservationStatus.RESERVED


async def test_a_cost_that_comes_after_somebody_closed_its_promise_is_settled_late(office):
    gate = office.get_gate()

    async def meanwhile():
        await office.money.release("pull-1", reason="by hand", now=office.clock.now())
        return Paid(answer="found", cost={"credits": 2})

    paid = await gate.spend(asking(), meanwhile)
    late, lapsed = paid.reservation, await gate.heartbeat()
    assert (late.reason, late.actual, lapsed) == ("SETTLED_LATE", {"credits": 2}, [])


async def test_a_refusal_for_an_unreadable_budget_leaves_the_key_good(office):
    gate = office.get_gate()
    office.money.after["reserve"] = [UncertainError("cut off")] * 2
    assert isinstance(await gate.spend(asking(), office.step()), Refusal)

    assert isinstance(await gate.spend(asking(), office.step()), SettledCall)
    assert len(office.calls) == 1


async def test_a_unit_nobody_has_capped_is_an_error_and_nothing_is_done(office):
    request = SpendRequest(key="pull-1", connector="lusha", amounts={"tokens": 1})

    with pytest.raises(ConfigError):
        await office.get_gate().spend(request, office.step())
    assert office.calls == []


async def test_a_cost_that_could_not_be_written_is_owed_until_it_is(office):
    office.money.before["settle"] = [TransientError("disk is full")] * 4

    gate = office.get_gate()
    with pytest.raises(UncertainError, match="could not be stored"):
        await gate.spend(asking(), office.step(cost=9))
    assert isinstance(await gate.spend(asking(), office.step()), AlreadySpent)
    await gate.heartbeat()
    assert await office.used() == (9, 0)
    assert len(office.calls) == 1


@pytest.mark.parametrize("cost", [-1, 10**16, 1.5])
async def test_a_cost_that_makes_no_sense_keeps_the_promise_aside(office, cost):
    with pytest.raises(ConfigError):
        await office.get_gate().spend(asking(), office.step(cost=cost))

    assert await office.used() == (0, 5)
    assert "cannot be settled" in (await office.hold()).reason


async def test_a_cost_above_its_promise_is_settled_as_it_was_and_the_next_one_sees_it(office):
    paid = await office.get_gate().spend(asking(), office.step(cost=12))
    refused = await office.get_gate().spend(asking("pull-2", cost=1), office.step())

    assert dict(paid.reservation.actual) == {"credits": 12}
    assert isinstance(refused, Refusal)
    assert (refused.used, refused.limit) == (12, 10)
    [event] = office.heard.of_type(Overrun)
    assert (event.tenant, event.connector, event.at) == (ACME, "lusha", office.clock.now())
    assert event.message() == "lusha charged 7 credits more than was reserved for pull-1"


async def test_one_promise_that_cannot_be_taken_back_does_not_keep_the_others_or_itself(office):
    office.money.after["reserve"] = [UncertainError("cut off")] * 4

    gate = office.get_gate()
    for key in ("pull-1", "pull-2"):
        await gate.spend(asking(key), office.step())
    office.money.before["release"] = [TransientError("busy")]
    with pytest.raises(TransientError):
        await gate.heartbeat()
    await gate.heartbeat()
    assert await office.used() == (0, 0)


async def test_a_locked_database_is_a_budget_that_cannot_be_read(office, tmp_path):
    path = tmp_path / "stoker.db"

    backend = SqliteBackend(path, busy=timedelta(milliseconds=20))
    await backend.migrate()
    office.money = backend.tenant(ACME).budgets
    locked = apsw.Connection(str(path))
    locked.execute("BEGIN IMMEDIATE")
    refused = await office.get_gate().spend(asking(), office.step())
    locked.execute("ROLLBACK")
    locked.close()
    paid = await office.get_gate("two").spend(asking(), office.step())
    await backend.close()

    assert isinstance(refused, Refusal)
    assert refused.reason == Reason.BUDGET_UNREADABLE
    assert isinstance(paid, SettledCall)
    assert len(office.calls) == 1


async def test_a_database_that_is_none_is_an_error_and_nothing_is_done(office, tmp_path):
    path = tmp_path / "stoker.db"
    path.write_text("this is a shopping list" * 1000)

    backend = SqliteBackend(path)
    office.money = backend.tenant(ACME).budgets
    try:
        with pytest.raises(ConfigError):
            await office.get_gate().spend(asking(), office.step())
    finally:
        await backend.close()
    assert office.calls == []


async def died_after_sending(office, key="pull-1"):
    """Another process reserved, called the vendor, and was never heard of again."""

    await (await office.get_gate("dead").reserve(asking(key))).mark_sent()


async def test_a_dead_process_s_step_is_not_taken_again(office):
    await died_after_sending(office)
    office.clock.advance(LEASE)
    await office.get_gate().heartbeat()

    earlier = await office.get_gate().spend(asking(), office.step(), slot=passage())

    assert isinstance(earlier, AlreadySpent)
    assert earlier.reservation.status is ReservationStatus.UNCERTAIN
    assert office.calls == []


# What has to be waited for between promise and step


def passage(*, fails_entering=None, fails_leaving=None, seen=None, office=None):
    @asynccontextmanager
    async def waited():
        if seen is not None:
            seen.append((await office.hold()).status)
        if fails_entering:
            raise fails_entering
        yield
        if fails_leaving:
            raise fails_leaving

    return waited()


async def test_a_promise_that_waits_for_its_passage_would_come_back_by_itself(office):
    seen = []

    paid = await office.get_gate().spend(
        asking(), office.step(), slot=passage(seen=seen, office=office)
    )

    assert seen == [ReservationStatus.RESERVED]
    assert isinstance(paid, SettledCall)


async def test_a_step_whose_passage_fails_is_not_taken_and_gives_its_promise_back(office):
    with pytest.raises(TransientError):
        await office.get_gate().spend(
            asking(), office.step(), slot=passage(fails_entering=TransientError("no turn"))
        )

    assert office.calls == []
    assert (await office.hold()).status is ReservationStatus.RELEASED


async def test_a_passage_that_fails_on_the_way_out_takes_no_money_back(office):
    with pytest.raises(TransientError):
        await office.get_gate().spend(
            asking(),
            office.step(cost=2),
            slot=passage(fails_leaving=TransientError("cannot leave")),
        )

    assert await office.used() == (2, 0)


async def test_a_promise_that_expired_during_its_passage_is_not_acted_on(office):
    @asynccontextmanager
    async def takes_too_long():
        office.clock.advance(LEASE)
        await office.money.expire_reservations(now=office.clock.now())
        yield

    with pytest.raises(ConflictError):
        await office.get_gate().spend(asking(), office.step(), slot=takes_too_long())

    assert office.calls == []
    assert await office.used() == (0, 0)


async def test_a_turn_and_a_pace_are_waited_for_only_by_what_has_its_money(office):
    order = []
    limit = VendorLimit(rate=Rate(calls=2, per=timedelta(seconds=1)), concurrency=1)
    limits = VendorLimits(lambda _: limit, shared=None, owner="me", clock=office.clock)
    limiter = CallLimiter(limits, ACME, clock=office.clock)

    gate = office.get_gate()

    async def pay(nth):
        async def step():
            order.append(nth)
            return Paid(answer=nth, cost={"credits": 1})

        slot = limiter.acquire_slot("lusha")
        return await gate.spend(asking(f"pull-{nth}", cost=1), step, slot=slot)

    outcomes = await asyncio.gather(*(pay(nth) for nth in range(12)))

    assert order == list(range(10))  # the cap allows ten; the others never stood in line
    assert [isinstance(each, Refusal) for each in outcomes] == [False] * 10 + [True] * 2


# Signs of life


async def test_an_open_gate_keeps_its_promises_alive_for_as_long_as_a_step_takes(office):
    async with office.get_gate(lease=timedelta(seconds=0.03)) as gate:

        async def takes_long():
            first = (await office.hold()).until
            while (await office.hold()).until <= first:
                office.clock.advance(timedelta(seconds=0.001))
                await asyncio.sleep(0.001)
            return Paid(answer="found", cost={"credits": 1})

        assert isinstance(
            await gate.spend(asking(), takes_long),
            SettledCall,
        )


async def test_promises_of_a_silent_owner_are_seen_to_by_whoever_is_alive(office):
    await died_after_sending(office)
    await office.get_gate("dead").reserve(asking("pull-2", cost=1))
    office.clock.advance(LEASE)

    lapsed = await office.get_gate("alive").heartbeat()
    await office.get_gate("alive").heartbeat()

    assert {hold.key: hold.status for hold in lapsed} == {
        "pull-1": ReservationStatus.UNCERTAIN,
        "pull-2": ReservationStatus.EXPIRED,
    }
    assert [event.key for event in office.heard.of_type(OutcomeUncertain)] == ["pull-1"]


async def test_a_heartbeat_survives_a_store_that_does_not_answer(office):
    async with office.get_gate(lease=timedelta(seconds=0.003)) as gate:
        office.money.before["expire_reservations"] = [TransientError("busy")] * 2
        await eventually(office.has_failed)
        assert isinstance(
            await gate.spend(asking(), office.step()),
            SettledCall,
        )


def test_every_refusal_by_a_cap_is_on_the_list_of_reasons():
    for scope in Scope:
        for window in WindowKind:
            connector = "" if scope is Scope.TENANT else "lusha"
            cap = Cap(scope=scope, unit="calls", window=window, limit=1, connector=connector)
            assert Reason(cap.reason).message


def test_two_lost_heartbeats_cost_no_promise(office):
    async def scenario():
        office.clock = LoopClock()
        office.money.before["renew_leases"] = [TransientError("away"), TransientError("away")]

        async def takes_longer_than_the_lease():
            await asyncio.sleep(LEASE.total_seconds() + 1)
            assert await office.has_failed()
            lapsed = await office.get_gate("other").heartbeat()
            return Paid(
                answer=[lapsed, await office.is_in(ReservationStatus.SENT)], cost={"credits": 2}
            )

        async with office.get_gate() as gate:
            paid = await gate.spend(asking(), takes_longer_than_the_lease)
        return paid.answer

    assert run_virtually(scenario()) == [[], True]
