import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import apsw
import pytest

from kit.virtual_time import LoopClock, run_virtually
from model.backend import MemoryBackend
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import (
    ConfigError,
    ConflictError,
    PermanentError,
    TransientError,
    UncertainError,
)
from stoker.base.reasons import Reason
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.gate import AlreadySpent, BudgetService, SettledCall, to_attempt
from stoker.budgets.model import Paid
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.reserver import Reservations
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.rate_limits.limiter import FairQueue
from stoker.rate_limits.rate_limit import LocalRateLimiter, Rate, acquire_all
from stoker.testing import FakeClock

LEASE = timedelta(seconds=60)
DAY = timedelta(days=1)
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
        self._money = money
        self.before = {}
        self.after = {}
        self.waits_for = {}
        self.answers_after = {}
        self.asked = []

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
        self.clock = FakeClock()
        self.money = LosesAnswers(MemoryBackend().tenant(TenantId("acme")).money)
        self.calls = []

    def promises(self, owner="one", lease=LEASE):
        return Reservations(
            self.money, caps=[CAP], reset=ResetRule(), owner=owner, clock=self.clock, lease=lease
        )

    def get_gate(self, owner="one"):
        return BudgetService(self.promises(owner), clock=self.clock)

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


def asking(key="pull-1", cost=5):
    return SpendRequest(key=key, connector="lusha", amounts={"credits": cost})


def run(scenario):
    return asyncio.run(scenario)


async def eventually(is_so):
    for _ in range(10_000):
        if await is_so():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came about")


def test_a_finished_step_is_charged_what_it_really_cost():
    office = Office()

    paid = run(office.get_gate().spend(asking(), office.step(cost=2)))

    assert isinstance(paid, SettledCall)
    assert (paid.answer, paid.reservation.status) == ("found", ReservationStatus.SETTLED)
    assert run(office.used()) == (2, 0)


def test_a_step_that_does_not_fit_is_not_taken_and_says_which_cap_refused():
    office = Office()

    refused = run(office.get_gate().spend(asking(cost=11), office.step()))

    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.cap) == (Reason.CAP_CONNECTOR_DAY, CAP.id)
    assert office.calls == []


@pytest.mark.parametrize("error", [TransientError("503"), PermanentError("401")])
def test_a_step_that_did_nothing_gives_its_promise_back(error):
    office = Office()

    with pytest.raises(type(error)):
        run(office.get_gate().spend(asking(), office.step(raises=error)))

    assert run(office.used()) == (0, 0)
    assert run(office.hold()).status is ReservationStatus.RELEASED


@pytest.mark.parametrize("error", [UncertainError("no answer"), RuntimeError("nobody expected it")])
def test_an_unknown_outcome_keeps_its_promise_aside(error):
    office = Office()

    with pytest.raises(type(error)):
        run(office.get_gate().spend(asking(), office.step(raises=error)))

    assert run(office.used()) == (0, 5)
    hold = run(office.hold())
    assert (hold.status, hold.reason) == (ReservationStatus.UNCERTAIN, str(error))


def test_a_step_that_is_cancelled_keeps_its_promise_aside():
    office = Office()

    async def scenario():
        async def hangs():
            await asyncio.sleep(60)

        paying = asyncio.create_task(office.get_gate().spend(asking(), hangs))
        await eventually(lambda: office.is_in(*ReservationStatus))
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying

    run(scenario())
    assert run(office.hold()).status is ReservationStatus.UNCERTAIN


def test_cancelling_while_the_cost_is_being_written_does_not_lose_it():
    office = Office()

    async def scenario():
        office.money.waits_for["settle"] = asyncio.Event()
        paying = asyncio.create_task(office.get_gate().spend(asking(), office.step(cost=4)))
        await eventually(lambda: office.was_asked("settle"))
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        office.money.waits_for["settle"].set()
        await eventually(lambda: office.is_in(ReservationStatus.SETTLED))

    run(scenario())
    assert run(office.used()) == (4, 0)


