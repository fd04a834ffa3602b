"""Rows through Odoo's `load`: alike ones together, the bad one found, races run again.

A load happens wholly or not at all and makes or changes records by external id, so it may always
be repeated. A blank cell would clear a field, so rows go together only when they have the same
columns. What a server says about a row is not passed on; only which column it was about.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol, TypeVar

from stoker.base.errors import PermanentError, TransientError
from stoker.base.jsontools import list_in, object_in, text_in
from stoker.base.retry import backoff
from stoker.base.types import Json
from stoker.crm.rows import LEAD
from stoker.crm.upsert import Upserting, Write

ROWS_A_CALL = 200

MOST_RACES = 8  # lost in a row; 16 writers of one record needed 6

MOST_SILENCES = 3  # answers lost, or told to come later, in a row

LONGEST_PATIENCE = timedelta(seconds=30)

_RACED = ("could not serialize", "concurrent update", "deadlock detected", "could not obtain lock")

_FIRST_WAIT = timedelta(milliseconds=50)

_MOST_WAIT = timedelta(seconds=5)

Item = TypeVar("Item")


class Calls(Protocol):
    """A protocol Odoo speaks. See `Json2`."""

    @property
    def name(self) -> str: ...

    @property
    def names_all(self) -> bool: ...

    async def call(
        self,
        model: str,
        method: str,
        arguments: Mapping[str, Json],
        *,
        ids: Sequence[int] | None = None,
        context: Mapping[str, Json] | None = None,
    ) -> Json: ...

    async def external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]: ...

    async def all_external_ids(
        self, model: str, ids: Sequence[int]
    ) -> dict[int, tuple[str, ...]]: ...


class InTurn:
    """A protocol whose every call waits for its turn first."""

    def __init__(self, calls: Calls, turn: Callable[[], Awaitable[None]]) -> None:
        self._calls, self._turn = calls, turn
        self.name, self.names_all = calls.name, calls.names_all

    async def call(
        self,
        model: str,
        method: str,
        arguments: Mapping[str, Json],
        *,
        ids: Sequence[int] | None = None,
        context: Mapping[str, Json] | None = None,
    ) -> Json:
        await self._turn()
        return await self._calls.call(model, method, arguments, ids=ids, context=context)

    async def external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        await self._turn()
        return await self._calls.external_ids(model, ids)

    async def all_external_ids(self, model: str, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        await self._turn()
        return await self._calls.all_external_ids(model, ids)


async def loaded(
    calls: Calls,
    writes: Sequence[Write],
    *,
    chance: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> dict[str, Upserting]:
    """Send rows and return what became of each, by external id. Raises ConfigError only.

    Once the server does not answer, the rows after that are for later.
    """
    told: dict[str, Upserting] = {}
    later: Upserting | None = None
    for batch in _batches(writes):
        if later is None:
            told |= await _Loading(calls, chance, sleep).done(batch)
            later = next(
                (told[w.row.external_id] for w in batch if told[w.row.external_id].later), None
            )
        else:
            told |= {
                write.row.external_id: replace(later, external_id=write.row.external_id)
                for write in batch
            }
    return told


def pieces(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    """Yield the items in order, at most so many together."""
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _batches(writes: Sequence[Write]) -> Iterator[Sequence[Write]]:
    """Yield rows with the same columns together; what is linked to stays before what links."""
    groups: dict[tuple[str, ...], list[Write]] = {}
    for write in {each.row.external_id: each for each in writes}.values():
        links = "1" if write.row.links else "0"
        groups.setdefault((links, write.row.model, *sorted(write.cells)), []).append(write)
    for key in sorted(groups, key=lambda key: (key[0], key[1] == LEAD)):
        yield from pieces(groups[key], ROWS_A_CALL)


@dataclass(frozen=True, slots=True)
class _Loading:
    calls: Calls
    chance: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]

    async def done(self, batch: Sequence[Write]) -> dict[str, Upserting]:
        """Write what can be written of a batch, and say what became of the rest."""
        told: dict[str, Upserting] = {}
        rows = list(batch)
        while rows:
            try:
                answer = await self._patiently(rows)
            except TransientError as error:
                return told | {
                    write.row.external_id: Upserting(
                        external_id=write.row.external_id,
                        because=str(error),
                        later=True,
                        retry_after=error.retry_after,
                    )
                    for write in rows
                }
            except PermanentError as error:
                return told | await self._halved(rows, str(error))
            if (ids := _ids(answer, len(rows))) is not None:
                return told | {
                    write.row.external_id: Upserting(external_id=write.row.external_id, id=id_)
                    for write, id_ in zip(rows, ids, strict=True)
                }
            bad = _bad(answer, rows)
            if not bad:
                return told | await self._halved(rows, "odoo refuses it and does not say why")
            told |= {
                rows[at].row.external_id: Upserting(
                    external_id=rows[at].row.external_id, because=because
                )
                for at, because in bad.items()
            }
            rows = [write for at, write in enumerate(rows) if at not in bad]
        return told

    async def _halved(self, rows: Sequence[Write], because: str) -> dict[str, Upserting]:
        """Find the row that spoils the others by sending fewer at a time."""
        if len(rows) == 1:
            id_ = rows[0].row.external_id
            return {id_: Upserting(external_id=id_, because=because)}
        half = len(rows) // 2
        return await self.done(rows[:half]) | await self.done(rows[half:])

    async def _patiently(self, rows: Sequence[Write]) -> Json:
        """Send one load until it neither meets another nor goes unanswered, a few times."""
        races = silences = 0
        while True:
            wait = None
            try:
                answer = await self._sent(rows)
            except TransientError as error:
                silences += 1
                wait = error.retry_after
                if silences > MOST_SILENCES or (wait is not None and wait > LONGEST_PATIENCE):
                    raise
            else:
                if not _raced(answer):
                    return answer
                races += 1
                if races > MOST_RACES:
                    raise TransientError("others were writing the same records all the time")
            jitter = backoff(
                races + silences, chance=self.chance(), first=_FIRST_WAIT, most=_MOST_WAIT
            )
            await self.sleep(((wait or timedelta(0)) + jitter).total_seconds())

    async def _sent(self, rows: Sequence[Write]) -> Json:
        columns = sorted(rows[0].cells)
        data: list[Json] = [
            [write.row.external_id, *(_cell(write.cells[column]) for column in columns)]
            for write in rows
        ]
        model = rows[0].row.model
        # Following every change of a lead takes the server longer than making it.
        context: dict[str, Json] | None = {"tracking_disable": True} if model == LEAD else None
        arguments: dict[str, Json] = {"fields": ["id", *columns], "data": data}
        answer = await self.calls.call(model, "load", arguments, context=context)
        if object_in(answer).get("ids") is not False and _ids(answer, len(rows)) is None:
            raise TransientError("odoo did not say what became of the rows; it is safe to repeat")
        return answer


def _cell(value: str | bool) -> str:
    return value if isinstance(value, str) else str(int(value))


def _ids(answer: Json, many: int) -> list[int] | None:
    ids = list_in(answer, "ids", most=many + 1)
    whole = [id_ for id_ in ids if isinstance(id_, int) and not isinstance(id_, bool)]
    return whole if len(whole) == len(ids) == many else None


def _raced(answer: Json) -> bool:
    messages = list_in(answer, "messages", most=1_000)
    said = [text_in(each, "message", longest=2_000) for each in messages]
    return any(words in text for text in said for words in _RACED)


def _bad(answer: Json, rows: Sequence[Write]) -> dict[int, str]:
    """Return which rows a load stumbled over, and which of our columns each was about."""
    bad: dict[int, str] = {}
    for message in list_in(answer, "messages", most=1_000):
        at = object_in(message).get("record")
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at < len(rows):
            continue
        if text_in(message, "type") == "warning":
            continue
        column = text_in(message, "field")
        about = f" because of {column}" if column in rows[at].cells else ""
        bad.setdefault(at, f"odoo refuses this row{about}; look at what the field there allows")
    return bad
