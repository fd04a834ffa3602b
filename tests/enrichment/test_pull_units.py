import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from stoker.accounts.model import CompanyId
from stoker.backends.sqlite import MemoryBackend
from stoker.base.errors import TransientError
from stoker.base.types import Depth, TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest, to_attempt
from stoker.budgets.service import BudgetService
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.enrichment.pipeline import LookupPayments
from stoker.testing import FakeClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ONE, TWO = CompanyId("202000001A"), CompanyId("202000002B")
RULE = ResetRule()


async def came_to_nothing(gate, company):
    """Promise a deep look of today in a run of its own, and take the promise back."""

    async def fails():
        raise TransientError("nothing was done")

    key = f"look/{company}/20300101T0000/DEEP/3"
    request = SpendRequest(
        key=key, connector="crawl", amounts={"pull_units": 3}, run="earlier", account=company
    )
    with contextlib.suppress(TransientError):
        await gate.spend(to_attempt(request, 1), fails)


async def pay(payments, company, depth, *, now):
    """Reserve a look and pay it; return how deep it is and what it cost."""
    payment = await payments.reserve(company, depth, now=now)
    if isinstance(payment, Refusal):
        return payment
    async with payment.reserved or contextlib.nullcontext():
        return payment.depth, await payment.settle()


async def looks(limit, *asked, window=WindowKind.DAY, runs=("20300101_120000",), before=None):
    """Ask for looks in turn, each at its moment; return what came of them."""

    clock, store = FakeClock(NOON), MemoryBackend().tenant(TenantId("acme"))
    cap = Cap(scope=Scope.TENANT, unit="pull_units", window=window, limit=limit)
    told = []
    for owner, (company, depth, days) in enumerate(asked):
        clock.jump(NOON + timedelta(days=days))
        gate = BudgetService(
            store.budgets,
            caps=[cap],
            reset=RULE,
            owner=f"process {owner}",
            clock=clock,
            lease=timedelta(seconds=60),
            tenant=store.tenant,
        )
        if before is not None:
            await before(gate, company)
        looking = LookupPayments(
            gate,
            store.budgets,
            prices={Depth.SHALLOW: 1, Depth.DEEP: 3},
            reset=RULE,
            run=runs[owner % len(runs)],
        )
        told.append(await pay(looking, company, depth, now=clock.now()))
    return told, sum(each.used.total for each in await store.budgets.list_usage())


async def test_a_look_is_paid_for_once_a_day_whoever_comes_back():
    (first, again, tomorrow), used = await looks(
        100, (ONE, Depth.DEEP, 0), (ONE, Depth.DEEP, 0), (ONE, Depth.DEEP, 1)
    )
    assert first == tomorrow == (Depth.DEEP, {"pull_units": 3})
    assert again == (Depth.DEEP, {})
    assert used == 6


async def test_another_run_of_the_same_day_looks_again_without_paying():
    (first, again), used = await looks(
        3,
        (ONE, Depth.DEEP, 0),
        (ONE, Depth.DEEP, 0),
        runs=("20300101_120000", "20300101_130000"),
    )
    assert first == (Depth.DEEP, {"pull_units": 3})
    assert again == (Depth.DEEP, {})
    assert used == 3


async def test_a_deep_look_that_does_not_fit_becomes_a_shallow_one_and_that_is_refused_last():
    (first, second, third), used = await looks(
        4, (ONE, Depth.DEEP, 0), (TWO, Depth.DEEP, 0), (CompanyId("X"), Depth.DEEP, 0)
    )
    assert first[0] is Depth.DEEP
    assert second == (Depth.SHALLOW, {"pull_units": 1})
    assert isinstance(third, Refusal)
    assert third.resets_at is not None
    assert used == 4


async def test_a_cap_on_the_pull_units_of_a_run_counts_looks():
    (first, second), used = await looks(
        3, (ONE, Depth.DEEP, 0), (TWO, Depth.DEEP, 0), window=WindowKind.RUN
    )
    assert first == (Depth.DEEP, {"pull_units": 3})
    assert isinstance(second, Refusal)
    assert used == 3


async def test_a_promise_of_another_run_that_came_to_nothing_is_no_look_that_was_paid_for():
    (look,), used = await looks(100, (ONE, Depth.DEEP, 0), before=came_to_nothing)
    assert look == (Depth.DEEP, {"pull_units": 3})
    assert used == 3


class AwayOnce:
    """A money store whose reservation fails once."""

    def __init__(self, money):
        self._money, self._failed = money, False

    def __getattr__(self, verb):
        if verb == "reserve" and not self._failed:
            self._failed = True
            raise TransientError("the store is away")
        return getattr(self._money, verb)


async def test_a_reservation_the_store_cannot_read_is_an_error_to_retry_and_no_refusal():
    clock, store = FakeClock(NOON), MemoryBackend().tenant(TenantId("acme"))
    cap = Cap(scope=Scope.TENANT, unit="pull_units", window=WindowKind.DAY, limit=3)
    money = AwayOnce(store.budgets)
    gate = BudgetService(
        money,
        caps=[cap],
        reset=RULE,
        owner="process",
        clock=clock,
        lease=timedelta(seconds=60),
        tenant=store.tenant,
    )
    payments = LookupPayments(
        gate,
        store.budgets,
        prices={Depth.SHALLOW: 1, Depth.DEEP: 3},
        reset=RULE,
        run="20300101_120000",
    )
    with pytest.raises(TransientError):
        await pay(payments, ONE, Depth.DEEP, now=clock.now())
    assert await pay(payments, ONE, Depth.DEEP, now=clock.now()) == (Depth.DEEP, {"pull_units": 3})
