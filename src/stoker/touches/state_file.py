"""One tenant's touches in JSON files, for programs without a store.

`schedule_state.json` has the shape that scripts know (`schedule_state`). All we need besides is in
a file beside it, `schedule_state.stoker.json`, from which everything is read; it is written first,
so a crash leaves the old or the new state. What another program changes in `schedule_state.json`
is taken in when it is next read. A damaged file is moved aside under another name, never
overwritten, and that is reported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from stoker.base.errors import ConfigError, StokerError, TransientError
from stoker.base.jsontools import compute_digest
from stoker.base.types import Json, TenantId, parse_tenant_id
from stoker.db.database import Result, Transaction
from stoker.db.migrations import Schema
from stoker.db.sqlite import SqliteMemoryDatabase
from stoker.db.table import Table
from stoker.files.durable import Disk, FileLock, translate_os_error
from stoker.touches.export import plan_to_json
from stoker.touches.model import Count, Delivery, OutcomeMark, Profile, Touch
from stoker.touches.schedule_state import (
    build_schedule_state,
    is_schedule_state,
    merge_schedule_state,
)
from stoker.touches.schema import (
    COUNTERS,
    DELIVERIES,
    LAST_STEP,
    OUTCOMES,
    PLANS,
    PROFILES,
    TABLES,
    TOUCHES,
    PlanRow,
    build_plan,
)
from stoker.touches.store import PROFILES_COUNTER, build_head

FORMAT = 3  # of the file beside; 2 was one file alone, under the name that scripts know

_ONE_FILE_FORMAT = 2

LOCK_TIMEOUT = timedelta(seconds=30)

MAX_SET_ASIDE = 1000

_SCHEMA = Schema([""] * LAST_STEP, lambda: [*TABLES])

# Where a list of the file is called otherwise than the column.
_OUTCOME_KEYS = {"at": "marked_at"}

_ROW_CLASSES: Mapping[str, Any] = {
    PROFILES.name: Profile,
    TOUCHES.name: Touch,
    OUTCOMES.name: OutcomeMark,
    DELIVERIES.name: Delivery,
}

_UNREADABLE = (ValueError, RecursionError, KeyError, TypeError, AttributeError, StokerError)


def get_records_path(path: Path) -> Path:
    """Return the file beside a state file that has what scripts do not know."""
    return path.with_name(f"{path.stem}.stoker{path.suffix}")


class StateFile:
    """A `Database` in `schedule_state.json` and the file beside it, for a `TouchStore`.

    Scripts' times and dates are those of `zone`. `report` gets a message when a file is moved
    aside, or cannot be kept up to date.
    """

    def __init__(
        self,
        path: Path,
        *,
        tenant: TenantId,
        now: Callable[[], datetime],
        report: Callable[[str], None],
        zone: str = "UTC",
        patience: timedelta = LOCK_TIMEOUT,
        disk: Disk | None = None,
    ) -> None:
        self._path, self._records_path = path, get_records_path(path)
        self._tenant = parse_tenant_id(tenant)
        self._now = now
        self._report = report
        self._zone = zone
        self._disk = disk or Disk()
        self._lock = FileLock(path.with_name(f".{path.name}.lock"), patience=patience)

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        return await asyncio.to_thread(partial(self._run, work, write=False))

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        return await asyncio.to_thread(partial(self._run, work, write=True))

    def _run(self, work: Callable[[Transaction], Result], *, write: bool) -> Result:
        if not write and not self._path.exists() and not self._records_path.exists():
            return SqliteMemoryDatabase(_SCHEMA).run(self._bind(work))  # reading makes no file
        self._disk.make_folder(self._path.parent)
        with self._lock.acquire():
            database = self._load()
            result = database.run(self._bind(work))
            if write:
                self._save(database.run(self._bind(_dump)))
        return result

    def _bind(self, work: Callable[[Transaction], Result]) -> Callable[[Transaction], Result]:
        def bound(tx: Transaction) -> Result:
            tx.tenant = self._tenant
            return work(tx)

        return bound

    def _load(self) -> SqliteMemoryDatabase:
        """Return the tables as the files have them."""
        records = self._load_records(self._records_path)
        raw = self._read_bytes(self._path)
        if raw is None or (records is not None and _digest(raw) in records["known"]):
            return self._fill(records, self._records_path)
        try:
            data = _parse_file(raw)
            is_known = is_schedule_state(data)
        except _UNREADABLE:
            self._move_aside(self._path, "damaged")
            return self._fill(records, self._records_path)
        if records is None and not is_known:
            return self._fill(self._load_records(self._path), self._path)
        if not is_known:
            self._move_aside(self._path, "older")
            return self._fill(records, self._records_path)
        try:
            merged = merge_schedule_state(
                data,
                records or _NOTHING,
                now=self._now(),
                zone=self._zone,
                tenant=self._tenant,
            )
            return self._build(merged)
        except _UNREADABLE:
            self._move_aside(self._path, "damaged")
            return self._fill(records, self._records_path)

    def _load_records(self, path: Path) -> dict[str, Any] | None:
        """Return the records in a file of ours; None if there is none, or none that is whole."""
        raw = self._read_bytes(path)
        if raw is None:
            return None
        try:
            records = _parse_file(raw)
            number = records["format"]
        except _UNREADABLE:
            self._move_aside(path, "damaged")
            return None
        if number > FORMAT:
            raise ConfigError(
                f"{path} was written by a newer Stoker; upgrade Stoker, nothing was changed"
            )
        if number < _ONE_FILE_FORMAT:
            self._move_aside(path, "older")
            return None
        if records.get("tenant") != self._tenant:
            raise ConfigError(
                f"{path} belongs to another tenant than {self._tenant}; give each tenant a "
                "touches.state_file of its own"
            )
        # What is missing was not written yet by the first of this format.
        return {"known": [], "profile_puts": 0, **records}

    def _fill(self, records: dict[str, Any] | None, path: Path) -> SqliteMemoryDatabase:
        if records is None:
            return SqliteMemoryDatabase(_SCHEMA)
        try:
            return self._build(records)
        except _UNREADABLE:
            self._move_aside(path, "damaged")
            return SqliteMemoryDatabase(_SCHEMA)

    def _build(self, records: Mapping[str, Any]) -> SqliteMemoryDatabase:
        database = SqliteMemoryDatabase(_SCHEMA)
        database.run(self._bind(partial(_load, records)))
        return database

    def _read_bytes(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise translate_os_error(error, path) from error

    def _move_aside(self, path: Path, why: str) -> None:
        for number in range(1, MAX_SET_ASIDE):
            aside = path.with_name(f"{path.name}.{why}-{number}")
            if not aside.exists():
                self._disk.move(path, aside)
                lost = path == self._records_path or not self._records_path.exists()
                self._report(
                    f"{path} is {why} and was moved to {aside.name}; "
                    + (
                        "what only it had is missing: import the profiles again"
                        if lost
                        else f"counters and plans are as {self._records_path.name} has them"
                    )
                )
                return
        raise ConfigError(f"{path} is {why}, like {MAX_SET_ASIDE} before it; look at them")

    def _save(self, state: Mapping[str, Json]) -> None:
        shown = build_schedule_state(state, now=self._now(), zone=self._zone)
        view = json.dumps(shown, indent=2, ensure_ascii=True, allow_nan=False).encode() + b"\n"
        before = self._read_bytes(self._path)
        # Until the second file is written, the first still knows the one that is there.
        known = [_digest(each) for each in (view, before) if each is not None]
        data: dict[str, Json] = {
            "format": FORMAT,
            "tenant": self._tenant,
            "saved_at": self._now().isoformat(),
            "known": [*known],
            **state,
        }
        data["digest"] = compute_digest(data)
        text = json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False)
        self._disk.replace(self._records_path, text.encode() + b"\n")
        try:
            self._disk.replace(self._path, view)
        except (ConfigError, TransientError) as error:
            # Everything is safe in the other file; the next write puts this one right.
            self._report(f"{self._path} is not up to date: {error}")


_NOTHING: Mapping[str, Any] = {
    "known": [],
    "profile_puts": 0,
    "counters": {},
    "plans": {},
    "profiles": [],
    "outcomes": [],
    "handovers": [],
}


def _digest(raw: bytes) -> str:
    return sha256(raw).hexdigest()


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
    plan: dict[str, Any] = plan_to_json(build_plan(row.plan, ()))
    rows = tx.query(
        f"SELECT {TOUCHES.names} FROM touches WHERE tenant_id = :tenant AND week = :week "
        "ORDER BY at, url",
        week=row.week,
    )
    names = TOUCHES.names.split(", ")
    touches = [dict(zip(names, each, strict=True)) for each in rows]
    for slot in plan["days"]:
        del slot["completed"]
        slot["touches"] = [touch for touch in touches if touch["day"] == slot["day"]]
    return {
        "revision": row.revision,
        "plan": {**plan, "note_days": row.plan["note_days"]},
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
    for table, rows, renamed in (
        (PROFILES, data["profiles"], {}),
        (OUTCOMES, data["outcomes"], _OUTCOME_KEYS),
        (DELIVERIES, data["handovers"], {}),
    ):
        table.insert_new(tx, [_read_row(table, row, renamed) for row in rows])
    counts = [*data["counters"].items(), (PROFILES_COUNTER, data["profile_puts"])]
    COUNTERS.save(tx, [Count(name, int(used)) for name, used in counts])
    for week, each in data["plans"].items():
        touches = [
            _read_row(TOUCHES, touch, {})
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


def _read_row(table: Table[Any], row: Mapping[str, Any], renamed: Mapping[str, str]) -> Any:
    defaults = _get_defaults(table)
    values = []
    for name in table.names.split(", "):
        key = renamed.get(name, name)
        # A file of an earlier version lacks the columns that came later.
        values.append(row[key] if key in row or name not in defaults else defaults[name])
    return table.read(values)


@cache
def _get_defaults(table: Table[Any]) -> dict[str, Any]:
    """Return the values that columns have by default, as a file has them."""
    by_field = {
        each.name: each.default
        for each in fields(_ROW_CLASSES[table.name])
        if each.default is not MISSING
    }
    return {
        name: value
        for column in table.columns
        if column.path in by_field
        for name, value in table.encode(**{column.name: by_field[column.path]}).items()
    }


def _parse_file(raw: bytes) -> dict[str, Any]:
    """Return what a file says, as long as it is whole. Raises ValueError and its kin."""
    data = json.loads(raw)
    if not isinstance(data, dict):
        raise TypeError("no state")
    if is_schedule_state(data):
        return data
    number = data.get("format", 1)
    if not isinstance(number, int):
        raise TypeError("no state")
    is_ours = number in (_ONE_FILE_FORMAT, FORMAT)
    if is_ours and data.pop("digest") != compute_digest(data):
        raise ValueError("changed since it was written")
    return {**data, "format": number}
