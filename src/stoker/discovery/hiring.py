"""Postings that belong to accounts become signals that those accounts hire, and move their heat.

Whose a posting is, and what signal it is, `core.posting_matching` decides. Everything goes page by
page, and telling a signal twice is telling it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stoker.accounts.model import CompanyId
from stoker.context import Store
from stoker.discovery.matching import Employers, hiring_signal
from stoker.discovery.sources import WantedSource
from stoker.heat.heat import HeatRule
from stoker.heat.tiers import TierRule

PAGE = 1000

LONGEST_SOURCE = 1000  # characters of a signal's source that are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class HiringRule:
    """How strong a signal a posting is, and what signals do to an account's heat."""

    strength: float = 0.5
    heat: HeatRule = field(default_factory=HeatRule)
    tiers: TierRule = field(default_factory=TierRule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hired:
    """What came of it."""

    accounts: int = 0
    matched: int = 0  # postings of accounts
    new: int = 0  # signals never heard before


async def tell_who_hires(
    store: Store,
    sources: Sequence[WantedSource],
    employers: Employers,
    *,
    rule: HiringRule,
    listed_at: datetime,
    now: datetime,
) -> Hired:
    """Make signals of what these sources listed at that moment, for the accounts it belongs to."""
    if not rule.strength or not len(employers):
        return Hired()
    after = ""
    while page := await store.accounts.companies(after=after, limit=PAGE):
        employers.meet(page)
        after = page[-1].id
    if not employers.any_found:
        return Hired()
    accounts: set[CompanyId] = set()
    matched = new = 0
    for source in sources:
        after = ""
        while listed := await store.listings.listings(
            source.name, since=listed_at, after=after, limit=PAGE
        ):
            after = listed[-1].listing.job.id
            signals = [
                hiring_signal(
                    each.listing.job,
                    account,
                    first_seen_at=each.first_seen_at,
                    strength=rule.strength,
                    source=source.shown[:LONGEST_SOURCE],
                )
                for each in listed
                if not each.listing.twin
                and (account := employers.account_of(source, each.listing.job))
            ]
            if signals:
                told = await store.attention.add_signals(
                    signals, rule=rule.heat, tiers=rule.tiers, now=now
                )
                accounts |= {signal.account for signal in signals}
                matched, new = matched + len(signals), new + told.new
    return Hired(accounts=len(accounts), matched=matched, new=new)
