"""One tenant's profiles, plans and counters in one JSON file: for who has no store.

Each change replaces the whole file, so a crash leaves the old or the new. A file that is damaged
or of an older make is set aside under another name, never written over, and that is reported.

A whole book of touches as JSON, and back: profiles, plans, what came of them, counters.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from stoker.base.errors import ConfigError, StokerError
from stoker.base.jsontools import compact_json
from stoker.base.types import Json, TenantId, tenant_id
from stoker.db.database import moment, moment_text, optional_moment, optional_moment_text
from stoker.files.durable import Disk, Turn, meaning
from stoker.touches.book import TouchBook
from stoker.touches.export import plan_from_json, plan_json
from stoker.touches.model import (
    HandOver,
    KeptDay,
    KeptPlan,
    Marked,
    Outcome,
    Profile,
    ProfilesPut,
    ProfileStatus,
    Settled,
    Touch,
    WeeklyPlan,
)
from stoker.touches.row_checks import (
    kept_counters,
    kept_handover,
    kept_mark,
    kept_plan,
    kept_profile,
)


def book_json(book: TouchBook) -> dict[str, Json]:
    """Return everything in a book as JSON has it."""
    return {
        "counters": {name: book.counters[name] for name in sorted(book.counters)},
        "plans": {
            week: {
                "revision": revision,
                "plan": plan_json(plan),
                "settled": settled_json(*book.settled[week]) if week in book.settled else None,
            }
            for week, (plan, revision) in sorted(book.plans.items())
        },
        "profile_puts": book.puts,
        "profiles": [_profile_json(book.people[url]) for url in sorted(book.people)],
        "outcomes": [_mark_json(book.marked[named]) for named in sorted(book.marked)],
        "handovers": [_handover_json(book.handed[named]) for named in sorted(book.handed)],
    }


def book_from_json(said: Mapping[str, Any]) -> TouchBook:
    """Return the book that was written so. Raises ValueError and its kin when it is none."""
    profiles = [kept_profile(_profile(each)) for each in said["profiles"]]
    marks = [kept_mark(_mark(each)) for each in said["outcomes"]]
    left = [kept_handover(_handover(each)) for each in said["handovers"]]
    plans = {
        week: (kept_plan(plan_from_json(each["plan"])), int(each["revision"]))
        for week, each in said["plans"].items()
    }
    if any(plan.week != week or revision < 1 for week, (plan, revision) in plans.items()):
        raise ValueError("a plan under another week's name")
    counters = {name: int(said["counters"][name]) for name in kept_counters(said["counters"])}
    if min(counters.values(), default=0) < 0:
        raise ValueError("a counter below nothing")
    # What is missing was not written yet by the first of this format.
    settled = {week: each.get("settled") for week, each in said["plans"].items()}
    return TouchBook(
        people={each.url: each for each in profiles},
        plans=plans,
        marked={(each.day, each.url): each for each in marks},
        handed={(each.day, each.url): each for each in left},
        counters=Counter(counters),
        settled={week: settled_of(each) for week, each in settled.items() if each is not None},
        puts=int(said.get("profile_puts", 0)),
    )


def settled_json(settled: Settled, revision: int) -> Json:
    """Return what a plan was brought in line with, and the revision it had then."""
    return {
        "on": settled.on.isoformat(),
        "roster": settled.roster,
        "rule": settled.rule,
        "revision": revision,
    }


def settled_of(said: Mapping[str, Any]) -> tuple[Settled, int]:
    """Return what `settled_json` gave."""
    settled = Settled(
        on=date.fromisoformat(said["on"]),
        roster=int(said["roster"]),
        rule=str(said.get("rule", "")),
    )
    return settled, int(said["revision"])


def _profile_json(profile: Profile) -> Json:
    return {
        "url": profile.url,
        "name": profile.name,
        "status": profile.status.value,
        "last_done_at": optional_moment_text(profile.last_done_at),
    }


def _profile(said: Mapping[str, Any]) -> Profile:
    return Profile(
        url=said["url"],
        name=said["name"],
        status=ProfileStatus(said["status"]),
        last_done_at=optional_moment(said["last_done_at"]),
    )


def _mark_json(mark: Marked) -> Json:
    return {
        "day": mark.day.isoformat(),
        "url": mark.url,
        "outcome": mark.outcome.value,
        "marked_at": moment_text(mark.marked_at),
    }


def _mark(said: Mapping[str, Any]) -> Marked:
    return Marked(
        day=date.fromisoformat(said["day"]),
        url=said["url"],
        outcome=Outcome(said["outcome"]),
        marked_at=moment(said["marked_at"]),
    )


def _handover_json(handed: HandOver) -> Json:
    return {
        "day": handed.day.isoformat(),
        "url": handed.url,
        "way": handed.way,
        "at": moment_text(handed.at),
        "refused": handed.refused,
    }


def _handover(said: Mapping[str, Any]) -> HandOver:
    return HandOver(
        day=date.fromisoformat(said["day"]),
        url=said["url"],
        way=said["way"],
        at=moment(said["at"]),
        refused=said["refused"],
    )


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
