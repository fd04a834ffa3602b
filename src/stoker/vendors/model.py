"""Paid answers as they are cached, and what a store of them offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from stoker.base.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAnswer:
    """A paid answer, cached so that it is not paid for again while it is good."""

    key: str
    connector: str
    answer: Json
    cost: Mapping[str, int]
    at: datetime
    expires_at: datetime


class AnswerStore(Protocol):
    """One tenant's paid answers. An answer is saved before its reservation is settled."""

    async def save_answers(self, answers: Sequence[CachedAnswer]) -> None:
        """Save answers, each in place of an older one under its key. Atomic."""
        ...

    async def find_answers(self, keys: Sequence[str]) -> dict[str, CachedAnswer]:
        """Return the answers under these keys by key, expired or not."""
        ...

    async def delete_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete at most `limit` answers that expired before then; return how many."""
        ...
