"""Tonight's companies, in order, each with how deep to look and why; and how many were left out.

Never scored come first, then those without contacts, then those last seen most recently; heat
breaks ties, and the id breaks what is left, so the same candidates give the same night. Which
companies are candidates at all is `icp`'s business.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.core.companies import Standing
from stoker.core.nights import Depth, Unit
from stoker.errors import ConfigError

PLENTY = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthRule:
    """When a look is worth more than reading the company's own site, and what each depth costs."""

    hot_from: float = 0.5  # heat from which every look is deep
    deep_again_after: timedelta = timedelta(days=30)
    shallow_units: int = 1
    deep_units: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Tonight's units in order, and what became of the other candidates."""

    units: tuple[Unit, ...]
    candidates: int
    over_cap: int  # there were better ones for every place of tonight
    over_budget: int  # there was a place, but nothing left to pay for a look


def rank(standing: Standing) -> tuple[bool, bool, float, float, str]:
    """Return what candidates are ordered by; smaller is sooner."""
    seen = standing.last_seen_at.timestamp() if standing.last_seen_at else float("-inf")
    return (standing.scored, standing.contacts > 0, -seen, -standing.heat, standing.id)


def select(
    candidates: Iterable[Standing],
    *,
    cap: int,
    now: datetime,
    rule: DepthRule | None = None,
    pull_units: int = PLENTY,
) -> Selection:
    """Choose at most `cap` companies that `pull_units` can pay for, the most wanted first.

    Takes any number of candidates in memory for `cap` of them. A deep look that cannot be paid
    for becomes a shallow one, and that one, if it cannot be paid either, is left out.
    """
    if cap < 0 or pull_units < 0:
        raise ConfigError(f"a night has at least 0 places and units, not {cap} and {pull_units}")
    depths, seen = rule or DepthRule(), 0

    def counted() -> Iterator[Standing]:
        nonlocal seen
        for standing in candidates:
            seen += 1
            yield standing

    everybody = counted()
    chosen = heapq.nsmallest(cap, everybody, key=rank)
    for _ in everybody:  # a night of no places looks at nobody, but still counts them
        pass
    units: list[Unit] = []
    left = pull_units
    for standing in chosen:
        depth, because = wanted_depth(standing, now=now, rule=depths)
        if depth is Depth.DEEP and left < depths.deep_units:
            depth = Depth.SHALLOW
            because = f"{because}; shallow, as only {left} pull units are left"
        price = depths.deep_units if depth is Depth.DEEP else depths.shallow_units
        if left < price:
            break  # everybody after it would be paid for before it otherwise
        left -= price
        units.append(
            Unit(
                company=standing.id,
                place=len(units),
                depth=depth,
                because=f"{chosen_because(standing)}; {because}",
            )
        )
    return Selection(
        units=tuple(units),
        candidates=seen,
        over_cap=max(seen - cap, 0),
        over_budget=len(chosen) - len(units),
    )


def wanted_depth(standing: Standing, *, now: datetime, rule: DepthRule) -> tuple[Depth, str]:
    """Return how deep a look this company deserves, money aside, and because of what."""
    if not standing.scored:
        return Depth.DEEP, "deep, as nothing is known yet"
    if standing.contacts == 0:
        return Depth.DEEP, "deep, as nobody to write to is known"
    if standing.heat >= rule.hot_from:
        return Depth.DEEP, f"deep, as its heat is {standing.heat:.2f}"
    looked = standing.last_looked_at
    if looked is None or now - looked >= rule.deep_again_after:
        days = f"{(now - looked).days} days ago" if looked else "never"
        return Depth.DEEP, f"deep, as it was last looked at {days}"
    return Depth.SHALLOW, "shallow, as it is scored, has contacts and is not hot"


def chosen_because(standing: Standing) -> str:
    """Say which part of the order put this company where it is."""
    if not standing.scored:
        return "never scored"
    if standing.contacts == 0:
        return "scored, but without contacts"
    seen = f"{standing.last_seen_at:%Y-%m-%d}" if standing.last_seen_at else "never"
    return f"last seen {seen}, heat {standing.heat:.2f}"
