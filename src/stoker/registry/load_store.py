"""Writes a batch of register rows: compares digests and writes only what differs.

Rows that would be replaced are never read. Every function runs in the caller's transaction, which
holds the register's lock. Rows come back as either driver returns them: moments, days and JSON as
text or decoded, 0 or False.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from stoker.base.jsontools import compact_json
from stoker.db.database import (
    Transaction,
    Value,
    from_db_json,
    from_db_time,
    from_optional_db_time,
    split_into_batches,
    to_db_time,
    to_optional_db_time,
)
from stoker.registry.model import Entity, Load, LoadCount, Reject, choose_change_time
from stoker.registry.row_checks import validate_entity

COMPANY = (
    "uen, name, kind, company_type, status, live, registered_on, ssic, ssic_secondary, activity, "
    "street, postal_code, officers, former_names, digest"
)

LOAD = (
    "id, release, part, source, began_at, ended_at, new_rows, changed_rows, same_rows, "
    "rejected_rows, gone_rows"
)

REJECT = "number, load_id, line, reason, text"


@dataclass(frozen=True, slots=True)
class EntityRow:
    """An entity as its rows, and what tells whether another one would have the same."""

    company: tuple[Value, ...]  # in the order of `COMPANY`
    raw: str
    content: str

    @property
    def uen(self) -> str:
        """The entity's number."""
        return str(self.company[0])


def to_entity_row(entity: Entity) -> EntityRow:
    """Return an entity as its rows, if a store can keep it."""
    entity = validate_entity(entity)
    day = entity.registered_on
    company = (
        entity.uen,
        entity.name,
        entity.kind,
        entity.company_type,
        entity.status,
        entity.live,
        None if day is None else day.isoformat(),
        entity.ssic,
        entity.ssic_secondary,
        entity.activity,
        entity.street,
        entity.postal_code,
        entity.officers,
        compact_json(list(entity.former_names)),
        entity.digest,
    )
    raw = compact_json(entity.raw)
    # Of everything, not only of the row as it was: a program that reads it better changes it too.
    content = hashlib.sha256(f"{compact_json(company)}{raw}".encode()).hexdigest()[:32]
    return EntityRow(company, raw, content)


def from_entity_row(row: tuple[Any, ...]) -> Entity:
    """Return the entity in a row of `COMPANY`, raw, changed_at, gone_at."""
    uen, name, kind, company_type, status, live, registered_on, ssic, ssic_secondary = row[:9]
    activity, street, postal_code, officers, former_names, digest, raw, changed_at, gone_at = row[
        9:
    ]
    return Entity(
        uen=uen,
        name=name,
        kind=kind,
        company_type=company_type,
        status=status,
        live=bool(live),
        registered_on=_parse_optional_day(registered_on),
        ssic=ssic,
        ssic_secondary=ssic_secondary,
        activity=activity,
        street=street,
        postal_code=postal_code,
        officers=officers,
        former_names=tuple(from_db_json(former_names)),
        raw=from_db_json(raw),
        digest=digest,
        changed_at=from_db_time(changed_at),
        gone_at=from_optional_db_time(gone_at),
    )


def to_load_values(load: Load) -> dict[str, Value]:
    """Return a load as the values of its row, in the order of `LOAD`."""
    return {
        "id": load.id,
        "release": load.release,
        "part": load.part,
        "source": load.source,
        "began_at": to_db_time(load.began_at),
        "ended_at": to_optional_db_time(load.ended_at),
        "new_rows": load.count.new,
        "changed_rows": load.count.changed,
        "same_rows": load.count.same,
        "rejected_rows": load.count.rejected,
        "gone_rows": load.count.gone,
    }


def from_load_row(row: tuple[Any, ...]) -> Load:
    """Return the load in a row of `LOAD`."""
    load_id, release, part, source, began_at, ended_at, new, changed, same, rejected, gone = row
    return Load(
        id=load_id,
        release=release,
        part=part,
        source=source,
        began_at=from_db_time(began_at),
        ended_at=from_optional_db_time(ended_at),
        count=LoadCount(new=new, changed=changed, same=same, rejected=rejected, gone=gone),
    )


def from_reject_row(row: tuple[Any, ...]) -> Reject:
    """Return the rejected row in a row of `REJECT`."""
    number, load, line, reason, text = row
    return Reject(load=load, line=line, reason=reason, text=text, number=number)


def _parse_optional_day(value: str | date | None) -> date | None:
    return date.fromisoformat(value) if isinstance(value, str) else value


SELECT_KNOWN = """
SELECT s.uen, s.release, s.content, s.gone_at
FROM asked JOIN registry_seen s ON s.uen = asked.id
"""

SELECT_LATEST_CHANGE = "SELECT changed_at FROM registry_seen ORDER BY changed_at DESC LIMIT 1"

UPDATE_RELEASE = "UPDATE registry_seen SET release = ? WHERE uen = ?"

