"""Every time zone, ten years, minute by minute: does our cron agree with the clock on the wall?

The oracle knows nothing of `stoker.core`. It asks zoneinfo for the offset every quarter of an
hour of UTC, lays the minutes out on the wall, and sees for itself which wall minutes never come,
come once, or come twice. What a pattern matches is written here a second time, over arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product
from typing import TypeVar
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt

from stoker.calendar.recurrence import Cron, iter_occurrences
from stoker.calendar.timezones import Fold, Gap

Minutes = npt.NDArray[np.int32]  # minutes since 1970, in UTC or on a wall
Mask = npt.NDArray[np.bool_]
Item = TypeVar("Item")
Ours = Callable[[Cron, datetime, datetime], Iterable[datetime]]

QUARTER = 15
MARGIN = timedelta(days=3)  # a day lost or repeated at an edge is still seen whole
FIRST_DAY, LAST_DAY = datetime(2025, 1, 1, tzinfo=UTC), datetime(2035, 1, 1, tzinfo=UTC)
OPTIONS = tuple(product(Gap, Fold))


class Wall:
    """What calendar and clock show, for a range of wall minutes."""

    def __init__(self, minutes: Minutes) -> None:
        self.minutes = minutes
        stamps = minutes.astype("datetime64[m]")
        days, months = stamps.astype("datetime64[D]"), stamps.astype("datetime64[M]")
        self.minute, self.hour = minutes % 60, minutes // 60 % 24
        self.weekday = (days.astype(np.int32) + 4) % 7  # 1970 began on a Thursday; 0 is Sunday
        self.day = (days - months).astype(np.int8) + 1
        self.month = months.astype(np.int32) % 12 + 1


PATTERNS: dict[str, Callable[[Wall], Mask]] = {
    "0 0 * * *": lambda w: (w.hour == 0) & (w.minute == 0),
    "30 1 * * *": lambda w: (w.hour == 1) & (w.minute == 30),
    "30 2 * * *": lambda w: (w.hour == 2) & (w.minute == 30),
    "59 23 * * *": lambda w: (w.hour == 23) & (w.minute == 59),
    "0 */2 * * *": lambda w: (w.hour % 2 == 0) & (w.minute == 0),
    "5-55/25 0-3,22-23 * * *": lambda w: (
        ((w.hour <= 3) | (w.hour >= 22)) & np.isin(w.minute, (5, 30, 55))
    ),
    "15 2 * MAR,OCT SUN": lambda w: (
        (w.hour == 2) & (w.minute == 15) & np.isin(w.month, (3, 10)) & (w.weekday == 0)
    ),
    "0 3 13 * FRI": lambda w: (w.hour == 3) & (w.minute == 0) & ((w.day == 13) | (w.weekday == 5)),
    "45 1 29-31 * 6,7": lambda w: (
        (w.hour == 1) & (w.minute == 45) & ((w.day >= 29) | np.isin(w.weekday, (6, 0)))
    ),
    "0 2 29 2 *": lambda w: (w.hour == 2) & (w.minute == 0) & (w.day == 29) & (w.month == 2),
}
DENSE: dict[str, Callable[[Wall], Mask]] = {
    "* * * * *": lambda w: np.ones(len(w.minutes), dtype=np.bool_),
}


def minute_of(moment: datetime) -> int:
    return int(moment.timestamp()) // 60


@dataclass(frozen=True)
class Clock:
    """A zone's wall clock over a stretch of UTC: when it shows each wall minute, if ever."""

    start: datetime
    end: datetime
    base: int  # the wall minute that index 0 stands for
    first_at: Minutes  # by wall minute: when it is first shown, in UTC; -1 if never
    last_at: Minutes
    following: Minutes  # by wall minute: the nearest wall minute from there on that is shown

    def expected(self, wanted: Minutes, gap: Gap, fold: Fold) -> Minutes:
        """Return the UTC minutes at which a schedule for these wall minutes is due."""
        places = wanted - self.base
        places = places[(places >= 0) & (places < len(self.first_at))]
        shown = places[self.first_at[places] >= 0]
        chosen = {
            Fold.FIRST: [self.first_at[shown]],
            Fold.LAST: [self.last_at[shown]],
            Fold.BOTH: [self.first_at[shown], self.last_at[shown]],
        }[fold]
        if gap is Gap.SHIFT:
            lost = places[self.first_at[places] < 0]
            lost = self.following[lost]
            chosen = [*chosen, self.first_at[lost[lost < len(self.first_at)]]]
        due = np.unique(np.concatenate(chosen))
        return due[(due >= minute_of(self.start)) & (due < minute_of(self.end))]


def offsets(zone: str, start: datetime, end: datetime) -> Minutes:
    """Return the zone's offset in minutes for every quarter of an hour of UTC."""
    tz = ZoneInfo(zone)
    first, last = int((start - MARGIN).timestamp()), int((end + MARGIN).timestamp())
    found = [
        datetime.fromtimestamp(at, tz).utcoffset().total_seconds()  # type: ignore[union-attr]  # aware
        for at in range(first, last, QUARTER * 60)
    ]
    return np.asarray(found, dtype=np.int32) // 60


