"""The smallest change that would have had an account looked at: units, posture or time.

Found with the very functions that refused it, so a flip that is stated works, and a smaller one on
the same axis does not: exactly for units, to a thousandth for posture, to a minute for time. All
else stays as it was, the prices by which shared caps measured offers included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from stoker.budgets.caps import Scope
from stoker.pulls.capacity import NO_CAP, Flags, Ints, fitting, smallest_cap
from stoker.pulls.columns import (
    UNREADABLE,
    Accounts,
    Column,
    Limits,
    Policy,
    PullRule,
    Why,
    days,
    in_days,
    posture_factor,
)
from stoker.pulls.offers import Offers, depth_queue, offered, within_depth
from stoker.pulls.planner import NOT, DayPlan
from stoker.pulls.selection import (
    Line,
    choose,
    connector_queue,
    lined_up,
    passed_shared,
    shared_queue,
    tenant_queue,
)
from stoker.pulls.worth import interval

STEP = 0.001  # of posture, or of heat where the table decides

MINUTE = timedelta(minutes=1)

_FURTHEST = timedelta(days=3660)

_DAY = timedelta(days=1)

_MINUTES = _DAY / MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """A cap that would have to allow so many units more, or so many deep looks."""

    scope: Scope
    units: int
    deep: bool = False  # deep looks: of those whom only deep looks ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """What would have had an account looked at, each alone; None where nothing on that axis does.

    Raises go together: a cap that stays as it is makes the others useless.
    """

    raises: tuple[Raise, ...] | None = None
    posture: float | None = None  # in place of what it is; heat, where the table decides
    by_heat: bool = False
    wait: timedelta | None = None  # had it not been looked at for so much longer

    @property
    def sentence(self) -> str:
        """Say it for people."""
        ways = []
        if self.raises is not None:
            ways.append(" and ".join(map(_more, self.raises)))
        if self.posture is not None:
            ways.append(f"a {'heat' if self.by_heat else 'posture'} of {self.posture:.3f}")
        if self.wait is not None:
            ways.append(f"{in_words(self.wait)} more of waiting")
        if not ways:
            return "No change of units, posture or time would have had it looked at."
        return f"It would be looked at with {', or '.join(ways)}."


_OF = {
    Scope.TENANT: "of the tenant's day",
    Scope.TENANT_CONNECTOR: "of the connector's day",
    Scope.CONNECTOR: "of what tenants share",
}


def _more(each: Raise) -> str:
    many = "s" if each.units > 1 else ""
    if each.deep:
        return f"room for {each.units} more deep look{many}"
    return f"{each.units} more unit{many} {_OF[each.scope]}"


def flips(
    row: int, accounts: Accounts, limits: Limits, *, now: datetime, rule: PullRule, plan: DayPlan
) -> Flips:
    """Return the smallest changes that get an account of a plan chosen that was not."""
    chances = _Chances(row, accounts, limits, now=in_days(now), rule=rule, plan=plan)
    if plan.depth[row] != NOT or chances.hopeless:
        return Flips()
    return Flips(
        raises=chances.raises(),
        posture=chances.posture(),
        by_heat=rule.policy is Policy.TIERS,
        wait=chances.wait(),
    )


def with_raises(limits: Limits, accounts: Accounts, row: int, raises: tuple[Raise, ...]) -> Limits:
    """Return the limits with an account's caps raised."""
    budget, connector = limits.budget.copy(), limits.connector_cap.copy()
    domain, deep = limits.domain_cap.copy(), limits.deep_cap.copy()
    for each in raises:
        if each.deep:
            deep[accounts.tenant[row]] += each.units
        elif each.scope is Scope.TENANT:
            budget[accounts.tenant[row]] += each.units
        elif each.scope is Scope.TENANT_CONNECTOR:
            connector[accounts.tenant[row], accounts.connector[row]] += each.units
        else:
            domain[accounts.domain[row]] += each.units
    return replace(limits, budget=budget, connector_cap=connector, domain_cap=domain, deep_cap=deep)


