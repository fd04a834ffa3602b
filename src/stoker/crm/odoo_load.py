"""Send rows through Odoo's `load`: equal columns together, the bad row found, conflicts retried.

A load happens wholly or not at all and creates or changes records by external id, so it may always
be repeated. A blank cell would clear a field, so rows go together only with equal columns. The
server's text about a row is not passed on; only the field, the right or the rule that it names.

A new contact goes in two loads, first without its company: with Invoicing installed, Odoo reads a
field of the company that a salesman may not read when it creates a contact under one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

from stoker.base.errors import PermanentError, TransientError
from stoker.base.jsontools import get_line, get_list, get_object
from stoker.base.retry import compute_backoff
from stoker.base.types import Json
from stoker.crm.model import LEAD, PARTNER, Cell, CrmField, RowResult, RowWrite
from stoker.crm.odoo_protocols import (
    OdooPlaceError,
    OdooProtocol,
    describe_refusal,
    is_lasting_refusal,
    normalize_message,
)

ROWS_PER_CALL = 200

MAX_CONFLICTS = 8  # lost in a row; 16 writers of one record needed 6

MAX_TIMEOUTS = 3  # answers lost, or Retry-After, in a row

MAX_TRIES_ALONE = 3  # of a row that is refused without a field: other users may be writing it

MAX_LOAD_WAIT = timedelta(seconds=30)

# No followers, no messages, no tracked changes: they take the server longer than the records.
QUIET: Mapping[str, Json] = {
    "tracking_disable": True,
    "mail_create_nosubscribe": True,
    "mail_create_nolog": True,
}

_CONFLICT_TEXTS = (
    "could not serialize",
    "concurrent update",
    "deadlock detected",
    "could not obtain lock",
)

_MAX_TEXT_LENGTH = 2_000  # characters of a message that are looked at

_PARENT = "parent_id/"  # how the column of a contact's company begins

_FIRST_WAIT = timedelta(milliseconds=50)

_MAX_WAIT = timedelta(seconds=5)

Item = TypeVar("Item")

Fields = Mapping[str, Mapping[str, CrmField]]  # by model and column


async def load_rows(
    calls: OdooProtocol,
    writes: Sequence[RowWrite],
    *,
    chance: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    fields: Fields | None = None,
) -> dict[str, RowResult]:
    """Send rows and return each result by external id. Raises ConfigError only.

    A row comes after those it links to; one whose links were refused is not sent, unless it has
    others. Once the server does not answer, all further rows are to be retried later.
    """
    loader = _RowLoader(calls, chance, sleep, fields or {})
    results: dict[str, RowResult] = {}
    for stage in _list_stages(writes):
        ready: list[RowWrite] = []
        for write in stage:
            linked = _choose_links(write, results)
            if isinstance(linked, RowResult):
                results[write.row.external_id] = linked
            else:
                ready.append(linked)
        for batch in _group_by_columns(ready):
            results |= await loader.load_batch(batch)
    return results


def split_batches(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    """Yield the items in order, at most `most` together."""
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _list_stages(writes: Sequence[RowWrite]) -> list[list[RowWrite]]:
    """Return what is sent, in order: companies, contacts, the contacts' companies, leads."""
    latest = list({each.row.external_id: each for each in writes}.values())
    leads = [each for each in latest if each.row.model == LEAD]
    others = [each for each in latest if each.row.model != LEAD]
    new = [
        each
        for each in others
        if each.row.model == PARTNER and not each.before and _list_parents(each.cells)
    ]
    made = {each.row.external_id for each in new}
    rest = [each for each in others if each.row.external_id not in made]
    return [
        [each for each in rest if not each.row.links],
        [each for each in rest if each.row.links],
        [_without_parents(each) for each in new],
        [replace(each, cells=_list_parents(each.cells)) for each in new],
        leads,
    ]


