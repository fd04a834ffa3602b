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

from stoker.base.cancellation import as_long_as
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
from stoker.base.retry import backoff, is_news
from stoker.budgets.charges import Refused, Request
from stoker.budgets.gate import Gate, Paid, Passage, attempt
from stoker.budgets.model import Connector, Done
from stoker.budgets.reservations import Hold, Phase, news_of
from stoker.budgets.windows import ResetRule
from stoker.context import Store
from stoker.rate_limits.limiter import Front, Passages
from stoker.vendors.answers import Record, ask_anew_from, stands_in_the_way
from stoker.vendors.model import Kept

Asked = TypeVar("Asked")

Answer = TypeVar("Answer")

Way = TypeVar("Way")

ATTEMPTS = 3

LONGEST_PATIENCE = timedelta(minutes=15)  # a vendor that wants us gone for longer is left alone

BREAKDOWNS_IN_A_ROW = 10  # so often broken down and never well in between, a vendor is down

_NOT_OURS = "nothing was asked: another process may have this work by now"


class Ending(StrEnum):
    """How asking can end without an answer: what may be done next."""

    LATER = "later"  # nothing was done; another time it may work
    NEVER = "never"  # nothing was done, and this question will not work
    UNKNOWN = "unknown"  # it may have been charged; not asked again before another day
    OFF = "off"  # nothing will work with this connector until a person acts


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """There is no answer, and why, in a sentence."""

    ending: Ending
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Somebody else is asking this very question; look again for their answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping(Generic[Answer]):
    """What is kept of a question: of its answer, and where needed a mark before it is asked.

    Both are given the key of the promise it is asked under. `moot` says whether somebody else has
    asked it meanwhile: a process may be held still for so long that another one does its work.
    `ours` says whether it is still ours to ask: whoever was held still that long may have come to
    another question than the one who does its work now, and both would be paid for. `anew` is told
    of an earlier promise nobody knows the outcome of, when it is asked all the same.
    """

    answers: Callable[[Done[Answer], str], Sequence[Kept]]
    marks: Callable[[str], Sequence[Kept]] | None = None
    moot: Callable[[], Awaitable[bool]] | None = None
    ours: Callable[[], bool] | None = None
    anew: Callable[[Hold], None] | None = None


