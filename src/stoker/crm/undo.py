"""Undo what a run wrote into a tenant's CRM, where it is still as that run left it.

A field that a person changed since stays. A record that the run created is archived, never deleted:
people may have added notes and tasks to it, and can restore it. The undo goes page by page, equal
changes together. The intent is stored before each write, so stopping half-way and starting again
ends the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import Json
from stoker.context import TenantStores
from stoker.crm.model import CrmRecord, CrmRow, SentRow
from stoker.crm.odoo import Odoo, get_known_ids, read_records
from stoker.crm.store import CrmStore
from stoker.crm.upsert import (
    ACTIVE,
    CRM_KEY,
    FOUND_IN_CRM,
    ID,
    UNDONE_PREFIX,
    is_own_value,
    is_written_in,
    was_edited_by_person,
    was_undone,
)
from stoker.runs.model import RunState, format_run_name, parse_run_name

ARCHIVED: Mapping[str, Json] = {ACTIVE: False}


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoWrite:
    """What is written to undo one row; empty when nothing of it is left to undo."""

    values: Mapping[str, Json]
    skipped: tuple[str, ...] = ()  # columns that a person changed since
    reason: str = ""  # why a record that was created or restored is not archived


def plan_undo(sent: SentRow, record: CrmRecord) -> UndoWrite:
    """Return how to restore the values before a run, where no person changed them since.

    `record` has our columns, and who created and last wrote it where the CRM says so.
    """
    own = {column: value for column, value in sent.values.items() if column not in (ID, CRM_KEY)}
    changed = tuple(
        column
        for column, value in own.items()
        if not is_own_value(value, record.values.get(column))
        and not (sent.before and is_own_value(sent.before.get(column), record.values.get(column)))
    )
    if not sent.before:
        if changed:
            return UndoWrite(values={}, skipped=changed)
        if was_edited_by_person(record):
            return UndoWrite(values={}, reason="a person has worked on it since it was made")
        return UndoWrite(values=ARCHIVED)
    restored: dict[str, Json] = {
        column: sent.before.get(column) or False
        for column in own
        if column not in changed
        and (sent.before.get(column) or False) != (record.values.get(column) or False)
    }
    if ACTIVE in restored and (changed or was_edited_by_person(record)):
        del restored[ACTIVE]
        reason = "a person has worked on it since it was brought back"
        return UndoWrite(values=restored, skipped=changed, reason=reason)
    return UndoWrite(values=restored, skipped=changed)


def list_expected_values(sent: SentRow, undo_write: UndoWrite) -> dict[str, Json]:
    """Return the values to store before an undo: for each field either may be found."""
    values = dict(sent.values)
    for column in undo_write.values.keys() & values.keys():
        own = values[column]
        values[column] = [*(own if isinstance(own, list) else [own]), sent.before.get(column)]
    return values


def compute_values_after_undo(sent: SentRow, undo_write: UndoWrite) -> dict[str, Json]:
    """Return the values to store for a row after it was undone.

    What was restored is ours as it was before, so a later run with new values may write them; what
    people changed stays theirs.
    """
    values = dict(sent.values)
    for column, value in sent.values.items() if sent.before else ():
        # A list: an earlier try reached the CRM and its answer was lost.
        if column in undo_write.values or (
            isinstance(value, list) and column not in undo_write.skipped
        ):
            values[column] = sent.before.get(column)
        elif column == ACTIVE:
            # Not archived by this undo: if it is archived, a person did it.
            del values[column]
    return values


ROWS_PER_PAGE = 200

LATEST, MAX_RUNS_SEARCHED = "latest", 1000

_OWN_KEYS = (ID, CRM_KEY)  # stored beside a record's columns


@dataclass(slots=True, kw_only=True)
class UndoResult:
    """What became of a run's writes, by external id, with reasons in sentences."""

    rows: int = 0  # that the run wrote
    restored: list[str] = field(default_factory=list)  # fields are as they were before
    archived: list[str] = field(default_factory=list)  # records which that run made
    same: int = 0  # nothing to undo, or undone already
    left: dict[str, str] = field(default_factory=dict)  # wholly or in part


@dataclass(frozen=True, slots=True)
class _UndoItem:
    sent: SentRow
    record: CrmRecord
    undo_write: UndoWrite


async def undo_run(
    run: str, *, crm: Odoo, store: CrmStore, now: datetime, dry: bool = False
) -> UndoResult:
    """Undo what a run wrote, where no person changed it since. Twice is once.

    With `dry`, only report what would be done. Raises as `Odoo` does; what was done until then is
    stored, and the same call continues from there.
    """
    result = UndoResult()
    after = ""
    while page := await store.list_sent_rows(run, after=after, limit=ROWS_PER_PAGE):
        after = page[-1].external_id
        result.rows += len(page)
        latest = await store.find_sent_rows([sent.external_id for sent in page])
        undoable = [
            sent
            for sent in page
            if _is_undoable(sent, latest[sent.external_id], crm.database_id, result)
        ]
        records = await _read_records(undoable, crm)
        items = list(_plan_items(undoable, records, result))
        if not dry:
            items = await _apply_items(items, crm, store, result, now)
        for item in items:
            if not item.undo_write.values:
                result.same += not item.undo_write.skipped
            elif item.sent.before:
                result.restored.append(item.sent.external_id)
            else:
                result.archived.append(item.sent.external_id)
    return result


