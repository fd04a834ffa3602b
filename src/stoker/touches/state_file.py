"""One tenant's touches in one JSON file, for programs without a store.

For each verb the file is read into the tables of touches in memory, and written back whole, so a
crash leaves the old or the new one. A damaged or older file is moved aside under another name,
never overwritten, and that is reported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from stoker.base.errors import ConfigError, StokerError
from stoker.base.jsontools import compute_digest
from stoker.base.types import Json, TenantId, parse_tenant_id
from stoker.db.database import Result, Transaction
from stoker.db.migrations import Schema
from stoker.db.sqlite import SqliteMemoryDatabase
from stoker.db.table import Table
from stoker.files.durable import Disk, FileLock, translate_os_error
from stoker.touches.export import plan_to_json
from stoker.touches.model import Count
from stoker.touches.schema import (
    COUNTERS,
    DELIVERIES,
    OUTCOMES,
    PLANS,
    PROFILES,
    TABLES,
    TOUCHES,
    PlanRow,
    build_plan,
)
from stoker.touches.store import PROFILES_COUNTER, build_head

FORMAT = 2  # the first, of an earlier product, had no profiles in it

LOCK_TIMEOUT = timedelta(seconds=30)

MAX_SET_ASIDE = 1000

_SCHEMA = Schema([""] * max(table.since for table in TABLES), lambda: [*TABLES])

# Where a list of the file is called otherwise than the column.
_OUTCOME_KEYS = {"at": "marked_at"}


class StateFile:
    """A `Database` that is one JSON file, `schedule_state.json`, for a `TouchStore`.

    `report` gets a message when a file is moved aside.
    """

    def __init__(
        self,
        path: Path,
        *,
        tenant: TenantId,
        now: Callable[[], datetime],
        report: Callable[[str], None],
        patience: timedelta = LOCK_TIMEOUT,
        disk: Disk | None = None,
    ) -> None:
        self._path = path
        self._tenant = parse_tenant_id(tenant)
        self._now = now
        self._report = report
        self._disk = disk or Disk()
        self._lock = FileLock(path.with_name(f".{path.name}.lock"), patience=patience)

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        return await asyncio.to_thread(partial(self._run, work, write=False))

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        return await asyncio.to_thread(partial(self._run, work, write=True))

    def _run(self, work: Callable[[Transaction], Result], *, write: bool) -> Result:
        if not write and not self._path.exists():
            return SqliteMemoryDatabase(_SCHEMA).run(self._bind(work))  # reading makes no file
        self._disk.make_folder(self._path.parent)
        with self._lock.acquire():
            database = self._load()
            result = database.run(self._bind(work))
            if write:
                state = database.run(self._bind(_dump))
                self._disk.replace(self._path, self._serialize(state))
        return result

    def _bind(self, work: Callable[[Transaction], Result]) -> Callable[[Transaction], Result]:
        def bound(tx: Transaction) -> Result:
            tx.tenant = self._tenant
            return work(tx)

        return bound

    def _load(self) -> SqliteMemoryDatabase:
        database = SqliteMemoryDatabase(_SCHEMA)
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return database
        except OSError as error:
            raise translate_os_error(error, self._path) from error
        try:
            data = _parse_file(raw)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            return self._move_aside("damaged")
        if data["format"] > FORMAT:
            raise ConfigError(
                f"{self._path} was written by a newer Stoker; upgrade Stoker, nothing was changed"
            )
        if data["format"] < FORMAT:
            return self._move_aside("older")
        if data.get("tenant") != self._tenant:
            raise ConfigError(
                f"{self._path} belongs to another tenant than {self._tenant}; give each tenant a "
                "touches.state_file of its own"
            )
        try:
            database.run(self._bind(partial(_load, data)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StokerError):
            return self._move_aside("damaged")
        return database

    def _move_aside(self, why: str) -> SqliteMemoryDatabase:
        for number in range(1, MAX_SET_ASIDE):
            aside = self._path.with_name(f"{self._path.name}.{why}-{number}")
            if not aside.exists():
                self._disk.move(self._path, aside)
                self._report(
                    f"{self._path} is {why} and was moved to {aside.name}; touches start empty: "
                    "import the profiles again, counters stand at 0"
                )
                return SqliteMemoryDatabase(_SCHEMA)
        raise ConfigError(f"{self._path} is {why}, like {MAX_SET_ASIDE} before it; look at them")

    def _serialize(self, state: Mapping[str, Json]) -> bytes:
        data: dict[str, Json] = {
            "format": FORMAT,
            "tenant": self._tenant,
            "saved_at": self._now().isoformat(),
            **state,
        }
        data["digest"] = compute_digest(data)
        return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def _dump(tx: Transaction) -> dict[str, Json]:
    """Return everything in the tables as the file has it."""
    counters = {each.name: each.used for each in COUNTERS.find(tx, "TRUE ORDER BY name")}
    return {
        "profile_puts": counters.pop(PROFILES_COUNTER, 0),
        "counters": {**counters},
        "plans": {row.week: _plan_to_json(tx, row) for row in PLANS.find(tx, "TRUE ORDER BY week")},
        "profiles": _rows_to_json(tx, PROFILES, "url"),
        "outcomes": _rows_to_json(tx, OUTCOMES, "day, url", _OUTCOME_KEYS),
        "handovers": _rows_to_json(tx, DELIVERIES, "day, url"),
    }


def _plan_to_json(tx: Transaction, row: PlanRow) -> Json:
    plan = build_plan(row.plan, TOUCHES.find(tx, "week = :week", week=row.week))
    return {
        "revision": row.revision,
        "plan": {**plan_to_json(plan), "note_days": row.plan["note_days"]},
        "settled": row.plan["settled"],
    }


def _rows_to_json(
    tx: Transaction, table: Table[Any], order: str, renamed: Mapping[str, str] | None = None
) -> list[Json]:
    keys = [(renamed or {}).get(name, name) for name in table.names.split(", ")]
    rows = tx.query(
        f"SELECT {table.names} FROM {table.name} WHERE tenant_id = :tenant ORDER BY {order}"
    )
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _load(data: Mapping[str, Any], tx: Transaction) -> None:
    """Write what a file has into the tables. Raises ValueError and its kin when it is none."""
    _load_rows(tx, PROFILES, data["profiles"])
    _load_rows(tx, OUTCOMES, data["outcomes"], _OUTCOME_KEYS)
    _load_rows(tx, DELIVERIES, data["handovers"])
    # What is missing was not written yet by the first of this format.
    counts = [*data["counters"].items(), (PROFILES_COUNTER, data.get("profile_puts", 0))]
    COUNTERS.save(tx, [Count(name, int(used)) for name, used in counts])
    for week, each in data["plans"].items():
        names = TOUCHES.names.split(", ")
        touches = [
            TOUCHES.read([touch[name] for name in names])
            for slot in each["plan"]["days"]
            for touch in slot["touches"]
        ]
        plan = build_plan(each["plan"], touches)
        revision = int(each["revision"])
        if plan.week != week or revision < 1:
            raise ValueError("a plan under another week's name")
        head = {**build_head(plan, revision=revision, basis=None), "settled": each.get("settled")}
        PLANS.insert_new(tx, [PlanRow(week=week, revision=revision, plan=head)])
        TOUCHES.insert_new(tx, touches, week)


def _load_rows(
    tx: Transaction,
    table: Table[Any],
    rows: list[Mapping[str, Any]],
    renamed: Mapping[str, str] | None = None,
) -> None:
    keys = [(renamed or {}).get(name, name) for name in table.names.split(", ")]
    table.insert_new(tx, [table.read([row[key] for key in keys]) for row in rows])


def _parse_file(raw: bytes) -> dict[str, Any]:
    """Return what a file says, as long as it is whole. Raises ValueError and its kin."""
    data = json.loads(raw)
    number = data.get("format", 1)
    if not isinstance(data, dict) or not isinstance(number, int):
        raise TypeError("no state")
    if number == FORMAT and data.pop("digest") != compute_digest(data):
        raise ValueError("changed since it was written")
    return {**data, "format": number}
