"""What people did with our records in a CRM: edits, notes, activities, and what hangs on them.

A CRM shows only who wrote a record last, and a write to a company counts as one to its contacts.
So our own write hides a person's, and is preceded by a look at who wrote before. A note or an
activity changes no record; they are looked for by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.types import Json
from stoker.crm.model import LEAD, PARTNER, CrmRecord, RowWrite, SentRow
from stoker.crm.odoo import IDS_PER_CALL, OWN_PREFIX, Odoo
from stoker.crm.odoo_load import split_batches
from stoker.crm.store import CrmStore
from stoker.crm.upsert import ACTIVE, CRM_KEY, ID, MAKER, WRITER, was_edited_by_person

EDITED = "a person edited it"  # in a sent row's values, and no column's name

OWN_KEYS = (ID, CRM_KEY, EDITED)  # in a sent row's values beside its columns

ORDER = "sale.order"

_SYSTEM_USER = 1
_PAGE_SIZE = 1000  # records


async def find_edited(
    writes: Sequence[RowWrite],
    *,
    there: Mapping[str, CrmRecord],
    sent: Mapping[str, SentRow],
    crm: Odoo,
) -> set[str]:
    """Return the external ids of records that people edited and that these writes would hide.

    `there` are the records as they are, with who wrote them last.
    """
    known = {each.row.external_id for each in writes} & there.keys()
    edited = {
        id_
        for id_ in known
        if was_edited_by_person(there[id_]) or (id_ in sent and EDITED in sent[id_].values)
    }
    changed = [each for each in writes if each.cells and each.row.external_id in known]
    companies = [there[each.row.external_id].id for each in changed if each.row.model == PARTNER]
    for some in split_batches(companies, IDS_PER_CALL):
        under: list[Json] = [["parent_id", "in", list[Json](some)]]
        for contact in await _search_all(crm, PARTNER, under, fields=(MAKER, WRITER)):
            if contact.external_id.startswith(OWN_PREFIX) and was_edited_by_person(contact):
                edited.add(contact.external_id)
    return edited


def mark_edited(row: SentRow, edited: Collection[str]) -> SentRow:
    """Return a row that remembers that a person edited its record, if one did."""
    if row.external_id not in edited:
        return row
    return replace(row, values={**row.values, EDITED: True})


async def save_edited(edited: Collection[str], store: CrmStore) -> None:
    """Remember that people edited these records."""
    rows = (await store.find_sent_rows(sorted(edited))).values()
    unmarked = [row for row in rows if EDITED not in row.values]
    await store.save_sent_rows([mark_edited(row, edited) for row in unmarked])


async def find_worked_on(model: str, records: Sequence[CrmRecord], crm: Odoo) -> set[int]:
    """Return the numbers of records with a message or an activity that is not by their maker."""
    makers = {record.id: _get_number(record.values.get(MAKER)) for record in records}
    worked_on: set[int] = set()
    for table, column in (("mail.message", "model"), ("mail.activity", "res_model")):
        has = await crm.fields(table)
        fields = [name for name in ("res_id", MAKER, "message_type") if name in has]
        for some in split_batches(list(makers), IDS_PER_CALL):
            about: list[Json] = [[column, "=", model], ["res_id", "in", list[Json](some)]]
            for each in await _search_all(crm, table, about, fields=fields):
                id_, author = each.values.get("res_id"), _get_number(each.values.get(MAKER))
                is_ours = (
                    author in (makers.get(id_), _SYSTEM_USER) if isinstance(id_, int) else True
                )
                is_mail = each.values.get("message_type") == "email"  # from outside, by the system
                if isinstance(id_, int) and (is_mail or not is_ours):
                    worked_on.add(id_)
    return worked_on


async def find_in_use(
    ids: Sequence[int], crm: Odoo, *, archived: Collection[tuple[str, int]]
) -> dict[int, str]:
    """Return which partners have something live under them, and what.

    `archived` are the records, by model and number, that do not count: an undo archives them.
    """
    in_use: dict[int, str] = {}
    for some in split_batches(ids, IDS_PER_CALL):
        above = dict(zip(some, some, strict=True))
        under: list[Json] = [["parent_id", "in", list[Json](some)]]
        for contact in await _search_all(crm, PARTNER, under, fields=("parent_id", ACTIVE)):
            parent = _get_number(contact.values.get("parent_id"))
            if parent is None:
                continue
            above[contact.id] = parent
            if contact.values.get(ACTIVE) and (PARTNER, contact.id) not in archived:
                in_use.setdefault(parent, "a contact")
        hanging: list[Json] = [["partner_id", "in", list[Json](list(above))]]
        live: list[Json] = [*hanging, [ACTIVE, "=", True]]
        with suppress(PermanentError, ConfigError):  # the CRM app is not installed or not ours
            for lead in await _search_all(crm, LEAD, live, fields=("partner_id",)):
                partner = _get_number(lead.values.get("partner_id"))
                if partner in above and (LEAD, lead.id) not in archived:
                    in_use.setdefault(above[partner], "a lead")
        with suppress(PermanentError, ConfigError):  # the same of the Sales app
            for order in await _search_all(crm, ORDER, hanging, fields=("partner_id",)):
                partner = _get_number(order.values.get("partner_id"))
                if partner in above:
                    in_use.setdefault(above[partner], "an order")
    return in_use


async def _search_all(
    crm: Odoo, model: str, domain: Sequence[Json], *, fields: Iterable[str]
) -> list[CrmRecord]:
    found: list[CrmRecord] = []
    while page := await crm.search(
        model, domain, fields=list(fields), limit=_PAGE_SIZE, after=found[-1].id if found else 0
    ):
        found += page
        if len(page) < _PAGE_SIZE:
            break
    return found


def _get_number(link: Json) -> int | None:
    first = link[0] if isinstance(link, list | tuple) and link else link
    return first if isinstance(first, int) and not isinstance(first, bool) else None
