"""Takes back what a run wrote into a tenant's CRM, as far as it is still as that run left it.

Page by page, alike changes together. What is meant is remembered before it is done, so stopping
half-way and starting again ends the same. What is taken back is decided in `core.taking_back`.

What is written to take a run's writes into a CRM back: what was there before, where it is ours.

A field somebody changed since is theirs and stays. A record that was made is archived, never
deleted: people may have hung notes and tasks on it that nobody here can see, and a person can bring
it back. Talking to the CRM is not done here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from stoker.accounts.model import SentRow
from stoker.base.errors import PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import Json
from stoker.crm.rows import CrmRecord, CrmRow
from stoker.crm.sync import get_known_ids
from stoker.crm.upsert import (
    ACTIVE,
    AUTHOR_FIELDS,
    CRM_KEY,
    FOUND_IN_CRM,
    ID,
    UNDONE_PREFIX,
    Crm,
    SentValues,
    is_own_value,
    is_written_in,
    was_edited_by_person,
    was_undone,
)

if TYPE_CHECKING:
    from stoker.enrichment.model import WorkStore

ARCHIVED: Mapping[str, Json] = {ACTIVE: False}


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoWrite:
    """What is written to take one row back; empty when nothing of it is left to take back."""

    values: Mapping[str, Json]
    skipped: tuple[str, ...] = ()  # columns somebody changed since
    reason: str = ""  # why a record that was made or brought back is not archived


def plan_undo(sent: SentValues, record: CrmRecord) -> UndoWrite:
    """Return how to restore what was there before, where nobody has changed it since.

    `record` has our columns, and who made and last wrote it where the CRM tells.
    """
    ours = {column: value for column, value in sent.values.items() if column not in (ID, CRM_KEY)}
    theirs = tuple(
        column
        for column, value in ours.items()
        if not is_own_value(value, record.values.get(column))
        and not (sent.before and is_own_value(sent.before.get(column), record.values.get(column)))
    )
    if not sent.before:
        if theirs:
            return UndoWrite(values={}, skipped=theirs)
        if was_edited_by_person(record):
            return UndoWrite(values={}, reason="somebody has worked on it since it was made")
        return UndoWrite(values=ARCHIVED)
    restored: dict[str, Json] = {
        column: sent.before.get(column) or False
        for column in ours
        if column not in theirs
        and (sent.before.get(column) or False) != (record.values.get(column) or False)
    }
    if ACTIVE in restored and (theirs or was_edited_by_person(record)):
        del restored[ACTIVE]
        because = "somebody has worked on it since it was brought back"
        return UndoWrite(values=restored, skipped=theirs, reason=because)
    return UndoWrite(values=restored, skipped=theirs)


def list_expected_values(sent: SentValues, undoing: UndoWrite) -> dict[str, Json]:
    """Return what to remember before a row is taken back: for each field either may be found."""
    kept = dict(sent.values)
    for column in undoing.values.keys() & kept.keys():
        ours = kept[column]
        kept[column] = [*(ours if isinstance(ours, list) else [ours]), sent.before.get(column)]
    return kept


def compute_values_after_undo(sent: SentValues, undoing: UndoWrite) -> dict[str, Json]:
    """Return what to remember of a row once it was taken back.

    What was restored is ours as it was before, so a later night that has something new to say may
    say it; what people changed is theirs as before.
    """
    kept = dict(sent.values)
    for column, value in sent.values.items() if sent.before else ():
        # One of several: an earlier try got as far as the CRM and not back here.
        if column in undoing.values or (isinstance(value, list) and column not in undoing.skipped):
            kept[column] = sent.before.get(column)
        elif column == ACTIVE:
            # Not archived by this: if it is archived, somebody else did it.
            del kept[column]
    return kept


ROWS_PER_PAGE = 200

_OWN_KEYS = (ID, CRM_KEY)  # remembered beside a record's columns


@dataclass(slots=True, kw_only=True)
class UndoResult:
    """What became of a run's writes, by external id. Reasons are sentences a tenant can read."""

    rows: int = 0  # that the run wrote
    restored: list[str] = field(default_factory=list)  # fields are as they were before
    archived: list[str] = field(default_factory=list)  # records which that run made
    same: int = 0  # there was nothing to take back, or it was taken back already
    left: dict[str, str] = field(default_factory=dict)  # wholly or in part


@dataclass(frozen=True, slots=True)
class _UndoItem:
    sent: SentRow
    record: CrmRecord
    undo_write: UndoWrite


