"""What a question to a vendor and its answer say of themselves, so that nobody pays twice.

A question that says the same is the same question. An answer knows how long it is worth keeping.
How answers are kept, what they are found by, and when a question whose answer was lost may be asked
anew, is here; asking is the engine's business.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from stoker.base.errors import PermanentError
from stoker.base.jsontools import compact_json, object_in, text_in, whole_in
from stoker.base.types import Json
from stoker.budgets.reservations import Hold, Phase
from stoker.budgets.windows import ResetRule, WindowKind, window_at

ASKED_ANEW_AFTER = timedelta(hours=6)  # at least: a night may begin just before midnight

Answer_co = TypeVar("Answer_co", covariant=True)


class Question(Protocol[Answer_co]):
    """Something a vendor can be asked, whose answer is worth keeping."""

    def as_json(self) -> Json:
        """Return what is asked: equal for equal questions, and for no others."""
        ...

    def answered(self, kept: Json) -> Answer_co:
        """Return an answer as it was kept. Raises PermanentError when it is none of ours."""
        ...


class KeepableAnswer(Protocol):
    """An answer that can be kept."""

    @property
    def good_for(self) -> timedelta:
        """How long it is worth more than asking again."""
        ...

    def as_json(self) -> Json:
        """Return what `Question.answered` makes the same answer of."""
        ...


def question_key(connector: str, *, account: str, asked: Json, rehearsed: bool = False) -> str:
    """Return what a question about an account is known by: always the same, and told to nobody.

    One that is `rehearsed` is another question: make-believe answers are never taken for real.
    """
    whose: list[Json] = [connector, account, asked]
    said = compact_json([*whose, "rehearsed"] if rehearsed else whose)
    return f"{connector}/{hashlib.sha256(said.encode()).hexdigest()[:40]}"


def ask_anew_from(hold: Hold, *, reset: ResetRule) -> datetime:
    """Return from when on a question may be asked anew whose outcome under this promise is unknown.

    On another day of its tenant's, and hours later at least: the same day nobody pays for an
    answer that may be on a bill already. The old promise stays counted where it was made, until
    somebody says what became of it.
    """
    day = window_at(WindowKind.DAY, hold.reserved_at, reset=reset)
    return max(day.end, hold.reserved_at + ASKED_ANEW_AFTER)


def stands_in_the_way(hold: Hold | None, *, now: datetime, reset: ResetRule) -> bool:
    """Say whether a question waits because nobody knows what became of it under this promise."""
    return (
        hold is not None
        and hold.phase is Phase.UNCERTAIN
        and now < ask_anew_from(hold, reset=reset)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is kept under a question's key.

    `under` is the promise it was asked under, `cost` what that whole promise came to. Without
    `said` it is a mark only: it was about to be asked, and the promise tells what became of it.
    """

    under: str
    cost: Mapping[str, int] = field(default_factory=dict)
    said: Json = None

    def as_json(self) -> Json:
        """Return the record as a store keeps it."""
        return {"under": self.under, "cost": dict(self.cost), "said": self.said}


def record_from(kept: Json) -> Record:
    """Return a record as it was kept. Raises PermanentError when it is none."""
    data = object_in(kept)
    under = text_in(data, "under", longest=500)
    costs = {name: whole_in(data.get("cost"), name) for name in object_in(data, "cost")}
    cost = {name: amount for name, amount in costs.items() if amount is not None}
    if not under or len(cost) != len(costs):
        raise PermanentError("what is kept here is no answer of ours; it is asked anew")
    return Record(under=under, cost=cost, said=data.get("said"))
