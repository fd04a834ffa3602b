"""Why an account is looked at today, or is not: one sentence and the five numbers behind it.

The chance that what we know is out of date, the changes missed, the days between changes, worth
over price, and how often it is due; and what half the budget, or a tenth more, would make of that.
All of them follow from what the plan was made of, and what stood in the way is told with its own
numbers. What would change the answer is in `pull_flips`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from stoker.base.reasons import Reason
from stoker.base.types import Json
from stoker.heat.beliefs import Floats, chance_changed, missed_changes
from stoker.heat.tiers import BY_RANK, intervals
from stoker.pulls.columns import Accounts, Limits, Policy, PullRule, Why, days, in_days
from stoker.pulls.constraints import Hindrance, narrowest
from stoker.pulls.flips import related
from stoker.pulls.offers import by_worth, offered
from stoker.pulls.planner import DEEP, NOT, DayPlan
from stoker.pulls.selection import choose

REASONS = {
    Why.FRESH_ENOUGH: Reason.FRESH_ENOUGH,
    Why.LOWER_VALUE: Reason.LOWER_VALUE,
    Why.CAP_TENANT_DAY: Reason.CAP_TENANT_DAY,
    Why.CAP_CONNECTOR_DAY: Reason.CAP_CONNECTOR_DAY,
    Why.CAP_SHARED_DAY: Reason.CAP_SHARED_DAY,
    Why.PAUSED: Reason.PAUSED,
    Why.COOLING_DOWN: Reason.COOLING_DOWN,
    Why.RATE_LIMIT: Reason.RATE_LIMIT,
    Why.BUDGET_UNREADABLE: Reason.BUDGET_UNREADABLE,
    Why.DUPLICATE_PULL_JOB_ID: Reason.DUPLICATE_PULL_JOB_ID,
    Why.STOPPED: Reason.STOPPED,
}

CHOSEN_BECAUSE = {
    Why.WORTH: "worth its price",
    Why.FLOOR: "it waited too long: nobody waits longer than the floor",
    Why.SIGNAL: "worth its price because of signals since the last look",
}

_LESS, _MORE = 0.5, 1.1  # times the budget

_LONG = 3650.0  # days; whatever is longer is as good as never

_AGES = np.concatenate([[0.0], np.geomspace(1 / 1440, 36_600.0, 120)])

_BETWEEN, _TURNS = 33, 7

_NOW, _SILENT = np.zeros(1), np.zeros(1, np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One account's answer. Days are infinite for never, worth over price where there was room."""

    why: Why
    depth: int  # as in the plan
    age: float  # days since the last look
    stale_chance: float
    missed_changes: float
    days_between_changes: float
    worth_over_price: float
    due_every: float
    late: float  # days past being due; below 0: still to come
    due_every_at_half: float
    due_every_at_more: float
    price: float
    withheld: Why | None = None  # it wanted depth, and why it gets none
    hindrance: Hindrance | None = None  # what refused it or its depth, with the numbers behind it
    sentence: str = ""

    @property
    def reason(self) -> Reason | None:
        """Return the code of a refusal."""
        return REASONS.get(self.why)

    def as_json(self) -> dict[str, Json]:
        """Return it as it is shown to machines: what is infinite is null."""
        numbers = {
            "age_days": self.age,
            "stale_chance": self.stale_chance,
            "missed_changes": self.missed_changes,
            "days_between_changes": self.days_between_changes,
            "worth_over_price": self.worth_over_price,
            "due_every_days": self.due_every,
            "late_days": self.late,
            "due_every_days_at_half_the_budget": self.due_every_at_half,
            "due_every_days_at_a_tenth_more": self.due_every_at_more,
            "price": self.price,
        }
        return {
            "why": self.why.name,
            "depth": ("NOT", "SHALLOW", "DEEP")[self.depth],
            **{
                name: round(number, 6) if math.isfinite(number) else None
                for name, number in numbers.items()
            },
            "withheld": self.withheld.name if self.withheld else None,
            "hindrance": self.hindrance.as_json() if self.hindrance else None,
            "sentence": self.sentence,
        }


