import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import apsw
import pytest

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
from stoker.budgets.charges import Refused, Request
from stoker.budgets.gate import Earlier, Gate, Paid, attempt
from stoker.budgets.model import Done
from stoker.budgets.reservations import Phase
from stoker.budgets.reserver import Promises
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.memory.backend import MemoryBackend
from stoker.rate_limits.limiter import Turnstile
from stoker.rate_limits.rate_limit import OwnPace, Rate, paced
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
        return Promises(
            self.money, caps=[CAP], reset=ResetRule(), owner=owner, clock=self.clock, lease=lease
        )

    def gate(self, owner="one"):
        return Gate(self.promises(owner), clock=self.clock)

    def step(self, *, cost=2, raises=None, answer="found"):
        async def step():
            self.calls.append(answer)
            if raises is not None:
                raise raises
            return Done(answer=answer, cost={"credits": cost})

        return step

    async def hold(self, key="pull-1"):
        return await self.money.hold(key)

    async def is_in(self, *phases):
        hold = await self.hold()
        return hold is not None and hold.phase in phases

    async def was_asked(self, verb):
        return verb in self.money.asked

    async def has_failed(self):
        return not any([*self.money.before.values(), *self.money.after.values()])

    async def used(self):
        usage = await self.money.usage()
        return sum(each.used.settled for each in usage), sum(each.used.reserved for each in usage)


def asking(key="pull-1", cost=5):
    return Request(key=key, connector="lusha", amounts={"credits": cost})


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

    paid = run(office.gate().pay_for(asking(), office.step(cost=2)))

    assert isinstance(paid, Paid)
    assert (paid.answer, paid.hold.phase) == ("found", Phase.SETTLED)
    assert run(office.used()) == (2, 0)


def test_a_step_that_does_not_fit_is_not_taken_and_says_which_cap_refused():
    office = Office()

    refused = run(office.gate().pay_for(asking(cost=11), office.step()))

    assert isinstance(refused, Refused)
    assert (refused.reason, refused.cap) == (Reason.CAP_CONNECTOR_DAY, CAP.id)
    assert office.calls == []


@pytest.mark.parametrize("error", [TransientError("503"), PermanentError("401")])
def test_a_step_that_did_nothing_gives_its_promise_back(error):
    office = Office()

    with pytest.raises(type(error)):
        run(office.gate().pay_for(asking(), office.step(raises=error)))

    assert run(office.used()) == (0, 0)
    assert run(office.hold()).phase is Phase.RELEASED


@pytest.mark.parametrize("error", [UncertainError("no answer"), RuntimeError("nobody expected it")])
def test_an_unknown_outcome_keeps_its_promise_aside(error):
    office = Office()

    with pytest.raises(type(error)):
        run(office.gate().pay_for(asking(), office.step(raises=error)))

    assert run(office.used()) == (0, 5)
    hold = run(office.hold())
    assert (hold.phase, hold.reason) == (Phase.UNCERTAIN, str(error))


def test_a_step_that_is_cancelled_keeps_its_promise_aside():
    office = Office()

    async def scenario():
        async def hangs():
            await asyncio.sleep(60)

        paying = asyncio.create_task(office.gate().pay_for(asking(), hangs))
        await eventually(lambda: office.is_in(*Phase))
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying

    run(scenario())
    assert run(office.hold()).phase is Phase.UNCERTAIN


def test_cancelling_while_the_cost_is_being_written_does_not_lose_it():
    office = Office()

    async def scenario():
        office.money.waits_for["settle"] = asyncio.Event()
        paying = asyncio.create_task(office.gate().pay_for(asking(), office.step(cost=4)))
        await eventually(lambda: office.was_asked("settle"))
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        office.money.waits_for["settle"].set()
        await eventually(lambda: office.is_in(Phase.SETTLED))

    run(scenario())
    assert run(office.used()) == (4, 0)


def test_a_key_whose_cost_is_still_being_written_is_not_acted_on_again():
    office = Office()

    async def scenario():
        office.money.waits_for["settle"] = asyncio.Event()
        gate = office.gate()
        paying = asyncio.create_task(gate.pay_for(asking(), office.step()))
        await eventually(lambda: office.was_asked("settle"))
        paying.cancel()
        await asyncio.gather(paying, return_exceptions=True)
        again = await gate.pay_for(asking(), office.step())
        office.money.waits_for["settle"].set()
        await eventually(lambda: office.is_in(Phase.SETTLED))
        return again

    assert isinstance(run(scenario()), Earlier)
    assert len(office.calls) == 1


