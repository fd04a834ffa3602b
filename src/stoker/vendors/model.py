"""What the engine needs from those it asks: connectors, and a memory of what they said.

A connector answers one need through one vendor and says what it cost; it decides nothing, pays
nothing and waits for nobody's turn. Memories are a tenant's own, except the registry, which is
public and the same for everybody. Stores are told the time; what comes back is in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from stoker.base.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAnswer:
    """An answer somebody paid for, kept so that nobody pays for it again while it is good."""

    key: str
    connector: str
    answer: Json
    cost: Mapping[str, int]
    at: datetime
    expires_at: datetime


class AnswerStore(Protocol):
    """One tenant's paid answers. An answer is there before its promise is settled."""

    async def save_answers(self, answers: Sequence[CachedAnswer]) -> None:
        """Keep answers, each in place of an older one under its key. Atomic."""
        ...

    async def find_answers(self, keys: Sequence[str]) -> dict[str, CachedAnswer]:
        """Return the answers kept under these keys, good or no longer good, by key."""
        ...

    async def delete_answers(self, *, before: datetime, limit: int = 10_000) -> int:
        """Forget at most so many answers that were good until before then; return how many."""
        ...
