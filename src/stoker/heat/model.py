"""What heat and pulls need remembered: signals, heats, beliefs about change, plans as decided.

Verbs of a store, as in `ports`: each atomic, each wholly or not at all, told the time. Everything
is one tenant's own, behind its door. How hot an account is, what a look teaches and who is looked
at are decided in the core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stoker.accounts.model import CompanyId
from stoker.base.types import Json
from stoker.heat.beliefs import AccountChangeRate, ChangeRateRule, LookupObservation
from stoker.heat.heat import AccountHeat, HeatRule, Signal
from stoker.heat.tiers import Tier, TierRule
from stoker.ledger.chain import NewEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSignals:
    """How signals compared with what was known, and what the new ones made of their accounts."""

    new: int = 0
    known: int = 0
    heats: tuple[AccountHeat, ...] = ()  # of every account with a new one, in id order


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """What was decided for one run, without the decisions: those are in its parts."""

    run: str
    at: datetime
    policy: str
    header: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccountColumns:
    """Accounts as a plan reads them, one row each, in id order. Moments are days since 1970."""

    accounts: list[CompanyId]
    heat: NDArray[np.float64]
    posture: NDArray[np.float64]
    tier: NDArray[np.int8]  # by rank
    tier_since: NDArray[np.float64]
    surface_at: NDArray[np.float64]  # when it was last seen; -inf: never
    surface_changes: NDArray[np.float64]  # as in `core.facets.Facet`; nan: nothing is known yet
    surface_days: NDArray[np.float64]
    deep_at: NDArray[np.float64]
    deep_changes: NDArray[np.float64]
    deep_days: NDArray[np.float64]
    signals: NDArray[np.float64]  # strengths of those since the surface was last seen, together


class PullStore(Protocol):
    """One tenant's signals, heats and beliefs, and the plans that were made of them."""

    async def add_signals(
        self, signals: Sequence[Signal], *, rule: HeatRule, tiers: TierRule, now: datetime
    ) -> AddedSignals:
        """Remember signals and move their accounts' heat, as `core.heat.heated` says. Atomic.

        An id is good once: one that is known moves nothing, whatever else it says now. Signals
        may come in any order; one dated ahead of `now` is kept as of `now`.
        """
        ...

    async def list_signals(self, account: CompanyId, *, limit: int = 100) -> list[Signal]:
        """Return an account's signals, newest first, then by id."""
        ...

    async def delete_old_signals(self, *, before: datetime, limit: int = 10_000) -> int:
        """Forget up to so many of the oldest signals from before then; return how many went.

        Heat keeps what they did to it. One that is said again later counts again, so `before` is
        many half-lives ago.
        """
        ...

    async def update_postures(
        self,
        postures: Mapping[CompanyId, float],
        *,
        rule: HeatRule,
        tiers: TierRule,
        now: datetime,
    ) -> int:
        """Give accounts these postures, as `core.heat.heated` says; return how many changed.

        An account nobody has heard of is there afterwards. One that has this posture already is
        left as it is. Atomic.
        """
        ...

    async def update_heats(
        self, heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
    ) -> int:
        """Put heats in place of those expected, account by account; return how many were put.

        One that is no longer exactly as expected has moved since it was read: it is left alone.
        Both are of the same accounts in the same order, each there once. Atomic.
        """
        ...

    async def find_heat(self, account: CompanyId) -> AccountHeat | None:
        """Return how hot an account was when somebody last reckoned it."""
        ...

    async def list_heats(self, *, after: str = "", limit: int = 1000) -> list[AccountHeat]:
        """Return one page of heats, in the order of their accounts' ids."""
        ...

    async def list_hottest(self, *, limit: int = 20, tier: Tier | None = None) -> list[AccountHeat]:
        """Return the hottest accounts, of one tier or of all, by score, then by id."""
        ...

    async def record_lookups(
        self, looks: Sequence[LookupObservation], *, rule: ChangeRateRule
    ) -> int:
        """Learn from looks, as `core.facets.learned` says; return how many were new. Atomic.

        A key is good once: a look whose key is known teaches nothing. They are taken by their
        time, then by key, in whatever order they are given.
        """
        ...

    async def list_change_rates(
        self, *, after: str = "", limit: int = 1000
    ) -> list[AccountChangeRate]:
        """Return one page of what looks have taught, in the order of their accounts' ids."""
        ...

    async def read_columns(self, *, after: str = "", limit: int = 65_536) -> AccountColumns:
        """Return one page of every account that has a heat, with what looks have taught about it.

        For whoever goes over a million of them; the numbers are those of `list_heats` and
        `list_change_rates`.
        """
        ...

    async def delete_old_lookups(self, *, before: datetime, limit: int = 10_000) -> int:
        """Forget the keys of up to so many of the oldest looks from before then.

        Beliefs keep what they taught. Returns how many went.
        """
        ...

    async def insert_plan(
        self, plan: PlanRecord, parts: Sequence[bytes], *, entry: NewEntry | None = None
    ) -> bool:
        """Insert a run's plan, its parts in order and its ledger entry; False if it exists.

        Atomic: the plan and the entry are both written or neither is. Raises ConflictError, and
        changes nothing, when the run has another plan.
        """
        ...

    async def find_plan(self, run: str) -> PlanRecord | None:
        """Return what was decided for a run."""
        ...

    async def find_plan_part(self, run: str, number: int) -> bytes | None:
        """Return one part of a run's plan, the first is 0; None when there is none."""
        ...

    async def list_plans(self, *, limit: int = 100) -> list[PlanRecord]:
        """Return the newest plans, by their runs' names."""
        ...

    async def delete_plans(self, runs: Sequence[str]) -> int:
        """Forget the plans of these runs, parts and all; return how many there were."""
        ...
