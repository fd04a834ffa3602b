"""Explain why an account is looked up today, or is not: one sentence and its numbers.

The numbers are the chance that our data is out of date, the changes missed, the days between
changes, value over price, and the interval at which it is due; and that interval with half the
budget and with a tenth more. All follow from the plan's inputs; a constraint adds its own numbers.
`flips` finds what would change the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from stoker.base.types import Json
from stoker.heat.beliefs import Floats, compute_missed_changes, compute_stale_chance
from stoker.heat.heat import compute_intervals
from stoker.heat.model import BY_RANK
from stoker.pulls.columns import (
    CHOSEN_BECAUSE,
    REASONS,
    Decision,
    PlanAccounts,
    PullLimits,
    to_days,
    to_epoch_days,
)
from stoker.pulls.constraints import Constraint, find_tightest
from stoker.pulls.planner import DEEP, NOT, PullPlan, allocate_budget
from stoker.pulls.settings import Policy, PullRule
from stoker.pulls.worth import LookupOffers, compute_offers, make_offers

_HALF_BUDGET, _TENTH_MORE = 0.5, 1.1  # times the budget

_MAX_DAYS = 3650.0  # days; whatever is longer is as good as never

_AGES = np.concatenate([[0.0], np.geomspace(1 / 1440, 36_600.0, 120)])

_GRID_POINTS, _REFINEMENTS = 33, 7

_NOW, _NO_SIGNALS = np.zeros(1), np.zeros(1, np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One account's answer. Days are infinite for never, value over price where units were left."""

    why: Decision
    depth: int  # as in the plan
    age: float  # days since the last lookup
    stale_chance: float
    missed_changes: float
    days_between_changes: float
    worth_over_price: float
    due_every: float
    late: float  # days past being due; below 0: still to come
    due_every_at_half: float
    due_every_at_more: float
    price: float
    depth_refusal: Decision | None = None  # it wanted depth, and why it gets none
    constraint: Constraint | None = None  # what refused it or its depth, with the numbers behind it
    message: str = ""

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
            "withheld": self.depth_refusal.name if self.depth_refusal else None,
            "hindrance": self.constraint.as_json() if self.constraint else None,
            "sentence": self.message,
        }


def explain(
    row: int,
    accounts: PlanAccounts,
    limits: PullLimits,
    *,
    now: datetime,
    rule: PullRule,
    plan: PullPlan,
    constraints: Sequence[Constraint] = (),
    name: str = "This account",
) -> Explanation:
    """Return why an account of a plan is looked up, or is not, with the numbers."""
    one = accounts.select_rows(slice(row, row + 1))
    why, withheld = Decision(plan.why[row]), Decision(plan.depth_refusal[row]) or None
    if withheld and plan.depth[row] != NOT:
        one = replace(one, deep_value=np.zeros(1))  # what it offered was a lookup without depth
    moment = to_epoch_days(now)
    age = max(moment - float(one.looked[0]), 0.0)
    price = plan.price if limits.budget > 0 else math.inf  # with no money none is worth it
    half, more = price, price
    if rule.policy is Policy.OPTIMAL:
        offers = make_offers(accounts, now=moment, rule=rule)
        half, more = (
            _compute_price_at(times, accounts, limits, offers, share=rule.share, price=plan.price)
            for times in (_HALF_BUDGET, _TENTH_MORE)
        )
    every = _compute_interval(one, price, rule)
    late, score = age - every, float(plan.score[row])
    if rule.policy is Policy.OPTIMAL:
        score = float(_compute_offers_at_ages(one, np.zeros(1), moment, rule)[0])
        late = compute_lateness(one, price, moment, rule)
    explanation = Explanation(
        why=why,
        depth=int(plan.depth[row]),
        age=age,
        stale_chance=float(compute_stale_chance(one.surface, age)[0]),
        missed_changes=float(compute_missed_changes(one.surface, age)[0]),
        days_between_changes=float(one.surface.days_between[0]),
        worth_over_price=score / price if price > 0 else math.inf,
        due_every=every,
        late=late,
        due_every_at_half=_compute_interval(one, half, rule),
        due_every_at_more=_compute_interval(one, more, rule),
        price=price,
        depth_refusal=withheld,
        constraint=_find_constraint(constraints, why, withheld),
    )
    wanted = 0
    if withheld and limits.deep_cap is not None:
        wanted = limits.deep_cap + int((plan.depth_refusal != Decision.FREE).sum())
    return replace(explanation, message=_format_explanation(explanation, one, rule, name, wanted))


def _compute_price_at(
    times: float,
    accounts: PlanAccounts,
    limits: PullLimits,
    offers: LookupOffers,
    *,
    share: int,
    price: float,
) -> float:
    """Return the price with so many times the budget; now it is `price`."""
    budget = int(max(limits.budget, 0) * times)
    if budget == 0:
        return math.inf
    found = allocate_budget(accounts, replace(limits, budget=budget), offers, share=share).price
    return max(found, price) if times < 1 else min(found, price)


