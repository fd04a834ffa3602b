"""Decide what is written into a CRM, given what we wrote before and what is there now.

A field that a person changed since we wrote it is theirs. A record that a person deleted stays
deleted, one that a person archived stays archived; one that our undo archived comes back with the
next new values. Nothing is sent that is there already. This module sends nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from stoker.base.jsontools import compact_json
from stoker.base.types import Json
from stoker.crm.model import Cell, CrmField, CrmRecord, CrmRow, RowWrite, SentRow
from stoker.crm.rows import find_send_problem

MAKER, WRITER, ACTIVE = "create_uid", "write_uid", "active"

AUTHOR_FIELDS = (MAKER, WRITER, ACTIVE)  # read beside a row's own columns

_SYSTEM_USER = 1  # the CRM's own robot, which is not a person


def is_archived(record: CrmRecord) -> bool:
    """Return whether a record is archived; one whose CRM does not say is not."""
    return ACTIVE in record.values and not record.values[ACTIVE]


def was_edited_by_person(record: CrmRecord) -> bool:
    """Return whether a person wrote it last; a person with our own key looks like us."""
    maker, writer = (_get_user_id(record.values.get(column)) for column in (MAKER, WRITER))
    return maker is not None and writer is not None and writer not in (maker, _SYSTEM_USER)


def _get_user_id(user: Json) -> int | None:
    first = user[0] if isinstance(user, list | tuple) and user else user
    return first if isinstance(first, int) and not isinstance(first, bool) else None


ID = "id"  # in a sent row's values: the record's number in the CRM

CRM_KEY = "in which CRM"  # in the same, and no column's name: which CRM it is in

DELETED = "a person has deleted it in the CRM"

MANY = "many2many"  # the kind of a field of tags

_NUMBERS = ("integer", "float")

UNDONE_PREFIX = "undone:"  # before the digest of values that were undone

FOUND_IN_CRM = "found there"  # instead of a run's name: no run on record wrote it

_Fields = Mapping[str, CrmField]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRow:
    """A row that is not sent, and why."""

    external_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertPlan:
    """What is sent, in order, and what is not."""

    writes: tuple[RowWrite, ...]
    skipped: tuple[SkippedRow, ...]


def compute_digest(row: CrmRow) -> str:
    """Return a short text that is equal for rows with equal values."""
    if row.digest:
        return row.digest
    wanted: dict[str, Json] = {
        "values": dict(row.values),
        "once": dict(row.on_create),
        "links": dict(row.links),
    }
    if row.names or row.names_on_create:
        wanted["names"] = {column: list(names) for column, names in row.names.items()}
        wanted["names once"] = {column: list(each) for column, each in row.names_on_create.items()}
    return blake2b(compact_json(wanted).encode(), digest_size=16).hexdigest()


def list_changed_rows(rows: Sequence[CrmRow], sent: Mapping[str, SentRow]) -> list[CrmRow]:
    """Return the rows whose values differ from what was last written, each id once.

    The last row of an id counts. The CRM need not be asked about the others. Values that were
    undone, from whichever run, are not sent again: only other values are.
    """
    latest = {row.external_id: row for row in rows}
    return [
        row
        for id_, row in latest.items()
        if id_ not in sent or _is_new_digest(compute_digest(row), sent[id_])
    ]


def _is_new_digest(digest: str, sent: SentRow) -> bool:
    return digest != sent.digest.removeprefix(UNDONE_PREFIX) and digest not in sent.settled


def list_settled_digests(writes: Sequence[SentRow]) -> frozenset[str]:
    """Return the digests that need not be sent besides the last write's, for one record.

    Those are all that were undone; and when the last write was undone, the last one that was not:
    its values are in the CRM again. `writes` are in order of time, at least one; those into another
    CRM than the last one's do not count.
    """
    *_, last = writes
    place = last.values.get(CRM_KEY)
    here = [each for each in writes if place is None or is_written_in(each, str(place))]
    undone = {each.digest.removeprefix(UNDONE_PREFIX) for each in here if was_undone(each)}
    in_place = [each.digest for each in here if not was_undone(each)]
    settled = undone | set(in_place[-1:] if was_undone(last) else ())
    return frozenset(settled - {last.digest.removeprefix(UNDONE_PREFIX)})


def was_undone(sent: SentRow) -> bool:
    """Return whether a write was undone since."""
    return sent.digest.startswith(UNDONE_PREFIX)


def is_archived_by_undo(sent: SentRow, record: CrmRecord) -> bool:
    """Return whether a record is archived by our undo, and not by a person since."""
    if not is_archived(record) or was_edited_by_person(record):
        return False
    if was_undone(sent):
        # The run that was undone had created or restored it.
        return not sent.before or (ACTIVE in sent.values and not sent.before.get(ACTIVE))
    # A list: it was to be restored, and the answer was lost.
    return isinstance(sent.values.get(ACTIVE), list | tuple)


def is_written_in(sent: SentRow, place: str) -> bool:
    """Return whether a row was last written into this CRM, and not into another one."""
    return sent.values.get(CRM_KEY, place) == place


def plan_upserts(
    rows: Sequence[CrmRow],
    *,
    sent: Mapping[str, SentRow],
    there: Mapping[str, CrmRecord],
    fields: Mapping[str, _Fields],
    beside: Sequence[CrmRow] = (),
    doubts: Mapping[str, str] | None = None,
    guarded: Mapping[str, Collection[str]] | None = None,
) -> UpsertPlan:
    """Decide what of these rows is sent. A row comes after those it links to.

    `there` has the record found for each external id, or a person's record where it was recognised;
    `doubts` say why a row may be a person's record and may be not: it is left. `guarded` columns of
    a record stay as they are. `fields` has each model's fields; a column that the CRM does not have
    is not sent. `beside` are rows without changes: one that our undo archived is restored, as it
    is, with what is sent and belongs to it.
    """
    known = _KnownState(
        sent=sent, records=there, fields=fields, doubts=doubts or {}, guarded=guarded or {}
    )
    among = {row.external_id: row for row in (*beside, *rows)}
    writes: dict[str, RowWrite] = {}
    left: dict[str, str] = {}
    for row in rows:
        decided = _decide_write(row, known, left)
        if isinstance(decided, str):
            left[row.external_id] = decided
            continue
        linked = (*row.links.values(), *row.spare_links.values())
        for id_ in linked if _makes_visible(decided) else ():
            if id_ in among and known.is_archived_by_undo(id_):
                writes[id_] = _restore_record(writes.get(id_), among[id_], known)
        writes[row.external_id] = decided
    return UpsertPlan(
        writes=tuple(writes.values()),
        skipped=tuple(SkippedRow(external_id=id_, reason=why) for id_, why in left.items()),
    )


def compute_values_after_send(
    write: RowWrite, record: CrmRecord, sent: SentRow | None
) -> dict[str, Json]:
    """Return the values to store for a row after it was sent, as the CRM returns them.

    A CRM may reformat a phone number, and that is not a person's change. A field that was left to a
    person is stored as we last had it.
    """
    values: dict[str, Json] = {ID: record.id}
    for column, wanted in write.row.values.items():
        current = record.values.get(column)
        if column in write.row.tag_columns:
            ours = sorted(_to_tags(wanted) & _to_tags(current))
            values[column] = ",".join(map(str, ours))
        elif column in write.cells or current == wanted:
            values[column] = current
        elif sent is not None and column in sent.values:
            values[column] = sent.values[column]
    if _is_restored(write.cells, sent, record):
        values[ACTIVE] = record.values.get(ACTIVE)
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownState:
    sent: Mapping[str, SentRow]
    records: Mapping[str, CrmRecord]
    fields: Mapping[str, _Fields]
    doubts: Mapping[str, str]
    guarded: Mapping[str, Collection[str]]

    def is_archived_by_undo(self, id_: str) -> bool:
        """Return whether a row's record is archived by our undo."""
        sent, record = self.sent.get(id_), self.records.get(id_)
        return sent is not None and record is not None and is_archived_by_undo(sent, record)