def clock(found: Minutes, start: datetime, end: datetime) -> Clock:
    """Lay the minutes of a stretch of UTC out on a wall with these offsets."""
    first = minute_of(start - MARGIN)
    utc = np.arange(first, first + len(found) * QUARTER, dtype=np.int32)
    wall = utc + np.repeat(found, QUARTER)
    base = int(wall.min())
    size = int(wall.max()) - base + 1
    first_at, last_at = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    last_at[wall - base] = utc  # of several for one place, numpy keeps the one written last
    first_at[(wall - base)[::-1]] = utc[::-1]
    places = np.where(first_at >= 0, np.arange(size, dtype=np.int32), size)
    following = np.minimum.accumulate(places[::-1])[::-1]
    return Clock(start, end, base, first_at, last_at, following)


@lru_cache(maxsize=1)
def wall_of(start: datetime, end: datetime) -> Wall:
    room = MARGIN + timedelta(days=2)
    return Wall(np.arange(minute_of(start - room), minute_of(end + room), dtype=np.int32))


@lru_cache(maxsize=100)
def wanted(pattern: str, start: datetime, end: datetime) -> Minutes:
    """Return the wall minutes a pattern names, with room for any offset."""
    wall = wall_of(start, end)
    return wall.minutes[(PATTERNS | DENSE)[pattern](wall)]


def ours(cron: Cron, start: datetime, end: datetime) -> Iterator[datetime]:
    tick = timedelta.resolution
    return iter_occurrences(cron, after=start - tick, until=end - tick)


def difference(zone: str, pattern: str, gap: Gap, fold: Fold, seen: Clock, by: Ours = ours) -> str:
    """Return the first moment at which we and the oracle disagree, or nothing."""
    cron = Cron(pattern, zone, gap, fold)
    mine = np.fromiter((minute_of(at) for at in by(cron, seen.start, seen.end)), np.int32)
    theirs = seen.expected(wanted(pattern, seen.start, seen.end), gap, fold)
    if np.array_equal(mine, theirs):
        return ""
    only = sorted(set(mine.tolist()) ^ set(theirs.tolist()))
    at = datetime.fromtimestamp(only[0] * 60, UTC) if only else "the same minutes, out of order"
    return f"{zone} {pattern!r} gap={gap} fold={fold}: {len(only)} differences, first {at}"


def ten_years(zone: str) -> bytes:
    return offsets(zone, FIRST_DAY, LAST_DAY).tobytes()


def differences(zone: str, found: bytes) -> list[str]:
    """Compare one zone's ten years, every pattern under every rule."""
    seen = clock(np.frombuffer(found, np.int32), FIRST_DAY, LAST_DAY)
    every = product(PATTERNS, OPTIONS)
    return [difference(zone, pattern, gap, fold, seen) for pattern, (gap, fold) in every]


def lost_day() -> list[str]:
    """Compare Apia around 30 December 2011, the day it left out."""
    around = datetime(2011, 12, 1, tzinfo=UTC), datetime(2012, 2, 1, tzinfo=UTC)
    seen = clock(offsets("Pacific/Apia", *around), *around)
    every = product(PATTERNS | DENSE, OPTIONS)
    return [difference("Pacific/Apia", pattern, gap, fold, seen) for pattern, (gap, fold) in every]


def progress(items: Iterable[Item], of: int, what: str) -> Iterator[Item]:
    for done, item in enumerate(items, 1):
        yield item
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{what}: {done} of {of}\033[K" if done < of else "\r\033[K")


def main(scale: float = 1.0) -> int:
    """Return how often we differ; a scale below 1 looks at that share of the zones, evenly."""
    names = sorted(available_timezones())[:: max(1, round(1 / scale))]
    alike: dict[bytes, list[str]] = {}  # zones that show the same throughout are computed once
    found, compared = lost_day(), 0
    with ProcessPoolExecutor() as pool:
        read = progress(pool.map(ten_years, names, chunksize=8), len(names), "reading zones")
        for name, shown in zip(names, read, strict=True):
            alike.setdefault(shown, []).append(name)
        first_names = [zones[0] for zones in alike.values()]
        answers = progress(pool.map(differences, first_names, alike), len(alike), "comparing")
        for zones, answer in zip(alike.values(), answers, strict=True):
            found += answer
            compared += len(answer) * len(zones)
    wrong = [line for line in found if line]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(
        f"cron oracle: n={compared} decades ({len(names)} zones, {len(alike)} different clocks, "
        f"{len(PATTERNS)} patterns, {len(OPTIONS)} gap and fold rules) and Apia's lost day: "
        f"{len(wrong)} differences"
    )
    return len(wrong)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
