"""Find the smallest change that would have had an account looked up: units, posture or time.

The search uses the very functions that refused the account, so a stated change works and a smaller
one on the same axis does not: exactly for units, to a thousandth for posture, to a minute for time.
Everything else stays the same, including the prices that measured offers for shared caps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from stoker.budgets.caps import Scope
from stoker.pulls.capacity import NO_CAP, Flags, Ints, fill_caps, find_smallest_cap
from stoker.pulls.columns import (
    UNREADABLE,
    Column,
    Decision,
    PlanAccounts,
    Policy,
    PullLimits,
    PullRule,
    compute_posture_factor,
    to_days,
    to_epoch_days,
)
from stoker.pulls.offers import LookupOffers, apply_deep_quota, build_depth_queue, make_offers
from stoker.pulls.planner import NOT, PullPlan
from stoker.pulls.selection import (
    Ranking,
    allocate_budget,
    build_connector_queue,
    build_shared_queue,
    build_tenant_queue,
    find_shared_fit,
    rank_candidates,
)
from stoker.pulls.worth import compute_interval

STEP = 0.001  # of posture, or of heat where the table decides

MINUTE = timedelta(minutes=1)

_MAX_WAIT = timedelta(days=3660)

_DAY = timedelta(days=1)

_MINUTES_PER_DAY = _DAY / MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class CapIncrease:
    """A cap that would have to allow so many units more, or so many deep lookups."""

    scope: Scope
    units: int
    deep: bool = False  # deep lookups: of those whom only deep lookups ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """What would have had an account looked up, each change alone; None where none does."""

    raises: tuple[CapIncrease, ...] | None = None
    posture: float | None = None  # in place of what it is; heat, where the table decides
    by_heat: bool = False
    wait: timedelta | None = None  # had it not been looked up for so much longer

    @property
    def message(self) -> str:
        """Say it for people."""
        ways = []
        if self.raises is not None:
            ways.append(" and ".join(map(_format_increase, self.raises)))
        if self.posture is not None:
            ways.append(f"a {'heat' if self.by_heat else 'posture'} of {self.posture:.3f}")
        if self.wait is not None:
            ways.append(f"{format_span(self.wait)} more of waiting")
        if not ways:
            return "No change of units, posture or time would have had it looked at."
        return f"It would be looked at with {', or '.join(ways)}."


_SCOPE_TEXTS = {
    Scope.TENANT: "of the tenant's day",
    Scope.TENANT_CONNECTOR: "of the connector's day",
    Scope.CONNECTOR: "of what tenants share",
}


def _format_increase(each: CapIncrease) -> str:
    many = "s" if each.units > 1 else ""
    if each.deep:
        return f"room for {each.units} more deep look{many}"
    return f"{each.units} more unit{many} {_SCOPE_TEXTS[each.scope]}"


def find_counterfactual(
    row: int,
    accounts: PlanAccounts,
    limits: PullLimits,
    *,
    now: datetime,
    rule: PullRule,
    plan: PullPlan,
) -> Counterfactual:
    """Return the smallest changes that get an account of a plan chosen that was not."""
    chances = _FlipSearch(row, accounts, limits, now=to_epoch_days(now), rule=rule, plan=plan)
    if plan.depth[row] != NOT or chances.hopeless:
        return Counterfactual()
    return Counterfactual(
        raises=chances.find_increases(),
        posture=chances.find_posture(),
        by_heat=rule.policy is Policy.TIERS,
        wait=chances.find_wait(),
    )


def replace_posture(
    accounts: PlanAccounts, row: int, posture: float, *, rule: PullRule
) -> PlanAccounts:
    """Return the accounts with one of another posture, and what that makes of its value.

    Its tier stays. Under the table of tiers it is the heat that is another.
    """
    if rule.policy is Policy.TIERS:
        return replace(accounts, heat=_replace_value(accounts.heat, row, posture))
    before = compute_posture_factor(accounts.posture[row], rule=rule)
    times = float(compute_posture_factor(np.array(posture), rule=rule) / before)
    return replace(
        accounts,
        posture=_replace_value(accounts.posture, row, posture),
        value=_replace_value(accounts.value, row, accounts.value[row] * times),
        deep_value=_replace_value(accounts.deep_value, row, accounts.deep_value[row] * times),
    )


def add_wait(accounts: PlanAccounts, row: int, wait: timedelta) -> PlanAccounts:
    """Return the accounts with one last looked up so much longer ago."""
    return replace(
        accounts,
        looked=_replace_value(accounts.looked, row, accounts.looked[row] - wait / _DAY),
        deep_looked=_replace_value(
            accounts.deep_looked, row, accounts.deep_looked[row] - wait / _DAY
        ),
    )


def format_span(span: timedelta) -> str:
    """Return a span in days, hours and whole minutes."""
    minutes = -(-span // MINUTE)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 m"


class _FlipSearch:
    """One account among all that compete with it for the same caps."""

    def __init__(
        self,
        row: int,
        accounts: PlanAccounts,
        limits: PullLimits,
        *,
        now: float,
        rule: PullRule,
        plan: PullPlan,
    ) -> None:
        self.hopeless = (
            accounts.barred[row] != Decision.FREE
            or limits.budget[accounts.tenant[row]] == UNREADABLE
        )
        rows = list_competitors(row, accounts, limits)
        self._accounts = accounts.select_rows(rows)
        self._row = int(np.searchsorted(rows, row))
        self._one = accounts.select_rows(slice(row, row + 1))
        self._limits, self._now, self._rule = limits, now, rule
        self._offers = make_offers(self._accounts, now=now, rule=rule)
        self._reference = plan.reference
        self._price = float(plan.price[accounts.tenant[row]])

    def find_increases(self) -> tuple[CapIncrease, ...] | None:
        """Return by how much caps would have to be raised, one after the other as they refuse."""
        if self._offers.look[self._row] <= 0:
            return None
        # Who has no units at all is not in line; with any, all of its accounts are.
        accounts, limits = self._accounts, self._limits
        tenant, connector = accounts.tenant[self._row], accounts.connector[self._row]
        some = replace(
            limits,
            budget=_replace_value(limits.budget, tenant, max(limits.budget[tenant], 1)),
            connector_cap=limits.connector_cap.copy(),
            domain_cap=limits.domain_cap.copy(),
            deep_cap=limits.deep_cap.copy(),
        )
        needed: list[CapIncrease] = []
        offers = self._raise_depth(some, needed)
        if offers is None:
            return None
        if some.connector_cap.shape[1]:
            cap = some.connector_cap[tenant, connector]
            some.connector_cap[tenant, connector] = max(cap, 1)
        line = rank_candidates(accounts, some, offers)
        place = int(np.flatnonzero((line.account == self._row) & ~line.deeper)[0])
        self._raise_shared(line, place, some, needed)
        shared = find_shared_fit(line, accounts, some, self._reference)
        own = np.flatnonzero(shared & (line.tenant == tenant))
        granted = np.ones(len(line), np.bool_)
        if limits.connector_cap.shape[1]:
            own = self._raise_connector(line, place, own, granted, some, needed)
        queue = build_tenant_queue(line, own, granted, self._rule.share)
        at = int(np.searchsorted(own, place))
        budget = int(limits.budget[tenant])
        if not fill_caps(queue, np.maximum(limits.budget, 0))[0][at]:
            enough = find_smallest_cap(queue, at, least=budget + 1)
            needed.append(CapIncrease(scope=Scope.TENANT, units=enough - budget))
        return tuple(needed)

    def find_posture(self) -> float | None:
        """Return the smallest posture above its own that gets it chosen."""
        tiers = self._rule.policy is Policy.TIERS
        column = self._accounts.heat if tiers else self._accounts.posture
        before = float(column[self._row])
        steps = int((1.0 - before) / STEP)

        def changed(step: int) -> PlanAccounts:
            other = before + step * STEP
            return replace_posture(self._one, 0, other, rule=self._rule)

        step = self._find_first_step(changed, steps, guess=self._guess_posture(before))
        return None if step is None else before + step * STEP

    def find_wait(self) -> timedelta | None:
        """Return the shortest further wait that gets it chosen."""

        def changed(step: int) -> PlanAccounts:
            return add_wait(self._one, 0, step * MINUTE)

        step = self._find_first_step(changed, _MAX_WAIT // MINUTE, guess=self._guess_wait())
        return None if step is None else step * MINUTE

    def _raise_depth(self, some: PullLimits, needed: list[CapIncrease]) -> LookupOffers | None:
        """Raise the number of deep lookups if necessary; return the offers then.

        None where no number helps: a vendor that is stopped or backing off is not called more
        often.
        """
        accounts, share = self._accounts, self._rule.share
        tenant = int(accounts.tenant[self._row])
        offers = apply_deep_quota(accounts, some, self._offers, share=share).offers
        if offers.look[self._row] > 0:
            return offers
        if some.deep_why[tenant] in (Decision.PAUSED, Decision.COOLING_DOWN):
            return None
        rows = np.flatnonzero((self._offers.deeper > 0) & (accounts.tenant == tenant))
        order, queue = build_depth_queue(rows, accounts, self._offers, share)
        at, cap = int(np.flatnonzero(order == self._row)[0]), int(some.deep_cap[tenant])
        enough = find_smallest_cap(queue, at, least=cap + 1)
        needed.append(CapIncrease(scope=Scope.TENANT_CONNECTOR, units=enough - cap, deep=True))
        some.deep_cap[tenant] = enough
        return apply_deep_quota(accounts, some, self._offers, share=share).offers

    def _raise_shared(
        self, line: Ranking, place: int, some: PullLimits, needed: list[CapIncrease]
    ) -> None:
        domain = int(self._accounts.domain[self._row])
        if domain < 0 or not len(some.domain_cap):
            return
        there = np.flatnonzero(self._accounts.domain[line.account] == domain)
        order, queue = build_shared_queue(line, there, self._accounts, self._reference)
        at = int(np.flatnonzero(order == place)[0])
        cap = int(some.domain_cap[domain])
        if not fill_caps(queue, some.domain_cap)[0][at]:
            enough = find_smallest_cap(queue, at, least=cap + 1)
            needed.append(CapIncrease(scope=Scope.CONNECTOR, units=enough - cap))
            some.domain_cap[domain] = enough

    def _raise_connector(
        self,
        line: Ranking,
        place: int,
        own: Ints,
        granted: Flags,
        some: PullLimits,
        needed: list[CapIncrease],
    ) -> Ints:
        """Raise the connector's cap if it must be; return who gets past their connectors then."""
        tenant = self._accounts.tenant[self._row]
        connector = self._accounts.connector[self._row]
        real = self._limits.connector_cap[tenant, connector]
        some.connector_cap[tenant, connector] = real
        rule, accounts = self._rule, self._accounts
        order, queue = build_connector_queue(line, own, accounts, some, rule.share)
        at = int(np.flatnonzero(order == place)[0])
        if not fill_caps(queue, some.connector_cap.ravel())[0][at]:
            group = queue.group == queue.group[at]
            alone = replace(
                queue,
                group=queue.group[group],
                cost=queue.cost[group],
                size=queue.size[group],
                waited=None if queue.waited is None else queue.waited[group],
            )
            enough = find_smallest_cap(alone, int(group[:at].sum()), least=int(real) + 1)
            needed.append(CapIncrease(scope=Scope.TENANT_CONNECTOR, units=enough - int(real)))
            some.connector_cap[tenant, connector] = enough
        caps = some.connector_cap.ravel()
        inside, early = fill_caps(queue, caps)
        granted[order] = early | (caps[queue.group] == NO_CAP)
        return np.sort(order[inside])

    def _find_first_step(
        self, changed: Callable[[int], PlanAccounts], most: int, *, guess: int
    ) -> int | None:
        """Return the first of so many steps that gets it chosen, looking around a guess."""

        def chosen(step: int) -> bool:
            return self._is_chosen(changed(step))

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

    def _is_chosen(self, other: PlanAccounts) -> bool:
        """Say whether it would be chosen if it were this one."""
        one = make_offers(other, now=self._now, rule=self._rule)
        if one.look[0] <= 0:
            return False
        offers = LookupOffers(
            look=_replace_value(self._offers.look, self._row, one.look[0]),
            deeper=_replace_value(self._offers.deeper, self._row, one.deeper[0]),
            shallow_only=_replace_value(self._offers.shallow_only, self._row, one.shallow_only[0]),
            recent=self._offers.recent,
            waited=_replace_value(self._offers.waited, self._row, one.waited[0]),
        )
        choice = allocate_budget(
            self._accounts, self._limits, offers, share=self._rule.share, reference=self._reference
        )
        line = choice.ranking
        return bool(choice.chosen[(line.account == self._row) & ~line.deeper].any())

    def _guess_posture(self, before: float) -> int:
        look = float(self._offers.look[self._row])
        if look <= 0 or self._price <= 0 or self._rule.value_spread <= 1:
            return 1
        if self._rule.policy is Policy.TIERS:
            return int(min((self._price - look) / STEP, 1 / STEP)) + 1
        more = np.log(self._price / look) / (2 * np.log(self._rule.value_spread))
        return int(min(more / STEP, 1 / STEP)) + 1

    def _guess_wait(self) -> int:
        one, rule = self._one, self._rule
        age = self._now - float(one.looked[0])
        guess = to_days(_MAX_WAIT)
        if rule.share and rule.floor is not None:
            guess = to_days(rule.floor) - to_days(rule.tick) - age
        if self._price > 0 and one.value[0] > 0 and rule.policy is Policy.OPTIMAL:
            due = compute_interval(
                one.surface, self._price * one.units / one.value, objective=rule.objective
            )
            older = to_days(rule.tick) / 2 + rule.signal_changes * float(one.signals[0]) * float(
                one.surface.days_between[0]
            )
            guess = min(guess, float(due[0]) - age - older)
        return int(min(max(guess, 0.0) * _MINUTES_PER_DAY, _MAX_WAIT / MINUTE)) + 1


def list_competitors(row: int, accounts: PlanAccounts, limits: PullLimits) -> Ints:
    """Return the rows of the account's tenant, and of every account in a domain it shares.

    Where deep lookups are counted, of all accounts of these tenants, since they share that cap.
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


def _replace_value(column: Column, at: int, value: float) -> Column:
    other = np.array(column)
    other[at] = value
    return other
