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
from stoker.crm.sync import numbers
from stoker.crm.upsert import (
    ACTIVE,
    FOUND,
    HANDS,
    ID,
    PLACE,
    UNDONE,
    Crm,
    Remembered,
    is_ours,
    was_taken_back,
    worked_on,
    written_there,
)

if TYPE_CHECKING:
    from stoker.enrichment.model import NightStore

ARCHIVED: Mapping[str, Json] = {ACTIVE: False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """What is written to take one row back; empty when nothing of it is left to take back."""

    values: Mapping[str, Json]
    left: tuple[str, ...] = ()  # columns somebody changed since
    because: str = ""  # why a record that was made or brought back is not archived


def undone(sent: Remembered, record: CrmRecord) -> Undoing:
    """Return how to restore what was there before, where nobody has changed it since.

    `record` has our columns, and who made and last wrote it where the CRM tells.
    """
    ours = {column: value for column, value in sent.values.items() if column not in (ID, PLACE)}
    theirs = tuple(
        column
        for column, value in ours.items()
        if not is_ours(value, record.values.get(column))
        and not (sent.before and is_ours(sent.before.get(column), record.values.get(column)))
    )
    if not sent.before:
        if theirs:
            return Undoing(values={}, left=theirs)
        if worked_on(record):
            return Undoing(values={}, because="somebody has worked on it since it was made")
        return Undoing(values=ARCHIVED)
    restored: dict[str, Json] = {
        column: sent.before.get(column) or False
        for column in ours
        if column not in theirs
        and (sent.before.get(column) or False) != (record.values.get(column) or False)
    }
    if ACTIVE in restored and (theirs or worked_on(record)):
        del restored[ACTIVE]
        because = "somebody has worked on it since it was brought back"
        return Undoing(values=restored, left=theirs, because=because)
    return Undoing(values=restored, left=theirs)


def meant(sent: Remembered, undoing: Undoing) -> dict[str, Json]:
    """Return what to remember before a row is taken back: for each field either may be found."""
    kept = dict(sent.values)
    for column in undoing.values.keys() & kept.keys():
        ours = kept[column]
        kept[column] = [*(ours if isinstance(ours, list) else [ours]), sent.before.get(column)]
    return kept


def remembered_after(sent: Remembered, undoing: Undoing) -> dict[str, Json]:
    """Return what to remember of a row once it was taken back.

    What was restored is ours as it was before, so a later night that has something new to say may
    say it; what people changed is theirs as before.
    """
    kept = dict(sent.values)
    for column, value in sent.values.items() if sent.before else ():
        # One of several: an earlier try got as far as the CRM and not back here.
        if column in undoing.values or (isinstance(value, list) and column not in undoing.left):
            kept[column] = sent.before.get(column)
        elif column == ACTIVE:
            # Not archived by this: if it is archived, somebody else did it.
            del kept[column]
    return kept


ROWS_A_PAGE = 200

_OURS = (ID, PLACE)  # remembered beside a record's columns


@dataclass(slots=True, kw_only=True)
class Undone:
    """What became of a run's writes, by external id. Reasons are sentences a tenant can read."""

    rows: int = 0  # that the run wrote
    restored: list[str] = field(default_factory=list)  # fields are as they were before
    archived: list[str] = field(default_factory=list)  # records which that run made
    same: int = 0  # there was nothing to take back, or it was taken back already
    left: dict[str, str] = field(default_factory=dict)  # wholly or in part


@dataclass(frozen=True, slots=True)
class _Taking:
    sent: SentRow
    record: CrmRecord
    undoing: Undoing


async def undo_run(
    run: str, *, crm: Crm, store: NightStore, now: datetime, dry: bool = False
) -> Undone:
    """Take back what a run wrote, where nobody has changed it since. Twice is once.

    Dry, only find out what would be done. Raises as `Crm` does; what was done until then is
    remembered, and the same call goes on from there.
    """
    told = Undone()
    after = ""
    while page := await store.sent_by(run, after=after, limit=ROWS_A_PAGE):
        after = page[-1].external_id
        told.rows += len(page)
        latest = await store.sent_rows([sent.external_id for sent in page])
        standing = [
            sent for sent in page if _stands(sent, latest[sent.external_id], crm.place, told)
        ]
        records = await _records(standing, crm)
        takings = list(_decided(standing, records, told))
        if not dry:
            takings = await _carried_out(takings, crm, store, told, now)
        for taking in takings:
            if not taking.undoing.values:
                told.same += not taking.undoing.left
            elif taking.sent.before:
                told.restored.append(taking.sent.external_id)
            else:
                told.archived.append(taking.sent.external_id)
    return told


def _stands(sent: SentRow, latest: SentRow, place: str, told: Undone) -> bool:
    """Say whether a row is there to be taken back."""
    if not written_there(sent, place):
        told.left[sent.external_id] = "it went into another CRM than the one connected now"
        return False
    if was_taken_back(sent):
        told.same += 1
        return False
    if latest.run not in (sent.run, FOUND) and not was_taken_back(latest):
        told.left[sent.external_id] = f"run {latest.run} has written it since; undo that one first"
        return False
    return True


def _decided(
    standing: Iterable[SentRow], records: dict[str, CrmRecord], told: Undone
) -> Iterator[_Taking]:
    for sent in standing:
        record = records.get(sent.external_id)
        if record is None and not sent.digest and ID not in sent.values:
            told.same += 1  # it was to be made, and never got there
            continue
        if record is None:
            told.left[sent.external_id] = "it is no longer in the CRM"
            continue
        undoing = undone(sent, record)
        if undoing.left:
            named = ", ".join(undoing.left)
            told.left[sent.external_id] = f"somebody has changed {named} since"
        if undoing.because:
            told.left[sent.external_id] = undoing.because
            if not undoing.values:
                continue
        yield _Taking(sent, record, undoing)


async def _carried_out(
    takings: Sequence[_Taking], crm: Crm, store: NightStore, told: Undone, now: datetime
) -> list[_Taking]:
    """Do it, and return those that were done."""
    await store.keep_sent(
        [
            replace(taking.sent, values=meant(taking.sent, taking.undoing), at=now)
            for taking in takings
            if taking.undoing.values
        ]
    )
    done = [taking for taking in takings if not taking.undoing.values]
    for alike in _alike(takings):
        try:
            await _change(alike, crm)
            done += alike
        except PermanentError:
            done += [taking for taking in alike if await _changed_alone(taking, crm, told)]
    whole = [taking for taking in done if taking.sent.before or not taking.undoing.left]
    await store.keep_sent([_taken_back(taking, now) for taking in whole])
    return done


def _alike(takings: Iterable[_Taking]) -> list[list[_Taking]]:
    groups: dict[tuple[str, str], list[_Taking]] = {}
    for taking in takings:
        if taking.undoing.values:
            key = (taking.sent.model, compact_json(dict(taking.undoing.values)))
            groups.setdefault(key, []).append(taking)
    return list(groups.values())


async def _change(alike: Sequence[_Taking], crm: Crm) -> None:
    first = alike[0]
    ids = [taking.record.id for taking in alike]
    await crm.change(first.sent.model, ids, first.undoing.values)


async def _changed_alone(taking: _Taking, crm: Crm, told: Undone) -> bool:
    try:
        await _change([taking], crm)
    except PermanentError as error:
        told.left[taking.sent.external_id] = str(error)
        return False
    return True


async def _records(standing: Sequence[SentRow], crm: Crm) -> dict[str, CrmRecord]:
    rows = [
        CrmRow(
            model=sent.model,
            external_id=sent.external_id,
            values={column: "" for column in (*sent.values, *HANDS) if column not in _OURS},
            # For one whose making was never answered, so that its number is not known.
            look=("name", name) if isinstance(name := sent.values.get("name"), str) else None,
        )
        for sent in standing
    ]
    known = numbers({sent.external_id: sent for sent in standing})
    return await crm.found(rows, known=known) if rows else {}


def _taken_back(taking: _Taking, now: datetime) -> SentRow:
    values = {**remembered_after(taking.sent, taking.undoing), ID: taking.record.id}
    return replace(taking.sent, digest=f"{UNDONE}{taking.sent.digest}", values=values, at=now)
