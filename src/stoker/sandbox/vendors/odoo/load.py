"""Odoo's `load`: create or update rows by external id, all of them or none.

One bad row, and nothing is written: the answer names the row and the reason, under HTTP 200.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.sandbox.vendors.odoo.database import (
    Database,
    Values,
    build_access_error,
    build_server_error,
)
from stoker.sandbox.vendors.odoo.models import DEFAULTS, WRITABLE, OdooField

LOST_RACE = "could not serialize access due to concurrent update"
_TRUE = {"1", "true", "yes"}
_FALSE = {"0", "false", "no"}


class _BadCellError(Exception):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def parse_external_id(cell: Any) -> str:
    """Return a cell's external id with its module; an id without one belongs to imports."""
    text = str(cell).strip()
    return text if "." in text else f"__import__.{text}"


def list_external_ids(fields: Sequence[str], data: Sequence[Sequence[Any]]) -> set[str]:
    """Return the external ids that a load would write."""
    if "id" not in fields:
        return set()
    at = fields.index("id")
    return {parse_external_id(row[at]) for row in data if len(row) > at and row[at]}


def load_rows(
    database: Database,
    model: str,
    fields: Sequence[str],
    data: Sequence[Sequence[Any]],
    *,
    uid: int,
) -> Values:
    if model not in WRITABLE:
        raise build_access_error(f"You are not allowed to create '{model}' ({model}) records.")
    known = database.get_fields(model)
    for path in fields:
        name = path.partition("/")[0]
        if name not in known and name not in ("id", ".id"):
            raise build_server_error(repr(name), name="builtins.KeyError")
    staged: dict[int, Values] = {}
    bound: dict[str, int] = {}
    ids: list[int] = []
    messages: list[Values] = []
    for number, row in enumerate(data):
        try:
            ids.append(
                _stage_row(database, model, dict(zip(fields, row, strict=False)), staged, bound)
            )
        except _BadCellError as bad:
            messages.append(_build_message(number, bad.field, str(bad)))
    if messages:
        return {"ids": False, "messages": messages, "nextrow": 0}
    database.transactions += 1
    for id_, values in staged.items():
        database.put(model, id_, values, uid=uid)
    for external, id_ in bound.items():
        database.bind(external, model, id_)
    return {"ids": ids, "messages": [], "nextrow": 0}


def build_lost_race(rows: int) -> Values:
    message = _build_message(0, "", LOST_RACE)
    message["rows"] = {"from": 0, "to": max(0, rows - 1)}
    return {"ids": False, "messages": [message], "nextrow": 0}


def _build_message(number: int, field: str, text: str) -> Values:
    return {
        "rows": {"from": number, "to": number},
        "type": "error",
        "record": number,
        "field": field or False,
        "message": text,
    }


def _stage_row(
    database: Database,
    model: str,
    cells: Values,
    staged: dict[int, Values],
    bound: dict[str, int],
) -> int:
    external = parse_external_id(cells["id"]) if cells.get("id") else ""
    values: Values = {}
    for path, cell in cells.items():
        name, _, key = path.partition("/")
        if name in ("id", ".id"):
            continue
        field = database.get_fields(model)[name]
        if not field.readonly:
            values[name] = _parse_cell(database, model, field, path, key, cell, bound)
    id_ = _find_known_id(database, model, external, bound)
    if id_ is None:
        values = {**DEFAULTS.get(model, {}), **values}
        id_ = database.take_next_id(model)
    before = staged.get(id_) or database.records[model].get(id_, {})
    missing = database.find_missing_label(model, {**before, **values})
    if missing:
        raise _BadCellError("", f"Missing required value for the field '{missing}'")
    # The same external id twice in one call: what the last row says counts.
    staged.setdefault(id_, {}).update(values)
    if external:
        bound[external] = id_
    return id_


def _find_known_id(
    database: Database, model: str, external: str, bound: dict[str, int]
) -> int | None:
    if not external:
        return None
    if external in bound:
        return bound[external]
    there = database.external.get(external)
    if there is None:
        return None
    if there[0] != model:
        raise _BadCellError(
            "id", f"Record {external} doesn't match its model: {there[0]} is not {model}"
        )
    return there[1]


def _parse_cell(
    database: Database,
    model: str,
    field: OdooField,
    path: str,
    key: str,
    cell: Any,
    bound: dict[str, int],
) -> Any:
    if cell is None or cell is False or cell == "":
        return () if field.kind == "many2many" else False
    if field.relation:
        names = str(cell).split(",") if field.kind == "many2many" else [str(cell)]
        found = [
            _find_reference(database, model, field, path, key, name.strip(), bound)
            for name in names
        ]
        return tuple(dict.fromkeys(found)) if field.kind == "many2many" else found[0]
    if field.kind == "boolean" and isinstance(cell, str):
        if cell.lower() not in _TRUE | _FALSE:
            raise _BadCellError(path, f"Unknown value '{cell}' for boolean field '{field.label}'")
        return cell.lower() in _TRUE
    if field.kind == "selection" and cell not in field.choices:
        raise _BadCellError(path, f"Value '{cell}' not found in selection field '{field.label}'")
    try:
        return database.convert_value(field, cell)
    except (ValueError, OverflowError) as error:
        if field.kind in ("integer", "float"):
            message = f"'{cell}' does not seem to be a number for field '{field.label}'"
        elif field.kind == "date":
            message = f"'{cell}' does not seem to be a valid date for field '{field.label}'"
        else:
            message = str(error)
        raise _BadCellError(path, message) from error


def _find_reference(
    database: Database,
    model: str,
    field: OdooField,
    path: str,
    key: str,
    name: str,
    bound: dict[str, int],
) -> int:
    what = "name"
    if key == "id":
        what = "external id"
        external = parse_external_id(name)
        if field.relation == model and external in bound:
            return bound[external]
        there = database.external.get(external)
        if there is not None and there[0] == field.relation:
            return there[1]
    elif key == ".id":
        what = "database id"
        if name.isascii() and name.isdigit() and int(name) in database.records[field.relation]:
            return int(name)
    else:
        for id_, record in database.records[field.relation].items():
            if record.get("name") == name:
                return id_
    raise _BadCellError(
        path, f"No matching record found for {what} '{name}' in field '{field.label}'"
    )
