"""Trials of the gate: a crowd on one cap, and chaos with processes killed; and how they are judged.

The crowd is `money_crew.py`, a program of its own. Judging happens after it has ended: no cap
exceeded after any entry, nothing acknowledged lost, and a ledger that adds up to the totals.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from faults.forks import environment
from faults.money_twins import noted, prepared, spent
from faults.money_work import LARGEST, LEASE, Order, caps, store
from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.budgets.ledger_entries import Replay
from stoker.budgets.model import CapUsage
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.verify import find_shared_mismatches, verify_ledger
from stoker.context import TenantStores
from stoker.ledger.query import EntryKind
from stoker.ledger.read import read_pages

CAP, COST = 300, 7
MOST = CAP // COST * COST
TENANTS = ("acme", "umbrella", "initech", "globex")
PATIENCE = 7200.0


@dataclass
class Trial:
    """What a crew did, and each promise of the gate that did not hold."""

    counted: dict[str, int]
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = ", ".join(f"{number:,} {name}" for name, number in self.counted.items() if number)
        return f"{said}; broken {len(self.broken)}"


def let_loose(order: Order) -> dict[str, int]:
    """Run the crew until it is done; return what it counted."""
    done = subprocess.run(
        [sys.executable, "-m", "faults.money_crew", json.dumps(order, default=str)],
        env=environment(),
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    return dict(json.loads(done.stdout))


def rushed(order: Order) -> Trial:
    """B1: fifty workers on one cap, round after round; all that fits is spent, no more."""
    asyncio.run(_migrated(order))
    whole = order | {"task": "rush", "per_run": CAP, "cost": COST}
    trial = Trial(let_loose(whole))
    if trial.counted["failed"]:
        trial.broken.append(f"{trial.counted['failed']} workers failed")
    return asyncio.run(_judged_rush(whole, trial))


def rushed_naively(order: Order) -> list[int]:
    """The same crowd, checking and then acting; return what it spent in each round."""
    whole = order | {"task": "rush naively", "per_run": CAP, "cost": COST}
    prepared(whole)
    let_loose(whole)
    return spent(whole)


def chaos(order: Order) -> Trial:
    """Let a crew spend while its processes are killed; then judge."""
    asyncio.run(_migrated(order))
    trial = Trial(let_loose(whole := _whole(order)))
    if trial.counted["failed"]:
        trial.broken.append(f"{trial.counted['failed']} workers failed")
    if trial.counted["breaches"]:
        trial.broken.append(f"a cap was seen exceeded {trial.counted['breaches']} times")
    return asyncio.run(_judged_chaos(whole, trial))


def chaos_naively(order: Order) -> int:
    """The same kills, with total and entry written apart; return by how much they then differ."""
    whole = order | {"task": "spend naively", "cost": COST, "rounds": 1}
    prepared(whole)
    let_loose(whole)
    return spent(whole)[0] - noted(whole)[0]


def _whole(order: Order) -> Order:
    # A tenant wants about a quarter of a credit for each operation. So every run comes to the edge
    # of its cap towards its end, and all together come to theirs towards the end of the trial.
    operations, run_length = order["operations"], 200
    return {
        "tenants": list(TENANTS),
        "task": "spend",
        "per_run": run_length * 5 // 20,
        "per_day": max(60, operations * 11 // 50),
        "per_week": max(200, operations * 4 // 5),
        "run_length": run_length,
        **order,
    }


async def _migrated(order: Order) -> None:
    backend = store(order)
    if isinstance(backend, SqliteBackend):
        await backend.migrate()
    await backend.close()


async def _judged_rush(order: Order, trial: Trial) -> Trial:
    backend = store(order)
    money = backend.tenant(TenantId("acme")).budgets
    totals = [usage.used.total for usage in await money.list_usage()]
    if totals != [MOST] * order["rounds"]:
        trial.broken.append(f"spent in each round: {totals}")
    trial.broken += (await verify_ledger(backend.tenant(TenantId("acme")))).problems
    await backend.close()
    return trial


async def _judged_chaos(order: Order, trial: Trial) -> Trial:
    backend = store(order)
    began, later = time.monotonic(), datetime.now(UTC) + 2 * LEASE
    verdicts, there = [], Counter[ReservationStatus]()
    before = await backend.shared().list_usage()
    for name in order["tenants"]:
        tenant = backend.tenant(TenantId(name))
        await tenant.budgets.expire_reservations(now=later)
        if lost := await tenant.budgets.list_reservations(
            phases=[ReservationStatus.RESERVED, ReservationStatus.SENT]
        ):
            trial.broken.append(f"{name}: {len(lost)} promises of the dead are still held")
        verdicts.append(await verify_ledger(tenant))
        trial.broken += [f"{name}: {problem}" for problem in verdicts[-1].problems]
        trial.broken += [f"{name}: {breach}" for breach in await _ever_over(order, tenant)]
        there += await _phases(tenant)
    trial.broken += await find_shared_mismatches(backend.shared(), verdicts, before=before)
    usage = await backend.shared().list_usage()
    for name in order["tenants"]:
        usage += await backend.tenant(TenantId(name)).budgets.list_usage()
    trial.broken += _over(order, usage)
    trial.broken += _forgotten(trial, there)
    trial.counted["windows"], trial.counted["filled"] = len(usage), _filled(order, usage)
    trial.counted["promises"] = there.total()
    trial.counted["uncertain"] = there[ReservationStatus.UNCERTAIN]
    trial.counted["entries"] = sum(verdict.entries for verdict in verdicts)
    trial.counted["seconds of judging"] = round(time.monotonic() - began)
    await backend.close()
    return trial


def _forgotten(trial: Trial, there: Counter[ReservationStatus]) -> list[str]:
    # What was cut off may have been done all the same, so there may be more, never less.
    counted = trial.counted
    acknowledged = {"granted": there.total(), "settled": there[ReservationStatus.SETTLED]}
    return [
        f"{counted[what]} were {what}, {found} are there"
        for what, found in acknowledged.items()
        if found < counted[what]
    ]


async def _phases(tenant: TenantStores) -> Counter[ReservationStatus]:
    found, after = Counter[ReservationStatus](), ""
    while page := await tenant.budgets.list_reservations(
        phases=list(ReservationStatus), after=after, limit=1000
    ):
        found.update(hold.status for hold in page)
        after = page[-1].key
    return found


async def _ever_over(order: Order, tenant: TenantStores) -> list[str]:
    """Return where a tenant's cap was exceeded after some entry, if only until the next one."""
    limits = {cap.id: cap.limit for cap in caps(order)}
    replay, found = Replay(), []
    async for page in read_pages(tenant.ledger):
        for entry in page:
            replay.read([entry])
            if entry.kind != EntryKind.RESERVED:
                continue
            for cap, window, _ in entry.data["charges"]:
                if replay.own[cap, window].total > limits[cap]:
                    found.append(f"{cap} in {window} was exceeded by entry {entry.seq}")
    return found


def _over(order: Order, usage: list[CapUsage]) -> list[str]:
    limits = {cap.id: cap.limit for cap in caps(order)}
    return [
        f"{each.cap} in {each.window} has given away {each.used.total} of {limits[each.cap]}"
        for each in usage
        if each.used.total > limits[each.cap] or min(each.used.settled, each.used.reserved) < 0
    ]


def _filled(order: Order, usage: list[CapUsage]) -> int:
    """Return how many windows came so close to their limit that not everything fits any more."""
    limits = {cap.id: cap.limit for cap in caps(order)}
    return sum(limits[each.cap] - each.used.total < LARGEST for each in usage)