def test_a_key_whose_cost_is_still_being_written_is_not_acted_on_again():
    office = Office()

    async def scenario():
        office.money.waits_for["settle"] = asyncio.Event()
        gate = office.get_gate()
        paying = asyncio.create_task(gate.spend(asking(), office.step()))
        await eventually(lambda: office.was_asked("settle"))
        paying.cancel()
        await asyncio.gather(paying, return_exceptions=True)
        again = await gate.spend(asking(), office.step())
        office.money.waits_for["settle"].set()
        await eventually(lambda: office.is_in(ReservationStatus.SETTLED))
        return again

    assert isinstance(run(scenario()), AlreadySpent)
    assert len(office.calls) == 1


def test_closing_waits_for_what_is_still_being_written():
    office = Office()

    async def scenario():
        settling = office.money.waits_for["settle"] = asyncio.Event()
        async with office.promises() as promises:
            gate = BudgetService(promises, clock=office.clock)
            paying = asyncio.create_task(gate.spend(asking(), office.step(cost=4)))
            await eventually(lambda: office.was_asked("settle"))
            paying.cancel()
            asyncio.get_running_loop().call_later(0.05, settling.set)
        return await office.hold()

    assert run(scenario()).status is ReservationStatus.SETTLED


def test_a_key_already_settled_is_answered_without_acting():
    office = Office()
    run(office.get_gate("one").spend(asking(), office.step()))

    again = run(office.get_gate("two").spend(asking(), office.step(), replay_within=DAY))

    assert isinstance(again, AlreadySpent)
    assert (again.reservation.status, dict(again.reservation.actual)) == (
        ReservationStatus.SETTLED,
        {"credits": 2},
    )
    assert len(office.calls) == 1


def test_of_two_callers_with_one_key_in_one_process_one_acts():
    office = Office()

    async def scenario():
        gate = office.get_gate()
        return await asyncio.gather(
            *(gate.spend(asking(), office.step()) for _ in range(2)), return_exceptions=True
        )

    first, second = run(scenario())

    assert isinstance(first, SettledCall)
    assert isinstance(second, AlreadySpent)
    assert len(office.calls) == 1


def test_a_promise_another_process_is_acting_on_is_left_to_it():
    office = Office()

    async def scenario():
        others, done = office.get_gate("other"), []

        async def meanwhile():
            done.append(await office.get_gate("one").spend(asking(), office.step()))
            return Paid(answer="theirs", cost={"credits": 1})

        await others.spend(asking(), meanwhile)
        return done[0]

    earlier = run(scenario())

    assert isinstance(earlier, AlreadySpent)
    assert earlier.reservation.status is ReservationStatus.SENT
    assert office.calls == []


def test_the_same_key_for_something_else_is_a_conflict():
    office = Office()
    run(office.get_gate().spend(asking(), office.step()))

    with pytest.raises(ConflictError):
        run(office.get_gate().spend(asking(cost=6), office.step()))


def test_trying_again_is_a_new_attempt_with_its_own_promise():
    office = Office()

    async def scenario():
        gate = office.get_gate()
        with pytest.raises(UncertainError):
            await gate.spend(to_attempt(asking(), 1), office.step(raises=UncertainError("lost")))
        return await gate.spend(to_attempt(asking(), 2), office.step(cost=2))

    assert isinstance(run(scenario()), SettledCall)
    # The first may have been charged: both count.
    assert run(office.used()) == (2, 5)


# A store that cannot be relied on


@pytest.mark.parametrize("error", [TransientError("locked"), UncertainError("cut off")])
def test_a_budget_that_cannot_be_read_is_a_refusal_and_nothing_is_done(error):
    office = Office()
    office.money.before["reserve"] = [error] * 2

    refused = run(office.get_gate().spend(asking(), office.step()))

    assert isinstance(refused, Refusal)
    assert refused.reason == Reason.BUDGET_UNREADABLE
    assert str(error) in refused.message
    assert office.calls == []


def test_a_promise_whose_answer_was_lost_is_found_by_asking_again():
    office = Office()
    office.money.after["reserve"] = [UncertainError("cut off")]

    assert isinstance(run(office.get_gate().spend(asking(), office.step())), SettledCall)
    assert len(office.calls) == 1


