"""Moves of promises, written by one call of a function in the server.

It makes the same changes as `sql_moves.write_moves`, in the same order, and COMMIT is on its heels;
so rows that everybody needs are never held while a client thinks.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.base.jsontools import compact_json
from stoker.base.types import Json, TenantId
from stoker.budgets.reservations import Move, TotalChange, notes, total_changes
from stoker.budgets.rows import charges_json
from stoker.db.database import Transaction, moment_text, optional_moment_text
from stoker.ledger.chain import Note, unnumbered


def write_moves_at_once(tx: Transaction, tenant: TenantId, moves: Sequence[Move]) -> None:
    """Write moves with one call of the server's function of that name. As `write_moves`."""
    if not moves:
        return
    asked: dict[str, Json] = {
        "holds": [_hold_json(move) for move in sorted(moves, key=lambda move: move.after.key)],
        "totals": [_total_json(change) for change in total_changes(moves)],
        "notes": [_note_json(note) for note in notes(moves)],
    }
    tx.at_commit("SELECT write_moves(:asked)", asked=compact_json(asked))


def _hold_json(move: Move) -> Json:
    hold = move.after
    changed: dict[str, Json] = {
        "key": hold.key,
        "phase": hold.phase.value,
        "closed_at": optional_moment_text(hold.closed_at),
        "reason": hold.reason,
        "actual": dict(hold.actual),
    }
    if move.before is not None:
        return changed | {
            "seen_phase": move.before.phase.value,
            "seen_until_at": moment_text(move.before.until),
        }
    return changed | {
        "connector": hold.connector,
        "fingerprint": hold.fingerprint,
        "owner": hold.owner,
        "until_at": moment_text(hold.until),
        "reserved_at": moment_text(hold.reserved_at),
        "run": hold.run,
        "account": hold.account,
        "amounts": dict(hold.amounts),
        "charges": charges_json(hold),
    }


def _total_json(change: TotalChange) -> Json:
    return {
        "shared": change.shared,
        "cap": change.cap,
        "window_name": change.window,
        "settled": change.settled,
        "reserved": change.reserved,
        "within": change.limit,
    }


def _note_json(note: Note) -> Json:
    return {
        "at": moment_text(note.at),
        "kind": note.kind,
        "subject": note.subject,
        "reason": note.reason,
        "data": note.data,
        "unnumbered": unnumbered(note),
    }
