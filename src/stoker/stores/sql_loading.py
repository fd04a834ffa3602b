"""How rows of the register are put in: compared with what is known, and written if they differ.

A batch is compared by digests, so what it would replace is never read, and what is the same is
never written. Everything here is part of somebody's transaction that has the register to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from stoker.core.entities import Entity, LoadCount, Reject, dated
from stoker.stores.registry_rows import COMPANY, EntityRow, entity_row
from stoker.stores.sql import Transaction, Value, asked, moment, moment_text

KNOWN = """
SELECT s.uen, s.release, s.content, s.gone_at
FROM asked JOIN registry_seen s ON s.uen = asked.id
"""
LATEST = "SELECT changed_at FROM registry_seen ORDER BY changed_at DESC LIMIT 1"
SEEN_AGAIN = "UPDATE registry_seen SET release = ? WHERE uen = ?"
PUT_SEEN = """
INSERT INTO registry_seen (uen, release, content, changed_at, gone_at) VALUES (?, ?, ?, ?, NULL)
ON CONFLICT (uen) DO UPDATE SET release = excluded.release, content = excluded.content,
    changed_at = excluded.changed_at, gone_at = NULL
"""
_COLUMNS = COMPANY.split(", ")
PUT_COMPANY = f"""
INSERT INTO staging_acra_companies ({COMPANY}) VALUES ({", ".join("?" * len(_COLUMNS))})
ON CONFLICT (uen) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])}
"""
PUT_RAW = """
INSERT INTO staging_raw_acra (uen, raw) VALUES (?, ?)
ON CONFLICT (uen) DO UPDATE SET raw = excluded.raw
"""

KNOWN_LINES = """
SELECT r.line FROM asked JOIN registry_rejects r ON r.load_id = :id AND r.line = asked.id
"""
LAST_REJECT = "SELECT coalesce(max(last_reject), 0) FROM registry_loads"
SAVE_LAST_REJECT = "UPDATE registry_loads SET last_reject = :last WHERE id = :id"
CHANGE_REJECT = "UPDATE registry_rejects SET reason = ?, text = ? WHERE load_id = ? AND line = ?"
ADD_REJECT = """
INSERT INTO registry_rejects (number, load_id, line, reason, text) VALUES (?, ?, ?, ?, ?)
"""


@dataclass(frozen=True, slots=True)
class _Known:
    release: str
    content: str
    gone: bool


def put_entities(
    tx: Transaction, entities: Sequence[Entity], *, release: str, now: datetime
) -> LoadCount:
    """Put entities in place of what was known of their numbers; as `RegistryStore` promises."""
    rows = [entity_row(entity) for entity in entities]
    before = _known(tx, sorted({row.uen for row in rows}))
    known, differing = dict(before), dict[str, EntityRow]()
    new = changed = 0
    for row in rows:
        was = known.get(row.uen)
        latest = max(release, was.release) if was else release
        if was is None or was.gone or was.content != row.content:
            new, changed = (new, changed + 1) if was else (new + 1, changed)
            differing[row.uen] = row
        known[row.uen] = _Known(latest, row.content, gone=False)
    _write(tx, {uen: (differing[uen], known[uen]) for uen in sorted(differing)}, now=now)
    again = [
        (known[uen].release, uen)
        for uen, was in sorted(before.items())
        if uen not in differing and known[uen].release != was.release
    ]
    if again:
        tx.change_many(SEEN_AGAIN, again)
    return LoadCount(new=new, changed=changed, same=len(rows) - new - changed)


def put_rejects(tx: Transaction, load: str, by_line: Mapping[int, Reject]) -> None:
    """Keep rejected rows by line, those already there with their number."""
    there: set[int] = set()
    for query, some in asked(KNOWN_LINES, list(by_line)):
        there |= {line for (line,) in tx.rows(query, id=load, **some)}
    [[last]] = tx.rows(LAST_REJECT)
    added: list[tuple[Value, ...]] = []
    changed: list[tuple[Value, ...]] = []
    for line, reject in by_line.items():
        if line in there:
            changed.append((reject.reason, reject.text, load, line))
        else:
            last += 1
            added.append((last, load, line, reject.reason, reject.text))
    if changed:
        tx.change_many(CHANGE_REJECT, changed)
    if added:
        tx.change_many(ADD_REJECT, added)
        tx.change(SAVE_LAST_REJECT, last=last, id=load)


def next_date(tx: Transaction, *, now: datetime) -> datetime:
    """Return what a change made now is dated."""
    rows = tx.rows(LATEST)
    return dated(now, latest=moment(rows[0][0]) if rows else None)


def _known(tx: Transaction, uens: Sequence[str]) -> dict[str, _Known]:
    known: dict[str, _Known] = {}
    for query, some in asked(KNOWN, uens):
        for uen, release, content, gone_at in tx.rows(query, **some):
            known[uen] = _Known(release, content, gone=gone_at is not None)
    return known


def _write(
    tx: Transaction, differing: Mapping[str, tuple[EntityRow, _Known]], *, now: datetime
) -> None:
    if not differing:
        return
    at = moment_text(next_date(tx, now=now))
    tx.change_many(
        PUT_SEEN, ((uen, seen.release, seen.content, at) for uen, (_, seen) in differing.items())
    )
    tx.change_many(PUT_COMPANY, (row.company for row, _ in differing.values()))
    tx.change_many(PUT_RAW, ((uen, row.raw) for uen, (row, _) in differing.items()))
