"""Take one person's texts out of a declared table, whichever table it is.

Every text and JSON column of every table of a tenant is searched, so a column that is added later
is searched too. A row found by its key is deleted, in others the text is replaced. A row that the
program may not delete or change is left, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.base.jsontools import compact_json, map_strings
from stoker.db.database import Transaction, Value, from_db_json
from stoker.db.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class TextErasure:
    """What to take out. `parts` narrow down rows in SQL, `redact` decides and says what stays."""

    parts: Sequence[str]  # in small letters and ASCII; a row without any of them is not read
    redact: Callable[[str], str]
    rows: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by column; empty: all rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TableResult:
    """What became of the rows of one table in which the person was found."""

    deleted: int = 0
    replaced: int = 0
    left: int = 0  # still name the person: the table's grants allow no more


def erase_texts(
    tx: Transaction, table: Table[Any], erasure: TextErasure, *, grants: str, dry: bool = False
) -> TableResult:
    """Take a person's texts out of the tenant's rows of a table; with `dry` only count them.

    `grants` is what the program may do with the table's rows.
    """
    columns = [column for column in table.columns if column.name != "tenant_id"]
    texts = [column.name for column in columns if column.type.sqlite == "TEXT"]
    json = {column.name for column in columns if column.type.postgres == "json"}
    if not texts:
        return TableResult()
    names = [column.name for column in columns]
    keys = [name for name in table.key if name != "tenant_id"]
    deleted = replaced = left = 0
    for row in _select_rows(tx, table, names, texts, erasure):
        before = dict(zip(names, row, strict=True))
        after = {
            name: _redact_value(before[name], name in json, erasure.redact)
            for name in texts
            if before[name] is not None
        }
        changed = {name: value for name, value in after.items() if value is not None}
        if not changed:
            continue
        rest = {name: value for name, value in changed.items() if name not in keys}
        must_go = rest.keys() != changed.keys() or "UPDATE" not in grants
        if must_go and "DELETE" in grants:
            deleted += 1
            if not dry:
                table.delete(tx, _match(keys), **_bind(keys, before))
            continue
        left += must_go
        replaced += not must_go
        if rest and "UPDATE" in grants and not dry:
            changes = ", ".join(f"{name} = :new_{name}" for name in rest)
            new = {f"new_{name}": value for name, value in rest.items()}
            table.update(tx, changes, _match(keys), **_bind(keys, before), **new)
    return TableResult(deleted=deleted, replaced=replaced, left=left)


def _select_rows(
    tx: Transaction,
    table: Table[Any],
    names: Sequence[str],
    texts: Sequence[str],
    erasure: TextErasure,
) -> list[tuple[Any, ...]]:
    values: dict[str, Value] = {}
    found = []
    for n, part in enumerate(sorted(set(erasure.parts))):
        values[f"p{n}"] = "%" + re.sub(r"([!%_])", r"!\1", part) + "%"
        found += [f"lower(cast({name} AS text)) LIKE :p{n} ESCAPE '!'" for name in texts]
    where = f"({' OR '.join(found)})"
    scoped = [name for name in erasure.rows if name in names]
    if erasure.rows and not scoped:
        return []
    for column in scoped:
        places = {f"{column}_{n}": value for n, value in enumerate(erasure.rows[column])}
        if not places:
            return []
        where += f" AND {column} IN (:{', :'.join(places)})"
        values |= places
    return tx.query(
        f"SELECT {', '.join(names)} FROM {table.name} WHERE tenant_id = :tenant AND {where}",
        **values,
    )


def _redact_value(value: Any, is_json: bool, redact: Callable[[str], str]) -> str | None:
    """Return what a column has afterwards, None if that is the same."""
    if is_json:
        before = from_db_json(value)
        after = map_strings(before, redact)
        return None if after == before else compact_json(after)
    after = redact(str(value))
    return None if after == value or not isinstance(value, str) else after


def _match(keys: Sequence[str]) -> str:
    return " AND ".join(f"{key} = :key_{key}" for key in keys) or "TRUE"


def _bind(keys: Sequence[str], row: Mapping[str, Any]) -> dict[str, Value]:
    return {f"key_{key}": row[key] for key in keys}
