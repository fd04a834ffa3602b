"""Parse five-field cron lines: which days, and which minutes of those days.

    minute  hour  day-of-month  month  day-of-week        e.g.  30 1 * * MON-FRI

Each field takes `*`, numbers, ranges, steps and lists of them; months and weekdays also their
English names, and both 0 and 7 are Sunday. `timezones` knows when a wall clock shows those minutes,
and what happens if it never does or does so twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

from stoker.base.errors import ConfigError

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MAX_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY = timedelta(days=1)
_MINUTES = tuple(timedelta(minutes=minute) for minute in range(24 * 60))  # shared by all lines

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSpec:
    """A cron line, understood. There is always a day on which it runs."""

    times: tuple[timedelta, ...]  # since the day's midnight on the wall, ascending, never empty
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either_day: bool  # day-of-month or day-of-week is enough; else both must agree

    def runs_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_date or by_weekday) if self.either_day else (by_date and by_weekday)

    def get_next_day(self, day: date) -> date:
        """Return the first day the line names, this one or later."""
        # It ends: the rarest line, 29 February on one weekday, comes round within forty years.
        while not self.runs_on(day):
            if day.month in self.months:
                day += _DAY
            else:
                day = (day.replace(day=1) + 31 * _DAY).replace(day=1)
        return day

    def get_previous_day(self, day: date) -> date:
        """Return the last day the line names, this one or earlier."""
        while not self.runs_on(day):
            day = (day if day.month in self.months else day.replace(day=1)) - _DAY
        return day


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        named = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.lowest}-{self.highest}{named}, ranges a-b, steps */n and a-b/n, and lists"

    def parse_values(self, text: str) -> frozenset[int]:
        """Return what the field names; an item that names nothing is refused."""
        chosen: set[int] = set()
        for item in text.split(","):
            span, slash, step = item.partition("/")
            if span == "*":
                first, last = self.lowest, self.highest
            else:
                low, dash, high = span.partition("-")
                first = self._parse_number(low, item)
                last = self._parse_number(high, item, ends_range=True) if dash else first
                if slash and not dash:
                    raise self._build_error(item, f"write {low}-{self.highest}/{step}")
            if first > last:
                raise self._build_error(item, "the range is empty")
            chosen.update(range(first, last + 1, self._parse_step(step, item) if slash else 1))
        return frozenset(chosen)

    def _parse_number(self, text: str, item: str, *, ends_range: bool = False) -> int:
        name = text.upper()
        if name in self.names:
            # A week may end on Sunday: FRI-SUN is 5-7.
            if ends_range and name == "SUN":
                return 7
            return self.names.index(name) + self._first_name_number
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else -1
        if not self.lowest <= number <= self.highest:
            raise self._build_error(item)
        return number

    def _parse_step(self, text: str, item: str) -> int:
        most = self.highest - self.lowest
        step = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else 0
        if not 1 <= step <= most:
            # A longer step would quietly mean "once"; `*/90` is not every ninety minutes.
            raise self._build_error(item, f"a step here is 1-{most}")
        return step

    @property
    def _first_name_number(self) -> int:
        return 1 if self.names is _MONTHS else 0

    def _build_error(self, item: str, why: str = "") -> ConfigError:
        because = f"; {why}" if why else ""
        return ConfigError(
            f"cron {self.name} {item!r} cannot work{because}: allowed {self.allowed}"
        )


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day-of-month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day-of-week", 0, 7, _WEEKDAYS),
)


@lru_cache(maxsize=1024)
def parse_cron(expression: str) -> CronSpec:
    """Parse a cron line; ConfigError names the field that cannot work.

    As in classic cron, a day-of-month and a day-of-week that are both restricted mean either:
    `0 0 13 * FRI` runs on every 13th and on every Friday. A field that begins with `*` is not
    restricted, also when it has a step, and then both must agree: `0 0 13 * */5` runs on a 13th
    that is a Sunday or a Friday.
    """
    texts = ALIASES.get(expression.strip().lower(), expression).split()
    if len(texts) != len(_FIELDS):
        names = " ".join(field.name for field in _FIELDS)
        raise ConfigError(
            f"cron {expression!r} has {len(texts)} fields; give five ({names}), "
            f"or one of {', '.join(ALIASES)}"
        )
    minutes, hours, days, months, weekdays = (
        field.parse_values(text) for field, text in zip(_FIELDS, texts, strict=True)
    )
    either_day = not texts[2].startswith("*") and not texts[4].startswith("*")
    if not either_day and all(min(days) > _MAX_DAYS_IN_MONTH[month - 1] for month in months):
        raise ConfigError(
            f"cron {expression!r} never runs: day-of-month {texts[2]!r} does not occur in "
            f"month {texts[3]!r}; choose a day that month has"
        )
    return CronSpec(
        times=tuple(
            _MINUTES[hour * 60 + minute] for hour in sorted(hours) for minute in sorted(minutes)
        ),
        days=days,
        months=months,
        weekdays=frozenset(weekday % 7 for weekday in weekdays),
        either_day=either_day,
    )
