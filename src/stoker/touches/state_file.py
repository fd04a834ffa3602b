"""One tenant's touch state in one JSON file, for programs without a store.

Each change replaces the whole file, so a crash leaves the old or the new one. A damaged or older
file is moved aside under another name, never overwritten, and that is reported.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from stoker.base.errors import ConfigError, StokerError
from stoker.base.jsontools import compute_digest
from stoker.base.types import Json, TenantId, parse_tenant_id
from stoker.db.database import from_db_time, from_optional_db_time, to_db_time, to_optional_db_time
from stoker.files.durable import Disk, FileLock, translate_os_error
from stoker.touches.book import TouchState
from stoker.touches.export import parse_plan, plan_to_json
from stoker.touches.model import (
    Delivery,
    OutcomeMark,
    PlanBasis,
    Profile,
    ProfileCounts,
    ProfileStatus,
    SavedDay,
    SavedWeek,
    Touch,
    TouchOutcome,
    WeeklyPlan,
)
from stoker.touches.row_checks import (
    validate_counters,
    validate_delivery,
    validate_outcome,
    validate_plan,
    validate_profile,
)


def state_to_json(book: TouchState) -> dict[str, Json]:
    """Return everything in a book as JSON has it."""
    return {
        "counters": {name: book.counters[name] for name in sorted(book.counters)},
        "plans": {
            week: {
                "revision": revision,
                "plan": plan_to_json(plan),
                "settled": basis_to_json(*book.bases[week]) if week in book.bases else None,
            }
            for week, (plan, revision) in sorted(book.plans.items())
        },
        "profile_puts": book.profiles_version,
        "profiles": [
            _profile_to_json(book.profiles_by_url[url]) for url in sorted(book.profiles_by_url)
        ],
        "outcomes": [_outcome_to_json(book.outcomes[named]) for named in sorted(book.outcomes)],
        "handovers": [
            _delivery_to_json(book.deliveries[named]) for named in sorted(book.deliveries)
        ],
    }


def parse_state(data: Mapping[str, Any]) -> TouchState:
    """Return the book that was written so. Raises ValueError and its kin when it is none."""
    profiles = [validate_profile(_parse_profile(each)) for each in data["profiles"]]
    marks = [validate_outcome(_parse_outcome(each)) for each in data["outcomes"]]
    left = [validate_delivery(_parse_delivery(each)) for each in data["handovers"]]
    plans = {
        week: (validate_plan(parse_plan(each["plan"])), int(each["revision"]))
        for week, each in data["plans"].items()
    }
    if any(plan.week != week or revision < 1 for week, (plan, revision) in plans.items()):
        raise ValueError("a plan under another week's name")
    counters = {name: int(data["counters"][name]) for name in validate_counters(data["counters"])}
    if min(counters.values(), default=0) < 0:
        raise ValueError("a counter below nothing")
    # What is missing was not written yet by the first of this format.
    settled = {week: each.get("settled") for week, each in data["plans"].items()}
    return TouchState(
        profiles_by_url={each.url: each for each in profiles},
        plans=plans,
        outcomes={(each.day, each.url): each for each in marks},
        deliveries={(each.day, each.url): each for each in left},
        counters=Counter(counters),
        bases={week: parse_basis(each) for week, each in settled.items() if each is not None},
        profiles_version=int(data.get("profile_puts", 0)),
    )


def basis_to_json(settled: PlanBasis, revision: int) -> Json:
    """Return what a plan was brought in line with, and the revision it had then."""
    return {
        "on": settled.on.isoformat(),
        "roster": settled.profiles_version,
        "rule": settled.rule_digest,
        "revision": revision,
    }


def parse_basis(data: Mapping[str, Any]) -> tuple[PlanBasis, int]:
    """Return what `basis_to_json` gave."""
    basis = PlanBasis(
        on=date.fromisoformat(data["on"]),
        profiles_version=int(data["roster"]),
        rule_digest=str(data.get("rule", "")),
    )
    return basis, int(data["revision"])


def _profile_to_json(profile: Profile) -> Json:
    return {
        "url": profile.url,
        "name": profile.name,
        "status": profile.status.value,
        "last_done_at": to_optional_db_time(profile.last_done_at),
    }


def _parse_profile(data: Mapping[str, Any]) -> Profile:
    return Profile(
        url=data["url"],
        name=data["name"],
        status=ProfileStatus(data["status"]),
        last_done_at=from_optional_db_time(data["last_done_at"]),
    )


def _outcome_to_json(mark: OutcomeMark) -> Json:
    return {
        "day": mark.day.isoformat(),
        "url": mark.url,
        "outcome": mark.outcome.value,
        "marked_at": to_db_time(mark.marked_at),
    }


def _parse_outcome(data: Mapping[str, Any]) -> OutcomeMark:
    return OutcomeMark(
        day=date.fromisoformat(data["day"]),
        url=data["url"],
        outcome=TouchOutcome(data["outcome"]),
        marked_at=from_db_time(data["marked_at"]),
    )


def _delivery_to_json(handed: Delivery) -> Json:
    return {
        "day": handed.day.isoformat(),
        "url": handed.url,
        "way": handed.channel,
        "at": to_db_time(handed.at),
        "refused": handed.refused,
    }


def _parse_delivery(data: Mapping[str, Any]) -> Delivery:
    return Delivery(
        day=date.fromisoformat(data["day"]),
        url=data["url"],
        channel=data["way"],
        at=from_db_time(data["at"]),
        refused=data["refused"],
    )


FORMAT = 2  # the first, of an earlier product, had no profiles in it

LOCK_TIMEOUT = timedelta(seconds=30)

MAX_SET_ASIDE = 1000

_ResultT = TypeVar("_ResultT")


class TouchStateFile:
    """A `TouchStore` in a file, `schedule_state.json`. Its verbs do their file work in threads.

    `report` is called with a message when a file was moved aside.
    """

    def __init__(
        self,
        path: Path,
        *,
        tenant: TenantId,
        now: Callable[[], datetime],
        report: Callable[[str], None],
        patience: timedelta = LOCK_TIMEOUT,
        disk: Disk | None = None,
    ) -> None:
        self._path = path
        self._tenant = parse_tenant_id(tenant)
        self._now = now
        self._report = report
        self._disk = disk or Disk()
        self._lock = FileLock(path.with_name(f".{path.name}.lock"), patience=patience)

    async def save_profiles(self, profiles: Sequence[Profile]) -> ProfileCounts:
        return await self._write(lambda book: book.save_profiles(profiles))

    async def list_profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        return await self._read(lambda book: book.list_profiles(after=after, limit=limit))

    async def find_plan(self, week: str) -> SavedWeek | None:
        return await self._read(lambda book: book.find_plan(week))

    async def find_profiles(self, urls: Sequence[str]) -> list[Profile]:
        return await self._read(lambda book: book.find_profiles(urls))

    async def get_profiles_version(self) -> int:
        return await self._read(lambda book: book.get_profiles_version())

    async def find_day(self, week: str, day: date) -> SavedDay | None:
        return await self._read(lambda book: book.find_day(week, day))

    async def list_touches(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        return await self._read(lambda book: book.list_touches(url, weeks=weeks))

    async def save_plan(
        self, plan: WeeklyPlan, *, seen: int, settled: PlanBasis | None = None
    ) -> bool:
        return await self._write(lambda book: book.save_plan(plan, seen=seen, settled=settled))

    async def record_outcome(
        self, week: str, marked: OutcomeMark, *, counters: Sequence[str]
    ) -> bool:
        return await self._write(lambda book: book.record_outcome(week, marked, counters=counters))

    async def record_delivery(self, week: str, handed: Delivery) -> bool:
        return await self._write(lambda book: book.record_delivery(week, handed))

    async def count_awaiting_outcome(self, *, since: datetime) -> int:
        return await self._read(lambda book: book.count_awaiting_outcome(since=since))

    async def list_outcomes(self, *, since: date) -> list[OutcomeMark]:
        return await self._read(lambda book: book.list_outcomes(since=since))

    async def add_to_counters(self, counters: Sequence[str], amount: int) -> None:
        await self._write(lambda book: book.add_to_counters(counters, amount))

    async def read_counters(self, counters: Sequence[str]) -> dict[str, int]:
        return await self._read(lambda book: book.read_counters(counters))

    async def _read(self, verb: Callable[[TouchState], _ResultT]) -> _ResultT:
        return await asyncio.to_thread(partial(self._run_verb, verb, write=False))

    async def _write(self, verb: Callable[[TouchState], _ResultT]) -> _ResultT:
        return await asyncio.to_thread(partial(self._run_verb, verb, write=True))

    def _run_verb(self, verb: Callable[[TouchState], _ResultT], *, write: bool) -> _ResultT:
        if not write and not self._path.exists():
            return verb(TouchState())  # looking makes nothing
        self._disk.make_folder(self._path.parent)
        with self._lock.acquire():
            book = self._load()
            result = verb(book)
            if write:
                self._disk.replace(self._path, self._serialize(book))
        return result

    def _load(self) -> TouchState:
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return TouchState()
        except OSError as error:
            raise translate_os_error(error, self._path) from error
        try:
            data = _parse_file(raw)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            return self._move_aside("damaged")
        if data["format"] > FORMAT:
            raise ConfigError(
                f"{self._path} was written by a newer Stoker; upgrade Stoker, nothing was changed"
            )
        if data["format"] < FORMAT:
            return self._move_aside("older")
        if data.get("tenant") != self._tenant:
            raise ConfigError(
                f"{self._path} belongs to another tenant than {self._tenant}; give each tenant a "
                "touches.state_file of its own"
            )
        try:
            return parse_state(data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StokerError):
            return self._move_aside("damaged")

    def _move_aside(self, why: str) -> TouchState:
        for number in range(1, MAX_SET_ASIDE):
            aside = self._path.with_name(f"{self._path.name}.{why}-{number}")
            if not aside.exists():
                self._disk.move(self._path, aside)
                self._report(
                    f"{self._path} is {why} and was moved to {aside.name}; touches start empty: "
                    "import the profiles again, counters stand at 0"
                )
                return TouchState()
        raise ConfigError(f"{self._path} is {why}, like {MAX_SET_ASIDE} before it; look at them")

    def _serialize(self, book: TouchState) -> bytes:
        data: dict[str, Json] = {
            "format": FORMAT,
            "tenant": self._tenant,
            "saved_at": self._now().isoformat(),
            **state_to_json(book),
        }
        data["digest"] = compute_digest(data)
        return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def _parse_file(raw: bytes) -> dict[str, Any]:
    """Return what a file says, as long as it is whole. Raises ValueError and its kin."""
    data = json.loads(raw)
    number = data.get("format", 1)
    if not isinstance(data, dict) or not isinstance(number, int):
        raise TypeError("no state")
    if number == FORMAT and data.pop("digest") != compute_digest(data):
        raise ValueError("changed since it was written")
    return {**data, "format": number}
