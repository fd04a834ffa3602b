"""Pay for lookups in pull units: once a day per company, however often a run comes back.

Sites are free; pull units limit how many lookups a tenant makes. The reservation is settled as soon
as there is something to look up, so after a crash it counts as paid and the same day's lookup costs
nothing more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from stoker.accounts.model import CompanyId
from stoker.base.errors import ConflictError, PermanentError, TransientError
from stoker.base.reasons import Reason
from stoker.base.types import Depth, PullJobId
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.gate import AlreadySpent, BudgetService, to_attempt
from stoker.budgets.model import BudgetStore, Paid
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.windows import ResetRule, WindowKind, compute_window

CRAWL = "crawl"

PULL_UNITS = "pull_units"

_MAX_ATTEMPTS = 100  # earlier reservations that were released; more are a bug

_UNUSED_STATES = (ReservationStatus.RELEASED, ReservationStatus.EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidLookup:
    """A lookup that may be taken, how deep, and what it cost this time."""

    depth: Depth
    cost: Mapping[str, int] = field(default_factory=dict)
    has_target: bool = True  # or there was nothing, and nothing was paid


FindTarget = Callable[[Depth], Awaitable[bool]]
"""Says whether there is anything to look at this deep; it may have to be searched for."""


class _NoTargetError(PermanentError):
    """There is nothing to look at, so the promise comes back."""


class LookupPayments:
    """One tenant's looks at companies, in one run."""

    def __init__(
        self,
        gate: BudgetService,
        money: BudgetStore,
        *,
        prices: Mapping[Depth, int],
        reset: ResetRule,
        run: str,
        pull_id: Callable[[CompanyId, Depth, datetime], PullJobId] | None = None,
    ) -> None:
        self._gate = gate
        self._money = money
        self._run = run
        self._prices = prices
        self._reset = reset
        self._pull_id = pull_id

    async def pay(
        self, company: CompanyId, depth: Depth, *, now: datetime, finds: FindTarget | None = None
    ) -> PaidLookup | Refusal:
        """Pay for a lookup, or for a shallow one when only that fits; or return the refusal.

        Finds the target between reservation and payment: no vendor is asked when the units do not
        fit, and nothing is paid when there is nothing to look up. Raises TransientError when the
        budget cannot be read.
        """
        outcome = await self._pay_at_depth(company, depth, now, finds)
        if isinstance(outcome, Refusal) and outcome.cap and depth is Depth.DEEP:
            shallower = await self._pay_at_depth(company, Depth.SHALLOW, now, finds)
            return outcome if isinstance(shallower, Refusal) else shallower
        return outcome

    async def _pay_at_depth(
        self, company: CompanyId, depth: Depth, now: datetime, finds: FindTarget | None
    ) -> PaidLookup | Refusal:
        price = {PULL_UNITS: self._prices[depth]}
        request = SpendRequest(
            key=self._build_key(company, depth, now, price[PULL_UNITS]),
            connector=CRAWL,
            amounts=price,
            run=self._run,
            account=company,
        )

        async def at_once() -> Paid[None]:
            return Paid(answer=None, cost=price)

        for number in range(1, _MAX_ATTEMPTS + 1):
            asked = to_attempt(request, number)
            # Whichever run of today asked: to the gate, the same key in another one is a conflict.
            reservation = await self._money.find_reservation(asked.key)
            if reservation is None:
                finding = _require_target(finds, depth) if finds is not None else None
                try:
                    outcome = await self._gate.spend(asked, at_once, passage=finding)
                except _NoTargetError:
                    return PaidLookup(depth=depth, has_target=False)
                except ConflictError:
                    break  # another run has paid in this very moment
                if isinstance(outcome, Refusal):
                    if outcome.reason == Reason.BUDGET_UNREADABLE:
                        # No cap is full: the worker pool tries this company again.
                        raise TransientError(outcome.message)
                    return outcome
                if not isinstance(outcome, AlreadySpent):
                    return PaidLookup(depth=depth, cost=price)
                reservation = outcome.reservation
            if reservation.status not in _UNUSED_STATES:
                if reservation.amounts != price:
                    raise ConflictError(
                        f"{asked.key} was asked for at another price; it is the same pull until "
                        "the next stretch of time begins"
                    )
                break
        return PaidLookup(depth=depth)  # paid for earlier today

    def _build_key(self, company: CompanyId, depth: Depth, now: datetime, price: int) -> str:
        if self._pull_id is not None:
            return build_pull_key(self._pull_id(company, depth, now))
        day = compute_window(WindowKind.DAY, now, reset=self._reset).start
        return f"look/{company}/{day:%Y%m%dT%H%M}/{depth}/{price}"


@asynccontextmanager
async def _require_target(finds: FindTarget, depth: Depth) -> AsyncIterator[None]:
    if not await finds(depth):
        raise _NoTargetError("there is nothing to look at")
    yield


def build_pull_key(job: PullJobId) -> str:
    """Return what a pull's units are reserved under: the same pull is paid for once."""
    return f"pull/{job}"


async def is_paid(money: BudgetStore, job: PullJobId) -> bool:
    """Say whether a pull was paid for, or may have been; a promise that came to nothing is none."""
    for number in range(1, _MAX_ATTEMPTS + 1):
        reservation = await money.find_reservation(f"{build_pull_key(job)}/{number}")
        if reservation is None:
            return False
        if reservation.status not in _UNUSED_STATES:
            return True
    return True
