"""One tenant's signals, heats, beliefs and plans in dictionaries: the model of the other stores.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from stoker.accounts.model import CompanyId
from stoker.base.types import to_utc
from stoker.db.codec import validate_text
from stoker.db.values import validate_key
from stoker.heat.beliefs import learn_change_rates
from stoker.heat.heat import compute_heat, new_account_heat
from stoker.heat.model import (
    AccountChangeRate,
    AccountColumns,
    AccountHeat,
    AddedSignals,
    LookupObservation,
    PlanRecord,
    Signal,
    Tier,
)
from stoker.heat.schema import HEATS
from stoker.heat.settings import ChangeRateRule, HeatRule, TierRule
from stoker.heat.store import (
    build_plan_conflict,
    to_account_columns,
    validate_heats,
    validate_lookups,
    validate_plan,
    validate_postures,
    validate_signals,
)
from stoker.ledger.chain import NewEntry
from stoker.ledger.store import LedgerStore


class MemoryPullStore:
    """An `AttentionStore` in this process."""

    def __init__(self, ledger: LedgerStore | None = None) -> None:
        self._ledger = ledger
        self._signals: dict[str, Signal] = {}
        self._heats: dict[CompanyId, AccountHeat] = {}
        self._looks: dict[str, datetime] = {}
        self._beliefs: dict[CompanyId, AccountChangeRate] = {}
        self._plans: dict[str, tuple[PlanRecord, list[bytes]]] = {}

    async def add_signals(
        self, signals: Sequence[Signal], *, rule: HeatRule, tiers: TierRule, now: datetime
    ) -> AddedSignals:
        now, said = to_utc(now), validate_signals(signals, now=now)
        new = {one: signal for one, signal in said.items() if one not in self._signals}
        by_account: defaultdict[CompanyId, list[Signal]] = defaultdict(list)
        for signal in new.values():
            by_account[signal.account].append(signal)
        heats = tuple(
            compute_heat(
                self._heats.get(account) or new_account_heat(account, now=now),
                by_account[account],
                now=now,
                rule=rule,
                tiers=tiers,
            )
            for account in sorted(by_account)
        )
        self._signals |= new
        self._heats |= {heat.account: heat for heat in heats}
        return AddedSignals(new=len(new), known=len(signals) - len(new), heats=heats)

    async def list_signals(self, account: CompanyId, *, limit: int = 100) -> list[Signal]:
        validate_key(account, what="a company's id")
        found = [signal for signal in self._signals.values() if signal.account == account]
        by_id = sorted(found, key=lambda signal: signal.id)
        return sorted(by_id, key=lambda signal: signal.at, reverse=True)[:limit]

    async def delete_old_signals(self, *, before: datetime, limit: int = 10_000) -> int:
        end = to_utc(before)
        old = sorted((signal.at, one) for one, signal in self._signals.items() if signal.at < end)
        for _, one in old[:limit]:
            del self._signals[one]
        return len(old[:limit])

    async def update_postures(
        self,
        postures: Mapping[CompanyId, float],
        *,
        rule: HeatRule,
        tiers: TierRule,
        now: datetime,
    ) -> int:
        now, said = to_utc(now), validate_postures(postures)
        moved = {
            account: compute_heat(
                self._heats.get(account) or new_account_heat(account, now=now),
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

    async def update_heats(
        self, heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
    ) -> int:
        still = {
            heat.account: HEATS.store(heat)
            for heat, seen in validate_heats(heats, expected=expected)
            if self._heats.get(heat.account) == seen
        }
        self._heats |= still
        return len(still)

    async def find_heat(self, account: CompanyId) -> AccountHeat | None:
        return self._heats.get(validate_key(account, what="a company's id"))

    async def list_heats(self, *, after: str = "", limit: int = 1000) -> list[AccountHeat]:
        validate_text(after, what="an account's id")
        accounts = sorted(account for account in self._heats if account > after)
        return [self._heats[account] for account in accounts[:limit]]

    async def list_hottest(self, *, limit: int = 20, tier: Tier | None = None) -> list[AccountHeat]:
        found = [heat for heat in self._heats.values() if tier in (None, heat.tier)]
        return sorted(found, key=lambda heat: (-heat.score, heat.account))[:limit]

    async def record_lookups(
        self, looks: Sequence[LookupObservation], *, rule: ChangeRateRule
    ) -> int:
        said = validate_lookups(looks)
        new = [look for key, look in said.items() if key not in self._looks]
        tiers = {
            look.account: self._heats[look.account].tier
            for look in new
            if look.account in self._heats
        }
        self._beliefs |= learn_change_rates(new, known=self._beliefs, tiers=tiers, rule=rule)
        self._looks |= {look.key: look.at for look in new}
        return len(new)

    async def list_change_rates(
        self, *, after: str = "", limit: int = 1000
    ) -> list[AccountChangeRate]:
        validate_text(after, what="an account's id")
        accounts = sorted(account for account in self._beliefs if account > after)
        return [self._beliefs[account] for account in accounts[:limit]]

    async def read_columns(self, *, after: str = "", limit: int = 65_536) -> AccountColumns:
        rows = [
            (heat.account, heat.score, heat.state.posture, heat.tier, heat.tier_since)
            for heat in await self.list_heats(after=after, limit=limit)
        ]
        beliefs = [
            (belief.account, *belief.surface, *belief.deep) for belief in self._beliefs.values()
        ]
        signals = [(one.account, one.at, one.strength) for one in self._signals.values()]
        return to_account_columns(rows, beliefs, signals)

    async def delete_old_lookups(self, *, before: datetime, limit: int = 10_000) -> int:
        end = to_utc(before)
        old = sorted((at, key) for key, at in self._looks.items() if at < end)
        for _, key in old[:limit]:
            del self._looks[key]
        return len(old[:limit])

    async def insert_plan(
        self, plan: PlanRecord, parts: Sequence[bytes], *, entry: NewEntry | None = None
    ) -> bool:
        new = (validate_plan(plan, parts), list(map(bytes, parts)))
        known = self._plans.get(plan.run)
        if known is not None and known != new:
            raise build_plan_conflict(plan.run)
        if known is None:
            if entry is not None and self._ledger is not None:
                await self._ledger.append([entry])
            self._plans[plan.run] = new
        return known is None

    async def find_plan(self, run: str) -> PlanRecord | None:
        known = self._plans.get(validate_key(run, what="a run's name"))
        return known[0] if known else None

    async def find_plan_part(self, run: str, number: int) -> bytes | None:
        known = self._plans.get(validate_key(run, what="a run's name"))
        return known[1][number] if known and 0 <= number < len(known[1]) else None

    async def list_plans(self, *, limit: int = 100) -> list[PlanRecord]:
        return [self._plans[run][0] for run in sorted(self._plans, reverse=True)][:limit]

    async def delete_plans(self, runs: Sequence[str]) -> int:
        going = {validate_key(run, what="a run's name") for run in runs} & self._plans.keys()
        for run in going:
            del self._plans[run]
        return len(going)

    def score(self, account: CompanyId) -> float:
        """Return how hot an account is, without waiting, so that another verb can tell it."""
        heat = self._heats.get(account)
        return heat.score if heat else 0.0
