"""What goes wrong in a rehearsal of nights, where and when: said beforehand, the same every time.

The program is down in the middle of a night and at the minute a night should begin, clocks are
set, vendors ask to be left alone, a cap is cut while looks are under way. What the product makes
of it is `nights`' business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from stoker.base.errors import ConfigError

_DAY = timedelta(days=1)

_CLOCKS_SET = date(2026, 3, 29)  # forward in London; back in Sydney a week later

_LONG, _SHORT = timedelta(hours=50), timedelta(hours=3)

_CUT_FOR = timedelta(days=3)


class Trouble(StrEnum):
    """What may be injected."""

    OUTAGE = "outage"
    DST = "dst"
    TOO_MANY = "429"
    CAP_CUT = "cap-cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a tenant is: whose walls its nights follow, and when they begin there."""

    tenant: str
    zone: str
    at: time

    @property
    def cron(self) -> str:
        """Return the line of its schedule."""
        return f"{self.at.minute} {self.at.hour} * * *"

    def day(self, moment: datetime) -> date:
        """Return what its calendar shows at a moment."""
        return moment.astimezone(ZoneInfo(self.zone)).date()

    def night(self, day: date) -> datetime:
        """Return when the night of a day is meant to begin, by the wall."""
        return datetime.combine(day, self.at, ZoneInfo(self.zone)).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """From when until when."""

    start: datetime
    end: datetime

    def has(self, moment: datetime) -> bool:
        """Say whether a moment lies in it."""
        return self.start <= moment < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class BadNights:
    """Everything that goes wrong for one tenant."""

    down: tuple[Stretch, ...] = ()  # the program is not running
    pushed: tuple[Stretch, ...] = ()  # vendors answer that they are called too often
    cut: tuple[Stretch, ...] = ()  # the day's cap is a third of what it was

    def down_at(self, moment: datetime) -> Stretch | None:
        """Return the outage a moment falls into."""
        return next((each for each in self.down if each.has(moment)), None)

    def next_down(self, moment: datetime) -> datetime:
        """Return when the program stops next."""
        starts = [each.start for each in self.down if each.start >= moment]
        return min(starts, default=datetime.max.replace(tzinfo=UTC))


def troubles(text: str) -> frozenset[Trouble]:
    """Return the troubles named, with commas between them; none for nothing."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = {each.value for each in Trouble}
    for name in names:
        if name not in known:
            raise ConfigError(f"no trouble is called {name[:40]!r}; there are {', '.join(Trouble)}")
    return frozenset(Trouble(name) for name in names)


def places(injected: Collection[Trouble]) -> tuple[Place, ...]:
    """Return whose nights are rehearsed: where clocks are set at night, if that is asked for."""
    singapore = Place(tenant="singapore", zone="Asia/Singapore", at=time(1, 0))
    if Trouble.DST not in injected:
        return (singapore, Place(tenant="utc", zone="UTC", at=time(1, 30)))
    return (
        singapore,
        Place(tenant="london", zone="Europe/London", at=time(1, 30)),  # is not there once
        Place(tenant="sydney", zone="Australia/Sydney", at=time(2, 30)),  # comes twice once
    )


def first_day(nights: int) -> date:
    """Return the day a rehearsal begins, so that clocks are set after a third of it."""
    return _CLOCKS_SET - _DAY * (nights // 3)


def bad_nights(place: Place, *, nights: int, injected: Iterable[Trouble]) -> BadNights:
    """Return what goes wrong for a tenant in so many nights."""
    wanted, first = frozenset(injected), first_day(nights)

    def night(share: float) -> datetime:
        return place.night(first + _DAY * int(nights * share))

    down: tuple[Stretch, ...] = ()
    if Trouble.OUTAGE in wanted:
        middle, before = night(0.5) + timedelta(minutes=15), night(0.2) - timedelta(hours=1)
        down = (
            Stretch(start=middle, end=middle + _LONG),
            Stretch(start=before, end=before + _SHORT),
        )
    pushed: tuple[Stretch, ...] = ()
    if Trouble.TOO_MANY in wanted:
        pushed = (
            Stretch(start=night(0.25), end=night(0.25) + 2 * _DAY),
            Stretch(start=night(0.75), end=night(0.75) + _DAY),
        )
    cut: tuple[Stretch, ...] = ()
    if Trouble.CAP_CUT in wanted:
        start = night(0.65) + timedelta(minutes=12)
        cut = (Stretch(start=start, end=start + _CUT_FOR),)
    return BadNights(down=down, pushed=pushed, cut=cut)
