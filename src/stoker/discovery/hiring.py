"""Add hiring signals for the accounts that postings belong to, and update their heat.

Works page by page; adding the same signal twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stoker.accounts.model import CompanyId
from stoker.context import TenantStores
from stoker.discovery.matching import EmployerIndex, build_hiring_signal
from stoker.discovery.sources import SourceSpec
from stoker.heat.settings import HeatRule, TierRule

PAGE_SIZE = 1000
MAX_SOURCE_LENGTH = 1000  # characters of a signal's source that are stored


@dataclass(frozen=True, slots=True, kw_only=True)
class HiringRule:
    """How strong a signal a posting is, and what signals do to an account's heat."""

    strength: float = 0.5
    heat: HeatRule = field(default_factory=HeatRule)
    tiers: TierRule = field(default_factory=TierRule)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiringResult:
    """What came of it."""

    accounts: int = 0
    matched: int = 0  # postings of accounts
    new: int = 0  # signals never heard before


async def add_hiring_signals(
    store: TenantStores,
    sources: Sequence[SourceSpec],
    employers: EmployerIndex,
    *,
    rule: HiringRule,
    listed_at: datetime,
    now: datetime,
) -> HiringResult:
    """Make signals of what these sources listed at that moment, for the accounts it belongs to."""
    if not rule.strength or not len(employers):
        return HiringResult()
    after = ""
    while page := await store.accounts.list_companies(after=after, limit=PAGE_SIZE):
        employers.match_companies(page)
        after = page[-1].id
    if not employers.has_matches:
        return HiringResult()
    accounts: set[CompanyId] = set()
    matched = new = 0
    for source in sources:
        after = ""
        while listed := await store.listings.list_listings(
            source.name, since=listed_at, after=after, limit=PAGE_SIZE
        ):
            after = listed[-1].listing.job.id
            signals = [
                build_hiring_signal(
                    each.listing.job,
                    account,
                    first_seen_at=each.first_seen_at,
                    strength=rule.strength,
                    source=source.display_name[:MAX_SOURCE_LENGTH],
                )
                for each in listed
                if not each.listing.is_duplicate
                and (account := employers.find_account(source, each.listing.job))
            ]
            if signals:
                added = await store.attention.add_signals(
                    signals, rule=rule.heat, tiers=rule.tiers, now=now
                )
                accounts |= {signal.account for signal in signals}
                matched, new = matched + len(signals), new + added.new
    return HiringResult(accounts=len(accounts), matched=matched, new=new)