def test_closing_waits_for_what_is_still_being_written():
    office = Office()

    async def scenario():
        settling = office.money.waits_for["settle"] = asyncio.Event()
        async with office.promises() as promises:
            gate = Gate(promises, clock=office.clock)
            paying = asyncio.create_task(gate.pay_for(asking(), office.step(cost=4)))
            await eventually(lambda: office.was_asked("settle"))
            paying.cancel()
            asyncio.get_running_loop().call_later(0.05, settling.set)
        return await office.hold()

    assert run(scenario()).phase is Phase.SETTLED


def test_a_key_already_settled_is_answered_without_acting():
    office = Office()
    run(office.gate("one").pay_for(asking(), office.step()))

    again = run(office.gate("two").pay_for(asking(), office.step(), replay_within=DAY))

    assert isinstance(again, Earlier)
    assert (again.hold.phase, dict(again.hold.actual)) == (Phase.SETTLED, {"credits": 2})
    assert len(office.calls) == 1


def test_of_two_callers_with_one_key_in_one_process_one_acts():
    office = Office()

    async def scenario():
        gate = office.gate()
        return await asyncio.gather(
            *(gate.pay_for(asking(), office.step()) for _ in range(2)), return_exceptions=True
        )

    first, second = run(scenario())

    assert isinstance(first, Paid)
    assert isinstance(second, Earlier)
    assert len(office.calls) == 1


def test_a_promise_another_process_is_acting_on_is_left_to_it():
    office = Office()

    async def scenario():
        others, done = office.gate("other"), []

        async def meanwhile():
            done.append(await office.gate("one").pay_for(asking(), office.step()))
            return Done(answer="theirs", cost={"credits": 1})

        await others.pay_for(asking(), meanwhile)
        return done[0]

    earlier = run(scenario())

    assert isinstance(earlier, Earlier)
    assert earlier.hold.phase is Phase.SENT
    assert office.calls == []


def test_the_same_key_for_something_else_is_a_conflict():
    office = Office()
    run(office.gate().pay_for(asking(), office.step()))

    with pytest.raises(ConflictError):
        run(office.gate().pay_for(asking(cost=6), office.step()))


def test_trying_again_is_a_new_attempt_with_its_own_promise():
    office = Office()

    async def scenario():
        gate = office.gate()
        with pytest.raises(UncertainError):
            await gate.pay_for(attempt(asking(), 1), office.step(raises=UncertainError("lost")))
        return await gate.pay_for(attempt(asking(), 2), office.step(cost=2))

    assert isinstance(run(scenario()), Paid)
    # The first may have been charged: both count.
    assert run(office.used()) == (2, 5)


# A store that cannot be relied on


@pytest.mark.parametrize("error", [TransientError("locked"), UncertainError("cut off")])
def test_a_budget_that_cannot_be_read_is_a_refusal_and_nothing_is_done(error):
    office = Office()
    office.money.before["reserve"] = [error] * 2

    refused = run(office.gate().pay_for(asking(), office.step()))

    assert isinstance(refused, Refused)
    assert refused.reason == Reason.BUDGET_UNREADABLE
    assert str(error) in refused.sentence
    assert office.calls == []


def test_a_promise_whose_answer_was_lost_is_found_by_asking_again():
    office = Office()
    office.money.after["reserve"] = [UncertainError("cut off")]

    assert isinstance(run(office.gate().pay_for(asking(), office.step())), Paid)
    assert len(office.calls) == 1


def test_a_promise_given_but_never_heard_of_comes_back():
    office = Office()
    office.money.after["reserve"] = [UncertainError("cut off")] * 2

    async def scenario():
        promises = office.promises()
        await Gate(promises, clock=office.clock).pay_for(asking(), office.step())
        assert (await office.hold()).phase is Phase.SENT
        await promises.tend()

    run(scenario())
    assert run(office.hold()).phase is Phase.RELEASED
    assert office.calls == []


def test_a_promise_whose_asker_was_cancelled_comes_back():
    office = Office()

    async def scenario():
        office.money.answers_after["reserve"] = asyncio.Event()
        promises = office.promises()
        gate = Gate(promises, clock=office.clock)
        paying = asyncio.create_task(gate.pay_for(asking(), office.step()))
        await eventually(lambda: office.is_in(Phase.SENT))
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        await promises.tend()

    run(scenario())
    assert run(office.hold()).phase is Phase.RELEASED


