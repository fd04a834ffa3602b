"""How moves of promises are written: promises, totals and ledger entries, together or not at all.

What a move rests on may have changed since it was read; then nothing stands, and the caller reads
and decides again. Everybody takes their rows in one order, promises by key, totals as the core
sorts them, the ledger last, so that nobody waits for somebody who waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stoker.core.model import TenantId
from stoker.core.movements import Move, TotalChange, notes, total_changes
from stoker.stores.money_rows import HOLD, hold_values
from stoker.stores.sql import Transaction, Value, moment_text
from stoker.stores.sql_ledger import added_as_they_are

PROMISE = f"""
INSERT INTO holds (tenant_id, {HOLD})
VALUES (:tenant, :key, :connector, :fingerprint, :phase, :owner, :until_at, :reserved_at,
        :closed_at, :run, :account, :reason, :amounts, :charges, :actual)
ON CONFLICT DO NOTHING
"""

# A lease that was lengthened meanwhile is a change too: its owner is alive.
MOVE = """
UPDATE holds SET phase = :phase, closed_at = :closed_at, reason = :reason, actual = :actual
WHERE tenant_id = :tenant AND key = :key AND phase = :seen_phase AND until_at = :seen_until_at
"""

OPEN_BUDGET = """
INSERT INTO budgets (tenant_id, cap, window_name, settled, reserved)
VALUES (:tenant, :cap, :window, 0, 0) ON CONFLICT DO NOTHING
"""

OPEN_SHARED_BUDGET = """
INSERT INTO shared_budgets (cap, window_name, settled, reserved)
VALUES (:cap, :window, 0, 0) ON CONFLICT DO NOTHING
"""

_ADD = "SET settled = settled + :settled, reserved = reserved + :reserved"
CHARGE = f"""
UPDATE budgets {_ADD}
WHERE tenant_id = :tenant AND cap = :cap AND window_name = :window
"""
CHARGE_SHARED = f"UPDATE shared_budgets {_ADD} WHERE cap = :cap AND window_name = :window"
WITHIN = " AND settled + reserved + :reserved <= :limit"

Writer = Callable[[Transaction, TenantId, Sequence[Move]], None]


class Missed(Exception):  # noqa: N818 – nothing went wrong; it only has to be looked at again
    """What the moves rest on is not so any more. Raised to undo the transaction, and caught."""


def write_moves(tx: Transaction, tenant: TenantId, moves: Sequence[Move]) -> None:
    """Write moves, statement by statement. Raises Missed when the transaction must be undone."""
    for move in sorted(moves, key=lambda move: move.after.key):
        _write_hold(tx, tenant, move)
    for change in total_changes(moves):
        _add_to_total(tx, tenant, change)
    added_as_they_are(tx, tenant, notes(moves))


def _write_hold(tx: Transaction, tenant: TenantId, move: Move) -> None:
    values = hold_values(move.after)
    if move.before is None:
        changed = tx.change(PROMISE, tenant=tenant, **values)
    else:
        changed = tx.change(
            MOVE,
            tenant=tenant,
            seen_phase=move.before.phase.value,
            seen_until_at=moment_text(move.before.until),
            **{name: values[name] for name in ("key", "phase", "closed_at", "reason", "actual")},
        )
    if not changed:
        raise Missed(move.after.key)


def _add_to_total(tx: Transaction, tenant: TenantId, change: TotalChange) -> None:
    place: dict[str, Value] = {"cap": change.cap, "window": change.window}
    query, opening = CHARGE_SHARED, OPEN_SHARED_BUDGET
    if not change.shared:
        query, opening, place = CHARGE, OPEN_BUDGET, place | {"tenant": tenant}
    values = place | {"settled": change.settled, "reserved": change.reserved}
    if change.limit is not None:
        query, values = query + WITHIN, values | {"limit": change.limit}
    # Almost always there already, so it is looked for before it is made.
    if tx.change(query, **values):
        return
    tx.change(opening, **place)
    if not tx.change(query, **values):
        raise Missed(change.cap)
