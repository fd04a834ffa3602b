"""The weekly planner's names, as scripts that import it know them."""

from stoker.compat.touches import settings
from stoker.compat.touches.plan import DailySlot, ScheduledEngagement, WeeklyPlan
from stoker.compat.touches.scheduler import RateLimiter, Scheduler
from stoker.compat.touches.scores import (
    ScoredProfile,
    calculate_priority,
    generate_daily_timestamps,
    score_all_profiles,
    select_for_day,
)

__all__ = [
    "DailySlot",
    "RateLimiter",
    "ScheduledEngagement",
    "Scheduler",
    "ScoredProfile",
    "WeeklyPlan",
    "calculate_priority",
    "generate_daily_timestamps",
    "score_all_profiles",
    "select_for_day",
    "settings",
]
