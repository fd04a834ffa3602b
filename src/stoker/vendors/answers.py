"""Name queries for the cache, encode cached answers, and say when a lost answer may be asked again.

Equal queries have equal keys, so no tenant pays twice. An answer knows how long it is worth
caching.
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

MIN_RETRY_DELAY = timedelta(hours=6)  # at least: a nightly run may begin just before midnight

Answer_co = TypeVar("Answer_co", covariant=True)


class VendorQuery(Protocol[Answer_co]):
    """A query that a vendor can answer and whose answer is worth caching."""

    def as_json(self) -> Json:
        """Return the query as JSON: equal for equal queries, and for no others."""
        ...

    def decode_answer(self, cached: Json) -> Answer_co:
        """Decode a cached answer. Raises PermanentError when it has another form."""
        ...


class CacheableAnswer(Protocol):
    """An answer that can be cached."""

    @property
    def ttl(self) -> timedelta:
        """How long the cached answer is better than asking again."""
        ...

    def as_json(self) -> Json:
        """Return what `VendorQuery.decode_answer` decodes to the same answer."""
        ...


def build_cache_key(connector: str, *, account: str, asked: Json, rehearsed: bool = False) -> str:
    """Return the cache key of a query about an account; it reveals neither.

    Queries to sandbox vendors (`rehearsed`) have other keys, so their answers never count as real.
    """
    parts: list[Json] = [connector, account, asked]
    text = compact_json([*parts, "rehearsed"] if rehearsed else parts)
    return f"{connector}/{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def compute_retry_at(reservation: Reservation, *, reset: ResetRule) -> datetime:
    """Return when a query may be asked again whose outcome under this reservation is unknown.

    On the tenant's next day, and hours later at least: on the same day nothing is paid for that may
    be on a bill already. The old reservation stays counted until a person settles it.
    """
    day = compute_window(WindowKind.DAY, reservation.reserved_at, reset=reset)
    return max(day.end, reservation.reserved_at + MIN_RETRY_DELAY)


def is_blocked_by(reservation: Reservation | None, *, now: datetime, reset: ResetRule) -> bool:
    """Return whether an unknown outcome under this reservation blocks the query now."""
    return (
        reservation is not None
        and reservation.status is ReservationStatus.UNCERTAIN
        and now < compute_retry_at(reservation, reset=reset)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """What is cached under a query's key.

    `reservation_key` names the reservation the query was asked under, `cost` what that reservation
    cost in all. Without `answer` it is a mark: the query was about to be asked, and the
    reservation's status tells what became of it.
    """

    reservation_key: str
    cost: Mapping[str, int] = field(default_factory=dict)
    answer: Json = None

    def as_json(self) -> Json:
        """Return the record as a store saves it."""
        return {"under": self.reservation_key, "cost": dict(self.cost), "said": self.answer}


def decode_record(cached: Json) -> AnswerRecord:
    """Decode a cached record. Raises PermanentError when it has another form."""
    data = get_object(cached)
    reservation_key = get_line(data, "under", longest=500)
    costs = {name: get_count(data.get("cost"), name) for name in get_object(data, "cost")}
    cost = {name: amount for name, amount in costs.items() if amount is not None}
    if not reservation_key or len(cost) != len(costs):
        raise PermanentError("the cached record is not an answer; it is asked again")
    return AnswerRecord(reservation_key=reservation_key, cost=cost, answer=data.get("said"))
