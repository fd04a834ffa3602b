"""Rates of looks within a budget: how fast, how much memory, how near the optimum.

Time is of one process's own processor; memory is the most that a process of its own ever held,
accounts included. Beside it stands the same search done plainly: sixty halvings of the price over
whole columns, each account's spacing by four steps of Newton, and no bound at the end.

    python -m bench.rates 10000000     one size, both objectives, without the plain search
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np

from stoker.pulls.rates import RateProblem, compute_rate_plan
from stoker.pulls.settings import Objective

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
HALVINGS = 60


def asked(number: int) -> RateProblem:
    """Return accounts of one tenant that change every 20 days in the median."""
    chance = np.random.default_rng(5)
    cost = np.where(chance.random(number) < 0.2, 4.0, 1.0)
    return RateProblem(
        value=chance.lognormal(0.0, 1.2, number),
        changes=chance.lognormal(np.log(0.05), 1.49, number),
        cost=cost,
        budget=0.15 * cost.sum(),
    )


def plainly(problem: RateProblem) -> np.ndarray:
    """Return rates by halving, harmonic."""
    low, high = -60.0, 60.0
    rate = np.zeros(len(problem.value))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        y = np.exp(middle) * problem.cost * problem.changes / problem.value
        x = y + np.sqrt(2 * y)
        for _ in range(4):
            x -= (x + np.expm1(-x) - y) / -np.expm1(-x)
        rate = np.minimum(problem.changes / x, problem.rate_max)
        fits = problem.cost @ rate <= problem.budget
        low, high = (low, middle) if fits else (middle, high)
    return rate


def timed(number: int, objective: Objective) -> tuple[float, float, float, float]:
    """Return seconds cold and warm, the gap, and the share of the budget that was spent."""
    compute_rate_plan(asked(100), objective=objective)  # makes the tables, once in a process's life
    problem = asked(number)
    began = time.process_time()
    plan = compute_rate_plan(problem, objective=objective)
    cold = time.process_time()
    more = replace(problem, budget=problem.budget * 1.01)
    warm = compute_rate_plan(more, objective=objective, start_price=plan.price)
    took = time.process_time() - cold
    return cold - began, took, max(plan.gap, warm.gap), plan.spend / problem.budget


def alone(number: int, objective: str) -> list[float]:
    """Return the figures of one size from a process of its own, with its megabytes."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.rates", "one", str(number), objective],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(each) for each in done.stdout.split()]


def main() -> list[tuple[str, str, str, str | float]]:
    rows: list[tuple[str, str, str, str | float]] = []
    for number in SIZES:
        problem = asked(number)
        began = time.process_time()
        plainly(problem)
        plain = time.process_time() - began
        for objective in Objective:
            cold, warm, gap, spent, megabytes = alone(number, objective)
            beside = objective == Objective.HARMONIC
            rows.append(
                (
                    f"rates of {number:,} accounts of one tenant, {objective}; "
                    f"gap {gap:.0e} (at most 1e-05), {spent:.4%} of the budget, "
                    f"{megabytes:.0f} MB",
                    f"{cold:.2f} s, {warm:.2f} s warm",
                    f"{plain:.2f} s" if beside else "–",
                    plain / cold if beside else "–",
                )
            )
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        figures = timed(int(sys.argv[2]), Objective(sys.argv[3]))
        print(*figures, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    elif len(sys.argv) == 2:
        for each in Objective:
            print(each, *alone(int(sys.argv[1]), each))
    else:
        for row in main():
            print(*row, sep="  ")
