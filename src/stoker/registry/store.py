"""Store the public register of companies in SQL.

A writer locks the whole register, so that changes are dated in the order in which they can be
seen. A batch compares digests and writes only what differs; rows it would replace are never read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from stoker.base.errors import ConflictError, PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import to_utc
from stoker.db.codec import validate_text
from stoker.db.database import Database, Transaction, Value, from_db_time, to_db_time
from stoker.db.table import split_row
from stoker.registry.model import (
    Entity,
    IndustryCode,
    Load,
    LoadCount,
    Reject,
    choose_change_time,
    is_whole_register,
)
from stoker.registry.schema import (
    CODES,
    ENTITIES,
    LOADS,
    RAW_ENTITIES,
    REJECTS,
    SEEN,
    SeenEntity,
)

# Updating this row locks the register; the row itself means nothing.
LOCK_REGISTRY = """
INSERT INTO places (name, owner, until_at) VALUES ('0-registry', '', :now)
ON CONFLICT (name, owner) DO UPDATE SET until_at = places.until_at
"""

DELETE_REJECTS = "DELETE FROM registry_rejects WHERE load_id = :id"

SELECT_LAST_REJECT = "SELECT coalesce(max(last_reject), 0) FROM registry_loads"

UPDATE_LAST_REJECT = "UPDATE registry_loads SET last_reject = :last WHERE id = :id"

SELECT_ENDED_PARTS = """
SELECT DISTINCT part FROM registry_loads WHERE release = :release AND ended_at IS NOT NULL
"""

MARK_GONE = """
UPDATE registry_seen SET gone_at = :at, changed_at = :at
WHERE gone_at IS NULL AND release < :release
"""

SELECT_LATEST_CHANGE = "SELECT changed_at FROM registry_seen ORDER BY changed_at DESC LIMIT 1"

UPDATE_RELEASE = "UPDATE registry_seen SET release = ? WHERE uen = ?"

SELECT_ENTITIES = f"""
SELECT {ENTITIES.names_of("c")}, {RAW_ENTITIES.names_of("r")}, {SEEN.names_of("s")}
FROM registry_seen s JOIN staging_acra_companies c ON c.uen = s.uen
JOIN staging_raw_acra r ON r.uen = s.uen
"""

IN_ORDER = " ORDER BY s.changed_at, s.uen LIMIT :limit"

GROUPINGS = {
    "status": "c.status",
    "kind": "c.kind",
    "division": "substr(c.ssic, 1, 2)",
    "state": "CASE WHEN s.gone_at IS NOT NULL THEN 'gone' WHEN c.live THEN 'live' "
    "ELSE 'closed' END",
}

DELETE_CODES = "DELETE FROM ssic_ref WHERE version = :version"


class RegistryStore:
    """The public register of companies as last read; it belongs to no tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin_load(self, load: Load) -> None:
        """Record that a file is being read, with nothing counted or rejected yet.

        The same load again starts it over.
        """
        load = LOADS.store(replace(load, ended_at=None, count=LoadCount()))

        def begin(tx: Transaction) -> None:
            tx.execute(LOCK_REGISTRY, now=to_db_time(load.began_at))
            LOADS.save(tx, [load], 0)
            tx.execute(DELETE_REJECTS, id=load.id)

        await self._database.write(begin)

    async def load_entities(
        self, load: Load, rows: Sequence[Entity], *, now: datetime
    ) -> LoadCount:
        """Put entities in place of what was known of their numbers, if they differ in anything.

        Returns how many were new, changed and the same; what is the same is not written again.
        Changed ones are dated `now`, or just after the latest date there is when that is not
        earlier, so a reader that follows the changes misses none. One that was gone is back, and
        has changed. Atomic. Reading a row twice is reading it once. Raises ConflictError, and
        writes nothing, unless the load was begun and has not ended.
        """
        now = to_utc(now)

        def save(tx: Transaction) -> LoadCount:
            release = _get_open_load(tx, load, now=now).release
            return _save_entities(tx, rows, release=release, now=now)

        return await self._database.write(save)

    async def reject_rows(self, load: Load, rejects: Sequence[Reject]) -> None:
        """Save rows that could not be read, with the reason, under their line of the load.

        A line has one reject, the latest. Raises ConflictError as `load_entities` does, and
        PermanentError when one of them is of another load.
        """
        if any(reject.load != load.id for reject in rejects):
            raise PermanentError("a rejected row is of another load; nothing was written")
        by_line = {reject.line: reject for reject in map(REJECTS.store, rejects)}

        def save(tx: Transaction) -> None:
            _get_open_load(tx, load, now=load.began_at)
            _save_rejects(tx, load.id, by_line)

        await self._database.write(save)

    async def end_load(self, load: Load, *, now: datetime) -> Load:
        """Record how a load went, as its reader counted, and return it so.

        When it and other ended loads of the same release cover the whole register, entities last
        seen in an earlier release are marked as gone, dated as changed ones are; otherwise absence
        means nothing. Raises ConflictError when the load was never begun.
        """
        now = to_utc(now)

        def end(tx: Transaction) -> Load:
            begun, gone = _get_load(tx, load, now=now), 0
            parts = {part for (part,) in tx.query(SELECT_ENDED_PARTS, release=begun.release)}
            if is_whole_register({*parts, begun.part}):
                at = to_db_time(_read_change_time(tx, now=now))
                gone = tx.execute(MARK_GONE, at=at, release=begun.release)
            ended = replace(begun, ended_at=now, count=replace(load.count, gone=gone))
            LOADS.save(tx, [ended], 0)
            return ended

        return await self._database.write(end)

    async def list_loads(self, *, limit: int = 100) -> list[Load]:
        return await self._database.read(
            lambda tx: LOADS.find(tx, "true ORDER BY began_at DESC, id LIMIT :limit", limit=limit)
        )

    async def list_rejects(self, *, after: int = 0, limit: int = 1000) -> list[Reject]:
        """Return one page of the rows that could not be read, oldest first."""
        where = "number > :after ORDER BY number LIMIT :limit"
        return await self._database.read(
            lambda tx: REJECTS.find(tx, where, after=after, limit=limit)
        )

    async def find_entity(self, uen: str) -> Entity | None:
        query, values = f"{SELECT_ENTITIES} WHERE s.uen = :uen", ENTITIES.encode(uen=uen)
        rows = await self._database.read(lambda tx: tx.query(query, **values))
        return _to_entity(rows[0]) if rows else None

    async def list_changed_entities(
        self, *, since: datetime | None = None, after: str = "", limit: int = 1000
    ) -> list[Entity]:
        """Return one page of the entities that are new, changed or gone since then.

        In order of (changed_at, uen), beginning after `since`, or within it after a number: pass
        the last one's `changed_at` and `uen` to go on.
        """
        query, values = SELECT_ENTITIES, dict[str, Value](limit=limit)
        validate_text(after, what="an entity's number")
        if since is not None and after:
            query += " WHERE (s.changed_at, s.uen) > (:since, :after)"
            values |= {"since": to_db_time(since), "after": after}
        elif since is not None:
            query += " WHERE s.changed_at > :since"
            values |= {"since": to_db_time(since)}
        rows = await self._database.read(lambda tx: tx.query(query + IN_ORDER, **values))
        return [_to_entity(row) for row in rows]

    async def count_entities(self, *, by: str = "status") -> dict[str, int]:
        """Return how many entities there are: by status, kind, division of industry or state.

        A division is the first two digits of the industry, a state live, closed or gone; what is
        gone is counted by state only. Raises PermanentError for another grouping.
        """
        if by not in GROUPINGS:
            raise PermanentError(
                f"entities are not counted by {by!r}; say status, kind, division or state"
            )
        query = f"""
SELECT {GROUPINGS[by]} AS word, count(*)
FROM registry_seen s JOIN staging_acra_companies c ON c.uen = s.uen
{"" if by == "state" else "WHERE s.gone_at IS NULL"} GROUP BY word
"""
        return dict(sorted(await self._database.read(lambda tx: tx.query(query))))

    async def load_codes(self, version: str, codes: Sequence[IndustryCode]) -> None:
        """Put a classification of industries in place of what was known of this version. Atomic.

        Raises PermanentError when a code is of another version or there twice.
        """
        place = CODES.encode(version=version)
        if other := next((code for code in codes if code.version != version), None):
            raise PermanentError(
                f"the industry {other.code} is of version {other.version}, not {version}; "
                "nothing was written"
            )
        if len({code.code for code in codes}) < len(codes):
            raise PermanentError("an industry's code is there twice; nothing was written")

        def save(tx: Transaction) -> None:
            tx.execute(DELETE_CODES, **place)
            CODES.insert_new(tx, codes)

        await self._database.write(save)

    async def list_codes(self, version: str) -> list[IndustryCode]:
        """Return a version's classification, in code order; empty when it was never loaded."""
        place = CODES.encode(version=version)
        return await self._database.read(
            lambda tx: CODES.find(tx, "version = :version ORDER BY code", **place)
        )


