"""What changes when promises move on: their totals, summed up in the one order all charge in.

Every verb on money is a few moves made at once: a promise is given, settled, released, kept aside
or expires. Stores write the moves, the changed totals and the notes together, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.core.holds import Hold, counts
from stoker.core.ledger import Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One promise before and after, and the note the ledger keeps of it."""

    before: Hold | None  # None: it is being given
    after: Hold
    note: Note


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalChange:
    """What is added to one cap's totals in one window; may be less than nothing.

    With a limit, it is only allowed while settled + reserved stay within it.
    """

    shared: bool
    cap: str
    window: str
    settled: int
    reserved: int
    limit: int | None = None


def total_changes(moves: Iterable[Move]) -> list[TotalChange]:
    """Return what these moves change, each cap and window once, shared caps first, by name."""
    added: dict[tuple[bool, str, str], tuple[int, int]] = {}
    limits: dict[tuple[bool, str, str], int] = {}
    for move in moves:
        before = counts(move.before) if move.before else {}
        after = counts(move.after)
        for charge in move.after.charges:
            place = (not charge.shared, charge.cap, charge.window)
            was, is_now = before.get(place[1:], (0, 0)), after[place[1:]]
            settled, reserved = added.get(place, (0, 0))
            added[place] = (settled + is_now[0] - was[0], reserved + is_now[1] - was[1])
            # Only a new promise is held to the limit: what was charged already has happened.
            if move.before is None:
                limits[place] = charge.limit - charge.carried
    return [
        TotalChange(
            shared=not place[0],
            cap=place[1],
            window=place[2],
            settled=settled,
            reserved=reserved,
            limit=limits.get(place),
        )
        for place, (settled, reserved) in sorted(added.items())
        if settled or reserved or place in limits
    ]


def notes(moves: Sequence[Move]) -> list[Note]:
    """Return what the ledger keeps of these moves, in order."""
    return [move.note for move in moves]