def test_a_promise_that_arrives_after_its_asker_gave_up_comes_back():
    office = Office()
    office.money.before["reserve"] = [UncertainError("cut off")] * 2

    async def scenario():
        promises = office.promises()
        await Gate(promises, clock=office.clock).pay_for(asking(), office.step())
        await promises.tend()
        await office.promises().given(asking())  # what was asked for goes through after all
        await promises.tend()

    run(scenario())
    assert run(office.hold()).phase is Phase.RELEASED


def test_what_another_process_promised_under_the_same_key_is_left_to_it():
    office = Office()
    office.money.before["reserve"] = [UncertainError("cut off")] * 2

    async def scenario():
        promises = office.promises()
        await Gate(promises, clock=office.clock).pay_for(asking(), office.step())
        await office.promises("other").given(asking())
        await promises.tend()

    run(scenario())
    assert run(office.hold()).phase is Phase.SENT


def test_a_cost_that_comes_after_somebody_closed_its_promise_is_settled_late():
    office = Office()

    async def scenario():
        promises = office.promises()

        async def meanwhile():
            await office.money.release("pull-1", reason="by hand", now=office.clock.now())
            return Done(answer="found", cost={"credits": 2})

        paid = await Gate(promises, clock=office.clock).pay_for(asking(), meanwhile)
        return paid.hold, await promises.tend()

    late, lapsed = run(scenario())
    assert (late.reason, late.actual, lapsed) == ("SETTLED_LATE", {"credits": 2}, [])


def test_a_refusal_for_an_unreadable_budget_leaves_the_key_good():
    office = Office()
    gate = office.gate()
    office.money.after["reserve"] = [UncertainError("cut off")] * 2
    assert isinstance(run(gate.pay_for(asking(), office.step())), Refused)

    assert isinstance(run(gate.pay_for(asking(), office.step())), Paid)
    assert len(office.calls) == 1


def test_a_unit_nobody_has_capped_is_an_error_and_nothing_is_done():
    office = Office()
    request = Request(key="pull-1", connector="lusha", amounts={"tokens": 1})

    with pytest.raises(ConfigError):
        run(office.gate().pay_for(request, office.step()))
    assert office.calls == []


def test_a_cost_that_could_not_be_written_is_owed_until_it_is():
    office = Office()
    office.money.before["settle"] = [TransientError("disk is full")] * 4

    async def scenario():
        promises = office.promises()
        gate = Gate(promises, clock=office.clock)
        with pytest.raises(UncertainError, match="could not be written down"):
            await gate.pay_for(asking(), office.step(cost=9))
        assert isinstance(await gate.pay_for(asking(), office.step()), Earlier)
        await promises.tend()

    run(scenario())
    assert run(office.used()) == (9, 0)
    assert len(office.calls) == 1


@pytest.mark.parametrize("cost", [-1, 10**16, 1.5])
def test_a_cost_that_makes_no_sense_keeps_the_promise_aside(cost):
    office = Office()

    with pytest.raises(ConfigError):
        run(office.gate().pay_for(asking(), office.step(cost=cost)))

    assert run(office.used()) == (0, 5)
    assert "cannot be settled" in run(office.hold()).reason


def test_a_cost_above_its_promise_is_settled_as_it_was_and_the_next_one_sees_it():
    office = Office()

    paid = run(office.gate().pay_for(asking(), office.step(cost=12)))
    refused = run(office.gate().pay_for(asking("pull-2", cost=1), office.step()))

    assert dict(paid.hold.actual) == {"credits": 12}
    assert isinstance(refused, Refused)
    assert (refused.used, refused.limit) == (12, 10)


def test_one_promise_that_cannot_be_taken_back_does_not_keep_the_others_or_itself():
    office = Office()
    office.money.after["reserve"] = [UncertainError("cut off")] * 4

    async def scenario():
        promises = office.promises()
        gate = Gate(promises, clock=office.clock)
        for key in ("pull-1", "pull-2"):
            await gate.pay_for(asking(key), office.step())
        office.money.before["release"] = [TransientError("busy")]
        with pytest.raises(TransientError):
            await promises.tend()
        await promises.tend()
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
        refused = await office.gate().pay_for(asking(), office.step())
        locked.execute("ROLLBACK")
        locked.close()
        paid = await office.gate("two").pay_for(asking(), office.step())
        await backend.close()
        return refused, paid

    refused, paid = run(scenario())

    assert isinstance(refused, Refused)
    assert refused.reason == Reason.BUDGET_UNREADABLE
    assert isinstance(paid, Paid)
    assert len(office.calls) == 1


