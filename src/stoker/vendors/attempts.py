"""Ask a vendor up to three times; reserve, wait for a slot, cache the answer and settle each time.

The answer is cached before its reservation is settled, so a crash in between loses no paid answer.
This module decides which failures are retried; the caller says whether an answer exists already and
how queries are batched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
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
from stoker.budgets.charges import Refusal, SpendRequest, to_attempt
from stoker.budgets.model import Connector, Paid
from stoker.budgets.reservations import Reservation, ReservationStatus, find_alert
from stoker.budgets.service import AlreadySpent, BudgetService, CallSlot
from stoker.budgets.windows import ResetRule
from stoker.context import TenantStores
from stoker.rate_limits.limiter import CallLimiter, QueueHead
from stoker.vendors.answers import (
    AnswerRecord,
    VendorQuery,
    compute_retry_at,
    decode_record,
    is_blocked_by,
)
from stoker.vendors.model import (
    CachedAnswer,
    FailureKind,
    InProgressElsewhere,
    VendorAnswer,
    VendorFailure,
)

QueryT = TypeVar("QueryT")
AnswerT = TypeVar("AnswerT")
ContextT = TypeVar("ContextT")

MAX_ATTEMPTS = 3
MAX_RETRY_WAIT = timedelta(minutes=15)  # a longer Retry-After ends the attempts
MAX_SERVER_ERRORS = 10  # in a row; then the vendor is down
MAX_UNSAVED = 10_000  # paid answers held in memory while the store does not take them

_NOT_OWNER = "nothing was asked: another process may have this work by now"

CachePaid = Callable[[Paid[AnswerT], str], Sequence[CachedAnswer]]
"""Returns a paid answer as it is cached, given the key of its reservation."""


def always() -> bool:
    return True


async def never() -> bool:
    return False


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
        self._budget = gate
        self._limiter = passages
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
            number, latest = await self._find_latest_attempt(key)
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
                await _run_while_owner(self._clock.sleep(wait), still_owner)
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
    ) -> (
        VendorAnswer[AnswerT]
        | Refusal
        | VendorFailure
        | InProgressElsewhere
        | TransientError
        | UncertainError
    ):
        """Make one attempt. A returned error may be retried; its money is settled already."""
        reply: Paid[AnswerT] | None = None
        asked = False
        try:
            reserved = await self._budget.reserve(request)
            if isinstance(reserved, Refusal):
                return reserved
            if isinstance(reserved, AlreadySpent):
                return InProgressElsewhere()
            async with reserved, _enter_while_owner(slot, still_owner):
                await reserved.mark_sent()
                try:
                    if await already_answered():
                        await reserved.release("nothing was asked: another worker asked meanwhile")
                        return InProgressElsewhere()
                    if to_marks is not None:
                        await self._store.answers.save_answers(to_marks(reserved.key))
                except StokerError as error:
                    raise TransientError(f"nothing was asked: {error}") from error
                if not still_owner():  # after all waits
                    raise TransientError(_NOT_OWNER)
                asked = True
                try:
                    reply = await connector.ask(query, key=reserved.key)
                except ConfigError as error:
                    await reserved.release(str(error))
                    return self._disable_vendor(request, str(error))
                await self.save_paid(to_cached(reply, reserved.key))
                await reserved.settle(reply.cost)
        except StokerError as error:
            if reply is None:
                return self._classify_error(error, request, asked=asked)
        if reply is None:
            raise AssertionError("an attempt without a reply has returned")
        # Paid for and cached, whatever failed while its cost was written or its slot was left.
        del self._server_errors[connector.name]
        await self._apply_quota(connector.name, reply)
        return VendorAnswer(answer=reply.answer, at=self._clock.now(), cost=reply.cost, note=note)

    def _classify_error(
        self, error: StokerError, request: SpendRequest, *, asked: bool
    ) -> VendorFailure | InProgressElsewhere | TransientError | UncertainError:
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

    def acquire_head(
        self, connector: str, *, still_owner: Callable[[], bool] = always
    ) -> AbstractAsyncContextManager[QueueHead]:
        """Wait for the head of a vendor's queue before the query is known.

        Raises TransientError when this process no longer owns the work.
        """
        return _enter_while_owner(self._limiter.acquire_head(connector), still_owner)

    async def find_known(
        self, queries: Mapping[str, VendorQuery[AnswerT]]
    ) -> dict[str, VendorAnswer[AnswerT] | AnswerRecord]:
        """Return what is cached for these queries, by key: good answers, and marks without one.

        Answers that an earlier call could not save are saved now if the store takes them; a
        reservation whose worker died before settling it is settled. What has another form, from an
        older version or damaged, is left out and asked again.
        """
        for answer in list(self._unsaved.values()):
            await self.save_paid([answer])
        cached = await self._store.answers.find_answers(list(queries)) if queries else {}
        cached |= {key: self._unsaved[key] for key in queries if key in self._unsaved}
        known: dict[str, VendorAnswer[AnswerT] | AnswerRecord] = {}
        settled: set[str] = set()
        for key, answer in cached.items():
            with suppress(PermanentError):
                record = decode_record(answer.answer)
                if record.answer is None:
                    known[key] = record
                    continue
                decoded = queries[key].decode_answer(record.answer)
                if record.reservation_key not in settled:
                    settled.add(record.reservation_key)
                    await self._settle_if_open(record)
                if answer.expires_at > self._clock.now():
                    known[key] = VendorAnswer(answer=decoded, at=answer.at, saved=answer.cost)
        return known

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

    async def _settle_if_open(self, record: AnswerRecord) -> None:
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
            await self._limiter.delay_until(connector, until)
        return max(wait, error.retry_after)

    async def list_cooldowns(self) -> dict[str, datetime]:
        """Return which vendors asked us to back off while queries wait for them, and until when.

        Raises what the store raises when processes share a vendor's rate.
        """
        now = self._clock.now()
        ours = {connector for connector, until in self._waits.items() if until > now}
        return await self._limiter.list_cooldowns(besides=ours)

    async def _apply_quota(self, connector: str, done: Paid[AnswerT]) -> None:
        """Slow down all callers with this key to what the vendor says is left."""
        if done.quota is None:
            return
        with suppress(StokerError):  # the answer is here; the next one repeats the quota
            resets_at = self._clock.now() + done.quota.window
            await self._limiter.apply_quota(connector, left=done.quota.left, resets_at=resets_at)

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


@asynccontextmanager
async def _enter_while_owner(
    slot: AbstractAsyncContextManager[ContextT], still_owner: Callable[[], bool]
) -> AsyncIterator[ContextT]:
    """Enter a slot. Raises TransientError once this process no longer owns the work."""
    async with AsyncExitStack() as stack:
        yield await _run_while_owner(stack.enter_async_context(slot), still_owner)


async def _run_while_owner(
    waiting: Coroutine[Any, Any, ContextT], still_owner: Callable[[], bool]
) -> ContextT:
    return await run_while(still_owner, waiting, otherwise=TransientError(_NOT_OWNER))


def _format_earlier(latest: Reservation | None) -> str:
    """Return what a reader should know about the attempt before this one."""
    if latest is None or latest.status is not ReservationStatus.UNCERTAIN:
        return ""
    return f"asked again, as the outcome of {latest.key} is unknown: stoker holds"
