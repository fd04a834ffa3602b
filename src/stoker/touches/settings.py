"""Settings of touches: every number of the weekly plan, and where due touches go.

Each is a tenant's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.config.fields import (
    LOCAL_TIME,
    PATH,
    TEXT,
    FieldType,
    Section,
    choice,
    integer,
    number,
)
from stoker.config.fields import (
    tenant_setting as _each,
)
from stoker.http.fields import BASE_URL

if TYPE_CHECKING:
    from stoker.touches.model import PlanRule

_MAX_NUMBER = 10_000_000

_DAYS = frozenset("1234567")

_HOURS = re.compile(r"([0-9]{1,2})-([0-9]{1,2}) ([0-9]{1,4}(?:\.[0-9]{1,4})?)")

DEFAULT_RATES = "9-10 0.6, 10-12 1.3, 12-13 0.8, 13-15 1.2, 15-17 0.7, 17-18 0.4"


def parse_hourly_rates(text: str) -> list[tuple[int, int, float]]:
    """Return stretches of a day, from one hour to another, each with its rate; or ValueError."""
    stretches: list[tuple[int, int, float]] = []
    taken: set[int] = set()
    for part in text.split(","):
        found = _HOURS.fullmatch(" ".join(part.split()))
        if not found:
            raise ValueError(part)
        first, end, rate = int(found[1]), int(found[2]), float(found[3])
        hours = set(range(first, end))
        if not hours or end > 24 or taken & hours:
            raise ValueError(part)
        taken |= hours
        stretches.append((first, end, rate))
    if not any(rate for _, _, rate in stretches):
        raise ValueError(text)
    return stretches


def _parse_rates(given: Any, typed: bool) -> str:
    if not isinstance(given, str):
        raise ValueError("wrong type")  # noqa: TRY004 - to the reader of a setting it is a value
    parse_hourly_rates(given)
    return ", ".join(" ".join(part.split()) for part in given.split(","))


RATES = FieldType(
    name="rates by hour",
    allowed=f"hours and their rates, e.g. {DEFAULT_RATES}; not all of them 0",
    parse=_parse_rates,
)


def _parse_weekdays(given: Any, typed: bool) -> str:
    if not isinstance(given, str):
        raise ValueError("wrong type")  # noqa: TRY004 - as above
    days = [part.strip() for part in given.split(",")]
    if not all(day in _DAYS for day in days) or len(set(days)) < len(days):
        raise ValueError(given)
    return ",".join(sorted(days))


WEEKDAYS = FieldType(
    name="days of the week",
    allowed="days separated by commas, 1 (Monday) to 7 (Sunday), e.g. 1,2,3,4,5",
    parse=_parse_weekdays,
)


@dataclass(frozen=True, kw_only=True)
class TouchSettings(Section):
    """How often and at which hours profiles are touched, and where due touches go."""

    weekly_target: int = _each(integer(0, _MAX_NUMBER), 80, "Touches planned in a week.")
    weekly_cap: int = _each(integer(0, _MAX_NUMBER), 80, "Touches done in a week at most.")
    daily_mean: float = _each(number(0, _MAX_NUMBER), 12.0, "Touches a day, on average.")
    daily_std: float = _each(number(0, _MAX_NUMBER), 4.0, "How much days differ from each other.")
    daily_min: int = _each(integer(0, _MAX_NUMBER), 5, "Touches planned on a day at least.")
    daily_max: int = _each(integer(0, _MAX_NUMBER), 20, "Touches planned on a day at most.")
    daily_cap: int = _each(integer(0, _MAX_NUMBER), 20, "Touches done on a day at most.")
    hourly_cap: int = _each(integer(0, _MAX_NUMBER), 5, "Touches done in an hour at most.")
    force_after_days: int = _each(
        integer(0, 3650), 12, "Who was not touched for more days than this comes first."
    )
    force_most: int = _each(
        integer(0, _MAX_NUMBER), 5, "How many come first on a day at most, while time allows."
    )
    coverage_days: int = _each(integer(1, 3650), 14, "No profile should wait longer than this.")
    pressing_days: int = _each(
        integer(0, 3650), 3, "Days before that from which overdue profiles come first."
    )
    score_per_day: float = _each(number(0, 1000), 0.8, "What a day of waiting adds to a score.")
    score_most: float = _each(number(0, 1_000_000), 12.0, "What waiting adds to a score at most.")
    score_chance: float = _each(number(0, 1_000_000), 5.0, "What chance adds to a score at most.")
    pool: float = _each(
        number(1, 1000), 2.0, "From how many a day's touches are drawn, in budgets of the day."
    )
    appeal_factor: float = _each(
        number(0, 1000),
        1.0,
        "How much likelier, at equal waits, the best lead is drawn: 1 is 100 %.",
    )
    opens: time = _each(LOCAL_TIME, time(9), "When a day's touches may begin.")
    closes: time = _each(LOCAL_TIME, time(18), "When a day's touches are over.")
    weekdays: str = _each(WEEKDAYS, "1,2,3,4,5,6,7", "The days that have touches.")
    rates: str = _each(RATES, DEFAULT_RATES, "How touches spread over the hours of a day.")
    min_gap_minutes: float = _each(
        number(0, 600), 3.0, "Minutes between one touch and the next at least."
    )
    jitter_minutes: float = _each(
        number(0, 120), 5.0, "Minutes a touch may be moved by, back or forth."
    )
    burst_chance: float = _each(
        number(0, 1), 0.15, "How likely each day is to be the week's burst day."
    )
    burst_least: int = _each(integer(0, 1000), 3, "What a burst day has more, at least.")
    burst_most: int = _each(integer(0, 1000), 5, "What a burst day has more, at most.")
    light_less: int = _each(integer(0, 1000), 3, "What the week's light day has less.")
    success_rate: float = _each(
        number(0.01, 1), 0.8, "The share of touches that succeed, until enough were made to tell."
    )
    way: str = _each(
        choice("file", "webhook", "odoo"), "file", "How `touches run` hands over what is due."
    )
    file: Path = _each(PATH, Path("touches.jsonl"), "Where handed over touches go; for way file.")
    webhook_url: str | None = _each(
        BASE_URL, None, "Where touches are delivered, signed with keys.webhook; for way webhook."
    )
    odoo_user: str | None = _each(
        TEXT, None, "The external id of the user who gets the activities; for way odoo."
    )
    state: str = _each(
        choice("store", "file"), "store", "Whether plans are in the store, or in state_file alone."
    )
    state_file: Path = _each(
        PATH, Path("schedule_state.json"), "The one file of profiles, plans and counters."
    )

    def build_plan_rule(self) -> PlanRule:
        """Return the rule a week is planned by. Raises ConfigError when it contradicts itself."""
        from stoker.touches.model import PlanRule, Rate

        return PlanRule(
            weekly_budget=self.weekly_target,
            weekly_cap=self.weekly_cap,
            daily_mean=self.daily_mean,
            daily_std=self.daily_std,
            daily_min=self.daily_min,
            daily_max=self.daily_max,
            daily_cap=self.daily_cap,
            hourly_cap=self.hourly_cap,
            force_after=timedelta(days=self.force_after_days),
            force_limit=self.force_most,
            window=timedelta(days=self.coverage_days),
            pressing=timedelta(days=self.pressing_days),
            score_per_day=self.score_per_day,
            score_ceiling=self.score_most,
            score_noise=self.score_chance,
            pool_factor=self.pool,
            appeal_factor=self.appeal_factor,
            opens=self.opens,
            closes=self.closes,
            weekdays=tuple(int(day) for day in self.weekdays.split(",")),
            rates=tuple(
                Rate(time(first), time(end % 24), rate)
                for first, end, rate in parse_hourly_rates(self.rates)
            ),
            gap=timedelta(minutes=self.min_gap_minutes),
            jitter=timedelta(minutes=self.jitter_minutes),
            burst_chance=self.burst_chance,
            burst_least=self.burst_least,
            burst_most=self.burst_most,
            light_by=self.light_less,
        )
