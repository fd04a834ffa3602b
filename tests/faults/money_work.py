"""What the processes of a crew do: rush for one cap, spend in every way there is, or watch.

Everybody counts what it was acknowledged (`money_counts.py`). Who is killed, and when, is for
`money_crew.py` to say; no work here knows that it may be.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faults.money_counts import Count, Counts
from stoker.backends.postgres import PostgresBackend
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import ConflictError, TransientError
from stoker.base.types import TenantId
from stoker.budgets.caps import Cap, Scope
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.reservations import Reservation, ReservationStatus
from stoker.budgets.store import BudgetStore
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.context import Backend

CONNECTOR, UNIT, LARGEST = "lusha", "credits", 9
LEASE = timedelta(seconds=2)
RULE = ResetRule("Asia/Singapore")
UNSURE = "no answer came"
# Long enough that the owner of an expired lease is dead, and not only slow.
SURELY_DEAD = timedelta(seconds=60)
SHARE_OF_WATCHING = 0.04  # of one core: what looking at everything costs grows with everything

Order = dict[str, Any]


def store(order: Order) -> Backend:
    """Open the store that an order names."""
    if url := order.get("url"):
        return PostgresBackend(url, connections=order.get("connections", order["tasks"]))
    return SqliteBackend(Path(order["path"]))


def caps(order: Order) -> list[Cap]:
    """Return the caps that everybody spends under: per run, per tenant, and for all together."""
    per_run = Cap(scope=Scope.TENANT, unit=UNIT, window=WindowKind.RUN, limit=order["per_run"])
    if "per_day" not in order:
        return [per_run]
    own, everybody = Scope.TENANT_CONNECTOR, Scope.CONNECTOR
    day, week = WindowKind.DAY, WindowKind.WEEK
    return [
        per_run,
        Cap(scope=own, unit=UNIT, window=day, limit=order["per_day"], connector=CONNECTOR),
        Cap(scope=everybody, unit=UNIT, window=week, limit=order["per_week"], connector=CONNECTOR),
    ]


async def rush(order: Order, counts: Counts, worker: int, barrier: Any, life: int) -> None:
    """B1: in every round, ask for one cost again and again until the cap says no."""
    backend = store(order)
    money = backend.tenant(TenantId("acme")).budgets
    limits = caps(order)
    await money.list_usage()

    async def one(task: int, nth: int) -> None:
        turn = 0
        while True:
            now = datetime.now(UTC)
            key = f"r{nth}/w{worker}.{task}/{turn}"
            answer = await money.reserve(
                SpendRequest(
                    key=key, connector=CONNECTOR, amounts={UNIT: order["cost"]}, run=f"r{nth}"
                ),
                caps=limits,
                reset=RULE,
                owner=f"w{worker}",
                until=now + LEASE,
                now=now,
            )
            counts.add(worker, Count.DONE)
            if isinstance(answer, Refusal):
                counts.add(worker, Count.REFUSED)
                return
            counts.add(worker, Count.GRANTED)
            turn += 1

    for nth in range(order["rounds"]):
        await asyncio.to_thread(barrier.wait, 120)
        await asyncio.gather(*(one(task, nth) for task in range(order["tasks"])))
    await backend.close()


async def spend(order: Order, counts: Counts, worker: int, barrier: Any, life: int) -> None:
    """Promise and move on, in every way there is, until all together have done enough."""
    backend = store(order)
    tills = [backend.tenant(TenantId(name)).budgets for name in order["tenants"]]
    chance = random.Random(f"{order['seed']}/{worker}/{life}")
    limits = caps(order)

    async def one(task: int) -> None:
        turn = 0
        while (done := counts.all(Count.DONE)) < order["operations"]:
            turn += 1
            key, run = f"w{worker}.{life}.{task}/{turn}", f"r{done // order['run_length']}"
            deal = _Deal(chance.choice(tills), limits, chance, counts, worker)
            await deal.made(key, run)

    await asyncio.gather(*(one(task) for task in range(order["tasks"])))
    await backend.close()


@dataclass(frozen=True, slots=True)
class _Deal:
    money: BudgetStore
    limits: list[Cap]
    chance: random.Random
    counts: Counts
    worker: int

    async def made(self, key: str, run: str) -> None:
        """Do one thing a worker does, with everything that follows from it."""
        fate = self.chance.random()
        if fate < 0.02:
            async with self._verb():
                await self.money.expire_reservations(now=datetime.now(UTC))
        elif fate < 0.04:
            await self._find_out()
        elif hold := await self._add_reservation(key, run):
            await self._end(hold)

    async def _add_reservation(self, key: str, run: str) -> Reservation | None:
        now = datetime.now(UTC)
        request = SpendRequest(
            key=key,
            connector=CONNECTOR,
            amounts={UNIT: self.chance.randint(1, LARGEST)},
            run=run,
            sends_at_once=self.chance.random() < 0.5,
        )
        owner = key.partition("/")[0]
        answer = None
        async with self._verb():
            answer = await self.money.reserve(
                request, caps=self.limits, reset=RULE, owner=owner, until=now + LEASE, now=now
            )
        if isinstance(answer, Reservation):
            self.counts.add(self.worker, Count.GRANTED)
            return answer
        self.counts.add(self.worker, Count.REFUSED, answer is not None)
        return None

    async def _end(self, hold: Reservation) -> None:
        fate = self.chance.random()
        # Only what was surely given back is released, and only what was sent can be in doubt:
        # otherwise a promise that had lapsed would count again, and rightly, above its cap.
        if hold.status is ReservationStatus.RESERVED and fate < 0.8:
            sent = False
            async with self._verb():
                await self.money.mark_sent(hold.key, now=datetime.now(UTC))
                sent = True
            if not sent:
                return
        now = datetime.now(UTC)
        if fate < 0.7:
            self.counts.add(self.worker, Count.SETTLED, await self._settle(hold))
        elif fate < 0.75:
            async with self._verb():
                await self.money.mark_uncertain(hold.key, reason=UNSURE, now=now)
        elif fate < 0.9:
            async with self._verb():
                await self.money.release(hold.key, reason="the vendor said no", now=now)
        # Otherwise it is forgotten: its lease will end.

    async def _find_out(self) -> None:
        """Settle uncertain reservations whose owner marked them so, or is surely dead."""
        somewhere = f"w{self.chance.randrange(self.counts.watcher)}"
        found = await self.money.list_reservations(
            phases=[ReservationStatus.UNCERTAIN], after=somewhere, limit=20
        )
        for hold in found:
            if hold.reason == UNSURE or hold.until + SURELY_DEAD < datetime.now(UTC):
                await self._settle(hold)

    async def _settle(self, hold: Reservation) -> bool:
        cost = self.chance.randint(0, hold.amounts[UNIT])
        async with self._verb():
            await self.money.settle(hold.key, {UNIT: cost}, now=datetime.now(UTC))
            return True
        return False

    @asynccontextmanager
    async def _verb(self) -> AsyncIterator[None]:
        self.counts.add(self.worker, Count.BEGUN)
        try:
            yield
        except (TransientError, ConflictError):
            # Another got there first, or the store was busy: nothing was done.
            self.counts.add(self.worker, Count.GAVE_WAY)
        else:
            self.counts.add(self.worker, Count.DONE)


async def watch(order: Order, counts: Counts) -> None:
    """Look at every total, again and again, and count what is above its limit."""
    backend = store(order)
    limits = {cap.id: cap.limit for cap in caps(order)}
    while True:
        before = time.process_time()
        usage = await backend.shared().list_usage()
        for tenant in order["tenants"]:
            usage += await backend.tenant(TenantId(tenant)).budgets.list_usage()
        over = [each for each in usage if each.used.total > limits[each.cap]]
        counts.add(counts.watcher, Count.LOOKS)
        counts.add(counts.watcher, Count.BREACHES, len(over))
        await asyncio.sleep(max(0.05, (time.process_time() - before) / SHARE_OF_WATCHING))
