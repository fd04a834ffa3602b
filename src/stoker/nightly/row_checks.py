"""What every store can keep of tenants, companies, units and CRM rows; the rest is refused.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Nothing was written when one of them refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from stoker.accounts.model import Dossier, SentRow
from stoker.accounts.row_checks import _utc, kept_id, kept_run_name
from stoker.base.errors import PermanentError
from stoker.base.types import in_utc
from stoker.crm.upsert import settled_by
from stoker.db.codec import kept_json
from stoker.db.values import kept_name, kept_texts, kept_whole
from stoker.enrichment.model import ENDS, Unit


def kept_unit(unit: Unit) -> Unit:
    """Return a unit as a store gives it back."""
    kept_id(unit.company)
    kept_whole(unit.place, what="a place")
    if unit.place < 0:
        raise PermanentError(f"a place is 0 or more, not {unit.place}; nothing was written")
    kept_texts((unit.owner, unit.because, *unit.reasons), what="a unit")
    return replace(
        unit,
        until=_utc(unit.until, what="how long a unit is taken"),
        cost=kept_json(dict(unit.cost), what="a unit's cost"),
        saved=kept_json(dict(unit.saved), what="what a unit saved"),
        seconds=kept_json(dict(unit.seconds), what="a unit's timings"),
        ended_at=_utc(unit.ended_at, what="when a unit ended"),
    )


def kept_end(unit: Unit, dossier: Dossier | None) -> Unit:
    """Return how a unit ended, with nobody's hand on it any more."""
    if unit.state not in ENDS:
        raise PermanentError(f"a unit does not end as {unit.state}; nothing was written")
    if dossier is not None and dossier.company.id != unit.company:
        raise PermanentError("the dossier is of another company than the unit; nothing was written")
    return replace(kept_unit(unit), until=None)


def kept_sent(rows: Sequence[SentRow]) -> list[SentRow]:
    """Return what was written into a CRM, as a store gives it back."""
    kept: list[SentRow] = []
    for row in rows:
        kept_name(row.external_id, what="a record's external id")
        kept_run_name(row.run)
        kept_texts((row.model, row.digest), what="a record of a CRM")
        kept.append(
            replace(
                row,
                values=kept_json(dict(row.values), what="a record's values"),
                before=kept_json(dict(row.before), what="a record's values before"),
                at=in_utc(row.at, what="when a record was written"),
                settled=frozenset(),
            )
        )
    return kept


def latest_sent(rows: Iterable[SentRow]) -> dict[str, SentRow]:
    """Return the latest of each record's writes, with what all of them have settled."""
    in_time = sorted(rows, key=lambda row: (row.external_id, row.at, row.run))
    latest: dict[str, SentRow] = {}
    for external_id, writes in groupby(in_time, key=lambda row: row.external_id):
        of_record = list(writes)
        latest[external_id] = replace(of_record[-1], settled=settled_by(of_record))
    return latest
