"""The naive twins of the gate: one checks and then acts, one writes its entry after its total.

The same crowd on the same kind of database, with a table of totals and one of entries. Under load
many decide on the same number, and so spend more than there is; under kill -9 some die between
total and entry, and so the entries no longer add up.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from faults.money_counts import Count, Counts

TABLES = (
    "CREATE TABLE twin (run integer PRIMARY KEY, used integer NOT NULL)",
    "CREATE TABLE entries (run integer NOT NULL, amount integer NOT NULL)",
)
LOOK = "SELECT used FROM twin WHERE run = {}"
ADD = "UPDATE twin SET used = used + {} WHERE run = {}"
NOTE = "INSERT INTO entries (run, amount) VALUES ({}, {})"
SPENT = "SELECT used FROM twin ORDER BY run"
NOTED = """
SELECT coalesce(sum(entries.amount), 0) FROM twin LEFT JOIN entries ON entries.run = twin.run
GROUP BY twin.run ORDER BY twin.run
"""

Order = dict[str, Any]
Ask = Callable[..., list[Any]]


async def rush_naively(order: Order, counts: Counts, worker: int, barrier: Any, life: int) -> None:
    """In every round, check whether there is room, then take it, until there is none."""
    with _asking(order) as ask:

        async def one(nth: int) -> None:
            while True:
                [[used]] = ask(LOOK, nth)
                counts.add(worker, Count.DONE)
                await asyncio.sleep(0)  # deciding takes a moment, and others have theirs
                if used + order["cost"] > order["per_run"]:
                    return
                ask(ADD, order["cost"], nth)

        for nth in range(order["rounds"]):
            await asyncio.to_thread(barrier.wait, 120)
            await asyncio.gather(*(one(nth) for _ in range(order["tasks"])))


async def spend_naively(order: Order, counts: Counts, worker: int, barrier: Any, life: int) -> None:
    """Add to the total and then write the entry, each durable, until all have done enough."""
    with _asking(order) as ask:

        async def one() -> None:
            while counts.all(Count.DONE) < order["operations"]:
                ask(ADD, order["cost"], 0)
                await asyncio.sleep(0)
                ask(NOTE, 0, order["cost"])
                counts.add(worker, Count.DONE)

        await asyncio.gather(*(one() for _ in range(order["tasks"])))


def prepared(order: Order) -> None:
    """Make the twins' tables anew, with nothing used yet."""
    rows = ", ".join(f"({nth}, 0)" for nth in range(order["rounds"]))
    with _asking(order) as ask:
        if "path" in order:
            ask("PRAGMA journal_mode = WAL")
        anew = [f"DROP TABLE IF EXISTS {table}" for table in ("twin", "entries")]
        for statement in (*anew, *TABLES, f"INSERT INTO twin VALUES {rows}"):
            ask(statement)


def spent(order: Order) -> list[int]:
    """Return what was spent in each round."""
    with _asking(order) as ask:
        return [used for (used,) in ask(SPENT)]


def noted(order: Order) -> list[int]:
    """Return what the entries of each round add up to."""
    with _asking(order) as ask:
        return [int(amount) for (amount,) in ask(NOTED)]


@contextmanager
def _asking(order: Order) -> Iterator[Ask]:
    if url := order.get("url"):
        with psycopg.connect(url, autocommit=True) as postgres:
            yield _ask(postgres, place="%s")
    else:
        with closing(sqlite3.connect(order["path"], isolation_level=None, timeout=30)) as sqlite:
            yield _ask(sqlite, place="?")


def _ask(database: Any, *, place: str) -> Ask:
    def ask(query: str, *values: int) -> list[Any]:
        answer = database.execute(query.format(*[place] * len(values)), values)
        return list(answer.fetchall()) if answer.description else []

    return ask


TWINS = {"rush naively": rush_naively, "spend naively": spend_naively}