def test_a_promise_given_but_never_heard_of_comes_back():
    office = Office()
    office.money.after["reserve"] = [UncertainError("cut off")] * 2

    async def scenario():
        promises = office.promises()
        await BudgetService(promises, clock=office.clock).spend(asking(), office.step())
        assert (await office.hold()).status is ReservationStatus.SENT
        await promises.heartbeat()

    run(scenario())
    assert run(office.hold()).status is ReservationStatus.RELEASED
    assert office.calls == []


def test_a_promise_whose_asker_was_cancelled_comes_back():
    office = Office()

    async def scenario():
        office.money.answers_after["reserve"] = asyncio.Event()
        promises = office.promises()
        gate = BudgetService(promises, clock=office.clock)
        paying = asyncio.create_task(gate.spend(asking(), office.step()))
        await eventually(lambda: office.is_in(ReservationStatus.SENT))
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        await promises.heartbeat()

    run(scenario())
    assert run(office.hold()).status is ReservationStatus.RELEASED


def test_a_promise_that_arrives_after_its_asker_gave_up_comes_back():
    office = Office()
    office.money.before["reserve"] = [UncertainError("cut off")] * 2

    async def scenario():
        promises = office.promises()
        await BudgetService(promises, clock=office.clock).spend(asking(), office.step())
        await promises.heartbeat()
        await office.promises().reserve(asking())  # what was asked for goes through after all
        await promises.heartbeat()

    run(scenario())
    assert run(office.hold()).status is ReservationStatus.RELEASED


def test_what_another_process_promised_under_the_same_key_is_left_to_it():
    office = Office()
    office.money.before["reserve"] = [UncertainError("cut off")] * 2

    async def scenario():
        promises = office.promises()
        await BudgetService(promises, clock=office.clock).spend(asking(), office.step())
        await office.promises("other").reserve(asking())
        await promises.heartbeat()

    run(scenario())
    assert run(office.hold()).status is ReservationStatus.SENT


def test_a_cost_that_comes_after_somebody_closed_its_promise_is_settled_late():
    office = Office()

    async def scenario():
        promises = office.promises()

        async def meanwhile():
            await office.money.release("pull-1", reason="by hand", now=office.clock.now())
            return Paid(answer="found", cost={"credits": 2})

        paid = await BudgetService(promises, clock=office.clock).spend(asking(), meanwhile)
        return paid.reservation, await promises.heartbeat()

    late, lapsed = run(scenario())
    assert (late.reason, late.actual, lapsed) == ("SETTLED_LATE", {"credits": 2}, [])


def test_a_refusal_for_an_unreadable_budget_leaves_the_key_good():
    office = Office()
    gate = office.get_gate()
    office.money.after["reserve"] = [UncertainError("cut off")] * 2
    assert isinstance(run(gate.spend(asking(), office.step())), Refusal)

    assert isinstance(run(gate.spend(asking(), office.step())), SettledCall)
    assert len(office.calls) == 1


def test_a_unit_nobody_has_capped_is_an_error_and_nothing_is_done():
    office = Office()
    request = SpendRequest(key="pull-1", connector="lusha", amounts={"tokens": 1})

    with pytest.raises(ConfigError):
        run(office.get_gate().spend(request, office.step()))
    assert office.calls == []


def test_a_cost_that_could_not_be_written_is_owed_until_it_is():
    office = Office()
    office.money.before["settle"] = [TransientError("disk is full")] * 4

    async def scenario():
        promises = office.promises()
        gate = BudgetService(promises, clock=office.clock)
        with pytest.raises(UncertainError, match="could not be written down"):
            await gate.spend(asking(), office.step(cost=9))
        assert isinstance(await gate.spend(asking(), office.step()), AlreadySpent)
        await promises.heartbeat()

    run(scenario())
    assert run(office.used()) == (9, 0)
    assert len(office.calls) == 1


@pytest.mark.parametrize("cost", [-1, 10**16, 1.5])
def test_a_cost_that_makes_no_sense_keeps_the_promise_aside(cost):
    office = Office()

    with pytest.raises(ConfigError):
        run(office.get_gate().spend(asking(), office.step(cost=cost)))

    assert run(office.used()) == (0, 5)
    assert "cannot be settled" in run(office.hold()).reason


