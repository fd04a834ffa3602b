"""A vendor asked up to three times: each attempt promised, let through, kept and settled.

An answer is kept before it is settled, so that whoever dies in between has paid for something.
What each kind of failure means for trying again is here; whether an answer is there already, and
how questions are bundled, is told by whoever asks.
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

MAX_RETRY_WAIT = timedelta(minutes=15)  # a vendor that wants us gone for longer is left alone

MAX_SERVER_ERRORS = 10  # so often broken down and never well in between, a vendor is down

_NOT_OWNER = "nothing was asked: another process may have this work by now"


class FailureKind(StrEnum):
    """How asking can end without an answer: what may be done next."""

    LATER = "later"  # nothing was done; another time it may work
    NEVER = "never"  # nothing was done, and this question will not work
    UNKNOWN = "unknown"  # it may have been charged; not asked again before another day
    OFF = "off"  # nothing will work with this connector until a person acts


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorFailure:
    """There is no answer, and why, in a sentence."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgressElsewhere:
    """Somebody else is asking this very question; look again for their answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptHooks(Generic[AnswerT]):
    """What is kept of a question: of its answer, and where needed a mark before it is asked.

    Both are given the key of the promise it is asked under. `is_obsolete` says whether somebody
    else has
    asked it meanwhile: a process may be held still for so long that another one does its work.
    `is_owner` says whether it is still ours to ask: whoever was held still that long may have come
    to
    another question than the one who does its work now, and both would be paid for. `on_retry` is
    told
    of an earlier promise nobody knows the outcome of, when it is asked all the same.
    """

    to_cached: Callable[[Paid[AnswerT], str], Sequence[CachedAnswer]]
    to_marks: Callable[[str], Sequence[CachedAnswer]] | None = None
    is_obsolete: Callable[[], Awaitable[bool]] | None = None
    is_owner: Callable[[], bool] | None = None
    on_retry: Callable[[Reservation], None] | None = None


class AttemptRunner:
    """One tenant's attempts to ask vendors, in this process."""

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
        self._reported_cooldowns: dict[
            str, datetime
        ] = {}  # by connector: until when people know it rests
        self._waits: dict[str, datetime] = {}  # by connector: until when we wait to ask it again

    async def run_attempts(
        self,
        connector: Connector[QueryT, AnswerT],
        question: QueryT,
        *,
        key: str,
        account: str,
        run: str | None,
        keeping: AttemptHooks[AnswerT],
        front: QueueHead | None = None,
        weight: int = 0,
        despite_breakdowns: bool = False,
    ) -> Paid[AnswerT] | Refusal | VendorFailure | InProgressElsewhere:
        """Ask, and try again while that may help and costs nothing.

        Attempts under a key are numbered for ever, each with a promise of its own. One whose
        outcome nobody knows stands in the way of the next for the rest of its day. With
        `despite_breakdowns`, one that the vendor itself says failed does not, while the vendor
        answers others: its promise stays aside, and the next has a promise of its own.

        Whoever has come to the `acquire_head` goes on from there, and again from the back.
        `weight` is
        what a passage counts it as; the most it costs of any unit, if not said. Raises what the
        store raises when it cannot even be read.
        """
        try:
            request = SpendRequest(
                key=key,
                connector=connector.name,
                amounts=connector.price(question),
                run=run,
                account=account,
            )
        except PermanentError as error:
            return VendorFailure(kind=FailureKind.NEVER, reason=str(error))
        broke_down = 0  # the number of our attempt that did
        for tried in range(1, MAX_ATTEMPTS + 1):
            off_in, because = self._off.get(connector.name, (None, ""))
            if because and off_in == run:
                return VendorFailure(kind=FailureKind.OFF, reason=because)
            if not _is_owner(keeping):
                return VendorFailure(kind=FailureKind.LATER, reason=_NOT_OWNER)
            number, latest = await self._find_latest_attempt(key)
            if latest is not None and number != broke_down:
                if self.blocks_new_attempt(latest):
                    return self.build_unknown_failure(latest)
                if latest.status in (ReservationStatus.RESERVED, ReservationStatus.SENT):
                    return InProgressElsewhere()
            if (
                latest is not None
                and latest.status is ReservationStatus.UNCERTAIN
                and keeping.on_retry is not None
            ):
                keeping.on_retry(latest)
            step = _Attempt(
                connector, question, to_attempt(request, number + 1).key, keeping, self._store
            )
            passage = (front.proceed() if front else None) or self._passages.acquire_slot(
                request.connector, weight or max(1, *request.amounts.values())
            )
            if keeping.is_owner is not None:
                passage = _enter_while_owner(passage, as_long_as_it_is=keeping.is_owner)
            outcome = await self._try_once(request, number + 1, step, passage)
            if isinstance(outcome, _ObsoleteError):
                return InProgressElsewhere()
            if isinstance(outcome, Paid):
                del self._server_errors[connector.name]
                await self._apply_quota(connector.name, outcome)
            if isinstance(outcome, UncertainError):
                broke_down = number + 1
                failed = VendorFailure(kind=FailureKind.UNKNOWN, reason=str(outcome))
                if not despite_breakdowns or self._is_down(connector.name):
                    return failed
            elif isinstance(outcome, TransientError):
                because = str(outcome) if _is_owner(keeping) else _NOT_OWNER
                failed = VendorFailure(kind=FailureKind.LATER, reason=because)
            else:
                return outcome
            wait = await self._apply_retry_after(connector.name, outcome, tried)
            if tried == MAX_ATTEMPTS or wait > MAX_RETRY_WAIT or not _is_owner(keeping):
                return failed
            with suppress(TransientError):  # said at the beginning of the next attempt
                await self._sleep_while_owner(wait, keeping)
        raise AssertionError("the last attempt always returns")

    def acquire_head(
        self, connector: str, *, ours: Callable[[], bool] | None = None
    ) -> AbstractAsyncContextManager[QueueHead]:
        """Wait for a turn at a vendor, for whoever says only then what is asked.

        Raises TransientError when it is no longer `is_owner` to ask before the turn has come.
        """
        front = self._passages.acquire_head(connector)
        return front if ours is None else _enter_while_owner(front, as_long_as_it_is=ours)

    async def _sleep_while_owner(self, wait: timedelta, keeping: AttemptHooks[AnswerT]) -> None:
        sleeping = self._clock.sleep(wait)
        if keeping.is_owner is None:
            await sleeping
        else:
            await run_while(keeping.is_owner, sleeping, otherwise=TransientError(_NOT_OWNER))

    async def find_reservation(self, under: str) -> Reservation | None:
        """Return the promise something was asked under, as it is."""
        return await self._store.money.find_reservation(under)

    def blocks_new_attempt(self, hold: Reservation) -> bool:
        """Say whether what was asked under this promise is not asked again now."""
        return is_blocked_by(hold, now=self._clock.now(), reset=self._reset)

    def build_unknown_failure(self, hold: Reservation) -> VendorFailure:
        """Say that nobody knows whether something was paid for, and what becomes of it."""
        anew = compute_retry_at(hold, reset=self._reset)
        because = (
            f"whether {hold.connector} was paid for this is not known; it is asked anew from "
            f"{anew:%Y-%m-%d %H:%M} UTC on, or once somebody has found out: stoker holds "
            f"({hold.reason})"
        )
        return VendorFailure(kind=FailureKind.UNKNOWN, reason=because)

    async def settle_if_open(self, record: AnswerRecord) -> None:
        """Settle the promise of an answer that is there, if whoever kept it got no further."""
        with suppress(StokerError):  # the answer is good whatever becomes of its promise
            hold = await self._store.money.find_reservation(record.reservation_key)
            if hold is None or hold.status is ReservationStatus.SETTLED:
                return
            now = self._clock.now()
            hold = await self._store.money.settle(record.reservation_key, record.cost, now=now)
            news = find_alert(hold, tenant=self._store.tenant, at=now)
            if news is not None:
                self._observer(news)

    async def _try_once(
        self, request: SpendRequest, number: int, step: _Attempt[QueryT, AnswerT], passage: CallSlot
    ) -> (
        Paid[AnswerT]
        | Refusal
        | VendorFailure
        | InProgressElsewhere
        | TransientError
        | UncertainError
    ):
        """Try once. What is returned as an error may be tried again."""
        try:
            outcome = await self._gate.spend(
                to_attempt(request, number), step.call_vendor, passage=passage
            )
        except StokerError as error:
            return step.done or self._classify_error(error, request, began=step.has_started)
        if isinstance(outcome, Refusal):
            return outcome
        return (
            InProgressElsewhere()
            if step.done is None or not isinstance(outcome, SettledCall)
            else step.done
        )

    def _classify_error(
        self, error: StokerError, request: SpendRequest, *, began: bool
    ) -> VendorFailure | InProgressElsewhere | TransientError | UncertainError:
        """Say what a failure means for the question. What it means for money is settled already."""
        if isinstance(error, TransientError):
            return error
        if isinstance(error, UncertainError) and error.broke_down:
            return error
        if isinstance(error, ConfigError | _VendorDisabledError):
            return self._disable_vendor(request, str(error))
        if isinstance(error, PermanentError):
            return VendorFailure(kind=FailureKind.NEVER, reason=str(error))
        if isinstance(error, ConflictError) and not began:
            return InProgressElsewhere()  # another process was quicker to promise it
        return VendorFailure(kind=FailureKind.UNKNOWN, reason=str(error))

    def _disable_vendor(self, request: SpendRequest, because: str) -> VendorFailure:
        self._off[request.connector] = (request.run, because)
        self._observer(
            ConnectorOff(
                at=self._clock.now(),
                tenant=self._store.tenant,
                connector=request.connector,
                reason=because,
            )
        )
        return VendorFailure(kind=FailureKind.OFF, reason=because)

    def _is_down(self, connector: str) -> bool:
        """Count a breakdown; say whether there were too many to think it the question's fault.

        Every repetition leaves another promise aside, and those of a night would use up its caps.
        """
        self._server_errors[connector] += 1
        return self._server_errors[connector] >= MAX_SERVER_ERRORS

    async def _apply_retry_after(
        self, connector: str, error: TransientError | UncertainError, tried: int
    ) -> timedelta:
        """Return how long to wait; what the vendor asked for holds for everybody with its key."""
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
        """Return which vendors want to be left alone that questions wait for, and until when.

        Raises what the store raises when processes share a vendor's rate.
        """
        now = self._clock.now()
        ours = {connector for connector, until in self._waits.items() if until > now}
        return await self._passages.list_cooldowns(besides=ours)

    async def _apply_quota(self, connector: str, done: Paid[AnswerT]) -> None:
        """Heed what the vendor says is left, for everybody with its key."""
        if done.quota is None:
            return
        with suppress(StokerError):  # the answer is here; the vendor says it again with the next
            resets_at = self._clock.now() + done.quota.window
            await self._passages.apply_quota(connector, left=done.quota.left, resets_at=resets_at)

    async def _find_latest_attempt(self, key: str) -> tuple[int, Reservation | None]:
        """Return the number and promise of the latest attempt; numbers have no gaps."""
        money = self._store.money
        low, high, found = 0, 1, None
        while (hold := await money.find_reservation(f"{key}/{high}")) is not None:
            low, high, found = high, high * 2, hold
        while high - low > 1:
            middle = (low + high) // 2
            if (hold := await money.find_reservation(f"{key}/{middle}")) is None:
                high = middle
            else:
                low, found = middle, hold
        return low, found


