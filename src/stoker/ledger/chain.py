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
from stoker.base.types import Json, in_utc
from stoker.db.codec import kept_json, kept_text

FIRST = "0" * 64  # what the first entry points back to


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something worth remembering, before it has its place in the ledger."""

    at: datetime
    kind: str
    subject: str
    reason: str
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a tenant's ledger."""

    seq: int
    at: datetime
    kind: str
    subject: str
    reason: str
    data: Mapping[str, Json]
    previous: str
    digest: str


class Link(Protocol):
    """As much of an entry as the next one is chained to."""

    @property
    def seq(self) -> int: ...

    @property
    def digest(self) -> str: ...


def chained(notes: Iterable[Note], *, after: Link | None) -> list[Entry]:
    """Return the notes as entries that follow on from the last one."""
    entries = []
    seq, previous = (after.seq, after.digest) if after else (0, FIRST)
    for note in notes:
        seq += 1
        digest = _digest(seq, note, previous)
        entries.append(
            Entry(
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


def first_break(entries: Sequence[Entry], *, after: Entry | None = None) -> int | None:
    """Return the seq where the chain stops holding, or None when every link is sound."""
    seq, previous = (after.seq, after.digest) if after else (0, FIRST)
    for entry in entries:
        seq += 1
        note = Note(
            at=entry.at,
            kind=entry.kind,
            subject=entry.subject,
            reason=entry.reason,
            data=entry.data,
        )
        sound = entry.previous == previous and entry.digest == _digest(seq, note, previous)
        if entry.seq != seq or not sound:
            return seq
        previous = entry.digest
    return None


def unnumbered(note: Note) -> str:
    """Return a note as digests see it, but for its number.

    The digest of entry N is the SHA-256 of the digest before it, `[N,` and this text; so whoever
    numbers entries need not know anything else about them.
    """
    # In UTC, as stores give moments back; the same moment must have the same digest everywhere.
    at = in_utc(note.at, what="a note's moment").isoformat()
    line: list[Json] = [at, note.kind, note.subject, note.reason, note.data]
    return compact_json(line)[1:]


def _digest(seq: int, note: Note, previous: str) -> str:
    return hashlib.sha256(f"{previous}[{seq},{unnumbered(note)}".encode()).hexdigest()


class LedgerStore(Protocol):
    """One tenant's ledger: it grows, and nothing else."""

    async def append(self, notes: Sequence[Note]) -> list[Entry]:
        """Add notes in order, each chained to the one before; return them as entries.

        Atomic, and of two callers one comes wholly after the other, so `seq` has no gaps.
        """
        ...

    async def entries(self, *, after: int = 0, limit: int = 1000) -> list[Entry]:
        """Return one page of the ledger in order, beginning after a seq."""
        ...


def kept_note(note: Note) -> Note:
    """Return the note as its entry will have it."""
    for text in (note.kind, note.subject, note.reason):
        kept_text(text, what="a note")
    at = in_utc(note.at, what="a note's moment")
    return replace(note, at=at, data=kept_json(note.data, what="a note's data"))