def test_a_cost_above_its_promise_is_settled_as_it_was_and_the_next_one_sees_it():
    office = Office()

    paid = run(office.get_gate().spend(asking(), office.step(cost=12)))
    refused = run(office.get_gate().spend(asking("pull-2", cost=1), office.step()))

    assert dict(paid.reservation.actual) == {"credits": 12}
    assert isinstance(refused, Refusal)
    assert (refused.used, refused.limit) == (12, 10)


def test_one_promise_that_cannot_be_taken_back_does_not_keep_the_others_or_itself():
    office = Office()
    office.money.after["reserve"] = [UncertainError("cut off")] * 4

    async def scenario():
        promises = office.promises()
        gate = BudgetService(promises, clock=office.clock)
        for key in ("pull-1", "pull-2"):
            await gate.spend(asking(key), office.step())
        office.money.before["release"] = [TransientError("busy")]
        with pytest.raises(TransientError):
            await promises.heartbeat()
        await promises.heartbeat()
        return await office.used()

    assert run(scenario()) == (0, 0)


def test_a_locked_database_is_a_budget_that_cannot_be_read(tmp_path):
    office, path = Office(), tmp_path / "stoker.db"

    async def scenario():
        backend = SqliteBackend(path, busy=timedelta(milliseconds=20))
        await backend.migrate()
        office.money = backend.tenant(TenantId("acme")).money
        locked = apsw.Connection(str(path))
        locked.execute("BEGIN IMMEDIATE")
        refused = await office.get_gate().spend(asking(), office.step())
        locked.execute("ROLLBACK")
        locked.close()
        paid = await office.get_gate("two").spend(asking(), office.step())
        await backend.close()
        return refused, paid

    refused, paid = run(scenario())

    assert isinstance(refused, Refusal)
    assert refused.reason == Reason.BUDGET_UNREADABLE
    assert isinstance(paid, SettledCall)
    assert len(office.calls) == 1


def test_a_database_that_is_none_is_an_error_and_nothing_is_done(tmp_path):
    office, path = Office(), tmp_path / "stoker.db"
    path.write_text("this is a shopping list" * 1000)

    async def scenario():
        backend = SqliteBackend(path)
        office.money = backend.tenant(TenantId("acme")).money
        try:
            with pytest.raises(ConfigError):
                await office.get_gate().spend(asking(), office.step())
        finally:
            await backend.close()

    run(scenario())
    assert office.calls == []


# Taking a step again under its old promise


def died_after_sending(office, key="pull-1"):
    """Another process reserved, called the vendor, and was never heard of again."""

    async def scenario():
        hold = await office.promises("dead").reserve(asking(key))
        assert hold.status is ReservationStatus.SENT

    run(scenario())


@pytest.mark.parametrize("swept", [True, False])
def test_with_a_vendor_that_knows_keys_a_dead_process_s_step_is_taken_again(swept):
    office = Office()
    died_after_sending(office)
    office.clock.advance(LEASE)
    if swept:
        run(office.promises().heartbeat())

    paid = run(office.get_gate().spend(asking(), office.step(cost=5), replay_within=DAY))

    assert isinstance(paid, SettledCall)
    assert run(office.used()) == (5, 0)


def test_a_sign_of_life_is_what_lets_us_give_back_after_a_long_time():
    office = Office()

    async def scenario():
        promises = office.promises()

        async def takes_long():
            for _ in range(4):
                office.clock.advance(LEASE / 2)
                await promises.heartbeat()
            raise TransientError("503")

        gate = BudgetService(promises, clock=office.clock)
        with pytest.raises(TransientError):
            await gate.spend(asking(), takes_long, replay_within=DAY)

    run(scenario())
    assert run(office.hold()).status is ReservationStatus.RELEASED


def test_with_a_vendor_that_knows_no_keys_a_dead_process_s_step_is_not_taken_again():
    office = Office()
    died_after_sending(office)
    office.clock.advance(LEASE)
    run(office.promises().heartbeat())

    earlier = run(office.get_gate().spend(asking(), office.step()))

    assert isinstance(earlier, AlreadySpent)
    assert earlier.reservation.status is ReservationStatus.UNCERTAIN
    assert office.calls == []


