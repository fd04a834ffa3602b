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
from stoker.budgets.charges import Refused
from stoker.budgets.gate import Gate
from stoker.budgets.model import Connector, Done
from stoker.budgets.reservations import Hold
from stoker.budgets.windows import ResetRule
from stoker.context import Store
from stoker.rate_limits.limiter import Passages
from stoker.vendors.answers import KeepableAnswer, Question, Record, question_key, record_from
from stoker.vendors.attempts import Attempts, Elsewhere, Ending, Failed, Keeping
from stoker.vendors.model import Kept

LOOK_AGAIN = timedelta(seconds=1)

OTHERS_PATIENCE = timedelta(minutes=3)  # longer than the promises of a dead process live

AnAnswer = TypeVar("AnAnswer", bound=KeepableAnswer)

AQuestion = TypeVar("AQuestion", bound=Question[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[AnAnswer]):
    """An answer: what it cost this time, or what it saved, because it was paid for before."""

    answer: AnAnswer
    at: datetime  # when the vendor gave it
    cost: Mapping[str, int] = field(default_factory=dict)
    saved: Mapping[str, int] = field(default_factory=dict)
    note: str = ""  # what is worth knowing about how it was got


class Asking:
    """One tenant's questions to vendors. `chance` is a number from 0 to 1, anew each time.

    `reset` says when its days begin. `rehearsing` says that vendors are make-believe, so that their
    answers are kept apart.
    """

    def __init__(
        self,
        store: Store,
        *,
        gate: Gate,
        passages: Passages,
        clock: Clock,
        observer: Observer,
        chance: Callable[[], float],
        reset: ResetRule | None = None,
        rehearsing: bool = False,
    ) -> None:
        self.attempts = Attempts(
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
        self._rehearsing = rehearsing
        self._lines: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()

    async def ask(
        self,
        connector: Connector[AQuestion, AnAnswer],
        question: AQuestion,
        *,
        account: str,
        run: str | None = None,
        good_for: timedelta | None = None,
        ours: Callable[[], bool] | None = None,
    ) -> Answered[AnAnswer] | Refused | Failed:
        """Return the answer to a question about an account, kept or new; or why there is none.

        `good_for` shortens how long the answer is kept, never lengthens it. Whoever asks the same
        meanwhile waits and gets the same answer, in this process and, while its promise stands,
        in any other. Once it is no longer `ours` to ask, nothing is. Raises only what the store
        raises when it cannot be read.
        """
        key = self.key_of(connector.name, account=account, asked=question.as_json())
        began_at = self.clock.elapsed()

        async def answered_meanwhile() -> bool:
            return await self._found(key, question) is not None

        notes: list[str] = []

        def asked_anew(hold: Hold) -> None:
            notes[:] = [f"asked anew, as nobody knows what became of {hold.key}: stoker holds"]

        async with self._in_line(key):
            while True:
                if (found := await self._found(key, question)) is not None:
                    return found
                outcome = await self.attempts.take(
                    connector,
                    question,
                    key=key,
                    account=account,
                    run=run,
                    keeping=Keeping(
                        answers=lambda done, under: [
                            self._kept(key, connector.name, done, under, good_for)
                        ],
                        moot=answered_meanwhile,
                        ours=ours,
                        anew=asked_anew,
                    ),
                    despite_breakdowns=True,
                )
                if isinstance(outcome, Done):
                    return Answered(
                        answer=outcome.answer,
                        at=self.clock.now(),
                        cost=outcome.cost,
                        note="".join(notes),
                    )
                if not isinstance(outcome, Elsewhere):
                    return outcome
                if self.clock.elapsed() - began_at > OTHERS_PATIENCE:
                    because = "another process has been asking this for long; it is left to it"
                    return Failed(ending=Ending.LATER, because=because)
                await self.clock.sleep(LOOK_AGAIN)

    def key_of(self, connector: str, *, account: str, asked: Json) -> str:
        """Return what a question is known by, here and now."""
        return question_key(connector, account=account, asked=asked, rehearsed=self._rehearsing)

    async def _found(self, key: str, question: Question[AnAnswer]) -> Answered[AnAnswer] | None:
        kept = (await self.store.answers.answers([key])).get(key)
        if kept is None or kept.good_until <= self.clock.now():
            return None
        try:
            record = record_from(kept.answer)
            answer = question.answered(record.said)
        except PermanentError:
            return None  # of an older version of ours, or damaged: as good as none
        await self.attempts.repair(record)
        return Answered(answer=answer, at=kept.at, saved=kept.cost)

    def _kept(
        self,
        key: str,
        connector: str,
        done: Done[AnAnswer],
        under: str,
        good_for: timedelta | None,
    ) -> Kept:
        now, worth = self.clock.now(), done.answer.good_for
        record = Record(under=under, cost=done.cost, said=done.answer.as_json())
        return Kept(
            key=key,
            connector=connector,
            answer=record.as_json(),
            cost=done.cost,
            at=now,
            good_until=now + (worth if good_for is None else min(worth, good_for)),
        )

    @asynccontextmanager
    async def _in_line(self, key: str) -> AsyncIterator[None]:
        """Let one caller of this process ask a question at a time."""
        line = self._lines.setdefault(key, asyncio.Lock())
        self._waiting[key] += 1
        try:
            async with line:
                yield
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._lines[key]
