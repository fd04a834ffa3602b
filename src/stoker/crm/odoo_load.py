"""Send rows through Odoo's `load`: equal columns together, the bad row found, conflicts retried.

A load happens wholly or not at all and creates or changes records by external id, so it may always
be repeated. A blank cell would clear a field, so rows go together only with equal columns. The
server's text about a row is not passed on; only the column it names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from stoker.base.errors import PermanentError, TransientError
from stoker.base.jsontools import get_line, get_list, get_object
from stoker.base.retry import compute_backoff
from stoker.base.types import Json
from stoker.crm.model import LEAD, RowResult, RowWrite
from stoker.crm.odoo_protocols import OdooProtocol

ROWS_PER_CALL = 200

MAX_CONFLICTS = 8  # lost in a row; 16 writers of one record needed 6

MAX_TIMEOUTS = 3  # answers lost, or Retry-After, in a row

MAX_LOAD_WAIT = timedelta(seconds=30)

_CONFLICT_TEXTS = (
    "could not serialize",
    "concurrent update",
    "deadlock detected",
    "could not obtain lock",
)

_FIRST_WAIT = timedelta(milliseconds=50)

_MAX_WAIT = timedelta(seconds=5)

Item = TypeVar("Item")


async def load_rows(
    calls: OdooProtocol,
    writes: Sequence[RowWrite],
    *,
    chance: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> dict[str, RowResult]:
    """Send rows and return each result by external id. Raises ConfigError only.

    Once the server does not answer, all further rows are to be retried later.
    """
    results: dict[str, RowResult] = {}
    later: RowResult | None = None
    for batch in _group_writes(writes):
        if later is None:
            results |= await _RowLoader(calls, chance, sleep).load_batch(batch)
            later = next(
                (
                    results[w.row.external_id]
                    for w in batch
                    if results[w.row.external_id].is_retryable
                ),
                None,
            )
        else:
            results |= {
                write.row.external_id: replace(later, external_id=write.row.external_id)
                for write in batch
            }
    return results


def split_batches(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    """Yield the items in order, at most `most` together."""
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _group_writes(writes: Sequence[RowWrite]) -> Iterator[Sequence[RowWrite]]:
    """Yield rows with equal columns together; rows that others link to come first."""
    groups: dict[tuple[str, ...], list[RowWrite]] = {}
    for write in {each.row.external_id: each for each in writes}.values():
        links = "1" if write.row.links else "0"
        groups.setdefault((links, write.row.model, *sorted(write.cells)), []).append(write)
    for key in sorted(groups, key=lambda key: (key[0], key[1] == LEAD)):
        yield from split_batches(groups[key], ROWS_PER_CALL)


@dataclass(frozen=True, slots=True)
class _RowLoader:
    calls: OdooProtocol
    chance: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]

    async def load_batch(self, batch: Sequence[RowWrite]) -> dict[str, RowResult]:
        """Write what can be written of a batch, and return the result of each row."""
        results: dict[str, RowResult] = {}
        rows = list(batch)
        while rows:
            try:
                answer = await self._load_with_retries(rows)
            except TransientError as error:
                return results | {
                    write.row.external_id: RowResult(
                        external_id=write.row.external_id,
                        reason=str(error),
                        is_retryable=True,
                        retry_after=error.retry_after,
                    )
                    for write in rows
                }
            except PermanentError as error:
                return results | await self._bisect(rows, str(error))
            if (ids := _parse_ids(answer, len(rows))) is not None:
                return results | {
                    write.row.external_id: RowResult(external_id=write.row.external_id, id=id_)
                    for write, id_ in zip(rows, ids, strict=True)
                }
            bad = _parse_row_errors(answer, rows)
            if not bad:
                return results | await self._bisect(rows, "odoo refuses it without a reason")
            results |= {
                rows[at].row.external_id: RowResult(
                    external_id=rows[at].row.external_id, reason=reason
                )
                for at, reason in bad.items()
            }
            rows = [write for at, write in enumerate(rows) if at not in bad]
        return results

    async def _bisect(self, rows: Sequence[RowWrite], reason: str) -> dict[str, RowResult]:
        """Find the bad row by sending fewer at a time."""
        if len(rows) == 1:
            id_ = rows[0].row.external_id
            return {id_: RowResult(external_id=id_, reason=reason)}
        half = len(rows) // 2
        return await self.load_batch(rows[:half]) | await self.load_batch(rows[half:])

    async def _load_with_retries(self, rows: Sequence[RowWrite]) -> Json:
        """Send one load until it neither conflicts nor times out, a few times."""
        conflicts = timeouts = 0
        while True:
            wait = None
            try:
                answer = await self._send(rows)
            except TransientError as error:
                timeouts += 1
                wait = error.retry_after
                if timeouts > MAX_TIMEOUTS or (wait is not None and wait > MAX_LOAD_WAIT):
                    raise
            else:
                if not _is_conflict(answer):
                    return answer
                conflicts += 1
                if conflicts > MAX_CONFLICTS:
                    raise TransientError("other users kept writing the same records")
            jitter = compute_backoff(
                conflicts + timeouts, chance=self.chance(), first=_FIRST_WAIT, most=_MAX_WAIT
            )
            await self.sleep(((wait or timedelta(0)) + jitter).total_seconds())

    async def _send(self, rows: Sequence[RowWrite]) -> Json:
        columns = sorted(rows[0].cells)
        data: list[Json] = [
            [write.row.external_id, *(_to_cell(write.cells[column]) for column in columns)]
            for write in rows
        ]
        model = rows[0].row.model
        # Tracking every change of a lead takes the server longer than creating it.
        context: dict[str, Json] | None = {"tracking_disable": True} if model == LEAD else None
        arguments: dict[str, Json] = {"fields": ["id", *columns], "data": data}
        answer = await self.calls.call(model, "load", arguments, context=context)
        if get_object(answer).get("ids") is not False and _parse_ids(answer, len(rows)) is None:
            raise TransientError("odoo did not return the rows' results; it is safe to repeat")
        return answer


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


def _parse_row_errors(answer: Json, rows: Sequence[RowWrite]) -> dict[int, str]:
    """Return which rows a load refused, and which of our columns each error names."""
    bad: dict[int, str] = {}
    for message in get_list(answer, "messages", most=1_000):
        at = get_object(message).get("record")
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < len(rows):
            continue
        if get_line(message, "type") == "warning":
            continue
        column = get_line(message, "field")
        about = f" because of {column}" if column in rows[at].cells else ""
        bad.setdefault(at, f"odoo refuses this row{about}; check what that field allows")
    return bad