def test_a_step_is_not_taken_again_while_its_process_may_be_alive():
    office = Office()
    died_after_sending(office)

    earlier = run(office.get_gate().spend(asking(), office.step(), replay_within=DAY))

    assert isinstance(earlier, AlreadySpent)
    assert office.calls == []


@pytest.mark.parametrize("later", [DAY, -DAY, DAY - timedelta(minutes=5)])
def test_a_step_is_not_taken_again_once_the_vendor_may_have_forgotten_its_key(later):
    office = Office()
    died_after_sending(office)
    office.clock.advance(LEASE)
    run(office.promises().heartbeat())
    reserved_at = run(office.hold()).reserved_at
    office.clock.jump(reserved_at + later)

    earlier = run(office.get_gate().spend(asking(), office.step(), replay_within=DAY))

    assert isinstance(earlier, AlreadySpent)
    assert office.calls == []


@pytest.mark.parametrize("error", [TransientError("503"), PermanentError("422")])
def test_that_nothing_was_done_the_second_time_says_nothing_about_the_first(error):
    office = Office()
    died_after_sending(office)
    office.clock.advance(LEASE)

    with pytest.raises(type(error)):
        run(office.get_gate().spend(asking(), office.step(raises=error), replay_within=DAY))

    assert run(office.used()) == (0, 5)
    assert run(office.hold()).status is ReservationStatus.UNCERTAIN


def test_a_process_taken_for_dead_does_not_give_back_what_another_may_be_acting_on():
    office = Office()

    async def sleeps_too_long():
        office.clock.advance(LEASE)
        raise TransientError("503")

    with pytest.raises(TransientError):
        run(office.get_gate().spend(asking(), sleeps_too_long, replay_within=DAY))

    assert run(office.used()) == (0, 5)


def test_our_own_step_of_unknown_outcome_is_taken_again_under_its_one_promise():
    office = Office()
    gate = office.get_gate()
    with pytest.raises(UncertainError):
        run(
            gate.spend(asking(), office.step(raises=UncertainError("timed out")), replay_within=DAY)
        )

    paid = run(gate.spend(asking(), office.step(cost=3), replay_within=DAY))

    assert isinstance(paid, SettledCall)
    assert run(office.used()) == (3, 0)


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


def test_a_promise_that_waits_for_its_passage_would_come_back_by_itself():
    office, seen = Office(), []

    paid = run(
        office.get_gate().spend(asking(), office.step(), passage=passage(seen=seen, office=office))
    )

    assert seen == [ReservationStatus.RESERVED]
    assert isinstance(paid, SettledCall)


def test_a_step_whose_passage_fails_is_not_taken_and_gives_its_promise_back():
    office = Office()

    with pytest.raises(TransientError):
        run(
            office.get_gate().spend(
                asking(), office.step(), passage=passage(fails_entering=TransientError("no turn"))
            )
        )

    assert office.calls == []
    assert run(office.hold()).status is ReservationStatus.RELEASED


def test_a_passage_that_fails_on_the_way_out_takes_no_money_back():
    office = Office()

    with pytest.raises(TransientError):
        run(
            office.get_gate().spend(
                asking(),
                office.step(cost=2),
                passage=passage(fails_leaving=TransientError("cannot leave")),
            )
        )

    assert run(office.used()) == (2, 0)


def test_a_promise_that_expired_during_its_passage_is_not_acted_on():
    office = Office()

    @asynccontextmanager
    async def takes_too_long():
        office.clock.advance(LEASE)
        await office.money.expire_reservations(now=office.clock.now())
        yield

    with pytest.raises(ConflictError):
        run(office.get_gate().spend(asking(), office.step(), passage=takes_too_long()))

    assert office.calls == []
    assert run(office.used()) == (0, 0)


