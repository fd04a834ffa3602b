"""A program whose processes spend from one store at once, some of them until they are killed.

It is given an order as JSON and answers with one line of JSON. Every process has a few tasks; each
counts what it was acknowledged in memory that outlives it. What became of the money is for others
to judge (`money_trials.py`).
"""

from __future__ import annotations

import asyncio
import json
import mmap
import multiprocessing
import os
import random
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faults.money_twins import TWINS
from stoker.core.budget import Refused, Request
from stoker.core.budget_windows import ResetRule, WindowKind
from stoker.core.caps import Cap, Scope
from stoker.core.holds import Hold, Phase
from stoker.core.model import TenantId
from stoker.errors import ConflictError, TransientError
from stoker.ports import Backend, MoneyStore
from stoker.stores.postgres import PostgresBackend
from stoker.stores.sqlite import SqliteBackend

CONNECTOR, UNIT = "lusha", "credits"
LEASE = timedelta(seconds=2)
RULE = ResetRule("Asia/Singapore")

Order = dict[str, Any]


def store(order: Order) -> Backend:
    """Open the store that an order names."""
    if url := order.get("url"):
        return PostgresBackend(url, connections=order["tasks"])
    return SqliteBackend(Path(order["path"]))


def caps(order: Order) -> list[Cap]:
    """Return the caps that everybody spends under: per run, per tenant, and for all together."""
    per_run = Cap(scope=Scope.TENANT, unit=UNIT, window=WindowKind.RUN, limit=order["per_run"])
    if "per_day" not in order:
        return [per_run]
    own, everybody = Scope.TENANT_CONNECTOR, Scope.CONNECTOR
    day, week = WindowKind.DAY, WindowKind.WEEK
    limit = order["per_day"]
    return [
        per_run,
        Cap(scope=own, unit=UNIT, window=day, limit=limit, connector=CONNECTOR),
        Cap(scope=everybody, unit=UNIT, window=week, limit=2 * limit, connector=CONNECTOR),
    ]


class Counts:
    """Numbers that processes share and that outlive them; each slot has one writer."""

    def __init__(self, slots: int) -> None:
        self._memory = mmap.mmap(-1, 8 * slots)

    def __getitem__(self, slot: int) -> int:
        return int(struct.unpack_from("q", self._memory, 8 * slot)[0])

    def add(self, slot: int, number: int = 1) -> None:
        struct.pack_into("q", self._memory, 8 * slot, self[slot] + number)