def _list_parents(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    return {column: cell for column, cell in cells.items() if column.startswith(_PARENT)}


def _without_parents(write: RowWrite) -> RowWrite:
    parents = _list_parents(write.cells)
    return replace(write, cells={c: v for c, v in write.cells.items() if c not in parents})


def _choose_links(write: RowWrite, results: Mapping[str, RowResult]) -> RowWrite | RowResult:
    """Return the write with links to records that are there, or why it is not sent."""
    id_ = write.row.external_id
    if (own := results.get(id_)) is not None and own.id is None:
        return own  # its first load was refused
    for column, linked in write.row.links.items():
        failed = results.get(linked)
        if failed is None or failed.id is not None:
            continue
        if failed.is_retryable:
            return replace(failed, external_id=id_)
        if not write.spare:
            reason = f"what it belongs to was refused: {failed.reason}"
            return RowResult(external_id=id_, reason=reason)
        other = {c: v for c, v in write.cells.items() if not c.startswith(f"{column}/")}
        return replace(write, cells={**other, **write.spare})
    return write


def _group_by_columns(writes: Sequence[RowWrite]) -> Iterator[Sequence[RowWrite]]:
    """Yield rows with equal columns together."""
    groups: dict[tuple[str, ...], list[RowWrite]] = {}
    for write in writes:
        groups.setdefault((write.row.model, *sorted(write.cells)), []).append(write)
    for group in groups.values():
        yield from split_batches(group, ROWS_PER_CALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowError:
    column: str  # empty: no field is to blame
    text: str  # the server's own, never passed on


@dataclass(slots=True)
class _RowLoader:
    calls: OdooProtocol
    chance: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    fields: Fields
    _lasting: set[str] = field(default_factory=set)  # messages that came again and again
    _down: TransientError | None = None

    async def load_batch(self, rows: Sequence[RowWrite]) -> dict[str, RowResult]:
        """Write what can be written of a batch, and return the result of each row."""
        if not rows:
            return {}
        if self._down is not None:
            return _postpone(rows, self._down)
        try:
            answer = await self._load_with_retries(rows)
        except TransientError as error:
            self._down = error
            return _postpone(rows, error)
        except PermanentError as error:
            return await self._bisect(rows, str(error))
        if (ids := _parse_ids(answer, len(rows))) is not None:
            return {
                write.row.external_id: RowResult(external_id=write.row.external_id, id=id_)
                for write, id_ in zip(rows, ids, strict=True)
            }
        errors = _parse_row_errors(answer, len(rows))
        if not errors:
            return await self._bisect(rows, "odoo refuses it without a reason")
        if len(rows) == 1:
            return self._refuse(rows[0], errors[0])
        # A field that is named is to blame. Without one, Odoo also blames a row that was merely
        # the first of the load: alone, that one passes.
        results: dict[str, RowResult] = {}
        for at, blamed in errors.items():
            results |= (
                self._refuse(rows[at], blamed)
                if blamed.column
                else await self.load_batch([rows[at]])
            )
        rest = [write for at, write in enumerate(rows) if at not in errors]
        # More than ten errors end a load early: then the rest has more of them.
        half = len(rest) // 2 if _was_interrupted(answer) else 0
        return results | await self.load_batch(rest[:half]) | await self.load_batch(rest[half:])

    def _refuse(self, write: RowWrite, error: _RowError) -> dict[str, RowResult]:
        id_, fields = write.row.external_id, self.fields.get(write.row.model, {})
        reason = describe_refusal(
            error.text, column=error.column, sent=write.cells, fields=fields, model=write.row.model
        )
        return {id_: RowResult(external_id=id_, reason=reason)}

    async def _bisect(self, rows: Sequence[RowWrite], reason: str) -> dict[str, RowResult]:
        """Find the bad row by sending fewer at a time."""
        if len(rows) == 1:
            id_ = rows[0].row.external_id
            return {id_: RowResult(external_id=id_, reason=reason)}
        half = len(rows) // 2
        return await self.load_batch(rows[:half]) | await self.load_batch(rows[half:])

    async def _load_with_retries(self, rows: Sequence[RowWrite]) -> Json:
        """Send one load until it neither conflicts nor times out, a few times.

        A server tells of conflicts in its own language. So a message that names no field, and is
        none of those we know to last, counts as one until it came a few times.
        """
        conflicts = timeouts = 0
        while True:
            wait = None
            try:
                answer = await self._send(rows)
            except OdooPlaceError:
                raise
            except TransientError as error:
                timeouts += 1
                wait = error.retry_after
                if timeouts > MAX_TIMEOUTS or (wait is not None and wait > MAX_LOAD_WAIT):
                    raise
            else:
                conflicts += 1
                if _is_conflict(answer):
                    if conflicts > MAX_CONFLICTS:
                        raise TransientError("other users kept writing the same records")
                elif not (strange := self._find_strange(answer)):
                    return answer
                elif conflicts >= MAX_TRIES_ALONE:
                    if len(rows) == 1:
                        self._lasting.add(strange)
                    return answer
            jitter = compute_backoff(
                conflicts + timeouts, chance=self.chance(), first=_FIRST_WAIT, most=_MAX_WAIT
            )
            await self.sleep(((wait or timedelta(0)) + jitter).total_seconds())

    def _find_strange(self, answer: Json) -> str:
        """Return a message that may tell of a conflict in another language."""
        if get_object(answer).get("ids") is not False:
            return ""
        errors = _parse_row_errors(answer, ROWS_PER_CALL)
        if any(error.column or is_lasting_refusal(error.text) for error in errors.values()):
            return ""
        texts = [normalize_message(error.text) for error in errors.values()]
        return next((text for text in texts if text not in self._lasting), "")

    async def _send(self, rows: Sequence[RowWrite]) -> Json:
        columns = sorted(rows[0].cells)
        data: list[Json] = [
            [write.row.external_id, *(_to_cell(write.cells[column]) for column in columns)]
            for write in rows
        ]
        arguments: dict[str, Json] = {"fields": ["id", *columns], "data": data}
        answer = await self.calls.call(rows[0].row.model, "load", arguments, context=QUIET)
        if get_object(answer).get("ids") is not False and _parse_ids(answer, len(rows)) is None:
            raise TransientError("odoo did not return the rows' results; it is safe to repeat")
        return answer


def _postpone(rows: Sequence[RowWrite], error: TransientError) -> dict[str, RowResult]:
    return {
        write.row.external_id: RowResult(
            external_id=write.row.external_id,
            reason=str(error),
            is_retryable=True,
            retry_after=error.retry_after,
        )
        for write in rows
    }


def _to_cell(value: str | bool) -> str:
    return value if isinstance(value, str) else str(int(value))


def _parse_ids(answer: Json, many: int) -> list[int] | None:
    ids = get_list(answer, "ids", most=many + 1)
    whole = [id_ for id_ in ids if isinstance(id_, int) and not isinstance(id_, bool)]
    return whole if len(whole) == len(ids) == many else None


def _is_conflict(answer: Json) -> bool:
    messages = get_list(answer, "messages", most=1_000)
    texts = [get_line(each, "message", longest=2_000) for each in messages]
    return any(words in text for text in texts for words in _CONFLICT_TEXTS)


def _parse_row_errors(answer: Json, many: int) -> dict[int, _RowError]:
    """Return which rows a load refused; of several errors in one row, the one with a field."""
    bad: dict[int, _RowError] = {}
    for message in get_list(answer, "messages", most=1_000):
        at = get_object(message).get("record")
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < many:
            continue
        if get_line(message, "type") == "warning":
            continue
        text = str(get_object(message).get("message") or "")[:_MAX_TEXT_LENGTH]
        error = _RowError(column=get_line(message, "field"), text=text)
        if at not in bad or (error.column and not bad[at].column):
            bad[at] = error
    return bad


def _was_interrupted(answer: Json) -> bool:
    """Return whether a load ended before it had looked at every row."""
    return any(
        get_line(message, "type") == "warning" and get_object(message).get("record") is None
        for message in get_list(answer, "messages", most=1_000)
    )
