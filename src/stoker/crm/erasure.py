"""Take one person out of a tenant's CRM, as far as we put it there.

In the records that we wrote for a person's companies, fields that are still as we wrote them and
name the person are emptied; in a note only the person is taken out. A contact that we created and
no person has edited is archived too. What a person changed stays theirs, and is reported: the CRM's
owner decides. Doing it again changes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from stoker.base.types import Json
from stoker.crm.edits import OWN_KEYS
from stoker.crm.model import CrmRecord, CrmRow, SentRow
from stoker.crm.odoo import Odoo, get_known_ids
from stoker.crm.store import CrmStore
from stoker.crm.upsert import (
    ACTIVE,
    AUTHOR_FIELDS,
    ID,
    UNDONE_PREFIX,
    is_own_value,
    is_written_in,
    was_edited_by_person,
)

ERASED_NAME = "Erased contact"  # a record must have a name

_NOTES = ("comment", "description")


@dataclass(slots=True, kw_only=True)
class CrmErasure:
    """What became of the records, by external id."""

    emptied: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)  # why the person may still be in it


async def erase_from_crm(
    external_ids: Sequence[str],
    *,
    contacts: Sequence[str],
    redact: Callable[[str], str],
    crm: Odoo | None,
    store: CrmStore,
    now: datetime,
    dry: bool = False,
) -> CrmErasure:
    """Take a person out of these records; `contacts` are those that are the person's own.

    Without a CRM everything that was written is reported as left. Raises as `Odoo` does; the same
    call then goes on.
    """
    result = CrmErasure()
    sent = await store.find_sent_rows(external_ids)
    named = {id_: row for id_, row in sent.items() if id_ in contacts or _names_person(row, redact)}
    if crm is None:
        result.left = dict.fromkeys(named, "no CRM is connected; take the person out there")
        return result
    ours = {id_: row for id_, row in named.items() if is_written_in(row, crm.database_id)}
    result.left = dict.fromkeys(
        named.keys() - ours.keys(), "it went into another CRM; take the person out there"
    )
    records = await _read_records(ours, crm)
    for id_, row in sorted(ours.items()):
        record = records.get(id_)
        if record is None:
            continue
        changes = plan_changes(row, record, redact, is_contact=id_ in contacts)
        kept = [
            column
            for column in row.values
            if column not in OWN_KEYS
            and column not in changes
            and isinstance(text := record.values.get(column), str)
            and redact(text) != text
        ]
        if kept:
            result.left[id_] = f"a person has changed {', '.join(kept)} since"
        if not changes:
            continue
        if not dry:
            await crm.change(row.model, [record.id], changes)
            values = {**row.values, **changes, ID: record.id}
            digest = f"{UNDONE_PREFIX}erased" if ACTIVE in changes else ""
            await store.save_sent_rows([replace(row, values=values, digest=digest, at=now)])
        (result.archived if ACTIVE in changes else result.emptied).append(id_)
    return result


def plan_changes(
    sent: SentRow, record: CrmRecord, redact: Callable[[str], str], *, is_contact: bool
) -> dict[str, Json]:
    """Return what is written into one record."""
    changes: dict[str, Json] = {}
    for column, ours in sent.values.items():
        current = record.values.get(column)
        if column in OWN_KEYS or not isinstance(current, str):
            continue
        if not is_own_value(ours, current) or not (is_contact or redact(current) != current):
            continue
        if column == "name":
            changes[column] = ERASED_NAME if is_contact else redact(current)
        else:
            note = not is_contact and column in _NOTES
            changes[column] = redact(current) if note else False
    if changes.get("name") == record.values.get("name"):
        del changes["name"]
    is_ours = is_contact and not sent.before and not was_edited_by_person(record)
    if is_ours and record.values.get(ACTIVE, True):
        changes[ACTIVE] = False
    return changes


def _names_person(sent: SentRow, redact: Callable[[str], str]) -> bool:
    texts = [
        text
        for value in (*sent.values.values(), *sent.before.values())
        for text in (value if isinstance(value, list) else [value])
    ]
    return any(isinstance(text, str) and redact(text) != text for text in texts)


async def _read_records(sent: dict[str, SentRow], crm: Odoo) -> dict[str, CrmRecord]:
    rows = [
        CrmRow(
            model=row.model,
            external_id=id_,
            values=dict.fromkeys(
                [c for c in (*row.values, *AUTHOR_FIELDS, ACTIVE) if c not in OWN_KEYS], ""
            ),
        )
        for id_, row in sent.items()
    ]
    return await crm.find_records(rows, known=get_known_ids(sent)) if rows else {}
