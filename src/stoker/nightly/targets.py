"""Choose tonight's companies, in order, with depth and reason.

Companies never scored come first, then those without contacts, then those last seen most recently;
heat breaks ties, then the id, so that the same candidates give the same selection. A company
visited today waits for another day. Reads candidates page by page.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoker.accounts.icp import IcpRule, match_icp
from stoker.accounts.model import Candidate, CompanyId
from stoker.accounts.store import AccountStore
from stoker.base.errors import ConfigError
from stoker.base.types import DEEP_AGAIN, DEEP_UNITS, SHALLOW_UNITS, Depth
from stoker.enrichment.model import WorkItem

UNLIMITED = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Tonight's items in order, and what became of the other candidates."""

    items: tuple[WorkItem, ...]
    candidates: int
    over_cap: int  # there were better ones for every place of tonight
    over_budget: int  # there was a place, but nothing left to pay for a lookup
    visited_today: int = 0  # and so not looked at again


def compute_rank(standing: Candidate) -> tuple[bool, bool, float, float, str]:
    """Return what candidates are ordered by; smaller is sooner."""
    seen = standing.last_seen_at.timestamp() if standing.last_seen_at else float("-inf")
    return (standing.scored, standing.contacts > 0, -seen, -standing.heat, standing.id)


def was_visited_since(standing: Candidate, day_began_at: datetime | None) -> bool:
    """Return whether a company was looked up since the day began; False without a day."""
    looked_at = standing.last_looked_at
    return day_began_at is not None and looked_at is not None and looked_at >= day_began_at


def compute_open_capacity(cap: int, *, limit: int | None = None, looked_at_today: int = 0) -> int:
    """Return how many companies may still be researched: by the day's cap, by the run's limit."""
    left = max(cap - looked_at_today, 0)
    return left if limit is None else min(left, limit)


def limit_to_capacity(
    units: Iterable[WorkItem],
    *,
    cap: int,
    limit: int | None = None,
    looked_at_today: int = 0,
    again: Collection[CompanyId] = (),
) -> tuple[WorkItem, ...]:
    """Return those of these items that there are places for, the first ones first.

    A company in `again` was visited today and counts towards the cap already.
    """
    room, chosen = compute_open_capacity(cap, looked_at_today=looked_at_today), list[WorkItem]()
    for item in units:
        if limit is not None and len(chosen) >= limit:
            break
        new = item.company not in again
        if not new or room:
            room -= new
            chosen.append(replace(item, rank=len(chosen)))
    return tuple(chosen)


class TargetPicker:
    """Collects candidates, any number of them, in memory for the slots of one run.

    A company visited since the day began counts towards the cap; it is chosen only with `again`. A
    run may have a smaller `limit`. With `known`, only companies looked up before are chosen.
    Companies in `aside` are only counted: the run has them in another way.
    """

    def __init__(
        self,
        *,
        cap: int,
        limit: int | None = None,
        day_began_at: datetime | None = None,
        again: bool = False,
        known: bool = False,
        aside: Collection[CompanyId] = (),
    ) -> None:
        least = min(cap, 0 if limit is None else limit)
        if least < 0:
            raise ConfigError(f"a run has at least 0 places and units, not {least}")
        self._cap = cap
        self._max_items = compute_open_capacity(cap, limit=limit)
        self.day_began_at = day_began_at
        self._include_visited = again
        self._known_only = known
        self._excluded = frozenset(aside)
        self._unvisited: list[Candidate] = []
        self._visited: list[Candidate] = []
        self._seen = self._visited_today = self._excluded_count = 0

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Consider these too."""
        new: list[Candidate] = []
        old: list[Candidate] = []
        for candidate in candidates:
            if self._known_only and candidate.last_looked_at is None:
                continue
            if candidate.id in self._excluded:
                self._excluded_count += 1
                continue
            visited = was_visited_since(candidate, self.day_began_at)
            (old if visited else new).append(candidate)
        self._seen += len(new) + len(old)
        self._visited_today += len(old)
        self._unvisited = heapq.nsmallest(
            self._max_items, [*self._unvisited, *new], key=compute_rank
        )
        if self._include_visited:
            self._visited = heapq.nsmallest(
                self._max_items, [*self._visited, *old], key=compute_rank
            )

    def pick(
        self,
        *,
        now: datetime,
        rule: DepthRule | None = None,
        pull_units: int = UNLIMITED,
        looked_at: int = 0,
    ) -> Selection:
        """Choose the companies that `pull_units` can pay for, the most wanted first.

        `looked_at` companies were visited today, candidates or not. A deep lookup that cannot be
        paid for becomes a shallow one, and is left out if that cannot be paid for either.
        """
        if pull_units < 0:
            raise ConfigError(f"a run has at least 0 places and units, not {pull_units}")
        room = compute_open_capacity(self._cap, looked_at_today=max(looked_at, self._visited_today))
        chosen = sorted([*self._unvisited[:room], *self._visited], key=compute_rank)[
            : self._max_items
        ]
        items = _choose_affordable(chosen, now=now, rule=rule or DepthRule(), pull_units=pull_units)
        passed_over = 0 if self._include_visited else self._visited_today
        return Selection(
            items=items,
            candidates=self._seen + self._excluded_count,
            over_cap=self._seen - passed_over - len(chosen),
            over_budget=len(chosen) - len(items),
            visited_today=passed_over,
        )


def choose_targets(
    candidates: Iterable[Candidate],
    *,
    cap: int,
    now: datetime,
    rule: DepthRule | None = None,
    pull_units: int = UNLIMITED,
    limit: int | None = None,
    day_began_at: datetime | None = None,
    again: bool = False,
) -> Selection:
    """Choose targets among these candidates."""
    targets = TargetPicker(cap=cap, limit=limit, day_began_at=day_began_at, again=again)
    targets.add(candidates)
    return targets.pick(now=now, rule=rule, pull_units=pull_units)


def _choose_affordable(
    chosen: Iterable[Candidate], *, now: datetime, rule: DepthRule, pull_units: int
) -> tuple[WorkItem, ...]:
    items: list[WorkItem] = []
    left = pull_units
    for candidate in chosen:
        depth, because = choose_depth(candidate, now=now, rule=rule)
        if depth is Depth.DEEP and left < rule.deep_units:
            depth = Depth.SHALLOW
            because = f"{because}; shallow, as only {left} pull units are left"
        price = rule.deep_units if depth is Depth.DEEP else rule.shallow_units
        if left < price:
            break  # otherwise later companies would be paid for before it
        left -= price
        items.append(
            WorkItem(
                company=candidate.id,
                rank=len(items),
                depth=depth,
                reason=f"{format_choice_reason(candidate)}; {because}",
                is_first=not candidate.scored,
            )
        )
    return tuple(items)


def compute_affordable(
    looks: Iterable[Depth], *, rule: DepthRule, pull_units: int
) -> tuple[int, int]:
    """Return the pull units that looks in this order take, and how many there are too few for.

    As when they are made: a deep one that cannot be paid for becomes a shallow one.
    """
    taken = left_out = 0
    for depth in looks:
        prices = [rule.deep_units] if depth is Depth.DEEP else []
        fitting = [each for each in (*prices, rule.shallow_units) if taken + each <= pull_units]
        taken += fitting[0] if fitting else 0
        left_out += not fitting
    return taken, left_out


def format_choice_reason(standing: Candidate) -> str:
    """Return which part of the order decided this company's rank."""
    if not standing.scored:
        return "never scored"
    if standing.contacts == 0:
        return "scored, but without contacts"
    seen = f"{standing.last_seen_at:%Y-%m-%d}" if standing.last_seen_at else "never"
    return f"last seen {seen}, heat {standing.heat:.2f}"


