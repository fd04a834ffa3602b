"""The faults that a simulation of nightly runs injects, and when: the same every time.

The program is down in the middle of a run and at the minute a run should start, clocks change,
vendors throttle, and a cap is cut while lookups run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from stoker.base.errors import ConfigError

_DAY = timedelta(days=1)

_DST_DAY = date(2026, 3, 29)  # forward in London; back in Sydney a week later

_LONG_OUTAGE, _SHORT_OUTAGE = timedelta(hours=50), timedelta(hours=3)

_CAP_CUT_LENGTH = timedelta(days=3)


class InjectedFault(StrEnum):
    """What may be injected."""

    OUTAGE = "outage"
    DST = "dst"
    TOO_MANY = "429"
    CAP_CUT = "cap-cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimTenant:
    """A simulated tenant: its time zone, and when its nightly runs start."""

    tenant: str
    zone: str
    at: time

    @property
    def cron(self) -> str:
        """Return the line of its schedule."""
        return f"{self.at.minute} {self.at.hour} * * *"

    def to_local_day(self, moment: datetime) -> date:
        """Return what its calendar shows at a moment."""
        return moment.astimezone(ZoneInfo(self.zone)).date()

    def get_night_start(self, day: date) -> datetime:
        """Return when the night of a day is meant to begin, by the wall."""
        return datetime.combine(day, self.at, ZoneInfo(self.zone)).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """From when until when."""

    start: datetime
    end: datetime

    def contains(self, moment: datetime) -> bool:
        """Say whether a moment lies in it."""
        return self.start <= moment < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """All faults of one tenant."""

    down: tuple[Interval, ...] = ()  # the program is not running
    throttled: tuple[Interval, ...] = ()  # vendors answer that they are called too often
    cap_cuts: tuple[Interval, ...] = ()  # the day's cap is a third of what it was

    def find_outage(self, moment: datetime) -> Interval | None:
        """Return the outage a moment falls into."""
        return next((each for each in self.down if each.contains(moment)), None)

    def get_next_outage_start(self, moment: datetime) -> datetime:
        """Return when the program stops next."""
        starts = [each.start for each in self.down if each.start >= moment]
        return min(starts, default=datetime.max.replace(tzinfo=UTC))


def parse_faults(text: str) -> frozenset[InjectedFault]:
    """Return the faults named, separated by commas; none for an empty text."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = {each.value for each in InjectedFault}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"there is no fault {name[:40]!r}; there are {', '.join(InjectedFault)}"
            )
    return frozenset(InjectedFault(name) for name in names)


def list_sim_tenants(injected: Collection[InjectedFault]) -> tuple[SimTenant, ...]:
    """Return the simulated tenants: in zones where clocks change at night, if that is injected."""
    singapore = SimTenant(tenant="singapore", zone="Asia/Singapore", at=time(1, 0))
    if InjectedFault.DST not in injected:
        return (singapore, SimTenant(tenant="utc", zone="UTC", at=time(1, 30)))
    return (
        singapore,
        SimTenant(tenant="london", zone="Europe/London", at=time(1, 30)),  # is not there once
        SimTenant(tenant="sydney", zone="Australia/Sydney", at=time(2, 30)),  # comes twice once
    )


def choose_first_day(nights: int) -> date:
    """Return the first day of a simulation, so that clocks change after a third of it."""
    return _DST_DAY - _DAY * (nights // 3)


def build_fault_plan(
    place: SimTenant, *, nights: int, injected: Iterable[InjectedFault]
) -> FaultPlan:
    """Return the faults of a tenant over so many nights."""
    wanted, first = frozenset(injected), choose_first_day(nights)

    def night(share: float) -> datetime:
        return place.get_night_start(first + _DAY * int(nights * share))

    down: tuple[Interval, ...] = ()
    if InjectedFault.OUTAGE in wanted:
        middle, before = night(0.5) + timedelta(minutes=15), night(0.2) - timedelta(hours=1)
        down = (
            Interval(start=middle, end=middle + _LONG_OUTAGE),
            Interval(start=before, end=before + _SHORT_OUTAGE),
        )
    pushed: tuple[Interval, ...] = ()
    if InjectedFault.TOO_MANY in wanted:
        pushed = (
            Interval(start=night(0.25), end=night(0.25) + 2 * _DAY),
            Interval(start=night(0.75), end=night(0.75) + _DAY),
        )
    cut: tuple[Interval, ...] = ()
    if InjectedFault.CAP_CUT in wanted:
        start = night(0.65) + timedelta(minutes=12)
        cut = (Interval(start=start, end=start + _CAP_CUT_LENGTH),)
    return FaultPlan(down=down, throttled=pushed, cap_cuts=cut)
