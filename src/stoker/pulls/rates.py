"""Compute how often each account should be looked up in the long run, and what a budget buys.

At the best rates the last call spent on every account buys the same: its price. The price at which
lookups cost exactly the budget is found by Newton's method on logarithms inside a bracket, and
represented by its square root, which rates are proportional to. Every plan carries Lagrange's
bound: what its price makes the best of, less what is left unspent at that price. It holds for any
price, so a plan proves its own gap, however its price was found.

The best spacing of lookups at a price follows from y = price x cost x changes / value alone, with x
the changes expected between two lookups. It is read from tables, because a plan needs millions of
them several times: of u / x by u = sqrt(y), which is smooth where accounts are. The error is a few
parts in ten million at worst, at an optimum that is flat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from stoker.base.errors import ConfigError
from stoker.heat.beliefs import Floats, validate_column
from stoker.pulls.columns import NO_CAP, Decision, PlanAccounts, PullLimits, to_days
from stoker.pulls.planner import plan_pulls
from stoker.pulls.settings import Objective, PullRule
from stoker.pulls.worth import compute_stale_share

_MIN_NUMBER, _MAX_NUMBER = 1e-30, 1e30  # what is less is nothing, what is more is a mistake
_MIN_LOOKUP_RATE = 1e-200  # lookups a day
_CHUNK_ROWS = 32_768  # accounts at a time: what is worked on fits a processor's cache

_MAX_ROOT, _MIN_ROOT = 1e100, 1e-100  # roots of prices: nothing is spent; everything there is
_ROOT_TOLERANCE = 1e-7  # of a budget: so little may stay unspent
_ROOT_EPSILON = 4e-16  # roots this close have no float to speak of between them
_SUM_TOLERANCE = 1e-12  # of a budget: more than sums differ by when their order does
_BOUND_ROUNDING = 1e-8  # of penalties, and of spending at its price: tables are off by less
_MAX_STEPS = 200
_NEWTON_STEPS = 8  # Newton alone is nearly always there by then
_MAX_LOG_STEP = 4.0  # of a root's logarithm

_CELLS = 16_384  # of the tables of spacings
_SERIES_LIMIT = 6.0  # for u, and for sqrt(x): from here on e^-x is nothing
_EDGE = 0.995  # from here to 1 freshness bends too much for a table
_MAX_LOST = 1.0 - 5e-10  # from here to 1 no float tells the best rates apart: they fall in a line
_EULER = 0.5772156649015329


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RateProblem:
    """Columns of accounts, and what may be spent on them in calls a day.

    Raises ConfigError for wrong numbers or lengths.
    """

    value: Floats
    changes: Floats  # a day
    cost: Floats  # calls for one lookup
    budget: float
    rate_max: float = 1.0  # lookups a day

    def __post_init__(self) -> None:
        value = _validate_numbers(self.value, what="an account's value")
        changes = _validate_numbers(self.changes, what="a rate of changes")
        cost = _validate_numbers(self.cost, what="the cost of a lookup")
        if value.ndim != 1 or value.shape != changes.shape or value.shape != cost.shape:
            raise ConfigError("values, rates of changes and costs are columns of equal length")
        if cost.size and cost.min() == 0.0:
            raise ConfigError("a lookup costs something; give it a cost of at least 1 call")
        for name, column in (("value", value), ("changes", changes), ("cost", cost)):
            object.__setattr__(self, name, column)
        _validate_numbers(self.rate_max, what="a highest rate")
        budget = float(validate_column(self.budget, what="a budget", most=np.inf))
        object.__setattr__(self, "budget", budget if budget >= _MIN_NUMBER else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatePlan:
    """How often to look up each account, the cost, the penalty left, and the bound.

    A price is how much less penalty one more call a day would leave: 0 where the budget exceeds all
    useful lookups, infinite where nothing may be spent.
    """

    rate: Floats  # lookups a day, by account
    price: float
    spend: float  # calls a day
    penalty: float  # value times the penalty of copies, averaged over time
    bound: float  # no rates within the budget leave less

    @property
    def gap(self) -> float:
        """Return the share of the penalty that a better plan could avoid, at most."""
        return max(self.penalty - self.bound, 0.0) / self.penalty if self.penalty > 0.0 else 0.0


def compute_rate_plan(
    problem: RateProblem,
    *,
    objective: Objective = Objective.HARMONIC,
    start_price: float | None = None,
) -> RatePlan:
    """Return the rates that leave the least penalty within the budget, which is never exceeded.

    `start_price` is the price of an earlier plan: it saves time and moves nothing by more than the
    plan's gap.
    """
    spending = build_spending(problem, get_spacing(objective))
    return build_rate_plan(problem, spending, _find_root(spending, problem.budget, start_price))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spending:
    """Columns of accounts: what is spent on them, in calls a day, at which price."""

    pace: Floats  # sqrt(cost x changes / value)
    scale: Floats  # sqrt(cost x changes x value)
    most: Floats  # calls a day, at the highest rate
    spacing: LookupSpacing

    def iterate_chunks(self) -> Iterator[slice]:
        for start in range(0, len(self.pace), _CHUNK_ROWS):
            yield slice(start, start + _CHUNK_ROWS)

    def compute(self, root: float, part: slice) -> tuple[Floats, Floats]:
        """Return what is spent at a price, and how fast that falls with the root's logarithm."""
        scale, pace, most = self.scale[part], self.pace[part], self.most[part]
        looks, slope = self.spacing.compute_frequency(pace * root)
        spent = scale * (looks / root)
        falls = (spent - scale * (pace * slope)) * ((spent > 0.0) & (spent < most))
        return np.minimum(np.maximum(spent, 0.0), most), falls