def test_a_database_that_is_none_is_an_error_and_nothing_is_done(tmp_path):
    office, path = Office(), tmp_path / "stoker.db"
    path.write_text("this is a shopping list" * 1000)

    async def scenario():
        backend = SqliteBackend(path)
        office.money = backend.tenant(TenantId("acme")).money
        try:
            with pytest.raises(ConfigError):
                await office.gate().pay_for(asking(), office.step())
        finally:
            await backend.close()

    run(scenario())
    assert office.calls == []


# Taking a step again under its old promise


def died_after_sending(office, key="pull-1"):
    """Another process reserved, called the vendor, and was never heard of again."""

    async def scenario():
        hold = await office.promises("dead").given(asking(key))
        assert hold.phase is Phase.SENT

    run(scenario())


@pytest.mark.parametrize("swept", [True, False])
def test_with_a_vendor_that_knows_keys_a_dead_process_s_step_is_taken_again(swept):
    office = Office()
    died_after_sending(office)
    office.clock.advance(LEASE)
    if swept:
        run(office.promises().tend())

    paid = run(office.gate().pay_for(asking(), office.step(cost=5), replay_within=DAY))

    assert isinstance(paid, Paid)
    assert run(office.used()) == (5, 0)


def test_a_sign_of_life_is_what_lets_us_give_back_after_a_long_time():
    office = Office()

    async def scenario():
        promises = office.promises()

        async def takes_long():
            for _ in range(4):
                office.clock.advance(LEASE / 2)
                await promises.tend()
            raise TransientError("503")

        gate = Gate(promises, clock=office.clock)
        with pytest.raises(TransientError):
            await gate.pay_for(asking(), takes_long, replay_within=DAY)

    run(scenario())
    assert run(office.hold()).phase is Phase.RELEASED


def test_with_a_vendor_that_knows_no_keys_a_dead_process_s_step_is_not_taken_again():
    office = Office()
    died_after_sending(office)
    office.clock.advance(LEASE)
    run(office.promises().tend())

    earlier = run(office.gate().pay_for(asking(), office.step()))

    assert isinstance(earlier, Earlier)
    assert earlier.hold.phase is Phase.UNCERTAIN
    assert office.calls == []


def test_a_step_is_not_taken_again_while_its_process_may_be_alive():
    office = Office()
    died_after_sending(office)

    earlier = run(office.gate().pay_for(asking(), office.step(), replay_within=DAY))

    assert isinstance(earlier, Earlier)
    assert office.calls == []


@pytest.mark.parametrize("later", [DAY, -DAY, DAY - timedelta(minutes=5)])
def test_a_step_is_not_taken_again_once_the_vendor_may_have_forgotten_its_key(later):
    office = Office()
    died_after_sending(office)
    office.clock.advance(LEASE)
    run(office.promises().tend())
    reserved_at = run(office.hold()).reserved_at
    office.clock.jump(reserved_at + later)

    earlier = run(office.gate().pay_for(asking(), office.step(), replay_within=DAY))

    assert isinstance(earlier, Earlier)
    assert office.calls == []


@pytest.mark.parametrize("error", [TransientError("503"), PermanentError("422")])
def test_that_nothing_was_done_the_second_time_says_nothing_about_the_first(error):
    office = Office()
    died_after_sending(office)
    office.clock.advance(LEASE)

    with pytest.raises(type(error)):
        run(office.gate().pay_for(asking(), office.step(raises=error), replay_within=DAY))

    assert run(office.used()) == (0, 5)
    assert run(office.hold()).phase is Phase.UNCERTAIN


def test_a_process_taken_for_dead_does_not_give_back_what_another_may_be_acting_on():
    office = Office()

    async def sleeps_too_long():
        office.clock.advance(LEASE)
        raise TransientError("503")

    with pytest.raises(TransientError):
        run(office.gate().pay_for(asking(), sleeps_too_long, replay_within=DAY))

    assert run(office.used()) == (0, 5)


def test_our_own_step_of_unknown_outcome_is_taken_again_under_its_one_promise():
    office = Office()
    gate = office.gate()
    with pytest.raises(UncertainError):
        run(
            gate.pay_for(
                asking(), office.step(raises=UncertainError("timed out")), replay_within=DAY
            )
        )

    paid = run(gate.pay_for(asking(), office.step(cost=3), replay_within=DAY))

    assert isinstance(paid, Paid)
    assert run(office.used()) == (3, 0)


