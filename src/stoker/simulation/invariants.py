"""Check what nightly runs guarantee against what happened, with none of the product's rules.

Days are local calendar days, limits are what was injected, waits are plain differences. So a
planner error cannot hide itself here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

from stoker.accounts.model import CompanyId
from stoker.simulation.faults import FaultPlan, SimTenant

_DAY = timedelta(days=1)

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
