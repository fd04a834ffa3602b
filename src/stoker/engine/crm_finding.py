"""Finds what stands in a CRM for rows: by number, by what it says, or under what it belongs to.

How records are looked for is the connector's business; what follows from what was found is decided
in `core.upserts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from stoker.accounts import SentRow
from stoker.core.crm import CrmRecord, CrmRow
from stoker.core.crm_people import HANDS
from stoker.core.model import Json
from stoker.core.upserts import FOUND, ID
from stoker.sources import Crm


async def found_there(
    rows: Sequence[CrmRow], wanted: Sequence[CrmRow], *, crm: Crm, sent: Mapping[str, SentRow]
) -> dict[str, CrmRecord]:
    """Return what stands there for wanted rows and for what they link to, by external id.

    With who had it in hand. Raises as `Crm` does.
    """
    linked = {id_ for row in wanted for id_ in row.links.values()}
    asked = {row.external_id: row for row in rows if row.external_id in linked}
    asked |= {row.external_id: row for row in wanted}
    found = await found_again(asked.values(), crm=crm, known=numbers(sent))
    # Where nothing is remembered, people may have changed what a row is looked for by: taken for
    # missing, it would be written over.
    lost = [row for row in wanted if row.external_id not in found and row.external_id not in sent]
    parents = {
        id_: record for id_, record in found.items() if id_ not in sent or sent[id_].run == FOUND
    }
    return found | await _found_under(parents, lost, crm)


async def found_again(
    rows: Iterable[CrmRow], *, crm: Crm, known: Mapping[str, int]
) -> dict[str, CrmRecord]:
    """Return the records of rows by external id, with who had them in hand."""
    asked = [replace(row, values={**dict.fromkeys(HANDS, ""), **row.values}) for row in rows]
    return await crm.found(asked, known=known) if asked else {}


def numbers(sent: Mapping[str, SentRow]) -> dict[str, int]:
    """Return the records' own numbers in the CRM, by external id, as far as they are remembered."""
    return {
        external_id: number
        for external_id, each in sent.items()
        if isinstance(number := each.values.get(ID), int)
    }


async def _found_under(
    parents: Mapping[str, CrmRecord], lost: Sequence[CrmRow], crm: Crm
) -> dict[str, CrmRecord]:
    """Find rows among all that hangs under these records."""
    found: dict[str, CrmRecord] = {}
    for model, column in sorted({(row.model, column) for row in lost for column in row.links}):
        rows = {
            row.external_id: row
            for row in lost
            if row.model == model and row.links.get(column) in parents
        }
        if not rows or column not in (known := await crm.fields(model)):
            continue
        above: list[Json] = [*{parents[row.links[column]].id for row in rows.values()}]
        columns = {*HANDS, *(name for row in rows.values() for name in row.values)}
        after: int | None = 0
        while after is not None:
            page = await crm.search(
                model, [[column, "in", above]], fields=sorted(columns & known.keys()), after=after
            )
            found |= {each.external_id: each for each in page if each.external_id in rows}
            after = page[-1].id if page else None
    return found
