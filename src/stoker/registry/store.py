"""The public register of companies, in SQL: what is read from it, and how loads change it.

Whoever writes has the register to itself, so that changes are dated in the order in which they
can be seen. How a load's rows are put in is said in `sql_loading.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from stoker.base.errors import ConflictError
from stoker.base.types import to_utc
from stoker.db.codec import validate_text
from stoker.db.database import Database, Transaction, Value, to_db_time
from stoker.db.values import validate_key
from stoker.registry.load_store import (
    COMPANY,
    LOAD,
    REJECT,
    from_entity_row,
    from_load_row,
    from_reject_row,
    read_change_time,
    to_load_values,
    upsert_entities,
    upsert_rejects,
)
from stoker.registry.model import Entity, IndustryCode, Load, LoadCount, Reject, is_whole_register
from stoker.registry.row_checks import (
    validate_codes,
    validate_grouping,
    validate_load,
    validate_load_count,
    validate_rejects,
)

# Holding this row still is having the register to oneself; it is nobody's place.
LOCK_REGISTRY = """
INSERT INTO places (name, owner, until_at) VALUES ('0-registry', '', :now)
ON CONFLICT (name, owner) DO UPDATE SET until_at = places.until_at
"""

INSERT_LOAD = f"""
INSERT INTO registry_loads ({LOAD}, last_reject)
VALUES (:id, :release, :part, :source, :began_at, :ended_at, :new_rows, :changed_rows, :same_rows,
        :rejected_rows, :gone_rows, 0)
ON CONFLICT (id) DO UPDATE SET
    release = excluded.release, part = excluded.part, source = excluded.source,
    began_at = excluded.began_at, ended_at = excluded.ended_at, new_rows = excluded.new_rows,
    changed_rows = excluded.changed_rows, same_rows = excluded.same_rows,
    rejected_rows = excluded.rejected_rows, gone_rows = excluded.gone_rows
"""

DELETE_REJECTS = "DELETE FROM registry_rejects WHERE load_id = :id"

SELECT_LOAD = f"SELECT {LOAD} FROM registry_loads WHERE id = :id"

UPDATE_LOAD_END = """
UPDATE registry_loads SET ended_at = :ended_at, new_rows = :new_rows, changed_rows = :changed_rows,
    same_rows = :same_rows, rejected_rows = :rejected_rows, gone_rows = :gone_rows