def with_posture(accounts: Accounts, row: int, posture: float, *, rule: PullRule) -> Accounts:
    """Return the accounts with one of another posture, and what that makes of its value.

    Its tier stays. Under the table of tiers it is the heat that is another.
    """
    if rule.policy is Policy.TIERS:
        return replace(accounts, heat=_changed(accounts.heat, row, posture))
    before = posture_factor(accounts.posture[row], rule=rule)
    times = float(posture_factor(np.array(posture), rule=rule) / before)
    return replace(
        accounts,
        posture=_changed(accounts.posture, row, posture),
        value=_changed(accounts.value, row, accounts.value[row] * times),
        deep_value=_changed(accounts.deep_value, row, accounts.deep_value[row] * times),
    )


def with_wait(accounts: Accounts, row: int, wait: timedelta) -> Accounts:
    """Return the accounts with one that was last looked at so much longer ago."""
    return replace(
        accounts,
        looked=_changed(accounts.looked, row, accounts.looked[row] - wait / _DAY),
        deep_looked=_changed(accounts.deep_looked, row, accounts.deep_looked[row] - wait / _DAY),
    )


def in_words(span: timedelta) -> str:
    """Return a span as people say it, in whole minutes, none left out."""
    minutes = -(-span // MINUTE)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 m"


class _Chances:
    """One account among all that its chances depend on: its tenant's, and who shares with them."""

    def __init__(
        self,
        row: int,
        accounts: Accounts,
        limits: Limits,
        *,
        now: float,
        rule: PullRule,
        plan: DayPlan,
    ) -> None:
        self.hopeless = (
            accounts.barred[row] != Why.FREE or limits.budget[accounts.tenant[row]] == UNREADABLE
        )
        rows = related(row, accounts, limits)
        self._accounts = accounts.rows(rows)
        self._row = int(np.searchsorted(rows, row))
        self._one = accounts.rows(slice(row, row + 1))
        self._limits, self._now, self._rule = limits, now, rule
        self._offers = offered(self._accounts, now=now, rule=rule)
        self._reference = plan.reference
        self._price = float(plan.price[accounts.tenant[row]])

    def raises(self) -> tuple[Raise, ...] | None:
        """Return by how much caps would have to be raised, one after the other as they refuse."""
        if self._offers.look[self._row] <= 0:
            return None
        # Who has no units at all is not in line; with any, all of its accounts are.
        accounts, limits = self._accounts, self._limits
        tenant, connector = accounts.tenant[self._row], accounts.connector[self._row]
        some = replace(
            limits,
            budget=_changed(limits.budget, tenant, max(limits.budget[tenant], 1)),
            connector_cap=limits.connector_cap.copy(),
            domain_cap=limits.domain_cap.copy(),
            deep_cap=limits.deep_cap.copy(),
        )
        needed: list[Raise] = []
        offers = self._raise_depth(some, needed)
        if offers is None:
            return None
        if some.connector_cap.shape[1]:
            cap = some.connector_cap[tenant, connector]
            some.connector_cap[tenant, connector] = max(cap, 1)
        line = lined_up(accounts, some, offers)
        place = int(np.flatnonzero((line.account == self._row) & ~line.deeper)[0])
        self._raise_shared(line, place, some, needed)
        shared = passed_shared(line, accounts, some, self._reference)
        own = np.flatnonzero(shared & (line.tenant == tenant))
        granted = np.ones(len(line), np.bool_)
        if limits.connector_cap.shape[1]:
            own = self._raise_connector(line, place, own, granted, some, needed)
        queue = tenant_queue(line, own, granted, self._rule.share)
        at = int(np.searchsorted(own, place))
        budget = int(limits.budget[tenant])
        if not fitting(queue, np.maximum(limits.budget, 0))[0][at]:
            enough = smallest_cap(queue, at, least=budget + 1)
            needed.append(Raise(scope=Scope.TENANT, units=enough - budget))
        return tuple(needed)

    def posture(self) -> float | None:
        """Return the smallest posture above its own that gets it chosen."""
        tiers = self._rule.policy is Policy.TIERS
        column = self._accounts.heat if tiers else self._accounts.posture
        before = float(column[self._row])
        steps = int((1.0 - before) / STEP)

        def changed(step: int) -> Accounts:
            other = before + step * STEP
            return with_posture(self._one, 0, other, rule=self._rule)

        found = self._first(changed, steps, guess=self._posture_guess(before))
        return None if found is None else before + found * STEP

    def wait(self) -> timedelta | None:
        """Return the shortest further wait that gets it chosen."""

        def changed(step: int) -> Accounts:
            return with_wait(self._one, 0, step * MINUTE)

        found = self._first(changed, _FURTHEST // MINUTE, guess=self._wait_guess())
        return None if found is None else found * MINUTE

    def _raise_depth(self, some: Limits, needed: list[Raise]) -> Offers | None:
        """Raise how many looks may be deep if they must be; return what is offered then.

        None where no number would help: whoever is stopped or left alone is not asked more often.
        """
        accounts, share = self._accounts, self._rule.share
        tenant = int(accounts.tenant[self._row])
        offers = within_depth(accounts, some, self._offers, share=share).offers
        if offers.look[self._row] > 0:
            return offers
        if some.deep_why[tenant] in (Why.PAUSED, Why.COOLING_DOWN):
            return None
        rows = np.flatnonzero((self._offers.deeper > 0) & (accounts.tenant == tenant))
        order, queue = depth_queue(rows, accounts, self._offers, share)
        at, cap = int(np.flatnonzero(order == self._row)[0]), int(some.deep_cap[tenant])
        enough = smallest_cap(queue, at, least=cap + 1)
        needed.append(Raise(scope=Scope.TENANT_CONNECTOR, units=enough - cap, deep=True))
        some.deep_cap[tenant] = enough
        return within_depth(accounts, some, self._offers, share=share).offers

    def _raise_shared(self, line: Line, place: int, some: Limits, needed: list[Raise]) -> None:
        domain = int(self._accounts.domain[self._row])
        if domain < 0 or not len(some.domain_cap):
            return
        there = np.flatnonzero(self._accounts.domain[line.account] == domain)
        order, queue = shared_queue(line, there, self._accounts, self._reference)
        at = int(np.flatnonzero(order == place)[0])
        cap = int(some.domain_cap[domain])
        if not fitting(queue, some.domain_cap)[0][at]:
            enough = smallest_cap(queue, at, least=cap + 1)
            needed.append(Raise(scope=Scope.CONNECTOR, units=enough - cap))
            some.domain_cap[domain] = enough

    def _raise_connector(
        self,
        line: Line,
        place: int,
        own: Ints,
        granted: Flags,
        some: Limits,
        needed: list[Raise],
    ) -> Ints:
        """Raise the connector's cap if it must be; return who gets past their connectors then."""
        tenant = self._accounts.tenant[self._row]
        connector = self._accounts.connector[self._row]
        real = self._limits.connector_cap[tenant, connector]
        some.connector_cap[tenant, connector] = real
        rule, accounts = self._rule, self._accounts
        order, queue = connector_queue(line, own, accounts, some, rule.share)
        at = int(np.flatnonzero(order == place)[0])
        if not fitting(queue, some.connector_cap.ravel())[0][at]:
            group = queue.group == queue.group[at]
            alone = replace(
                queue,
                group=queue.group[group],
                cost=queue.cost[group],
                size=queue.size[group],
                waited=None if queue.waited is None else queue.waited[group],
            )
            enough = smallest_cap(alone, int(group[:at].sum()), least=int(real) + 1)
            needed.append(Raise(scope=Scope.TENANT_CONNECTOR, units=enough - int(real)))
            some.connector_cap[tenant, connector] = enough
        caps = some.connector_cap.ravel()
        inside, early = fitting(queue, caps)
        granted[order] = early | (caps[queue.group] == NO_CAP)
        return np.sort(order[inside])

    def _first(self, changed: Callable[[int], Accounts], most: int, *, guess: int) -> int | None:
        """Return the first of so many steps that gets it chosen, looking around a guess."""

        def chosen(step: int) -> bool:
            return self._chosen(changed(step))

        if most < 1 or not chosen(most):
            return None
        low, high, reach = 0, most, 1
        at = min(max(guess, 1), most)
        while high - low > 1:
            if chosen(at):
                high = at
                at = max(at - reach, (low + high) // 2) if low == 0 else (low + high) // 2
            else:
                low = at
                at = min(at + reach, (low + high) // 2) if high == most else (low + high) // 2
            reach *= 8
            at = min(max(at, low + 1), high - 1)
        return high

    def _chosen(self, other: Accounts) -> bool:
        """Say whether it would be chosen if it were this one."""
        one = offered(other, now=self._now, rule=self._rule)
        if one.look[0] <= 0:
            return False
        offers = Offers(
            look=_changed(self._offers.look, self._row, one.look[0]),
            deeper=_changed(self._offers.deeper, self._row, one.deeper[0]),
            alone=_changed(self._offers.alone, self._row, one.alone[0]),
            resting=self._offers.resting,
            waited=_changed(self._offers.waited, self._row, one.waited[0]),
        )
        choice = choose(
            self._accounts, self._limits, offers, share=self._rule.share, reference=self._reference
        )
        line = choice.line
        return bool(choice.chosen[(line.account == self._row) & ~line.deeper].any())

    def _posture_guess(self, before: float) -> int:
        look = float(self._offers.look[self._row])
        if look <= 0 or self._price <= 0 or self._rule.value_spread <= 1:
            return 1
        if self._rule.policy is Policy.TIERS:
            return int(min((self._price - look) / STEP, 1 / STEP)) + 1
        more = np.log(self._price / look) / (2 * np.log(self._rule.value_spread))
        return int(min(more / STEP, 1 / STEP)) + 1

    def _wait_guess(self) -> int:
        one, rule = self._one, self._rule
        age = self._now - float(one.looked[0])
        guess = days(_FURTHEST)
        if rule.share and rule.floor is not None:
            guess = days(rule.floor) - days(rule.tick) - age
        if self._price > 0 and one.value[0] > 0 and rule.policy is Policy.OPTIMAL:
            due = interval(
                one.surface, self._price * one.units / one.value, objective=rule.objective
            )
            older = days(rule.tick) / 2 + rule.signal_changes * float(one.signals[0]) * float(
                one.surface.days_between[0]
            )
            guess = min(guess, float(due[0]) - age - older)
        return int(min(max(guess, 0.0) * _MINUTES, _FURTHEST / MINUTE)) + 1


def related(row: int, accounts: Accounts, limits: Limits) -> Ints:
    """Return the rows of the account's tenant, and of everybody in a domain that it has part in.

    Where deep looks are counted, of all who belong to the same tenants as these: depth is theirs
    together.
    """
    own = accounts.tenant == accounts.tenant[row]
    if len(limits.domain_cap):
        touched = np.zeros(len(limits.domain_cap), np.bool_)
        touched[accounts.domain[own & (accounts.domain >= 0)]] = True
        touched &= limits.domain_cap < NO_CAP
        own = own | ((accounts.domain >= 0) & touched[np.maximum(accounts.domain, 0)])
        if len(limits.deep_cap):
            own = np.isin(accounts.tenant, np.unique(accounts.tenant[own]))
    return np.flatnonzero(own)


def _changed(column: Column, at: int, value: float) -> Column:
    other = np.array(column)
    other[at] = value
    return other
