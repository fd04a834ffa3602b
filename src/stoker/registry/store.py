"""The public register of companies, in SQL: what is read from it, and how loads change it.

Whoever writes has the register to itself, so that changes are dated in the order in which they
can be seen. How a load's rows are put in is said in `sql_loading.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from stoker.base.errors import ConflictError
from stoker.base.types import in_utc
from stoker.db.codec import kept_text
from stoker.db.database import SqlDatabase, Transaction, Value, moment_text
from stoker.db.values import kept_name
from stoker.registry.load_store import (
    COMPANY,
    LOAD,
    REJECT,
    entity_of,
    load_of,
    load_values,
    next_date,
    put_entities,
    put_rejects,
    reject_of,
)
from stoker.registry.model import Entity, IndustryCode, Load, LoadCount, Reject, whole_register
from stoker.registry.row_checks import kept_by, kept_codes, kept_count, kept_load, kept_rejects

# Holding this row still is having the register to oneself; it is nobody's place.
DOOR = """
INSERT INTO places (name, owner, until_at) VALUES ('0-registry', '', :now)
ON CONFLICT (name, owner) DO UPDATE SET until_at = places.until_at
"""

BEGIN = f"""
INSERT INTO registry_loads ({LOAD}, last_reject)
VALUES (:id, :release, :part, :source, :began_at, :ended_at, :new_rows, :changed_rows, :same_rows,
        :rejected_rows, :gone_rows, 0)
ON CONFLICT (id) DO UPDATE SET
    release = excluded.release, part = excluded.part, source = excluded.source,
    began_at = excluded.began_at, ended_at = excluded.ended_at, new_rows = excluded.new_rows,
    changed_rows = excluded.changed_rows, same_rows = excluded.same_rows,
    rejected_rows = excluded.rejected_rows, gone_rows = excluded.gone_rows
"""

START_OVER = "DELETE FROM registry_rejects WHERE load_id = :id"

BEGUN = f"SELECT {LOAD} FROM registry_loads WHERE id = :id"

END = """
UPDATE registry_loads SET ended_at = :ended_at, new_rows = :new_rows, changed_rows = :changed_rows,
    same_rows = :same_rows, rejected_rows = :rejected_rows, gone_rows = :gone_rows
