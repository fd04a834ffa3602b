"""Chain ledger entries by digest, so that none can be removed or changed unnoticed.

Each entry has the digest of the one before it. Entries are ordered by `seq`, never by time: clocks
may go back.
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
    """An entry to append, before it has its number and digest."""

    at: datetime
    kind: str
    subject: str
    reason: str
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(NewEntry):
    """One entry of a ledger."""

    seq: int
    previous: str
    digest: str


class ChainLink(Protocol):
    """As much of an entry as the next one is chained to."""

    @property
    def seq(self) -> int: ...

    @property
    def digest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One entry of a ledger as it was at some time."""

    seq: int
    digest: str


FIRST_CHECKPOINT = Checkpoint(0, FIRST_DIGEST)  # before the first entry


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedLedger:
    """How far a ledger was verified, and where the next verification begins."""

    head: Checkpoint
    start: Checkpoint
    start_at: datetime  # no entry up to `start` is later
    full_at: datetime  # when it was last verified from its beginning


def chain_entries(notes: Iterable[NewEntry], *, after: ChainLink | None) -> list[LedgerEntry]:
    """Return the entries as entries that follow on from the last one."""
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
    entries: Sequence[LedgerEntry], *, after: ChainLink | None = None
) -> int | None:
    """Return the seq where the chain stops holding, or None when every link is sound."""
    seq, previous = (after.seq, after.digest) if after else (0, FIRST_DIGEST)
    for entry in entries:
        seq += 1
        sound = entry.previous == previous and entry.digest == _compute_digest(seq, entry, previous)
        if entry.seq != seq or not sound:
            return seq
        previous = entry.digest
    return None


def to_canonical_text(note: NewEntry) -> str:
    """Return an entry's text for its digest, without its number.

    The digest of entry N is the SHA-256 of the digest before it, `[N,` and this text; so a database
    function can number entries without knowing anything else about them.
    """
    # In UTC, as stores give times back; the same time must have the same digest everywhere.
    at = to_utc(note.at, what="a note's moment").isoformat()
    line: list[Json] = [at, note.kind, note.subject, note.reason, note.data]
    return compact_json(line)[1:]


def _compute_digest(seq: int, note: NewEntry, previous: str) -> str:
    return hashlib.sha256(f"{previous}[{seq},{to_canonical_text(note)}".encode()).hexdigest()


def validate_new_entry(note: NewEntry) -> NewEntry:
    """Return the entry as its entry will have it."""
    for text in (note.kind, note.subject, note.reason):
        validate_text(text, what="a note")
    at = to_utc(note.at, what="a note's moment")
    return replace(note, at=at, data=validate_json(note.data, what="a note's data"))
