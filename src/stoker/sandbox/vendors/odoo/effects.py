"""What a version 19 server changes besides what a caller wrote.

A lead's address is its customer's, and the other way round; an address goes from a company to its
contacts; any write to a company is one to its contacts; a lost lead is counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stoker.sandbox.vendors.odoo.models import ADDRESS

if TYPE_CHECKING:
    from stoker.sandbox.vendors.odoo.database import Database, Values

_PARTNER, _LEAD = "res.partner", "crm.lead"
_SHARED = {"email_from": "email", "phone": "phone"}  # a lead's column and its customer's
_SCRIPTS = re.compile(r"<(script|style|iframe)\b.*?(</\1\s*>|$)", re.IGNORECASE | re.DOTALL)
_HANDLERS = re.compile(r"\s(on\w+|href|src)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>]+)", re.IGNORECASE)
_NOTES = {_PARTNER: "comment", _LEAD: "description"}


def normalize_values(model: str, values: Mapping[str, Any]) -> Values:
    """Return values as the server keeps them: a website with a scheme, notes without scripts."""
    kept = dict(values)
    website = kept.get("website")
    if website and model in _NOTES and "://" not in str(website):
        kept["website"] = f"http://{website}"
    note = _NOTES.get(model, "")
    if kept.get(note):
        kept[note] = _HANDLERS.sub(_keep_safe, _SCRIPTS.sub("", str(kept[note])))
    return kept


def _keep_safe(match: re.Match[str]) -> str:
    target = match[2].strip("\"' ").lower()
    is_link = match[1].lower() in ("href", "src")
    return match[0] if is_link and not target.startswith(("javascript:", "data:")) else ""


def find_won_status(lead: Mapping[str, Any]) -> str:
    """Return whether a lead counts as lost: archived, without any chance."""
    is_lost = not lead.get("active") and not lead.get("probability")
    return "lost" if is_lost else "won" if lead.get("probability") == 100 else "pending"


def add_effects(
    database: Database, model: str, id_: int, *, before: Values, changes: Values, uid: int
) -> None:
    """Change what follows from changes of one record. `before` is empty for a new one."""
    if model == _PARTNER:
        _change_family(database, id_, before, changes, uid)
        _change_leads(database, id_, before, changes, uid)
    elif model == _LEAD:
        _change_from_customer(database, id_, before, changes, uid)
        _change_customer(database, id_, changes, uid)
        _count_lost(database, id_, before)


def _change_family(database: Database, id_: int, before: Values, changes: Values, uid: int) -> None:
    record = database.records[_PARTNER][id_]
    parent = database.records[_PARTNER].get(record.get("parent_id") or 0)
    if parent is not None and record.get("parent_id") != before.get("parent_id"):
        above = {field: parent.get(field) for field in ADDRESS if parent.get(field)}
        below = {field: record.get(field) for field in ADDRESS if record.get(field)}
        if above and record.get("type") == "contact":
            database.touch(_PARTNER, id_, above, uid=uid)
        elif below and database.list_linked("parent_id", record["parent_id"]) == [id_]:
            database.put(_PARTNER, record["parent_id"], below, uid=uid)
    if record.get("is_company") or parent is None:
        address = {field: changes[field] for field in ADDRESS if field in changes}
        _touch_contacts(database, id_, address, uid)


def _touch_contacts(database: Database, id_: int, address: Values, uid: int) -> None:
    for child in database.list_linked("parent_id", id_):
        record = database.records[_PARTNER][child]
        database.touch(_PARTNER, child, address if record.get("type") == "contact" else {}, uid=uid)
        if not record.get("is_company"):
            _touch_contacts(database, child, {}, uid)


def _change_leads(database: Database, id_: int, before: Values, changes: Values, uid: int) -> None:
    news = {
        column: changes[own]
        for column, own in _SHARED.items()
        if changes.get(own) and changes[own] != before.get(own)
    }
    for lead in database.list_linked("partner_id", id_) if news else ():
        database.touch(_LEAD, lead, news, uid=uid)


def _change_from_customer(
    database: Database, id_: int, before: Values, changes: Values, uid: int
) -> None:
    lead = database.records[_LEAD][id_]
    partner = database.records[_PARTNER].get(lead.get("partner_id") or 0)
    if partner is None or lead.get("partner_id") == before.get("partner_id"):
        return
    parent = database.records[_PARTNER].get(partner.get("parent_id") or 0, {})
    is_company = partner.get("is_company")
    known = {
        "website": partner.get("website"),
        "function": partner.get("function"),
        "contact_name": None if is_company else partner.get("name"),
        "partner_name": parent.get("name") or (partner.get("name") if is_company else None),
        **{field: partner.get(field) for field in ADDRESS},
    }
    taken = {field: value for field, value in known.items() if value and field not in changes}
    taken |= {
        column: partner[own]
        for column, own in _SHARED.items()
        if partner.get(own) and not changes.get(column)
    }
    database.touch(_LEAD, id_, taken, uid=uid)


def _change_customer(database: Database, id_: int, changes: Values, uid: int) -> None:
    customer = database.records[_LEAD][id_].get("partner_id")
    if not customer:
        return
    partner = database.records[_PARTNER][customer]
    news = {
        own: changes[column]
        for column, own in _SHARED.items()
        if changes.get(column) and _normalize(changes[column]) != _normalize(partner.get(own))
    }
    if news:
        database.put(_PARTNER, customer, news, uid=uid)


def _normalize(text: Any) -> str:
    lower = str(text or "").strip().lower()
    return lower if "@" in lower else re.sub(r"[^0-9+]", "", lower)


def _count_lost(database: Database, id_: int, before: Values) -> None:
    """Count a lead for Odoo's predictive scoring while it is lost."""
    lead = database.records[_LEAD][id_]
    was, now = (bool(each) and find_won_status(each) == "lost" for each in (before, lead))
    if was == now:
        return
    variables = {
        "stage_id": lead.get("stage_id"),
        "team_id": lead.get("team_id"),
        "source_id": lead.get("source_id"),
        "email_state": "correct" if lead.get("email_from") else False,
    }
    for variable, value in variables.items():
        if value:
            database.count_lost(variable, str(value), 1 if now else -1)
