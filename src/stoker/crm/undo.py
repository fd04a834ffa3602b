"""Undo what a run wrote into a tenant's CRM, where it is still as that run left it.

A field that a person changed since stays. A record that the run created is archived, never deleted,
and stays when a person worked on it or something live hangs on it. Leads go first, then contacts,
then companies: a write to a company would hide who wrote its contacts. The intent is stored before
each write, so stopping half-way and starting again ends the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.base.types import Json
from stoker.context import TenantStores
from stoker.crm.edits import EDITED, OWN_KEYS, find_in_use, find_worked_on
from stoker.crm.model import LEAD, PARTNER, Cell, CrmRecord, CrmRow, RowWrite, SentRow
from stoker.crm.odoo import Odoo, get_known_ids, read_records
from stoker.crm.odoo_load import split_batches
from stoker.crm.store import CrmStore
from stoker.crm.upsert import (
    ACTIVE,
    FOUND_IN_CRM,
    ID,
    UNDONE_PREFIX,
    is_own_value,
    is_written_in,
    was_edited_by_person,
    was_undone,
)
from stoker.runs.model import RunState, format_run_name, parse_run_name

PROBABILITY = "probability"  # of a lead, in percent


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoWrite:
    """What is written to undo one row; empty when nothing of it is left to undo."""

    values: Mapping[str, Json]
    skipped: tuple[str, ...] = ()  # columns that a person changed since
    reason: str = ""  # why a record that was created or restored is not archived


def plan_undo(sent: SentRow, record: CrmRecord, *, keep: str = "") -> UndoWrite:
    """Return how to restore the values before a run, where no person changed them since.

    `record` has our columns, and who created and last wrote it where the CRM says so. `keep` is why
    it is not archived whatever it looks like.
    """
    own = {column: value for column, value in sent.values.items() if column not in OWN_KEYS}
    changed = tuple(
        column
        for column, value in own.items()
        if not is_own_value(value, record.values.get(column))
        and not (sent.before and is_own_value(sent.before.get(column), record.values.get(column)))
    )
    if was_edited_by_person(record):
        keep = keep or WORKED_ON
    if not sent.before:
        if changed:
            return UndoWrite(values={}, skipped=changed)
        return UndoWrite(values={} if keep else _archive_values(record), reason=keep)
    restored: dict[str, Json] = {
        column: sent.before.get(column) or False
        for column in own
        if column not in changed
        and (sent.before.get(column) or False) != (record.values.get(column) or False)
    }
    if ACTIVE not in restored:
        return UndoWrite(values=restored, skipped=changed)
    del restored[ACTIVE]
    if changed or keep:
        reason = keep or "a person has worked on it since it was brought back"
        return UndoWrite(values=restored, skipped=changed, reason=reason)
    return UndoWrite(values=restored | _archive_values(record), skipped=changed)


def _archive_values(record: CrmRecord) -> dict[str, Json]:
    """Return what archives a record. An archived lead without a chance would count as lost."""
    is_hopeless = PROBABILITY in record.values and not record.values[PROBABILITY]
    return {ACTIVE: False, PROBABILITY: 1} if is_hopeless else {ACTIVE: False}


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


WORKED_ON = "a person has worked on it since"

ROWS_PER_PAGE = 200

ROWS_PER_LOAD = 50  # restored in one call

LATEST, MAX_RUNS_SEARCHED = "latest", 1000

_IS_COMPANY = "is_company"

_PLACE_COLUMNS = {PARTNER: (_IS_COMPANY,), LEAD: (PROBABILITY,)}  # read beside our own


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
    return await _Undo(crm=crm, store=store, now=now, dry=dry).undo_rows(run)


@dataclass(slots=True, kw_only=True)
class _Undo:
    """One undo of one run."""

    crm: Odoo
    store: CrmStore
    now: datetime
    dry: bool
    result: UndoResult = field(default_factory=UndoResult)
    archived: set[tuple[str, int]] = field(default_factory=set)  # model and number

    async def undo_rows(self, run: str) -> UndoResult:
        """Undo leads, then contacts, then companies."""
        companies: list[tuple[SentRow, CrmRecord]] = []
        for of_leads in (True, False):
            async for page in self._list_pages(run):
                found = await self._find_page([s for s in page if (s.model == LEAD) is of_leads])
                companies += [each for each in found if _is_company(each[1])]
                await self._undo_page([each for each in found if not _is_company(each[1])])
        for some in split_batches(companies, ROWS_PER_PAGE):
            await self._undo_page(some)
        return self.result

    async def _list_pages(self, run: str) -> AsyncIterator[list[SentRow]]:
        after = ""
        while page := await self.store.list_sent_rows(run, after=after, limit=ROWS_PER_PAGE):
            after = page[-1].external_id
            yield page

    async def _find_page(self, page: Sequence[SentRow]) -> list[tuple[SentRow, CrmRecord]]:
        """Return what can be undone of a page, and its records."""
        latest = await self.store.find_sent_rows([sent.external_id for sent in page])
        undoable = [
            _carry_edit(sent, latest[sent.external_id])
            for sent in page
            if _is_undoable(sent, latest[sent.external_id], self.crm.database_id, self.result)
        ]
        records = await _read_records(undoable, self.crm)
        self.result.rows += len(page)
        found: list[tuple[SentRow, CrmRecord]] = []
        for sent in undoable:
            record = records.get(sent.external_id)
            if record is not None:
                found.append((sent, record))
            elif not sent.digest and ID not in sent.values:
                self.result.rows -= 1  # it was to be created, and never arrived
            else:
                self.result.left[sent.external_id] = "it is no longer in the CRM"
        return found

    async def _undo_page(self, found: Sequence[tuple[SentRow, CrmRecord]]) -> None:
        kept = await self._find_kept(found)
        items = list(_plan_items(found, kept, self.result))
        if not self.dry:
            items = await self._apply_items(items)
        for item in items:
            if item.undo_write.values.get(ACTIVE) is False:
                self.archived.add((item.sent.model, item.record.id))
            if not item.undo_write.values:
                self.result.same += not item.undo_write.skipped
            elif item.sent.before:
                self.result.restored.append(item.sent.external_id)
            else:
                self.result.archived.append(item.sent.external_id)

    async def _find_kept(self, found: Sequence[tuple[SentRow, CrmRecord]]) -> dict[str, str]:
        """Return which of these records must not be archived, by external id, and why."""
        made = [
            (sent, record) for sent, record in found if not sent.before or ACTIVE in sent.values
        ]
        kept = {sent.external_id: WORKED_ON for sent, _ in made if EDITED in sent.values}
        for model in dict.fromkeys(sent.model for sent, _ in made):
            here = [(s.external_id, r) for s, r in made if s.model == model]
            records = [record for _, record in here]
            worked_on = await find_worked_on(model, records, self.crm)
            in_use: Mapping[int, str] = {}
            if model == PARTNER:
                ids = [record.id for record in records]
                in_use = await find_in_use(ids, self.crm, archived=self.archived)
            for external_id, record in here:
                if record.id in worked_on:
                    kept.setdefault(external_id, WORKED_ON)
                elif record.id in in_use:
                    kept.setdefault(
                        external_id, f"{in_use[record.id]} there stays, so it stays too"
                    )
        return kept

    async def _apply_items(self, items: Sequence[_UndoItem]) -> list[_UndoItem]:
        """Write the changes, and return those that were written."""
        await self.store.save_sent_rows(
            [
                replace(
                    item.sent,
                    values=list_expected_values(item.sent, item.undo_write),
                    at=_get_later(item.sent, self.now),
                )
                for item in items
                if item.undo_write.values
            ]
        )
        done = await self._save_done([item for item in items if not item.undo_write.values])
        for alike in _group_archived(items):
            done += await self._save_done(await self._archive(alike))
        for some in _group_restored(items):
            done += await self._restore(some)
        return done

    async def _save_done(self, done: list[_UndoItem]) -> list[_UndoItem]:
        whole = [item for item in done if item.sent.before or not item.undo_write.skipped]
        await self.store.save_sent_rows([_build_undone_row(item, self.now) for item in whole])
        return done

    async def _archive(self, alike: Sequence[_UndoItem]) -> list[_UndoItem]:
        """Archive records in one call, or each in its own when that is refused."""
        first, ids = alike[0], [item.record.id for item in alike]
        try:
            await self.crm.change(first.sent.model, ids, first.undo_write.values)
        except PermanentError as error:
            if len(alike) == 1:
                self.result.left[first.sent.external_id] = str(error)
                return []
            return [each for item in alike for each in await self._archive([item])]
        return list(alike)

    async def _restore(self, alike: Sequence[_UndoItem]) -> list[_UndoItem]:
        """Restore fields of records in one load. Raises TransientError to be called again."""
        results = await self.crm.upsert([_build_restore(item) for item in alike])
        ended = [(item, results[item.sent.external_id]) for item in alike]
        done = await self._save_done([item for item, result in ended if result.id is not None])
        for item, result in ended:
            if result.id is None and result.is_retryable:
                raise TransientError(result.reason, retry_after=result.retry_after)
            if result.id is None:
                self.result.left[item.sent.external_id] = result.reason
        return done


def _is_company(record: CrmRecord) -> bool:
    return bool(record.values.get(_IS_COMPANY))


def _carry_edit(sent: SentRow, latest: SentRow) -> SentRow:
    """Return a row that knows of edits which a later run found."""
    if EDITED not in latest.values:
        return sent
    return replace(sent, values={**sent.values, EDITED: True})


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
    found: Iterable[tuple[SentRow, CrmRecord]], kept: Mapping[str, str], result: UndoResult
) -> Iterator[_UndoItem]:
    for sent, record in found:
        undo_write = plan_undo(sent, record, keep=kept.get(sent.external_id, ""))
        if undo_write.skipped:
            named = ", ".join(undo_write.skipped)
            result.left[sent.external_id] = f"a person has changed {named} since"
        if undo_write.reason:
            result.left[sent.external_id] = undo_write.reason
            if not undo_write.values:
                continue
        yield _UndoItem(sent, record, undo_write)


def _group_archived(items: Iterable[_UndoItem]) -> list[list[_UndoItem]]:
    """Return the records that are only archived, alike ones together."""
    groups: dict[tuple[str, ...], list[_UndoItem]] = {}
    for item in items:
        if item.undo_write.values and item.undo_write.values.keys() <= {ACTIVE, PROBABILITY}:
            groups.setdefault((item.sent.model, *item.undo_write.values), []).append(item)
    return list(groups.values())


def _group_restored(items: Iterable[_UndoItem]) -> Iterator[Sequence[_UndoItem]]:
    """Yield the other records, those with the same columns together."""
    groups: dict[tuple[str, ...], list[_UndoItem]] = {}
    for item in items:
        if item.undo_write.values.keys() - {ACTIVE, PROBABILITY}:
            columns = sorted(item.undo_write.values)
            groups.setdefault((item.sent.model, *columns), []).append(item)
    for group in groups.values():
        yield from split_batches(group, ROWS_PER_LOAD)


def _build_restore(item: _UndoItem) -> RowWrite:
    row = CrmRow(model=item.sent.model, external_id=item.sent.external_id, values={})
    cells = {column: _to_cell(column, value) for column, value in item.undo_write.values.items()}
    return RowWrite(row=row, cells=cells, digest="", before=item.sent.before, intent={})


def _to_cell(column: str, value: Json) -> Cell:
    if column == ACTIVE:
        return bool(value)
    return "" if value is None or value is False else str(value)


async def _read_records(undoable: Sequence[SentRow], crm: Odoo) -> dict[str, CrmRecord]:
    rows = []
    for sent in undoable:
        columns = [column for column in sent.values if column not in OWN_KEYS]
        name = sent.values.get("name")
        row = CrmRow(
            model=sent.model,
            external_id=sent.external_id,
            values=dict.fromkeys([*columns, *_PLACE_COLUMNS.get(sent.model, ())], ""),
            # For one whose creation was never answered, so that its number is unknown.
            match_by=("name", name) if isinstance(name, str) else None,
        )
        rows.append(row)
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
