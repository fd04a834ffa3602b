"""Tonight's companies, in order, each with how deep to look and why; and how many were left out.

Never scored come first, then those without contacts, then those last seen most recently; heat
breaks ties, and the id breaks what is left, so the same candidates give the same night. Whoever
was looked at today is left for another day. Which companies are candidates at all is `icp`'s
business.
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
    looked_at_today: int = 0  # and so not looked at again


def rank(standing: Standing) -> tuple[bool, bool, float, float, str]:
    """Return what candidates are ordered by; smaller is sooner."""
    seen = standing.last_seen_at.timestamp() if standing.last_seen_at else float("-inf")
    return (standing.scored, standing.contacts > 0, -seen, -standing.heat, standing.id)


def looked_at_since(standing: Standing, day_began_at: datetime | None) -> bool:
    """Say whether a company was looked at since then; without a day, nobody was."""
    looked = standing.last_looked_at
    return day_began_at is not None and looked is not None and looked >= day_began_at


def places(cap: int, *, limit: int | None = None, looked_at_today: int = 0) -> int:
    """Return how many companies may still be looked at: by the day's cap, by this night's limit."""
    left = max(cap - looked_at_today, 0)
    return left if limit is None else min(left, limit)


def select(
    candidates: Iterable[Standing],
    *,
    cap: int,
    now: datetime,
    rule: DepthRule | None = None,
    pull_units: int = PLENTY,
    limit: int | None = None,
    day_began_at: datetime | None = None,
) -> Selection:
    """Choose at most `cap` companies a day that `pull_units` can pay for, the most wanted first.

    Whoever was looked at since the day began is not chosen and has used up a place of the day; a
    night of its own may be held to a smaller `limit`. Takes any number of candidates in memory for
    `cap` of them. A deep look that cannot be paid for becomes a shallow one, and that one, if it
    cannot be paid either, is left out.
    """
    least = min(cap, pull_units, 0 if limit is None else limit)
    if least < 0:
        raise ConfigError(f"a night has at least 0 places and units, not {least}")
    depths, seen, today = rule or DepthRule(), 0, 0

    def not_yet() -> Iterator[Standing]:
        nonlocal seen, today
        for standing in candidates:
            seen += 1
            if looked_at_since(standing, day_began_at):
                today += 1
            else:
                yield standing

    everybody = not_yet()
    best = heapq.nsmallest(places(cap, limit=limit), everybody, key=rank)
    for _ in everybody:  # a night of no places looks at nobody, but still counts them
        pass
    room = places(cap, limit=limit, looked_at_today=today)
    chosen = best[:room]
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
        over_cap=max(seen - today - room, 0),
        over_budget=len(chosen) - len(units),
        looked_at_today=today,
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
