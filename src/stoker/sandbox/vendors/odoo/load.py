"""Odoo's `load`: create or update rows by external id, all of them or none.

One bad row, and nothing is written: the answer names the row and the reason, under HTTP 200. Errors
of conversion are all named; after ten errors of writing the server stops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.sandbox.vendors.odoo.database import Database, Values, WriteProblem
from stoker.sandbox.vendors.odoo.errors import OdooError, build_server_error
from stoker.sandbox.vendors.odoo.models import OdooField
from stoker.sandbox.vendors.odoo.rights import ACCOUNTING, USERS

LOST_RACE = "could not serialize access due to concurrent update"
_LOST_RACES = {  # in the language of the database server's messages
    "de": "konnte Zugriff nicht serialisieren wegen gleichzeitiger Aktualisierung",
    "fr": "n'a pas pu sérialiser un accès à cause d'une mise à jour en parallèle",
    "zh": "由于同步更新而无法串行访问",
}
MAX_WRITE_ERRORS = 10
_TOO_MANY = (
    "Found more than 10 errors and more than one error per 10 records, interrupted to avoid "
    "showing too many errors."
)
_CREDIT_LIMIT = (
    'You do not have enough rights to access the field "credit_limit" on Contact (res.partner). '
    "Please contact your system administrator.\n\nOperation: read\nUser: {uid}\n"
    "Groups: allowed for groups 'Invoicing / Read-only', 'Invoicing / Administrator'"
)
_TRUE = {"1", "true", "yes"}
_FALSE = {"0", "false", "no"}


class _BadCellError(Exception):
    """A cell that cannot be converted, or a record that cannot be written."""

    def __init__(
        self,
        field: str,
        message: str,
        *,
        hint: str = "",
        in_write: bool = False,
        first: bool = False,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.hint = hint
        self.in_write = in_write
        self.blames_first = first


@dataclass(slots=True, kw_only=True)
class _Staged:
    """What a load would write, and the answer so far."""

    database: Database
    model: str
    uid: int
    values: dict[int, Values] = field(default_factory=dict)
    bound: dict[str, int] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    messages: list[Values] = field(default_factory=list)


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
    context: Mapping[str, Any] | None = None,
) -> Values:
    database.check_access(model, "create", uid=uid)
    database.check_access(model, "write", uid=uid)
    known = database.get_fields(model)
    for path in fields:
        name = path.partition("/")[0]
        if name not in known and name not in ("id", ".id"):
            raise build_server_error(f"Invalid field name {name!r}")
    staged = _Staged(database=database, model=model, uid=uid)
    _stage_rows(staged, fields, data)
    if any(message["type"] == "error" for message in staged.messages):
        return {"ids": False, "messages": staged.messages, "nextrow": 0}
    database.transactions += 1
    for id_, values in staged.values.items():
        database.put(model, id_, values, uid=uid, context=context)
    for external, id_ in staged.bound.items():
        database.bind(external, model, id_)
    return {"ids": staged.ids, "messages": [], "nextrow": 0}


def _stage_rows(staged: _Staged, fields: Sequence[str], data: Sequence[Sequence[Any]]) -> None:
    problems: dict[int, _BadCellError] = {}
    for number, row in enumerate(data):
        try:
            staged.ids.append(_stage_row(staged, dict(zip(fields, row, strict=False))))
        except _BadCellError as bad:
            problems[number] = bad
    # A rule between records is checked for the whole load, and its first row is named too.
    between = next((bad for bad in problems.values() if bad.blames_first), None)
    if between is not None and 0 not in problems:
        problems[0] = between
    failed, is_stopped = 0, False
    for number, problem in sorted(problems.items()):
        if problem.in_write and is_stopped:
            continue
        message = _build_message(number, problem.field, str(problem), hint=problem.hint)
        staged.messages.append(message)
        failed += problem.in_write
        if failed >= MAX_WRITE_ERRORS and failed * 10 >= number + 1 and not is_stopped:
            is_stopped = True
            staged.messages.append({"type": "warning", "message": _TOO_MANY})


def build_lost_race(rows: int, *, language: str = "") -> Values:
    message = _build_message(0, "", _LOST_RACES.get(language[:2].lower(), LOST_RACE))
    message["rows"] = {"from": 0, "to": max(0, rows - 1)}
    return {"ids": False, "messages": [message], "nextrow": 0}


def _build_message(number: int, field: str, text: str, *, hint: str = "") -> Values:
    message: Values = {
        "rows": {"from": number, "to": number},
        "record": number,
        "type": "error",
        "message": text,
    }
    if field:
        message["field"] = field
    if hint:
        message["moreinfo"] = hint
    return message


def _stage_row(staged: _Staged, cells: Values) -> int:
    database, model = staged.database, staged.model
    external = parse_external_id(cells["id"]) if cells.get("id") else ""
    values: Values = {}
    for path, cell in cells.items():
        name, _, key = path.partition("/")
        if name in ("id", ".id"):
            continue
        field = database.get_fields(model)[name]
        if not field.readonly:
            values[name] = _parse_cell(database, model, field, path, key, cell, staged.bound)
    id_ = _find_known_id(database, model, external, staged.bound)
    is_new = id_ is None
    if id_ is None:
        values = database.build_defaults(model, values, uid=staged.uid)
        id_ = database.take_next_id(model)
    before = {**database.records[model].get(id_, {}), **staged.values.get(id_, {})}
    _check_row(staged, id_, before, values, is_new=is_new)
    # The same external id twice in one call: what the last row says counts.
    staged.values.setdefault(id_, {}).update(values)
    if external:
        staged.bound[external] = id_
    return id_


def _check_row(staged: _Staged, id_: int, before: Values, values: Values, *, is_new: bool) -> None:
    """Raise when the database would not write this row."""
    database, model = staged.database, staged.model
    if id_ in database.records[model]:
        try:
            database.check_visible(model, id_, "write", uid=staged.uid)
        except OdooError as error:
            raise _BadCellError("", str(error), in_write=True) from error
    problem = database.find_write_problem(
        model, {**before, **values}, only=None if is_new else values
    )
    if problem is None and is_new and values.get("parent_id") and model == "res.partner":
        # Only a load reads the fields of the company with the caller's own rights.
        groups = USERS[staged.uid].groups
        if "account" in database.options.apps and ACCOUNTING not in groups:
            problem = WriteProblem(_CREDIT_LIMIT.format(uid=staged.uid))
    if problem is not None:
        raise _BadCellError(
            problem.field, problem.message, in_write=True, first=problem.blames_first
        )


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
            "", f"Record {external} doesn't match its model: {there[0]} is not {model}"
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
    if field.kind == "selection" and field.choices is not None:
        for code, label in field.choices.items():
            if cell in (code, label):
                return code
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
        path,
        f"No matching record found for {what} '{name}' in field '{field.label}'",
        hint="See all possible values",
    )
