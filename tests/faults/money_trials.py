"""Trials of the gate: a crowd on one cap, and chaos with processes killed; and how they are judged.

The crowd is `money_crew.py`, a program of its own. Judging happens after it has ended: caps not
exceeded, no promise lost, and a ledger that adds up to the totals.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from faults.lab import TESTS
from faults.money_crew import LEASE, caps, store
from faults.money_twins import prepared, spent
from stoker.core.holds import Phase
from stoker.core.model import TenantId
from stoker.engine.verifying import shared_differences, verified
from stoker.ports import Backend
from stoker.stores.sqlite import SqliteBackend

CAP, COST, MOST = 1000, 7, 994
PATIENCE = 7200.0

Order = dict[str, Any]


@dataclass
class Trial:
    """What a crew did, and each promise of the gate that did not hold."""

    counted: dict[str, int]
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        said = ", ".join(f"{number} {name}" for name, number in self.counted.items() if number)
        return f"{said}; broken {len(self.broken)}"


def let_loose(order: Order) -> dict[str, int]:
    """Run the crew until it is done; return what it counted."""
    done = subprocess.run(
        [sys.executable, "-m", "faults.money_crew", json.dumps(order, default=str)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    return dict(json.loads(done.stdout))


def rushed(order: Order) -> Trial:
    """B1: fifty workers on one cap, round after round; exactly 142 times 7 may be spent."""
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
    operations = order["operations"]
    whole = {
        "tenants": ["acme", "umbrella", "initech", "globex"],
        "task": "spend",
        "kill": True,
        "per_run": 150,
        "per_day": max(200, operations // 3),
        "run_length": 200,
        **order,
    }
    trial = Trial(let_loose(whole))
    if trial.counted["failed"]:
        trial.broken.append(f"{trial.counted['failed']} workers failed")
    if trial.counted["breaches"]:
        trial.broken.append(f"a cap was seen exceeded {trial.counted['breaches']} times")
    return asyncio.run(_judged_chaos(whole, trial))


async def _migrated(order: Order) -> None:
    backend = store(order)
    if isinstance(backend, SqliteBackend):
        await backend.migrate()
    await backend.close()


async def _judged_rush(order: Order, trial: Trial) -> Trial:
    backend = store(order)
    money = backend.tenant(TenantId("acme")).money
    totals = [usage.used.total for usage in await money.usage()]
    if totals != [MOST] * order["rounds"]:
        trial.broken.append(f"spent in each round: {totals}")
    trial.broken += (await verified(backend.tenant(TenantId("acme")))).problems
    await backend.close()
    return trial


async def _judged_chaos(order: Order, trial: Trial) -> Trial:
    backend = store(order)
    later = datetime.now(UTC) + 2 * LEASE
    verdicts, holds, states = [], 0, dict.fromkeys(Phase, 0)
    for name in order["tenants"]:
        tenant = backend.tenant(TenantId(name))
        await tenant.money.expire(now=later)
        if lost := await tenant.money.holds(phases=[Phase.HELD, Phase.SENT]):
            trial.broken.append(f"{name}: {len(lost)} promises of the dead are still held")
        verdicts.append(await verified(tenant))
        trial.broken += [f"{name}: {problem}" for problem in verdicts[-1].problems]
        for phase in Phase:
            states[phase] += await _count(backend, TenantId(name), phase)
    holds = sum(states.values())
    trial.broken += await shared_differences(backend.shared(), verdicts)
    trial.broken += await _over(order, backend)
    if holds < trial.counted["granted"]:
        trial.broken.append(f"{trial.counted['granted']} were granted, {holds} are there")
    trial.counted["promises"] = holds
    trial.counted["uncertain"] = states[Phase.UNCERTAIN]
    trial.counted["entries"] = sum(verdict.entries for verdict in verdicts)
    await backend.close()
    return trial


async def _count(backend: Backend, tenant: TenantId, phase: Phase) -> int:
    money, after, found = backend.tenant(tenant).money, "", 0
    while page := await money.holds(phases=[phase], after=after, limit=1000):
        found, after = found + len(page), page[-1].key
    return found


async def _over(order: Order, backend: Backend) -> list[str]:
    limits = {cap.id: cap.limit for cap in caps(order)}
    usage = await backend.shared().usage()
    for name in order["tenants"]:
        usage += await backend.tenant(TenantId(name)).money.usage()
    return [
        f"{each.cap} in {each.window} has given away {each.used.total} of {limits[each.cap]}"
        for each in usage
        if each.used.total > limits[each.cap] or min(each.used.settled, each.used.reserved) < 0
    ]