async def undo_run(
    run: str, *, crm: Crm, store: WorkStore, now: datetime, dry: bool = False
) -> UndoResult:
    """Take back what a run wrote, where nobody has changed it since. Twice is once.

    Dry, only find out what would be done. Raises as `Crm` does; what was done until then is
    remembered, and the same call goes on from there.
    """
    told = UndoResult()
    after = ""
    while page := await store.list_sent_rows(run, after=after, limit=ROWS_PER_PAGE):
        after = page[-1].external_id
        told.rows += len(page)
        latest = await store.find_sent_rows([sent.external_id for sent in page])
        standing = [
            sent
            for sent in page
            if _is_undoable(sent, latest[sent.external_id], crm.database_id, told)
        ]
        records = await _read_records(standing, crm)
        takings = list(_plan_items(standing, records, told))
        if not dry:
            takings = await _apply_items(takings, crm, store, told, now)
        for taking in takings:
            if not taking.undo_write.values:
                told.same += not taking.undo_write.skipped
            elif taking.sent.before:
                told.restored.append(taking.sent.external_id)
            else:
                told.archived.append(taking.sent.external_id)
    return told


def _is_undoable(sent: SentRow, latest: SentRow, place: str, told: UndoResult) -> bool:
    """Say whether a row is there to be taken back."""
    if not is_written_in(sent, place):
        told.left[sent.external_id] = "it went into another CRM than the one connected now"
        return False
    if was_undone(sent):
        told.same += 1
        return False
    if latest.run not in (sent.run, FOUND_IN_CRM) and not was_undone(latest):
        told.left[sent.external_id] = f"run {latest.run} has written it since; undo that one first"
        return False
    return True


def _plan_items(
    standing: Iterable[SentRow], records: dict[str, CrmRecord], told: UndoResult
) -> Iterator[_UndoItem]:
    for sent in standing:
        record = records.get(sent.external_id)
        if record is None and not sent.digest and ID not in sent.values:
            told.same += 1  # it was to be made, and never got there
            continue
        if record is None:
            told.left[sent.external_id] = "it is no longer in the CRM"
            continue
        undoing = plan_undo(sent, record)
        if undoing.skipped:
            named = ", ".join(undoing.skipped)
            told.left[sent.external_id] = f"somebody has changed {named} since"
        if undoing.reason:
            told.left[sent.external_id] = undoing.reason
            if not undoing.values:
                continue
        yield _UndoItem(sent, record, undoing)


async def _apply_items(
    takings: Sequence[_UndoItem], crm: Crm, store: WorkStore, told: UndoResult, now: datetime
) -> list[_UndoItem]:
    """Do it, and return those that were done."""
    await store.save_sent_rows(
        [
            replace(
                taking.sent, values=list_expected_values(taking.sent, taking.undo_write), at=now
            )
            for taking in takings
            if taking.undo_write.values
        ]
    )
    done = [taking for taking in takings if not taking.undo_write.values]
    for alike in _group_alike(takings):
        try:
            await _write_group(alike, crm)
            done += alike
        except PermanentError:
            done += [taking for taking in alike if await _write_alone(taking, crm, told)]
    whole = [taking for taking in done if taking.sent.before or not taking.undo_write.skipped]
    await store.save_sent_rows([_build_undone_row(taking, now) for taking in whole])
    return done


def _group_alike(takings: Iterable[_UndoItem]) -> list[list[_UndoItem]]:
    groups: dict[tuple[str, str], list[_UndoItem]] = {}
    for taking in takings:
        if taking.undo_write.values:
            key = (taking.sent.model, compact_json(dict(taking.undo_write.values)))
            groups.setdefault(key, []).append(taking)
    return list(groups.values())


async def _write_group(alike: Sequence[_UndoItem], crm: Crm) -> None:
    first = alike[0]
    ids = [taking.record.id for taking in alike]
    await crm.change(first.sent.model, ids, first.undo_write.values)


async def _write_alone(taking: _UndoItem, crm: Crm, told: UndoResult) -> bool:
    try:
        await _write_group([taking], crm)
    except PermanentError as error:
        told.left[taking.sent.external_id] = str(error)
        return False
    return True


async def _read_records(standing: Sequence[SentRow], crm: Crm) -> dict[str, CrmRecord]:
    rows = [
        CrmRow(
            model=sent.model,
            external_id=sent.external_id,
            values={
                column: "" for column in (*sent.values, *AUTHOR_FIELDS) if column not in _OWN_KEYS
            },
            # For one whose making was never answered, so that its number is not known.
            match_by=("name", name) if isinstance(name := sent.values.get("name"), str) else None,
        )
        for sent in standing
    ]
    known = get_known_ids({sent.external_id: sent for sent in standing})
    return await crm.find_records(rows, known=known) if rows else {}


def _build_undone_row(taking: _UndoItem, now: datetime) -> SentRow:
    values = {**compute_values_after_undo(taking.sent, taking.undo_write), ID: taking.record.id}
    return replace(
        taking.sent, digest=f"{UNDONE_PREFIX}{taking.sent.digest}", values=values, at=now
    )
