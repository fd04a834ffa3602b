"""Plans, queues and certificates of touches, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from stoker.cli.output import print_table, print_text

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.touches.coverage import Certificate, Probability
    from stoker.touches.model import Touch, WeeklyPlan
    from stoker.touches.service import TouchStatus

MAX_SHOWN = 200


def print_week(plan: WeeklyPlan, *, touches: bool = False) -> None:
    """Print a week, day by day; its touches too, if asked."""
    planned = sum(len(slot.touches) for slot in plan.days)
    print_text(
        f"week {plan.week}: {planned} touches planned, budget {plan.total}, seed {plan.seed}, "
        f"times in {plan.zone}"
    )
    rows = [
        (
            f"{slot.day:%a %Y-%m-%d}",
            slot.budget,
            len(slot.touches),
            slot.completed,
            "burst" if slot.burst else "",
        )
        for slot in plan.days
    ]
    print_table(["day", "budget", "planned", "done", ""], rows)
    for note in plan.notes:
        print_text(note)
    if touches:
        print_text()
        print_queue([each for slot in plan.days for each in slot.touches], zone=plan.zone)


def print_queue(touches: Sequence[Touch], *, zone: str) -> None:
    """Print touches in time order."""
    from stoker.calendar.timezones import get_zone

    rows = [
        (
            f"{touch.at.astimezone(get_zone(zone)):%a %H:%M}",
            touch.name,
            touch.url,
            "never" if touch.days_since is None else touch.days_since,
            "overdue" if touch.forced else "",
            touch.status,
        )
        for touch in touches[:MAX_SHOWN]
    ]
    print_table(["at", "name", "url", "days since", "", "status"], rows)
    if len(touches) > MAX_SHOWN:
        print_text(f"and {len(touches) - MAX_SHOWN} more; see all of them with --json")


def count_changes(before: WeeklyPlan | None, after: WeeklyPlan) -> dict[str, Json]:
    """Return how many touches are in one plan of a week and not in the other."""
    old = {(t.day, t.url) for slot in before.days for t in slot.touches} if before else set()
    new = {(t.day, t.url) for slot in after.days for t in slot.touches}
    return {"added": len(new - old), "dropped": len(old - new)}


def to_week_json(tenant: str, plan: WeeklyPlan) -> dict[str, Json]:
    """Return a week's plan for programs."""
    from stoker.touches.export import plan_to_json

    return {"tenant": tenant, "week": plan.week, **plan_to_json(plan)}


def to_queue_json(tenant: str, day: date, touches: Sequence[Touch], *, limits: str) -> Json:
    """Return a day's queue for programs."""
    from stoker.touches.export import touch_to_json

    return {
        "tenant": tenant,
        "day": day.isoformat(),
        "limits": limits,
        "touches": [touch_to_json(touch) for touch in touches],
    }


def to_status_json(tenant: str, told: TouchStatus, *, limits: str) -> Json:
    """Return how touches stand, for programs."""
    return {
        "tenant": tenant,
        "week": told.week,
        "has_plan": told.has_plan,
        "limits": limits,
        "counters": {
            str(kind): {"used": told.counters.get_used(kind), "limit": most}
            for kind, most in told.limits.items()
        },
    }


def to_certificate_json(tenant: str, told: Certificate) -> Json:
    """Return what can be promised, for programs."""
    found = told.feasibility
    return {
        "tenant": tenant,
        "profiles": told.profiles,
        "feasible": found.feasible,
        "failing_day": found.failing_day.isoformat() if found.failing_day else None,
        "shortfall": found.shortfall,
        "smallest_weekly": found.smallest_weekly,
        "window_days": told.window.days,
        "weeks": told.weeks,
        "runs": told.runs,
        "success_rate": told.success_rate,
        "one_waits": _to_probability(told.one_waits),
        "any_waits": _to_probability(told.any_waits),
    }


def _to_probability(told: Probability) -> Json:
    return {"estimate": told.estimate, "low": told.low, "high": told.high}
