"""The faults that a simulation of nightly runs injects, and what nightly runs guarantee anyway.

Faults are the same every time: the program is down in the middle of a run and at the minute a run
should start, clocks change, vendors throttle, and a cap is cut while lookups run. Guarantees are
checked with none of the product's rules: days are local calendar days, limits are what was
injected, waits are plain differences. So a planner error cannot hide itself here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from stoker.accounts.model import CompanyId
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


_MAX_NAMES = 3

GRACE = timedelta(minutes=10)  # after the deadline, for a lookup that was under way


class Invariant(StrEnum):
    """What every nightly run guarantees, whatever fails."""

    CAPS = "no cap is exceeded"
    ONE_RUN = "one night for every local day"
    FLOOR = "no account exceeds the maximum wait unless reported"
    DEADLINE = "a night ends by its deadline"
    ONCE = "no account is looked up twice a day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A violated invariant."""

    invariant: Invariant
    tenant: str
    night: int  # the first is 1
    day: date  # on the tenant's wall
    message: str


class InvariantChecker:
    """Checks one tenant's runs and lists violations."""

    def __init__(
        self,
        place: SimTenant,
        bad: FaultPlan,
        *,
        first: date,
        floor: timedelta,
        limit: Callable[[str, datetime], int],
    ) -> None:
        self._place, self._bad, self._first = place, bad, first
        self._floor, self._limit = floor, limit
        self._spent: Counter[tuple[str, date]] = Counter()
        self._looks: Counter[tuple[str, date]] = Counter()
        self._nights: Counter[date] = Counter()
        self.violations: list[Violation] = []

    def record_start(self, instant: datetime) -> None:
        """Record that a run of this occurrence started."""
        day = self._place.to_local_day(instant)
        self._nights[day] += 1
        if self._nights[day] > 1:
            self._add_violation(
                Invariant.ONE_RUN, day, f"night {self._nights[day]} of the day began"
            )

    def record_spending(self, cap: str, amount: int, *, at: datetime) -> None:
        """Record spending of a cap's unit."""
        day, limit = self._place.to_local_day(at), self._limit(cap, at)
        self._spent[cap, day] += amount
        if self._spent[cap, day] > limit:
            self._add_violation(
                Invariant.CAPS, day, f"{cap}: {self._spent[cap, day]} of {limit} given away"
            )

    def record_lookup(self, account: str, *, at: datetime) -> None:
        """Record a lookup of an account."""
        day = self._place.to_local_day(at)
        self._looks[account, day] += 1
        if self._looks[account, day] > 1:
            self._add_violation(Invariant.ONCE, day, f"{account} was looked up again")

    def record_end(self, *, at: datetime, deadline: datetime) -> None:
        """Record the end of a run."""
        if at > deadline + GRACE:
            late = int((at - deadline) / timedelta(minutes=1))
            self._add_violation(
                Invariant.DEADLINE, self._place.to_local_day(deadline), f"ended {late} minutes late"
            )

    def check_waits(
        self, looked: Mapping[CompanyId, datetime], *, reported: Collection[str], at: datetime
    ) -> None:
        """Check every account's wait after a run, except those the plan reported as missed.

        Downtime does not count, and one night passes until a lookup that was dropped for lack of
        time or money is planned again.
        """
        late = []
        for account, last in looked.items():
            wait = at - last - self._floor - 2 * _DAY - self._compute_downtime(last, at)
            if wait > timedelta(0) and account not in reported:
                late.append(account)
        if late:
            named = ", ".join(late[:_MAX_NAMES])
            self._add_violation(
                Invariant.FLOOR, self._place.to_local_day(at), f"{len(late)} wait longer: {named}"
            )

    def finish(self, days: int) -> None:
        """Check for missing runs at the end of the simulation."""
        for number in range(days):
            day = self._first + _DAY * number
            start, end = self._place.get_night_start(day), self._place.get_night_start(day + _DAY)
            there = (end - start) - self._compute_downtime(start, end)
            if not self._nights[day] and there > timedelta(hours=1):
                self._add_violation(Invariant.ONE_RUN, day, "no night began")

    def _compute_downtime(self, start: datetime, end: datetime) -> timedelta:
        total = timedelta(0)
        for each in self._bad.down:
            total += max(min(end, each.end) - max(start, each.start), timedelta(0))
        return total

    def _add_violation(self, invariant: Invariant, day: date, message: str) -> None:
        self.violations.append(
            Violation(
                invariant=invariant,
                tenant=self._place.tenant,
                night=(day - self._first).days + 1,
                day=day,
                message=message,
            )
        )
