"""Plan a tenant's weeks, serve today's queue, record outcomes and count touches.

Several processes may do so at once: of two that change a week, the later reads it again first.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from stoker.base.clock import Clock
from stoker.base.errors import ConflictError
from stoker.budgets.windows import WindowKind
from stoker.touches.model import (
    Count,
    OutcomeMark,
    PlanBasis,
    Profile,
    SavedDay,
    SavedWeek,
    Touch,
    TouchOutcome,
    WeeklyPlan,
)
from stoker.touches.profiles import ParsedProfiles, merge_profiles, normalize_profile_url
from stoker.touches.queue import (
    TouchCounters,
    check_touch_limits,
    compute_success_rate,
    derive_seed,
    filter_active,
    filter_rested,
    format_week,
    get_latest_touch,
    get_limits,
    get_local_day,
    get_monday,
    get_window_names,
    has_begun,
    list_pending,
    parse_outcome,
    parse_week,
    remove_past_touches,
)
from stoker.touches.settings import PlanRule
from stoker.touches.store import TouchStore

if TYPE_CHECKING:
    from stoker.touches.planning.coverage import Certificate

MAX_ATTEMPTS = 10

PROFILE_PAGE_SIZE = 10_000

MEASURE_PERIOD = timedelta(days=56)

_WEEK = timedelta(days=7)

ReadAppeals = Callable[[], Awaitable[Mapping[str, float]]]

ReadProfiles = Callable[[], Awaitable[ParsedProfiles | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchStatus:
    """How a tenant's touches stand."""

    used: Mapping[WindowKind, int]
    limits: Mapping[WindowKind, int]
    week: str
    has_plan: bool  # of that week


