"""Touch state of one tenant in memory: profiles, plans, outcomes, deliveries, counters.

The state file loads one for each verb. The verbs are those of `TouchStore`, with the same
guarantees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from stoker.db.codec import validate_text
from stoker.touches.model import (
    Delivery,
    OutcomeMark,
    PlanBasis,
    Profile,
    ProfileCounts,
    SavedDay,
    SavedWeek,
    Touch,
    WeeklyPlan,
)
from stoker.touches.profiles import merge_profile
from stoker.touches.queue import is_new_outcome
from stoker.touches.row_checks import (
    build_missing_touch_error,
    compute_oldest_day,
    validate_amount,
    validate_counters,
    validate_delivery,
    validate_outcome,
    validate_plan,
    validate_profile,
    validate_profile_url,
    validate_week,
)

TouchKey = tuple[date, str]  # a touch: its day and url


@dataclass(kw_only=True)
class TouchState:
    """What one tenant's touches are, and what came of them."""

    profiles_by_url: dict[str, Profile] = field(default_factory=dict)
    plans: dict[str, tuple[WeeklyPlan, int]] = field(default_factory=dict)
    outcomes: dict[TouchKey, OutcomeMark] = field(default_factory=dict)
    deliveries: dict[TouchKey, Delivery] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    bases: dict[str, tuple[PlanBasis, int]] = field(default_factory=dict)  # with the revision
    profiles_version: int = 0  # of profiles that were new or differed

    def save_profiles(self, profiles: Sequence[Profile]) -> ProfileCounts:
        counts: Counter[str] = Counter()
        for given in [validate_profile(each) for each in profiles]:
            known = self.profiles_by_url.get(given.url)
            merged = given if known is None else merge_profile(known, given)
            counts["new" if known is None else "same" if merged == known else "changed"] += 1
            self.profiles_by_url[given.url] = merged
        self.profiles_version += bool(counts["new"] or counts["changed"])
        return ProfileCounts(**counts)

    def list_profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        validate_text(after, what="a profile's url")
        return [self.profiles_by_url[url] for url in sorted(self.profiles_by_url) if url > after][
            :limit
        ]

    def find_profiles(self, urls: Sequence[str]) -> list[Profile]:
        wanted = sorted({validate_profile_url(url) for url in urls})
        return [self.profiles_by_url[url] for url in wanted if url in self.profiles_by_url]

    def get_profiles_version(self) -> int:
        return self.profiles_version

    def find_plan(self, week: str) -> SavedWeek | None:
        if validate_week(week) not in self.plans:
            return None
        plan, revision = self.plans[week]
        days = tuple(
            replace(slot, touches=tuple(map(self._with_outcome, slot.touches)))
            for slot in plan.days
        )
        named = [(touch.day, touch.url) for slot in days for touch in slot.touches]
        handed = {name: self.deliveries[name] for name in named if name in self.deliveries}
        settled, then = self.bases.get(week, (None, 0))
        return SavedWeek(
            plan=replace(plan, days=days),
            revision=revision,
            deliveries=handed,
            basis=settled if then == revision else None,
        )

    def find_day(self, week: str, day: date) -> SavedDay | None:
        plan, revision = self.plans.get(validate_week(week), (None, 0))
        slot = plan.slot(day) if plan else None
        if slot is None:
            return None
        urls = [touch.url for touch in slot.touches]
        settled, then = self.bases.get(week, (None, 0))
        return SavedDay(
            slot=replace(slot, touches=tuple(map(self._with_outcome, slot.touches))),
            deliveries={
                url: self.deliveries[day, url] for url in urls if (day, url) in self.deliveries
            },
            basis=settled,
            has_new_outcomes=settled is not None and then != revision,
        )

    def list_touches(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        validate_profile_url(url)
        plans = [
            self.plans[week][0] for week in map(validate_week, set(weeks)) if week in self.plans
        ]
        found = [t for plan in plans for slot in plan.days for t in slot.touches if t.url == url]
        return sorted(map(self._with_outcome, found), key=lambda touch: touch.day)

    def save_plan(self, plan: WeeklyPlan, *, seen: int, settled: PlanBasis | None = None) -> bool:
        valid = validate_plan(plan)
        _, revision = self.plans.get(plan.week, (None, 0))
        if revision != seen:
            return False
        self.plans[plan.week] = (valid, revision + 1)
        self.bases.pop(plan.week, None)
        if settled is not None:
            self.bases[plan.week] = (settled, revision + 1)
        return True

    def record_outcome(self, week: str, marked: OutcomeMark, *, counters: Sequence[str]) -> bool:
        marked, names = validate_outcome(marked), validate_counters(counters)
        named = self._get_touch_key(week, marked.day, marked.url)
        known = self.outcomes.get(named)
        if not is_new_outcome(known.outcome if known else None, marked):
            return False
        self.outcomes[named] = marked
        if marked.outcome.is_counted:
            self.counters.update(dict.fromkeys(names, 1))
            if (profile := self.profiles_by_url.get(marked.url)) is not None:
                done = replace(profile, last_done_at=marked.marked_at)
                self.profiles_by_url[marked.url] = merge_profile(profile, done)
        plan, revision = self.plans[week]
        self.plans[week] = (plan, revision + 1)
        return True

    def record_delivery(self, week: str, handed: Delivery) -> bool:
        handed = validate_delivery(handed)
        named = self._get_touch_key(week, handed.day, handed.url)
        if named in self.deliveries or named in self.outcomes:
            return False
        self.deliveries[named] = handed
        return True

    def count_awaiting_outcome(self, *, since: datetime) -> int:
        oldest = compute_oldest_day(since)
        return sum(
            named[0] >= oldest and each.at >= since and not each.refused
            for named, each in self.deliveries.items()
            if named not in self.outcomes
        )

    def list_outcomes(self, *, since: date) -> list[OutcomeMark]:
        return [self.outcomes[named] for named in sorted(self.outcomes) if named[0] >= since]

    def add_to_counters(self, counters: Sequence[str], amount: int) -> None:
        self.counters.update(dict.fromkeys(validate_counters(counters), validate_amount(amount)))

    def read_counters(self, counters: Sequence[str]) -> dict[str, int]:
        return {name: self.counters[name] for name in validate_counters(counters)}

    def _get_touch_key(self, week: str, day: date, url: str) -> TouchKey:
        plan, _ = self.plans.get(validate_week(week), (None, 0))
        slot = plan.slot(day) if plan else None
        if slot is None or all(touch.url != url for touch in slot.touches):
            raise build_missing_touch_error(week, url)
        return (day, url)

    def _with_outcome(self, touch: Touch) -> Touch:
        marked = self.outcomes.get((touch.day, touch.url))
        return replace(touch, outcome=marked.outcome if marked else None)
