"""Ask a vendor up to three times; reserve, wait for a slot, cache the answer and settle each time.

The answer is cached before its reservation is settled, so a crash in between loses no paid answer.
This module decides which failures are retried; the caller says whether an answer exists already and
how queries are batched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, TypeVar

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
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.gate import BudgetService, CallSlot, SettledCall, to_attempt
from stoker.budgets.model import Connector, Paid
from stoker.budgets.reservations import Reservation, ReservationStatus, find_alert
from stoker.budgets.windows import ResetRule
from stoker.context import TenantStores
from stoker.rate_limits.limiter import CallLimiter, QueueHead
from stoker.vendors.answers import AnswerRecord, compute_retry_at, is_blocked_by
from stoker.vendors.model import CachedAnswer

QueryT = TypeVar("QueryT")

AnswerT = TypeVar("AnswerT")

ContextT = TypeVar("ContextT")

MAX_ATTEMPTS = 3

MAX_RETRY_WAIT = timedelta(minutes=15)  # a longer Retry-After ends the attempts

MAX_SERVER_ERRORS = 10  # in a row; then the vendor is down

MAX_UNSAVED = 10_000  # paid answers held in memory while the store does not take them

_NOT_OWNER = "nothing was asked: another process may have this work by now"


class FailureKind(StrEnum):
    """Say what may be done next after a query that got no answer."""

    LATER = "later"  # nothing was done; another time it may work
    NEVER = "never"  # nothing was done, and this query will not work
    UNKNOWN = "unknown"  # it may have been charged; not asked again before another day
    OFF = "off"  # nothing will work with this connector until a person acts


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorFailure:
    """The query got no answer; `reason` is a sentence that says why."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgressElsewhere:
    """Another worker is asking the same query; read the cache again for its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptHooks(Generic[AnswerT]):
    """Callbacks of one query: how its answer is cached, and when it must not be asked.

    `to_cached` and `to_marks` get the key of the reservation; a mark is cached before the call.
    `is_obsolete` is asked just before the call: another worker may have asked while this one was
    suspended. `is_owner` says whether this process still owns the work: a process that was
    suspended for long may ask another query than its successor, and both would be paid for.
    `on_retry` gets an earlier reservation whose outcome is unknown, when the query is asked again
    all the same.
    """

    to_cached: Callable[[Paid[AnswerT], str], Sequence[CachedAnswer]]
    to_marks: Callable[[str], Sequence[CachedAnswer]] | None = None
    is_obsolete: Callable[[], Awaitable[bool]] | None = None
    is_owner: Callable[[], bool] | None = None
    on_retry: Callable[[Reservation], None] | None = None


class AttemptRunner:
    """Run one tenant's attempts to ask vendors, in this process."""

    def __init__(
        self,
        store: TenantStores,
        *,
        gate: BudgetService,
        passages: CallLimiter,
        clock: Clock,
        observer: Observer,
        chance: Callable[[], float],
        reset: ResetRule,
    ) -> None:
        self._store = store
        self._reset = reset
        self._gate = gate
        self._passages = passages
        self._clock = clock
        self._observer = observer
        self._chance = chance
        self._off: dict[str, tuple[str | None, str]] = {}  # by connector: in which run, and why
        self._server_errors: Counter[str] = Counter()  # by connector, since it last gave an answer
        # By connector: until when people know that it asked us to back off.
        self._reported_cooldowns: dict[str, datetime] = {}
        self._waits: dict[str, datetime] = {}  # by connector: until when we wait to ask it again
        self._unsaved: dict[str, CachedAnswer] = {}  # by key: paid for, and not in the store yet

    async def run_attempts(
        self,
        connector: Connector[QueryT, AnswerT],
        query: QueryT,
        *,
        key: str,
        account: str,
        run: str | None,
        hooks: AttemptHooks[AnswerT],
        front: QueueHead | None = None,
        weight: int = 0,
        despite_breakdowns: bool = False,
    ) -> Paid[AnswerT] | Refusal | VendorFailure | InProgressElsewhere:
        """Ask, and retry while a retry may help and costs nothing.

        Attempts under a key are numbered for ever, each with its own reservation. An attempt with
        an unknown outcome blocks the next one for the rest of its day. With `despite_breakdowns`,
        an attempt that the vendor itself reports as failed does not block while the vendor answers
        other queries: its reservation stays uncertain and the next attempt reserves again.

        A caller that holds the queue's `front` uses it for the first attempt; retries queue again.
        `weight` is what the fair queue counts; by default the largest amount of any unit. Raises
        what the store raises when it cannot be read.
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
        for tried in range(1, MAX_ATTEMPTS + 1):
            off_in, reason = self._off.get(connector.name, (None, ""))
            if reason and off_in == run:
                return VendorFailure(kind=FailureKind.OFF, reason=reason)
            if not _is_owner(hooks):
                return VendorFailure(kind=FailureKind.LATER, reason=_NOT_OWNER)
            number, latest = await self._find_latest_attempt(key)
            if latest is not None and number != failed_number:
                if self.blocks_new_attempt(latest):
                    return self.build_unknown_failure(latest)
                if latest.status in (ReservationStatus.RESERVED, ReservationStatus.SENT):
                    return InProgressElsewhere()
            if (
                latest is not None
                and latest.status is ReservationStatus.UNCERTAIN
                and hooks.on_retry is not None
            ):
                hooks.on_retry(latest)
            attempt = _Attempt(
                connector, query, to_attempt(request, number + 1).key, hooks, runner=self
            )
            slot = (front.proceed() if front else None) or self._passages.acquire_slot(
                request.connector, weight or max(1, *request.amounts.values())
            )
            if hooks.is_owner is not None:
                slot = _enter_while_owner(slot, is_owner=hooks.is_owner)
            outcome = await self._try_once(request, number + 1, attempt, slot)
            if isinstance(outcome, _ObsoleteError):
                return InProgressElsewhere()
            if isinstance(outcome, Paid):
                del self._server_errors[connector.name]
                await self._apply_quota(connector.name, outcome)
            if isinstance(outcome, UncertainError):
                failed_number = number + 1
                failed = VendorFailure(kind=FailureKind.UNKNOWN, reason=str(outcome))
                if not despite_breakdowns or self._is_down(connector.name):
                    return failed
            elif isinstance(outcome, TransientError):
                reason = str(outcome) if _is_owner(hooks) else _NOT_OWNER
                failed = VendorFailure(kind=FailureKind.LATER, reason=reason)
            else:
                return outcome
            wait = await self._apply_retry_after(connector.name, outcome, tried)
            if tried == MAX_ATTEMPTS or wait > MAX_RETRY_WAIT or not _is_owner(hooks):
                return failed
            with suppress(TransientError):  # the next attempt reports it
                await self._sleep_while_owner(wait, hooks)
        raise AssertionError("the last attempt always returns")

    def acquire_head(
        self, connector: str, *, ours: Callable[[], bool] | None = None
    ) -> AbstractAsyncContextManager[QueueHead]:
        """Wait for the head of a vendor's queue before the query is known.

        Raises TransientError when this process no longer owns the work.
        """
        front = self._passages.acquire_head(connector)
        return front if ours is None else _enter_while_owner(front, is_owner=ours)

    async def _sleep_while_owner(self, wait: timedelta, hooks: AttemptHooks[AnswerT]) -> None:
        sleeping = self._clock.sleep(wait)
        if hooks.is_owner is None:
            await sleeping
        else:
            await run_while(hooks.is_owner, sleeping, otherwise=TransientError(_NOT_OWNER))

    async def find_answers(self, keys: Sequence[str]) -> dict[str, CachedAnswer]:
        """Return the cached answers under these keys by key, also those not saved yet.

        Answers that an earlier call could not save are saved now if the store takes them.
        """
        for answer in list(self._unsaved.values()):
            await self.save_paid([answer])
        saved = await self._store.answers.find_answers(keys)
        return saved | {key: self._unsaved[key] for key in keys if key in self._unsaved}

    async def save_paid(self, answers: Sequence[CachedAnswer]) -> None:
        """Save paid answers; hold those that the store does not take, so none is paid for twice."""
        try:
            await self._store.answers.save_answers(answers)
        except StokerError:
            self._unsaved |= {answer.key: answer for answer in answers}
            while len(self._unsaved) > MAX_UNSAVED:
                del self._unsaved[next(iter(self._unsaved))]
        else:
            for answer in answers:
                self._unsaved.pop(answer.key, None)

    async def save_marks(self, marks: Sequence[CachedAnswer]) -> None:
        """Save marks of queries about to be asked. Raises what the store raises."""
        await self._store.answers.save_answers(marks)

    async def find_reservation(self, key: str) -> Reservation | None:
        """Return the reservation a query was asked under, or None."""
        return await self._store.money.find_reservation(key)

    def blocks_new_attempt(self, reservation: Reservation) -> bool:
        """Return whether a query asked under this reservation must not be asked again now."""
        return is_blocked_by(reservation, now=self._clock.now(), reset=self._reset)

    def build_unknown_failure(self, reservation: Reservation) -> VendorFailure:
        """Return the failure of a query that may have been paid for."""
        retry_at = compute_retry_at(reservation, reset=self._reset)
        reason = (
            f"whether {reservation.connector} was paid for this is not known; it is asked again "
            f"from {retry_at:%Y-%m-%d %H:%M} UTC on, or once a person has settled it: stoker holds "
            f"({reservation.reason})"
        )
        return VendorFailure(kind=FailureKind.UNKNOWN, reason=reason)

    async def settle_if_open(self, record: AnswerRecord) -> None:
        """Settle the reservation of a cached answer whose worker died before settling it."""
        with suppress(StokerError):  # the answer is good whatever becomes of its reservation
            reservation = await self._store.money.find_reservation(record.reservation_key)
            if reservation is None or reservation.status is ReservationStatus.SETTLED:
                return
            now = self._clock.now()
            reservation = await self._store.money.settle(
                record.reservation_key, record.cost, now=now
            )
            alert = find_alert(reservation, tenant=self._store.tenant, at=now)
            if alert is not None:
                self._observer(alert)

    async def _try_once(
        self, request: SpendRequest, number: int, attempt: _Attempt[QueryT, AnswerT], slot: CallSlot
    ) -> (
        Paid[AnswerT]
        | Refusal
        | VendorFailure
        | InProgressElsewhere
        | TransientError
        | UncertainError
    ):
        """Try once. A returned error may be retried."""
        try:
            outcome = await self._gate.spend(
                to_attempt(request, number), attempt.call_vendor, passage=slot
            )
        except StokerError as error:
            return attempt.done or self._classify_error(
                error, request, has_started=attempt.has_started
            )
        if isinstance(outcome, Refusal):
            return outcome
        return (
            InProgressElsewhere()
            if attempt.done is None or not isinstance(outcome, SettledCall)
            else attempt.done
        )

    def _classify_error(
        self, error: StokerError, request: SpendRequest, *, has_started: bool
    ) -> VendorFailure | InProgressElsewhere | TransientError | UncertainError:
        """Return what a failure means for the query; its money is settled already."""
        if isinstance(error, TransientError):
            return error
        if isinstance(error, UncertainError) and error.broke_down:
            return error
        if isinstance(error, ConfigError | _VendorDisabledError):
            return self._disable_vendor(request, str(error))
        if isinstance(error, PermanentError):
            return VendorFailure(kind=FailureKind.NEVER, reason=str(error))
        if isinstance(error, ConflictError) and not has_started:
            return InProgressElsewhere()  # another process reserved first
        return VendorFailure(kind=FailureKind.UNKNOWN, reason=str(error))

    def _disable_vendor(self, request: SpendRequest, reason: str) -> VendorFailure:
        self._off[request.connector] = (request.run, reason)
        self._observer(
            ConnectorOff(
                at=self._clock.now(),
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
        now = self._clock.now()
        until = now + error.retry_after
        if is_worth_reporting(until, now=now, told=self._reported_cooldowns.get(connector)):
            self._reported_cooldowns[connector] = until
            self._observer(
                ConnectorRests(at=now, tenant=self._store.tenant, connector=connector, until=until)
            )
        if tried < MAX_ATTEMPTS and error.retry_after <= MAX_RETRY_WAIT:
            self._waits[connector] = until
        with suppress(StokerError):  # we wait ourselves in any case
            await self._passages.delay_until(connector, until)
        return max(wait, error.retry_after)

    async def list_cooldowns(self) -> dict[str, datetime]:
        """Return which vendors asked us to back off while queries wait for them, and until when.

        Raises what the store raises when processes share a vendor's rate.
        """
        now = self._clock.now()
        ours = {connector for connector, until in self._waits.items() if until > now}
        return await self._passages.list_cooldowns(besides=ours)

    async def _apply_quota(self, connector: str, done: Paid[AnswerT]) -> None:
        """Slow down all callers with this key to what the vendor says is left."""
        if done.quota is None:
            return
        with suppress(StokerError):  # the answer is here; the next one repeats the quota
            resets_at = self._clock.now() + done.quota.window
            await self._passages.apply_quota(connector, left=done.quota.left, resets_at=resets_at)

    async def _find_latest_attempt(self, key: str) -> tuple[int, Reservation | None]:
        """Return the number and reservation of the latest attempt; numbers have no gaps."""
        money = self._store.money
        low, high, latest = 0, 1, None
        while (reservation := await money.find_reservation(f"{key}/{high}")) is not None:
            low, high, latest = high, high * 2, reservation
        while high - low > 1:
            middle = (low + high) // 2
            if (reservation := await money.find_reservation(f"{key}/{middle}")) is None:
                high = middle
            else:
                low, latest = middle, reservation
        return low, latest


class _VendorDisabledError(PermanentError):
    """The vendor refuses everything; nothing was bought, so the reservation is released."""


class _ObsoleteError(TransientError):
    """Another worker asked the same query meanwhile; nothing was bought."""


class _Attempt(Generic[QueryT, AnswerT]):
    """One call of the vendor, and the answer it returned."""

    def __init__(
        self,
        connector: Connector[QueryT, AnswerT],
        query: QueryT,
        key: str,
        hooks: AttemptHooks[AnswerT],
        *,
        runner: AttemptRunner,
    ) -> None:
        self._connector = connector
        self._query = query
        self._key = key
        self._hooks = hooks
        self._runner = runner
        self.has_started = False
        self.done: Paid[AnswerT] | None = None

    async def call_vendor(self) -> Paid[AnswerT]:
        await self._prepare()
        self.has_started = True
        try:
            done = await self._connector.ask(self._query, key=self._key)
        except ConfigError as error:
            raise _VendorDisabledError(str(error)) from error
        self.done = done
        await self._runner.save_paid(self._hooks.to_cached(done, self._key))
        return done

    async def _prepare(self) -> None:
        """Check at the last moment whether the query must still be asked, and mark it as asked."""
        hooks = self._hooks
        try:
            if hooks.is_obsolete is not None and await hooks.is_obsolete():
                raise _ObsoleteError("nothing was asked: another worker asked meanwhile")
            if hooks.to_marks is not None:
                await self._runner.save_marks(hooks.to_marks(self._key))
        except _ObsoleteError:
            raise
        except StokerError as error:
            raise TransientError(f"nothing was asked: {error}") from error
        if not _is_owner(hooks):  # after all waits
            raise TransientError(_NOT_OWNER)


@asynccontextmanager
async def _enter_while_owner(
    slot: AbstractAsyncContextManager[ContextT], *, is_owner: Callable[[], bool]
) -> AsyncIterator[ContextT]:
    """Enter a slot. Raises TransientError once this process no longer owns the work."""
    async with AsyncExitStack() as stack:
        entering = stack.enter_async_context(slot)
        yield await run_while(is_owner, entering, otherwise=TransientError(_NOT_OWNER))


def _is_owner(hooks: AttemptHooks[AnswerT]) -> bool:
    return hooks.is_owner is None or hooks.is_owner()