def build_spending(problem: RateProblem, spacing: LookupSpacing) -> Spending:
    heft = problem.cost * problem.changes
    return Spending(
        pace=np.sqrt(heft / np.maximum(problem.value, _MIN_NUMBER)),
        scale=np.sqrt(heft * problem.value),
        most=problem.cost * problem.rate_max,
        spacing=spacing,
    )


def build_rate_plan(problem: RateProblem, spending: Spending, root: float) -> RatePlan:
    """Return the plan at the price of this root."""
    price = np.inf if root >= 0.5 * _MAX_ROOT else root * root if root > _MIN_ROOT else 0.0
    spend = penalty = bound = 0.0
    rate = np.zeros(len(problem.value))
    for part in spending.iterate_chunks():
        spent = spending.compute(root, part)[0] if price < np.inf else rate[part]
        rate[part] = spent / problem.cost[part]
        between = problem.changes[part] / np.maximum(rate[part], _MIN_LOOKUP_RATE)
        left = problem.value[part] * spending.spacing.compute_penalty(between)
        spend += float(spent.sum())
        penalty += float(left.sum())
        paid = price * spent if price < np.inf else 0.0
        bound += float((left - _BOUND_ROUNDING * (left + paid)).sum())
    if 0.0 < price < np.inf:
        bound += price * (spend - problem.budget)  # what is left unspent, at its price
    return RatePlan(rate=rate, price=price, spend=spend, penalty=penalty, bound=bound)


def _find_root(spending: Spending, budget: float, start_price: float | None) -> float:
    """Return the root at which the budget is spent, to a ten-millionth, and never more."""
    if budget <= 0.0:
        return _MAX_ROOT
    if budget >= float((spending.most * (spending.scale > 0.0)).sum()):
        return _MIN_ROOT
    # If changes were rare, lookups would cost sqrt(1/2) of the scale over the root.
    root = np.sqrt(0.5) * float(spending.scale.sum()) / budget
    if start_price is not None and _MIN_ROOT**2 < start_price < _MAX_ROOT**2:
        root = np.sqrt(start_price)
    root = float(np.clip(root, _MIN_ROOT, _MAX_ROOT))
    low, high = _MIN_ROOT, _MAX_ROOT
    for turn in range(_MAX_STEPS):
        spent = falls = 0.0
        for part in spending.iterate_chunks():
            amounts, slopes = spending.compute(root, part)
            spent += float(amounts.sum())
            falls += float(slopes.sum())
        fits = spent <= (1.0 - _SUM_TOLERANCE) * budget
        low, high = (low, root) if fits else (root, high)
        if fits and spent >= (1.0 - _ROOT_TOLERANCE) * budget:
            break
        if high <= low * (1.0 + _ROOT_EPSILON):
            break
        root = _choose_next_root(
            root, low, high, spent=spent, falls=falls, budget=budget, turn=turn
        )
    return high