def test_a_passage_that_fails_before_a_step_is_taken_again_leaves_it_to_be_taken_later():
    office = Office()
    gate, waited = office.get_gate(), passage()

    async def hears_nothing():
        raise UncertainError("timed out")

    with pytest.raises(UncertainError):
        run(gate.spend(asking(), hears_nothing, passage=waited, replay_within=DAY))
    with pytest.raises(TransientError):
        run(
            gate.spend(
                asking(),
                office.step(),
                passage=passage(fails_entering=TransientError("no turn")),
                replay_within=DAY,
            )
        )

    paid = run(gate.spend(asking(), office.step(), passage=passage(), replay_within=DAY))
    assert isinstance(paid, SettledCall)


def test_a_turn_and_a_pace_are_waited_for_only_by_what_has_its_money():
    office, order = Office(), []
    turnstile = FairQueue(at_once=1, quantum=5)
    pace = LocalRateLimiter(Rate(calls=2, per=timedelta(seconds=1)), clock=office.clock)

    async def scenario():
        gate = office.get_gate()

        async def pay(nth):
            async def step():
                order.append(nth)
                return Paid(answer=nth, cost={"credits": 1})

            passage = acquire_all(pace, within=turnstile.acquire(TenantId("acme"), cost=1))
            return await gate.spend(asking(f"pull-{nth}", cost=1), step, passage=passage)

        return await asyncio.gather(*(pay(nth) for nth in range(12)))

    outcomes = run(scenario())

    assert order == list(range(10))  # the cap allows ten; the others never stood in line
    assert [isinstance(each, Refusal) for each in outcomes] == [False] * 10 + [True] * 2


# Signs of life


def test_an_open_gate_keeps_its_promises_alive_for_as_long_as_a_step_takes():
    office = Office()

    async def scenario():
        async with office.promises(lease=timedelta(seconds=0.03)) as promises:

            async def takes_long():
                first = (await office.hold()).until
                while (await office.hold()).until <= first:
                    office.clock.advance(timedelta(seconds=0.001))
                    await asyncio.sleep(0.001)
                return Paid(answer="found", cost={"credits": 1})

            return await BudgetService(promises, clock=office.clock).spend(asking(), takes_long)

    assert isinstance(run(scenario()), SettledCall)


def test_promises_of_a_silent_owner_are_seen_to_by_whoever_is_alive():
    office = Office()
    died_after_sending(office)
    run(office.promises("dead").reserve(SpendRequest(**HELD)))
    office.clock.advance(LEASE)

    lapsed = run(office.promises("alive").heartbeat())

    assert {hold.key: hold.status for hold in lapsed} == {
        "pull-1": ReservationStatus.UNCERTAIN,
        "pull-2": ReservationStatus.EXPIRED,
    }


HELD = {
    "key": "pull-2",
    "connector": "lusha",
    "amounts": {"credits": 1},
    "sends_at_once": False,
}


def test_a_heartbeat_survives_a_store_that_does_not_answer():
    office = Office()

    async def scenario():
        async with office.promises(lease=timedelta(seconds=0.003)) as promises:
            office.money.before["expire_reservations"] = [TransientError("busy")] * 2
            await eventually(office.has_failed)
            return await BudgetService(promises, clock=office.clock).spend(asking(), office.step())

    assert isinstance(run(scenario()), SettledCall)


def test_every_refusal_by_a_cap_is_on_the_list_of_reasons():
    for scope in Scope:
        for window in WindowKind:
            connector = "" if scope is Scope.TENANT else "lusha"
            cap = Cap(scope=scope, unit="calls", window=window, limit=1, connector=connector)
            assert Reason(cap.reason).message


def test_two_lost_heartbeats_cost_no_promise():
    async def scenario():
        office = Office()
        office.clock = LoopClock()
        office.money.before["renew_leases"] = [TransientError("away"), TransientError("away")]

        async def takes_longer_than_the_lease():
            await asyncio.sleep(LEASE.total_seconds() + 1)
            assert await office.has_failed()
            lapsed = await office.promises("other").heartbeat()
            return Paid(
                answer=[lapsed, await office.is_in(ReservationStatus.SENT)], cost={"credits": 2}
            )

        async with office.promises() as promises:
            gate = BudgetService(promises, clock=office.clock)
            paid = await gate.spend(asking(), takes_longer_than_the_lease)
        return paid.answer

    assert run_virtually(scenario()) == [[], True]
