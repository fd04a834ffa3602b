"""Settings of touches: every number of the weekly plan, and where due touches go.

Each is a tenant's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from stoker.base.errors import ConfigError
from stoker.config.fields import (
    LOCAL_TIME,
    PATH,
    TEXT,
    FieldType,
    Section,
    choice,
    days,
    integer,
    minutes,
    number,
)
from stoker.config.fields import (
    tenant_setting as _each,
)
from stoker.http.fields import BASE_URL

_MAX_NUMBER = 10_000_000

_DAY = timedelta(days=1)

_WEEKDAY_DIGITS = frozenset("1234567")

_HOURS = re.compile(r"([0-9]{1,2})-([0-9]{1,2}) ([0-9]{1,4}(?:\.[0-9]{1,4})?)")

DEFAULT_RATES = "9-10 0.6, 10-12 1.3, 12-13 0.8, 13-15 1.2, 15-17 0.7, 17-18 0.4"


class HourlyRate(NamedTuple):
    """How busy some hours of the day are, relative to the others."""

    start: timedelta  # after midnight
    end: timedelta
    rate: float


def parse_hourly_rates(text: str) -> tuple[HourlyRate, ...]:
    """Return the rates that a setting lists. Raises ValueError."""
    rates: list[HourlyRate] = []
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
        rates.append(HourlyRate(timedelta(hours=first), timedelta(hours=end), rate))
    if not any(each.rate for each in rates):
        raise ValueError(text)
    return tuple(rates)


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


def _parse_weekdays(given: Any, typed: bool) -> tuple[int, ...]:
    if not isinstance(given, str):
        raise ValueError("wrong type")  # noqa: TRY004 - as above
    found = [part.strip() for part in given.split(",")]
    if not all(day in _WEEKDAY_DIGITS for day in found) or len(set(found)) < len(found):
        raise ValueError(given)
    return tuple(sorted(map(int, found)))


WEEKDAYS = FieldType(
    name="days of the week",
    allowed="days separated by commas, 1 (Monday) to 7 (Sunday), e.g. 1,2,3,4,5",
    parse=_parse_weekdays,
    is_allowed=lambda value: bool(value) and set(value) <= set(range(1, 8)),
    to_plain=lambda value: ",".join(map(str, value)),
)


@dataclass(frozen=True, kw_only=True)
class PlanRule(Section):
    """Every number a week is planned by."""

    weekly_budget: int = _each(
        integer(0, _MAX_NUMBER), 80, "Touches planned in a week.", key="weekly_target"
    )
    weekly_cap: int = _each(integer(0, _MAX_NUMBER), 80, "Touches done in a week at most.")
    daily_mean: float = _each(number(0, _MAX_NUMBER), 12.0, "Touches a day, on average.")
    daily_std: float = _each(number(0, _MAX_NUMBER), 4.0, "How much days differ from each other.")
    daily_min: int = _each(integer(0, _MAX_NUMBER), 5, "Touches planned on a day at least.")
    daily_max: int = _each(integer(0, _MAX_NUMBER), 20, "Touches planned on a day at most.")
    daily_cap: int = _each(integer(0, _MAX_NUMBER), 20, "Touches done on a day at most.")
    hourly_cap: int = _each(integer(0, _MAX_NUMBER), 5, "Touches done in an hour at most.")
    min_rest: timedelta = _each(
        days(1, 3650, whole=True),
        2 * _DAY,
        "Days from one touch of a person to the next at least; 2: not on consecutive days.",
        key="min_rest_days",
    )
    force_after: timedelta = _each(
        days(0, 3650, whole=True),
        12 * _DAY,
        "Who was not touched for more days than this is forced in, oldest first.",
        key="force_after_days",
    )
    force_limit: int = _each(
        integer(0, _MAX_NUMBER), 5, "How many are forced in on a day at most.", key="force_most"
    )
    window: timedelta = _each(
        days(1, 3650, whole=True),
        14 * _DAY,
        "No profile should wait longer than this.",
        key="coverage_days",
    )
    pressing: timedelta = _each(
        days(0, 3650, whole=True),
        3 * _DAY,
        "Days before that from which all come first, beyond force_most; 0: never.",
        key="pressing_days",
    )
    score_per_day: float = _each(number(0, 1000), 0.8, "What a day of waiting adds to a score.")
    score_ceiling: float = _each(
        number(0, 1_000_000), 12.0, "What waiting adds to a score at most.", key="score_most"
    )
    score_noise: float = _each(
        number(0, 1_000_000), 5.0, "What chance adds to a score at most.", key="score_chance"
    )
    pool_factor: float = _each(
        number(1, 1000),
        2.0,
        "From how many a day's touches are drawn, in budgets of the day.",
        key="pool",
    )
    appeal_factor: float = _each(
        number(0, 1000),
        1.0,
        "How much likelier, at equal waits, the best lead is drawn: 1 is 100 %.",
    )
    opens: time = _each(LOCAL_TIME, time(9), "When a day's touches may begin.")
    closes: time = _each(LOCAL_TIME, time(18), "When a day's touches are over.")
    weekdays: tuple[int, ...] = _each(WEEKDAYS, tuple(range(1, 8)), "The days that have touches.")
    rates: str = _each(RATES, DEFAULT_RATES, "How touches spread over the hours of a day.")
    gap: timedelta = _each(
        minutes(0, 600),
        timedelta(minutes=3),
        "Minutes between one touch and the next at least.",
        key="min_gap_minutes",
    )
    jitter: timedelta = _each(
        minutes(0, 120),
        timedelta(minutes=5),
        "Minutes a touch may be moved by, back or forth.",
        key="jitter_minutes",
    )
    burst_chance: float = _each(
        number(0, 1), 0.15, "How likely each day is to be the week's burst day."
    )
    burst_least: int = _each(integer(0, 1000), 3, "What a burst day has more, at least.")
    burst_most: int = _each(integer(0, 1000), 5, "What a burst day has more, at most.")
    light_by: int = _each(
        integer(0, 1000), 3, "What the week's light day has less.", key="light_less"
    )
    success_rate: float = _each(
        number(0.01, 1), 0.8, "The share of touches that succeed, until enough were made to tell."
    )

    @property
    def max_per_day(self) -> int:
        """Return the most touches one day may have."""
        return min(self.daily_max, self.daily_cap)

    @property
    def target(self) -> int:
        """Return what a week's budgets should add up to."""
        return min(self.weekly_budget, self.weekly_cap)

    @property
    def opens_after(self) -> timedelta:
        """Return how long after midnight a day opens."""
        return timedelta(hours=self.opens.hour, minutes=self.opens.minute)

    @property
    def closes_after(self) -> timedelta:
        """Return how long after midnight a day closes; 00:00 is the next midnight."""
        return timedelta(hours=self.closes.hour, minutes=self.closes.minute) or _DAY

    @cached_property
    def hourly_rates(self) -> tuple[HourlyRate, ...]:
        """Return the rates by hour."""
        return parse_hourly_rates(self.rates)

    def check(self) -> None:
        """Raise ConfigError, with what to change, if numbers contradict each other."""
        open_days = len(set(self.weekdays))
        contradictions = (
            (self.hourly_cap < 1, "an hourly cap below 1 leaves no room for any touch; raise it"),
            (
                self.daily_min > self.max_per_day,
                f"a day of at least {self.daily_min} touches does not fit under a daily maximum "
                f"of {self.max_per_day}; lower the minimum or raise the maximum and the daily cap",
            ),
            (
                self.daily_min * open_days > self.target,
                f"{open_days} days of at least {self.daily_min} touches are more than "
                f"{self.target} a week; lower the daily minimum or raise the weekly budget and cap",
            ),
            (
                self.burst_least > self.burst_most,
                "a burst day adds from its least to its most; lower burst_least",
            ),
            (
                self.min_rest > max(self.window, 2 * _DAY),
                f"a rest of {self.min_rest.days} days makes every profile wait longer than the "
                f"window of {self.window.days}; shorten min_rest_days or raise coverage_days",
            ),
            (
                self.closes_after <= self.opens_after,
                f"operating hours from {self.opens:%H:%M} to {self.closes:%H:%M} are empty; "
                "they end later on the day they begin",
            ),
        )
        for is_wrong, message in contradictions:
            if is_wrong:
                raise ConfigError(message)


@dataclass(frozen=True, kw_only=True)
class TouchSettings(PlanRule):
    """How often and at which hours profiles are touched, and where due touches go."""

    profiles: str | None = _each(
        TEXT,
        None,
        "A CSV file or a sheet's address whose profiles are imported when a week is planned.",
    )
    way: str = _each(
        choice("file", "webhook", "odoo"), "file", "How `touches run` delivers due touches."
    )
    file: Path = _each(
        PATH, Path("touches.jsonl"), "Where delivered touches are written; for way file."
    )
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
