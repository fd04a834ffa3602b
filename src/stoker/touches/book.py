"""Profiles, plans and counters in dictionaries, without a wait: the model of every touch store.

A store in memory keeps one of these, and a store in a file makes one of the file for each verb.
The verbs are those of `TouchStore`, and promise the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from stoker.db.codec import kept_text
from stoker.touches.model import (
    HandOver,
    KeptDay,
    KeptPlan,
    Marked,
    Profile,
    ProfilesPut,
    Settled,
    Touch,
    WeeklyPlan,
)
from stoker.touches.profiles import merged_profile
from stoker.touches.queue import is_news
from stoker.touches.row_checks import (
    kept_amount,
    kept_counters,
    kept_handover,
    kept_mark,
    kept_plan,
    kept_profile,
    kept_url,
    kept_week,
    no_such_touch,
    oldest_day,
)

Named = tuple[date, str]  # a touch: its day and whom


@dataclass(kw_only=True)
class TouchBook:
    """What one tenant's touches are, and what came of them."""

    people: dict[str, Profile] = field(default_factory=dict)
    plans: dict[str, tuple[WeeklyPlan, int]] = field(default_factory=dict)
    marked: dict[Named, Marked] = field(default_factory=dict)
    handed: dict[Named, HandOver] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    settled: dict[str, tuple[Settled, int]] = field(default_factory=dict)  # with the revision
    puts: int = 0  # of profiles that were new or differed

    def put_profiles(self, profiles: Sequence[Profile]) -> ProfilesPut:
        told: Counter[str] = Counter()
        for said in [kept_profile(each) for each in profiles]:
            known = self.people.get(said.url)
            merged = said if known is None else merged_profile(known, said)
            told["new" if known is None else "same" if merged == known else "changed"] += 1
            self.people[said.url] = merged
        self.puts += bool(told["new"] or told["changed"])
        return ProfilesPut(**told)

    def profiles(self, *, after: str = "", limit: int = 1000) -> list[Profile]:
        kept_text(after, what="a profile's url")
        return [self.people[url] for url in sorted(self.people) if url > after][:limit]

    def some_profiles(self, urls: Sequence[str]) -> list[Profile]:
        wanted = sorted({kept_url(url) for url in urls})
        return [self.people[url] for url in wanted if url in self.people]

    def roster(self) -> int:
        return self.puts

    def plan(self, week: str) -> KeptPlan | None:
        if kept_week(week) not in self.plans:
            return None
        plan, revision = self.plans[week]
        days = tuple(
            replace(slot, touches=tuple(map(self._as_it_went, slot.touches))) for slot in plan.days
        )
        named = [(touch.day, touch.url) for slot in days for touch in slot.touches]
        handed = {name: self.handed[name] for name in named if name in self.handed}
        settled, then = self.settled.get(week, (None, 0))
        return KeptPlan(
            plan=replace(plan, days=days),
            revision=revision,
            handed=handed,
            settled=settled if then == revision else None,
        )

    def day(self, week: str, day: date) -> KeptDay | None:
        plan, revision = self.plans.get(kept_week(week), (None, 0))
        slot = plan.slot(day) if plan else None
        if slot is None:
            return None
        urls = [touch.url for touch in slot.touches]
        settled, then = self.settled.get(week, (None, 0))
        return KeptDay(
            slot=replace(slot, touches=tuple(map(self._as_it_went, slot.touches))),
            handed={url: self.handed[day, url] for url in urls if (day, url) in self.handed},
            settled=settled,
            marked_since=settled is not None and then != revision,
        )

    def touches_of(self, url: str, *, weeks: Sequence[str]) -> list[Touch]:
        kept_url(url)
        plans = [self.plans[week][0] for week in map(kept_week, set(weeks)) if week in self.plans]
        found = [t for plan in plans for slot in plan.days for t in slot.touches if t.url == url]
        return sorted(map(self._as_it_went, found), key=lambda touch: touch.day)

    def put_plan(self, plan: WeeklyPlan, *, seen: int, settled: Settled | None = None) -> bool:
        kept = kept_plan(plan)
        _, revision = self.plans.get(plan.week, (None, 0))
        if revision != seen:
            return False
        self.plans[plan.week] = (kept, revision + 1)
        self.settled.pop(plan.week, None)
        if settled is not None:
            self.settled[plan.week] = (settled, revision + 1)
        return True

    def mark(self, week: str, marked: Marked, *, counters: Sequence[str]) -> bool:
        marked, names = kept_mark(marked), kept_counters(counters)
        named = self._planned(week, marked.day, marked.url)
        known = self.marked.get(named)
        if not is_news(known.outcome if known else None, marked):
            return False
        self.marked[named] = marked
        if marked.outcome.counts:
            self.counters.update(dict.fromkeys(names, 1))
            if (profile := self.people.get(marked.url)) is not None:
                done = replace(profile, last_done_at=marked.marked_at)
                self.people[marked.url] = merged_profile(profile, done)
        plan, revision = self.plans[week]
        self.plans[week] = (plan, revision + 1)
        return True

    def hand_over(self, week: str, handed: HandOver) -> bool:
        handed = kept_handover(handed)
        named = self._planned(week, handed.day, handed.url)
        if named in self.handed or named in self.marked:
            return False
        self.handed[named] = handed
        return True

    def still_out(self, *, since: datetime) -> int:
        oldest = oldest_day(since)
        return sum(
            named[0] >= oldest and each.at >= since and not each.refused
            for named, each in self.handed.items()
            if named not in self.marked
        )

    def marks(self, *, since: date) -> list[Marked]:
        return [self.marked[named] for named in sorted(self.marked) if named[0] >= since]

    def count(self, counters: Sequence[str], amount: int) -> None:
        self.counters.update(dict.fromkeys(kept_counters(counters), kept_amount(amount)))

    def counted(self, counters: Sequence[str]) -> dict[str, int]:
        return {name: self.counters[name] for name in kept_counters(counters)}

    def _planned(self, week: str, day: date, url: str) -> Named:
        plan, _ = self.plans.get(kept_week(week), (None, 0))
        slot = plan.slot(day) if plan else None
        if slot is None or all(touch.url != url for touch in slot.touches):
            raise no_such_touch(week, url)
        return (day, url)

    def _as_it_went(self, touch: Touch) -> Touch:
        marked = self.marked.get((touch.day, touch.url))
        return replace(touch, outcome=marked.outcome if marked else None)