PAGE_SIZE = 1000


async def update_candidates(accounts: AccountStore, rule: IcpRule, *, page: int = PAGE_SIZE) -> int:
    """Match every company against the rule and save those that fit; return how many.

    Page by page: a process that stops in between has updated the companies so far.
    """
    found, after = 0, ""
    while companies := await accounts.list_companies(after=after, limit=page):
        fitting = [company.id for company in companies if match_icp(company, rule).fits]
        last = companies[-1].id
        await accounts.save_candidates(fitting, rule=rule.name, after=after, upto=last)
        found, after = found + len(fitting), last
    await accounts.save_candidates((), rule=rule.name, after=after)
    return found


async def select_targets(
    accounts: AccountStore,
    rule: IcpRule,
    targets: TargetPicker,
    *,
    now: datetime,
    depths: DepthRule,
    pull_units: int = UNLIMITED,
    page: int = PAGE_SIZE,
) -> Selection:
    """Choose tonight's companies among the candidates, in order, as `nightly.targets` does."""
    after = ""
    while candidates := await accounts.list_candidates(rule=rule.name, after=after, limit=page):
        after = candidates[-1].id
        targets.add(candidates)
    # A company that is no longer a candidate counts towards the cap, too.
    began_at = targets.day_began_at
    looked_at = await accounts.count_visited_since(began_at) if began_at else 0
    return targets.pick(now=now, rule=depths, pull_units=pull_units, looked_at=looked_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthRule:
    """When a lookup is deep, and how many pull units each depth costs."""

    # Below `heat.hot_from` (0.7), where the HOT tier begins: a warm company deserves depth, too.
    deep_from_heat: float = 0.5
    deep_again_after: timedelta = DEEP_AGAIN
    shallow_units: int = SHALLOW_UNITS
    deep_units: int = DEEP_UNITS


def choose_depth(standing: Candidate, *, now: datetime, rule: DepthRule) -> tuple[Depth, str]:
    """Return how deep a lookup this company deserves, money aside, and because of what."""
    if not standing.scored:
        return Depth.DEEP, "deep, as nothing is known yet"
    if standing.contacts == 0:
        return Depth.DEEP, "deep, as no contact is known"
    if standing.heat >= rule.deep_from_heat:
        return Depth.DEEP, f"deep, as its heat is {standing.heat:.2f}"
    looked_at = standing.last_looked_at
    if looked_at is None or now - looked_at >= rule.deep_again_after:
        days = f"{(now - looked_at).days} days ago" if looked_at else "never"
        return Depth.DEEP, f"deep, as it was last researched {days}"
    return Depth.SHALLOW, "shallow, as it is scored, has contacts and is not hot"
