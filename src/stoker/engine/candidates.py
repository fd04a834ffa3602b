"""Which of a tenant's companies fit what it looks for, and which of those are tonight's.

Pages through companies, so that a register of any size takes the memory of one night. What fits
and in what order is decided in the core.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from datetime import datetime
from itertools import chain

from stoker.accounts import AccountStore
from stoker.core.companies import Standing
from stoker.core.icp import IcpRule, fit
from stoker.core.targets import (
    PLENTY,
    DepthRule,
    Selection,
    looked_at_since,
    places,
    rank,
    select,
)

PAGE = 1000


async def find_candidates(accounts: AccountStore, rule: IcpRule, *, page: int = PAGE) -> int:
    """Hold every company against the rule and remember those that fit; return how many.

    Page by page: whoever stops in between has the companies so far, and the others as they were.
    """
    found, after = 0, ""
    while companies := await accounts.companies(after=after, limit=page):
        fitting = [company.id for company in companies if fit(company, rule).fits]
        last = companies[-1].id
        await accounts.put_candidates(fitting, rule=rule.name, after=after, upto=last)
        found, after = found + len(fitting), last
    await accounts.put_candidates((), rule=rule.name, after=after)
    return found


async def select_targets(
    accounts: AccountStore,
    rule: IcpRule,
    *,
    cap: int,
    now: datetime,
    depths: DepthRule,
    pull_units: int = PLENTY,
    limit: int | None = None,
    day_began_at: datetime | None = None,
    page: int = PAGE,
) -> Selection:
    """Choose tonight's companies among the candidates, in order, as `core.targets.select` does."""
    best: list[Standing] = []
    seen, today, after = 0, 0, ""
    while standings := await accounts.candidates(rule=rule.name, after=after, limit=page):
        seen += len(standings)
        after = standings[-1].id
        fresh = [each for each in standings if not looked_at_since(each, day_began_at)]
        today += len(standings) - len(fresh)
        best = heapq.nsmallest(places(cap, limit=limit), chain(best, fresh), key=rank)
    room = places(cap, limit=limit, looked_at_today=today)
    chosen = select(best, cap=room, now=now, rule=depths, pull_units=pull_units)
    left = max(seen - today - room, 0)
    return replace(chosen, candidates=seen, over_cap=left, looked_at_today=today)
