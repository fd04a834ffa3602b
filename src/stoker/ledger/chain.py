"""What the engine needs from the world, and nothing more.

Every verb on a store is written once per backend, so a verb earns its place: it says what the
product means, it is atomic, and it happens wholly or not at all. Stores are told the time; they
never ask for it. All moments are aware; what comes back is in UTC.

What was decided, in order, so that nothing can be taken out or changed unseen.

Each entry carries the digest of the one before it. Entries are ordered by `seq`, never by time:
clocks go back, numbers do not. Where entries are kept is the stores' business.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from stoker.base.jsontools import compact_json
from stoker.base.types import Json, to_utc
from stoker.db.codec import validate_json, validate_text

FIRST_DIGEST = "0" * 64  # what the first entry points back to


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """Something worth remembering, before it has its place in the ledger."""

    at: datetime
    kind: str
    subject: str
    reason: str
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One line of a tenant's ledger."""

    seq: int
    at: datetime
    kind: str
    subject: str
    reason: str
    data: Mapping[str, Json]
    previous: str
    digest: str


class ChainLink(Protocol):
    """As much of an entry as the next one is chained to."""

    @property
    def seq(self) -> int: ...

    @property
    def digest(self) -> str: ...


def chain_entries(notes: Iterable[NewEntry], *, after: ChainLink | None) -> list[LedgerEntry]:
    """Return the notes as entries that follow on from the last one."""
    entries = []
    seq, previous = (after.seq, after.digest) if after else (0, FIRST_DIGEST)
    for note in notes:
        seq += 1
        digest = _compute_digest(seq, note, previous)
        entries.append(
            LedgerEntry(
                seq=seq,
                at=note.at,
                kind=note.kind,
                subject=note.subject,
                reason=note.reason,
                data=note.data,
                previous=previous,
                digest=digest,
            )
        )
        previous = digest
    return entries


def find_first_break(
    entries: Sequence[LedgerEntry], *, after: LedgerEntry | None = None
) -> int | None:
    """Return the seq where the chain stops holding, or None when every link is sound."""
    seq, previous = (after.seq, after.digest) if after else (0, FIRST_DIGEST)
    for entry in entries:
        seq += 1
        note = NewEntry(
            at=entry.at,
            kind=entry.kind,
            subject=entry.subject,
            reason=entry.reason,
            data=entry.data,
        )
        sound = entry.previous == previous and entry.digest == _compute_digest(seq, note, previous)
        if entry.seq != seq or not sound:
            return seq
        previous = entry.digest
    return None


def to_canonical_text(note: NewEntry) -> str:
    """Return a note as digests see it, but for its number.

    The digest of entry N is the SHA-256 of the digest before it, `[N,` and this text; so whoever
    numbers entries need not know anything else about them.
    """
    # In UTC, as stores give moments back; the same moment must have the same digest everywhere.
    at = to_utc(note.at, what="a note's moment").isoformat()
    line: list[Json] = [at, note.kind, note.subject, note.reason, note.data]
    return compact_json(line)[1:]


def _compute_digest(seq: int, note: NewEntry, previous: str) -> str:
    return hashlib.sha256(f"{previous}[{seq},{to_canonical_text(note)}".encode()).hexdigest()


class LedgerStore(Protocol):
    """One tenant's ledger: it grows, and nothing else."""

    async def append(self, notes: Sequence[NewEntry]) -> list[LedgerEntry]:
        """Add notes in order, each chained to the one before; return them as entries.

        Atomic, and of two callers one comes wholly after the other, so `seq` has no gaps.
        """
        ...

    async def list_entries(self, *, after: int = 0, limit: int = 1000) -> list[LedgerEntry]:
        """Return one page of the ledger in order, beginning after a seq."""
        ...


def validate_new_entry(note: NewEntry) -> NewEntry:
    """Return the note as its entry will have it."""
    for text in (note.kind, note.subject, note.reason):
        validate_text(text, what="a note")
    at = to_utc(note.at, what="a note's moment")
    return replace(note, at=at, data=validate_json(note.data, what="a note's data"))
