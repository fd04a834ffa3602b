"""How units of work and what was written into a CRM stand in rows.

Rows that come out are read as either database's driver gives them: moments and JSON as text or
decoded.
"""

from __future__ import annotations

from typing import Any

from stoker.accounts import SentRow
from stoker.core.nights import Depth, Unit, UnitState
from stoker.core.runs import compact_json
from stoker.stores.sql import (
    Value,
    json_value,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
)

UNIT = (
    "company_id, place, depth, state, owner, until_at, because, reasons, cost, saved, seconds, "
    "ended_at"
)
SENT = "run, external_id, model, digest, sent, before, at"


def unit_values(unit: Unit) -> dict[str, Value]:
    """Return a unit as the values of its row, in the order of `UNIT`."""
    return {
        "company_id": unit.company,
        "place": unit.place,
        "depth": unit.depth,
        "state": unit.state,
        "owner": unit.owner,
        "until_at": optional_moment_text(unit.until),
        "because": unit.because,
        "reasons": compact_json(list(unit.reasons)),
        "cost": compact_json(unit.cost),
        "saved": compact_json(unit.saved),
        "seconds": compact_json(unit.seconds),
        "ended_at": optional_moment_text(unit.ended_at),
    }


def unit_of(row: tuple[Any, ...]) -> Unit:
    """Return the unit in a row of `UNIT`."""
    company, place, depth, state, owner, until_at, because, reasons, cost, saved, seconds, end = row
    return Unit(
        company=company,
        place=place,
        depth=Depth(depth),
        state=UnitState(state),
        owner=owner,
        until=optional_moment(until_at),
        because=because,
        reasons=tuple(json_value(reasons)),
        cost=json_value(cost),
        saved=json_value(saved),
        seconds=json_value(seconds),
        ended_at=optional_moment(end),
    )


def sent_row(row: SentRow) -> tuple[Value, ...]:
    """Return what was written into a record as its row, in the order of `SENT`."""
    return (
        row.run,
        row.external_id,
        row.model,
        row.digest,
        compact_json(row.values),
        compact_json(row.before),
        moment_text(row.at),
    )


def sent_of(row: tuple[Any, ...]) -> SentRow:
    """Return what was written, from a row of `SENT`."""
    run, external_id, model, digest, sent, before, at = row
    return SentRow(
        external_id=external_id,
        model=model,
        digest=digest,
        values=json_value(sent),
        before=json_value(before),
        run=run,
        at=moment(at),
    )
