"""Verify the e-mail addresses of many companies together: one call for up to a hundred.

A batch queues at the vendor when it is full, when it has waited long enough, or when no more
addresses can come. It stays open until its turn, so later addresses join it instead of queueing
behind it. Then it is sealed, reserved and sent. Each address has its own cached answer. A mark per
address is cached before the call: a batch whose answer was lost is not paid for again because its
addresses meet in another batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta
from itertools import count

from stoker.accounts.model import EmailStatus
from stoker.base.errors import StokerError
from stoker.budgets.charges import Refusal
from stoker.budgets.model import Connector, Paid
from stoker.budgets.reservations import OPEN_STATUSES, ReservationStatus
from stoker.rate_limits.limiter import QueueHead
from stoker.vendors.answer_cache import AnswerRecord, build_cached_answer
from stoker.vendors.client import VendorClient, always
from stoker.vendors.model import (
    CachedAnswer,
    FailureKind,
    InProgressElsewhere,
    VendorAnswer,
    VendorFailure,
)
from stoker.vendors.zerobounce import (
    MAX_ADDRESSES,
    BatchVerdicts,
    EmailBatch,
    EmailQuery,
    EmailVerdict,
    normalize_emails,
)

BATCH_WAIT = timedelta(seconds=2)

MARK_TTL = timedelta(days=400)

VerificationOutcome = VendorAnswer[EmailVerdict] | Refusal | VendorFailure

PendingVerdict = asyncio.Future[VerificationOutcome]
"""The verdict on one address; all callers that want it wait for the same future."""


class EmailBatcher:
    """Verify one tenant's addresses in one run. Open it with `async with`.

    A tenant has one run at a time, so no other process asks about its addresses.
    """

    def __init__(
        self,
        client: VendorClient,
        connector: Connector[EmailBatch, BatchVerdicts],
        *,
        run: str | None = None,
        batch_size: int = MAX_ADDRESSES,
        wait: timedelta = BATCH_WAIT,
        still_owner: Callable[[], bool] = always,
    ) -> None:
        self._client = client
        self._connector = connector
        self._run = run
        self._most = batch_size
        self._wait = wait
        self._still_owner = still_owner
        self._pending: dict[str, PendingVerdict] = {}  # looked up, gathered, or on their way
        self._gathered: list[str] = []
        self._tasks: dict[int, asyncio.Task[dict[str, VerificationOutcome]]] = {}
        self._open: set[int] = set()  # batches that are queued
        self._numbers = count(1)
        self._timer: asyncio.Task[None] | None = None
        self._producers = 0
        self._waiting = 0

    @contextmanager
    def producing(self) -> Iterator[None]:
        """Say that the code inside may still bring addresses.

        While all producers wait for a verdict, no more addresses can come, and the batch is sent.
        """
        self._producers += 1
        try:
            yield
        finally:
            self._producers -= 1
            self._queue_if_ready()

    async def verify(self, emails: Sequence[str]) -> dict[str, VerificationOutcome]:
        """Return the outcome for each address; each is asked about once."""
        plain = normalize_emails(emails)
        wanted = {email: self._pending.get(email) for email in plain.values()}
        new = {
            email: self._add_pending(email) for email, future in wanted.items() if future is None
        }
        futures = {**{email: future for email, future in wanted.items() if future}, **new}
        if new:
            await self._look_up(new)
        self._waiting += 1
        try:
            self._queue_if_ready()
            # Shielded: cancelling one company must not cancel the others' verdict.
            outcomes = {email: await asyncio.shield(future) for email, future in futures.items()}
        finally:
            self._waiting -= 1
        no_address = VendorFailure(kind=FailureKind.NEVER, reason="this is no email address")
        return {email: outcomes[plain[email]] if email in plain else no_address for email in emails}

    async def __aenter__(self) -> EmailBatcher:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        gathered, self._gathered = self._gathered, []
        for email in gathered:  # its caller has left
            self._resolve(email, _build_retry_failure("the run ended before it was verified"))
        for number in self._open:  # it is empty, and nothing was reserved for it
            self._tasks[number].cancel()
        if isinstance(error, asyncio.CancelledError):  # the run had its grace period
            for task in self._tasks.values():
                task.cancel()
        # Cancelling this wait cancels the tasks too, so none is left behind.
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _find_known(self, emails: list[str]) -> dict[str, VerificationOutcome]:
        """Return the outcomes that are cached, and of addresses that may have been paid for."""
        queries = {self._build_key(email): EmailQuery(email=email) for email in emails}
        outcomes: dict[str, VerificationOutcome] = {}
        for key, known in (await self._client.cache.find_known(queries)).items():
            outcome = await self._find_lost(known) if isinstance(known, AnswerRecord) else known
            if outcome is not None:
                outcomes[queries[key].email] = outcome
        return outcomes

    async def _find_lost(self, record: AnswerRecord) -> VendorFailure | None:
        reservation = await self._client.find_reservation(record.reservation_key)
        if reservation is None or reservation.status not in OPEN_STATUSES:
            return None  # released, or its answer is lost for good
        if reservation.status is ReservationStatus.UNCERTAIN:
            if not self._client.blocks_new_attempt(reservation):
                return None
            return self._client.build_unknown_failure(reservation)
        status = reservation.reason or reservation.status
        reason = f"it may have been verified and paid for already: {status}"
        return VendorFailure(kind=FailureKind.UNKNOWN, reason=reason)

    def _add_pending(self, email: str) -> PendingVerdict:
        # Before any await, so that the next caller finds this future.
        self._pending[email] = asyncio.get_running_loop().create_future()
        return self._pending[email]

    def _resolve(self, email: str, outcome: VerificationOutcome) -> None:
        future = self._pending.pop(email)
        if not future.done():
            future.set_result(outcome)

    async def _look_up(self, new: Mapping[str, PendingVerdict]) -> None:
        """Resolve the addresses whose outcome is cached; gather the others for a batch."""
        known: dict[str, VerificationOutcome] = dict.fromkeys(
            new, _build_retry_failure("its caller was cancelled")
        )
        try:
            known = await self._find_known(sorted(new))
        except StokerError as error:
            known = dict.fromkeys(new, _build_retry_failure(str(error)))
        finally:
            for email in new:
                if email in known:
                    self._resolve(email, known[email])
                else:
                    self._gathered.append(email)

    def _queue_if_ready(self) -> None:
        """Queue a batch if one is due, and start the timer for a partial one."""
        while self._unqueued_count >= self._most:
            self._queue_batch()
        if self._unqueued_count > 0 and 0 < self._producers <= self._waiting:
            self._queue_batch()
        if self._unqueued_count > 0 and self._timer is None:
            self._timer = asyncio.create_task(self._queue_after_wait())

    @property
    def _unqueued_count(self) -> int:
        """How many addresses find no room in the queued batches."""
        return len(self._gathered) - self._most * len(self._open)

    async def _queue_after_wait(self) -> None:
        await self._client.clock.sleep(self._wait)
        self._timer = None
        if self._unqueued_count > 0:
            self._queue_batch()

    def _queue_batch(self) -> None:
        number, batch = next(self._numbers), list[str]()

        def resolve_all(task: asyncio.Task[dict[str, VerificationOutcome]]) -> None:
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
        self._tasks[number].add_done_callback(resolve_all)

    async def _run_batch(self, number: int, batch: list[str]) -> dict[str, VerificationOutcome]:
        """Wait for the head of the queue, fill the batch, and verify it."""
        async with AsyncExitStack() as stack:
            queue_head: QueueHead | None = None
            try:
                queue_head = await self._client.acquire_head(
                    stack, self._connector.name, still_owner=self._still_owner
                )
            except StokerError:
                pass  # asking without the head fails the same way, and reports it
            finally:
                # In every case: no address waits for a batch that is not sent.
                batch += self._seal_batch(number)
            return await self._verify_batch(batch, queue_head) if batch else {}

    def _seal_batch(self, number: int) -> list[str]:
        """Return the addresses of a batch; those that do not fit wait for the next."""
        batch, self._gathered = self._gathered[: self._most], self._gathered[self._most :]
        self._open.discard(number)
        if not self._gathered and self._timer is not None:
            self._timer.cancel()  # it ran for the addresses of this batch
            self._timer = None
        return batch

    async def _verify_batch(
        self, emails: list[str], queue_head: QueueHead | None
    ) -> dict[str, VerificationOutcome]:
        batch = EmailBatch(emails=tuple(emails))

        async def is_any_known() -> bool:
            return bool(await self._find_known(emails))

        outcome = await self._client.run_attempts(
            self._connector,
            batch,
            key=self._client.build_key(self._connector.name, account="", asked=batch.as_json()),
            account="",
            run=self._run,
            to_cached=self._to_cached_answers,
            to_marks=lambda reservation_key: [
                self._build_mark(email, reservation_key) for email in emails
            ],
            still_owner=self._still_owner,
            already_answered=is_any_known,
            head=queue_head,
            weight=1,
        )
        if isinstance(outcome, VendorAnswer):
            return self._to_outcomes(emails, outcome)
        if isinstance(outcome, InProgressElsewhere):
            known = await self._find_known(emails)
            others = [email for email in emails if email not in known]
            if known and others:
                return {**known, **await self._verify_batch(others, queue_head)}
            return (
                dict.fromkeys(
                    emails, _build_retry_failure("another process verifies these addresses")
                )
                | known
            )
        room = outcome.limit - outcome.used if isinstance(outcome, Refusal) else 0
        if 0 < room < len(emails):
            fits = await self._verify_batch(emails[:room], queue_head)
            return {**fits, **dict.fromkeys(emails[room:], outcome)}
        return dict.fromkeys(emails, outcome)

    def _to_outcomes(
        self, emails: list[str], done: VendorAnswer[BatchVerdicts]
    ) -> dict[str, VerificationOutcome]:
        verdicts = done.answer
        return {
            email: VendorAnswer(
                answer=verdicts.verified[email],
                at=done.at,
                cost=_compute_share(verdicts.verified[email]),
            )
            if email in verdicts.verified
            else _build_retry_failure(
                verdicts.unanswered.get(email, "the vendor returned no verdict on it")
            )
            for email in emails
        }

    def _to_cached_answers(
        self, done: Paid[BatchVerdicts], reservation_key: str
    ) -> list[CachedAnswer]:
        return [
            build_cached_answer(
                self._build_key(email),
                self._connector.name,
                reservation_key=reservation_key,
                at=self._client.clock.now(),
                ttl=verdict.ttl,
                cost=done.cost,
                share=_compute_share(verdict),
                answer=verdict.as_json(),
            )
            for email, verdict in done.answer.verified.items()
        ]

    def _build_mark(self, email: str, reservation_key: str) -> CachedAnswer:
        return build_cached_answer(
            self._build_key(email),
            self._connector.name,
            reservation_key=reservation_key,
            at=self._client.clock.now(),
            ttl=MARK_TTL,
        )

    def _build_key(self, email: str) -> str:
        asked = EmailQuery(email=email).as_json()
        return self._client.build_key(self._connector.name, account="", asked=asked)


def _compute_share(verdict: EmailVerdict) -> dict[str, int]:
    """Return what one address of a batch cost."""
    return {"calls": 1, "credits": 0 if verdict.verdict is EmailStatus.UNKNOWN else 1}


def _build_retry_failure(reason: str) -> VendorFailure:
    return VendorFailure(kind=FailureKind.LATER, reason=reason)
