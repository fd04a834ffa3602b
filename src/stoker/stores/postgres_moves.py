"""Moves of promises, written by one call of a function in the server.

It makes the same changes as `sql_moves.write_moves`, in the same order, and COMMIT is on its heels;
so rows that everybody needs are never held while a client thinks.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.ledger import Note, unnumbered
from stoker.core.model import Json, TenantId
from stoker.core.movements import Move, TotalChange, notes, total_changes
from stoker.core.runs import compact_json
from stoker.stores.money_rows import charges_json
from stoker.stores.sql import Transaction, moment_text, optional_moment_text

MISSED = "SK001"  # the SQLSTATE of what `Missed` means

# It runs as whoever calls it, so row security binds it. Entries are numbered and chained as
# `core.ledger` says.
WRITE_MOVES = f"""
CREATE FUNCTION stoker.write_moves(asked json) RETURNS void LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog AS $body$
DECLARE
    me  text := stoker_sec.tenant();
    one record;
BEGIN
    FOR one IN SELECT * FROM json_to_recordset(asked -> 'holds') AS (
        key text, connector text, fingerprint text, phase text, owner text, until_at timestamptz,
        reserved_at timestamptz, closed_at timestamptz, run text, account text, reason text,
        amounts json, charges json, actual json, seen_phase text, seen_until_at timestamptz)
    LOOP
        IF one.seen_phase IS NULL THEN
            INSERT INTO stoker.holds VALUES (me, one.key, one.connector, one.fingerprint,
                one.phase, one.owner, one.until_at, one.reserved_at, one.closed_at, one.run,
                one.account, one.reason, one.amounts, one.charges, one.actual)
            ON CONFLICT DO NOTHING;
        ELSE
            UPDATE stoker.holds h SET phase = one.phase, closed_at = one.closed_at,
                reason = one.reason, actual = one.actual
            WHERE h.tenant_id = me AND h.key = one.key AND h.phase = one.seen_phase
                AND h.until_at = one.seen_until_at;
        END IF;
        IF NOT FOUND THEN RAISE EXCEPTION 'another promise' USING ERRCODE = '{MISSED}'; END IF;
    END LOOP;
    FOR one IN SELECT * FROM json_to_recordset(asked -> 'totals') AS (
        shared boolean, cap text, window_name text, settled bigint, reserved bigint,
        within bigint)
    LOOP
        FOR attempt IN 1..2 LOOP
            IF one.shared THEN
                UPDATE stoker.shared_budgets b
                SET settled = b.settled + one.settled, reserved = b.reserved + one.reserved
                WHERE b.cap = one.cap AND b.window_name = one.window_name
                    AND (one.within IS NULL
                        OR b.settled + b.reserved + one.reserved <= one.within);
            ELSE
                UPDATE stoker.budgets b
                SET settled = b.settled + one.settled, reserved = b.reserved + one.reserved
                WHERE b.tenant_id = me AND b.cap = one.cap AND b.window_name = one.window_name
                    AND (one.within IS NULL
                        OR b.settled + b.reserved + one.reserved <= one.within);
            END IF;
            EXIT WHEN FOUND;
            IF attempt = 2 THEN RAISE EXCEPTION 'no room' USING ERRCODE = '{MISSED}'; END IF;
            IF one.shared THEN
                INSERT INTO stoker.shared_budgets VALUES (one.cap, one.window_name, 0, 0)
                ON CONFLICT DO NOTHING;
            ELSE
                INSERT INTO stoker.budgets VALUES (me, one.cap, one.window_name, 0, 0)
                ON CONFLICT DO NOTHING;
            END IF;
        END LOOP;
    END LOOP;
    -- The totals may have been waited for; a stop that came meanwhile still counts.
    IF EXISTS (
        SELECT FROM json_to_recordset(asked -> 'holds') AS h (connector text, seen_phase text)
        WHERE h.seen_phase IS NULL AND (
            EXISTS (SELECT FROM stoker.stops s
                WHERE s.tenant_id = me AND s.connector IN ('', h.connector))
            OR EXISTS (SELECT FROM stoker.shared_stops s WHERE s.connector IN ('', h.connector)))
    ) THEN RAISE EXCEPTION 'stopped' USING ERRCODE = '{MISSED}'; END IF;
    FOR one IN SELECT * FROM json_to_recordset(asked -> 'notes') AS (
        at timestamptz, kind text, subject text, reason text, data json, unnumbered text)
    LOOP
        LOOP
            INSERT INTO stoker.ledger
            SELECT me, last.seq + 1, one.at, one.kind, one.subject, one.reason, one.data,
                last.digest, encode(sha256(convert_to(
                    last.digest || '[' || (last.seq + 1) || ',' || one.unnumbered, 'UTF8')), 'hex')
            FROM (
                (SELECT l.seq, l.digest FROM stoker.ledger l WHERE l.tenant_id = me
                    ORDER BY l.seq DESC LIMIT 1)
                UNION ALL SELECT 0, repeat('0', 64) ORDER BY seq DESC LIMIT 1
            ) AS last
            ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
        END LOOP;
    END LOOP;
END
$body$;
"""


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
