"""The right to look at a company, paid in pull units: once a day, however often we come back.

Sites are free; what is rationed is our own attention. The promise is settled as soon as there is
something to look at, so a crash afterwards finds it paid, and looking again the same day costs
nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from stoker.accounts.model import CompanyId
from stoker.base.errors import ConflictError, PermanentError
from stoker.base.types import Depth, PullJobId
from stoker.budgets.charges import Refused, Request
from stoker.budgets.gate import Earlier, Gate, attempt
from stoker.budgets.model import Done, MoneyStore
from stoker.budgets.reservations import Phase
from stoker.budgets.windows import ResetRule, WindowKind, window_at

CONNECTOR = "crawl"

UNIT = "pull_units"

_ATTEMPTS = 100  # promises that came to nothing before; more are somebody's mistake

_NOTHING_CAME_OF_IT = (Phase.RELEASED, Phase.EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look that may be taken, how deep, and what it cost this time."""

    depth: Depth
    cost: Mapping[str, int] = field(default_factory=dict)
    at_anything: bool = True  # or there was nothing, and nothing was paid


Finds = Callable[[Depth], Awaitable[bool]]
"""Says whether there is anything to look at this deep; it may have to be searched for."""


class _NothingThereError(PermanentError):
    """There is nothing to look at, so the promise comes back."""


class Looking:
    """One tenant's looks at companies, in one run."""

    def __init__(
        self,
        gate: Gate,
        money: MoneyStore,
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

    async def allowed(
        self, company: CompanyId, depth: Depth, *, now: datetime, finds: Finds | None = None
    ) -> Look | Refused:
        """Pay for a look, or for a shallower one when only that fits; or say who refused.

        What there is to look at is found in between: once the units are promised, and before they
        are paid. Nobody is asked anything when they do not fit, and nothing is paid for nothing.
        """
        outcome = await self._paid(company, depth, now, finds)
        if isinstance(outcome, Refused) and outcome.cap and depth is Depth.DEEP:
            shallower = await self._paid(company, Depth.SHALLOW, now, finds)
            return outcome if isinstance(shallower, Refused) else shallower
        return outcome

    async def _paid(
        self, company: CompanyId, depth: Depth, now: datetime, finds: Finds | None
    ) -> Look | Refused:
        price = {UNIT: self._prices[depth]}
        request = Request(
            key=self._key(company, depth, now, price[UNIT]),
            connector=CONNECTOR,
            amounts=price,
            run=self._run,
            account=company,
        )

        async def at_once() -> Done[None]:
            return Done(answer=None, cost=price)

        for number in range(1, _ATTEMPTS + 1):
            asked = attempt(request, number)
            # Whichever run of today asked: to the gate, the same key in another one is a conflict.
            hold = await self._money.hold(asked.key)
            if hold is None:
                finding = _found(finds, depth) if finds is not None else None
                try:
                    outcome = await self._gate.pay_for(asked, at_once, passage=finding)
                except _NothingThereError:
                    return Look(depth=depth, at_anything=False)
                except ConflictError:
                    break  # another run has paid in this very moment
                if isinstance(outcome, Refused):
                    return outcome
                if not isinstance(outcome, Earlier):
                    return Look(depth=depth, cost=price)
                hold = outcome.hold
            if hold.phase not in _NOTHING_CAME_OF_IT:
                if hold.amounts != price:
                    raise ConflictError(
                        f"{asked.key} was asked for at another price; it is the same pull until "
                        "the next stretch of time begins"
                    )
                break
        return Look(depth=depth)  # paid for earlier today

    def _key(self, company: CompanyId, depth: Depth, now: datetime, price: int) -> str:
        if self._pull_id is not None:
            return pull_key(self._pull_id(company, depth, now))
        day = window_at(WindowKind.DAY, now, reset=self._reset).start
        return f"look/{company}/{day:%Y%m%dT%H%M}/{depth}/{price}"


@asynccontextmanager
async def _found(finds: Finds, depth: Depth) -> AsyncIterator[None]:
    if not await finds(depth):
        raise _NothingThereError("there is nothing to look at")
    yield


def pull_key(job: PullJobId) -> str:
    """Return what a pull's units are promised under: the same pull is paid for once."""
    return f"pull/{job}"


async def claimed(money: MoneyStore, job: PullJobId) -> bool:
    """Say whether a pull was paid for, or may have been; a promise that came to nothing is none."""
    for number in range(1, _ATTEMPTS + 1):
        hold = await money.hold(f"{pull_key(job)}/{number}")
        if hold is None:
            return False
        if hold.phase not in _NOTHING_CAME_OF_IT:
            return True
    return True
