"""Run one kind of work for several tenants side by side, and find the worst end among them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from stoker.base.errors import StokerError
from stoker.base.types import TenantId
from stoker.runs.model import RunState

_Result = TypeVar("_Result")

STATES_WORST_FIRST = (RunState.FAILED, RunState.CANCELLED, RunState.PARTIAL, RunState.DONE)


async def run_for_tenants(
    tenants: Sequence[TenantId],
    work: Callable[[TenantId], Awaitable[_Result]],
    *,
    concurrency: int,
) -> tuple[list[_Result], list[tuple[TenantId, StokerError]]]:
    """Run the work for each tenant, at most `concurrency` at once.

    Returns the results, and the tenants whose work raised: one tenant's error does not stop the
    others. Any other exception, and cancellation, ends all.
    """
    slots = asyncio.Semaphore(concurrency)

    async def run(tenant: TenantId) -> _Result | StokerError:
        async with slots:
            try:
                return await work(tenant)
            except StokerError as error:
                return error

    ended = await asyncio.gather(*(run(tenant) for tenant in tenants))
    done = [each for each in ended if not isinstance(each, StokerError)]
    failed = [
        (tenant, each)
        for tenant, each in zip(tenants, ended, strict=True)
        if isinstance(each, StokerError)
    ]
    return done, failed


def find_worst_state(states: Iterable[RunState]) -> RunState:
    """Return the state a script should act on; DONE when there were no runs."""
    found = set(states)
    return next((state for state in STATES_WORST_FIRST if state in found), RunState.DONE)
