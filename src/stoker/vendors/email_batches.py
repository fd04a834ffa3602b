"""Addresses of many companies verified together: one call for up to a hundred of them.

A batch stands in line for its turn at the vendor when it is full, when it has waited long enough,
or when nobody else can come. Until the turn is there it stays open: whoever comes meanwhile goes
along, instead of standing in line behind it. Then it is closed, promised and sent. Each address has
an answer of its own, kept by itself. A mark is kept before a batch is sent: a batch whose answer
was lost is not paid for again because its addresses meet in another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta
from itertools import count
from types import TracebackType

from stoker.accounts.model import Verdict
from stoker.base.errors import PermanentError, StokerError
from stoker.budgets.charges import Refused
from stoker.budgets.model import Connector, Done
from stoker.budgets.reservations import OPEN, Phase
from stoker.rate_limits.limiter import Front
from stoker.vendors.answers import Record, record_from
from stoker.vendors.attempts import Elsewhere, Ending, Failed, Keeping
from stoker.vendors.client import Answered, Asking
from stoker.vendors.email_verification import (
    MOST_ADDRESSES,
    Address,
    Batch,
    Verified,
    VerifiedBatch,
    plain_addresses,
)
from stoker.vendors.model import Kept

WAIT = timedelta(seconds=2)

MARK_GOOD_FOR = timedelta(days=400)

Outcome = Answered[Verified] | Refused | Failed

Claim = asyncio.Future[Outcome]
"""What will be said of one address; whoever wants to know it meanwhile waits for the same."""


class Batching:
    """One tenant's addresses, verified in one run. Open it with `async with`.

    Of one tenant's runs one is going at a time, so nobody else asks about its addresses.
    """

    def __init__(
        self,
        asking: Asking,
        connector: Connector[Batch, VerifiedBatch],
        *,
        run: str | None = None,
        most: int = MOST_ADDRESSES,
        wait: timedelta = WAIT,
        ours: Callable[[], bool] | None = None,
    ) -> None:
        self._asking = asking
        self._connector = connector
        self._run = run
        self._most = most
        self._wait = wait
        self._ours = ours
        self._claims: dict[str, Claim] = {}  # looked up, gathered, or on their way
        self._gathered: list[str] = []
        self._tasks: dict[int, asyncio.Task[dict[str, Outcome]]] = {}
        self._open: set[int] = set()  # batches that stand in line
        self._numbers = count(1)
        self._timer: asyncio.Task[None] | None = None
        self._coming = 0
        self._waiting = 0

    @contextmanager
    def coming(self) -> Iterator[None]:
        """Say that whoever is inside may still bring addresses.

        While everybody inside waits for a verdict, nobody else can come, and the batch goes.
        """
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1
            self._look()

    async def verify(self, emails: Sequence[str]) -> dict[str, Outcome]:
        """Return what is said of addresses, as they were given; each is asked about once."""
        plain = plain_addresses(emails)
        wanted = {email: self._claims.get(email) for email in plain.values()}
        ours = {email: self._claimed(email) for email, claim in wanted.items() if claim is None}
        told = {**{email: claim for email, claim in wanted.items() if claim}, **ours}
        if ours:
            await self._looked_up(ours)
        self._waiting += 1
        try:
            self._look()
            # Shielded: one company that gives up must not take the others' verdict along.
            found = {email: await asyncio.shield(claim) for email, claim in told.items()}
        finally:
            self._waiting -= 1
        no_address = Failed(ending=Ending.NEVER, because="this is no email address")
        return {email: found[plain[email]] if email in plain else no_address for email in emails}

    async def __aenter__(self) -> Batching:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        gathered, self._gathered = self._gathered, []
        for email in gathered:  # whoever wanted to know has left
            self._tell(email, _later("the run ended before it was verified"))
        for number in self._open:  # nothing is in it, and nothing was promised for it
            self._tasks[number].cancel()
        if isinstance(error, asyncio.CancelledError):  # time to come to an end was given before
            for task in self._tasks.values():
                task.cancel()
        # Whoever cancels this meanwhile cancels them too, and none is left behind.
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _known(self, emails: list[str]) -> dict[str, Outcome]:
        """Return what was said before and is still good, and what may have been paid for."""
        keys = {self._key(email): email for email in emails}
        kept = await self._asking.store.answers.answers(list(keys)) if keys else {}
        known: dict[str, Outcome] = {}
        repaired: set[str] = set()
        for key, found in kept.items():
            try:
                record = record_from(found.answer)
                if record.said is None:
                    if (unknown := await self._lost(record)) is not None:
                        known[keys[key]] = unknown
                    continue
                verified = Address(email=keys[key]).answered(record.said)
            except PermanentError:
                continue  # no answer of ours; asked anew
            if record.under not in repaired:
                repaired.add(record.under)
                await self._asking.attempts.repair(record)
            if found.good_until > self._asking.clock.now():
                known[keys[key]] = Answered(answer=verified, at=found.at, saved=found.cost)
        return known

    async def _lost(self, record: Record) -> Failed | None:
        attempts = self._asking.attempts
        hold = await attempts.standing(record.under)
        if hold is None or hold.phase not in OPEN:
            return None  # known to have come to nothing, or its answer is lost for good
        if hold.phase is Phase.UNCERTAIN:
            return attempts.unknown(hold) if attempts.stands_in_the_way(hold) else None
        because = f"it may have been verified and paid for already: {hold.reason or hold.phase}"
        return Failed(ending=Ending.UNKNOWN, because=because)

    def _claimed(self, email: str) -> Claim:
        # Before anybody waits for anything, so that whoever else wants it finds this.
        self._claims[email] = asyncio.get_running_loop().create_future()
        return self._claims[email]

    def _tell(self, email: str, outcome: Outcome) -> None:
        claim = self._claims.pop(email)
        if not claim.done():
            claim.set_result(outcome)

    async def _looked_up(self, ours: Mapping[str, Claim]) -> None:
        """Tell what is known of addresses; gather the others."""
        known: dict[str, Outcome] = dict.fromkeys(ours, _later("whoever asked gave up"))
        try:
            known = await self._known(sorted(ours))
        except StokerError as error:
            known = dict.fromkeys(ours, _later(str(error)))
        finally:
            for email in ours:
                if email in known:
                    self._tell(email, known[email])
                else:
                    self._gathered.append(email)

    def _look(self) -> None:
        """Put a batch in line if one should be, or see to it that nobody waits for ever."""
        while self._without_batch >= self._most:
            self._stand_in_line()
        if self._without_batch > 0 and 0 < self._coming <= self._waiting:
            self._stand_in_line()
        if self._without_batch > 0 and self._timer is None:
            self._timer = asyncio.create_task(self._after_a_while())

    @property
    def _without_batch(self) -> int:
        """How many addresses find no room in the batches that stand in line."""
        return len(self._gathered) - self._most * len(self._open)

    async def _after_a_while(self) -> None:
        await self._asking.clock.sleep(self._wait)
        self._timer = None
        if self._without_batch > 0:
            self._stand_in_line()

    def _stand_in_line(self) -> None:
        number, batch = next(self._numbers), list[str]()

        def tell(task: asyncio.Task[dict[str, Outcome]]) -> None:
            del self._tasks[number]
            self._open.discard(number)
            for email in batch:
                if task.cancelled():
                    self._claims.pop(email).cancel()
                elif (error := task.exception()) is None:
                    self._tell(email, task.result()[email])
                elif isinstance(error, StokerError):
                    self._tell(email, _later(str(error)))
                else:
                    self._claims.pop(email).set_exception(error)

        self._open.add(number)
        self._tasks[number] = asyncio.create_task(self._at_its_turn(number, batch))
        self._tasks[number].add_done_callback(tell)

    async def _at_its_turn(self, number: int, batch: list[str]) -> dict[str, Outcome]:
        """Fill a batch when its turn has come, and verify it."""
        async with AsyncExitStack() as stack:
            front: Front | None = None
            try:
                turn = self._asking.attempts.front(self._connector.name, ours=self._ours)
                front = await stack.enter_async_context(turn)
            except StokerError:
                pass  # whoever asks without a turn meets the same, and tells what it means
            finally:
                # Whatever became of the turn: nobody waits for a batch that does not go.
                batch += self._closed(number)
            return await self._verified(batch, front) if batch else {}

    def _closed(self, number: int) -> list[str]:
        """Return what a batch holds from now on; who finds no room in it goes on waiting."""
        batch, self._gathered = self._gathered[: self._most], self._gathered[self._most :]
        self._open.discard(number)
        if not self._gathered and self._timer is not None:
            self._timer.cancel()  # it ran for those who have gone
            self._timer = None
        return batch

    async def _verified(self, emails: list[str], front: Front | None) -> dict[str, Outcome]:
        batch = Batch(emails=tuple(emails))

        async def known_meanwhile() -> bool:
            return bool(await self._known(emails))

        outcome = await self._asking.attempts.take(
            self._connector,
            batch,
            key=self._asking.key_of(self._connector.name, account="", asked=batch.as_json()),
            account="",
            run=self._run,
            keeping=Keeping(
                answers=self._answers,
                marks=lambda under: [self._mark(email, under) for email in emails],
                moot=known_meanwhile,
                ours=self._ours,
            ),
            front=front,
            weight=1,
        )
        if isinstance(outcome, Done):
            return self._told(emails, outcome)
        if isinstance(outcome, Elsewhere):
            known = await self._known(emails)
            others = [email for email in emails if email not in known]
            if known and others:
                return {**known, **await self._verified(others, front)}
            return dict.fromkeys(emails, _later("another process verifies these addresses")) | known
        room = outcome.limit - outcome.used if isinstance(outcome, Refused) else 0
        if 0 < room < len(emails):
            fits = await self._verified(emails[:room], front)
            return {**fits, **dict.fromkeys(emails[room:], outcome)}
        return dict.fromkeys(emails, outcome)

    def _told(self, emails: list[str], done: Done[VerifiedBatch]) -> dict[str, Outcome]:
        now, said = self._asking.clock.now(), done.answer
        return {
            email: Answered(answer=said.verified[email], at=now, cost=_share(said.verified[email]))
            if email in said.verified
            else _later(said.unanswered.get(email, "the verifier said nothing about it"))
            for email in emails
        }

    def _answers(self, done: Done[VerifiedBatch], under: str) -> list[Kept]:
        now = self._asking.clock.now()
        return [
            Kept(
                key=self._key(email),
                connector=self._connector.name,
                answer=Record(under=under, cost=done.cost, said=verified.as_json()).as_json(),
                cost=_share(verified),
                at=now,
                good_until=now + verified.good_for,
            )
            for email, verified in done.answer.verified.items()
        ]

    def _mark(self, email: str, under: str) -> Kept:
        now = self._asking.clock.now()
        return Kept(
            key=self._key(email),
            connector=self._connector.name,
            answer=Record(under=under).as_json(),
            cost={},
            at=now,
            good_until=now + MARK_GOOD_FOR,
        )

    def _key(self, email: str) -> str:
        asked = Address(email=email).as_json()
        return self._asking.key_of(self._connector.name, account="", asked=asked)


def _share(verified: Verified) -> dict[str, int]:
    """Return what one address of a batch came to."""
    return {"calls": 1, "credits": 0 if verified.verdict is Verdict.UNKNOWN else 1}


def _later(because: str) -> Failed:
    return Failed(ending=Ending.LATER, because=because)
