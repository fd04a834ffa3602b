"""How rows of the register are put in: compared with what is known, and written if they differ.

A batch is compared by digests, so what it would replace is never read, and what is the same is
never written. Everything here is part of somebody's transaction that has the register to itself.

How entities, loads, rejected rows and industry codes stand in the rows of the register's tables.

Rows that come out are read as either database's driver gives them: moments, days and JSON as
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
    asked,
    json_value,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
)
from stoker.registry.model import Entity, Load, LoadCount, Reject, dated
from stoker.registry.row_checks import kept_entity

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


def entity_row(entity: Entity) -> EntityRow:
    """Return an entity as its rows, if a store can keep it."""
    entity = kept_entity(entity)
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


def entity_of(row: tuple[Any, ...]) -> Entity:
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
        registered_on=_optional_day(registered_on),
        ssic=ssic,
        ssic_secondary=ssic_secondary,
        activity=activity,
        street=street,
        postal_code=postal_code,
        officers=officers,
        former_names=tuple(json_value(former_names)),
        raw=json_value(raw),
        digest=digest,
        changed_at=moment(changed_at),
        gone_at=optional_moment(gone_at),
    )


def load_values(load: Load) -> dict[str, Value]:
    """Return a load as the values of its row, in the order of `LOAD`."""
    return {
        "id": load.id,
        "release": load.release,
        "part": load.part,
        "source": load.source,
        "began_at": moment_text(load.began_at),
        "ended_at": optional_moment_text(load.ended_at),
        "new_rows": load.count.new,
        "changed_rows": load.count.changed,
        "same_rows": load.count.same,
        "rejected_rows": load.count.rejected,
        "gone_rows": load.count.gone,
    }


def load_of(row: tuple[Any, ...]) -> Load:
    """Return the load in a row of `LOAD`."""
    load_id, release, part, source, began_at, ended_at, new, changed, same, rejected, gone = row
    return Load(
        id=load_id,
        release=release,
        part=part,
        source=source,
        began_at=moment(began_at),
        ended_at=optional_moment(ended_at),
        count=LoadCount(new=new, changed=changed, same=same, rejected=rejected, gone=gone),
    )


def reject_of(row: tuple[Any, ...]) -> Reject:
    """Return the rejected row in a row of `REJECT`."""
    number, load, line, reason, text = row
    return Reject(load=load, line=line, reason=reason, text=text, number=number)


def _optional_day(value: str | date | None) -> date | None:
    return date.fromisoformat(value) if isinstance(value, str) else value


KNOWN = """
SELECT s.uen, s.release, s.content, s.gone_at
FROM asked JOIN registry_seen s ON s.uen = asked.id
"""

LATEST = "SELECT changed_at FROM registry_seen ORDER BY changed_at DESC LIMIT 1"

SEEN_AGAIN = "UPDATE registry_seen SET release = ? WHERE uen = ?"

PUT_SEEN = """
INSERT INTO registry_seen (uen, release, content, changed_at, gone_at) VALUES (?, ?, ?, ?, NULL)
ON CONFLICT (uen) DO UPDATE SET release = excluded.release, content = excluded.content,
    changed_at = excluded.changed_at, gone_at = NULL
"""

_COLUMNS = COMPANY.split(", ")

PUT_COMPANY = f"""
INSERT INTO staging_acra_companies ({COMPANY}) VALUES ({", ".join("?" * len(_COLUMNS))})
ON CONFLICT (uen) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])}
"""

PUT_RAW = """
INSERT INTO staging_raw_acra (uen, raw) VALUES (?, ?)
ON CONFLICT (uen) DO UPDATE SET raw = excluded.raw
"""

KNOWN_LINES = """
SELECT r.line FROM asked JOIN registry_rejects r ON r.load_id = :id AND r.line = asked.id
"""

LAST_REJECT = "SELECT coalesce(max(last_reject), 0) FROM registry_loads"

SAVE_LAST_REJECT = "UPDATE registry_loads SET last_reject = :last WHERE id = :id"

CHANGE_REJECT = "UPDATE registry_rejects SET reason = ?, text = ? WHERE load_id = ? AND line = ?"

ADD_REJECT = """
INSERT INTO registry_rejects (number, load_id, line, reason, text) VALUES (?, ?, ?, ?, ?)
"""


@dataclass(frozen=True, slots=True)
class _Known:
    release: str
    content: str
    gone: bool


def put_entities(
    tx: Transaction, entities: Sequence[Entity], *, release: str, now: datetime
) -> LoadCount:
    """Put entities in place of what was known of their numbers; as `RegistryStore` promises."""
    rows = [entity_row(entity) for entity in entities]
    before = _known(tx, sorted({row.uen for row in rows}))
    known, differing = dict(before), dict[str, EntityRow]()
    new = changed = 0
    for row in rows:
        was = known.get(row.uen)
        latest = max(release, was.release) if was else release
        if was is None or was.gone or was.content != row.content:
            new, changed = (new, changed + 1) if was else (new + 1, changed)
            differing[row.uen] = row
        known[row.uen] = _Known(latest, row.content, gone=False)
    _write(tx, {uen: (differing[uen], known[uen]) for uen in sorted(differing)}, now=now)
    again = [
        (known[uen].release, uen)
        for uen, was in sorted(before.items())
        if uen not in differing and known[uen].release != was.release
    ]
    if again:
        tx.change_many(SEEN_AGAIN, again)
    return LoadCount(new=new, changed=changed, same=len(rows) - new - changed)


def put_rejects(tx: Transaction, load: str, by_line: Mapping[int, Reject]) -> None:
    """Keep rejected rows by line, those already there with their number."""
    there: set[int] = set()
    for query, some in asked(KNOWN_LINES, list(by_line)):
        there |= {line for (line,) in tx.rows(query, id=load, **some)}
    [[last]] = tx.rows(LAST_REJECT)
    added: list[tuple[Value, ...]] = []
    changed: list[tuple[Value, ...]] = []
    for line, reject in by_line.items():
        if line in there:
            changed.append((reject.reason, reject.text, load, line))
        else:
            last += 1
            added.append((last, load, line, reject.reason, reject.text))
    if changed:
        tx.change_many(CHANGE_REJECT, changed)
    if added:
        tx.change_many(ADD_REJECT, added)
        tx.change(SAVE_LAST_REJECT, last=last, id=load)


def next_date(tx: Transaction, *, now: datetime) -> datetime:
    """Return what a change made now is dated."""
    rows = tx.rows(LATEST)
    return dated(now, latest=moment(rows[0][0]) if rows else None)


def _known(tx: Transaction, uens: Sequence[str]) -> dict[str, _Known]:
    known: dict[str, _Known] = {}
    for query, some in asked(KNOWN, uens):
        for uen, release, content, gone_at in tx.rows(query, **some):
            known[uen] = _Known(release, content, gone=gone_at is not None)
    return known


def _write(
    tx: Transaction, differing: Mapping[str, tuple[EntityRow, _Known]], *, now: datetime
) -> None:
    if not differing:
        return
    at = moment_text(next_date(tx, now=now))
    tx.change_many(
        PUT_SEEN, ((uen, seen.release, seen.content, at) for uen, (_, seen) in differing.items())
    )
    tx.change_many(PUT_COMPANY, (row.company for row, _ in differing.values()))
    tx.change_many(PUT_RAW, ((uen, row.raw) for uen, (row, _) in differing.items()))
