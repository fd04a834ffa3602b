"""Write reservation changes with one call of a function on the Postgres server.

It makes the same changes as `store.write_changes`, in the same order, and commits at once, so that
shared rows are not locked during round trips.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.base.jsontools import compact_json
from stoker.base.types import Json, TenantId
from stoker.budgets.reservations import (
    ReservationChange,
    TotalChange,
    list_entries,
    list_total_changes,
)
from stoker.budgets.rows import to_charges_json
from stoker.db.database import Transaction, to_db_time, to_optional_db_time
from stoker.ledger.chain import NewEntry, to_canonical_text


def write_changes_on_server(
    tx: Transaction, tenant: TenantId, moves: Sequence[ReservationChange]
) -> None:
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
    reservation = move.after
    changed: dict[str, Json] = {
        "key": reservation.key,
        "phase": reservation.status.value,
        "closed_at": to_optional_db_time(reservation.closed_at),
        "reason": reservation.reason,
        "actual": dict(reservation.actual),
    }
    if move.before is not None:
        return changed | {
            "seen_phase": move.before.status.value,
            "seen_until_at": to_db_time(move.before.until),
        }
    return changed | {
        "connector": reservation.connector,
        "fingerprint": reservation.fingerprint,
        "owner": reservation.owner,
        "until_at": to_db_time(reservation.until),
        "reserved_at": to_db_time(reservation.reserved_at),
        "run": reservation.run,
        "account": reservation.account,
        "amounts": dict(reservation.amounts),
        "charges": to_charges_json(reservation),
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