class Slots:
    """Which numbers there are: operations and grants of each worker, and what the sampler saw."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.counts = Counts(2 * workers + 2)

    def done(self) -> int:
        return sum(self.counts[worker] for worker in range(self.workers))

    def granted(self) -> int:
        return sum(self.counts[self.workers + worker] for worker in range(self.workers))


async def rush(order: Order, slots: Slots, worker: int, barrier: Any, life: int) -> None:
    """B1: in every round, ask for one cost again and again until the cap says no."""
    backend = store(order)
    money = backend.tenant(TenantId("acme")).money
    await money.usage()

    async def one(task: int, nth: int) -> None:
        turn = 0
        while True:
            now = datetime.now(UTC)
            key = f"r{nth}/w{worker}.{task}/{turn}"
            answer = await money.reserve(
                Request(key=key, connector=CONNECTOR, amounts={UNIT: order["cost"]}, run=f"r{nth}"),
                caps=caps(order),
                reset=RULE,
                owner=f"w{worker}",
                until=now + LEASE,
                now=now,
            )
            slots.counts.add(worker)
            if isinstance(answer, Refused):
                return
            slots.counts.add(slots.workers + worker)
            turn += 1

    for nth in range(order["rounds"]):
        await asyncio.to_thread(barrier.wait, 120)
        await asyncio.gather(*(one(task, nth) for task in range(order["tasks"])))
    await backend.close()


async def spend(order: Order, slots: Slots, worker: int, barrier: Any, life: int) -> None:
    """Promise and move on, in every way there is, until all together have done enough."""
    backend = store(order)
    tenants = [TenantId(name) for name in order["tenants"]]
    chance = random.Random(f"{order['seed']}/{worker}/{life}")
    owner = f"w{worker}.{life}"

    async def one(task: int) -> None:
        turn = 0
        while slots.done() < order["operations"]:
            turn += 1
            money = backend.tenant(chance.choice(tenants)).money
            # Another got there first, or the store was busy: nothing was done.
            with suppress(TransientError, ConflictError):
                await _one_deal(order, slots, worker, money, chance, f"{owner}.{task}/{turn}")

    await asyncio.gather(*(one(task) for task in range(order["tasks"])))
    await backend.close()


async def _one_deal(
    order: Order, slots: Slots, worker: int, money: MoneyStore, chance: random.Random, key: str
) -> None:
    def acknowledged() -> None:
        slots.counts.add(worker)

    now = datetime.now(UTC)
    if chance.random() < 0.02:
        await money.expire(now=now)
        return acknowledged()
    if chance.random() < 0.02:
        for hold in await money.holds(phases=[Phase.UNCERTAIN], limit=3):
            # Somebody found out. It may have been anybody's.
            await money.settle(hold.key, {UNIT: chance.randint(0, hold.amounts[UNIT])}, now=now)
            acknowledged()
        return None
    request = Request(
        key=key,
        connector=CONNECTOR,
        amounts={UNIT: chance.randint(1, 9)},
        run=f"r{slots.done() // order['run_length']}",
        sends_at_once=chance.random() < 0.5,
    )
    terms = {"reset": RULE, "owner": key.partition("/")[0], "until": now + LEASE, "now": now}
    hold = await money.reserve(request, caps=caps(order), **terms)
    acknowledged()
    if isinstance(hold, Refused):
        return None
    slots.counts.add(slots.workers + worker)
    return await _end(money, hold, chance, acknowledged)


async def _end(
    money: MoneyStore, hold: Hold, chance: random.Random, acknowledged: Callable[[], None]
) -> None:
    fate, now = chance.random(), datetime.now(UTC)
    if hold.phase is Phase.HELD and fate < 0.8:
        await money.sent(hold.key, now=now)
        acknowledged()
    if fate < 0.7:
        await money.settle(hold.key, {UNIT: chance.randint(0, hold.amounts[UNIT])}, now=now)
    elif fate < 0.85:
        await money.release(hold.key, reason="the vendor said no", now=now)
    elif fate < 0.9:
        await money.keep_aside(hold.key, reason="no answer came", now=now)
    else:
        return  # forgotten: its lease will end
    acknowledged()


async def watch(order: Order, slots: Slots) -> None:
    """Look at every total, again and again, and count what is above its limit."""
    backend = store(order)
    limits = {cap.id: cap.limit for cap in caps(order)}
    looks, breaches = 2 * slots.workers, 2 * slots.workers + 1
    while True:
        usage = await backend.shared().usage()
        for tenant in order["tenants"]:
            usage += await backend.tenant(TenantId(tenant)).money.usage()
        over = [each for each in usage if each.used.total > limits[each.cap]]
        slots.counts.add(looks)
        slots.counts.add(breaches, len(over))
        await asyncio.sleep(0.05)


TASKS = {"rush": rush, "spend": spend, **TWINS}


def forked(work: Callable[[], Any]) -> int:
    """Run an async function in a process of its own; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        asyncio.run(work())
        code = 0
    finally:
        os._exit(code)


def main(order: Order) -> dict[str, int]:
    """Let the crew loose, kill some of it when ordered, and return what was counted."""
    workers, slots = order["workers"], Slots(order["workers"])
    barrier = multiprocessing.get_context("fork").Barrier(workers)
    task, chance, kills, failed = TASKS[order["task"]], random.Random(order.get("seed")), 0, 0
    alive = {forked(lambda w=w: task(order, slots, w, barrier, 0)): w for w in range(workers)}
    sampler = forked(lambda: watch(order, slots)) if order.get("tenants") else 0
    lives = workers
    while alive:
        time.sleep(order.get("pause", 0.01))
        if order.get("kill") and slots.done() < order["operations"]:
            victim = chance.choice(list(alive))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            worker, life = alive.pop(victim), lives
            alive[forked(lambda w=worker, n=life: task(order, slots, w, barrier, n))] = worker
            kills, lives = kills + 1, lives + 1
        for pid in list(alive):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                failed += status != 0
                del alive[pid]
    if sampler:
        os.kill(sampler, signal.SIGKILL)
        os.waitpid(sampler, 0)
    return {
        "operations": slots.done(),
        "granted": slots.granted(),
        "kills": kills,
        "failed": failed,
        "looks": slots.counts[2 * workers],
        "breaches": slots.counts[2 * workers + 1],
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
