"""The one way to ask a vendor: a kept answer first, otherwise paid for, kept, and settled.

A question about an account has one key for ever, so a crash, a retry or a rerun does not pay for
its answer again while that is good. How attempts go is `attempting`'s business.
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

MAX_WAIT_FOR_OTHERS = timedelta(minutes=3)  # longer than the promises of a dead process live

CacheableT = TypeVar("CacheableT", bound=CacheableAnswer)

VendorQueryT = TypeVar("VendorQueryT", bound=VendorQuery[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult(Generic[CacheableT]):
    """An answer: what it cost this time, or what it saved, because it was paid for before."""

    answer: CacheableT
    at: datetime  # when the vendor gave it
    cost: Mapping[str, int] = field(default_factory=dict)
    saved: Mapping[str, int] = field(default_factory=dict)
    note: str = ""  # what is worth knowing about how it was got


class VendorClient:
    """One tenant's questions to vendors. `chance` is a number from 0 to 1, anew each time.

    `reset` says when its days begin. `rehearsing` says that vendors are make-believe, so that their
    answers are kept apart.
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
        question: VendorQueryT,
        *,
        account: str,
        run: str | None = None,
        good_for: timedelta | None = None,
        ours: Callable[[], bool] | None = None,
    ) -> QueryResult[CacheableT] | Refusal | VendorFailure:
        """Return the answer to a question about an account, kept or new; or why there is none.

        `ttl` shortens how long the answer is kept, never lengthens it. Whoever asks the same
        meanwhile waits and gets the same answer, in this process and, while its promise stands,
        in any other. Once it is no longer `is_owner` to ask, nothing is. Raises only what the store
        raises when it cannot be read.
        """
        key = self.build_key(connector.name, account=account, asked=question.as_json())
        began_at = self.clock.elapsed()

        async def answered_meanwhile() -> bool:
            return await self._find_cached(key, question) is not None

        notes: list[str] = []

        def asked_anew(hold: Reservation) -> None:
            notes[:] = [f"asked anew, as nobody knows what became of {hold.key}: stoker holds"]

        async with self._lock_key(key):
            while True:
                if (found := await self._find_cached(key, question)) is not None:
                    return found
                outcome = await self.attempts.run_attempts(
                    connector,
                    question,
                    key=key,
                    account=account,
                    run=run,
                    keeping=AttemptHooks(
                        to_cached=lambda done, under: [
                            self._to_cached(key, connector.name, done, under, good_for)
                        ],
                        is_obsolete=answered_meanwhile,
                        is_owner=ours,
                        on_retry=asked_anew,
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
                if self.clock.elapsed() - began_at > MAX_WAIT_FOR_OTHERS:
                    because = "another process has been asking this for long; it is left to it"
                    return VendorFailure(kind=FailureKind.LATER, reason=because)
                await self.clock.sleep(POLL_INTERVAL)

    def build_key(self, connector: str, *, account: str, asked: Json) -> str:
        """Return what a question is known by, here and now."""
        return build_cache_key(connector, account=account, asked=asked, rehearsed=self._is_sandbox)

    async def _find_cached(
        self, key: str, question: VendorQuery[CacheableT]
    ) -> QueryResult[CacheableT] | None:
        kept = (await self.store.answers.find_answers([key])).get(key)
        if kept is None or kept.expires_at <= self.clock.now():
            return None
        try:
            record = decode_record(kept.answer)
            answer = question.decode_answer(record.answer)
        except PermanentError:
            return None  # of an older version of ours, or damaged: as good as none
        await self.attempts.settle_if_open(record)
        return QueryResult(answer=answer, at=kept.at, saved=kept.cost)

    def _to_cached(
        self,
        key: str,
        connector: str,
        done: Paid[CacheableT],
        under: str,
        good_for: timedelta | None,
    ) -> CachedAnswer:
        now, worth = self.clock.now(), done.answer.ttl
        record = AnswerRecord(reservation_key=under, cost=done.cost, answer=done.answer.as_json())
        return CachedAnswer(
            key=key,
            connector=connector,
            answer=record.as_json(),
            cost=done.cost,
            at=now,
            expires_at=now + (worth if good_for is None else min(worth, good_for)),
        )

    @asynccontextmanager
    async def _lock_key(self, key: str) -> AsyncIterator[None]:
        """Let one caller of this process ask a question at a time."""
        line = self._locks.setdefault(key, asyncio.Lock())
        self._waiting[key] += 1
        try:
            async with line:
                yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._locks[key]