def _is_undoable(sent: SentRow, latest: SentRow, database_id: str, result: UndoResult) -> bool:
    """Return whether a row can be undone."""
    if not is_written_in(sent, database_id):
        result.left[sent.external_id] = "it went into another CRM than the one connected now"
        return False
    if was_undone(sent):
        result.same += 1
        return False
    if latest.run not in (sent.run, FOUND_IN_CRM) and not was_undone(latest):
        result.left[sent.external_id] = (
            f"run {latest.run} has written it since; undo that one first"
        )
        return False
    return True


def _plan_items(
    undoable: Iterable[SentRow], records: dict[str, CrmRecord], result: UndoResult
) -> Iterator[_UndoItem]:
    for sent in undoable:
        record = records.get(sent.external_id)
        if record is None and not sent.digest and ID not in sent.values:
            result.same += 1  # it was to be created, and never arrived
            continue
        if record is None:
            result.left[sent.external_id] = "it is no longer in the CRM"
            continue
        undo_write = plan_undo(sent, record)
        if undo_write.skipped:
            named = ", ".join(undo_write.skipped)
            result.left[sent.external_id] = f"a person has changed {named} since"
        if undo_write.reason:
            result.left[sent.external_id] = undo_write.reason
            if not undo_write.values:
                continue
        yield _UndoItem(sent, record, undo_write)


async def _apply_items(
    items: Sequence[_UndoItem], crm: Odoo, store: CrmStore, result: UndoResult, now: datetime
) -> list[_UndoItem]:
    """Write the changes, and return those that were written."""
    await store.save_sent_rows(
        [
            replace(
                item.sent,
                values=list_expected_values(item.sent, item.undo_write),
                at=_get_later(item.sent, now),
            )
            for item in items
            if item.undo_write.values
        ]
    )
    done = [item for item in items if not item.undo_write.values]
    for alike in _group_alike(items):
        try:
            await _write_group(alike, crm)
            done += alike
        except PermanentError:
            done += [item for item in alike if await _write_alone(item, crm, result)]
    whole = [item for item in done if item.sent.before or not item.undo_write.skipped]
    await store.save_sent_rows([_build_undone_row(item, now) for item in whole])
    return done


def _group_alike(items: Iterable[_UndoItem]) -> list[list[_UndoItem]]:
    groups: dict[tuple[str, str], list[_UndoItem]] = {}
    for item in items:
        if item.undo_write.values:
            key = (item.sent.model, compact_json(dict(item.undo_write.values)))
            groups.setdefault(key, []).append(item)
    return list(groups.values())


async def _write_group(alike: Sequence[_UndoItem], crm: Odoo) -> None:
    first = alike[0]
    ids = [item.record.id for item in alike]
    await crm.change(first.sent.model, ids, first.undo_write.values)


async def _write_alone(item: _UndoItem, crm: Odoo, result: UndoResult) -> bool:
    try:
        await _write_group([item], crm)
    except PermanentError as error:
        result.left[item.sent.external_id] = str(error)
        return False
    return True


async def _read_records(undoable: Sequence[SentRow], crm: Odoo) -> dict[str, CrmRecord]:
    rows = [
        CrmRow(
            model=sent.model,
            external_id=sent.external_id,
            values={column: "" for column in sent.values if column not in _OWN_KEYS},
            # For one whose creation was never answered, so that its number is unknown.
            match_by=("name", name) if isinstance(name := sent.values.get("name"), str) else None,
        )
        for sent in undoable
    ]
    known = get_known_ids({sent.external_id: sent for sent in undoable})
    return await read_records(rows, crm=crm, known=known)


def _build_undone_row(item: _UndoItem, now: datetime) -> SentRow:
    values = {**compute_values_after_undo(item.sent, item.undo_write), ID: item.record.id}
    digest = f"{UNDONE_PREFIX}{item.sent.digest}"
    return replace(item.sent, digest=digest, values=values, at=_get_later(item.sent, now))


def _get_later(sent: SentRow, now: datetime) -> datetime:
    # The latest row of a record is found by its time: a clock that went back must not put it
    # behind those of earlier runs.
    return max(sent.at, now)


async def find_run_to_undo(store: TenantStores, name: str) -> str:
    """Return the name of a run that can be undone; `latest` is the newest that wrote anything.

    Raises ConfigError when there is none, or it has not ended.
    """
    see_runs = f"see those there are with: stoker runs list --tenant {store.tenant}"
    if name == LATEST:
        for run in await store.runs.list_runs(limit=MAX_RUNS_SEARCHED):
            if await store.crm.list_sent_rows(run.name, limit=1):
                name = run.name
                break
        else:
            raise ConfigError(
                f"none of the latest {MAX_RUNS_SEARCHED} runs of {store.tenant} wrote anything "
                f"into its CRM; {see_runs}"
            )
    at = parse_run_name(name)
    name = format_run_name(at)
    found = await store.runs.find_run(at)
    if found is not None and found.state is RunState.RUNNING:
        raise ConfigError(
            f"run {name} of {store.tenant} has not ended; stop it first, or, if its process died, "
            "start the next night: it ends what was left"
        )
    if found is None and not await store.crm.list_sent_rows(name, limit=1):
        raise ConfigError(f"{store.tenant} has no run {name}; {see_runs}")
    return name
