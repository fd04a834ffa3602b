"""The program whose processes are killed while they pay: everything imported, a fork for each.

Orders come as lines of JSON on standard input. A payer works through its share of the jobs from
the beginning, as any process that was started again would, and calls the vendor for each of them
in one of several ways: through the gate, or as naive code without it. Or it makes no
call at all, and only takes turns under a rate that it shares with the others.
"""

import asyncio
import itertools
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from faults.forks import serve
from metered_vendor import UNIT, buy
from stoker.backends.sqlite import SqliteBackend
from stoker.base.clock import SystemClock
from stoker.base.errors import PermanentError, TransientError, UncertainError
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest, to_attempt
from stoker.budgets.model import Paid
from stoker.budgets.service import AlreadySpent, BudgetService, SettledCall
from stoker.budgets.store import BudgetStore
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.rate_limits.rate_limit import (
    LocalRateLimiter,
    Rate,
    RateDecision,
    RateLimiter,
    SharedRateLimiter,
)
from stoker.rate_limits.store import RateStore

TENANT = TenantId("acme")
CONNECTOR = "metered"
RUN = "night"  # a cap per run: no midnight opens it a second time while we count
ATTEMPTS = 3

Order = dict[str, Any]


def cap_of(limit: int) -> Cap:
    return Cap(
        scope=Scope.TENANT_CONNECTOR,
        unit=UNIT,
        window=WindowKind.RUN,
        limit=limit,
        connector=CONNECTOR,
    )


def request_for(job: int, price: int) -> SpendRequest:
    return SpendRequest(key=f"job-{job}", connector=CONNECTOR, amounts={UNIT: price}, run=RUN)


def budget_of(money: BudgetStore, order: Order) -> BudgetService:
    return BudgetService(
        money,
        caps=[cap_of(order["cap"])],
        reset=ResetRule(),
        owner=order["owner"],
        clock=SystemClock(),
        lease=timedelta(seconds=order["lease"]),
    )


async def through_the_gate(gate: BudgetService, order: Order, job: int) -> bool:
    """Pay for a job, trying again as the vendor allows; False once the budget is used up."""
    request = request_for(job, order["price"])
    for number in range(1, ATTEMPTS + 1):
        wanted = to_attempt(request, number)
        step = partial(call, order, wanted.key)
        try:
            paid = await gate.spend(wanted, step)
        except (TransientError, UncertainError):
            continue
        except PermanentError:
            return True
        if isinstance(paid, Refusal):
            return False
        if isinstance(paid, SettledCall) or (
            isinstance(paid, AlreadySpent) and paid.reservation.actual
        ):
            return True
    return True


async def call(order: Order, key: str) -> Paid[list[str]]:
    try:
        return await buy(order["port"], key=key, patience=order["patience"])
    except UncertainError as error:
        if order["way"] == "gives back when unsure":
            raise TransientError(str(error)) from error
        raise


async def recorded_afterwards(money: BudgetStore, order: Order, job: int) -> bool:
    """The naive twin: look whether there is room, call, and then write down what it cost."""
    request = request_for(job, order["price"])
    if await money.find_reservation(request.key):
        return True
    spent = sum(usage.used.total for usage in await money.list_usage())
    if spent + order["price"] > order["cap"]:
        return False
    try:
        done = await buy(order["port"], key=request.key, patience=order["patience"])
    except (TransientError, PermanentError, UncertainError):
        return True
    clock = SystemClock()
    hold = await money.reserve(
        request,
        caps=[cap_of(order["cap"])],
        reset=ResetRule(),
        owner=order["owner"],
        until=clock.now() + timedelta(minutes=1),
        now=clock.now(),
    )
    if isinstance(hold, Refusal):
        return False
    await money.settle(request.key, done.cost, now=clock.now())
    return True


async def pay(order: Order) -> None:
    """Work through this payer's share of the jobs, some at a time, until the money is gone."""
    backend = SqliteBackend(order["path"])
    money = backend.tenant(TENANT).budgets
    jobs = itertools.count(order["slot"], order["slots"])
    async with budget_of(money, order) as gate:

        async def lane() -> None:
            for job in jobs:
                if order["way"] == "records afterwards":
                    going_on = await recorded_afterwards(money, order, job)
                else:
                    going_on = await through_the_gate(gate, order, job)
                if not going_on or job > order["jobs"]:
                    return

        await asyncio.gather(*(lane() for _ in range(order["lanes"])))
    await backend.close()


class WritesDown:
    """A `RateStore` of which only turns are asked, and which remembers those it gave."""

    def __init__(self, shared: RateStore) -> None:
        self._shared = shared
        self.given: list[datetime] = []

    async def acquire_call(self, key: str, rate: Rate, *, now: datetime) -> RateDecision:
        turn = await self._shared.acquire_call(key, rate, now=now)
        if turn.allowed:
            self.given.append(turn.at)
        return turn


async def take_turns(order: Order) -> None:
    """Take turns until told otherwise by a signal or the end; write each down as it is given."""
    clock, backend = SystemClock(), SqliteBackend(order["path"])
    rate = Rate(calls=order["calls"], per=timedelta(seconds=order["per"]), burst=order["burst"])
    shared = WritesDown(backend.shared())
    if order["way"] == "keeps a pace of its own":
        pace: RateLimiter = LocalRateLimiter(rate, clock=clock)
    else:
        pace = SharedRateLimiter("one key", rate, shared=cast("RateStore", shared), clock=clock)
    end_at = clock.now() + timedelta(seconds=order["lasting"])
    with _opened(order) as told:
        while clock.now() < end_at:
            await pace.acquire()
            at = shared.given[-1] if shared.given else clock.now()
            told.write(f"{at.isoformat()}\n")
    await backend.close()


def _opened(order: Order) -> TextIO:
    return Path(order["told"], order["owner"]).open("w", buffering=1)


async def carry_out(order: Order) -> None:
    await {"pay": pay, "take turns": take_turns}[order["task"]](order)


if __name__ == "__main__":
    serve(carry_out, waits=False)