def explain(
    row: int,
    accounts: Accounts,
    limits: Limits,
    *,
    now: datetime,
    rule: PullRule,
    plan: DayPlan,
    hindrances: Sequence[Hindrance] = (),
    name: str = "This account",
) -> Explanation:
    """Return why an account of a plan is looked at, or is not, with the numbers behind it.

    `hindrances` are what stood in the way of the tenant's looks when the plan was made.
    """
    one = accounts.rows(slice(row, row + 1))
    why, withheld = Why(plan.why[row]), Why(plan.withheld[row]) or None
    if withheld and plan.depth[row] != NOT:
        one = replace(one, deep_value=np.zeros(1))  # what it offered was a look without depth
    moment = in_days(now)
    age = max(moment - float(one.looked[0]), 0.0)
    price = float(plan.price[one.tenant[0]])
    if limits.budget[one.tenant[0]] <= 0:
        price = math.inf  # with nothing to spend no look is worth it
    half, more = price, price
    if rule.policy is Policy.OPTIMAL:
        half, more = prices_at(
            row, accounts, limits, now=now, rule=rule, plan=plan, times=(_LESS, _MORE)
        )
    every = _due_every(one, price, rule)
    late, score = age - every, float(plan.score[row])
    if rule.policy is Policy.OPTIMAL:
        score = float(_offering(one, np.zeros(1), moment, rule)[0])
        late = _late(one, price, moment, rule)
    found = Explanation(
        why=why,
        depth=int(plan.depth[row]),
        age=age,
        stale_chance=float(chance_changed(one.surface, age)[0]),
        missed_changes=float(missed_changes(one.surface, age)[0]),
        days_between_changes=float(one.surface.days_between[0]),
        worth_over_price=score / price if price > 0 else math.inf,
        due_every=every,
        late=late,
        due_every_at_half=_due_every(one, half, rule),
        due_every_at_more=_due_every(one, more, rule),
        price=price,
        withheld=withheld,
        hindrance=_in_the_way(hindrances, why, withheld),
    )
    wanted = 0
    if withheld:
        others = (accounts.tenant == one.tenant[0]) & (plan.withheld != Why.FREE)
        wanted = int(limits.deep_cap[one.tenant[0]] + others.sum())
    return replace(found, sentence=_told(found, one, rule, name, wanted))


def prices_at(
    row: int,
    accounts: Accounts,
    limits: Limits,
    *,
    now: datetime,
    rule: PullRule,
    plan: DayPlan,
    times: Sequence[float],
) -> list[float]:
    """Return the price that the account's tenant would pay with so many times its budget.

    With nothing to spend no look is worth it. Fewer units never make one cheaper, though with very
    few the largest looks may drop out of the line and leave a lower one at its end.
    """
    some = accounts.rows(related(row, accounts, limits))
    offers = offered(some, now=in_days(now), rule=rule)
    tenant = int(accounts.tenant[row])
    prices = []
    for each in times:
        budget = limits.budget.copy()
        budget[tenant] = int(max(budget[tenant], 0) * each)
        other = replace(limits, budget=budget)
        if budget[tenant] == 0:
            prices.append(math.inf)
            continue
        choice = choose(some, other, offers, share=rule.share, reference=plan.reference)
        found, now_paid = float(choice.price[tenant]), float(plan.price[tenant])
        prices.append(max(found, now_paid) if each < 1 else min(found, now_paid))
    return prices


def _due_every(one: Accounts, price: float, rule: PullRule) -> float:
    """Return how often the account is looked at, all facets as old as its last look, at a price."""
    if rule.policy is Policy.TIERS:
        return float(intervals(one.tier, one.heat, one.quiet, rule=rule.tiers)[0])
    fresh = replace(one, looked=_NOW, deep_looked=_NOW, signals=_SILENT)
    reached = _first(lambda ages: _offering(fresh, ages, 0.0, rule), price, _AGES)
    return max(reached + days(rule.tick) / 2, days(rule.tick))


