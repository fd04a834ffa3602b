"""A tenant's touches from day to day: a plan each week, repaired from what happened, and counters.

Reads the clock, asks `core.coverage`, keeps what it says. Several processes may do so at once: of
two that change a week, the later reads it again first. How a due touch leaves is not known here.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from stoker.base.clock import Clock
from stoker.base.errors import ConflictError
from stoker.budgets.windows import WindowKind
from stoker.touches.model import (
    KeptDay,
    KeptPlan,
    Marked,
    Outcome,
    PlanRule,
    Profile,
    Settled,
    Touch,
    TouchStore,
    WeeklyPlan,
)
from stoker.touches.profiles import profile_url
from stoker.touches.queue import (
    Count,
    Counters,
    begun,
    has_begun,
    limits,
    local_day,
    monday_named,
    monday_of,
    of_the_active,
    outcome_named,
    pending,
    seed_of,
    spoken_of,
    success_rate,
    verdict,
    week_name,
    windows,
)

if TYPE_CHECKING:
    from stoker.touches.coverage import Certificate

ATTEMPTS = 10

PROFILES_A_PAGE = 10_000

MEASURED_OVER = timedelta(days=56)

Appeals = Callable[[], Awaitable[Mapping[str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchStatus:
    """How a tenant's touches stand."""

    counters: Counters
    limits: Mapping[WindowKind, int]
    week: str
    has_plan: bool  # of that week


