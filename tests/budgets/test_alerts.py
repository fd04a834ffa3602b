"""What a gate lets people know: costs above their promise, and outcomes nobody knows."""

from contextlib import suppress
from datetime import timedelta

import pytest

from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import TransientError, UncertainError
from stoker.base.events import OutcomeUncertain, Overrun
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import SpendRequest
from stoker.budgets.model import Paid
from stoker.budgets.service import BudgetService
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.testing import EventRecorder, FakeClock

ACME = TenantId("acme")
LEASE = timedelta(seconds=60)
CAP = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=100)


class Desk:
    """One tenant's money and everything its gates tell."""

    def __init__(self):
        self.clock, self.told = FakeClock(), EventRecorder()
        self.money = MemoryBackend().tenant(ACME).budgets

    def budget(self, owner):
        return BudgetService(
            self.money,
            caps=[CAP],
            reset=ResetRule(),
            owner=owner,
            clock=self.clock,
            lease=LEASE,
            tenant=ACME,
            observer=self.told,
        )

    async def pay(self, *, cost=5, raises=None):
        async def step():
            if raises is not None:
                raise raises
            return Paid(answer="found", cost={"credits": cost})

        request = SpendRequest(key="k", connector="lusha", amounts={"credits": 5})
        return await self.budget("me").spend(request, step)


@pytest.fixture
def desk():
    return Desk()


async def test_a_cost_above_its_promise_is_told_with_how_much(desk):
    await desk.pay(cost=7)

    [event] = desk.told.of_type(Overrun)
    assert (event.tenant, event.connector, event.at) == (ACME, "lusha", desk.clock.now())
    assert event.message() == "lusha charged 2 credits more than was reserved for k"


async def test_an_outcome_nobody_knows_is_told_with_the_reason(desk):
    with suppress(UncertainError):
        await desk.pay(raises=UncertainError("timed out after 30 s"))

    [event] = desk.told.of_type(OutcomeUncertain)
    assert (event.tenant, event.key) == (ACME, "k")
    assert "timed out after 30 s" in event.message()
    assert "stoker holds" in event.message()


@pytest.mark.parametrize("cost", [0, 4, 5])
async def test_what_cost_no_more_than_promised_is_no_news(desk, cost):
    await desk.pay(cost=cost)
    assert desk.told.of_type(Overrun) + desk.told.of_type(OutcomeUncertain) == []


async def test_what_was_given_back_is_no_news(desk):
    with suppress(TransientError):
        await desk.pay(raises=TransientError("busy"))
    assert desk.told.of_type(Overrun) + desk.told.of_type(OutcomeUncertain) == []


async def test_what_a_dead_process_may_have_sent_is_told_by_whoever_finds_it(desk):
    request = SpendRequest(key="k", connector="lusha", amounts={"credits": 5})

    await (await desk.budget("dead").reserve(request)).mark_sent()
    desk.clock.advance(timedelta(days=1))
    await desk.budget("alive").heartbeat()
    await desk.budget("alive").heartbeat()
    [event] = desk.told.of_type(OutcomeUncertain)
    assert event.key == "k"
