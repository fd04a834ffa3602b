"""What a look teaches: how often an account changes, how well it fits, and what is news there.

Told after a look is written down, under the look's own name, so telling it twice is telling it
once. A crash in between leaves a look that taught nothing, never one that taught something wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stoker.accounts.model import CompanyRecord
from stoker.base.types import Depth
from stoker.context import TenantStores
from stoker.crawl.model import SiteVisit
from stoker.heat.beliefs import ChangeRateRule
from stoker.heat.heat import HeatRule
from stoker.heat.signals import compute_posture, observe_lookup
from stoker.heat.tiers import TierRule


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFeedback:
    """How a tenant's looks are learned from."""

    heat: HeatRule
    tiers: TierRule
    beliefs: ChangeRateRule

    async def record_lookup(
        self,
        store: TenantStores,
        *,
        run: str,
        depth: Depth,
        visit: SiteVisit | None,
        before: CompanyRecord,
        after: CompanyRecord,
        now: datetime,
    ) -> None:
        """Learn from one look."""
        taught = observe_lookup(
            look=f"{run}/{before.company.id}",
            depth=depth,
            visit=visit,
            before=before,
            after=after,
            at=now,
        )
        score = after.score or before.score
        await store.attention.update_postures(
            {before.company.id: compute_posture(score)}, rule=self.heat, tiers=self.tiers, now=now
        )
        await store.attention.record_lookups([taught.observed], rule=self.beliefs)
        if taught.signals:
            await store.attention.add_signals(
                taught.signals, rule=self.heat, tiers=self.tiers, now=now
            )
