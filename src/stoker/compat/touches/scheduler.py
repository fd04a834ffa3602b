"""`Scheduler`, as scripts know it: plain methods over the service that plans and counts touches.

The state is in `schedule_state.json` and the file beside it. A script calls `consume()` for a touch
it makes and then marks it done; both together count one. A day is planned as of its beginning, so
that a script started late has the whole day's queue; the limits hold it back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, TypeVar

from stoker.base.clock import Clock, SystemClock
from stoker.base.errors import PermanentError
from stoker.base.types import TenantId, to_utc
from stoker.budgets.windows import WindowKind
from stoker.calendar.timezones import get_zone
from stoker.compat.threads import run_in_thread
from stoker.compat.touches import settings
from stoker.compat.touches.plan import (
    ScheduledEngagement,
    WeeklyPlan,
    to_engagement,
    to_weekly_plan,
)
from stoker.compat.touches.profiles import parse_rows
from stoker.compat.touches.rule import build_rule, get_zone_name
from stoker.files.durable import Disk, FileLock
from stoker.touches.model import OutcomeMark, ProfileStatus, Touch, TouchOutcome
from stoker.touches.profiles import normalize_profile_url
from stoker.touches.queue import (
    format_week,
    get_latest_touch,
    get_limits,
    get_local_day,
    get_window_names,
    parse_outcome,
)
from stoker.touches.schedule_state import find_outcome
from stoker.touches.service import TouchService
from stoker.touches.state_file import StateFile
from stoker.touches.store import TouchStore

TENANT = TenantId("default")

_LOCK_TIMEOUT = timedelta(seconds=30)

# Touches of a day that a script counted, and those of them it has marked since.
_CONSUMED, _MARKED = "consumed/", "consumed and marked/"

_Result = TypeVar("_Result")


class _StillClock:
    """A `Clock` that stands still: the day is planned as of this moment."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def elapsed(self) -> timedelta:
        return timedelta(0)

    async def sleep(self, duration: timedelta) -> None:
        raise NotImplementedError("nothing waits while a day is planned")


class _CounterAttribute:
    """How many touches count in the window of now; a script may set it."""

    def __init__(self, kind: WindowKind) -> None:
        self._kind = kind

    def __get__(self, scheduler: Scheduler, owner: type[Scheduler]) -> int:
        return scheduler.read_count(self._kind)

    def __set__(self, scheduler: Scheduler, value: int) -> None:
        scheduler.set_count(self._kind, value)


