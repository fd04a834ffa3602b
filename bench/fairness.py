"""Ten tenants on one full key, one of them with ten times the demand: who gets how much, by cost.

Jain's index of what each was given: 1 is the same for everybody, 0.1 all to one of ten. The
baseline is one queue for all, first come first served, on the same arrivals.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice

from stoker.rate_limits.rate_limit import DeficitRoundRobin

TENANTS = [f"tenant{nth}" for nth in range(10)]
SKEW = 10
ROUNDS = 2_000  # in each, the greedy tenant asks ten times and the others once
COSTS = (1, 3)  # a shallow look and a deep one, in pull units

Work = tuple[str, int]


def arrivals(seed: int) -> Iterator[Work]:
    """Yield who asks for how much, in the order they come."""
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        asking = TENANTS + TENANTS[:1] * (SKEW - 1)
        chance.shuffle(asking)
        for who in asking:
            yield who, chance.choice(COSTS)


def jain(shares: Iterable[int]) -> float:
    """Return Jain's fairness index of these shares."""
    given = list(shares)
    return sum(given) ** 2 / (len(given) * sum(share**2 for share in given))


def shares(out: Iterable[Work], served: int) -> list[int]:
    """Return what each tenant was given of the first so many pieces, by cost."""
    given: Counter[str] = Counter()
    for who, cost in islice(out, served):
        given[who] += cost
    return [given[who] for who in TENANTS]


def in_turn(waiting: Iterable[Work]) -> Iterator[Work]:
    """Yield work as our round robin gives it out."""
    turns: DeficitRoundRobin[str, Work] = DeficitRoundRobin(quantum=max(COSTS))
    for work in waiting:
        turns.put(work[0], work, cost=work[1])
    while (taken := turns.take()) is not None:
        yield taken[1]


def first_come(waiting: Iterable[Work]) -> Iterator[Work]:
    """Yield work as one queue gives it out."""
    queue = deque(waiting)
    while queue:
        yield queue.popleft()


def main() -> list[tuple[str, str, str, str]]:
    served = ROUNDS * len(TENANTS) // 2  # while all of them still wait
    ours, theirs = [], []
    for seed in range(5):
        ours.append(jain(shares(in_turn(arrivals(seed)), served)))
        theirs.append(jain(shares(first_come(arrivals(seed)), served)))
    return [
        (
            f"Jain index by cost, 10 tenants, {SKEW}× skew, worst of 5 (n={served:,} each)",
            f"{min(ours):.4f}",
            f"{min(theirs):.4f}",
            f"{min(ours) / min(theirs):.2f}",
        )
    ]


if __name__ == "__main__":
    for row in main():
        print(*row, sep="  ")
