"""Ask vendors: a cached answer first, otherwise reserve, wait for a slot, call, cache and settle.

A query about an account has one key for ever, so a crash, a retry or a rerun does not pay again
while the cached answer is good. The answer is cached before its reservation is settled, so a crash
in between loses no paid answer.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from stoker.base.cancellation import run_while
from stoker.base.clock import Clock
from stoker.base.errors import (
    ConfigError,
    ConflictError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.events import ConnectorOff, ConnectorRests, Observer
from stoker.base.retry import compute_backoff, is_worth_reporting
from stoker.base.types import Json
from stoker.budgets.charges import Refusal, SpendRequest, to_attempt
from stoker.budgets.model import Connector, Paid
from stoker.budgets.reservations import Reservation, ReservationStatus
from stoker.budgets.service import (
    AlreadySpent,
    BudgetService,
    CallSlot,
    build_budget,
    build_reset_rule,
)
from stoker.budgets.windows import ResetRule
from stoker.context import TenantContext, TenantStores
from stoker.rate_limits.limiter import CallLimiter, QueueHead, build_call_limiter
from stoker.vendors.answer_cache import (
    AnswerCache,
    build_cache_key,
    build_cached_answer,
    compute_retry_at,
    is_blocked_by,
)
from stoker.vendors.model import (
    CacheableAnswer,
    CachedAnswer,
    FailureKind,
    InProgressElsewhere,
    VendorAnswer,
    VendorFailure,
    VendorQuery,
)

QueryT = TypeVar("QueryT")
AnswerT = TypeVar("AnswerT")
ResultT = TypeVar("ResultT")
CacheableT = TypeVar("CacheableT", bound=CacheableAnswer)
VendorQueryT = TypeVar("VendorQueryT", bound=VendorQuery[Any])

MAX_ATTEMPTS = 3
MAX_RETRY_WAIT = timedelta(minutes=15)  # a longer Retry-After ends the attempts
MAX_SERVER_ERRORS = 10  # in a row; then the vendor is down
POLL_INTERVAL = timedelta(seconds=1)
MAX_WAIT_FOR_OTHERS = timedelta(minutes=3)  # longer than the reservations of a dead process live

_NOT_OWNER = "nothing was asked: another process may have this work by now"

CachePaid = Callable[[Paid[AnswerT], str], Sequence[CachedAnswer]]
"""Returns a paid answer as it is cached, given the key of its reservation."""

Retryable = TransientError | UncertainError
"""The errors of an attempt that may be made again; its money is settled already."""


def always() -> bool:
    return True


async def never() -> bool:
    return False


class VendorClient:
    """Ask vendors for one tenant, in this process. `chance` returns a new number from 0 to 1.

    `reset` says when the tenant's days begin. With `rehearsing` the vendors are the sandbox's, and
    their answers are cached under other keys.
    """

    def __init__(
        self,
        store: TenantStores,
        *,
        budget: BudgetService,
        limiter: CallLimiter,
        clock: Clock,
        observer: Observer,
        chance: Callable[[], float],
        reset: ResetRule | None = None,
        is_sandbox: bool = False,
    ) -> None:
        self.cache = AnswerCache(store, clock=clock, observer=observer)
        self.clock = clock
        self._store = store
        self._budget = budget
        self._limiter = limiter
        self._observer = observer
        self._chance = chance
        self._reset = reset or ResetRule()
        self._is_sandbox = is_sandbox
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()  # callers, by query
        self._off: dict[str, tuple[str | None, str]] = {}  # by connector: in which run, and why
        self._server_errors: Counter[str] = Counter()  # by connector, since it last gave an answer
        # By connector: until when people know that it asked us to back off.
        self._reported_cooldowns: dict[str, datetime] = {}
        self._waits: dict[str, datetime] = {}  # by connector: until when we wait to ask it again

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
            return await self.cache.find_answer(key, query) is not None

        def to_cached(paid: Paid[CacheableT], reservation_key: str) -> list[CachedAnswer]:
            return [
                build_cached_answer(
                    key,
                    connector.name,
                    reservation_key=reservation_key,
                    at=self.clock.now(),
                    ttl=paid.answer.ttl,
                    cost=paid.cost,
                    answer=paid.answer.as_json(),
                    account=account,
                )
            ]

        async with self._lock_key(key):
            while True:
                if (cached := await self.cache.find_answer(key, query)) is not None:
                    return cached
                outcome = await self.run_attempts(
                    connector,
                    query,
                    key=key,
                    account=account,
                    run=run,
                    to_cached=to_cached,
                    still_owner=still_owner,
                    already_answered=is_cached,
                    retry_server_errors=True,
                )
                if not isinstance(outcome, InProgressElsewhere):
                    return outcome
                if self.clock.elapsed() - started_at > MAX_WAIT_FOR_OTHERS:
                    reason = (
                        "another process has been waiting for this answer for minutes; retry later"
                    )
                    return VendorFailure(kind=FailureKind.LATER, reason=reason)
                await self.clock.sleep(POLL_INTERVAL)

    def build_key(self, connector: str, *, account: str, asked: Json) -> str:
        """Return the cache key of a query; sandbox answers have their own."""
        return build_cache_key(connector, account=account, asked=asked, rehearsed=self._is_sandbox)

    async def run_attempts(
        self,
        connector: Connector[QueryT, AnswerT],
        query: QueryT,
        *,
        key: str,
        account: str,
        run: str | None,
        to_cached: CachePaid[AnswerT],
        to_marks: Callable[[str], Sequence[CachedAnswer]] | None = None,
        still_owner: Callable[[], bool] = always,
        already_answered: Callable[[], Awaitable[bool]] = never,
        head: QueueHead | None = None,
        weight: int = 0,
        retry_server_errors: bool = False,
    ) -> VendorAnswer[AnswerT] | Refusal | VendorFailure | InProgressElsewhere:
        """Ask, and retry while a retry may help and costs nothing.

        Attempts under a key are numbered for ever, each with its own reservation. An attempt with
        an unknown outcome blocks the next one for the rest of its day. With `retry_server_errors`,
        an attempt that the vendor itself reports as failed does not block while the vendor answers
        other queries: its reservation stays uncertain and the next attempt reserves again.

        `still_owner` says whether this process still owns the work: one that was suspended for long
        may ask another query than its successor, and both would be paid for. `already_answered` is
        asked just before the call: another worker may have asked while this one was suspended.
        `to_marks` returns what is cached before the call, given the key of the reservation.

        A caller that holds the `head` of the queue uses it for the first attempt; retries queue
        again. `weight` is what the fair queue counts; by default the largest amount of any unit.
        Raises what the store raises when it cannot be read.
        """
        try:
            request = SpendRequest(
                key=key,
                connector=connector.name,
                amounts=connector.price(query),
                run=run,
                account=account,
            )
        except PermanentError as error:
            return VendorFailure(kind=FailureKind.NEVER, reason=str(error))
        failed_number = 0  # of our attempt that the vendor failed
        note = ""
        for tried in range(1, MAX_ATTEMPTS + 1):
            off_in, reason = self._off.get(connector.name, (None, ""))
            if reason and off_in == run:
                return VendorFailure(kind=FailureKind.OFF, reason=reason)
            if not still_owner():
                return VendorFailure(kind=FailureKind.LATER, reason=_NOT_OWNER)
            number, latest = await self._store.budgets.find_latest_attempt(key)
            if latest is not None and number != failed_number:
                if self.blocks_new_attempt(latest):
                    return self.build_unknown_failure(latest)
                if latest.status in (ReservationStatus.RESERVED, ReservationStatus.SENT):
                    return InProgressElsewhere()
            note = _format_earlier(latest) or note
            outcome = await self._try_once(
                connector,
                query,
                to_attempt(request, number + 1),
                slot=(head.proceed() if head else None)
                or self._limiter.acquire_slot(
                    connector.name, weight or max(1, *request.amounts.values())
                ),
                to_cached=to_cached,
                to_marks=to_marks,
                still_owner=still_owner,
                already_answered=already_answered,
                note=note,
            )
            if isinstance(outcome, UncertainError):
                failed_number = number + 1
                failed = VendorFailure(kind=FailureKind.UNKNOWN, reason=str(outcome))
                if not retry_server_errors or self._is_down(connector.name):
                    return failed
            elif isinstance(outcome, TransientError):
                reason = str(outcome) if still_owner() else _NOT_OWNER
                failed = VendorFailure(kind=FailureKind.LATER, reason=reason)
            else:
                return outcome
            wait = await self._apply_retry_after(connector.name, outcome, tried)
            if tried == MAX_ATTEMPTS or wait > MAX_RETRY_WAIT or not still_owner():
                return failed
            with suppress(TransientError):  # the next attempt reports it
                await _wait_while_owner(self.clock.sleep(wait), still_owner)
        raise AssertionError("the last attempt always returns")

    async def _try_once(
        self,
        connector: Connector[QueryT, AnswerT],
        query: QueryT,
        request: SpendRequest,
        *,
        slot: CallSlot,
        to_cached: CachePaid[AnswerT],
        to_marks: Callable[[str], Sequence[CachedAnswer]] | None,
        still_owner: Callable[[], bool],
        already_answered: Callable[[], Awaitable[bool]],
        note: str,
    ) -> VendorAnswer[AnswerT] | Refusal | VendorFailure | InProgressElsewhere | Retryable:
        """Make one attempt: reserve, wait for a slot, call, cache the answer, settle."""
        reply: Paid[AnswerT] | None = None
        asked = False
        try:
            reserved = await self._budget.reserve(request)
            if isinstance(reserved, Refusal):
                return reserved
            if isinstance(reserved, AlreadySpent):
                return InProgressElsewhere()
            async with reserved, AsyncExitStack() as stack:
                await _wait_while_owner(stack.enter_async_context(slot), still_owner)
                await reserved.mark_sent()
                try:
                    if await already_answered():
                        await reserved.release("nothing was asked: another worker asked meanwhile")
                        return InProgressElsewhere()
                    if to_marks is not None:
                        await self._store.answers.save_answers(to_marks(reserved.key))
                except StokerError as error:
                    raise TransientError(f"no call was made: {error}") from error
                if not still_owner():  # after all waits
                    raise TransientError(_NOT_OWNER)
                asked = True
                try:
                    reply = await connector.ask(query, key=reserved.key)
                except ConfigError as error:
                    await reserved.release(str(error))
                    return self._disable_vendor(request, str(error))
                await self.cache.save_paid(to_cached(reply, reserved.key))
                await reserved.settle(reply.cost)
        except StokerError as error:
            if reply is None:
                return self._classify_error(error, request, asked=asked)
        if reply is None:
            raise AssertionError("an attempt without a reply has returned")
        # Paid for and cached, whatever failed while its cost was written or its slot was left.
        del self._server_errors[connector.name]
        await self._apply_quota(connector.name, reply)
        return VendorAnswer(answer=reply.answer, at=self.clock.now(), cost=reply.cost, note=note)

    def _classify_error(
        self, error: StokerError, request: SpendRequest, *, asked: bool
    ) -> VendorFailure | InProgressElsewhere | Retryable:
        """Return what a failure means for the query; its money is settled already."""
        if isinstance(error, TransientError):
            return error
        if isinstance(error, UncertainError) and error.broke_down:
            return error
        if isinstance(error, ConfigError):
            return self._disable_vendor(request, str(error))
        if isinstance(error, PermanentError):
            return VendorFailure(kind=FailureKind.NEVER, reason=str(error))
        if isinstance(error, ConflictError) and not asked:
            return InProgressElsewhere()  # another process reserved first
        return VendorFailure(kind=FailureKind.UNKNOWN, reason=str(error))

    async def acquire_head(
        self, stack: AsyncExitStack, connector: str, *, still_owner: Callable[[], bool] = always
    ) -> QueueHead:
        """Wait for the head of a vendor's queue before the query is known; the stack leaves it.

        Raises TransientError when this process no longer owns the work.
        """
        head = self._limiter.acquire_head(connector)
        return await _wait_while_owner(stack.enter_async_context(head), still_owner)

    async def find_reservation(self, key: str) -> Reservation | None:
        """Return the reservation a query was asked under, or None."""
        return await self._store.budgets.find_reservation(key)

    def blocks_new_attempt(self, reservation: Reservation) -> bool:
        """Return whether a query asked under this reservation must not be asked again now."""
        return is_blocked_by(reservation, now=self.clock.now(), reset=self._reset)

    def build_unknown_failure(self, reservation: Reservation) -> VendorFailure:
        """Return the failure of a query that may have been paid for."""
        retry_at = compute_retry_at(reservation, reset=self._reset)
        reason = (
            f"it is unknown whether {reservation.connector} was paid for this; it is called again "
            f"after {retry_at:%Y-%m-%d %H:%M} UTC, or once the hold is settled: stoker holds "
            f"({reservation.reason})"
        )
        return VendorFailure(kind=FailureKind.UNKNOWN, reason=reason)

    def _disable_vendor(self, request: SpendRequest, reason: str) -> VendorFailure:
        self._off[request.connector] = (request.run, reason)
        self._observer(
            ConnectorOff(
                at=self.clock.now(),
                tenant=self._store.tenant,
                connector=request.connector,
                reason=reason,
            )
        )
        return VendorFailure(kind=FailureKind.OFF, reason=reason)

    def _is_down(self, connector: str) -> bool:
        """Count a server error; return whether there were too many in a row.

        Every retry leaves another uncertain reservation, and those of one night would use up its
        caps.
        """
        self._server_errors[connector] += 1
        return self._server_errors[connector] >= MAX_SERVER_ERRORS

    async def _apply_retry_after(
        self, connector: str, error: TransientError | UncertainError, tried: int
    ) -> timedelta:
        """Return how long to wait; apply the vendor's Retry-After to all callers with its key."""
        wait = compute_backoff(tried, chance=self._chance())
        if isinstance(error, UncertainError) or error.retry_after is None:
            return wait
        now = self.clock.now()
        until = now + error.retry_after
        if is_worth_reporting(until, now=now, reported=self._reported_cooldowns.get(connector)):
            self._reported_cooldowns[connector] = until
            self._observer(
                ConnectorRests(at=now, tenant=self._store.tenant, connector=connector, until=until)
            )
        if tried < MAX_ATTEMPTS and error.retry_after <= MAX_RETRY_WAIT:
            self._waits[connector] = until
        with suppress(StokerError):  # we wait ourselves in any case
            await self._limiter.delay_until(connector, until)
        return max(wait, error.retry_after)

    async def list_cooldowns(self) -> dict[str, datetime]:
        """Return which vendors asked us to back off while queries wait for them, and until when.

        Raises what the store raises when processes share a vendor's rate.
        """
        now = self.clock.now()
        ours = {connector for connector, until in self._waits.items() if until > now}
        return await self._limiter.list_cooldowns(besides=ours)

    async def _apply_quota(self, connector: str, done: Paid[AnswerT]) -> None:
        """Slow down all callers with this key to what the vendor says is left."""
        if done.quota is None:
            return
        with suppress(StokerError):  # the answer is here; the next one repeats the quota
            resets_at = self.clock.now() + done.quota.window
            await self._limiter.apply_quota(connector, left=done.quota.left, resets_at=resets_at)

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


async def _wait_while_owner(
    waiting: Coroutine[Any, Any, ResultT], still_owner: Callable[[], bool]
) -> ResultT:
    """Wait. Raises TransientError once this process no longer owns the work."""
    return await run_while(still_owner, waiting, otherwise=TransientError(_NOT_OWNER))


def _format_earlier(latest: Reservation | None) -> str:
    """Return what a reader should know about the attempt before this one."""
    if latest is None or latest.status is not ReservationStatus.UNCERTAIN:
        return ""
    return f"called again, as the outcome of {latest.key} is unknown: stoker holds"


async def open_vendor_client(tenant: TenantContext) -> VendorClient:
    """Return a tenant's vendor client, the same each time."""
    await tenant.open(build_budget)
    return tenant.get(_build_vendor_client)


def _build_vendor_client(tenant: TenantContext) -> VendorClient:
    return VendorClient(
        tenant.store,
        budget=tenant.get(build_budget),
        limiter=tenant.get(build_call_limiter),
        clock=tenant.clock,
        observer=tenant.process.events,
        chance=random.random,
        reset=build_reset_rule(tenant.settings),
        is_sandbox=tenant.settings.sandbox.address is not None,
    )
