"""Rates of looks within tenants' budgets: how fast, how much memory, how near the optimum.

Time is of one process's own processor; memory is the most that a process of its own ever held,
accounts included. Beside it stands the same search done plainly: sixty halvings of every tenant's
price over whole columns, each account's spacing by four steps of Newton, and no bound at the end.

    python -m bench.rates 10000000 1000     one size, both objectives, without the plain search
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

from stoker.pulls.rate_problem import RateDemand, RateLimits
from stoker.pulls.rates import compute_rate_plan
from stoker.pulls.worth import Objective

SIZES = ((10_000, 100), (100_000, 300), (1_000_000, 1_000), (10_000_000, 1_000))
HALVINGS = 60


def asked(number: int, tenants: int) -> tuple[RateDemand, RateLimits]:
    """Return accounts that change every 20 days in the median, a few tenants having most."""
    chance = np.random.default_rng(5)
    sizes = chance.pareto(1.1, tenants) + 0.2
    tenant = np.sort(chance.choice(tenants, number, p=sizes / sizes.sum()).astype(np.int32))
    cost = np.where(chance.random(number) < 0.2, 4.0, 1.0)
    demand = RateDemand(
        value=chance.lognormal(0.0, 1.2, number),
        changes=chance.lognormal(np.log(0.05), 1.49, number),
        cost=cost,
        tenant=tenant,
        rate_min=1 / 60,
    )
    shares = chance.uniform(0.03, 0.4, tenants)
    return demand, RateLimits(budget=np.bincount(tenant, cost, tenants) * shares)


def plainly(demand: RateDemand, limits: RateLimits) -> np.ndarray:
    """Return rates by halving, harmonic."""
    count = len(limits.budget)
    low, high = np.full(count, -60.0), np.full(count, 60.0)
    rate = np.zeros(len(demand.value))
    for _ in range(HALVINGS):
        price = np.exp((low + high) / 2)[demand.tenant]
        y = price * demand.cost * demand.changes / demand.value
        x = y + np.sqrt(2 * y)
        for _ in range(4):
            x -= (x + np.expm1(-x) - y) / -np.expm1(-x)
        rate = np.clip(demand.changes / x, demand.rate_min, demand.rate_max)
        fits = np.bincount(demand.tenant, demand.cost * rate, count) <= limits.budget
        middle = (low + high) / 2
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return rate


def timed(number: int, tenants: int, objective: Objective) -> tuple[float, float, float, float]:
    """Return seconds cold and warm, the gap, and the most of any budget that was spent."""
    compute_rate_plan(
        *asked(100, 3), objective=objective
    )  # makes the tables, once in a process's life
    demand, limits = asked(number, tenants)
    began = time.process_time()
    plan = compute_rate_plan(demand, limits, objective=objective)
    cold = time.process_time()
    more = RateLimits(budget=limits.budget * 1.01)
    warm = compute_rate_plan(demand, more, objective=objective, price0=plan.price)
    took = time.process_time() - cold
    some = limits.budget > 0
    most = float((plan.spend[some] / limits.budget[some]).max())
    return cold - began, took, max(plan.gap, warm.gap), most


def alone(number: int, tenants: int, objective: str) -> list[float]:
    """Return the figures of one size from a process of its own, with its megabytes."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.rates", "one", str(number), str(tenants), objective],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(each) for each in done.stdout.split()]


def main() -> list[tuple[str, str, str, str | float]]:
    rows: list[tuple[str, str, str, str | float]] = []
    for number, tenants in SIZES:
        demand, limits = asked(number, tenants)
        began = time.process_time()
        plainly(demand, limits)
        plain = time.process_time() - began
        for objective in Objective:
            cold, warm, gap, most, megabytes = alone(number, tenants, objective)
            beside = objective == Objective.HARMONIC
            rows.append(
                (
                    f"rates of {number:,} accounts, {tenants:,} tenants, {objective}; "
                    f"gap {gap:.0e} (at most 1e-05), {most:.4%} of a budget at most, "
                    f"{megabytes:.0f} MB",
                    f"{cold:.2f} s, {warm:.2f} s warm",
                    f"{plain:.2f} s" if beside else "–",
                    plain / cold if beside else "–",
                )
            )
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        figures = timed(int(sys.argv[2]), int(sys.argv[3]), Objective(sys.argv[4]))
        print(*figures, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    elif len(sys.argv) == 3:
        for each in Objective:
            print(each, *alone(int(sys.argv[1]), int(sys.argv[2]), each))
    else:
        for row in main():
            print(*row, sep="  ")
