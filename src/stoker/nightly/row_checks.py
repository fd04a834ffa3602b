"""Validate work items and CRM rows before a store writes them.

Each function returns the value as a store gives it back, and raises PermanentError before anything
is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from stoker.accounts.model import CompanyRecord, SentRow
from stoker.accounts.row_checks import _to_utc, validate_company_id, validate_run_name
from stoker.base.errors import PermanentError
from stoker.base.types import to_utc
from stoker.crm.upsert import list_settled_digests
from stoker.db.codec import validate_json
from stoker.db.values import validate_int64, validate_key, validate_texts
from stoker.enrichment.model import END_STATES, WorkItem


def validate_item(unit: WorkItem) -> WorkItem:
    """Return an item as a store gives it back."""
    validate_company_id(unit.company)
    validate_int64(unit.rank, what="a place")
    if unit.rank < 0:
        raise PermanentError(f"a place is 0 or more, not {unit.rank}; nothing was written")
    validate_texts((unit.owner, unit.reason, *unit.reasons), what="a unit")
    return replace(
        unit,
        claimed_until=_to_utc(unit.claimed_until, what="how long a unit is taken"),
        cost=validate_json(dict(unit.cost), what="a unit's cost"),
        saved=validate_json(dict(unit.saved), what="what a unit saved"),
        seconds=validate_json(dict(unit.seconds), what="a unit's timings"),
        ended_at=_to_utc(unit.ended_at, what="when a unit ended"),
    )


def validate_item_end(unit: WorkItem, dossier: CompanyRecord | None) -> WorkItem:
    """Return an ended item without its claim."""
    if unit.state not in END_STATES:
        raise PermanentError(f"a unit does not end as {unit.state}; nothing was written")
    if dossier is not None and dossier.company.id != unit.company:
        raise PermanentError("the dossier is of another company than the unit; nothing was written")
    return replace(validate_item(unit), claimed_until=None)


def validate_sent_rows(rows: Sequence[SentRow]) -> list[SentRow]:
    """Return what was written into a CRM, as a store gives it back."""
    valid: list[SentRow] = []
    for row in rows:
        validate_key(row.external_id, what="a record's external id")
        validate_run_name(row.run)
        validate_texts((row.model, row.digest), what="a record of a CRM")
        valid.append(
            replace(
                row,
                values=validate_json(dict(row.values), what="a record's values"),
                before=validate_json(dict(row.before), what="a record's values before"),
                at=to_utc(row.at, what="when a record was written"),
                settled=frozenset(),
            )
        )
    return valid


def choose_latest_sent(rows: Iterable[SentRow]) -> dict[str, SentRow]:
    """Return the latest of each record's writes, with what all of them have settled."""
    in_time = sorted(rows, key=lambda row: (row.external_id, row.at, row.run))
    latest: dict[str, SentRow] = {}
    for external_id, writes in groupby(in_time, key=lambda row: row.external_id):
        of_record = list(writes)
        latest[external_id] = replace(of_record[-1], settled=list_settled_digests(of_record))
    return latest