# What has to be waited for between promise and step


def passage(*, fails_entering=None, fails_leaving=None, seen=None, office=None):
    @asynccontextmanager
    async def waited():
        if seen is not None:
            seen.append((await office.hold()).phase)
        if fails_entering:
            raise fails_entering
        yield
        if fails_leaving:
            raise fails_leaving

    return waited()


def test_a_promise_that_waits_for_its_passage_would_come_back_by_itself():
    office, seen = Office(), []

    paid = run(
        office.gate().pay_for(asking(), office.step(), passage=passage(seen=seen, office=office))
    )

    assert seen == [Phase.HELD]
    assert isinstance(paid, Paid)


def test_a_step_whose_passage_fails_is_not_taken_and_gives_its_promise_back():
    office = Office()

    with pytest.raises(TransientError):
        run(
            office.gate().pay_for(
                asking(), office.step(), passage=passage(fails_entering=TransientError("no turn"))
            )
        )

    assert office.calls == []
    assert run(office.hold()).phase is Phase.RELEASED


def test_a_passage_that_fails_on_the_way_out_takes_no_money_back():
    office = Office()

    with pytest.raises(TransientError):
        run(
            office.gate().pay_for(
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
        await office.money.expire(now=office.clock.now())
        yield

    with pytest.raises(ConflictError):
        run(office.gate().pay_for(asking(), office.step(), passage=takes_too_long()))

    assert office.calls == []
    assert run(office.used()) == (0, 0)


def test_a_passage_that_fails_before_a_step_is_taken_again_leaves_it_to_be_taken_later():
    office = Office()
    gate, waited = office.gate(), passage()

    async def hears_nothing():
        raise UncertainError("timed out")

    with pytest.raises(UncertainError):
        run(gate.pay_for(asking(), hears_nothing, passage=waited, replay_within=DAY))
    with pytest.raises(TransientError):
        run(
            gate.pay_for(
                asking(),
                office.step(),
                passage=passage(fails_entering=TransientError("no turn")),
                replay_within=DAY,
            )
        )

    paid = run(gate.pay_for(asking(), office.step(), passage=passage(), replay_within=DAY))
    assert isinstance(paid, Paid)


def test_a_turn_and_a_pace_are_waited_for_only_by_what_has_its_money():
    office, order = Office(), []
    turnstile = Turnstile(at_once=1, quantum=5)
    pace = OwnPace(Rate(calls=2, per=timedelta(seconds=1)), clock=office.clock)

    async def scenario():
        gate = office.gate()

        async def pay(nth):
            async def step():
                order.append(nth)
                return Done(answer=nth, cost={"credits": 1})

            passage = paced(pace, within=turnstile.turn(TenantId("acme"), cost=1))
            return await gate.pay_for(asking(f"pull-{nth}", cost=1), step, passage=passage)

        return await asyncio.gather(*(pay(nth) for nth in range(12)))

    outcomes = run(scenario())

    assert order == list(range(10))  # the cap allows ten; the others never stood in line
    assert [isinstance(each, Refused) for each in outcomes] == [False] * 10 + [True] * 2


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
                return Done(answer="found", cost={"credits": 1})

            return await Gate(promises, clock=office.clock).pay_for(asking(), takes_long)

    assert isinstance(run(scenario()), Paid)


def test_promises_of_a_silent_owner_are_seen_to_by_whoever_is_alive():
    office = Office()
    died_after_sending(office)
    run(office.promises("dead").given(Request(**HELD)))
    office.clock.advance(LEASE)

    lapsed = run(office.promises("alive").tend())

    assert {hold.key: hold.phase for hold in lapsed} == {
        "pull-1": Phase.UNCERTAIN,
        "pull-2": Phase.EXPIRED,
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
            office.money.before["expire"] = [TransientError("busy")] * 2
            await eventually(office.has_failed)
            return await Gate(promises, clock=office.clock).pay_for(asking(), office.step())

    assert isinstance(run(scenario()), Paid)


def test_every_refusal_by_a_cap_is_on_the_list_of_reasons():
    for scope in Scope:
        for window in WindowKind:
            connector = "" if scope is Scope.TENANT else "lusha"
            cap = Cap(scope=scope, unit="calls", window=window, limit=1, connector=connector)
            assert Reason(cap.reason).sentence
