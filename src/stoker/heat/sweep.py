"""Recompute all heats of a tenant, and add accounts that fit and have no heat yet.

Signals update heat when they arrive; a sweep applies what only the passing of time changes. It
works page by page, so a million accounts fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.accounts.model import Candidate, CompanyId, LeadScore
from stoker.base.clock import Clock
from stoker.context import TenantContext, TenantStores
from stoker.heat.heat import score_heats
from stoker.heat.model import Tier
from stoker.heat.settings import HeatRule, TierRule
from stoker.heat.signals import compute_posture
from stoker.heat.store import HeatStore
from stoker.runs.model import RunState
from stoker.runs.service import RunHandle, RunResult
from stoker.scheduling.service import Task, build_task

KIND = "sweep"

_PAGE_SIZE = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The counts of a sweep."""

    accounts: int = 0
    new: int = 0  # accounts that had no heat before
    warmer: int = 0  # in a higher tier than before
    cooler: int = 0
    moved: int = 0  # by another process meanwhile, and left alone: its heat is newer
    hot: int = 0
    warm: int = 0
    cold: int = 0


@dataclass(frozen=True, kw_only=True)
class HeatSweep:
    """One tenant's sweep, as the job of a run."""

    heat: HeatRule
    tiers: TierRule
    icp_rule: str

    @property
    def kind(self) -> str:
        """What its runs are listed under."""
        return KIND

    async def __call__(self, run: RunHandle) -> RunResult:
        """Run the sweep and return its counts."""
        with run.time_step(KIND) as step:
            result = await self.recompute(run.store, clock=run.clock)
            step.items = result.accounts
        counts = {name: getattr(result, name) for name in SweepResult.__slots__}
        return RunResult(state=RunState.DONE, counts=counts)

    async def recompute(self, store: TenantStores, *, clock: Clock) -> SweepResult:
        """Add accounts that fit and have no heat yet, then recompute every heat."""
        new = await self._add_new_accounts(store, clock)
        return await self._recompute(store.attention, clock, new=new)

    async def _add_new_accounts(self, store: TenantStores, clock: Clock) -> int:
        new, after, last = 0, "", ""
        known: set[CompanyId] = set()
        while page := await store.accounts.list_candidates(
            rule=self.icp_rule, after=after, limit=_PAGE_SIZE
        ):
            after = page[-1].id
            # Heats come in the same order, so each page of them is read once.
            while last < after and (
                heats := await store.attention.list_heats(after=last, limit=_PAGE_SIZE)
            ):
                known |= {heat.account for heat in heats}
                last = heats[-1].account
            unmet = {
                one.id: compute_posture(await _find_score(store, one))
                for one in page
                if one.id not in known
            }
            known = {account for account in known if account > after}
            if unmet:
                new += await store.attention.update_postures(
                    unmet, rule=self.heat, tiers=self.tiers, now=clock.now()
                )
        return new

    async def _recompute(self, attention: HeatStore, clock: Clock, *, new: int) -> SweepResult:
        accounts = warmer = cooler = put = 0
        tiers = dict.fromkeys(Tier, 0)
        after = ""
        while page := await attention.list_heats(after=after, limit=_PAGE_SIZE):
            after = page[-1].account
            now = score_heats(page, now=clock.now(), rule=self.heat, tiers=self.tiers)
            put += await attention.update_heats(now, expected=page)
            accounts += len(page)
            for before, heat in zip(page, now, strict=True):
                tiers[heat.tier] += 1
                warmer += heat.tier.rank > before.tier.rank
                cooler += heat.tier.rank < before.tier.rank
        return SweepResult(
            accounts=accounts,
            new=new,
            warmer=warmer,
            cooler=cooler,
            moved=accounts - put,
            hot=tiers[Tier.HOT],
            warm=tiers[Tier.WARM],
            cold=tiers[Tier.COLD],
        )


async def _find_score(store: TenantStores, candidate: Candidate) -> LeadScore | None:
    dossier = await store.accounts.find_company_record(candidate.id) if candidate.scored else None
    return dossier.score if dossier else None


def build_heat_sweep(tenant: TenantContext) -> HeatSweep:
    """Return what brings a tenant's heats up to date."""
    own = tenant.settings
    return HeatSweep(heat=own.heat, tiers=own.heat, icp_rule=own.icp.rule_name)


def build_sweep_task(tenant: TenantContext) -> Task:
    """Return a tenant's sweep as a task, due every so often, whatever its nights are."""
    return build_task(tenant, build_heat_sweep(tenant), every=tenant.settings.heat.sweep_every)
