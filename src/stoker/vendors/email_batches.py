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

from stoker.accounts.model import EmailStatus
from stoker.base.errors import PermanentError, StokerError
from stoker.budgets.charges import Refusal
from stoker.budgets.model import Connector, Paid
from stoker.budgets.reservations import OPEN_STATUSES, ReservationStatus
from stoker.rate_limits.limiter import QueueHead
from stoker.vendors.answers import AnswerRecord, decode_record
from stoker.vendors.attempts import AttemptHooks, FailureKind, InProgressElsewhere, VendorFailure
from stoker.vendors.client import QueryResult, VendorClient
from stoker.vendors.email_verification import (
    MAX_ADDRESSES,
    BatchVerdicts,
    EmailBatch,
    EmailQuery,
    EmailVerdict,
    normalize_emails,
)
from stoker.vendors.model import CachedAnswer

BATCH_WAIT = timedelta(seconds=2)

MARK_TTL = timedelta(days=400)

VerificationOutcome = QueryResult[EmailVerdict] | Refusal | VendorFailure

PendingVerdict = asyncio.Future[VerificationOutcome]
"""What will be said of one address; whoever wants to know it meanwhile waits for the same."""


class EmailBatcher:
    """One tenant's addresses, verified in one run. Open it with `async with`.

    Of one tenant's runs one is going at a time, so nobody else asks about its addresses.
    """

    def __init__(
        self,
        asking: VendorClient,
        connector: Connector[EmailBatch, BatchVerdicts],
        *,
        run: str | None = None,
        most: int = MAX_ADDRESSES,
        wait: timedelta = BATCH_WAIT,
        ours: Callable[[], bool] | None = None,
    ) -> None:
        self._client = asking
        self._connector = connector
        self._run = run
        self._most = most
        self._wait = wait
        self._is_owner = ours
        self._pending: dict[str, PendingVerdict] = {}  # looked up, gathered, or on their way
        self._gathered: list[str] = []
        self._tasks: dict[int, asyncio.Task[dict[str, VerificationOutcome]]] = {}
        self._open: set[int] = set()  # batches that stand in line
        self._numbers = count(1)
        self._timer: asyncio.Task[None] | None = None
        self._producers = 0
        self._waiting = 0

    @contextmanager
    def producing(self) -> Iterator[None]:
        """Say that whoever is inside may still bring addresses.

        While everybody inside waits for a verdict, nobody else can come, and the batch goes.
        """
        self._producers += 1
        try:
            yield
        finally:
            self._producers -= 1
            self._queue_if_ready()

    async def verify(self, emails: Sequence[str]) -> dict[str, VerificationOutcome]:
        """Return what is said of addresses, as they were given; each is asked about once."""
        plain = normalize_emails(emails)
        wanted = {email: self._pending.get(email) for email in plain.values()}
        ours = {email: self._add_pending(email) for email, claim in wanted.items() if claim is None}
        told = {**{email: claim for email, claim in wanted.items() if claim}, **ours}
        if ours:
            await self._look_up(ours)
        self._waiting += 1
        try:
            self._queue_if_ready()
            # Shielded: one company that gives up must not take the others' verdict along.
            found = {email: await asyncio.shield(claim) for email, claim in told.items()}
        finally:
            self._waiting -= 1
        no_address = VendorFailure(kind=FailureKind.NEVER, reason="this is no email address")
        return {email: found[plain[email]] if email in plain else no_address for email in emails}

    async def __aenter__(self) -> EmailBatcher:
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
            self._resolve(email, _build_retry_failure("the run ended before it was verified"))
        for number in self._open:  # nothing is in it, and nothing was promised for it
            self._tasks[number].cancel()
        if isinstance(error, asyncio.CancelledError):  # time to come to an end was given before
            for task in self._tasks.values():
                task.cancel()
        # Whoever cancels this meanwhile cancels them too, and none is left behind.
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _find_known(self, emails: list[str]) -> dict[str, VerificationOutcome]:
        """Return what was said before and is still good, and what may have been paid for."""
        keys = {self._build_key(email): email for email in emails}
        kept = await self._client.store.answers.find_answers(list(keys)) if keys else {}
        known: dict[str, VerificationOutcome] = {}
        repaired: set[str] = set()
        for key, found in kept.items():
            try:
                record = decode_record(found.answer)
                if record.answer is None:
                    if (unknown := await self._find_lost(record)) is not None:
                        known[keys[key]] = unknown
                    continue
                verified = EmailQuery(email=keys[key]).decode_answer(record.answer)
            except PermanentError:
                continue  # no answer of ours; asked anew
            if record.reservation_key not in repaired:
                repaired.add(record.reservation_key)
                await self._client.attempts.settle_if_open(record)
            if found.expires_at > self._client.clock.now():
                known[keys[key]] = QueryResult(answer=verified, at=found.at, saved=found.cost)
        return known

    async def _find_lost(self, record: AnswerRecord) -> VendorFailure | None:
        attempts = self._client.attempts
        hold = await attempts.find_reservation(record.reservation_key)
        if hold is None or hold.status not in OPEN_STATUSES:
            return None  # known to have come to nothing, or its answer is lost for good
        if hold.status is ReservationStatus.UNCERTAIN:
            return (
                attempts.build_unknown_failure(hold) if attempts.blocks_new_attempt(hold) else None
            )
        because = f"it may have been verified and paid for already: {hold.reason or hold.status}"
        return VendorFailure(kind=FailureKind.UNKNOWN, reason=because)

    def _add_pending(self, email: str) -> PendingVerdict:
        # Before anybody waits for anything, so that whoever else wants it finds this.
        self._pending[email] = asyncio.get_running_loop().create_future()
        return self._pending[email]

    def _resolve(self, email: str, outcome: VerificationOutcome) -> None:
        claim = self._pending.pop(email)
        if not claim.done():
            claim.set_result(outcome)

    async def _look_up(self, ours: Mapping[str, PendingVerdict]) -> None:
        """Tell what is known of addresses; gather the others."""
        known: dict[str, VerificationOutcome] = dict.fromkeys(
            ours, _build_retry_failure("whoever asked gave up")
        )
        try:
            known = await self._find_known(sorted(ours))
        except StokerError as error:
            known = dict.fromkeys(ours, _build_retry_failure(str(error)))
        finally:
            for email in ours:
                if email in known:
                    self._resolve(email, known[email])
                else:
                    self._gathered.append(email)

    def _queue_if_ready(self) -> None:
        """Put a batch in line if one should be, or see to it that nobody waits for ever."""
        while self._unqueued_count >= self._most:
            self._queue_batch()
        if self._unqueued_count > 0 and 0 < self._producers <= self._waiting:
            self._queue_batch()
        if self._unqueued_count > 0 and self._timer is None:
            self._timer = asyncio.create_task(self._queue_after_wait())

    @property
    def _unqueued_count(self) -> int:
        """How many addresses find no room in the batches that stand in line."""
        return len(self._gathered) - self._most * len(self._open)

    async def _queue_after_wait(self) -> None:
        await self._client.clock.sleep(self._wait)
        self._timer = None
        if self._unqueued_count > 0:
            self._queue_batch()

    def _queue_batch(self) -> None:
        number, batch = next(self._numbers), list[str]()

        def tell(task: asyncio.Task[dict[str, VerificationOutcome]]) -> None:
            del self._tasks[number]
            self._open.discard(number)
            for email in batch:
                if task.cancelled():
                    self._pending.pop(email).cancel()
                elif (error := task.exception()) is None:
                    self._resolve(email, task.result()[email])
                elif isinstance(error, StokerError):
                    self._resolve(email, _build_retry_failure(str(error)))
                else:
                    self._pending.pop(email).set_exception(error)

        self._open.add(number)
        self._tasks[number] = asyncio.create_task(self._run_batch(number, batch))
        self._tasks[number].add_done_callback(tell)

    async def _run_batch(self, number: int, batch: list[str]) -> dict[str, VerificationOutcome]:
        """Fill a batch when its turn has come, and verify it."""
        async with AsyncExitStack() as stack:
            front: QueueHead | None = None
            try:
                turn = self._client.attempts.acquire_head(self._connector.name, ours=self._is_owner)
                front = await stack.enter_async_context(turn)
            except StokerError:
                pass  # whoever asks without a turn meets the same, and tells what it means
            finally:
                # Whatever became of the turn: nobody waits for a batch that does not go.
                batch += self._seal_batch(number)
            return await self._verify_batch(batch, front) if batch else {}

    def _seal_batch(self, number: int) -> list[str]:
        """Return what a batch holds from now on; who finds no room in it goes on waiting."""
        batch, self._gathered = self._gathered[: self._most], self._gathered[self._most :]
        self._open.discard(number)
        if not self._gathered and self._timer is not None:
            self._timer.cancel()  # it ran for those who have gone
            self._timer = None
        return batch

    async def _verify_batch(
        self, emails: list[str], front: QueueHead | None
    ) -> dict[str, VerificationOutcome]:
        batch = EmailBatch(emails=tuple(emails))

        async def known_meanwhile() -> bool:
            return bool(await self._find_known(emails))

        outcome = await self._client.attempts.run_attempts(
            self._connector,
            batch,
            key=self._client.build_key(self._connector.name, account="", asked=batch.as_json()),
            account="",
            run=self._run,
            keeping=AttemptHooks(
                to_cached=self._to_cached_answers,
                to_marks=lambda under: [self._build_mark(email, under) for email in emails],
                is_obsolete=known_meanwhile,
                is_owner=self._is_owner,
            ),
            front=front,
            weight=1,
        )
        if isinstance(outcome, Paid):
            return self._to_outcomes(emails, outcome)
        if isinstance(outcome, InProgressElsewhere):
            known = await self._find_known(emails)
            others = [email for email in emails if email not in known]
            if known and others:
                return {**known, **await self._verify_batch(others, front)}
            return (
                dict.fromkeys(
                    emails, _build_retry_failure("another process verifies these addresses")
                )
                | known
            )
        room = outcome.limit - outcome.used if isinstance(outcome, Refusal) else 0
        if 0 < room < len(emails):
            fits = await self._verify_batch(emails[:room], front)
            return {**fits, **dict.fromkeys(emails[room:], outcome)}
        return dict.fromkeys(emails, outcome)

    def _to_outcomes(
        self, emails: list[str], done: Paid[BatchVerdicts]
    ) -> dict[str, VerificationOutcome]:
        now, said = self._client.clock.now(), done.answer
        return {
            email: QueryResult(
                answer=said.verified[email], at=now, cost=_compute_share(said.verified[email])
            )
            if email in said.verified
            else _build_retry_failure(
                said.unanswered.get(email, "the verifier said nothing about it")
            )
            for email in emails
        }

    def _to_cached_answers(self, done: Paid[BatchVerdicts], under: str) -> list[CachedAnswer]:
        now = self._client.clock.now()
        return [
            CachedAnswer(
                key=self._build_key(email),
                connector=self._connector.name,
                answer=AnswerRecord(
                    reservation_key=under, cost=done.cost, answer=verified.as_json()
                ).as_json(),
                cost=_compute_share(verified),
                at=now,
                expires_at=now + verified.ttl,
            )
            for email, verified in done.answer.verified.items()
        ]

    def _build_mark(self, email: str, under: str) -> CachedAnswer:
        now = self._client.clock.now()
        return CachedAnswer(
            key=self._build_key(email),
            connector=self._connector.name,
            answer=AnswerRecord(reservation_key=under).as_json(),
            cost={},
            at=now,
            expires_at=now + MARK_TTL,
        )

    def _build_key(self, email: str) -> str:
        asked = EmailQuery(email=email).as_json()
        return self._client.build_key(self._connector.name, account="", asked=asked)


def _compute_share(verified: EmailVerdict) -> dict[str, int]:
    """Return what one address of a batch came to."""
    return {"calls": 1, "credits": 0 if verified.verdict is EmailStatus.UNKNOWN else 1}


def _build_retry_failure(because: str) -> VendorFailure:
    return VendorFailure(kind=FailureKind.LATER, reason=because)
