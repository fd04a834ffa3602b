"""One tenant's signals, heats, beliefs and plans in dictionaries: the model of the other stores.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from stoker.accounts.model import CompanyId
from stoker.accounts.row_checks import kept_id, kept_run_name
from stoker.base.types import in_utc
from stoker.db.codec import kept_text
from stoker.heat.beliefs import AccountBelief, BeliefRule, Observed, learned
from stoker.heat.columns import columns_of
from stoker.heat.heat import AccountHeat, HeatRule, Signal, heated, unheard
from stoker.heat.model import AccountColumns, Added, PlanRecord
from stoker.heat.store import (
    another_plan,
    kept_heats,
    kept_looks,
    kept_plan,
    kept_postures,
    kept_signals,
)
from stoker.heat.tiers import Tier, TierRule


class MemoryAttention:
    """An `AttentionStore` in this process."""

    def __init__(self) -> None:
        self._signals: dict[str, Signal] = {}
        self._heats: dict[CompanyId, AccountHeat] = {}
        self._looks: dict[str, datetime] = {}
        self._beliefs: dict[CompanyId, AccountBelief] = {}
        self._plans: dict[str, tuple[PlanRecord, list[bytes]]] = {}

    async def add_signals(
        self, signals: Sequence[Signal], *, rule: HeatRule, tiers: TierRule, now: datetime
    ) -> Added:
        now, said = in_utc(now), kept_signals(signals, now=now)
        new = {one: signal for one, signal in said.items() if one not in self._signals}
        by_account: defaultdict[CompanyId, list[Signal]] = defaultdict(list)
        for signal in new.values():
            by_account[signal.account].append(signal)
        heats = tuple(
            heated(
                self._heats.get(account) or unheard(account, now=now),
                by_account[account],
                now=now,
                rule=rule,
                tiers=tiers,
            )
            for account in sorted(by_account)
        )
        self._signals |= new
        self._heats |= {heat.account: heat for heat in heats}
        return Added(new=len(new), known=len(signals) - len(new), heats=heats)

    async def signals(self, account: CompanyId, *, limit: int = 100) -> list[Signal]:
        kept_id(account)
        found = [signal for signal in self._signals.values() if signal.account == account]
        by_id = sorted(found, key=lambda signal: signal.id)
        return sorted(by_id, key=lambda signal: signal.at, reverse=True)[:limit]

    async def prune_signals(self, *, before: datetime, limit: int = 10_000) -> int:
        end = in_utc(before)
        old = sorted((signal.at, one) for one, signal in self._signals.items() if signal.at < end)
        for _, one in old[:limit]:
            del self._signals[one]
        return len(old[:limit])

    async def put_postures(
        self,
        postures: Mapping[CompanyId, float],
        *,
        rule: HeatRule,
        tiers: TierRule,
        now: datetime,
    ) -> int:
        now, said = in_utc(now), kept_postures(postures)
        moved = {
            account: heated(
                self._heats.get(account) or unheard(account, now=now),
                posture=posture,
                now=now,
                rule=rule,
                tiers=tiers,
            )
            for account, posture in said.items()
            if account not in self._heats or self._heats[account].state.posture != posture
        }
        self._heats |= moved
        return len(moved)

    async def put_heats(
        self, heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
    ) -> int:
        still = {
            heat.account: heat
            for heat, seen in kept_heats(heats, expected=expected)
            if self._heats.get(heat.account) == seen
        }
        self._heats |= still
        return len(still)

    async def heat(self, account: CompanyId) -> AccountHeat | None:
        return self._heats.get(kept_id(account))

    async def heats(self, *, after: str = "", limit: int = 1000) -> list[AccountHeat]:
        kept_text(after, what="an account's id")
        accounts = sorted(account for account in self._heats if account > after)
        return [self._heats[account] for account in accounts[:limit]]

    async def hottest(self, *, limit: int = 20, tier: Tier | None = None) -> list[AccountHeat]:
        found = [heat for heat in self._heats.values() if tier in (None, heat.tier)]
        return sorted(found, key=lambda heat: (-heat.score, heat.account))[:limit]

    async def observe(self, looks: Sequence[Observed], *, rule: BeliefRule) -> int:
        said = kept_looks(looks)
        new = [look for key, look in said.items() if key not in self._looks]
        tiers = {
            look.account: self._heats[look.account].tier
            for look in new
            if look.account in self._heats
        }
        self._beliefs |= learned(new, known=self._beliefs, tiers=tiers, rule=rule)
        self._looks |= {look.key: look.at for look in new}
        return len(new)

    async def beliefs(self, *, after: str = "", limit: int = 1000) -> list[AccountBelief]:
        kept_text(after, what="an account's id")
        accounts = sorted(account for account in self._beliefs if account > after)
        return [self._beliefs[account] for account in accounts[:limit]]

    async def columns(self, *, after: str = "", limit: int = 65_536) -> AccountColumns:
        rows = [
            (heat.account, heat.score, heat.state.posture, heat.tier, heat.tier_since)
            for heat in await self.heats(after=after, limit=limit)
        ]
        nothing = (None, None, None)
        beliefs = [
            (belief.account, *(belief.surface or nothing), *(belief.deep or nothing))
            for belief in self._beliefs.values()
        ]
        signals = [(one.account, one.at, one.strength) for one in self._signals.values()]
        return columns_of(rows, beliefs, signals)

    async def prune_looks(self, *, before: datetime, limit: int = 10_000) -> int:
        end = in_utc(before)
        old = sorted((at, key) for key, at in self._looks.items() if at < end)
        for _, key in old[:limit]:
            del self._looks[key]
        return len(old[:limit])

    async def keep_plan(self, plan: PlanRecord, parts: Sequence[bytes]) -> bool:
        kept = (kept_plan(plan, parts), list(map(bytes, parts)))
        known = self._plans.setdefault(plan.run, kept)
        if known != kept:
            raise another_plan(plan.run)
        return known is kept

    async def plan(self, run: str) -> PlanRecord | None:
        known = self._plans.get(kept_run_name(run))
        return known[0] if known else None

    async def plan_part(self, run: str, number: int) -> bytes | None:
        known = self._plans.get(kept_run_name(run))
        return known[1][number] if known and 0 <= number < len(known[1]) else None

    async def plans(self, *, limit: int = 100) -> list[PlanRecord]:
        return [self._plans[run][0] for run in sorted(self._plans, reverse=True)][:limit]

    async def drop_plans(self, runs: Sequence[str]) -> int:
        going = set(map(kept_run_name, runs)) & self._plans.keys()
        for run in going:
            del self._plans[run]
        return len(going)

    def score(self, account: CompanyId) -> float:
        """Return how hot an account is, without waiting, so that another verb can tell it."""
        heat = self._heats.get(account)
        return heat.score if heat else 0.0
