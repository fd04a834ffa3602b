"""What asking a vendor comes to, and paid answers as they are cached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from stoker.base.types import Json

AnswerT = TypeVar("AnswerT")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorAnswer(Generic[AnswerT]):
    """An answer with what it cost this time, or what the cache saved."""

    answer: AnswerT
    at: datetime  # when the vendor gave it
    cost: Mapping[str, int] = field(default_factory=dict)
    saved: Mapping[str, int] = field(default_factory=dict)
    note: str = ""  # what a reader should know about how it was obtained


class FailureKind(StrEnum):
    """Say what may be done next after a query that got no answer."""

    LATER = "later"  # nothing was done; another time it may work
    NEVER = "never"  # nothing was done, and this query will not work
    UNKNOWN = "unknown"  # it may have been charged; not asked again before another day
    OFF = "off"  # nothing will work with this connector until a person acts


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorFailure:
    kind: FailureKind
    reason: str  # a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgressElsewhere:
    """Another worker is asking the same query; read the cache again for its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAnswer:
    """A paid answer, cached so that it is not paid for again while it is good."""

    key: str
    connector: str
    answer: Json
    cost: Mapping[str, int]
    at: datetime
    expires_at: datetime
    account: str = ""  # whom it is about, as far as known while it is saved; not stored
