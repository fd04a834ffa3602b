"""How entities, loads, rejected rows and industry codes stand in the rows of the register's tables.

Rows that come out are read as either database's driver gives them: moments, days and JSON as
text or decoded, 0 or False.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date
from typing import Any

from stoker.core.entities import Entity, Load, LoadCount, Reject
from stoker.core.runs import compact_json
from stoker.stores.kept_knowledge import kept_entity
from stoker.stores.sql import (
    Value,
    json_value,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
)

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