@dataclass(frozen=True, slots=True)
class _EntityRow:
    """An entity as its rows, and a digest that tells whether another one would have the same."""

    company: tuple[Value, ...]
    raw: Value
    content: str


def _to_row(entity: Entity) -> _EntityRow:
    company, (raw,) = ENTITIES.to_row(entity), RAW_ENTITIES.to_row(entity)
    # Of everything, not only of the row as it was: a program that reads it better changes it too.
    content = hashlib.sha256(f"{compact_json(company)}{raw!s}".encode()).hexdigest()[:32]
    return _EntityRow(company, raw, content)


def _to_entity(row: Sequence[Any]) -> Entity:
    company, raw, seen_row = split_row(row, ENTITIES, RAW_ENTITIES, SEEN)
    seen = SEEN.read(seen_row)
    return Entity(
        **ENTITIES.read(company),
        **RAW_ENTITIES.read(raw),
        changed_at=seen.changed_at,
        gone_at=seen.gone_at,
    )


def _get_load(tx: Transaction, load: Load, *, now: datetime) -> Load:
    tx.execute(LOCK_REGISTRY, now=to_db_time(now))
    found = LOADS.find(tx, "id = :id", id=load.id)
    if not found:
        raise ConflictError("this load was never begun; begin it first, nothing was written")
    return found[0]


