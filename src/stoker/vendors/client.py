"""Ask vendors: a cached answer first, otherwise reserve, call, cache and settle.

A query about an account has one key for ever, so a crash, a retry or a rerun does not pay again
while the cached answer is good. `attempts` runs the calls.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from stoker.base.clock import Clock
from stoker.base.errors import PermanentError
from stoker.base.events import Observer
from stoker.base.types import Json
from stoker.budgets.charges import Refusal
from stoker.budgets.gate import BudgetService
from stoker.budgets.model import Connector, Paid
from stoker.budgets.reservations import Reservation
from stoker.budgets.windows import ResetRule
from stoker.context import TenantStores
from stoker.rate_limits.limiter import CallLimiter
from stoker.vendors.answers import (
    AnswerRecord,
    CacheableAnswer,
    VendorQuery,
    build_cache_key,
    decode_record,
)
from stoker.vendors.attempts import (
    AttemptHooks,
    AttemptRunner,
    FailureKind,
    InProgressElsewhere,
    VendorFailure,
)
from stoker.vendors.model import CachedAnswer

POLL_INTERVAL = timedelta(seconds=1)

MAX_WAIT_FOR_OTHERS = timedelta(minutes=3)  # longer than the reservations of a dead process live

CacheableT = TypeVar("CacheableT", bound=CacheableAnswer)

VendorQueryT = TypeVar("VendorQueryT", bound=VendorQuery[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult(Generic[CacheableT]):
    """An answer with what it cost this time, or what the cache saved."""

    answer: CacheableT
    at: datetime  # when the vendor gave it
    cost: Mapping[str, int] = field(default_factory=dict)
    saved: Mapping[str, int] = field(default_factory=dict)
    note: str = ""  # what a reader should know about how it was obtained


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
        ours: Callable[[], bool] | None = None,
    ) -> QueryResult[CacheableT] | Refusal | VendorFailure:
        """Return the answer to a query about an account, cached or new, or why there is none.

        Callers that ask the same meanwhile wait for the same answer, in this process and, while the
        reservation is open, in any other. Nothing is asked once `ours` says that this process no
        longer owns the work. Raises only what the store raises when it cannot be read.
        """
        key = self.build_key(connector.name, account=account, asked=query.as_json())
        started_at = self.clock.elapsed()

        async def is_cached() -> bool:
            return await self._find_cached(key, query) is not None

        notes: list[str] = []

        def note_retry(reservation: Reservation) -> None:
            notes[:] = [
                f"asked again, as the outcome of {reservation.key} is unknown: stoker holds"
            ]

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
                    hooks=AttemptHooks(
                        to_cached=lambda done, reservation_key: [
                            self._to_cached(key, connector.name, done, reservation_key)
                        ],
                        is_obsolete=is_cached,
                        is_owner=ours,
                        on_retry=note_retry,
                    ),
                    despite_breakdowns=True,
                )
                if isinstance(outcome, Paid):
                    return QueryResult(
                        answer=outcome.answer,
                        at=self.clock.now(),
                        cost=outcome.cost,
                        note="".join(notes),
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
    ) -> QueryResult[CacheableT] | None:
        cached = (await self.attempts.find_answers([key])).get(key)
        if cached is None or cached.expires_at <= self.clock.now():
            return None
        try:
            record = decode_record(cached.answer)
            answer = query.decode_answer(record.answer)
        except PermanentError:
            return None  # written by an older version, or damaged: ask again
        await self.attempts.settle_if_open(record)
        return QueryResult(answer=answer, at=cached.at, saved=cached.cost)

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