UPSERT_SEEN = """
INSERT INTO registry_seen (uen, release, content, changed_at, gone_at) VALUES (?, ?, ?, ?, NULL)
ON CONFLICT (uen) DO UPDATE SET release = excluded.release, content = excluded.content,
    changed_at = excluded.changed_at, gone_at = NULL
"""

_COLUMNS = COMPANY.split(", ")

UPSERT_COMPANY = f"""
INSERT INTO staging_acra_companies ({COMPANY}) VALUES ({", ".join("?" * len(_COLUMNS))})
ON CONFLICT (uen) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])}
"""

UPSERT_RAW = """
INSERT INTO staging_raw_acra (uen, raw) VALUES (?, ?)
ON CONFLICT (uen) DO UPDATE SET raw = excluded.raw
"""

SELECT_KNOWN_LINES = """
SELECT r.line FROM asked JOIN registry_rejects r ON r.load_id = :id AND r.line = asked.id
"""

SELECT_LAST_REJECT = "SELECT coalesce(max(last_reject), 0) FROM registry_loads"

UPDATE_LAST_REJECT = "UPDATE registry_loads SET last_reject = :last WHERE id = :id"

UPDATE_REJECT = "UPDATE registry_rejects SET reason = ?, text = ? WHERE load_id = ? AND line = ?"

INSERT_REJECT = """
INSERT INTO registry_rejects (number, load_id, line, reason, text) VALUES (?, ?, ?, ?, ?)
"""


@dataclass(frozen=True, slots=True)
class _KnownEntity:
    release: str
    content: str
    gone: bool


def upsert_entities(
    tx: Transaction, entities: Sequence[Entity], *, release: str, now: datetime
) -> LoadCount:
    """Put entities in place of what was known of their numbers; as `RegistryStore` promises."""
    rows = [to_entity_row(entity) for entity in entities]
    before = _read_known(tx, sorted({row.uen for row in rows}))
    known, differing = dict(before), dict[str, EntityRow]()
    new = changed = 0
    for row in rows:
        was = known.get(row.uen)
        latest = max(release, was.release) if was else release
        if was is None or was.gone or was.content != row.content:
            new, changed = (new, changed + 1) if was else (new + 1, changed)
            differing[row.uen] = row
        known[row.uen] = _KnownEntity(latest, row.content, gone=False)
    _write(tx, {uen: (differing[uen], known[uen]) for uen in sorted(differing)}, now=now)
    again = [
        (known[uen].release, uen)
        for uen, was in sorted(before.items())
        if uen not in differing and known[uen].release != was.release
    ]
    if again:
        tx.execute_many(UPDATE_RELEASE, again)
    return LoadCount(new=new, changed=changed, same=len(rows) - new - changed)


def upsert_rejects(tx: Transaction, load: str, by_line: Mapping[int, Reject]) -> None:
    """Keep rejected rows by line, those already there with their number."""
    there: set[int] = set()
    for query, some in split_into_batches(SELECT_KNOWN_LINES, list(by_line)):
        there |= {line for (line,) in tx.query(query, id=load, **some)}
    [[last]] = tx.query(SELECT_LAST_REJECT)
    added: list[tuple[Value, ...]] = []
    changed: list[tuple[Value, ...]] = []
    for line, reject in by_line.items():
        if line in there:
            changed.append((reject.reason, reject.text, load, line))
        else:
            last += 1
            added.append((last, load, line, reject.reason, reject.text))
    if changed:
        tx.execute_many(UPDATE_REJECT, changed)
    if added:
        tx.execute_many(INSERT_REJECT, added)
        tx.execute(UPDATE_LAST_REJECT, last=last, id=load)


def read_change_time(tx: Transaction, *, now: datetime) -> datetime:
    """Return what a change made now is dated."""
    rows = tx.query(SELECT_LATEST_CHANGE)
    return choose_change_time(now, latest=from_db_time(rows[0][0]) if rows else None)


def _read_known(tx: Transaction, uens: Sequence[str]) -> dict[str, _KnownEntity]:
    known: dict[str, _KnownEntity] = {}
    for query, some in split_into_batches(SELECT_KNOWN, uens):
        for uen, release, content, gone_at in tx.query(query, **some):
            known[uen] = _KnownEntity(release, content, gone=gone_at is not None)
    return known


def _write(
    tx: Transaction, differing: Mapping[str, tuple[EntityRow, _KnownEntity]], *, now: datetime
) -> None:
    if not differing:
        return
    at = to_db_time(read_change_time(tx, now=now))
    tx.execute_many(
        UPSERT_SEEN, ((uen, seen.release, seen.content, at) for uen, (_, seen) in differing.items())
    )
    tx.execute_many(UPSERT_COMPANY, (row.company for row, _ in differing.values()))
    tx.execute_many(UPSERT_RAW, ((uen, row.raw) for uen, (row, _) in differing.items()))