def _get_open_load(tx: Transaction, load: Load, *, now: datetime) -> Load:
    begun = _get_load(tx, load, now=now)
    if begun.ended_at is not None:
        raise ConflictError("this load has ended; begin it again first, nothing was written")
    return begun


def _read_change_time(tx: Transaction, *, now: datetime) -> datetime:
    rows = tx.query(SELECT_LATEST_CHANGE)
    return choose_change_time(now, latest=from_db_time(rows[0][0]) if rows else None)


def _save_entities(
    tx: Transaction, entities: Sequence[Entity], *, release: str, now: datetime
) -> LoadCount:
    rows = [(entity.uen, _to_row(entity)) for entity in entities]
    before = {seen.uen: seen for seen in SEEN.find_in(tx, "uen", sorted({uen for uen, _ in rows}))}
    changed_at = _read_change_time(tx, now=now)
    known, differing = dict(before), dict[str, _EntityRow]()
    new = changed = 0
    for uen, row in rows:
        was = known.get(uen)
        latest = max(release, was.release) if was else release
        if was is None or was.gone_at is not None or was.content != row.content:
            new, changed = (new, changed + 1) if was else (new + 1, changed)
            differing[uen] = row
            known[uen] = SeenEntity(
                uen=uen, release=latest, content=row.content, changed_at=changed_at
            )
        elif was.release != latest:
            known[uen] = replace(was, release=latest)
    if differing:
        in_order = sorted(differing)
        SEEN.save(tx, [known[uen] for uen in in_order])
        tx.execute_many(ENTITIES.upsert, [differing[uen].company for uen in in_order])
        tx.execute_many(RAW_ENTITIES.upsert, [(uen, differing[uen].raw) for uen in in_order])
    seen_again = [
        (known[uen].release, uen)
        for uen, was in sorted(before.items())
        if uen not in differing and known[uen].release != was.release
    ]
    if seen_again:
        tx.execute_many(UPDATE_RELEASE, seen_again)
    return LoadCount(new=new, changed=changed, same=len(rows) - new - changed)


def _save_rejects(tx: Transaction, load: str, by_line: Mapping[int, Reject]) -> None:
    lines = REJECTS.find_in(tx, "line", list(by_line), "t.load_id = :id", id=load)
    numbers = {known.line: known.number for known in lines}
    [[last]] = tx.query(SELECT_LAST_REJECT)
    for line in by_line:
        if line not in numbers:
            last += 1
            numbers[line] = last
    REJECTS.save(tx, [replace(reject, number=numbers[line]) for line, reject in by_line.items()])
    tx.execute(UPDATE_LAST_REJECT, last=last, id=load)
