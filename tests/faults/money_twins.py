"""The naive twins of the gate: they check, then act, and so spend more than there is.

The same crowd on the same kind of database, with one table of one number. Each reads how much is
used, decides, and then adds its cost: under load many decide on the same number.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg

TABLE = "CREATE TABLE twin (run integer PRIMARY KEY, used integer NOT NULL)"
LOOK = "SELECT used FROM twin WHERE run = {}"
ADD = "UPDATE twin SET used = used + {} WHERE run = {}"

Order = dict[str, Any]
Ask = Callable[..., list[Any]]


async def rush_naively(order: Order, slots: Any, worker: int, barrier: Any, life: int) -> None:
    """In every round, check whether there is room, then take it, until there is none."""
    if url := order.get("url"):
        with psycopg.connect(url, autocommit=True) as postgres:
            await _rounds(order, slots, worker, barrier, _asking(postgres, place="%s"))
    else:
        with closing(sqlite3.connect(order["path"], isolation_level=None, timeout=30)) as sqlite:
            await _rounds(order, slots, worker, barrier, _asking(sqlite, place="?"))


def prepared(order: Order) -> None:
    """Make the twin's table, with nothing used yet."""
    rows = ", ".join(f"({nth}, 0)" for nth in range(order["rounds"]))
    statements = [TABLE, f"INSERT INTO twin VALUES {rows}"]
    if url := order.get("url"):
        with psycopg.connect(url, autocommit=True) as postgres:
            for statement in statements:
                postgres.execute(statement)
    else:
        with closing(sqlite3.connect(order["path"], isolation_level=None)) as sqlite:
            for statement in ["PRAGMA journal_mode = WAL", *statements]:
                sqlite.execute(statement)


def spent(order: Order) -> list[int]:
    """Return what was spent in each round."""
    query = "SELECT used FROM twin ORDER BY run"
    if url := order.get("url"):
        with psycopg.connect(url) as postgres:
            return [used for (used,) in postgres.execute(query)]
    with closing(sqlite3.connect(order["path"])) as sqlite:
        return [used for (used,) in sqlite.execute(query)]


async def _rounds(order: Order, slots: Any, worker: int, barrier: Any, ask: Ask) -> None:
    async def one(nth: int) -> None:
        while True:
            [[used]] = ask(LOOK, nth)
            slots.counts.add(worker)
            await asyncio.sleep(0)  # deciding takes a moment, and others have theirs
            if used + order["cost"] > order["per_run"]:
                return
            ask(ADD, order["cost"], nth)

    for nth in range(order["rounds"]):
        await asyncio.to_thread(barrier.wait, 120)
        await asyncio.gather(*(one(nth) for _ in range(order["tasks"])))


def _asking(database: Any, *, place: str) -> Ask:
    def ask(query: str, *values: int) -> list[Any]:
        answer = database.execute(query.format(*[place] * len(values)), values)
        return list(answer.fetchall()) if query is LOOK else []

    return ask


TWINS = {"rush naively": rush_naively}