def _decide_write(row: CrmRow, known: _KnownState, left: Mapping[str, str]) -> RowWrite | str:
    if why := find_send_problem(row):
        return f"it cannot be sent: {why}"
    sent, record = known.sent.get(row.external_id), known.records.get(row.external_id)
    if record is not None and record.external_id != row.external_id:
        return "a person has put it into the CRM; theirs is left as it is"
    if record is None and sent is not None and sent.values.get(ID):
        return DELETED
    if record is None and (doubt := known.doubts.get(row.external_id)):
        return f"people must say whether it is there already: {doubt}"
    if record is None:
        return _build_new(row, known, left)
    changes = _list_changes(row, known.fields.get(row.model, {}), sent, record)
    kept = known.guarded.get(row.external_id, ())
    cells = {column: cell for column, cell in changes.items() if column not in kept}
    if sent is not None and _was_cut_short(sent):
        links = _resolve_links(row, row.links, known, left)
        cells |= {} if isinstance(links, str) else _filter_empty_links(links, record)
    if cells and known.is_archived_by_undo(row.external_id):
        links = _resolve_links(row, row.links, known, left)
        if isinstance(links, str):
            return links
        cells[ACTIVE] = True
    return _build_change(row, cells, sent, record)


def _build_new(row: CrmRow, known: _KnownState, left: Mapping[str, str]) -> RowWrite | str:
    links = _resolve_links(row, row.links, known, left)
    spare = _resolve_links(row, row.spare_links, known, left)
    if isinstance(links, str) and row.spare_links:
        links, spare = spare, {}
    if isinstance(links, str):
        return links
    fields = known.fields.get(row.model, {})
    cells = {
        **_filter_usable(row.values, fields),
        **_filter_usable(row.on_create, fields, with_empty=True),
        **links,
    }
    return RowWrite(
        row=row,
        cells=cells,
        digest=compute_digest(row),
        before={},
        intent=dict(row.values),
        spare={} if isinstance(spare, str) else spare,
    )


def _was_cut_short(sent: SentRow) -> bool:
    """Return whether a record was to be created, and we do not know how far that came."""
    return not sent.digest and not sent.before and ID not in sent.values