def _choose_next_root(
    root: float, low: float, high: float, *, spent: float, falls: float, budget: float, turn: int
) -> float:
    """Return Newton's next root where it is inside the bracket, and one that narrows it if not."""
    # Where one account's lookups end all at once, Newton would creep: halving does not.
    if spent > 0.0 and falls > 0.0 and (turn < _NEWTON_STEPS or turn % 2 == 0):
        # A hair under the budget, so that the last step ends on the side that fits.
        step = np.log(spent / ((1.0 - 0.5 * _ROOT_TOLERANCE) * budget)) * (spent / falls)
        newton = root * float(np.exp(np.clip(step, -_MAX_LOG_STEP, _MAX_LOG_STEP)))
        if low < newton < high:
            return newton
    if low > _MIN_ROOT and high < _MAX_ROOT:
        return float(np.sqrt(low) * np.sqrt(high))
    stride = float(np.exp((1.0 if root == low else -1.0) * 2.0 ** min(turn, 6)))
    return min(max(root * stride, _MIN_ROOT), _MAX_ROOT)


def _validate_numbers(numbers: ArrayLike, *, what: str) -> Floats:
    column = validate_column(numbers, what=what, most=_MAX_NUMBER)
    tiny = (column < _MIN_NUMBER) & (column > 0.0)
    return np.where(tiny, 0.0, column) if tiny.any() else column


@dataclass(frozen=True, slots=True)
class LookupSpacing:
    """Best spacings for one objective."""

    objective: Objective
    start: Floats  # of each cell
    rise: Floats
    per_unit: float  # cells

    def compute_frequency(self, u: Floats) -> tuple[Floats, Floats]:
        """Return u / x, and by how much it changes with u.

        An account's lookup rate at a price is sqrt(value x changes / cost / price) times this.
        """
        place = np.minimum(u * self.per_unit, float(_CELLS))
        cell = place.astype(np.intp)
        rise = self.rise[cell]
        share = self.start[cell] + (place - cell) * rise
        slope = rise * self.per_unit
        if self.objective == Objective.HARMONIC:
            far = np.flatnonzero(u >= _SERIES_LIMIT)
            if far.size:
                # x = 1 + u^2 there; divided through by u, as u^2 may be beyond all floats.
                over = 1.0 / u[far]
                share[far] = 1.0 / (u[far] + over)
                slope[far] = -(share[far] ** 2) * (1.0 - over * over)
        else:
            edge = np.flatnonzero((u > _EDGE) & (u < 1.0))
            if edge.size:
                share[edge], slope[edge] = _expand_near_one(u[edge])
        return share, slope

    def compute_penalty(self, x: Floats) -> Floats:
        """Return the penalty of a copy, averaged over time, with x changes between two lookups."""
        stale = compute_stale_share(x)
        if self.objective == Objective.FRESHNESS:
            return stale
        start, rise = _build_ein_table()
        place = np.minimum(np.sqrt(x) * (_CELLS / _SERIES_LIMIT), float(_CELLS))
        cell = place.astype(np.intp)
        ein = x * (start[cell] + (place - cell) * rise[cell])
        far = np.flatnonzero(place == _CELLS)
        ein[far] = np.log(x[far]) + _EULER
        return ein - stale


@lru_cache
def get_spacing(objective: Objective) -> LookupSpacing:
    """Return the best spacings for an objective."""
    end = _SERIES_LIMIT if objective == Objective.HARMONIC else 1.0
    u = np.linspace(0.0, end, _CELLS + 1)
    share = np.full(u.shape, np.sqrt(0.5))
    if objective == Objective.HARMONIC:
        share[1:] = u[1:] / _solve_harmonic(u[1:] * u[1:])
    else:
        share[1:-1] = u[1:-1] / _solve_freshness(-np.log1p(-u[1:-1] * u[1:-1]))
        share[-1] = 0.0
    return LookupSpacing(objective, share, np.append(np.diff(share), 0.0), _CELLS / end)


def _solve_harmonic(y: Floats) -> Floats:
    # x - 1 + e^-x = y. Convex, and from above: Newton only ever comes down to it.
    x = y + np.sqrt(2.0 * y)
    for _ in range(8):
        x = x - (x * compute_stale_share(x) - y) / -np.expm1(-x)
    return x


def _solve_freshness(lost: Floats) -> Floats:
    # e^-x (1 + x) = e^-lost, that is x - log(1 + x) = lost; convex too, and from above.
    x = lost + np.sqrt(2.0 * lost)
    for _ in range(8):
        x = x - (x - np.log1p(x) - lost) * (1.0 + x) / x
    return x