class Scheduler:
    """One person's touches in a state file. Every number is read from `settings` when it is used.

    `report` gets sentences about damaged files and rows that are no profiles.
    """

    daily_count = _CounterAttribute(WindowKind.DAY)
    weekly_count = _CounterAttribute(WindowKind.WEEK)  # from Monday on
    hourly_count = _CounterAttribute(WindowKind.HOUR)

    def __init__(
        self,
        state_file: str | Path | None = None,
        *,
        clock: Clock | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.state_file = Path(settings.SCHEDULE_STATE_FILE if state_file is None else state_file)
        self._clock = clock or SystemClock()
        self._report = report or _write_to_stderr
        self._lock = FileLock(
            self.state_file.with_name(f".{self.state_file.name}.count.lock"),
            patience=_LOCK_TIMEOUT,
        )

    @property
    def plan(self) -> WeeklyPlan | None:
        """The plan of this week, or the last one's while this week has none."""
        today = self._today()
        return self._find_plan(today) or self._find_plan(today - timedelta(days=7))

    def check_limits(self) -> tuple[bool, str]:
        """Return whether one more touch may be made now; if not, which limit is reached."""
        return self._run(lambda service: service.check_limits())

    def consume(self, amount: int = 1) -> None:
        """Count touches. Marking them done afterwards, on the same day, does not count again."""
        now = self._clock.now()
        names = [*self._get_window_names(now), f"{_CONSUMED}{self._today()}"]
        with self._hold_lock():
            self._run(lambda service: service.store.add_to_counters(names, amount))

    def status(self) -> dict[str, Any]:
        """Return what is used of each limit, and which week's plan there is."""
        used = self._run(lambda service: service.read_counters(self._clock.now()))
        limits, plan = get_limits(build_rule()), self.plan
        shown = {"daily": WindowKind.DAY, "weekly": WindowKind.WEEK, "hourly": WindowKind.HOUR}
        return {
            **{
                name: {"used": used[kind].used, "limit": limits[kind]}
                for name, kind in shown.items()
            },
            "plan_exists": plan is not None,
            "plan_week": None if plan is None else plan.week_number,
        }

    def generate_weekly_plan(
        self, state_data: Sequence[Mapping[str, Any]] | None = None
    ) -> WeeklyPlan:
        """Plan this week for the people in `state_data`, and save the plan.

        Who is known and not listed is paused. Without `state_data`, who is known is planned. What
        was handed out or has an outcome stays as it is.
        """
        if state_data is not None:
            self._run(lambda service: self._save_people(service, state_data))
        self._run(lambda service: service.generate_weekly_plan())
        week = self._run(lambda service: service.ensure_plan(), clock=self._get_morning())
        return to_weekly_plan(week.plan)

    def get_todays_queue(self) -> list[ScheduledEngagement]:
        """Return today's pending touches in time order; the week is planned if it has no plan."""
        if self._find_plan(self._today()) is None:
            self.generate_weekly_plan()
        queue = self._run(lambda service: service.get_todays_queue(), clock=self._get_morning())
        zone = get_zone(get_zone_name())
        return [to_engagement(touch, zone) for touch in queue]

    def mark_outcome(self, linkedin_url: str, outcome: str) -> bool:
        """Record what came of a touch, planned or not; False when that was known.

        Done counts one, unless `consume` has counted it. Raises PermanentError, with nothing
        changed, for a word that is no outcome.
        """
        parsed = find_outcome(outcome) or parse_outcome(outcome)
        url = normalize_profile_url(linkedin_url)
        with self._hold_lock():
            return self._run(lambda service: self._mark(service, url, parsed))

    async def _mark(self, service: TouchService, url: str, outcome: TouchOutcome) -> bool:
        now, today, store = self._clock.now(), self._today(), service.store
        touch = await _find_touch(store, url, now=now, zone=service.zone)
        known = await _find_outcome(store, url, touch, today=today)
        if known is not None and (known is outcome or known.is_counted):
            return False
        consumed, marked = f"{_CONSUMED}{today}", f"{_MARKED}{today}"
        counted = await store.read_counters([consumed, marked])
        is_counted = counted[consumed] > counted[marked]
        counters = [marked] if is_counted else self._get_window_names(now)
        day = today if touch is None else touch.day
        mark = OutcomeMark(url=url, day=day, outcome=outcome, marked_at=now)
        if touch is None:
            return await store.record_unplanned_outcome(mark, counters=counters)
        return await store.record_outcome(format_week(day), mark, counters=counters)

    async def _save_people(
        self, service: TouchService, state_data: Sequence[Mapping[str, Any]]
    ) -> None:
        parsed = parse_rows(state_data, zone=service.zone, now=self._clock.now())
        for bad in parsed.bad_rows:
            self._report(f"row {bad.where.removeprefix('line ')} is not planned: {bad.reason}")
        listed = {each.url for each in parsed.profiles}
        others = [
            replace(each, status=ProfileStatus.PAUSED)
            for each in await service.list_profiles()
            if each.url not in listed and each.status is ProfileStatus.ACTIVE
        ]
        await service.store.save_profiles([*parsed.profiles, *others])

    def read_count(self, kind: WindowKind) -> int:
        """Return how many touches count in the hour, the day or the week of now."""
        return self._run(lambda service: service.read_counters(self._clock.now()))[kind].used

    def set_count(self, kind: WindowKind, value: int) -> None:
        """Let so many touches count in the hour, the day or the week of now."""
        name = get_window_names(self._clock.now(), zone=get_zone_name())[kind]
        self._run(lambda service: service.store.replace_counters({name: value}))

    def _find_plan(self, day: date) -> WeeklyPlan | None:
        found = self._run(lambda service: service.find_plan(format_week(day)))
        return None if found is None else to_weekly_plan(found)

    def _today(self) -> date:
        return get_local_day(self._clock.now(), get_zone_name())

    def _get_window_names(self, now: datetime) -> list[str]:
        return list(get_window_names(now, zone=get_zone_name()).values())

    def _get_morning(self) -> Clock:
        midnight = datetime.combine(self._today(), time(), get_zone(get_zone_name()))
        return _StillClock(to_utc(midnight))

    def _hold_lock(self) -> AbstractContextManager[None]:
        Disk().make_folder(self.state_file.parent)
        return self._lock.acquire()

    def _run(
        self,
        work: Callable[[TouchService], Coroutine[Any, Any, _Result]],
        *,
        clock: Clock | None = None,
    ) -> _Result:
        zone = get_zone_name()
        file = StateFile(
            self.state_file,
            tenant=TENANT,
            now=self._clock.now,
            report=self._report,
            zone=zone,
        )
        service = TouchService(
            TouchStore(file),
            rule=build_rule(),
            zone=zone,
            clock=clock or self._clock,
            tenant=TENANT,
        )
        return run_in_thread(lambda: work(service))


RateLimiter = Scheduler  # the name that scripts know which only check limits and count


async def _find_touch(store: TouchStore, url: str, *, now: datetime, zone: str) -> Touch | None:
    """Return the planned touch that an outcome of now belongs to; None when no plan has one."""
    today = get_local_day(now, zone)
    weeks = [format_week(today), format_week(today - timedelta(days=7))]
    planned = await store.list_touches(url, weeks=weeks)
    try:
        latest = get_latest_touch(planned, url, today=today)
    except PermanentError:
        return None
    is_over = latest.day < today and latest.outcome is not None
    return None if is_over else latest


async def _find_outcome(
    store: TouchStore, url: str, touch: Touch | None, *, today: date
) -> TouchOutcome | None:
    if touch is not None:
        return touch.outcome
    marks = await store.list_outcomes(since=today)
    return next((mark.outcome for mark in marks if (mark.url, mark.day) == (url, today)), None)


def _write_to_stderr(message: str) -> None:
    sys.stderr.write(f"stoker: {message}\n")
