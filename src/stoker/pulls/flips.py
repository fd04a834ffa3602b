"""Find the smallest change that would have had an account looked up: units, posture or time.

The search uses the very functions that refused the account, so a stated change works and a smaller
one on the same axis does not: exactly for units, to a thousandth for posture, to a minute for time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from stoker.base.formats import format_count
from stoker.budgets.caps import Scope
from stoker.pulls.columns import (
    UNREADABLE,
    Column,
    Decision,
    PlanAccounts,
    PullLimits,
    to_days,
    to_epoch_days,
)
from stoker.pulls.explain import compute_lateness
from stoker.pulls.planner import (
    NOT,
    PullPlan,
    allocate_budget,
    apply_deep_quota,
    build_budget_queue,
    build_depth_queue,
    fill_cap,
    fill_connector_cap,
    find_smallest_cap,
    rank_offers,
)
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.value import compute_guess
from stoker.pulls.worth import LookupOffers, make_offers

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
        """Return a sentence for people."""
        ways = []
        if self.raises is not None:
            ways.append("with " + " and ".join(map(_format_increase, self.raises)))
        if self.posture is not None:
            ways.append(f"with a {'heat' if self.by_heat else 'posture'} of {self.posture:.3f}")
        if self.wait is not None:
            ways.append(f"in {format_span(self.wait)}, everything else unchanged")
        if not ways:
            return "No change of units, posture or time would have selected it."
        return f"It would be selected {', or '.join(ways)}."


_SCOPE_TEXTS = {
    Scope.TENANT: "in the tenant's day cap",
    Scope.TENANT_CONNECTOR: "in the connector's day cap",
}


def _format_increase(each: CapIncrease) -> str:
    if each.deep:
        return f"room for {format_count(each.units, 'more deep lookup')}"
    return f"{format_count(each.units, 'more unit')} {_SCOPE_TEXTS[each.scope]}"


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
    barred = accounts.barred[row] != Decision.FREE
    if plan.depth[row] != NOT or barred or limits.budget == UNREADABLE:
        return Counterfactual()
    moment = to_epoch_days(now)
    search = FlipSearch(
        row=row,
        accounts=accounts,
        limits=limits,
        now=moment,
        rule=rule,
        offers=make_offers(accounts, now=moment, rule=rule),
        price=plan.price,
    )
    return Counterfactual(
        raises=find_increases(search),
        posture=find_posture(search),
        by_heat=rule.policy is Policy.TIERS,
        wait=find_wait(search),
    )


def replace_posture(
    accounts: PlanAccounts, row: int, posture: float, *, rule: PullRule
) -> PlanAccounts:
    """Return the accounts with one of another posture, and what that makes of all values.

    Under the table of tiers it is the heat that is another.
    """
    if rule.policy is Policy.TIERS:
        return replace(accounts, heat=_replace_value(accounts.heat, row, posture))
    postures = _replace_value(accounts.posture, row, posture)
    before, after = (
        compute_guess(each, spread=rule.value_spread) for each in (accounts.posture, postures)
    )
    return replace(
        accounts,
        posture=postures,
        value=accounts.value * (after / before),
        deep_value=accounts.deep_value * (after / before),
    )


def add_wait(accounts: PlanAccounts, row: int, wait: timedelta) -> PlanAccounts:
    """Return the accounts with one last looked up so much longer ago."""
    return replace(
        accounts,
        looked=_replace_value(accounts.looked, row, accounts.looked[row] - wait / _DAY),
        known=_replace_value(accounts.known, row, accounts.known[row] - wait / _DAY),
        deep_looked=_replace_value(
            accounts.deep_looked, row, accounts.deep_looked[row] - wait / _DAY
        ),
    )


def format_span(span: timedelta) -> str:
    """Return a span in days, hours and whole minutes."""
    minutes = -(-span // MINUTE)
    parts = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "m"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 m"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlipSearch:
    """One refused account among all that compete with it for the same caps."""

    row: int
    accounts: PlanAccounts
    limits: PullLimits
    now: float  # days since 1970
    rule: PullRule
    offers: LookupOffers
    price: float  # of a unit, under the plan

    @property
    def account(self) -> PlanAccounts:
        """Return the account alone."""
        return self.accounts.select_rows(slice(self.row, self.row + 1))

    def is_chosen_among(self, accounts: PlanAccounts) -> bool:
        """Say whether it would be chosen among these accounts."""
        offers = make_offers(accounts, now=self.now, rule=self.rule)
        choice = allocate_budget(accounts, self.limits, offers, share=self.rule.share)
        ranking = choice.ranking
        return bool(choice.chosen[(ranking.account == self.row) & ~ranking.deeper].any())

    def is_chosen(self, account: PlanAccounts) -> bool:
        """Say whether it would be chosen if it were this one."""
        one = make_offers(account, now=self.now, rule=self.rule)
        if one.look[0] <= 0:
            return False
        offers = replace(
            self.offers,
            look=_replace_value(self.offers.look, self.row, one.look[0]),
            deeper=_replace_value(self.offers.deeper, self.row, one.deeper[0]),
            shallow_only=_replace_value(self.offers.shallow_only, self.row, one.shallow_only[0]),
            waited=_replace_value(self.offers.waited, self.row, one.waited[0]),
        )
        choice = allocate_budget(self.accounts, self.limits, offers, share=self.rule.share)
        ranking = choice.ranking
        return bool(choice.chosen[(ranking.account == self.row) & ~ranking.deeper].any())


def find_increases(search: FlipSearch) -> tuple[CapIncrease, ...] | None:
    """Return by how much caps would have to be raised, one after the other as they refuse.

    None where no number helps: a vendor that is stopped or backing off is not called more often.
    """
    accounts, row, share = search.accounts, search.row, search.rule.share
    if search.offers.look[row] <= 0:
        return None
    increases: list[CapIncrease] = []
    # With no units at all no account is ranked; with any, all are.
    limits = replace(
        search.limits,
        budget=max(search.limits.budget, 1),
        connector_cap=max(search.limits.connector_cap, 1),
    )
    offers = apply_deep_quota(accounts, limits, search.offers, share=share).offers
    if limits.deep_cap is not None and offers.look[row] <= 0:
        if limits.deep_why in (Decision.PAUSED, Decision.COOLING_DOWN):
            return None
        order, queue = build_depth_queue(accounts, search.offers, share)
        place = int(np.flatnonzero(order == row)[0])
        enough = find_smallest_cap(queue, place, least=limits.deep_cap + 1)
        increases.append(
            CapIncrease(scope=Scope.TENANT_CONNECTOR, units=enough - limits.deep_cap, deep=True)
        )
        limits = replace(limits, deep_cap=enough)
        offers = apply_deep_quota(accounts, limits, search.offers, share=share).offers
    ranking = rank_offers(accounts, limits, offers, share=share)
    place = int(np.flatnonzero((ranking.account == row) & ~ranking.deeper)[0])
    cap, budget = search.limits.connector_cap, search.limits.budget
    if not fill_connector_cap(ranking, cap)[0][place]:
        enough = find_smallest_cap(ranking.queue, place, least=cap + 1)
        increases.append(CapIncrease(scope=Scope.TENANT_CONNECTOR, units=enough - cap))
        cap = enough
    passed, granted = fill_connector_cap(ranking, cap)
    places = np.flatnonzero(passed)
    queue = build_budget_queue(ranking, places, granted)
    at = int(np.searchsorted(places, place))
    if not fill_cap(queue, max(budget, 0))[0][at]:
        enough = find_smallest_cap(queue, at, least=budget + 1)
        increases.append(CapIncrease(scope=Scope.TENANT, units=enough - budget))
    return tuple(increases)


def find_posture(search: FlipSearch) -> float | None:
    """Return the smallest posture above its own that gets it chosen; heat under the tiers."""
    rule, account = search.rule, search.account
    tiers = rule.policy is Policy.TIERS
    before = float((account.heat if tiers else account.posture)[0])

    def is_chosen(step: int) -> bool:
        posture = before + step * STEP
        if tiers:
            return search.is_chosen(replace_posture(account, 0, posture, rule=rule))
        other = replace_posture(search.accounts, search.row, posture, rule=rule)
        return search.is_chosen_among(other)

    step = _find_first_step(
        is_chosen, int((1.0 - before) / STEP), guess=_guess_posture_steps(search)
    )
    return None if step is None else before + step * STEP


def find_wait(search: FlipSearch) -> timedelta | None:
    """Return the shortest further wait that gets it chosen."""
    account = search.account

    def is_chosen(step: int) -> bool:
        return search.is_chosen(add_wait(account, 0, step * MINUTE))

    step = _find_first_step(is_chosen, _MAX_WAIT // MINUTE, guess=_guess_wait_minutes(search))
    return None if step is None else step * MINUTE


def _find_first_step(is_chosen: Callable[[int], bool], most: int, *, guess: int) -> int | None:
    """Return the first of so many steps that gets it chosen, by bisection around a guess."""
    if most < 1 or not is_chosen(most):
        return None
    low, high, reach = 0, most, 1
    at = min(max(guess, 1), most)
    while high - low > 1:
        if is_chosen(at):
            high = at
            at = max(at - reach, (low + high) // 2) if low == 0 else (low + high) // 2
        else:
            low = at
            at = min(at + reach, (low + high) // 2) if high == most else (low + high) // 2
        reach *= 8
        at = min(max(at, low + 1), high - 1)
    return high


def _guess_posture_steps(search: FlipSearch) -> int:
    look, rule = float(search.offers.look[search.row]), search.rule
    if look <= 0 or search.price <= 0 or rule.value_spread <= 1:
        return 1
    if rule.policy is Policy.TIERS:
        return int(min((search.price - look) / STEP, 1 / STEP)) + 1
    more = np.log(search.price / look) / (2 * np.log(rule.value_spread))
    return int(min(more / STEP, 1 / STEP)) + 1


def _guess_wait_minutes(search: FlipSearch) -> int:
    one, rule = search.account, search.rule
    age = search.now - float(one.looked[0])
    guess = to_days(_MAX_WAIT)
    if rule.share and rule.floor is not None:
        guess = to_days(rule.floor) - to_days(rule.tick) - age
    if search.price > 0 and rule.policy is Policy.OPTIMAL:
        guess = min(guess, -compute_lateness(one, search.price, search.now, rule))
    return int(min(max(guess, 0.0) * _MINUTES_PER_DAY, _MAX_WAIT / MINUTE)) + 1


def _replace_value(column: Column, at: int, value: float) -> Column:
    other = np.array(column)
    other[at] = value
    return other