def _expand_near_one(u: Floats) -> tuple[Floats, Floats]:
    short = np.minimum(u, _MAX_LOST)
    left = (1.0 - short) * (1.0 + short)
    x = _solve_freshness(-np.log(left))
    share = short / x
    # -dlog(rate)/dlog(price) is y (1+x) / ((1-y) x^2), and the rate goes with share / sqrt(price).
    slope = 1.0 / x - 2.0 * share * short * (1.0 + x) / (left * x * x)
    line = u > _MAX_LOST
    ramp = share / (1.0 - _MAX_LOST)
    return np.where(line, ramp * (1.0 - u), share), np.where(line, -ramp, slope)


@lru_cache
def _build_ein_table() -> tuple[Floats, Floats]:
    # Ein(x) = integral of (1 - e^-s) / s, by v = sqrt(x): three points of Gauss in each cell.
    edges = np.linspace(0.0, _SERIES_LIMIT, _CELLS + 1)
    half = 0.5 * _SERIES_LIMIT / _CELLS
    total = np.zeros(_CELLS)
    for point, weight in ((-np.sqrt(0.6), 5 / 9), (0.0, 8 / 9), (np.sqrt(0.6), 5 / 9)):
        v = edges[:-1] + half * (1.0 + point)
        total += weight * -np.expm1(-v * v) / v
    ein = np.cumsum(2.0 * half * total)
    share = np.append(1.0, ein / edges[1:] ** 2)
    return share, np.append(np.diff(share), 0.0)


TIMES = (0.25, 0.5, 0.75, 1.0, 1.1, 1.5, 2.0, 3.0, 4.0)

_MIN_RATE = 1e-9  # lookups a day; whatever is rarer is as good as never


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPoint:
    """What so many times the budget buys.

    Lookups are those of one plan now. Freshness, price and interval are the steady state of the
    best plan, if today's estimates are right.
    """

    times: float
    units: int  # a day
    looks: int  # of one plan now that may spend them all
    freshness: float  # share of time up to date, by value
    price: float  # of a unit, in the long run; 0: there is more money than lookups
    every_days: float  # days between lookups of half of all accounts, or fewer; infinite for never
    gap: float  # no rates of lookups leave this share less


def iterate_budget_points(
    accounts: PlanAccounts,
    budget: int,
    *,
    now: datetime,
    rule: PullRule,
    times: Sequence[float] = TIMES,
) -> Iterator[BudgetPoint]:
    """Yield what each multiple of a budget of units a day buys, under no other cap."""
    free = int((accounts.barred == Decision.FREE).sum())
    start_price = None
    for each in times:
        units = min(int(budget * each), NO_CAP)
        today = plan_pulls(accounts, PullLimits(budget=units), now=now, rule=rule)
        problem = to_rate_problem(accounts, units, rule=rule)
        steady = compute_rate_plan(problem, objective=rule.objective, start_price=start_price)
        start_price = steady.price if 0.0 < steady.price < np.inf else None
        value = problem.value.sum()
        stale = compute_stale_share(problem.changes / np.maximum(steady.rate, _MIN_RATE))
        fresh = float((problem.value * (1.0 - stale)).sum() / value) if value > 0 else 0.0
        middle = float(np.median(steady.rate[:free])) if free else 0.0
        yield BudgetPoint(
            times=each,
            units=units,
            looks=len(today.chosen),
            price=steady.price,
            freshness=fresh,
            every_days=1.0 / middle if middle > _MIN_RATE else np.inf,
            gap=steady.gap,
        )


def to_rate_problem(accounts: PlanAccounts, budget: int, *, rule: PullRule) -> RateProblem:
    """Return the long-run problem of these accounts, with a budget of units a day.

    The deep level of an account is a row of its own, at the cost of the depth, so the bound allows
    slightly more than is possible.
    """
    free = np.flatnonzero(accounts.barred == Decision.FREE)
    more = accounts.deep_units - accounts.units
    deep = free[(accounts.deep_value[free] > 0) & (more[free] > 0)]
    between = np.concatenate(
        [accounts.surface.days_between[free], accounts.deep.days_between[deep]]
    )
    return RateProblem(
        value=np.concatenate([accounts.value[free], accounts.deep_value[deep]]),
        changes=1.0 / between,
        cost=np.concatenate([accounts.units[free], more[deep]]).astype(np.float64),
        budget=budget,
        rate_max=1.0 / to_days(rule.tick),
    )