def _compute_interval(one: PlanAccounts, price: float, rule: PullRule) -> float:
    """Return the lookup interval at a price, with all levels as old as the last lookup."""
    if rule.policy is Policy.TIERS:
        return float(compute_intervals(one.tier, one.heat, one.quiet, rule=rule.tiers)[0])
    fresh = replace(one, looked=_NOW, deep_looked=_NOW, known=_NOW, signals=_NO_SIGNALS)
    reached = _find_first_age(
        lambda ages: _compute_offers_at_ages(fresh, ages, 0.0, rule), price, _AGES
    )
    return max(reached + to_days(rule.tick) / 2, to_days(rule.tick))


def compute_lateness(one: PlanAccounts, price: float, now: float, rule: PullRule) -> float:
    """Return for how many days it has been worth the price; below 0: for how many it is not."""
    offered_now = float(_compute_offers_at_ages(one, np.zeros(1), now, rule)[0])
    if offered_now < price:
        return -_find_first_age(
            lambda more: _compute_offers_at_ages(one, more, now, rule), price, _AGES
        )
    age = now - float(one.looked[0])
    if not 0.0 < age < math.inf:
        return max(age, 0.0)
    # The same backwards: how much younger it would have to be.
    ages = age * np.linspace(0.0, 1.0, len(_AGES))
    return age - _find_first_age(
        lambda young: _compute_offers_at_ages(one, young - age, now, rule), price, ages
    )


def _compute_offers_at_ages(one: PlanAccounts, older: Floats, now: float, rule: PullRule) -> Floats:
    """Return what a lookup of the account would offer per unit, were it older by so many days."""
    many = one.select_rows(np.zeros(len(older), np.int64)).make_older(older)
    return compute_offers(many, *many.compute_ages(now), rule=rule)[0]


def _find_first_age(offering: Callable[[Floats], Floats], price: float, ages: Floats) -> float:
    """Return the first of these rising ages at which as much is offered, between them too."""
    for _ in range(_REFINEMENTS):
        there = np.flatnonzero(offering(ages) >= price)
        if not len(there):
            return math.inf
        if there[0] == 0:
            return float(ages[0])
        ages = np.linspace(ages[there[0] - 1], ages[there[0]], _GRID_POINTS)
    return float(ages[-1])


def _find_constraint(
    constraints: Sequence[Constraint], why: Decision, withheld: Decision | None
) -> Constraint | None:
    """Return what refused an account, or the depth it wanted; None where nothing stood there."""
    if withheld and why in (*CHOSEN_BECAUSE, withheld):
        return find_tightest(constraints)
    about_all = (each for each in constraints if each.looks is None and each.why is why)
    return next(about_all, None)


def _format_explanation(
    answer: Explanation, one: PlanAccounts, rule: PullRule, name: str, wanted: int
) -> str:
    known = f"{name}: never researched"
    if math.isfinite(answer.age):
        known = (
            f"{name}: researched {_format_days(answer.age)} ago, changes about every "
            f"{_format_days(answer.days_between_changes)}, {answer.stale_chance:.0%} likely stale"
        )
    if answer.why in CHOSEN_BECAUSE:
        depth = "deep" if answer.depth == DEEP else "shallow"
        due = rule.policy is Policy.TIERS and answer.why is not Decision.FLOOR
        verdict = f"Selected, {depth}: {'due by its tier' if due else CHOSEN_BECAUSE[answer.why]}"
    else:
        verdict = f"Not selected: {_format_refusal(answer.why, answer.constraint, wanted)}"
    parts = [known, verdict]
    if answer.depth_refusal and answer.depth != NOT:
        parts.append(
            f"Not deep: {_format_refusal(answer.depth_refusal, answer.constraint, wanted)}"
        )
    if rule.policy is Policy.TIERS:
        tier = BY_RANK[int(one.tier[0])]
        parts.append(
            f"{tier}, heat {float(one.heat[0]):.2f}: due every {_format_days(answer.due_every)}"
        )
    elif 0 < answer.price < math.inf:
        parts.append(_format_worth(answer))
        parts.append(f"With half the budget: every {_format_days(answer.due_every_at_half)}")
    elif answer.depth != NOT:
        parts.append("There was budget for all accounts")
    return ". ".join(parts) + "."


def _format_refusal(why: Decision, constraint: Constraint | None, wanted: int) -> str:
    sentence = REASONS[why].message
    if constraint is None:
        return sentence
    of_many = f"; {wanted:,} accounts needed it" if wanted and constraint.needed else ""
    return f"{sentence} ({constraint.message}{of_many})"


def _format_worth(answer: Explanation) -> str:
    when = (
        f"{_format_days(answer.late)} late"
        if answer.late >= 0
        else f"due in {_format_days(-answer.late)}"
    )
    times = (
        f"{answer.worth_over_price:.2g}" if answer.worth_over_price >= 0.01 else "less than 0.01"
    )
    over = f"Its value is {times} × the cutoff"
    if answer.due_every >= _MAX_DAYS:
        return f"{over}; not due at that cutoff"
    return f"{over}; due every {_format_days(answer.due_every)}, {when}"


def _format_days(number: float) -> str:
    if number >= _MAX_DAYS:
        return "10 years or more"
    if number >= 1:
        return f"{number:.1f} days"
    return f"{number * 24:.1f} hours"
