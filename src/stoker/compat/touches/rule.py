"""Translate the constants of `settings` into the rule that weeks are planned by."""

from __future__ import annotations

from datetime import timedelta

from stoker.app import find_local_zone
from stoker.compat.touches import settings
from stoker.touches.settings import PlanRule

_RATE_HOURS = {
    "9-10": "TIMING_RATE_MORNING_WARMUP",
    "10-12": "TIMING_RATE_MID_MORNING",
    "12-13": "TIMING_RATE_LUNCH_DIP",
    "13-15": "TIMING_RATE_AFTERNOON_PEAK",
    "15-17": "TIMING_RATE_AFTERNOON_WIND",
    "17-18": "TIMING_RATE_END_OF_DAY",
}

_WEEK_DAYS = 7


def get_zone_name() -> str:
    """Return the zone in which days begin: the one that is set, or the machine's."""
    return settings.TIMEZONE or find_local_zone()


def build_rule() -> PlanRule:
    """Return the rule as the constants are now. Raises ConfigError for one that cannot be."""
    target = min(settings.WEEKLY_BUDGET_TARGET, settings.WEEKLY_LIMIT)
    most = min(settings.DAILY_BUDGET_MAX, settings.DAILY_LIMIT)
    rates = (f"{hours} {getattr(settings, name):.4f}" for hours, name in _RATE_HOURS.items())
    return PlanRule(
        weekly_budget=settings.WEEKLY_BUDGET_TARGET,
        weekly_cap=settings.WEEKLY_LIMIT,
        daily_mean=float(settings.DAILY_BUDGET_MEAN),
        daily_std=float(settings.DAILY_BUDGET_STD),
        # A smaller week or day is obeyed, as scripts do, though the minimum stays as it is set.
        daily_min=min(settings.DAILY_BUDGET_MIN, most, target // _WEEK_DAYS),
        daily_max=settings.DAILY_BUDGET_MAX,
        daily_cap=settings.DAILY_LIMIT,
        hourly_cap=settings.HOURLY_LIMIT,
        force_after=timedelta(days=settings.FORCE_INCLUDE_DAYS_THRESHOLD),
        force_limit=settings.FORCE_INCLUDE_MAX_PER_DAY,
        window=timedelta(days=settings.COVERAGE_GUARANTEE_DAYS),
        score_per_day=float(settings.PRIORITY_DAYS_WEIGHT),
        score_ceiling=float(settings.PRIORITY_DAYS_CAP),
        score_noise=float(settings.PRIORITY_JITTER_MAX),
        pool_factor=float(settings.SELECTION_POOL_MULTIPLIER),
        opens=settings.OPERATING_START,
        closes=settings.OPERATING_END,
        rates=", ".join(rates),
        gap=timedelta(minutes=settings.TIMING_MIN_GAP_MINUTES),
        jitter=timedelta(minutes=settings.TIMING_JITTER_MINUTES),
        burst_chance=float(settings.BURST_DAY_PROBABILITY),
        burst_least=settings.BURST_DAY_EXTRA_MIN,
        burst_most=settings.BURST_DAY_EXTRA_MAX,
    )
