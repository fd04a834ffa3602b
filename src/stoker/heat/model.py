"""The values and the store interface of heat and pulls: signals, heats, change rates, plans.

Every method of the store is atomic, belongs to one tenant, and takes the time as an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from stoker.accounts.model import CompanyId
from stoker.base.types import Json
from stoker.heat.beliefs import AccountChangeRate, LookupObservation
from stoker.heat.heat import AccountHeat, Signal
from stoker.heat.settings import ChangeRateRule, HeatRule, TierRule
from stoker.heat.tiers import Tier
from stoker.ledger.chain import NewEntry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSignals:
    """How many signals were new or known, and the heats that the new ones changed."""

    new: int = 0
    known: int = 0
    heats: tuple[AccountHeat, ...] = ()  # of every account with a new one, in id order


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A run's plan without its decisions, which are in the plan's parts."""

    run: str
    at: datetime
    policy: str
    header: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccountColumns:
    """Accounts as a plan reads them, one row each, in id order. Times are days since 1970."""

    accounts: list[CompanyId]
    heat: NDArray[np.float64]
    posture: NDArray[np.float64]
    tier: NDArray[np.int8]  # by rank
    tier_since: NDArray[np.float64]
    surface_at: NDArray[np.float64]  # when it was last seen; -inf: never
    surface_changes: NDArray[np.float64]  # as in `core.levels.Facet`; nan: nothing is known yet
    surface_days: NDArray[np.float64]
    deep_at: NDArray[np.float64]
    deep_changes: NDArray[np.float64]
    deep_days: NDArray[np.float64]
    signals: NDArray[np.float64]  # strengths of those since the surface was last seen, together


class PullStore(Protocol):
    """One tenant's signals, heats, change rates and pull plans."""

    async def add_signals(
        self, signals: Sequence[Signal], *, rule: HeatRule, tiers: TierRule, now: datetime
    ) -> AddedSignals:
        """Insert signals and update their accounts' heat as `compute_heat` does. Atomic.

        A known id changes nothing, whatever else the signal contains. Signals may come in any
        order; one dated after `now` is stored with `now`.
        """
        ...

    async def list_signals(self, account: CompanyId, *, limit: int = 100) -> list[Signal]:
        """Return an account's signals, newest first, then by id."""
        ...

    async def delete_old_signals(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete up to `limit` of the oldest signals before then; return how many.

        Heat is not changed. A deleted signal that is imported again counts again, so `before`
        should be many half-lives ago.
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
        """Set these postures as `compute_heat` does; return how many changed. Atomic.

        Adds accounts that have no heat yet. Leaves an account that already has its posture.
        """
        ...

    async def update_heats(
        self, heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
    ) -> int:
        """Replace the expected heats, account by account; return how many were replaced. Atomic.

        Leaves an account whose heat is not exactly as expected: it was changed since it was read.
        Both lists have the same accounts in the same order, each once.
        """
        ...

    async def find_heat(self, account: CompanyId) -> AccountHeat | None:
        """Return an account's heat as last computed, or None."""
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
        """Update change rates as `learn_change_rates` does; return how many were new. Atomic.

        A known key changes nothing. Lookups are applied by time, then by key, whatever their order.
        """
        ...

    async def list_change_rates(
        self, *, after: str = "", limit: int = 1000
    ) -> list[AccountChangeRate]:
        """Return one page of estimates, in the order of their accounts' ids."""
        ...

    async def read_columns(self, *, after: str = "", limit: int = 65_536) -> AccountColumns:
        """Return one page of the accounts that have a heat, with their change rates.

        The same numbers as `list_heats` and `list_change_rates`, fast enough for a million
        accounts.
        """
        ...

    async def delete_old_lookups(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete the keys of up to `limit` of the oldest lookups before then; return how many.

        Change rates are not changed.
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
        """Return a run's plan, or None."""
        ...

    async def find_plan_part(self, run: str, number: int) -> bytes | None:
        """Return one part of a run's plan, counted from 0, or None."""
        ...

    async def list_plans(self, *, limit: int = 100) -> list[PlanRecord]:
        """Return the newest plans, by their runs' names."""
        ...

    async def delete_plans(self, runs: Sequence[str]) -> int:
        """Delete the plans of these runs with their parts; return how many there were."""
        ...
