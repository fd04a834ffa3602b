"""Kill payers at random moments, and compare what the vendor took with what we say it did.

The vendor's own counter is the oracle. It may never be above the cap, nor above what our ledger
says is spent, promised or uncertain; and no key may be charged twice. Used by tests and proofs.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.forks import Forks
from faults.payers import TENANT, budget_of
from metered_vendor import LYING, MeteredVendor
from stoker.backends.sqlite import SqliteBackend
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.verify import verify_ledger

LEASE = 0.4  # seconds
PATIENCE = 120.0  # seconds after which payers hang, and are not merely slow


@dataclass
class Verdict:
    """What a trial saw, and every promise that did not survive it."""

    calls: int = 0
    kills: int = 0
    pauses: int = 0
    looks: int = 0
    charged: int = 0
    in_ledger: int = 0
    uncertain: int = 0
    cap: int = 0
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"n={self.calls} calls, {self.kills} kills, {self.pauses} pauses beyond the lease, "
            f"{self.looks} looks: vendor charged {self.charged} of {self.cap}, "
            f"ledger {self.in_ledger} ({self.uncertain} uncertain), broken {len(self.broken)}"
        )


class Payers:
    """Processes that pay, so many at a time; a killed one is replaced by another owner."""

    def __init__(self, order: dict[str, Any], *, at_once: int) -> None:
        self._order, self._at_once = order, at_once
        self._forks = Forks("faults.payers")
        self._started = 0
        self._alive: dict[int, int] = {}  # slot to pid

    def __enter__(self) -> Payers:
        self._forks.__enter__()
        for slot in range(self._at_once):
            self._start(slot)
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self.alive():
            self._kill(slot)
        self._forks.__exit__()

    def alive(self) -> list[int]:
        """Return the slots whose payer has not come to its end."""
        self._alive = {slot: pid for slot, pid in self._alive.items() if _is_there(pid)}
        return list(self._alive)

    def kill_and_replace(self, slot: int) -> None:
        self._kill(slot)
        self._start(slot)

    def signal(self, slot: int, number: int) -> None:
        """Send a payer a signal, if it is still there."""
        with suppress(ProcessLookupError, KeyError):
            os.kill(self._alive[slot], number)

    def _kill(self, slot: int) -> None:
        self.signal(slot, signal.SIGKILL)
        self._alive.pop(slot, None)

    def _start(self, slot: int) -> None:
        self._started += 1
        order = {
            **self._order,
            "slot": slot,
            "slots": self._at_once,
            "owner": f"payer-{self._started}",
        }
        self._alive[slot] = self._forks.start(order)


def killed_while_paying(
    home: Path,
    *,
    calls: int,
    knows_keys: bool,
    way: str = "gate",
    chance: random.Random,
    price: int = 7,
    at_once: int = 3,
    lanes: int = 4,
    every: int = 6,
) -> Verdict:
    """Let payers spend about so many calls' worth of money at a lying vendor while they are killed.

    Kills come at random, one in `every` calls on average, so that a busy machine gets as far as an
    idle one; now and then a payer is only stopped until everybody takes it for dead.
    """
    home.mkdir()
    # A call whose outcome is unknown needs another reservation.
    path, cap = home / "stoker.db", int(calls * 0.8) * price
    asyncio.run(_migrated(path))
    with MeteredVendor(
        price=price, knows_keys=knows_keys, moods=LYING, seed=chance.randrange(2**32)
    ) as vendor:
        order = {
            "task": "pay",
            "path": str(path),
            "port": vendor.port,
            "cap": cap,
            "price": price,
            "lanes": lanes,
            "jobs": calls * 2,
            "patience": 0.3,
            "lease": LEASE,
            "way": way,
        }
        verdict = Verdict(cap=cap)
        with Payers(order, at_once=at_once) as payers:
            asyncio.run(_kill_and_look(payers, vendor, path, verdict, chance, every, calls))
        time.sleep(LEASE)
        asyncio.run(_settle_up(path, {**order, "owner": "the last one"}, vendor, verdict))
    return verdict


async def _kill_and_look(
    payers: Payers,
    vendor: MeteredVendor,
    path: Path,
    verdict: Verdict,
    chance: random.Random,
    every: int,
    calls: int,
) -> None:
    backend = SqliteBackend(path)
    began = time.monotonic()
    kill_at = chance.randint(1, 2 * every)  # calls
    stopped: dict[int, float] = {}  # slot, and when it shall go on
    while (alive := payers.alive()) and not verdict.broken:
        now = time.monotonic()
        assert now < began + PATIENCE + calls / 10, "the payers hang"
        await _look(backend, vendor, verdict)
        for slot in [slot for slot, until in stopped.items() if now >= until]:
            payers.signal(slot, signal.SIGCONT)
            del stopped[slot]
        if vendor.till.calls >= kill_at:
            await asyncio.sleep(chance.uniform(0, 0.02))  # anywhere between two calls
            slot = chance.choice(alive)
            if chance.random() < 0.1:
                payers.signal(slot, signal.SIGSTOP)
                stopped[slot] = now + 1.5 * LEASE
                verdict.pauses += 1
            else:
                payers.kill_and_replace(slot)
                stopped.pop(slot, None)
                verdict.kills += 1
            kill_at = vendor.till.calls + chance.randint(1, 2 * every)
        await asyncio.sleep(0.005)
    await backend.close()


async def _look(backend: SqliteBackend, vendor: MeteredVendor, verdict: Verdict) -> None:
    # In this order: the vendor's counter only rises, so what our books say later must cover it.
    charged = vendor.till.charged
    usage = await backend.tenant(TENANT).budgets.list_usage()
    verdict.looks += 1
    verdict.charged = charged
    verdict.in_ledger = sum(each.used.total for each in usage)
    if charged > verdict.cap:
        verdict.broken.append(f"I1: the vendor charged {charged}, the cap is {verdict.cap}")
    if charged > verdict.in_ledger:
        verdict.broken.append(
            f"I2: the vendor charged {charged}, the ledger says {verdict.in_ledger}"
        )


async def _settle_up(
    path: Path, order: dict[str, Any], vendor: MeteredVendor, verdict: Verdict
) -> None:
    """Everybody is dead, and their leases have ended: what do the books say now?"""
    backend = SqliteBackend(path)
    store = backend.tenant(TENANT)
    await budget_of(store.budgets, order).heartbeat()
    await _look(backend, vendor, verdict)
    verdict.calls = vendor.till.calls
    stuck = await store.budgets.list_reservations(
        phases=[ReservationStatus.RESERVED, ReservationStatus.SENT]
    )
    if stuck:
        verdict.broken.append(f"{len(stuck)} promises of dead payers were never seen to")
    after = ""
    while page := await store.budgets.list_reservations(
        phases=[ReservationStatus.UNCERTAIN], after=after
    ):
        after = page[-1].key
        verdict.uncertain += sum(sum(hold.amounts.values()) for hold in page)
    twice = [key for key, times in vendor.till.by_key.items() if times > 1]
    if twice:
        verdict.broken.append(f"I3: charged more than once: {', '.join(sorted(twice)[:5])}")
    verdict.broken += [f"I5: {problem}" for problem in (await verify_ledger(store)).problems]
    await backend.close()


async def _migrated(path: Path) -> None:
    backend = SqliteBackend(path)
    await backend.migrate()
    await backend.close()


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
