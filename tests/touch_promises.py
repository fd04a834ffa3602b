"""Many weeks of touches, planned or lived through, and every promise that one of them breaks."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np

from stoker.simulation.touches import compute_chi_square, compute_chi_square_p
from stoker.touches.model import OutcomeMark, Profile, TouchOutcome
from stoker.touches.planning.planner import mark_handed_out, plan_week, replan_week
from stoker.touches.planning.random import Purpose, RandomStream
from stoker.touches.planning.times import draw_thinned, list_open_spans
from stoker.touches.settings import PlanRule

MONDAY = date(2026, 2, 9)
ZONES = ("UTC", "Asia/Singapore", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia")
USUAL = PlanRule()
ENDS = (TouchOutcome.DONE,) * 16 + tuple(
    TouchOutcome
)  # what comes of touches, about one in five of nothing


def people(number, *, now, seed=0):
    """Return profiles that were last done within eleven days."""
    return [
        Profile(
            url=f"https://people.test/{nth:07d}",
            name=f"Person {nth}",
            last_done_at=now - timedelta(minutes=(nth * 7919 + seed * 613) % 16_000),
        )
        for nth in range(number)
    ]


def week_of(seed):
    """Return the Monday, the zone and the noon before of a week; years and zones go round."""
    monday = MONDAY + timedelta(weeks=seed % 1500)
    return (
        monday,
        ZONES[seed % len(ZONES)],
        datetime.combine(monday, time(), UTC) - timedelta(hours=12),
    )


def broken_in(plan, *, rule=USUAL, people=()):
    """Count the promises that one plan breaks; people are those it was made from."""
    wall, found = ZoneInfo(plan.zone), Counter()
    made = [
        (each.url, each.last_done_at.astimezone(wall).date())
        for each in people
        if each.last_done_at
    ]
    made += [(touch.url, slot.day) for slot in plan.days for touch in slot.touches if people]
    found += _consecutive(made)
    found["total"] += max(plan.total, sum(slot.budget for slot in plan.days)) > rule.target
    for slot in plan.days:
        fits = not slot.budget or rule.daily_min <= slot.budget <= rule.max_per_day
        found["day"] += not fits or len(slot.touches) > slot.budget
        for touch in slot.touches:
            here = touch.at.astimezone(wall)
            found["hours"] += here.date() != slot.day or not rule.opens <= here.time() < rule.closes
        found["gap"] += sum(b.at - a.at < rule.gap for a, b in pairwise(slot.touches))
    return found


def planned_weeks(weeks, *, first=0, planner=USUAL):
    """Plan so many weeks; return every promise that is broken, by its kind."""
    found = Counter()
    for seed in range(first, first + weeks):
        monday, zone, now = week_of(seed)
        known = people(60 + seed % 90, now=now, seed=seed)
        plan = plan_week(known, monday=monday, rule=planner, seed=seed, zone=zone, created_at=now)
        found += broken_in(plan, people=known)
    return found


def lived_weeks(weeks, *, first=0, forgetful=False):
    """Live through so many weeks, repaired every day from what came of it; return what broke.

    `forgetful` is the naive twin: it plans every day from what was known on Monday.
    """
    found = Counter()
    for seed in range(first, first + weeks):
        monday, zone, now = week_of(seed)
        wall, chance = ZoneInfo(zone), RandomStream(seed, Purpose.OUTCOMES, 7)
        known = {each.url: each for each in people(30 + seed % 90, now=now, seed=seed)}
        monday_morning = list(known.values())
        plan = plan_week(
            known.values(), monday=monday, rule=USUAL, seed=seed, zone=zone, created_at=now
        )
        marks, made, first_plan = [], [], plan
        made += [(each.url, each.last_done_at.astimezone(wall).date()) for each in known.values()]
        for place in range(7):
            day = monday + timedelta(days=place)
            looked = datetime.combine(day, time(int(6 + chance.draw_one() * 12)), wall).astimezone(
                UTC
            )
            who, so_far = (monday_morning, []) if forgetful else (known.values(), marks)
            kept = first_plan if forgetful else plan
            plan = replan_week(kept, who, so_far, rule=USUAL, now=looked)
            plan = mark_handed_out(plan, day=day, at=looked)
            found += broken_in(plan)
            for touch in plan.days[place].touches:
                outcome = ENDS[int(chance.draw_one() * len(ENDS))]
                marks.append(
                    OutcomeMark(url=touch.url, day=day, outcome=outcome, marked_at=touch.at)
                )
                if outcome.is_counted:
                    known[touch.url] = replace(known[touch.url], last_done_at=touch.at)
                    made.append((touch.url, day))
        found += _consecutive(made)
    return found


def _consecutive(made):
    """Count who was done on a day and on the one before, of pairs of url and day."""
    days = {}
    for url, day in made:
        days.setdefault(url, []).append(day)
    near = sum((b - a).days <= 1 for each in days.values() for a, b in pairwise(sorted(each)))
    return Counter(consecutive=near)


def p_values(seeds, *, days, per_day=12, rates=None):
    """Return, for every seed, how likely its days' times are by the table of rates.

    `rates` are those the times are drawn by, where they are not those of the table.
    """
    table = list_open_spans(MONDAY, rule=USUAL, zone="UTC")
    drawn_by = (
        table
        if rates is None
        else [replace(each, rate=rate) for each, rate in zip(table, rates, strict=True)]
    )
    starts = np.array([each.start for each in table])
    shares = np.array([each.rate * (each.end - each.start) for each in table])
    expected = shares / shares.sum() * days * per_day
    found = []
    for seed in range(seeds):
        seen = np.zeros(len(table), np.int64)
        for nth in range(days):
            at = draw_thinned(per_day, drawn_by, chance=RandomStream(seed, Purpose.TIMES, nth, 1))
            hours = np.searchsorted(starts, at, side="right") - 1
            seen += np.bincount(hours, minlength=len(table))
        statistic = compute_chi_square(seen.tolist(), expected.tolist())
        found.append(compute_chi_square_p(statistic, freedom=len(table) - 1))
    return found


def unevenness(values):
    """Return how far numbers are from spread evenly over 0 to 1: Kolmogorov's D, times root n.

    Above 1.63 once in a hundred times, above 1.95 once in a thousand, if only chance is at work.
    """
    ordered, n = np.sort(np.array(values)), len(values)
    steps = np.arange(n)
    above = float((((steps + 1) / n) - ordered).max())
    below = float((ordered - steps / n).max())
    return max(above, below) * n**0.5