class Touching:
    """One tenant's plans, queue, outcomes and counters. `tenant` only names it, for its seeds.

    `appeals` reads profiles' appeal, 0 to 1 by url, whenever a week is planned.
    """

    def __init__(
        self,
        store: TouchStore,
        *,
        rule: PlanRule,
        zone: str,
        clock: Clock,
        tenant: str = "default",
        appeals: Appeals | None = None,
    ) -> None:
        self.store = store
        self.rule = rule
        self.zone = zone
        self.tenant = tenant
        self.clock = clock
        self._reads_appeals = appeals

    async def check_limits(self) -> tuple[bool, str]:
        """Say whether one more touch may be made now; if not, which counter is full."""
        now = self.clock.now()
        return verdict(await self.counters(now), rule=self.rule, now=now, zone=self.zone)

    async def consume(self, amount: int = 1) -> None:
        """Count touches that no plan knows of. One that is marked done counts by itself."""
        names = windows(self.clock.now(), zone=self.zone)
        await self.store.count(list(names.values()), amount)

    async def counters(self, now: datetime) -> Counters:
        """Return what was used in the hour, the day and the week of a moment."""
        names = windows(now, zone=self.zone)
        counted = await self.store.counted(list(names.values()))
        return Counters({kind: Count(name, counted[name]) for kind, name in names.items()})

    async def status(self) -> TouchStatus:
        """Return how touches stand. Nothing is planned for it."""
        now = self.clock.now()
        today = local_day(now, self.zone)
        return TouchStatus(
            counters=await self.counters(now),
            limits=limits(self.rule),
            week=week_name(today),
            has_plan=await self.store.day(week_name(today), today) is not None,
        )

    def today(self) -> date:
        """Return the day it is for the tenant."""
        return local_day(self.clock.now(), self.zone)

    async def kept(self, week: str | None = None) -> WeeklyPlan | None:
        """Return the plan of a week as it stands, this one's if none is named."""
        name = week_name(monday_named(week)) if week else week_name(self.today())
        found = await self.store.plan(name)
        return found.plan if found else None

    async def planned(self, week: str | None = None, *, seed: int | None = None) -> WeeklyPlan:
        """Return a week as it would be planned now, without keeping it."""
        monday = monday_named(week) if week else monday_of(self.today())
        kept = await self.store.plan(week_name(monday))
        return await self._anew(kept, monday, seed=seed, now=self.clock.now())

    async def generate_weekly_plan(
        self, week: str | None = None, *, seed: int | None = None
    ) -> WeeklyPlan:
        """Plan a week, this one if none is named, and keep it.

        A week that has begun keeps its budgets, what was handed out and what came of it; the rest
        is planned anew, from another seed if one is given.
        """
        monday = monday_named(week) if week else monday_of(self.today())
        for _ in range(ATTEMPTS):
            kept = await self.store.plan(week_name(monday))
            plan = await self._anew(kept, monday, seed=seed, now=self.clock.now())
            if await self.store.put_plan(plan, seen=kept.revision if kept else 0):
                return plan
        raise _crowded()

    async def get_todays_queue(self) -> list[Touch]:
        """Return today's pending touches in time order, and fix their times.

        Plans the week if it has no plan yet, and repairs the rest of it from what happened.
        """
        return await self.of_the_active(pending((await self.todays()).slot))

    async def todays(self, *, whole_week: bool = True) -> KeptDay:
        """Return today's slot, its times fixed, of a plan that is made or repaired if need be.

        Outcomes change nothing about today, only about the days after: with `whole_week` false
        they can wait. Where nothing is new, only today is read.
        """
        for _ in range(ATTEMPTS):
            today = self.today()
            kept = await self.store.day(week_name(today), today)
            late = kept is None or (whole_week and kept.marked_since)
            if kept is not None and not late and kept.settled == await self._known(today):
                return kept
            await self.current()
        raise _crowded()

    async def of_the_active(self, touches: list[Touch]) -> list[Touch]:
        """Return those of touches whose profiles are active now."""
        return of_the_active(
            touches, await self.store.some_profiles([touch.url for touch in touches])
        )

    async def current(self) -> KeptPlan:
        """Return this week's plan: made if there was none, repaired, today's times fixed."""
        from stoker.touches.planner import handed_over

        for _ in range(ATTEMPTS):
            now = self.clock.now()
            today = local_day(now, self.zone)
            # Read before the profiles are: what is put after that makes this plan out of date.
            settled = await self._known(today)
            kept = await self.store.plan(week_name(today))
            monday = monday_of(today)
            plan = await (
                self._repaired(kept, now=now) if kept else self._anew(None, monday, now=now)
            )
            plan = handed_over(plan, day=today, at=now)
            if kept is not None and plan == kept.plan and kept.settled == settled:
                return kept
            seen = kept.revision if kept else 0
            if await self.store.put_plan(plan, seen=seen, settled=settled):
                handed = kept.handed if kept else {}
                return KeptPlan(plan=plan, revision=seen + 1, handed=handed, settled=settled)
        raise _crowded()

    async def mark_outcome(self, url: str, outcome: str) -> bool:
        """Record what came of a touch; False when that was known. Twice is once.

        It is the latest touch of this url up to today, of this week or the last. Raises
        PermanentError, with nothing changed, when there is none or the outcome is no outcome.
        """
        said, url = outcome_named(outcome), profile_url(url)
        now = self.clock.now()
        today = local_day(now, self.zone)
        weeks = [week_name(today), week_name(today - timedelta(days=7))]
        touch = spoken_of(await self.store.touches_of(url, weeks=weeks), url, today=today)
        word = Marked(url=url, day=touch.day, outcome=Outcome(said), marked_at=now)
        names = windows(now, zone=self.zone)
        return await self.store.mark(week_name(touch.day), word, counters=list(names.values()))

    async def people(self) -> list[Profile]:
        """Return all profiles, whatever their status."""
        found: list[Profile] = []
        while page := await self.store.profiles(
            after=found[-1].url if found else "", limit=PROFILES_A_PAGE
        ):
            found += page
        return found

    async def success_rate(self, *, usual: float) -> float:
        """Return the share of recent touches that were made; what is usual, while few were."""
        marks = await self.store.marks(since=self.today() - MEASURED_OVER)
        return success_rate(marks, usual=usual)

    async def certified(self, *, usual: float, runs: int) -> Certificate:
        """Return what can be promised from this Monday on, at the success rate that was measured.

        While too few touches were made to tell, `usual` is taken for it.
        """
        from stoker.touches.coverage import certified

        monday = monday_of(self.today())
        return certified(
            await self.people(),
            monday=monday,
            rule=self.rule,
            seed=seed_of(self.tenant, week_name(monday)),
            zone=self.zone,
            success_rate=await self.success_rate(usual=usual),
            runs=runs,
            appeals=await self._appeals(),
        )

    async def _known(self, today: date) -> Settled:
        by = blake2b(repr((self.rule, self.zone)).encode(), digest_size=8).hexdigest()
        return Settled(on=today, roster=await self.store.roster(), rule=by)

    async def _appeals(self) -> Mapping[str, float]:
        if self._reads_appeals is None or not self.rule.appeal_factor:
            return {}
        return await self._reads_appeals()

    async def _made(self, monday: date, *, seed: int | None, now: datetime) -> WeeklyPlan:
        from stoker.touches.planner import plan_week, repaired

        drawn = seed_of(self.tenant, week_name(monday)) if seed is None else seed
        people, appeals = await self.people(), await self._appeals()
        with without_collecting():
            plan = plan_week(
                people,
                monday=monday,
                rule=self.rule,
                seed=drawn,
                zone=self.zone,
                created_at=now,
                appeals=appeals,
            )
            today = local_day(now, self.zone)
            if not plan.monday <= today <= plan.days[-1].day:
                return plan
            late = begun(plan, today=today)
            return repaired(late, people, [], rule=self.rule, now=now, appeals=appeals)

    async def _anew(
        self, kept: KeptPlan | None, monday: date, *, now: datetime, seed: int | None = None
    ) -> WeeklyPlan:
        if kept is not None and has_begun(kept.plan):
            return await self._repaired(kept, now=now, seed=seed)
        return await self._made(monday, seed=seed, now=now)

    async def _repaired(
        self, kept: KeptPlan, *, now: datetime, seed: int | None = None
    ) -> WeeklyPlan:
        from stoker.touches.planner import repaired

        plan = kept.plan if seed is None else replace(kept.plan, seed=seed)
        marks = await self.store.marks(since=plan.monday)
        people, appeals = await self.people(), await self._appeals()
        with without_collecting():
            return repaired(plan, people, marks, rule=self.rule, now=now, appeals=appeals)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Make many values without a look for garbage: there is none, all of them are kept.

    Of a million profiles every third second would go into looking.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _crowded() -> ConflictError:
    return ConflictError("others keep changing this week's plan; nothing was changed, try again")
