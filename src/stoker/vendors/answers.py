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
from stoker.base.jsontools import compact_json, get_count, get_line, get_object
from stoker.base.types import Json
from stoker.budgets.reservations import Reservation, ReservationStatus
from stoker.budgets.windows import ResetRule, WindowKind, compute_window

MIN_RETRY_DELAY = timedelta(hours=6)  # at least: a night may begin just before midnight

Answer_co = TypeVar("Answer_co", covariant=True)


class VendorQuery(Protocol[Answer_co]):
    """Something a vendor can be asked, whose answer is worth keeping."""

    def as_json(self) -> Json:
        """Return what is asked: equal for equal questions, and for no others."""
        ...

    def decode_answer(self, kept: Json) -> Answer_co:
        """Return an answer as it was kept. Raises PermanentError when it is none of ours."""
        ...


class CacheableAnswer(Protocol):
    """An answer that can be kept."""

    @property
    def ttl(self) -> timedelta:
        """How long it is worth more than asking again."""
        ...

    def as_json(self) -> Json:
        """Return what `VendorQuery.decode_answer` makes the same answer of."""
        ...


def build_cache_key(connector: str, *, account: str, asked: Json, rehearsed: bool = False) -> str:
    """Return what a question about an account is known by: always the same, and told to nobody.

    One that is `rehearsed` is another question: make-believe answers are never taken for real.
    """
    whose: list[Json] = [connector, account, asked]
    said = compact_json([*whose, "rehearsed"] if rehearsed else whose)
    return f"{connector}/{hashlib.sha256(said.encode()).hexdigest()[:40]}"


def compute_retry_at(hold: Reservation, *, reset: ResetRule) -> datetime:
    """Return from when on a question may be asked anew whose outcome under this promise is unknown.

    On another day of its tenant's, and hours later at least: the same day nobody pays for an
    answer that may be on a bill already. The old promise stays counted where it was made, until
    somebody says what became of it.
    """
    day = compute_window(WindowKind.DAY, hold.reserved_at, reset=reset)
    return max(day.end, hold.reserved_at + MIN_RETRY_DELAY)


def is_blocked_by(hold: Reservation | None, *, now: datetime, reset: ResetRule) -> bool:
    """Say whether a question waits because nobody knows what became of it under this promise."""
    return (
        hold is not None
        and hold.status is ReservationStatus.UNCERTAIN
        and now < compute_retry_at(hold, reset=reset)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """What is kept under a question's key.

    `reservation_key` is the promise it was asked under, `cost` what that whole promise came to.
    Without
    `answer` it is a mark only: it was about to be asked, and the promise tells what became of it.
    """

    reservation_key: str
    cost: Mapping[str, int] = field(default_factory=dict)
    answer: Json = None

    def as_json(self) -> Json:
        """Return the record as a store keeps it."""
        return {"under": self.reservation_key, "cost": dict(self.cost), "said": self.answer}


def decode_record(kept: Json) -> AnswerRecord:
    """Return a record as it was kept. Raises PermanentError when it is none."""
    data = get_object(kept)
    under = get_line(data, "under", longest=500)
    costs = {name: get_count(data.get("cost"), name) for name in get_object(data, "cost")}
    cost = {name: amount for name, amount in costs.items() if amount is not None}
    if not under or len(cost) != len(costs):
        raise PermanentError("what is kept here is no answer of ours; it is asked anew")
    return AnswerRecord(reservation_key=under, cost=cost, answer=data.get("said"))