class _VendorDisabledError(PermanentError):
    """The vendor said that nothing will work; nothing was done, so the promise comes back."""


class _ObsoleteError(TransientError):
    """Somebody else has asked this meanwhile; nothing was done."""


class _Attempt(Generic[QueryT, AnswerT]):
    """One attempt at the vendor, and the answer it got."""

    def __init__(
        self,
        connector: Connector[QueryT, AnswerT],
        question: QueryT,
        key: str,
        keeping: AttemptHooks[AnswerT],
        store: TenantStores,
    ) -> None:
        self._connector = connector
        self._question = question
        self._key = key
        self._hooks = keeping
        self._store = store
        self.has_started = False
        self.done: Paid[AnswerT] | None = None

    async def call_vendor(self) -> Paid[AnswerT]:
        await self._prepare()
        self.has_started = True
        try:
            done = await self._connector.ask(self._question, key=self._key)
        except ConfigError as error:
            raise _VendorDisabledError(str(error)) from error
        self.done = done
        with suppress(StokerError):  # then it serves this time only; it is paid for in any case
            await self._store.answers.save_answers(self._hooks.to_cached(done, self._key))
        return done

    async def _prepare(self) -> None:
        """Look once more whether it must be asked, at the last moment, and mark that it is."""
        keeping = self._hooks
        try:
            if keeping.is_obsolete is not None and await keeping.is_obsolete():
                raise _ObsoleteError("nothing was asked: somebody else did meanwhile")
            if keeping.to_marks is not None:
                await self._store.answers.save_answers(keeping.to_marks(self._key))
        except _ObsoleteError:
            raise
        except StokerError as error:
            raise TransientError(f"nothing was asked: {error}") from error
        if not _is_owner(keeping):  # after everything that had to be waited for
            raise TransientError(_NOT_OWNER)


@asynccontextmanager
async def _enter_while_owner(
    passage: AbstractAsyncContextManager[ContextT], *, as_long_as_it_is: Callable[[], bool]
) -> AsyncIterator[ContextT]:
    """Wait for a passage and go through it. Raises TransientError once it is not ours to wait."""
    async with AsyncExitStack() as stack:
        entering = stack.enter_async_context(passage)
        yield await run_while(as_long_as_it_is, entering, otherwise=TransientError(_NOT_OWNER))


def _is_owner(keeping: AttemptHooks[AnswerT]) -> bool:
    return keeping.is_owner is None or keeping.is_owner()
