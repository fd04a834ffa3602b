"""Which of a tenant's companies fit what it looks for, and which of those are tonight's.

Pages through companies, so that a register of any size takes the memory of one night. What fits
and in what order is decided in the core.
"""

from __future__ import annotations

from datetime import datetime

from stoker.accounts import AccountStore
from stoker.core.icp import IcpRule, fit
from stoker.core.targets import PLENTY, DepthRule, Selection, Targets

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
    targets: Targets,
    *,
    now: datetime,
    depths: DepthRule,
    pull_units: int = PLENTY,
    page: int = PAGE,
) -> Selection:
    """Choose tonight's companies among the candidates, in order, as `core.targets` does."""
    after = ""
    while standings := await accounts.candidates(rule=rule.name, after=after, limit=page):
        after = standings[-1].id
        targets.add(standings)
    # Also whoever is no candidate any more has had its look of the day.
    began_at = targets.day_began_at
    looked_at = await accounts.looked_at_since(began_at) if began_at else 0
    return targets.selection(now=now, rule=depths, pull_units=pull_units, looked_at=looked_at)
