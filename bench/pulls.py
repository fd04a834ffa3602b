"""A day's pulls: how fast they are planned, in how much memory, and how near the best.

Every size is one tenant with a budget, a connector's cap, depth with a cap of its own, signals, the
floor, and a reason for every account. Time is of one process's own processor; memory is the most
that a process of its own ever held, accounts included. The baseline sorts one random number per
account and takes the first, as many as there are units: no caps, depth or reasons.

    python -m bench.pulls 10000000      one size
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from datetime import UTC, datetime

import numpy as np

from stoker.files.columns import encode_columns
from stoker.heat.beliefs import ChangeRates
from stoker.pulls.columns import PlanAccounts, PullLimits, to_epoch_days, validate_accounts
from stoker.pulls.planner import PullPlan, plan_pulls
from stoker.pulls.settings import PullRule
from stoker.pulls.store import PlanDecisions

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
TURNS = 3


def asked(number: int) -> tuple[PlanAccounts, PullLimits]:
    """Return accounts of one tenant, with caps that bind."""
    chance = np.random.default_rng(7)
    today = to_epoch_days(NOW)
    days = chance.gamma(2, 10, number) + 1
    changes = np.exp(chance.normal(np.log(0.05), 1.4, number)) * days
    value = np.exp(chance.normal(0, 1.3, number))
    accounts = validate_accounts(
        ChangeRates(changes=np.maximum(changes, 0.05), days=days),
        deep=ChangeRates(changes=np.maximum(changes / 2, 0.05), days=days),
        value=0.6 * value,
        deep_value=0.4 * value,
        looked=today - chance.exponential(8, number) - 0.6,
        deep_looked=today - chance.exponential(30, number) - 0.6,
        signals=np.where(chance.random(number) < 0.02, chance.random(number), 0),
        tier=chance.integers(0, 3, number),
        heat=chance.random(number),
        posture=chance.random(number),
    )
    return accounts, PullLimits(
        budget=number * 15 // 100, connector_cap=number * 14 // 100, deep_cap=number // 100
    )


def broken(accounts: PlanAccounts, limits: PullLimits, plan: PullPlan) -> int:
    """Return how many caps a plan exceeds."""
    units = np.where(plan.depth == 2, accounts.deep_units, accounts.units) * (plan.depth > 0)
    spent, deep = int(units.sum()), int((plan.depth == 2).sum())
    return (spent > limits.budget) + (spent > limits.connector_cap) + (deep > limits.deep_cap)


def timed(number: int) -> tuple[float, ...]:
    """Return seconds, megabytes, gap, caps exceeded, share of the cap used, kept bytes."""
    accounts, limits = asked(number)
    took = []
    for _ in range(TURNS):
        began = time.process_time()
        plan = plan_pulls(accounts, limits, now=NOW, rule=PullRule())
        took.append(time.process_time() - began)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    used = plan.spent / min(limits.budget, limits.connector_cap)
    some = slice(0, min(number, 200_000))
    decisions = PlanDecisions(
        account=[f"{nth:09d}K" for nth in range(some.stop)],
        why=plan.why[some],
        depth=plan.depth[some],
        score=plan.score[some],
        age=(to_epoch_days(NOW) - accounts.looked[some]).astype(np.float32),
    )
    per_account = sum(map(len, encode_columns(decisions.to_columns()))) / some.stop
    return min(took), most, plan.gap, broken(accounts, limits, plan), used, per_account


def baseline(number: int) -> float:
    """Return the seconds that sorting a random score takes, and taking as many as there are."""
    score = np.random.default_rng(7).random(number)
    took = []
    for _ in range(TURNS):
        began = time.process_time()
        np.argsort(-score, kind="stable")[: number * 15 // 100]
        took.append(time.process_time() - began)
    return min(took)


def alone(number: int) -> list[float]:
    """Return the figures of one size from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.pulls", "one", str(number)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(each) for each in done.stdout.split()]


def row(number: int) -> tuple[str, str, str, float]:
    """Return one line of the table."""
    took, megabytes, gap, wrong, used, per_account = alone(number)
    plain = baseline(number)
    return (
        f"a day's pulls of {number:,} accounts, all caps, depth and reasons: {wrong:.0f} caps "
        f"exceeded, {used:.1%} of the cap used, gap {gap:.2%}, {megabytes:.0f} MB, "
        f"{per_account:.1f} bytes kept an account (n={TURNS})",
        f"{took:.3f} s",
        f"{plain:.3f} s, a bare sort",
        took / plain,
    )


def main() -> list[tuple[str, str, str, float]]:
    return [row(number) for number in SIZES]


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(*timed(int(sys.argv[2])))
    else:
        for each in map(int, sys.argv[1:] or SIZES):
            print(*row(each), sep="  ")