def _filter_empty_links(links: Mapping[str, Cell], record: CrmRecord) -> dict[str, Cell]:
    return {
        column: cell
        for column, cell in links.items()
        if not record.values.get(column.partition("/")[0])
    }


def _list_changes(
    row: CrmRow, fields: _Fields, sent: SentRow | None, record: CrmRecord
) -> dict[str, Cell]:
    """Return the cells that an existing record needs."""
    cells: dict[str, Cell] = {}
    for column, value in _filter_usable(row.values, fields).items():
        if fields[column].kind == MANY:
            ours = sent.values.get(column) if sent is not None else None
            merged = merge_tags(str(value), record.values.get(column), ours)
            if merged != (record.values.get(column) or ""):
                cells[column] = merged
        elif _may_change(column, value, sent, record):
            cells[column] = value
    return cells


def merge_tags(wanted: str, current: Json, ours: Json) -> str:
    """Return the tags of a record: people's stay, ours follow what is wanted now.

    One of ours that a person took away does not come back.
    """
    want, have, own = (_to_tags(each) for each in (wanted, current, ours))
    return ",".join(map(str, sorted((have - (own - want)) | (want - (own - have)))))


def _to_tags(value: Json) -> set[int]:
    return {int(each) for each in value.split(",")} if isinstance(value, str) and value else set()


def _build_change(
    row: CrmRow, cells: Mapping[str, Cell], sent: SentRow | None, record: CrmRecord
) -> RowWrite:
    """Return how an existing record is changed."""
    before = {column: record.values.get(column) for column in row.values}
    intent: dict[str, Json] = {ID: record.id}
    columns = list(row.values)
    if ACTIVE in record.values:
        before[ACTIVE] = record.values[ACTIVE]
    if _is_restored(cells, sent, record):
        columns.append(ACTIVE)
    for column in columns:
        own_value = sent.values.get(column) if sent is not None else None
        intent[column] = _list_either(own_value, cells[column]) if column in cells else own_value
    return RowWrite(row=row, cells=cells, digest=compute_digest(row), before=before, intent=intent)


def _is_restored(cells: Mapping[str, Cell], sent: SentRow | None, record: CrmRecord) -> bool:
    """Return whether we made the record not archived, now or earlier."""
    earlier = sent is not None and bool(sent.values.get(ACTIVE))
    return ACTIVE in cells or (earlier and bool(record.values.get(ACTIVE)))


def _restore_record(write: RowWrite | None, row: CrmRow, known: _KnownState) -> RowWrite:
    """Return a write that restores a record beside its other changes."""
    cells: dict[str, Cell] = {**(write.cells if write is not None else {}), ACTIVE: True}
    return _build_change(row, cells, known.sent[row.external_id], known.records[row.external_id])


def _makes_visible(write: RowWrite) -> bool:
    """Return whether this write creates or restores the record."""
    return not write.before or ACTIVE in write.cells


def _resolve_links(
    row: CrmRow, links: Mapping[str, str], known: _KnownState, left: Mapping[str, str]
) -> dict[str, Cell] | str:
    """Return the cells that link a row to its parents, or why it cannot be linked."""
    cells: dict[str, Cell] = {}
    for column, id_ in links.items():
        if column not in known.fields.get(row.model, {}):
            continue
        linked, sent = known.records.get(id_), known.sent.get(id_)
        if linked is not None and is_archived(linked) and not known.is_archived_by_undo(id_):
            return "what it belongs to is archived in the CRM"
        if linked is not None and linked.external_id != id_:
            cells[f"{column}/.id"] = str(linked.id)
        elif id_ in left:
            return f"what it belongs to is not in the CRM: {left[id_]}"
        elif linked is None and sent is not None and sent.values.get(ID):
            return f"what it belongs to is not in the CRM: {DELETED}"
        else:
            cells[f"{column}/id"] = id_
    return cells


def _filter_usable(
    values: Mapping[str, Cell], fields: _Fields, *, with_empty: bool = False
) -> dict[str, Cell]:
    return {
        column: value
        for column, value in values.items()
        if (value != "" or with_empty)
        and (known := fields.get(column)) is not None
        and not known.readonly
        and (not known.choices or value in known.choices)
        and (known.kind not in _NUMBERS or is_number(value))
    }


def is_number(value: Cell) -> bool:
    """Return whether a field for numbers takes this text."""
    return isinstance(value, str) and value.isascii() and value.isdigit()


def _may_change(column: str, wanted: Cell, sent: SentRow | None, record: CrmRecord) -> bool:
    current = record.values.get(column)
    if current == wanted:
        return False
    if sent is not None and sent.values.get(column):
        return is_own_value(sent.values[column], current)
    return not current


def _list_either(known: Json, wanted: Cell) -> list[Json]:
    older = list(known) if isinstance(known, list | tuple) else [known]
    return [*[each for each in older if each != wanted], wanted]


def is_own_value(ours: Json, current: Json) -> bool:
    """Return whether a value is what we wrote, or one of the two it may be."""
    if isinstance(ours, list | tuple):
        return any((each or False) == (current or False) for each in ours)
    return (ours or False) == (current or False)