def _late(one: Accounts, price: float, now: float, rule: PullRule) -> float:
    """Return for how many days it has been worth the price; below 0: for how many it is not."""
    offered_now = float(_offering(one, np.zeros(1), now, rule)[0])
    if offered_now < price:
        return -_first(lambda more: _offering(one, more, now, rule), price, _AGES)
    age = now - float(one.looked[0])
    if not 0.0 < age < math.inf:
        return max(age, 0.0)
    # The same backwards: how much younger it would have to be.
    ages = age * np.linspace(0.0, 1.0, len(_AGES))
    return age - _first(lambda young: _offering(one, young - age, now, rule), price, ages)


def _offering(one: Accounts, older: Floats, now: float, rule: PullRule) -> Floats:
    """Return what a look at the account would offer per unit, were it older by so many days."""
    many = one.rows(np.zeros(len(older), np.int64))
    many = replace(many, looked=many.looked - older, deep_looked=many.deep_looked - older)
    age = np.maximum(now - many.looked, 0.0)
    return by_worth(many, age, now=now, rule=rule)[0]


def _first(offering: Callable[[Floats], Floats], price: float, ages: Floats) -> float:
    """Return the first of these rising ages at which as much is offered, between them too."""
    for _ in range(_TURNS):
        there = np.flatnonzero(offering(ages) >= price)
        if not len(there):
            return math.inf
        if there[0] == 0:
            return float(ages[0])
        ages = np.linspace(ages[there[0] - 1], ages[there[0]], _BETWEEN)
    return float(ages[-1])


def _in_the_way(
    hindrances: Sequence[Hindrance], why: Why, withheld: Why | None
) -> Hindrance | None:
    """Return what refused an account, or the depth it wanted; None where nothing stood there."""
    if withheld and why in (*CHOSEN_BECAUSE, withheld):
        return narrowest(hindrances)
    about_all = (each for each in hindrances if each.looks is None and each.why is why)
    return next(about_all, None)


def _told(found: Explanation, one: Accounts, rule: PullRule, name: str, wanted: int) -> str:
    known = f"{name}: never looked at"
    if math.isfinite(found.age):
        known = (
            f"{name}: {found.stale_chance:.0%} likely out of date "
            f"(about {found.missed_changes:.1f} missed changes in {_days(found.age)}; "
            f"it changes every {_days(found.days_between_changes)})"
        )
    if found.why in CHOSEN_BECAUSE:
        depth = "deep" if found.depth == DEEP else "shallow"
        due = rule.policy is Policy.TIERS and found.why is not Why.FLOOR
        verdict = f"A {depth} look: {'due by its tier' if due else CHOSEN_BECAUSE[found.why]}"
    else:
        verdict = f"Not looked at: {_refusal(found.why, found.hindrance, wanted)}"
    parts = [known, verdict]
    if found.withheld and found.depth != NOT:
        parts.append(f"Not deep: {_refusal(found.withheld, found.hindrance, wanted)}")
    if rule.policy is Policy.TIERS:
        tier = BY_RANK[int(one.tier[0])]
        parts.append(f"{tier}, heat {float(one.heat[0]):.2f}: due every {_days(found.due_every)}")
    elif 0 < found.price < math.inf:
        parts.append(_worth(found))
        parts.append(f"With half the budget: every {_days(found.due_every_at_half)}")
    elif found.depth != NOT:
        parts.append("There were units for everybody")
    return ". ".join(parts) + "."


def _refusal(why: Why, hindrance: Hindrance | None, wanted: int) -> str:
    sentence = REASONS[why].sentence
    if hindrance is None:
        return sentence
    of_many = f", and {wanted:,} accounts wanted one" if wanted and hindrance.needed else ""
    return f"{sentence} ({hindrance.sentence}{of_many})"


def _worth(found: Explanation) -> str:
    when = f"{_days(found.late)} late" if found.late >= 0 else f"due in {_days(-found.late)}"
    times = f"{found.worth_over_price:.2g}" if found.worth_over_price >= 0.01 else "less than 0.01"
    over = f"Worth {times} × the price of its units"
    if found.due_every >= _LONG:
        return f"{over}; not due at that price"
    return f"{over}; due every {_days(found.due_every)}, {when}"


def _days(number: float) -> str:
    if number >= _LONG:
        return "ten years or more"
    if number >= 1:
        return f"{number:.1f} days"
    return f"{number * 24:.1f} hours"