class Attempts:
    """One tenant's attempts to ask vendors, in this process."""

    def __init__(
        self,
        store: Store,
        *,
        gate: Gate,
        passages: Passages,
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
        self._breakdowns: Counter[str] = Counter()  # by connector, since it last gave an answer
        self._rests: dict[str, datetime] = {}  # by connector: until when people know it rests
        self._waits: dict[str, datetime] = {}  # by connector: until when we wait to ask it again

    async def take(
        self,
        connector: Connector[Asked, Answer],
        question: Asked,
        *,
        key: str,
        account: str,
        run: str | None,
        keeping: Keeping[Answer],
        front: Front | None = None,
        weight: int = 0,
        despite_breakdowns: bool = False,
    ) -> Done[Answer] | Refused | Failed | Elsewhere:
        """Ask, and try again while that may help and costs nothing.

        Attempts under a key are numbered for ever, each with a promise of its own. One whose
        outcome nobody knows stands in the way of the next for the rest of its day. With
        `despite_breakdowns`, one that the vendor itself says failed does not, while the vendor
        answers others: its promise stays aside, and the next has a promise of its own.

        Whoever has come to the `front` goes on from there, and again from the back. `weight` is
        what a passage counts it as; the most it costs of any unit, if not said. Raises what the
        store raises when it cannot even be read.
        """
        try:
            request = Request(
                key=key,
                connector=connector.name,
                amounts=connector.price(question),
                run=run,
                account=account,
            )
        except PermanentError as error:
            return Failed(ending=Ending.NEVER, because=str(error))
        broke_down = 0  # the number of our attempt that did
        for tried in range(1, ATTEMPTS + 1):
            off_in, because = self._off.get(connector.name, (None, ""))
            if because and off_in == run:
                return Failed(ending=Ending.OFF, because=because)
            if not _is_ours(keeping):
                return Failed(ending=Ending.LATER, because=_NOT_OURS)
            number, latest = await self._latest(key)
            if latest is not None and number != broke_down:
                if self.stands_in_the_way(latest):
                    return self.unknown(latest)
                if latest.phase in (Phase.HELD, Phase.SENT):
                    return Elsewhere()
            if latest is not None and latest.phase is Phase.UNCERTAIN and keeping.anew is not None:
                keeping.anew(latest)
            step = _Step(
                connector, question, attempt(request, number + 1).key, keeping, self._store
            )
            passage = (front.ahead() if front else None) or self._passages.through(
                request.connector, weight or max(1, *request.amounts.values())
            )
            if keeping.ours is not None:
                passage = _entered(passage, as_long_as_it_is=keeping.ours)
            outcome = await self._tried(request, number + 1, step, passage)
            if isinstance(outcome, _MootError):
                return Elsewhere()
            if isinstance(outcome, Done):
                del self._breakdowns[connector.name]
                await self._slowed(connector.name, outcome)
            if isinstance(outcome, UncertainError):
                broke_down = number + 1
                failed = Failed(ending=Ending.UNKNOWN, because=str(outcome))
                if not despite_breakdowns or self._is_down(connector.name):
                    return failed
            elif isinstance(outcome, TransientError):
                because = str(outcome) if _is_ours(keeping) else _NOT_OURS
                failed = Failed(ending=Ending.LATER, because=because)
            else:
                return outcome
            wait = await self._heeded(connector.name, outcome, tried)
            if tried == ATTEMPTS or wait > LONGEST_PATIENCE or not _is_ours(keeping):
                return failed
            with suppress(TransientError):  # said at the beginning of the next attempt
                await self._rested(wait, keeping)
        raise AssertionError("the last attempt always returns")

    def front(
        self, connector: str, *, ours: Callable[[], bool] | None = None
    ) -> AbstractAsyncContextManager[Front]:
        """Wait for a turn at a vendor, for whoever says only then what is asked.

        Raises TransientError when it is no longer `ours` to ask before the turn has come.
        """
        front = self._passages.front(connector)
        return front if ours is None else _entered(front, as_long_as_it_is=ours)

    async def _rested(self, wait: timedelta, keeping: Keeping[Answer]) -> None:
        sleeping = self._clock.sleep(wait)
        if keeping.ours is None:
            await sleeping
        else:
            await as_long_as(keeping.ours, sleeping, otherwise=TransientError(_NOT_OURS))

    async def standing(self, under: str) -> Hold | None:
        """Return the promise something was asked under, as it is."""
        return await self._store.money.hold(under)

    def stands_in_the_way(self, hold: Hold) -> bool:
        """Say whether what was asked under this promise is not asked again now."""
        return stands_in_the_way(hold, now=self._clock.now(), reset=self._reset)

    def unknown(self, hold: Hold) -> Failed:
        """Say that nobody knows whether something was paid for, and what becomes of it."""
        anew = ask_anew_from(hold, reset=self._reset)
        because = (
            f"whether {hold.connector} was paid for this is not known; it is asked anew from "
            f"{anew:%Y-%m-%d %H:%M} UTC on, or once somebody has found out: stoker holds "
            f"({hold.reason})"
        )
        return Failed(ending=Ending.UNKNOWN, because=because)

    async def repair(self, record: Record) -> None:
        """Settle the promise of an answer that is there, if whoever kept it got no further."""
        with suppress(StokerError):  # the answer is good whatever becomes of its promise
            hold = await self._store.money.hold(record.under)
            if hold is None or hold.phase is Phase.SETTLED:
                return
            now = self._clock.now()
            hold = await self._store.money.settle(record.under, record.cost, now=now)
            news = news_of(hold, tenant=self._store.tenant, at=now)
            if news is not None:
                self._observer(news)

    async def _tried(
        self, request: Request, number: int, step: _Step[Asked, Answer], passage: Passage
    ) -> Done[Answer] | Refused | Failed | Elsewhere | TransientError | UncertainError:
        """Try once. What is returned as an error may be tried again."""
        try:
            outcome = await self._gate.pay_for(
                attempt(request, number), step.taken, passage=passage
            )
        except StokerError as error:
            return step.done or self._judged(error, request, began=step.began)
        if isinstance(outcome, Refused):
            return outcome
        return Elsewhere() if step.done is None or not isinstance(outcome, Paid) else step.done

    def _judged(
        self, error: StokerError, request: Request, *, began: bool
    ) -> Failed | Elsewhere | TransientError | UncertainError:
        """Say what a failure means for the question. What it means for money is settled already."""
        if isinstance(error, TransientError):
            return error
        if isinstance(error, UncertainError) and error.broke_down:
            return error
        if isinstance(error, ConfigError | _OffError):
            return self._switched_off(request, str(error))
        if isinstance(error, PermanentError):
            return Failed(ending=Ending.NEVER, because=str(error))
        if isinstance(error, ConflictError) and not began:
            return Elsewhere()  # another process was quicker to promise it
        return Failed(ending=Ending.UNKNOWN, because=str(error))

    def _switched_off(self, request: Request, because: str) -> Failed:
        self._off[request.connector] = (request.run, because)
        self._observer(
            ConnectorOff(
                at=self._clock.now(),
                tenant=self._store.tenant,
                connector=request.connector,
                reason=because,
            )
        )
        return Failed(ending=Ending.OFF, because=because)

    def _is_down(self, connector: str) -> bool:
        """Count a breakdown; say whether there were too many to think it the question's fault.

        Every repetition leaves another promise aside, and those of a night would use up its caps.
        """
        self._breakdowns[connector] += 1
        return self._breakdowns[connector] >= BREAKDOWNS_IN_A_ROW

    async def _heeded(
        self, connector: str, error: TransientError | UncertainError, tried: int
    ) -> timedelta:
        """Return how long to wait; what the vendor asked for holds for everybody with its key."""
        wait = backoff(tried, chance=self._chance())
        if isinstance(error, UncertainError) or error.retry_after is None:
            return wait
        now = self._clock.now()
        until = now + error.retry_after
        if is_news(until, now=now, told=self._rests.get(connector)):
            self._rests[connector] = until
            self._observer(
                ConnectorRests(at=now, tenant=self._store.tenant, connector=connector, until=until)
            )
        if tried < ATTEMPTS and error.retry_after <= LONGEST_PATIENCE:
            self._waits[connector] = until
        with suppress(StokerError):  # we wait ourselves in any case
            await self._passages.wait_until(connector, until)
        return max(wait, error.retry_after)

    async def rests(self) -> dict[str, datetime]:
        """Return which vendors want to be left alone that questions wait for, and until when.

        Raises what the store raises when processes share a vendor's rate.
        """
        now = self._clock.now()
        ours = {connector for connector, until in self._waits.items() if until > now}
        return await self._passages.rests(besides=ours)

    async def _slowed(self, connector: str, done: Done[Answer]) -> None:
        """Heed what the vendor says is left, for everybody with its key."""
        if done.quota is None:
            return
        with suppress(StokerError):  # the answer is here; the vendor says it again with the next
            resets_at = self._clock.now() + done.quota.lasts
            await self._passages.heed_quota(connector, left=done.quota.left, resets_at=resets_at)

    async def _latest(self, key: str) -> tuple[int, Hold | None]:
        """Return the number and promise of the latest attempt; numbers have no gaps."""
        money = self._store.money
        low, high, found = 0, 1, None
        while (hold := await money.hold(f"{key}/{high}")) is not None:
            low, high, found = high, high * 2, hold
        while high - low > 1:
            middle = (low + high) // 2
            if (hold := await money.hold(f"{key}/{middle}")) is None:
                high = middle
            else:
                low, found = middle, hold
        return low, found


class _OffError(PermanentError):
    """The vendor said that nothing will work; nothing was done, so the promise comes back."""


class _MootError(TransientError):
    """Somebody else has asked this meanwhile; nothing was done."""


class _Step(Generic[Asked, Answer]):
    """One attempt at the vendor, and the answer it got."""

    def __init__(
        self,
        connector: Connector[Asked, Answer],
        question: Asked,
        key: str,
        keeping: Keeping[Answer],
        store: Store,
    ) -> None:
        self._connector = connector
        self._question = question
        self._key = key
        self._keeping = keeping
        self._store = store
        self.began = False
        self.done: Done[Answer] | None = None

    async def taken(self) -> Done[Answer]:
        await self._prepared()
        self.began = True
        try:
            done = await self._connector.ask(self._question, key=self._key)
        except ConfigError as error:
            raise _OffError(str(error)) from error
        self.done = done
        with suppress(StokerError):  # then it serves this time only; it is paid for in any case
            await self._store.answers.keep_answers(self._keeping.answers(done, self._key))
        return done

    async def _prepared(self) -> None:
        """Look once more whether it must be asked, at the last moment, and mark that it is."""
        keeping = self._keeping
        try:
            if keeping.moot is not None and await keeping.moot():
                raise _MootError("nothing was asked: somebody else did meanwhile")
            if keeping.marks is not None:
                await self._store.answers.keep_answers(keeping.marks(self._key))
        except _MootError:
            raise
        except StokerError as error:
            raise TransientError(f"nothing was asked: {error}") from error
        if not _is_ours(keeping):  # after everything that had to be waited for
            raise TransientError(_NOT_OURS)


@asynccontextmanager
async def _entered(
    passage: AbstractAsyncContextManager[Way], *, as_long_as_it_is: Callable[[], bool]
) -> AsyncIterator[Way]:
    """Wait for a passage and go through it. Raises TransientError once it is not ours to wait."""
    async with AsyncExitStack() as stack:
        entering = stack.enter_async_context(passage)
        yield await as_long_as(as_long_as_it_is, entering, otherwise=TransientError(_NOT_OURS))


def _is_ours(keeping: Keeping[Answer]) -> bool:
    return keeping.ours is None or keeping.ours()
