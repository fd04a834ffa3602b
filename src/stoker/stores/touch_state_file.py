"""One tenant's profiles, plans and counters in one JSON file: for who has no store.

Each change replaces the whole file, so a crash leaves the old or the new. A file that is damaged
or of an older make is set aside under another name, never written over, and that is reported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from stoker.core.coverage.values import Marked, Profile, Touch, WeeklyPlan
from stoker.core.model import Json, TenantId, tenant_id
from stoker.core.runs import compact_json
from stoker.errors import ConfigError, StokerError
from stoker.stores.durable_files import Disk, Turn, meaning
from stoker.stores.touch_book import TouchBook
from stoker.stores.touch_json import book_from_json, book_json
from stoker.touches import HandOver, KeptDay, KeptPlan, ProfilesPut, Settled

FORMAT = 2  # the first, of an earlier product, had no profiles in it
PATIENCE = timedelta(seconds=30)
MOST_SET_ASIDE = 1000
_Result = TypeVar("_Result")


class TouchStateFile:
    """A `TouchStore` in a file, `schedule_state.json`. Its verbs do their file work in threads.

    `report` is told in a sentence when a file was set aside.
    """

    def __init__(
        self,
        path: Path,
        *,
        tenant: TenantId,
        now: Callable[[], datetime],
        report: Callable[[str], None],
        patience: timedelta = PATIENCE,
        disk: Disk | None = None,
    ) -> None:
        self._path = path
        self._tenant = tenant_id(tenant)
        self._now = now
        self._report = report
        self._disk = disk or Disk()
        self._turn = Turn(path.with_name(f".{path.name}.lock"), patience=patience)

    async def put_profiles(self, profiles: Sequence[Profile]) -> ProfilesPut:
        return await self._changed(lambda book: book.put_profiles(profiles))

    async def profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        return await self._seen(lambda book: book.profiles(after=after, limit=limit))

    async def plan(self, week: str) -> KeptPlan | None:
        return await self._seen(lambda book: book.plan(week))

    async def some_profiles(self, urls: Sequence[str]) -> list[Profile]:
        return await self._seen(lambda book: book.some_profiles(urls))

    async def roster(self) -> int:
        return await self._seen(lambda book: book.roster())

    async def day(self, week: str, day: date) -> KeptDay | None:
        return await self._seen(lambda book: book.day(week, day))

    async def touches_of(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        return await self._seen(lambda book: book.touches_of(url, weeks=weeks))

    async def put_plan(
        self, plan: WeeklyPlan, *, seen: int, settled: Settled | None = None
    ) -> bool:
        return await self._changed(lambda book: book.put_plan(plan, seen=seen, settled=settled))

    async def mark(self, week: str, marked: Marked, *, counters: Sequence[str]) -> bool:
        return await self._changed(lambda book: book.mark(week, marked, counters=counters))

    async def hand_over(self, week: str, handed: HandOver) -> bool:
        return await self._changed(lambda book: book.hand_over(week, handed))

    async def still_out(self, *, since: datetime) -> int:
        return await self._seen(lambda book: book.still_out(since=since))

    async def marks(self, *, since: date) -> list[Marked]:
        return await self._seen(lambda book: book.marks(since=since))

    async def count(self, counters: Sequence[str], amount: int) -> None:
        await self._changed(lambda book: book.count(counters, amount))

    async def counted(self, counters: Sequence[str]) -> dict[str, int]:
        return await self._seen(lambda book: book.counted(counters))

    async def _seen(self, verb: Callable[[TouchBook], _Result]) -> _Result:
        return await asyncio.to_thread(partial(self._do, verb, write=False))

    async def _changed(self, verb: Callable[[TouchBook], _Result]) -> _Result:
        return await asyncio.to_thread(partial(self._do, verb, write=True))

    def _do(self, verb: Callable[[TouchBook], _Result], *, write: bool) -> _Result:
        if not write and not self._path.exists():
            return verb(TouchBook())  # looking makes nothing
        self._disk.make_folder(self._path.parent)
        with self._turn.taken():
            book = self._book()
            result = verb(book)
            if write:
                self._disk.replace(self._path, self._bytes(book))
        return result

    def _book(self) -> TouchBook:
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return TouchBook()
        except OSError as error:
            raise meaning(error, self._path) from error
        try:
            said = _read(raw)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            return self._set_aside("damaged")
        if said["format"] > FORMAT:
            raise ConfigError(
                f"{self._path} was written by a newer Stoker; upgrade Stoker, nothing was changed"
            )
        if said["format"] < FORMAT:
            return self._set_aside("older")
        if said.get("tenant") != self._tenant:
            raise ConfigError(
                f"{self._path} belongs to another tenant than {self._tenant}; give each tenant a "
                "touches.state_file of its own"
            )
        try:
            return book_from_json(said)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StokerError):
            return self._set_aside("damaged")

    def _set_aside(self, why: str) -> TouchBook:
        for number in range(1, MOST_SET_ASIDE):
            aside = self._path.with_name(f"{self._path.name}.{why}-{number}")
            if not aside.exists():
                self._disk.move(self._path, aside)
                self._report(
                    f"{self._path} is {why} and was set aside as {aside.name}; touches begin anew: "
                    "import the profiles again, counters stand at 0"
                )
                return TouchBook()
        raise ConfigError(f"{self._path} is {why}, like {MOST_SET_ASIDE} before it; look at them")

    def _bytes(self, book: TouchBook) -> bytes:
        said: dict[str, Json] = {
            "format": FORMAT,
            "tenant": self._tenant,
            "saved_at": self._now().isoformat(),
            **book_json(book),
        }
        said["digest"] = _digest(said)
        return json.dumps(said, indent=1, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def _read(raw: bytes) -> dict[str, Any]:
    """Return what a file says, as long as it is whole. Raises ValueError and its kin."""
    said = json.loads(raw)
    number = said.get("format", 1)
    if not isinstance(said, dict) or not isinstance(number, int):
        raise TypeError("no state")
    if number == FORMAT and said.pop("digest") != _digest(said):
        raise ValueError("changed since it was written")
    return {**said, "format": number}


def _digest(said: Mapping[str, Json]) -> str:
    return sha256(compact_json(dict(said)).encode()).hexdigest()