WHERE id = :id
"""

SELECT_ENDED_PARTS = """
SELECT DISTINCT part FROM registry_loads WHERE release = :release AND ended_at IS NOT NULL
"""

MARK_GONE = """
UPDATE registry_seen SET gone_at = :at, changed_at = :at
WHERE gone_at IS NULL AND release < :release
"""

SELECT_LOADS = f"SELECT {LOAD} FROM registry_loads ORDER BY began_at DESC, id LIMIT :limit"

SELECT_REJECTS = (
    f"SELECT {REJECT} FROM registry_rejects WHERE number > :after ORDER BY number LIMIT :limit"
)

SELECT_ENTITIES = f"""
SELECT c.{COMPANY.replace(", ", ", c.")}, r.raw, s.changed_at, s.gone_at
FROM registry_seen s JOIN staging_acra_companies c ON c.uen = s.uen
JOIN staging_raw_acra r ON r.uen = s.uen
"""

SELECT_ENTITY = f"{SELECT_ENTITIES} WHERE s.uen = :uen"

IN_ORDER = " ORDER BY s.changed_at, s.uen LIMIT :limit"

SINCE = " WHERE s.changed_at > :since"

AFTER = " WHERE (s.changed_at, s.uen) > (:since, :after)"

GROUPINGS = {
    "status": "c.status",
    "kind": "c.kind",
    "division": "substr(c.ssic, 1, 2)",
    "state": "CASE WHEN s.gone_at IS NOT NULL THEN 'gone' WHEN c.live THEN 'live' "
    "ELSE 'closed' END",
}

DELETE_CODES = "DELETE FROM ssic_ref WHERE version = :version"

INSERT_CODE = "INSERT INTO ssic_ref (version, code, title, level) VALUES (?, ?, ?, ?)"

SELECT_CODES = "SELECT code, title, level FROM ssic_ref WHERE version = :version ORDER BY code"


class SqlRegistry:
    """A `RegistryStore` in the tables `registry_*`, `staging_*` and `ssic_ref`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin_load(self, load: Load) -> None:
        values = to_load_values(validate_load(load))

        def begin(tx: Transaction) -> None:
            tx.execute(LOCK_REGISTRY, now=values["began_at"])
            tx.execute(INSERT_LOAD, **values)
            tx.execute(DELETE_REJECTS, id=values["id"])

        await self._database.write(begin)

    async def load_entities(
        self, load: Load, rows: Sequence[Entity], *, now: datetime
    ) -> LoadCount:
        now = to_utc(now)

        def put(tx: Transaction) -> LoadCount:
            return upsert_entities(
                tx, rows, release=_get_open_load(tx, load, now=now).release, now=now
            )

        return await self._database.write(put)

    async def reject_rows(self, load: Load, rejects: Sequence[Reject]) -> None:
        by_line = validate_rejects(load, rejects)

        def put(tx: Transaction) -> None:
            _get_open_load(tx, load, now=load.began_at)
            upsert_rejects(tx, load.id, by_line)

        await self._database.write(put)

    async def end_load(self, load: Load, *, now: datetime) -> Load:
        now, count = to_utc(now), validate_load_count(load.count)

        def end(tx: Transaction) -> Load:
            begun = _get_load(tx, load, now=now)
            parts = {part for (part,) in tx.query(SELECT_ENDED_PARTS, release=begun.release)}
            gone = 0
            if is_whole_register({*parts, begun.part}):
                at = to_db_time(read_change_time(tx, now=now))
                gone = tx.execute(MARK_GONE, at=at, release=begun.release)
            ended = replace(begun, ended_at=now, count=replace(count, gone=gone))
            values = to_load_values(ended)
            for name in ("release", "part", "source", "began_at"):
                del values[name]
            tx.execute(UPDATE_LOAD_END, **values)
            return ended

        return await self._database.write(end)

    async def list_loads(self, *, limit: int = 100) -> list[Load]:
        rows = await self._database.read(lambda tx: tx.query(SELECT_LOADS, limit=limit))
        return [from_load_row(row) for row in rows]

    async def list_rejects(self, *, after: int = 0, limit: int = 1000) -> list[Reject]:
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_REJECTS, after=after, limit=limit)
        )
        return [from_reject_row(row) for row in rows]

    async def find_entity(self, uen: str) -> Entity | None:
        uen = validate_key(uen, what="an entity's number")
        rows = await self._database.read(lambda tx: tx.query(SELECT_ENTITY, uen=uen))
        return from_entity_row(rows[0]) if rows else None

    async def list_changed_entities(
        self, *, since: datetime | None = None, after: str = "", limit: int = 1000
    ) -> list[Entity]:
        query, values = SELECT_ENTITIES, dict[str, Value](limit=limit)
        validate_text(after, what="an entity's number")
        if since is not None:
            query += AFTER if after else SINCE
            values |= {"since": to_db_time(since)} | ({"after": after} if after else {})
        rows = await self._database.read(lambda tx: tx.query(query + IN_ORDER, **values))
        return [from_entity_row(row) for row in rows]

    async def count_entities(self, *, by: str = "status") -> dict[str, int]:
        query = f"""
SELECT {GROUPINGS[validate_grouping(by)]} AS word, count(*)
FROM registry_seen s JOIN staging_acra_companies c ON c.uen = s.uen
{"" if by == "state" else "WHERE s.gone_at IS NULL"} GROUP BY word
"""
        return dict(sorted(await self._database.read(lambda tx: tx.query(query))))

    async def load_codes(self, version: str, codes: Sequence[IndustryCode]) -> None:
        rows = [(version, one.code, one.title, one.level) for one in validate_codes(version, codes)]

        def put(tx: Transaction) -> None:
            tx.execute(DELETE_CODES, version=version)
            tx.execute_many(INSERT_CODE, rows)

        await self._database.write(put)

    async def list_codes(self, version: str) -> list[IndustryCode]:
        version = validate_key(version, what="a classification's version")
        rows = await self._database.read(lambda tx: tx.query(SELECT_CODES, version=version))
        return [
            IndustryCode(version=version, code=code, title=title, level=level)
            for code, title, level in rows
        ]


def _get_load(tx: Transaction, load: Load, *, now: datetime) -> Load:
    tx.execute(LOCK_REGISTRY, now=to_db_time(now))
    rows = tx.query(SELECT_LOAD, id=load.id)
    if not rows:
        raise ConflictError("this load was never begun; begin it first, nothing was written")
    return from_load_row(rows[0])


def _get_open_load(tx: Transaction, load: Load, *, now: datetime) -> Load:
    begun = _get_load(tx, load, now=now)
    if begun.ended_at is not None:
        raise ConflictError("this load has ended; begin it again first, nothing was written")
    return begun
