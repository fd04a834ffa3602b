"""The week's plan as scripts know it: days by date, engagements with local times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from stoker.base.clock import SystemClock
from stoker.base.types import Json
from stoker.calendar.timezones import get_zone
from stoker.compat.touches.rule import get_zone_name
from stoker.touches import model
from stoker.touches.queue import get_local_day
from stoker.touches.schedule_state import NEVER_DAYS


@dataclass
class ScheduledEngagement:
    """One planned touch. The time is of the day it stands under, to the minute."""

    linkedin_url: str
    name: str
    scheduled_time: time
    priority_score: float
    days_since_last_like: float  # 999: never
    forced: bool
    status: str = model.PENDING

    def to_json(self) -> dict[str, Json]:
        return {
            "linkedin_url": self.linkedin_url,
            "name": self.name,
            "scheduled_time": f"{self.scheduled_time:%H:%M}",
            "priority_score": self.priority_score,
            "days_since_last_like": self.days_since_last_like,
            "forced": self.forced,
            "status": self.status,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ScheduledEngagement:
        return cls(
            linkedin_url=str(data["linkedin_url"]),
            name=str(data.get("name", "")),
            scheduled_time=time.fromisoformat(str(data["scheduled_time"])),
            priority_score=float(data.get("priority_score", 0.0)),
            days_since_last_like=float(data.get("days_since_last_like", NEVER_DAYS)),
            forced=bool(data.get("forced", False)),
            status=str(data.get("status", model.PENDING)),
        )

    to_dict, from_dict = to_json, from_json


@dataclass
class DailySlot:
    """One day: how many it has room for, and who is planned."""

    date: date
    budget: int
    engagements: list[ScheduledEngagement] = field(default_factory=list)
    completed: int = 0
    is_burst_day: bool = False

    def to_json(self) -> dict[str, Json]:
        return {
            "budget": self.budget,
            "is_burst_day": self.is_burst_day,
            "completed": self.completed,
            "engagements": [each.to_json() for each in self.engagements],
        }

    @classmethod
    def from_json(cls, day: str, data: Mapping[str, Any]) -> DailySlot:
        return cls(
            date=datetime.fromisoformat(day).date(),
            budget=int(data.get("budget", 0)),
            engagements=[ScheduledEngagement.from_json(each) for each in data["engagements"]],
            completed=int(data.get("completed", 0)),
            is_burst_day=bool(data.get("is_burst_day", False)),
        )

    to_dict, from_dict = to_json, from_json


@dataclass
class WeeklyPlan:
    """Seven days from Monday on, by their dates as text."""

    week_start: date
    week_number: int
    total_budget: int
    days: dict[str, DailySlot] = field(default_factory=dict)
    created_at: datetime = field(default_factory=lambda: SystemClock().now())

    def to_json(self) -> dict[str, Json]:
        """Return the plan as `schedule_state.json` has it."""
        return {
            "week_start": self.week_start.isoformat(),
            "week_number": self.week_number,
            "total_budget": self.total_budget,
            "created_at": self.created_at.isoformat(),
            "days": {day: slot.to_json() for day, slot in self.days.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WeeklyPlan:
        """Return the plan that `to_json` wrote."""
        return cls(
            week_start=datetime.fromisoformat(data["week_start"]).date(),
            week_number=int(data["week_number"]),
            total_budget=int(data["total_budget"]),
            days={day: DailySlot.from_json(day, slot) for day, slot in data["days"].items()},
            created_at=datetime.fromisoformat(data["created_at"]),
        )

    to_dict, from_dict = to_json, from_json

    def get_today(self, today: date | None = None) -> DailySlot | None:
        """Return the slot of today; None when today is of another week."""
        day = today or get_local_day(SystemClock().now(), get_zone_name())
        return self.days.get(day.isoformat())

    def total_completed(self) -> int:
        """Return how many touches were made this week."""
        return sum(slot.completed for slot in self.days.values())


def to_weekly_plan(plan: model.WeeklyPlan) -> WeeklyPlan:
    """Return a plan of the planner as scripts know it."""
    zone = get_zone(plan.zone)
    return WeeklyPlan(
        week_start=plan.monday,
        week_number=plan.iso_week,
        total_budget=plan.total,
        days={
            slot.day.isoformat(): DailySlot(
                date=slot.day,
                budget=slot.budget,
                engagements=[to_engagement(touch, zone) for touch in slot.touches],
                completed=slot.completed,
                is_burst_day=slot.burst,
            )
            for slot in plan.days
        },
        created_at=plan.created_at.astimezone(zone),
    )


def to_engagement(touch: model.Touch, zone: ZoneInfo) -> ScheduledEngagement:
    """Return a touch as scripts know it."""
    at = touch.at.astimezone(UTC).astimezone(zone)
    return ScheduledEngagement(
        linkedin_url=touch.url,
        name=touch.name,
        scheduled_time=time(at.hour, at.minute),
        priority_score=touch.score,
        days_since_last_like=NEVER_DAYS if touch.days_since is None else float(touch.days_since),
        forced=touch.forced,
        status=touch.status,
    )