class TouchService:
    """One tenant's plans, queue, outcomes and counters. `tenant` only names it, for its seeds.

    `appeals` reads profiles' appeal, 0 to 1 by url, whenever a week is planned. `source` reads the
    list the tenant keeps its profiles in, None when it cannot be read now: when a week is planned,
    and on a day's first look.
    """

    def __init__(
        self,
        store: TouchStore,
        *,
        rule: PlanRule,
        zone: str,
        clock: Clock,
        tenant: str = "default",
        appeals: ReadAppeals | None = None,
        source: ReadProfiles | None = None,
    ) -> None:
        rule.check()
        self.store = store
        self.rule = rule
        self.zone = zone
        self.tenant = tenant
        self.clock = clock
        self._read_appeals = appeals
        self._read_source = source

    async def check_limits(self) -> tuple[bool, str]:
        """Say whether one more touch may be made now; if not, which counter is full."""
        return check_touch_limits(await self.read_counters(self.clock.now()), rule=self.rule)

    async def consume(self, amount: int = 1) -> None:
        """Count touches that no plan knows of. One that is marked done counts by itself."""
        names = get_window_names(self.clock.now(), zone=self.zone)
        await self.store.add_to_counters(list(names.values()), amount)

    async def read_counters(self, now: datetime) -> TouchCounters:
        """Return what was used in the hour, the day and the week of a moment."""
        names = get_window_names(now, zone=self.zone)
        counted = await self.store.read_counters(list(names.values()))
        return {kind: Count(name, counted[name]) for kind, name in names.items()}

    async def status(self) -> TouchStatus:
        """Return how touches stand. Nothing is planned for it."""
        now = self.clock.now()
        today = get_local_day(now, self.zone)
        return TouchStatus(
            used={kind: each.used for kind, each in (await self.read_counters(now)).items()},
            limits=get_limits(self.rule),
            week=format_week(today),
            has_plan=await self.store.find_day(format_week(today), today) is not None,
        )

    def today(self) -> date:
        """Return the day it is for the tenant."""
        return get_local_day(self.clock.now(), self.zone)

    async def find_plan(self, week: str | None = None) -> WeeklyPlan | None:
        """Return the plan of a week as it stands, this one's if none is named."""
        name = format_week(parse_week(week)) if week else format_week(self.today())
        found = await self.store.find_plan(name)
        return found.plan if found else None

    async def preview_week(self, week: str | None = None, *, seed: int | None = None) -> WeeklyPlan:
        """Return a week as it would be planned now, without keeping it."""
        monday = parse_week(week) if week else get_monday(self.today())
        saved = await self.store.find_plan(format_week(monday))
        given = await self._read_source() if self._read_source is not None else None
        return await self._plan_again(saved, monday, seed=seed, now=self.clock.now(), given=given)

    async def generate_weekly_plan(
        self, week: str | None = None, *, seed: int | None = None
    ) -> WeeklyPlan:
        """Plan a week, this one if none is named, and keep it.

        A week that has begun keeps its budgets, what was handed out and what came of it; the rest
        is planned again, from another seed if one is given.
        """
        monday = parse_week(week) if week else get_monday(self.today())
        await self._import_source()
        for _ in range(MAX_ATTEMPTS):
            saved = await self.store.find_plan(format_week(monday))
            plan = await self._plan_again(saved, monday, seed=seed, now=self.clock.now())
            if await self.store.save_plan(plan, seen=saved.revision if saved else 0):
                return plan
        raise _build_conflict()

    async def get_todays_queue(self) -> list[Touch]:
        """Return today's pending touches in time order, and fix their times.

        Plans the week if it has no plan yet, and repairs the rest of it from what happened.
        """
        return await self.filter_allowed(list_pending((await self.load_today()).slot))

    async def load_today(self, *, whole_week: bool = True) -> SavedDay:
        """Return today's slot, its times fixed, of a plan that is made or repaired if need be.

        Outcomes change nothing about today, only about the days after: with `whole_week` false
        they can wait. Where nothing is new, only today is read.
        """
        for _ in range(MAX_ATTEMPTS):
            today = self.today()
            saved = await self.store.find_day(format_week(today), today)
            late = saved is None or (whole_week and saved.has_new_outcomes)
            if saved is not None and not late and saved.basis == await self._compute_basis(today):
                return saved
            await self.ensure_plan()
        raise _build_conflict()

    async def filter_allowed(self, touches: list[Touch]) -> list[Touch]:
        """Return those of touches whose profiles are active now and had their rest."""
        profiles = await self.store.find_profiles([touch.url for touch in touches])
        active = filter_active(touches, profiles)
        return filter_rested(active, profiles, rule=self.rule, zone=self.zone)

    async def ensure_plan(self) -> SavedWeek:
        """Return this week's plan: made if there was none, repaired, today's times fixed."""
        from stoker.touches.planning.planner import mark_handed_out

        if not await self._was_planned_today():
            await self._import_source()
        for _ in range(MAX_ATTEMPTS):
            now = self.clock.now()
            today = get_local_day(now, self.zone)
            # Read before the profiles are: what is put after that makes this plan out of date.
            basis = await self._compute_basis(today)
            saved = await self.store.find_plan(format_week(today))
            monday = get_monday(today)
            plan = await (
                self._replan(saved, now=now) if saved else self._plan_again(None, monday, now=now)
            )
            plan = mark_handed_out(plan, day=today, at=now)
            if saved is not None and plan == saved.plan and saved.basis == basis:
                return saved
            seen = saved.revision if saved else 0
            if await self.store.save_plan(plan, seen=seen, basis=basis):
                deliveries = saved.deliveries if saved else {}
                return SavedWeek(plan=plan, revision=seen + 1, deliveries=deliveries, basis=basis)
        raise _build_conflict()

    async def mark_outcome(self, url: str, outcome: str) -> bool:
        """Record what came of a touch; False when that was known. Twice is once.

        It is the latest touch of this url up to today, of this week or the last. Raises
        PermanentError, with nothing changed, when there is none or the outcome is no outcome.
        """
        parsed, url = parse_outcome(outcome), normalize_profile_url(url)
        now = self.clock.now()
        today = get_local_day(now, self.zone)
        weeks = [format_week(today), format_week(today - timedelta(days=7))]
        touch = get_latest_touch(await self.store.list_touches(url, weeks=weeks), url, today=today)
        mark = OutcomeMark(url=url, day=touch.day, outcome=TouchOutcome(parsed), marked_at=now)
        names = get_window_names(now, zone=self.zone)
        return await self.store.record_outcome(
            format_week(touch.day), mark, counters=list(names.values())
        )

    async def list_profiles(self) -> list[Profile]:
        """Return all profiles, whatever their status."""
        found: list[Profile] = []
        while page := await self.store.list_profiles(
            after=found[-1].url if found else "", limit=PROFILE_PAGE_SIZE
        ):
            found += page
        return found

    async def compute_certificate(self, *, runs: int) -> Certificate:
        """Return what can be guaranteed from this Monday on, at the measured success rate.

        While too few touches were made to tell, the rule's rate is taken for it.
        """
        from stoker.touches.planning.coverage import compute_certificate

        monday = get_monday(self.today())
        marks = await self.store.list_outcomes(since=self.today() - MEASURE_PERIOD)
        return compute_certificate(
            await self.list_profiles(),
            monday=monday,
            rule=self.rule,
            seed=derive_seed(self.tenant, format_week(monday)),
            zone=self.zone,
            success_rate=compute_success_rate(marks, default=self.rule.success_rate),
            runs=runs,
            appeals=await self._load_appeals(),
        )

    async def _compute_basis(self, today: date) -> PlanBasis:
        numbers = [getattr(self.rule, each.name) for each in fields(PlanRule)]
        digest = blake2b(repr((numbers, self.zone)).encode(), digest_size=8).hexdigest()
        return PlanBasis(
            on=today, profiles_version=await self.store.get_profiles_version(), rule_digest=digest
        )

    async def _load_appeals(self) -> Mapping[str, float]:
        if self._read_appeals is None or not self.rule.appeal_factor:
            return {}
        return await self._read_appeals()

    async def _was_planned_today(self) -> bool:
        today = self.today()
        saved = await self.store.find_day(format_week(today), today)
        return saved is not None and saved.basis is not None and saved.basis.on == today

    async def _import_source(self) -> None:
        given = await self._read_source() if self._read_source is not None else None
        if given is not None:
            await self.store.save_profiles(given.profiles, keep_status=not given.has_status)

    async def _list_people(self, given: ParsedProfiles | None) -> list[Profile]:
        """Return all profiles; with those given, as they would be after importing them."""
        known = await self.list_profiles()
        return known if given is None else merge_profiles(known, given)

    async def _list_recent_touches(self, monday: date, today: date) -> list[Touch]:
        """Return touches of the week before that may have been made, if that still matters."""
        from stoker.touches.planning.planner import list_unanswered

        if today - monday >= self.rule.min_rest:
            return []
        before = await self.store.find_plan(format_week(monday - _WEEK))
        return [] if before is None else list_unanswered(before.plan, before=monday)

    async def _list_plans_until(self, monday: date, today: date) -> list[WeeklyPlan]:
        """Return the plans from this week to the one before a Monday."""
        weeks = range((monday - get_monday(today)).days // 7)
        found = [
            await self.store.find_plan(format_week(get_monday(today) + week * _WEEK))
            for week in weeks
        ]
        return [saved.plan for saved in found if saved is not None]

    async def _plan_new(
        self, monday: date, *, seed: int | None, now: datetime, given: ParsedProfiles | None
    ) -> WeeklyPlan:
        from stoker.touches.planning.planner import plan_week, project_profiles, replan_week

        drawn = derive_seed(self.tenant, format_week(monday)) if seed is None else seed
        today = get_local_day(now, self.zone)
        people, appeals = await self._list_people(given), await self._load_appeals()
        plans = await self._list_plans_until(monday, today)
        recent = await self._list_recent_touches(monday, today)
        with pause_garbage_collection():
            plan = plan_week(
                project_profiles(people, plans, today=today) if plans else people,
                monday=monday,
                rule=self.rule,
                seed=drawn,
                zone=self.zone,
                created_at=now,
                appeals=appeals,
                unanswered=recent,
            )
            if not plan.monday <= today <= plan.days[-1].day:
                return plan
            late = remove_past_touches(plan, today=today)
            return replan_week(
                late, people, [], rule=self.rule, now=now, appeals=appeals, unanswered=recent
            )

    async def _plan_again(
        self,
        saved: SavedWeek | None,
        monday: date,
        *,
        now: datetime,
        seed: int | None = None,
        given: ParsedProfiles | None = None,
    ) -> WeeklyPlan:
        if saved is not None and has_begun(saved.plan):
            return await self._replan(saved, now=now, seed=seed, given=given)
        return await self._plan_new(monday, seed=seed, now=now, given=given)

    async def _replan(
        self,
        saved: SavedWeek,
        *,
        now: datetime,
        seed: int | None = None,
        given: ParsedProfiles | None = None,
    ) -> WeeklyPlan:
        from stoker.touches.planning.planner import replan_week

        plan = saved.plan if seed is None else replace(saved.plan, seed=seed)
        marks = await self.store.list_outcomes(since=plan.monday)
        people, appeals = await self._list_people(given), await self._load_appeals()
        recent = await self._list_recent_touches(plan.monday, get_local_day(now, self.zone))
        with pause_garbage_collection():
            return replan_week(
                plan,
                people,
                marks,
                rule=self.rule,
                now=now,
                appeals=appeals,
                unanswered=recent,
            )


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Create many values without garbage collection: all of them stay in use.

    Of a million profiles every third second would go into looking.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _build_conflict() -> ConflictError:
    return ConflictError("others keep changing this week's plan; nothing was changed, try again")
