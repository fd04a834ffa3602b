"""B7: fifty processes and one SQLite file. Everyone is served, and every instant goes to one.

The naive twins read before they say that they will write, or do not wait; most of them fail.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faults.lab import Workers
from faults.tally import Tally
from stoker.backends.sqlite import SqliteBackend
from stoker.base.types import TenantId
from stoker.ledger.chain import NewEntry, find_first_break
from stoker.scheduling.model import OccurrenceResult, OccurrenceState

ACME = TenantId("acme")
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
WRITES_EACH = 4


async def hammer(order: dict[str, Any], say: Callable[..., None]) -> None:
    """Try to be the one who decides each instant, and add a note of one's own each time."""
    backend = SqliteBackend(Path(order["path"]) / "stoker.db")
    store = backend.tenant(ACME)
    for nth in range(WRITES_EACH):
        slot = OccurrenceResult(
            schedule=f"round {order['round']}",
            due_at=NOON + timedelta(hours=nth),
            state=OccurrenceState.STARTED,
            decided_at=NOON,
        )
        if await store.schedule.record_result(slot, fence=None):
            say("granted", nth)
        note = NewEntry(at=NOON, kind="NOTE", subject=f"{order['owner']}/{nth}", reason="")
        [entry] = await store.ledger.append([note])
        say("noted", entry.seq)
    await backend.close()


async def hammer_naively(order: dict[str, Any], say: Callable[..., None]) -> None:
    """The twins: a transaction that begins by reading, or a writer without patience."""
    path = Path(order["path"]) / "twin.db"
    db = sqlite3.connect(path, isolation_level=None, timeout=order["patience"])
    with closing(db):
        for nth in range(WRITES_EACH):
            db.execute(order["begin"])
            [[seq]] = db.execute("SELECT coalesce(max(seq), 0) + 1 FROM line").fetchall()
            await asyncio.sleep(0.001)  # deciding what to write takes a moment
            db.execute("INSERT INTO line VALUES (?, ?)", (seq, order["owner"]))
            db.execute("COMMIT")
            say("noted", nth)


def crowded(workers: Workers, *, rounds: int, crowd: int = 50) -> Tally:
    """Let a crowd of processes loose on one store, round after round; judge the store."""
    room, tally = workers.room(), Tally()
    asyncio.run(_prepare(room))
    for nth in range(rounds):
        order = {"path": room, "round": nth}
        acks = _let_loose(workers, tally, "hammer", crowd, **order)
        granted = sorted(ack[1] for ack in acks if ack[0] == "granted")
        if granted != list(range(WRITES_EACH)):
            tally.broken.append(f"round {nth}: instants were granted to {granted}")
    notes = tally.acked
    entries = asyncio.run(_entries(room))
    if len(entries) != notes + rounds * WRITES_EACH:
        tally.broken.append(f"{notes} notes were acknowledged, the ledger has {len(entries)} lines")
    if (seq := find_first_break(entries)) is not None:
        tally.broken.append(f"the ledger's chain does not hold at {seq}")
    return tally


def crowded_naively(
    workers: Workers, *, begin: str, patience: float, rounds: int = 1, crowd: int = 50
) -> Tally:
    """The same crowd on a naive twin."""
    room, tally = workers.room(), Tally()
    with closing(sqlite3.connect(room / "twin.db")) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE line (seq INTEGER PRIMARY KEY, owner TEXT)")
    for _ in range(rounds):
        order = {"path": room, "begin": begin, "patience": patience}
        _let_loose(workers, tally, "hammer naively", crowd, **order)
    return tally


def _let_loose(workers: Workers, tally: Tally, task: str, crowd: int, **order: Any) -> list[Any]:
    processes = [workers.start(task, owner=f"p{nth}", **order) for nth in range(crowd)]
    for process in processes:
        process.release()
    acks = []
    for nth, process in enumerate(processes):
        code = process.wait().code
        said = process.acks()
        acks += said
        tally.n += 1
        tally.acked += sum(ack[0] == "noted" for ack in said)
        if code != 0:
            tally.broken.append(f"process {nth} was not served: {said[-1:]}")
    return acks


async def _prepare(room: Path) -> None:
    backend = SqliteBackend(room / "stoker.db")
    await backend.migrate()
    await backend.close()


async def _entries(room: Path) -> list[Any]:
    backend = SqliteBackend(room / "stoker.db")
    try:
        return await backend.tenant(ACME).ledger.list_entries(limit=1_000_000)
    finally:
        await backend.close()
