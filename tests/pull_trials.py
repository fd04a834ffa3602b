"""Random refusals of small plans: the change that is stated is made, and a smaller one is."""

from collections import Counter
from dataclasses import replace

import numpy as np

from pull_cases import NOW, case
from stoker.budgets.caps import Scope
from stoker.pulls.columns import NO_CAP
from stoker.pulls.flips import MINUTE, STEP, add_wait, find_counterfactual, replace_posture
from stoker.pulls.planner import NOT, plan_pulls
from stoker.pulls.settings import Policy


def apply_increases(limits, raises):
    """Return the limits with caps raised."""
    for each in raises:
        if each.deep:
            limits = replace(limits, deep_cap=limits.deep_cap + each.units)
        elif each.scope is Scope.TENANT:
            limits = replace(limits, budget=limits.budget + each.units)
        else:
            cap = min(limits.connector_cap + each.units, NO_CAP)
            limits = replace(limits, connector_cap=cap)
    return limits


def refusals(seed=0):
    """Yield random small plans with an account each that is not looked at, from a seed on."""
    while True:
        seed += 1
        policy = Policy.TIERS if seed % 4 == 0 else Policy.OPTIMAL
        deep_caps = seed % 3 == 0
        accounts, limits, rule = case(seed, most=16, policy=policy, deep_caps=deep_caps)
        plan = plan_pulls(accounts, limits, now=NOW, rule=rule)
        rows = np.flatnonzero(plan.depth == NOT)
        for row in np.random.default_rng(seed).permutation(rows)[:4].tolist():
            yield Trial(row, accounts, limits, rule, plan)


class Trial:
    """One refusal, and plans made again with something changed."""

    def __init__(self, row, accounts, limits, rule, plan):
        self.row, self.accounts, self.limits = row, accounts, limits
        self.rule, self.plan = rule, plan
        self.counterfactual = find_counterfactual(
            row, accounts, limits, now=NOW, rule=rule, plan=plan
        )

    def chosen(self, *, accounts=None, limits=None):
        again = plan_pulls(
            self.accounts if accounts is None else accounts,
            self.limits if limits is None else limits,
            now=NOW,
            rule=self.rule,
        )
        return again.depth[self.row] != NOT

    def chosen_with_raises(self, raises):
        return self.chosen(limits=apply_increases(self.limits, raises))

    def chosen_with_posture(self, posture):
        return self.chosen(
            accounts=replace_posture(self.accounts, self.row, posture, rule=self.rule)
        )

    def chosen_with_wait(self, wait):
        return self.chosen(accounts=add_wait(self.accounts, self.row, wait))


def counted(number, *, seed=0):
    """Try so many refusals that have a flip; count each axis, what fails and what less would do."""
    seen = Counter(tried=0, failed=0, smaller=0)
    for trial in refusals(seed):
        stated = trial.counterfactual
        if stated.raises is None and stated.posture is None and stated.wait is None:
            seen["without"] += 1
            continue
        seen["tried"] += 1
        if stated.raises is not None:
            seen["units"] += 1
            seen["deep looks"] += any(each.deep for each in stated.raises)
            seen["failed"] += not trial.chosen_with_raises(stated.raises)
            for nth, each in enumerate(stated.raises):
                for fewer in {each.units - 1, each.units // 2}:
                    less = list(stated.raises)
                    less[nth] = replace(each, units=fewer)
                    seen["smaller"] += trial.chosen_with_raises(tuple(less))
        if stated.posture is not None:
            seen["posture"] += 1
            seen["failed"] += not trial.chosen_with_posture(stated.posture)
            seen["smaller"] += trial.chosen_with_posture(stated.posture - STEP)
        if stated.wait is not None:
            seen["wait"] += 1
            seen["failed"] += not trial.chosen_with_wait(stated.wait)
            seen["smaller"] += trial.chosen_with_wait(stated.wait - MINUTE)
        if seen["tried"] == number:
            return seen
    return seen
