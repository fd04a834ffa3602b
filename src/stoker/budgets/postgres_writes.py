"""Write reservation changes with one call of a function on the Postgres server.

It makes the same changes as `store.write_changes`, in the same order, and commits at once, so that
shared rows are not locked during round trips.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.base.jsontools import compact_json
from stoker.base.types import Json
from stoker.budgets.reservations import (
    ReservationChange,
    TotalChange,
    list_entries,
    list_total_changes,
)
from stoker.budgets.schema import CHANGED_COLUMNS, RESERVATIONS
from stoker.db.database import Transaction, to_db_time
from stoker.ledger.chain import NewEntry, to_canonical_text


def write_changes_on_server(tx: Transaction, moves: Sequence[ReservationChange]) -> None:
    """Write the changes with one call of the server's function. As `write_changes`."""
    if not moves:
        return
    asked: dict[str, Json] = {
        "holds": [
            _to_reservation_json(move) for move in sorted(moves, key=lambda move: move.after.key)
        ],
        "totals": [_to_total_json(change) for change in list_total_changes(moves)],
        "notes": [_to_entry_json(note) for note in list_entries(moves)],
    }
    tx.execute_with_commit("SELECT write_moves(:asked)", asked=compact_json(asked))


def _to_reservation_json(move: ReservationChange) -> Json:
    values = RESERVATIONS.to_json(move.after)
    if move.before is None:
        return values
    return {name: values[name] for name in CHANGED_COLUMNS} | {
        "key": move.before.key,
        "seen_phase": move.before.status.value,
        "seen_until_at": to_db_time(move.before.until),
    }


def _to_total_json(change: TotalChange) -> Json:
    return {
        "shared": change.shared,
        "cap": change.cap,
        "window_name": change.window,
        "settled": change.settled,
        "reserved": change.reserved,
        "within": change.limit,
    }


def _to_entry_json(note: NewEntry) -> Json:
    return {
        "at": to_db_time(note.at),
        "kind": note.kind,
        "subject": note.subject,
        "reason": note.reason,
        "data": note.data,
        "unnumbered": to_canonical_text(note),
    }
