"""Plan a week of touches: daily budgets, then profiles and times day by day; replan it later.

A profile planned on Tuesday counts as done on Tuesday when Wednesday is planned. The same profiles,
rule and seed give the same plan, byte for byte. The plan's notes say what the rule could not be
given. Replanning keeps past days, today's budget, and every touch that was handed out or has an
outcome; the rest of today and the later days are picked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import lru_cache

import numpy as np

from stoker.base.errors import ConfigError
from stoker.base.types import to_utc
from stoker.calendar.timezones import get_zone
from stoker.touches.model import (
    DaySlot,
    OutcomeMark,
    PlanNote,
    Profile,
    Touch,
    WeeklyPlan,
    derive_channel,
)
from stoker.touches.planning.daily_budgets import DayBounds, WeekBudgets, draw_week_budgets
from stoker.touches.planning.random import Ints, Purpose, RandomStream
from stoker.touches.planning.selection import (
    NEVER_DONE,
    EligibleProfiles,
    Picks,
    build_eligible,
    pick_profiles,
)
from stoker.touches.planning.times import (
    count_fitting,
    cut_spans,
    draw_day_times,
    from_ticks,
    get_gap,
    get_grain,
    list_open_spans,
    to_ticks,
)
from stoker.touches.settings import PlanRule

_ROUND_DIGITS = 6  # of scores and probabilities; beyond them processors differ


def plan_week(
    profiles: Iterable[Profile],
    *,
    monday: date,
    rule: PlanRule,
    seed: int,
    zone: str,
    created_at: datetime,
    appeals: Mapping[str, float] | None = None,
    unanswered: Iterable[Touch] = (),
) -> WeeklyPlan:
    """Return the plan of the week that begins on this Monday. Raises ConfigError.

    `appeals`, by url and from 0 to 1, weigh the draw among those who waited about as long.
    `unanswered` are earlier touches that were handed out and have no outcome: they may have been
    made, so their profiles rest.
    """
    if monday.isoweekday() != 1:
        raise ConfigError(f"{monday} is no Monday; a weekly plan begins on one")
    eligible = build_eligible(profiles, zone=zone, appeals=appeals)
    budgets, notes = compute_week_budgets(monday, rule=rule, seed=seed, zone=zone)
    last_done = eligible.last_done.copy()
    handed_on = _find_handed_days(unanswered)
    slots = []
    for place, budget in enumerate(budgets.days):
        slot = DaySlot(
            day=monday + timedelta(days=place), budget=budget, burst=place == budgets.burst
        )
        filled, day_notes = fill_day(
            slot,
            eligible,
            last_done,
            rule=rule,
            seed=seed,
            zone=zone,
            resting=_list_resting(handed_on, slot.day, rule=rule),
        )
        slots.append(filled)
        notes += day_notes
    year, week, _ = monday.isocalendar()
    return WeeklyPlan(
        iso_year=year,
        iso_week=week,
        monday=monday,
        total=sum(budgets.days),
        days=tuple(slots),
        seed=seed,
        zone=zone,
        created_at=to_utc(created_at),
        notes=notes,
    )


def compute_week_budgets(
    monday: date, *, rule: PlanRule, seed: int, zone: str
) -> tuple[WeekBudgets, tuple[PlanNote, ...]]:
    """Return a week's daily budgets, and what of the rule they could not keep."""
    bounds, notes = [], []
    for place in range(7):
        day = monday + timedelta(days=place)
        fitting = _count_fitting(day, rule, zone)
        most = min(rule.max_per_day, fitting)
        bounds.append(DayBounds(min(rule.daily_min, most), most))
        if fitting < rule.daily_min and day.isoweekday() in rule.weekdays:
            message = (
                f"{day}: only {fitting} touches fit into its open hours, fewer than the daily "
                f"minimum of {rule.daily_min}"
            )
            notes.append(PlanNote(message=message, day=day))
    drawn = draw_week_budgets(bounds, rule=rule, chance=_open_stream(seed, Purpose.BUDGETS, monday))
    if (total := sum(drawn.days)) < rule.target:
        message = (
            f"the week has room for {total} touches, fewer than the {rule.target} asked for; "
            "lengthen the hours, or raise the daily maximum, the daily or the hourly cap"
        )
        notes.append(PlanNote(message=message))
    return drawn, tuple(notes)


@lru_cache(maxsize=1024)
def _count_fitting(day: date, rule: PlanRule, zone: str) -> int:
    return count_fitting(
        list_open_spans(day, rule=rule, zone=zone),
        gap=get_gap(rule),
        cap=rule.hourly_cap,
        taken={},
        grain=get_grain(rule),
    )