WHERE id = :id
"""

ENDED_PARTS = """
SELECT DISTINCT part FROM registry_loads WHERE release = :release AND ended_at IS NOT NULL
"""

GONE = """
UPDATE registry_seen SET gone_at = :at, changed_at = :at
WHERE gone_at IS NULL AND release < :release
"""

LOADS = f"SELECT {LOAD} FROM registry_loads ORDER BY began_at DESC, id LIMIT :limit"

REJECTS = (
    f"SELECT {REJECT} FROM registry_rejects WHERE number > :after ORDER BY number LIMIT :limit"
)

ENTITIES = f"""
SELECT c.{COMPANY.replace(", ", ", c.")}, r.raw, s.changed_at, s.gone_at
FROM registry_seen s JOIN staging_acra_companies c ON c.uen = s.uen
JOIN staging_raw_acra r ON r.uen = s.uen
"""

ENTITY = f"{ENTITIES} WHERE s.uen = :uen"

IN_ORDER = " ORDER BY s.changed_at, s.uen LIMIT :limit"

SINCE = " WHERE s.changed_at > :since"

AFTER = " WHERE (s.changed_at, s.uen) > (:since, :after)"

WORDS = {
    "status": "c.status",
    "kind": "c.kind",
    "division": "substr(c.ssic, 1, 2)",
    "state": "CASE WHEN s.gone_at IS NOT NULL THEN 'gone' WHEN c.live THEN 'live' "
    "ELSE 'closed' END",
}

FORGET_CODES = "DELETE FROM ssic_ref WHERE version = :version"

ADD_CODE = "INSERT INTO ssic_ref (version, code, title, level) VALUES (?, ?, ?, ?)"

CODES = "SELECT code, title, level FROM ssic_ref WHERE version = :version ORDER BY code"


class SqlRegistry:
    """A `RegistryStore` in the tables `registry_*`, `staging_*` and `ssic_ref`."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def begin_load(self, load: Load) -> None:
        values = load_values(kept_load(load))

        def begin(tx: Transaction) -> None:
            tx.change(DOOR, now=values["began_at"])
            tx.change(BEGIN, **values)
            tx.change(START_OVER, id=values["id"])

        await self._database.write(begin)

    async def load_entities(
        self, load: Load, rows: Sequence[Entity], *, now: datetime
    ) -> LoadCount:
        now = in_utc(now)

        def put(tx: Transaction) -> LoadCount:
            return put_entities(tx, rows, release=_open(tx, load, now=now).release, now=now)

        return await self._database.write(put)

    async def reject_rows(self, load: Load, rejects: Sequence[Reject]) -> None:
        by_line = kept_rejects(load, rejects)

        def put(tx: Transaction) -> None:
            _open(tx, load, now=load.began_at)
            put_rejects(tx, load.id, by_line)

        await self._database.write(put)

    async def end_load(self, load: Load, *, now: datetime) -> Load:
        now, count = in_utc(now), kept_count(load.count)

        def end(tx: Transaction) -> Load:
            begun = _begun(tx, load, now=now)
            parts = {part for (part,) in tx.rows(ENDED_PARTS, release=begun.release)}
            gone = 0
            if whole_register({*parts, begun.part}):
                at = moment_text(next_date(tx, now=now))
                gone = tx.change(GONE, at=at, release=begun.release)
            ended = replace(begun, ended_at=now, count=replace(count, gone=gone))
            values = load_values(ended)
            for name in ("release", "part", "source", "began_at"):
                del values[name]
            tx.change(END, **values)
            return ended

        return await self._database.write(end)

    async def loads(self, *, limit: int = 100) -> list[Load]:
        rows = await self._database.read(lambda tx: tx.rows(LOADS, limit=limit))
        return [load_of(row) for row in rows]

    async def rejects(self, *, after: int = 0, limit: int = 1000) -> list[Reject]:
        rows = await self._database.read(lambda tx: tx.rows(REJECTS, after=after, limit=limit))
        return [reject_of(row) for row in rows]

    async def entity(self, uen: str) -> Entity | None:
        uen = kept_name(uen, what="an entity's number")
        rows = await self._database.read(lambda tx: tx.rows(ENTITY, uen=uen))
        return entity_of(rows[0]) if rows else None

    async def entities_changed(
        self, *, since: datetime | None = None, after: str = "", limit: int = 1000
    ) -> list[Entity]:
        query, values = ENTITIES, dict[str, Value](limit=limit)
        kept_text(after, what="an entity's number")
        if since is not None:
            query += AFTER if after else SINCE
            values |= {"since": moment_text(since)} | ({"after": after} if after else {})
        rows = await self._database.read(lambda tx: tx.rows(query + IN_ORDER, **values))
        return [entity_of(row) for row in rows]

    async def count_entities(self, *, by: str = "status") -> dict[str, int]:
        query = f"""
SELECT {WORDS[kept_by(by)]} AS word, count(*)
FROM registry_seen s JOIN staging_acra_companies c ON c.uen = s.uen
{"" if by == "state" else "WHERE s.gone_at IS NULL"} GROUP BY word
"""
        return dict(sorted(await self._database.read(lambda tx: tx.rows(query))))

    async def load_codes(self, version: str, codes: Sequence[IndustryCode]) -> None:
        rows = [(version, one.code, one.title, one.level) for one in kept_codes(version, codes)]

        def put(tx: Transaction) -> None:
            tx.change(FORGET_CODES, version=version)
            tx.change_many(ADD_CODE, rows)

        await self._database.write(put)

    async def codes(self, version: str) -> list[IndustryCode]:
        version = kept_name(version, what="a classification's version")
        rows = await self._database.read(lambda tx: tx.rows(CODES, version=version))
        return [
            IndustryCode(version=version, code=code, title=title, level=level)
            for code, title, level in rows
        ]


def _begun(tx: Transaction, load: Load, *, now: datetime) -> Load:
    tx.change(DOOR, now=moment_text(now))
    rows = tx.rows(BEGUN, id=load.id)
    if not rows:
        raise ConflictError("this load was never begun; begin it first, nothing was written")
    return load_of(rows[0])


def _open(tx: Transaction, load: Load, *, now: datetime) -> Load:
    begun = _begun(tx, load, now=now)
    if begun.ended_at is not None:
        raise ConflictError("this load has ended; begin it again first, nothing was written")
    return begun
