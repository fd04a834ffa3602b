"""One process's open promises: given, kept alive while it works, and ended whatever happens.

A promise whose end could not be written down stays ours, and is tried again with the next sign of
life. A cost above its promise, and an outcome nobody knows, are told as events. What each kind of
failure says about money is `paying`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType

from stoker.base.clock import Clock
from stoker.base.errors import ConflictError, StokerError, TransientError, UncertainError
from stoker.base.events import Observer
from stoker.base.reasons import Reason
from stoker.base.types import TenantId, clean_text
from stoker.budgets.caps import Cap
from stoker.budgets.charges import Refused, Request
from stoker.budgets.model import MoneyStore
from stoker.budgets.reservations import Hold, Phase, news_of
from stoker.budgets.windows import ResetRule
from stoker.context import Store

BEATS_PER_LEASE = 3  # two may go astray before anybody takes us for dead

PAUSES = tuple(timedelta(seconds=wait) for wait in (0.05, 0.25, 1))

LONGEST_REASON = 500

Ending = Callable[[], Awaitable[Hold]]


class Promises:
    """What one owner has promised of one tenant's money. Open it with `async with`.

    `owner` must be unlike that of any other process of this tenant, also of those long gone: a
    promise under our own name that we do not remember would otherwise be acted on twice. Caps that
    people add later bind it too: the store asks for them with every promise.
    """

    def __init__(
        self,
        money: MoneyStore,
        *,
        caps: Sequence[Cap],
        reset: ResetRule,
        owner: str,
        clock: Clock,
        lease: timedelta,
        tenant: TenantId | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._money = money
        self._tenant = tenant
        self._observer = observer
        self._caps = caps
        self._reset = reset
        self._owner = owner
        self._clock = clock
        self._lease = lease
        self._going: set[str] = set()  # acted on, and their end is not written yet
        self._owed: dict[str, Ending] = {}  # over, but the store has not heard of it
        self._not_acted_on: dict[str, timedelta] = {}  # perhaps promised; and when we gave up
        self._endings: dict[str, asyncio.Task[Hold]] = {}  # being written at this moment
        self._alive_at = clock.elapsed()
        self._beating: asyncio.Task[None] | None = None

    def begin(self, key: str) -> bool:
        """Set a key aside for one caller of this process; False while another one has it."""
        if key in self._going:
            return False
        self._going.add(key)
        return True

    def leave(self, key: str) -> None:
        """Let go of a key under which nothing was done this time."""
        self._going.discard(key)

    def are_ours(self, hold: Hold) -> bool:
        """Say whether we, and nobody else, may act on this promise."""
        return hold.owner == self._owner and hold.phase in (Phase.HELD, Phase.SENT)

    def surely_alive(self, *, since: timedelta) -> bool:
        """Say whether nobody can have taken us for dead; `since` is when the promise was asked."""
        return self._clock.elapsed() - max(since, self._alive_at) < self._lease

    async def given(self, request: Request) -> Hold | Refused:
        """Return the promise, or the refusal. A budget that cannot be read refuses."""
        try:
            hold = await self._reserved(request)
        except (TransientError, UncertainError) as error:
            self._not_acted_on[request.key] = self._clock.elapsed()
            unreadable = Reason.BUDGET_UNREADABLE
            return Refused(reason=unreadable, sentence=f"{unreadable.sentence} ({error})")
        except StokerError:
            raise
        except BaseException:
            # Cancelled, and the store may go on without us.
            self._not_acted_on[request.key] = self._clock.elapsed()
            raise
        self._not_acted_on.pop(request.key, None)
        return hold

    async def sent(self, key: str) -> Hold:
        """Say that a promise is acted on from now on."""
        return await self._money.sent(key, now=self._clock.now())

    async def standing(self, key: str) -> Hold:
        """Return the promise as it is. Raises ConflictError while it is still being asked for."""
        hold = await self._money.hold(key)
        if hold is None:
            raise ConflictError(f"{key} is being asked for at this moment; read it again later")
        return hold

    async def settle(self, key: str, cost: Mapping[str, int]) -> Hold:
        """Write down what was spent. If the store will not have it now, it stays owed.

        Raises UncertainError when it could not be written; ConfigError or ConflictError, with the
        promise kept aside, when the cost is nothing that can be settled.
        """
        try:
            return await self._end(
                key, lambda: self._money.settle(key, cost, now=self._clock.now())
            )
        except (TransientError, UncertainError) as error:
            raise UncertainError(
                f"{key} was done and cost {dict(cost)}, which could not be written down: {error}; "
                "it is tried again while this process lives, afterwards see: stoker holds"
            ) from error
        except StokerError as error:
            with suppress(StokerError):  # its end may be written by somebody else
                await self.keep_aside(key, reason=f"its cost cannot be settled: {error}")
            raise

    async def give_back(self, key: str, *, reason: str) -> Hold:
        """Give a promise back whole: nothing was done."""
        said = _one_line(reason)
        return await self._end(
            key, lambda: self._money.release(key, reason=said, now=self._clock.now())
        )

    async def keep_aside(self, key: str, *, reason: str) -> Hold:
        """Keep a promise whose outcome nobody knows."""
        said = _one_line(reason)
        return await self._end(
            key, lambda: self._money.keep_aside(key, reason=said, now=self._clock.now())
        )

    async def tend(self) -> list[Hold]:
        """Show a sign of life, write what is still owed, and see to promises of silent owners.

        Returns those promises as they now stand. While open, this happens by itself.
        """
        now, alive_at = self._clock.now(), self._clock.elapsed()
        if self._going:
            await self._money.renew(self._owner, until=now + self._lease, now=now)
            self._alive_at = alive_at
        for key in self._owed.keys() - self._endings.keys():
            await self._written(key)
        for key in list(self._not_acted_on):
            await self._taken_back(key)
        lapsed = await self._money.expire(now=now)
        for hold in lapsed:
            self._tell(hold)
        return lapsed

    async def __aenter__(self) -> Promises:
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._endings:
            await asyncio.wait(self._endings.values())
        if self._beating is not None:
            self._beating.cancel()
            with suppress(asyncio.CancelledError):
                await self._beating

    async def _beat(self) -> None:
        while True:
            # Real seconds, not the injected clock's: a sign of life is for other processes.
            await asyncio.sleep(self._lease.total_seconds() / BEATS_PER_LEASE)
            with suppress(StokerError):  # the next beat tries again, and silence is safe
                await self.tend()

    async def _reserved(self, request: Request) -> Hold | Refused:
        now = self._clock.now()
        until = now + self._lease
        for again in (True, False):
            try:
                return await self._money.reserve(
                    request,
                    caps=self._caps,
                    reset=self._reset,
                    owner=self._owner,
                    until=until,
                    now=now,
                )
            except UncertainError:
                # The same key is the same answer, so asking again is how to find out.
                if not again:
                    raise
        raise AssertionError("asked twice, and neither answered nor failed")

    async def _end(self, key: str, ending: Ending) -> Hold:
        self._owed[key] = ending
        # Shielded: whoever cancels the caller must not also lose what has to be written.
        self._endings[key] = asyncio.create_task(self._insisted(key))
        return await asyncio.shield(self._endings[key])

    async def _insisted(self, key: str) -> Hold:
        try:
            for pause in PAUSES:
                with suppress(TransientError, UncertainError):
                    return await self._written(key)
                await self._clock.sleep(pause)
            return await self._written(key)
        finally:
            del self._endings[key]

    async def _written(self, key: str) -> Hold:
        try:
            hold = await self._owed[key]()
        except (TransientError, UncertainError):
            raise  # still owed
        except StokerError:
            self._ended(key)  # saying it again would be refused again
            raise
        self._ended(key)
        self._tell(hold)
        return hold

    async def _taken_back(self, key: str) -> None:
        if not self.begin(key):
            return  # somebody asks for it again, and finds out by that
        try:
            hold = await self._money.hold(key)
            if hold is None and self._clock.elapsed() - self._not_acted_on[key] < self._lease:
                return  # what we asked for may be on its way yet
            if hold is not None and self.are_ours(hold):
                reason = "it was never acted on"
                await self._money.release(key, reason=reason, now=self._clock.now())
            del self._not_acted_on[key]
        finally:
            self.leave(key)

    def _tell(self, hold: Hold) -> None:
        """Let the observer know what a person may have to look at."""
        news = news_of(hold, tenant=self._tenant, at=self._clock.now())
        if self._observer is not None and news is not None:
            self._observer(news)

    def _ended(self, key: str) -> None:
        self._owed.pop(key, None)
        self._going.discard(key)


async def see_to_lapsed(store: Store, *, now: datetime, observer: Observer) -> list[Hold]:
    """See to what dead processes had promised, and tell of it; return those promises."""
    lapsed = await store.money.expire(now=now)
    for hold in lapsed:
        if (news := news_of(hold, tenant=store.tenant, at=now)) is not None:
            observer(news)
    return lapsed


def _one_line(reason: str) -> str:
    return " ".join(clean_text(reason).split())[:LONGEST_REASON]
