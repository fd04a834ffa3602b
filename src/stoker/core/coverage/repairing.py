"""The rest of a week, planned anew from what really happened.

Past days stay as they were. Today keeps its budget and every touch that was handed out or has an
outcome; the rest of today and the days after are picked again. A plan that is made on Monday and
never looked at again forgets whoever's touch failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime

from stoker.core.coverage.chance import Ints
from stoker.core.coverage.planning import filled_day
from stoker.core.coverage.rosters import Roster, roster_of
from stoker.core.coverage.values import DaySlot, Marked, PlanRule, Profile, Touch, WeeklyPlan
from stoker.core.model import in_utc
from stoker.core.wallclock import zone_named


def marked(plan: WeeklyPlan, outcomes: Iterable[Marked]) -> WeeklyPlan:
    """Return the plan with outcomes in their touches; those of no touch here are passed over."""
    known = {(each.url, each.day): each for each in outcomes}
    return replace(plan, days=tuple(_marked(slot, known) for slot in plan.days))


def handed_over(
    plan: WeeklyPlan, *, day: date, at: datetime, urls: Iterable[str] | None = None
) -> WeeklyPlan:
    """Return the plan with a day's pending touches handed out; all of them, or these urls'.

    One that was handed out before keeps its first moment.
    """
    wanted = None if urls is None else set(urls)

    def given(touch: Touch) -> Touch:
        due = touch.handed_at is None and touch.outcome is None
        if not due or (wanted is not None and touch.url not in wanted):
            return touch
        return replace(touch, handed_at=in_utc(at))

    return replace(
        plan,
        days=tuple(
            replace(slot, touches=tuple(map(given, slot.touches))) if slot.day == day else slot
            for slot in plan.days
        ),
    )


def repaired(
    plan: WeeklyPlan,
    profiles: Iterable[Profile],
    outcomes: Iterable[Marked],
    *,
    rule: PlanRule,
    now: datetime,
    appeals: Mapping[str, float] | None = None,
) -> WeeklyPlan:
    """Return the plan with what happened in it and, from now on, planned anew.

    Budgets stay. A week that is over comes back with its outcomes, otherwise as it was.
    """
    so_far = marked(plan, outcomes)
    today = in_utc(now).astimezone(zone_named(plan.zone)).date()
    if today > plan.days[-1].day:
        return so_far
    roster = roster_of(profiles, zone=plan.zone, appeals=appeals)
    last_done = _really_done(so_far, roster)
    slots, notes = [], [note for note in plan.notes if not _about(note, from_day=today, plan=plan)]
    for slot in so_far.days:
        if slot.day < today:
            slots.append(slot)
            continue
        stays = tuple(
            touch
            for touch in slot.touches
            if touch.outcome is not None or touch.handed_at is not None
        )
        filled, said = filled_day(
            replace(slot, touches=stays),
            roster,
            last_done,
            rule=rule,
            seed=plan.seed,
            zone=plan.zone,
            not_before=in_utc(now) if slot.day == today else None,
        )
        # What was handed out and is still pending will be done today, as far as tomorrow knows.
        pending = [touch.url for touch in stays if touch.outcome is None]
        last_done[roster.places(pending)] = slot.day.toordinal()
        slots.append(filled)
        notes += said
    return replace(so_far, days=tuple(slots), notes=tuple(notes))


def _marked(slot: DaySlot, known: Mapping[tuple[str, date], Marked]) -> DaySlot:
    return replace(
        slot,
        touches=tuple(
            replace(touch, outcome=mark.outcome)
            if (mark := known.get((touch.url, touch.day))) is not None
            else touch
            for touch in slot.touches
        ),
    )


def _really_done(plan: WeeklyPlan, roster: Roster) -> Ints:
    last_done = roster.last_done.copy()
    for slot in plan.days:
        done = [t.url for t in slot.touches if t.outcome is not None and t.outcome.counts]
        places = roster.places(done)
        last_done[places] = last_done[places].clip(min=slot.day.toordinal())
    return last_done


def _about(note: str, *, from_day: date, plan: WeeklyPlan) -> bool:
    """Say whether a note is about a day that is planned anew."""
    return any(note.startswith(f"{s.day}: ") for s in plan.days if s.day >= from_day)
