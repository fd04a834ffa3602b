"""Record what a lookup shows: how often an account changes, how well it fits, and new signals.

Called after the lookup is saved, under the lookup's own key, so repeating it changes nothing. A
crash in between loses what the lookup showed, and never records anything wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stoker.accounts.model import CompanyRecord
from stoker.base.types import Depth
from stoker.context import TenantStores
from stoker.crawl.model import SiteVisit
from stoker.heat.settings import ChangeRateRule, HeatRule, TierRule
from stoker.heat.signals import compute_posture, observe_lookup


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFeedback:
    """The rules by which a tenant's lookups update heat and change rates."""

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
        """Update posture, change rates and signals from one lookup."""
        observation = observe_lookup(
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
        await store.attention.record_lookups([observation.observed], rule=self.beliefs)
        if observation.signals:
            await store.attention.add_signals(
                observation.signals, rule=self.heat, tiers=self.tiers, now=now
            )