def fill_day(
    slot: DaySlot,
    roster: EligibleProfiles,
    last_done: Ints,
    *,
    rule: PlanRule,
    seed: int,
    zone: str,
    not_before: datetime | None = None,
    resting: Iterable[str] = (),
) -> tuple[DaySlot, tuple[PlanNote, ...]]:
    """Return the slot with touches up to its budget, and what did not fit.

    Touches it has stay as they are. Planned profiles count as done in `last_done` from here on.
    Profiles whose urls are `resting` are not picked.
    """
    times, notes = _draw_times(slot, rule=rule, seed=seed, zone=zone, since=not_before)
    picks = pick_profiles(
        last_done,
        day=slot.day,
        budget=len(times),
        rule=rule,
        seed=seed,
        barred=roster.find_indexes([*(touch.url for touch in slot.touches), *resting]),
        forced_already=sum(touch.forced for touch in slot.touches),
        appeal=roster.appeal,
    )
    if (short := len(times) - len(picks.indexes)) > 0:
        message = f"{slot.day}: {short} places stay empty; no more profiles are available that day"
        notes += (PlanNote(message=message, day=slot.day),)
    last_done[picks.indexes] = slot.day.toordinal()
    touches = _build_touches(slot.day, picks, times, roster, seed=seed)
    if slot.touches:
        touches = sorted([*slot.touches, *touches], key=lambda touch: (touch.at, touch.url))
    return replace(slot, touches=tuple(touches)), notes


