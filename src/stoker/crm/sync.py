"""Write rows into a tenant's CRM: store the intent, send, read back, store the result.

The intent is stored first, so that after a crash our own half-done write is not mistaken for a
person's. `upsert` decides what is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoker.base.types import Json
from stoker.crm.model import CrmRecord, CrmRow, RowResult, RowWrite, SentRow
from stoker.crm.odoo import Odoo
from stoker.crm.store import CrmStore
from stoker.crm.upsert import (
    AUTHOR_FIELDS,
    CRM_KEY,
    FOUND_IN_CRM,
    ID,
    compute_values_after_send,
    is_archived_by_undo,
    is_written_in,
    list_changed_rows,
    plan_upserts,
    was_undone,
)


async def find_existing(
    rows: Sequence[CrmRow], wanted: Sequence[CrmRow], *, crm: Odoo, sent: Mapping[str, SentRow]
) -> dict[str, CrmRecord]:
    """Return the records of wanted rows and of what they link to, by external id.

    With who edited them. Raises as `Odoo` does.
    """
    linked = {id_ for row in wanted for id_ in row.links.values()}
    asked = {row.external_id: row for row in rows if row.external_id in linked}
    asked |= {row.external_id: row for row in wanted}
    found = await read_records(asked.values(), crm=crm, known=get_known_ids(sent))
    # Where nothing is stored, people may have changed the value that a row is found by: taken for
    # missing, it would be overwritten.
    lost = [row for row in wanted if row.external_id not in found and row.external_id not in sent]
    parents = {
        id_: record
        for id_, record in found.items()
        if id_ not in sent or sent[id_].run == FOUND_IN_CRM
    }
    return found | await _find_under_parents(parents, lost, crm)


async def read_records(
    rows: Iterable[CrmRow], *, crm: Odoo, known: Mapping[str, int]
) -> dict[str, CrmRecord]:
    """Return the records of rows by external id, with who edited them."""
    asked = [
        replace(row, values={**dict.fromkeys(AUTHOR_FIELDS, ""), **row.values}) for row in rows
    ]
    return await crm.find_records(asked, known=known) if asked else {}


def get_known_ids(sent: Mapping[str, SentRow]) -> dict[str, int]:
    """Return the records' numbers in the CRM by external id, as far as they are stored."""
    return {
        external_id: number
        for external_id, each in sent.items()
        if isinstance(number := each.values.get(ID), int)
    }


async def _find_under_parents(
    parents: Mapping[str, CrmRecord], lost: Sequence[CrmRow], crm: Odoo
) -> dict[str, CrmRecord]:
    """Find rows among all children of these records."""
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
        columns = {*AUTHOR_FIELDS, *(name for row in rows.values() for name in row.values)}
        after: int | None = 0
        while after is not None:
            page = await crm.search(
                model, [[column, "in", above]], fields=sorted(columns & known.keys()), after=after
            )
            found |= {each.external_id: each for each in page if each.external_id in rows}
            after = page[-1].id if page else None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertResult:
    """What became of rows, by external id, with reasons in sentences."""

    written: tuple[str, ...] = ()
    same: int = 0  # nothing needed to be sent
    left: Mapping[str, str]  # left as they are, because of people's edits or the row's values
    refused: Mapping[str, str]  # the CRM refuses them as they are
    later: Mapping[str, str]  # to be retried
    retry_after: timedelta | None = None


async def upsert_rows(
    rows: Sequence[CrmRow], *, crm: Odoo, store: CrmStore, run: str, now: datetime
) -> UpsertResult:
    """Bring the CRM up to date with these rows, once, however often it is called.

    Rows with the values of last time cost nothing. What went into another CRM does not count for
    this one. Raises as `Odoo` does.
    """
    ever = await store.find_sent_rows([row.external_id for row in rows])
    sent = {id_: each for id_, each in ever.items() if is_written_in(each, crm.database_id)}
    wanted = list_changed_rows(rows, sent)
    ids = {row.external_id for row in rows}
    if not wanted:
        return UpsertResult(same=len(ids), left={}, refused={}, later={})
    there = await find_existing(rows, wanted, crm=crm, sent=sent)
    fields = {model: await crm.fields(model) for model in {row.model for row in wanted}}
    plan = plan_upserts(wanted, sent=sent, there=there, fields=fields, beside=rows)
    writes = [write for write in plan.writes if write.cells]
    idle = [write for write in plan.writes if not write.cells]
    await store.save_sent_rows(
        [_build_intent(write, crm.database_id, run, now) for write in writes]
    )
    results = await crm.upsert(writes) if writes else {}
    done = [write for write in writes if results[write.row.external_id].id is not None]
    after = {**there, **await _read_back(done, results, crm)}
    sent_rows = [
        _build_outcome(write, after[write.row.external_id], sent, crm.database_id, run, now)
        for write in (*done, *idle)
        if write.row.external_id in after
        and (write.cells or not _would_hide_undo(write, sent, there))
    ]
    await store.save_sent_rows(sent_rows)
    failed = [each for each in results.values() if each.id is None]
    return UpsertResult(
        written=tuple(write.row.external_id for write in done),
        same=len(ids) - len(writes) - len(plan.skipped),
        left={each.external_id: each.reason for each in plan.skipped},
        refused={each.external_id: each.reason for each in failed if not each.is_retryable},
        later={each.external_id: each.reason for each in failed if each.is_retryable},
        retry_after=max(
            (each.retry_after for each in failed if each.retry_after is not None), default=None
        ),
    )


async def _read_back(
    done: Sequence[RowWrite], results: Mapping[str, RowResult], crm: Odoo
) -> dict[str, CrmRecord]:
    known = {
        write.row.external_id: id_
        for write in done
        if (id_ := results[write.row.external_id].id) is not None
    }
    return await read_records((write.row for write in done), crm=crm, known=known)


def _would_hide_undo(
    write: RowWrite, sent: Mapping[str, SentRow], there: Mapping[str, CrmRecord]
) -> bool:
    """Return whether storing a row would hide that it was undone."""
    id_ = write.row.external_id
    earlier = sent.get(id_)
    return earlier is not None and (was_undone(earlier) or is_archived_by_undo(earlier, there[id_]))


def _build_intent(write: RowWrite, place: str, run: str, now: datetime) -> SentRow:
    return SentRow(
        external_id=write.row.external_id,
        model=write.row.model,
        digest="",  # of no values: it is checked again until it is written
        values={**write.intent, CRM_KEY: place},
        before=write.before,
        run=run,
        at=now,
    )


def _build_outcome(
    write: RowWrite,
    record: CrmRecord,
    sent: Mapping[str, SentRow],
    place: str,
    run: str,
    now: datetime,
) -> SentRow:
    earlier = sent.get(write.row.external_id)
    # A run that wrote nothing has nothing to undo: the run that did keeps the row, also when its
    # answer was lost.
    idle = None if write.cells else earlier
    return SentRow(
        external_id=write.row.external_id,
        model=write.row.model,
        digest=write.digest,
        values={**compute_values_after_send(write, record, earlier), CRM_KEY: place},
        before=write.before if idle is None else idle.before,
        run=run if write.cells else FOUND_IN_CRM if idle is None else idle.run,
        at=now,
    )
