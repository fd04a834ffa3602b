"""Ask vendors: a cached answer first, otherwise reserve, call, cache and settle.

A query about an account has one key for ever, so a crash, a retry or a rerun does not pay again
while the cached answer is good. `attempts` runs the calls.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

from stoker.base.clock import Clock
from stoker.base.events import Observer
from stoker.base.types import Json
from stoker.budgets.charges import Refusal
from stoker.budgets.model import Connector, Paid
from stoker.budgets.service import BudgetService
from stoker.budgets.windows import ResetRule
from stoker.context import TenantStores
from stoker.rate_limits.limiter import CallLimiter
from stoker.vendors.answers import AnswerRecord, CacheableAnswer, VendorQuery, build_cache_key
from stoker.vendors.attempts import AttemptRunner, always
from stoker.vendors.model import (
    CachedAnswer,
    FailureKind,
    InProgressElsewhere,
    VendorAnswer,
    VendorFailure,
)

POLL_INTERVAL = timedelta(seconds=1)

MAX_WAIT_FOR_OTHERS = timedelta(minutes=3)  # longer than the reservations of a dead process live

CacheableT = TypeVar("CacheableT", bound=CacheableAnswer)

VendorQueryT = TypeVar("VendorQueryT", bound=VendorQuery[Any])


class VendorClient:
    """Ask vendors for one tenant. `chance` returns a new number from 0 to 1 on each call.

    `reset` says when the tenant's days begin. With `rehearsing` the vendors are the sandbox's, and
    their answers are cached under other keys.
    """

    def __init__(
        self,
        store: TenantStores,
        *,
        gate: BudgetService,
        passages: CallLimiter,
        clock: Clock,
        observer: Observer,
        chance: Callable[[], float],
        reset: ResetRule | None = None,
        rehearsing: bool = False,
    ) -> None:
        self.attempts = AttemptRunner(
            store,
            gate=gate,
            passages=passages,
            clock=clock,
            observer=observer,
            chance=chance,
            reset=reset or ResetRule(),
        )
        self.store = store
        self.clock = clock
        self._is_sandbox = rehearsing
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()

    async def ask(
        self,
        connector: Connector[VendorQueryT, CacheableT],
        query: VendorQueryT,
        *,
        account: str,
        run: str | None = None,
        still_owner: Callable[[], bool] = always,
    ) -> VendorAnswer[CacheableT] | Refusal | VendorFailure:
        """Return the answer to a query about an account, cached or new, or why there is none.

        Callers that ask the same meanwhile wait for the same answer, in this process and, while the
        reservation is open, in any other. Nothing is asked once `still_owner` says that this
        process no longer owns the work. Raises only what the store raises when it cannot be read.
        """
        key = self.build_key(connector.name, account=account, asked=query.as_json())
        started_at = self.clock.elapsed()

        async def is_cached() -> bool:
            return await self._find_cached(key, query) is not None

        async with self._lock_key(key):
            while True:
                if (cached := await self._find_cached(key, query)) is not None:
                    return cached
                outcome = await self.attempts.run_attempts(
                    connector,
                    query,
                    key=key,
                    account=account,
                    run=run,
                    to_cached=lambda paid, reservation_key: [
                        self._to_cached(key, connector.name, paid, reservation_key)
                    ],
                    still_owner=still_owner,
                    already_answered=is_cached,
                    retry_server_errors=True,
                )
                if not isinstance(outcome, InProgressElsewhere):
                    return outcome
                if self.clock.elapsed() - started_at > MAX_WAIT_FOR_OTHERS:
                    reason = "another process has been asking this for minutes; try again later"
                    return VendorFailure(kind=FailureKind.LATER, reason=reason)
                await self.clock.sleep(POLL_INTERVAL)

    def build_key(self, connector: str, *, account: str, asked: Json) -> str:
        """Return the cache key of a query; sandbox answers have their own."""
        return build_cache_key(connector, account=account, asked=asked, rehearsed=self._is_sandbox)

    async def _find_cached(
        self, key: str, query: VendorQuery[CacheableT]
    ) -> VendorAnswer[CacheableT] | None:
        known = (await self.attempts.find_known({key: query})).get(key)
        return known if isinstance(known, VendorAnswer) else None

    def _to_cached(
        self,
        key: str,
        connector: str,
        done: Paid[CacheableT],
        reservation_key: str,
    ) -> CachedAnswer:
        now = self.clock.now()
        record = AnswerRecord(
            reservation_key=reservation_key, cost=done.cost, answer=done.answer.as_json()
        )
        return CachedAnswer(
            key=key,
            connector=connector,
            answer=record.as_json(),
            cost=done.cost,
            at=now,
            expires_at=now + done.answer.ttl,
        )

    @asynccontextmanager
    async def _lock_key(self, key: str) -> AsyncIterator[None]:
        """Let one caller of this process ask a query at a time."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._waiting[key] += 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._locks[key]