def _draw_times(
    slot: DaySlot, *, rule: PlanRule, seed: int, zone: str, since: datetime | None
) -> tuple[Ints, tuple[PlanNote, ...]]:
    wanted = max(slot.budget - len(slot.touches), 0)
    spans = list_open_spans(slot.day, rule=rule, zone=zone)
    taken: Counter[int] = Counter()
    if since is not None or slot.touches:
        grain = get_grain(rule)
        ticks = sorted(to_ticks(touch.at) for touch in slot.touches)
        for span in spans:
            taken[span.hour] += sum(span.start <= at < span.end for at in ticks)
        begins = 0 if since is None else -(-to_ticks(since) // grain) * grain
        spans = cut_spans(spans, not_before=begins, fixed=ticks, gap=get_gap(rule), grain=grain)
    chance = _open_stream(seed, Purpose.TIMES, slot.day)
    times = draw_day_times(wanted, spans, rule=rule, chance=chance, taken=taken)
    if len(times) < wanted:
        message = (
            f"{slot.day}: {wanted - len(times)} of {slot.budget} touches do not fit into the open "
            "hours that are left, with the minimum gap and the hourly cap"
        )
        return times, (PlanNote(message=message, day=slot.day),)
    return times, ()


def _build_touches(
    day: date, picks: Picks, times: Ints, eligible: EligibleProfiles, *, seed: int
) -> list[Touch]:
    # Made in the roster's order, because a million profiles are read faster one after the other;
    # who gets which time is left to chance.
    by_place = np.argsort(picks.indexes)
    turns = _open_stream(seed, Purpose.TIMES, day, 1).shuffle(len(by_place))
    columns = zip(
        picks.indexes[by_place].tolist(),
        _spread_times(times, len(by_place))[turns].tolist(),
        np.round(picks.scores[by_place], _ROUND_DIGITS).tolist(),
        picks.since[by_place].tolist(),
        picks.forced[by_place].tolist(),
        picks.pressing[by_place].tolist(),
        np.round(picks.probability[by_place], _ROUND_DIGITS).tolist(),
        strict=True,
    )
    longest = day.toordinal() - NEVER_DONE
    profiles = eligible.profiles
    made = [
        Touch(
            url=(profile := profiles[place]).url,
            name=profile.name,
            person=profile.person,
            channel=profile.channel or derive_channel(profile.url),
            day=day,
            at=from_ticks(at),
            score=score,
            days_since=None if since == longest else since,
            forced=forced,
            pressing=pressing,
            probability=probability,
        )
        for place, at, score, since, forced, pressing, probability in columns
    ]
    return [made[turn] for turn in np.argsort(turns).tolist()]


def _spread_times(times: Ints, number: int) -> Ints:
    # Fewer profiles than times: every so many is used, not the morning alone.
    return (
        times if number == len(times) else times[np.arange(number) * len(times) // max(number, 1)]
    )


def _open_stream(seed: int, purpose: Purpose, day: date, *more: int) -> RandomStream:
    return RandomStream(seed, purpose, day.toordinal(), *more)


def apply_outcomes(plan: WeeklyPlan, outcomes: Iterable[OutcomeMark]) -> WeeklyPlan:
    """Return the plan with outcomes in their touches; those of no touch here are passed over."""
    known = {(each.url, each.day): each for each in outcomes}
    return replace(plan, days=tuple(_apply_to_slot(slot, known) for slot in plan.days))


def mark_handed_out(plan: WeeklyPlan, *, day: date, at: datetime) -> WeeklyPlan:
    """Return the plan with a day's pending touches handed out; the first time of each stays."""

    def hand_out(touch: Touch) -> Touch:
        is_due = touch.handed_at is None and touch.outcome is None
        return replace(touch, handed_at=to_utc(at)) if is_due else touch

    return replace(
        plan,
        days=tuple(
            replace(slot, touches=tuple(map(hand_out, slot.touches))) if slot.day == day else slot
            for slot in plan.days
        ),
    )


def replan_week(
    plan: WeeklyPlan,
    profiles: Iterable[Profile],
    outcomes: Iterable[OutcomeMark],
    *,
    rule: PlanRule,
    now: datetime,
    appeals: Mapping[str, float] | None = None,
    unanswered: Iterable[Touch] = (),
) -> WeeklyPlan:
    """Return the plan with its outcomes, planned again from now on.

    Budgets stay. A week that is over comes back with its outcomes, otherwise as it was.
    `unanswered` are touches of the week before, as for `plan_week`.
    """
    so_far = apply_outcomes(plan, outcomes)
    today = to_utc(now).astimezone(get_zone(plan.zone)).date()
    if today > plan.days[-1].day:
        return so_far
    eligible = build_eligible(profiles, zone=plan.zone, appeals=appeals)
    last_done = _compute_last_done(so_far, eligible)
    handed_on = _find_handed_days([*unanswered, *list_unanswered(so_far, before=today)])
    # The notes of a day that is planned again are made again.
    slots, notes = [], [note for note in plan.notes if note.day is None or note.day < today]
    for slot in so_far.days:
        if slot.day < today:
            slots.append(slot)
            continue
        stays = tuple(
            touch
            for touch in slot.touches
            if touch.outcome is not None or touch.handed_at is not None
        )
        filled, day_notes = fill_day(
            replace(slot, touches=stays),
            eligible,
            last_done,
            rule=rule,
            seed=plan.seed,
            zone=plan.zone,
            not_before=to_utc(now) if slot.day == today else None,
            resting=_list_resting(handed_on, slot.day, rule=rule),
        )
        # What was handed out and is still pending will be done today, as far as tomorrow knows.
        pending = [touch.url for touch in stays if touch.outcome is None]
        last_done[eligible.find_indexes(pending)] = slot.day.toordinal()
        slots.append(filled)
        notes += day_notes
    return replace(so_far, days=tuple(slots), notes=tuple(notes))


def list_unanswered(plan: WeeklyPlan, *, before: date) -> list[Touch]:
    """Return the touches handed out on days before one that have no outcome yet."""
    return [
        touch
        for slot in plan.days
        for touch in slot.touches
        if slot.day < before and touch.outcome is None and touch.handed_at is not None
    ]


def project_profiles(
    profiles: Iterable[Profile], plans: Iterable[WeeklyPlan], *, today: date
) -> list[Profile]:
    """Return profiles as they will be once these plans' touches from today on were made."""
    done_at: dict[str, datetime] = {}
    for plan in plans:
        for slot in plan.days:
            if slot.day >= today:
                done_at |= {t.url: t.at for t in slot.touches if t.outcome is None}
    return [
        replace(each, last_done_at=max(done_at[each.url], each.last_done_at or done_at[each.url]))
        if each.url in done_at
        else each
        for each in profiles
    ]


def _find_handed_days(touches: Iterable[Touch]) -> dict[str, date]:
    return {touch.url: touch.day for touch in sorted(touches, key=lambda touch: touch.day)}


def _list_resting(handed_on: Mapping[str, date], day: date, *, rule: PlanRule) -> list[str]:
    return [url for url, handed in handed_on.items() if day - handed < rule.min_rest]


def _apply_to_slot(slot: DaySlot, known: Mapping[tuple[str, date], OutcomeMark]) -> DaySlot:
    return replace(
        slot,
        touches=tuple(
            replace(touch, outcome=mark.outcome)
            if (mark := known.get((touch.url, touch.day))) is not None
            else touch
            for touch in slot.touches
        ),
    )


def _compute_last_done(plan: WeeklyPlan, eligible: EligibleProfiles) -> Ints:
    last_done = eligible.last_done.copy()
    for slot in plan.days:
        done = [t.url for t in slot.touches if t.outcome is not None and t.outcome.is_counted]
        places = eligible.find_indexes(done)
        last_done[places] = last_done[places].clip(min=slot.day.toordinal())
    return last_done
