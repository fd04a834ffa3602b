"""Pay for lookups in pull units: once a day per company, however often a run comes back.

Sites are free; pull units limit how many lookups a tenant makes. The reservation is settled as soon
as there is something to look up, so after a crash it counts as paid and the same day's lookup costs
nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from stoker.accounts.model import CompanyId
from stoker.base.errors import ConflictError, TransientError
from stoker.base.reasons import Reason
from stoker.base.types import Depth, PullJobId
from stoker.budgets.charges import Refusal, SpendRequest, to_attempt
from stoker.budgets.reservations import ReservationStatus
from stoker.budgets.service import BudgetService, OpenReservation
from stoker.budgets.windows import ResetRule, WindowKind, compute_window

if TYPE_CHECKING:
    from stoker.budgets.store import BudgetStore

CRAWL = "crawl"
PULL_UNITS = "pull_units"

_MAX_ATTEMPTS = 100  # earlier reservations that were released; more are a bug
_UNUSED_STATES = (ReservationStatus.RELEASED, ReservationStatus.EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupPayment:
    """The pull units of one lookup: reserved now, or paid for earlier today (None)."""

    depth: Depth
    price: Mapping[str, int] = field(default_factory=dict)
    reserved: OpenReservation | None = None

    async def settle(self) -> Mapping[str, int]:
        """Pay what is reserved; return what it cost, nothing if another run paid meanwhile."""
        if self.reserved is None:
            return {}
        try:
            await self.reserved.mark_sent()
            await self.reserved.settle(self.price)
        except ConflictError:
            return {}
        return self.price


class LookupPayments:
    """One tenant's lookups in one run. `prices` are pull units by depth."""

    def __init__(
        self,
        budget: BudgetService,
        money: BudgetStore,
        *,
        prices: Mapping[Depth, int],
        reset: ResetRule,
        run: str,
        pull_id: Callable[[CompanyId, Depth, datetime], PullJobId] | None = None,
    ) -> None:
        self._budget = budget
        self._money = money
        self._run = run
        self._prices = prices
        self._reset = reset
        self._pull_id = pull_id

    async def reserve(
        self, company: CompanyId, depth: Depth, *, now: datetime
    ) -> LookupPayment | Refusal:
        """Reserve the units of a lookup, or of a shallow one when only those fit.

        The caller enters what is reserved, and settles it once there is something to look up.
        Raises TransientError when the budget cannot be read.
        """
        outcome = await self._reserve_at_depth(company, depth, now)
        if isinstance(outcome, Refusal) and outcome.cap and depth is Depth.DEEP:
            shallower = await self._reserve_at_depth(company, Depth.SHALLOW, now)
            return outcome if isinstance(shallower, Refusal) else shallower
        return outcome

    async def _reserve_at_depth(
        self, company: CompanyId, depth: Depth, now: datetime
    ) -> LookupPayment | Refusal:
        price = {PULL_UNITS: self._prices[depth]}
        request = SpendRequest(
            key=self._build_key(company, depth, now, price[PULL_UNITS]),
            connector=CRAWL,
            amounts=price,
            run=self._run,
            account=company,
        )
        for number in range(1, _MAX_ATTEMPTS + 1):
            attempt = to_attempt(request, number)
            # Whichever run of today asked: in another one, the same key would be a conflict.
            reservation = await self._money.find_reservation(attempt.key)
            if reservation is None:
                try:
                    outcome = await self._budget.reserve(attempt)
                except ConflictError:
                    break  # another run has paid in this very moment
                if isinstance(outcome, OpenReservation):
                    return LookupPayment(depth=depth, price=price, reserved=outcome)
                if isinstance(outcome, Refusal):
                    if outcome.reason == Reason.BUDGET_UNREADABLE:
                        # No cap is full: the worker pool tries this company again.
                        raise TransientError(outcome.message)
                    return outcome
                reservation = outcome.reservation
            if reservation.status not in _UNUSED_STATES:
                if reservation.amounts != price:
                    raise ConflictError(
                        f"{attempt.key} was asked for at another price; it is the same pull until "
                        "the next stretch of time begins"
                    )
                break
        return LookupPayment(depth=depth)  # paid for earlier today

    def _build_key(self, company: CompanyId, depth: Depth, now: datetime, price: int) -> str:
        if self._pull_id is not None:
            return build_pull_key(self._pull_id(company, depth, now))
        day = compute_window(WindowKind.DAY, now, reset=self._reset).start
        return f"look/{company}/{day:%Y%m%dT%H%M}/{depth}/{price}"


def build_pull_key(job: PullJobId) -> str:
    """Return what a pull's units are reserved under: the same pull is paid for once."""
    return f"pull/{job}"


async def find_paid(money: BudgetStore, jobs: Iterable[PullJobId]) -> set[PullJobId]:
    """Return the pulls that were paid for, or may have been; a released reservation is none."""
    paid, unknown = set[PullJobId](), set(jobs)
    for number in range(1, _MAX_ATTEMPTS + 1):
        if not unknown:
            break
        keys = {f"{build_pull_key(job)}/{number}": job for job in unknown}
        reservations = await money.find_reservations(list(keys))
        used = {key for key, each in reservations.items() if each.status not in _UNUSED_STATES}
        paid |= {keys[key] for key in used}
        unknown = {keys[key] for key in reservations if key not in used}
    return paid | unknown
