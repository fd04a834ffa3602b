"""Merging by people: of contacts into one they choose, of leads into one that Odoo chooses."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.sandbox.vendors.odoo.database import Database
from stoker.sandbox.vendors.odoo.models import COMMERCIAL

_PARTNER, _LEAD = "res.partner", "crm.lead"
_OWN = frozenset({"create_uid", "create_date", "write_uid", "write_date", "active"})


def merge_partners(database: Database, ids: Sequence[int], *, into: int, uid: int) -> None:
    """Merge contacts: contacts, leads and all external ids go to the survivor.

    Its empty fields are filled from the others, but for computed ones such as the company's number.
    """
    for gone in ids:
        if gone == into:
            continue
        _fill(database, _PARTNER, into, gone, without=COMMERCIAL, uid=uid)
        for child in database.list_linked("parent_id", gone):
            database.put(_PARTNER, child, {"parent_id": into}, uid=uid)
        for lead in database.list_linked("partner_id", gone):
            database.touch(_LEAD, lead, {"partner_id": into}, uid=uid)
        for external in list(database.list_external_ids(_PARTNER, [gone])[gone]):
            database.bind(external, _PARTNER, into)
        database.remove(_PARTNER, [gone])


def merge_leads(database: Database, ids: Sequence[int], *, uid: int) -> int:
    """Merge leads into the surest one, the older of equals; the others are deleted."""
    leads = database.records[_LEAD]
    best, *others = sorted(
        ids,
        key=lambda id_: (
            leads[id_]["type"] != "opportunity",
            -(leads[id_].get("stage_id") or 0),
            -(leads[id_].get("probability") or 0),
            id_,
        ),
    )
    for gone in others:
        _fill(database, _LEAD, best, gone, without=frozenset(), uid=uid)
    database.remove(_LEAD, others)
    return best


def _fill(
    database: Database, model: str, into: int, gone: int, *, without: frozenset[str], uid: int
) -> None:
    kept, other = database.records[model][into], database.records[model][gone]
    taken = {
        field: value
        for field, value in other.items()
        if value and not kept.get(field) and field not in without | _OWN
    }
    database.put(model, into, taken, uid=uid)
