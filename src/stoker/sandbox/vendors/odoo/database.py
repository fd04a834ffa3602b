"""One fake Odoo database: records, external ids, search domains, and the methods on them.

It behaves as a version 19 server does towards a salesman without extra rights. Each method is one
transaction. A search domain is a list of [field, operator, value] terms, all of which must hold.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from stoker.sandbox.vendors.odoo.models import (
    CLOSED,
    COMMERCIAL,
    DEFAULTS,
    MAGIC,
    MODELS,
    STANDING_RECORDS,
    WRITABLE,
    OdooField,
)

Lookup = Callable[[str], Any]
Test = Callable[[Lookup], bool]
MAX_DOMAIN_TERMS = 2_000  # terms; a real server gives up on far fewer


def parse_domain(domain: Sequence[Any]) -> Test:
    """Return a test for records; a domain that makes no sense is a ValueError, as in Odoo."""
    if len(domain) > MAX_DOMAIN_TERMS:
        raise ValueError("domain too long")
    tests = [_parse_term(part) for part in domain]
    return lambda look: all(test(look) for test in tests)


def _parse_term(part: Any) -> Test:
    if not isinstance(part, list | tuple) or len(part) != 3 or not isinstance(part[0], str):
        raise ValueError(f"Invalid item in domain: {part!r}")
    field, operator, wanted = part
    compare = _OPERATORS.get(operator) if isinstance(operator, str) else None
    if compare is None:
        raise ValueError(f"Invalid operator in domain term {part!r}")
    if operator == "in" and (words := to_words(wanted)):
        return lambda look: _matches_words(look(field), words)
    return lambda look: compare(look(field), wanted)


def to_words(wanted: Any) -> frozenset[str]:
    """Return what a list of plain words names; nothing when it is anything else."""
    if isinstance(wanted, list | tuple) and all(isinstance(one, str) and one for one in wanted):
        return frozenset(wanted)
    return frozenset()


def _matches_words(value: Any, words: frozenset[str]) -> bool:
    return not words.isdisjoint(value) if isinstance(value, tuple) else value in words


def _is_equal(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return _is_among(value, wanted)
    if isinstance(value, tuple):
        return wanted in value if wanted else not value
    if wanted in (False, None):
        return value in (False, None, "")
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _is_among(value: Any, wanted: Any) -> bool:
    return any(_is_equal(value, one) for one in _to_list(wanted))


def _to_list(wanted: Any) -> Sequence[Any]:
    return wanted if isinstance(wanted, list | tuple) else [wanted]


def _is_greater(value: Any, wanted: Any) -> bool:
    try:
        return value not in (False, None) and bool(value > wanted)
    except TypeError:
        return False


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {  # those our connector and its tests use
    "=": _is_equal,
    "!=": lambda value, wanted: not _is_equal(value, wanted),
    "in": _is_among,
    ">": _is_greater,
}

Values = dict[str, Any]
_FIELDS = {model: {**MAGIC, **fields} for model, fields in MODELS.items()}

_INDEXED_FIELDS = {  # words that are just as the record has them
    model: {name for name, field in fields.items() if field.kind == "char"}
    - {"display_name", *COMMERCIAL}
    for model, fields in MODELS.items()
}

_EPOCH = datetime(2026, 11, 1, tzinfo=UTC)


class OdooError(Exception):
    """What the server answers instead of a result: its own class name, status and fault code."""

    def __init__(self, name: str, message: str, *, status: int, fault: int) -> None:
        super().__init__(message)
        self.name = name
        self.status = status
        self.fault = fault


def build_access_error(message: str) -> OdooError:
    return OdooError("odoo.exceptions.AccessError", message, status=403, fault=4)


def build_validation_error(message: str) -> OdooError:
    return OdooError("odoo.exceptions.ValidationError", message, status=422, fault=2)


def build_server_error(message: str, *, name: str = "builtins.ValueError") -> OdooError:
    """Return what a Python error inside the server looks like from outside."""
    return OdooError(name, message, status=500, fault=1)


class Database:
    """One tenant's Odoo. `records` and `external` are its truth, for tests to look at."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: dict[str, dict[int, Values]] = {model: {} for model in MODELS}
        self.external: dict[str, tuple[str, int]] = {}
        self.transactions = 0
        self._last_id = dict.fromkeys(MODELS, 0)
        self._index_by_name: dict[tuple[str, int], list[str]] = {}
        for model, rows in STANDING_RECORDS.items():
            for external, values in rows:
                self.bind(external, model, self._insert(model, dict(values), uid=1))

    def get_fields(self, model: str) -> Mapping[str, OdooField]:
        return _FIELDS[model]

    def create(self, model: str, rows: Sequence[Mapping[str, Any]], *, uid: int) -> list[int]:
        """Make records; all of them or none."""
        _check_writable(model, "create")
        checked = [self._validate_values(model, {**DEFAULTS.get(model, {}), **row}) for row in rows]
        for values in checked:
            missing = self.find_missing_label(model, values)
            if missing:
                raise build_validation_error(f"Missing required value for the field '{missing}'.")
        self.transactions += 1
        return [self._insert(model, values, uid=uid) for values in checked]

    def write(self, model: str, ids: Sequence[int], values: Mapping[str, Any], *, uid: int) -> bool:
        _check_writable(model, "write")
        records = self.get_records(model, ids)
        changes = [self._validate_values(model, values, record) for record in records]
        for record, change in zip(records, changes, strict=True):
            if self.find_missing_label(model, {**record, **change}):
                raise build_validation_error("A required field cannot be emptied.")
        self.transactions += 1
        for record, change in zip(records, changes, strict=True):
            record.update(change, write_uid=uid, write_date=self._get_write_date())
        return True

    def unlink(self, model: str, ids: Sequence[int]) -> bool:
        """Delete records, and what refers to them with them, as far as the server does that."""
        _check_writable(model, "unlink")
        self.get_records(model, ids)
        self.transactions += 1
        for gone in ids:
            self.records[model].pop(gone, None)
            for external in self._index_by_name.pop((model, gone), ()):
                self.external.pop(external, None)
        self._remove_references(model, set(ids))
        return True

    def _check_domain_fields(self, model: str, domain: Sequence[Any]) -> None:
        for term in domain:
            named = term[0] if isinstance(term, list | tuple) and len(term) == 3 else None
            if isinstance(named, str) and named.split(".")[0] not in {
                "id",
                *self.get_fields(model),
            }:
                raise build_server_error(f"Invalid field {named!r} on model {model!r}")

    def search(
        self,
        model: str,
        domain: Sequence[Any],
        *,
        offset: int = 0,
        limit: int | None = None,
        archived: bool = False,
    ) -> list[int]:
        """Return ids, in order; archived ones only on request."""
        _check_readable(model)
        records = self.records[model]
        self._check_domain_fields(
            model, domain
        )  # a server rejects an unknown field even without records
        try:
            test = parse_domain(domain)
            found = [
                id_
                for id_ in _narrow_by_index(domain, model, records)
                if (archived or records[id_].get("active", True))
                and test(lambda field, id_=id_: self.get_value(model, id_, field))  # type: ignore[misc]
            ]
        except (ValueError, RecursionError) as error:
            raise build_server_error(str(error)) from error
        return found[offset : None if not limit else offset + limit]

    def read(self, model: str, ids: Sequence[int], fields: Sequence[str] | None) -> list[Values]:
        """Return records as dictionaries; a many2one as [id, name]."""
        _check_readable(model)
        known = self.get_fields(model)
        wanted = list(fields) if fields else list(known)
        for field in wanted:
            if field not in known:
                raise build_server_error(f"Invalid field {field!r} on model {model!r}")
        self.get_records(model, ids)
        return [
            {"id": id_} | {field: self._to_shown_value(model, id_, field) for field in wanted}
            for id_ in ids
        ]

    def list_external_ids(self, model: str, ids: Iterable[int]) -> dict[int, list[str]]:
        """Return every external id of each record in order; people's merging gives it several."""
        return {id_: self._index_by_name.get((model, id_), []) for id_ in ids}

    def get_records(self, model: str, ids: Sequence[int]) -> list[Values]:
        """Return the records with these ids, or say that one is missing."""
        records = self.records[model]
        gone = [id_ for id_ in ids if id_ not in records]
        if gone:
            raise OdooError(
                "odoo.exceptions.MissingError",
                "Record does not exist or has been deleted.\n"
                f"(Record: {model}({gone[0]},), User: 2)",
                status=404,
                fault=2,
            )
        return [records[id_] for id_ in ids]

    def get_value(self, model: str, id_: int, path: str) -> Any:
        """Return a field's value as searches see it; a dotted path goes through many2ones."""
        field, _, rest = path.partition(".")
        described = self.get_fields(model).get(field)
        if described is None:
            raise ValueError(f"Invalid field {model}.{field} in condition ({path!r})")
        if field == "id":
            return id_
        record = self.records[model][id_]
        if model == "res.partner" and field in COMMERCIAL and not record.get("is_company"):
            parent = self.records[model].get(record.get("parent_id") or 0)
            record = parent if parent is not None else record
        if field == "display_name":
            return self._get_display_name(model, id_)
        value = record.get(field, () if described.kind == "many2many" else False)
        if not rest:
            return value
        return self.get_value(described.relation, value, rest) if value else False

    def bind(self, external: str, model: str, id_: int) -> None:
        before = self.external.get(external)
        if before is not None:
            self._index_by_name[before].remove(external)
        self.external[external] = (model, id_)
        insort(self._index_by_name.setdefault((model, id_), []), external)

    def take_next_id(self, model: str) -> int:
        """Take the next number of a model's sequence; numbers are never given back."""
        self._last_id[model] += 1
        return self._last_id[model]

    def put(self, model: str, id_: int, values: Values, *, uid: int) -> None:
        """Make or change one record of a transaction whose values were checked before."""
        record = self.records[model].get(id_)
        if record is None:
            moment = self._get_write_date()
            record = {"create_uid": uid, "create_date": moment}
            self.records[model][id_] = record
        record.update(values, write_uid=uid, write_date=self._get_write_date())

    def find_missing_label(self, model: str, values: Mapping[str, Any]) -> str:
        """Return the label of a required field that is empty, or an empty text."""
        for name, field in MODELS[model].items():
            if field.required and values.get(name) in (None, False, ""):
                return field.label
        return ""

    def convert_value(self, field: OdooField, value: Any, before: Any = False) -> Any:
        """Return a value as the field stores it. Raises ValueError for another type."""
        if field.kind == "many2many":
            return self._to_linked_ids(field.relation, value, before)
        if value is None or value is False or value == "":
            return False
        if field.kind == "many2one":
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"Wrong value for {field.label}: {value!r}")
            if value not in self.records[field.relation]:
                raise ValueError(f"{field.relation}({value},) does not exist")
            return value
        if field.kind == "selection":
            if value not in field.choices:
                raise ValueError(f"Wrong value for {field.label}: {value!r}")
            return value
        return _convert_plain(field, value)

    def _insert(self, model: str, values: Values, *, uid: int) -> int:
        id_ = self.take_next_id(model)
        self.put(model, id_, values, uid=uid)
        return id_

    def _validate_values(
        self, model: str, values: Mapping[str, Any], before: Mapping[str, Any] | None = None
    ) -> Values:
        known = self.get_fields(model)
        converted: Values = {}
        for name, value in values.items():
            field = known.get(name)
            if field is None:
                raise build_server_error(f"Invalid field {name!r} in {model!r}")
            if field.readonly:
                continue
            try:
                converted[name] = self.convert_value(field, value, (before or {}).get(name, ()))
            except ValueError as error:
                raise build_server_error(str(error)) from error
        return converted

    def _to_linked_ids(self, relation: str, value: Any, before: Any) -> tuple[int, ...]:
        linked = list(before or ())
        for command in value or []:
            match command:
                case [6, _, [*ids]]:
                    linked = list(ids)
                case [5, *_]:
                    linked = []
                case [4, id_, *_]:
                    linked.append(id_)
                case [3 | 2, id_, *_]:
                    linked = [one for one in linked if one != id_]
                case _:
                    raise ValueError(f"Unknown command {command!r}")
        for id_ in linked:
            if id_ not in self.records[relation]:
                raise ValueError(f"{relation}({id_},) does not exist")
        return tuple(dict.fromkeys(linked))

    def _remove_references(self, gone_model: str, gone: set[int]) -> None:
        for model, fields in MODELS.items():
            ones = [n for n, f in fields.items() if f.relation == gone_model]
            for record in self.records[model].values() if ones else ():
                for name in ones:
                    value = record.get(name)
                    if isinstance(value, tuple):
                        record[name] = tuple(one for one in value if one not in gone)
                    elif value in gone:
                        record[name] = False

    def _to_shown_value(self, model: str, id_: int, name: str) -> Any:
        field = self.get_fields(model)[name]
        value = self.get_value(model, id_, name)
        if field.kind == "many2many":
            return list(value)
        if field.kind == "many2one" and value:
            return [value, self._get_display_name(field.relation, value)]
        return value

    def _get_display_name(self, model: str, id_: int) -> str:
        record = self.records[model].get(id_, {})
        name = str(record.get("name") or record.get("summary") or "")
        parent = self.records[model].get(record.get("parent_id") or 0)
        if model == "res.partner" and parent is not None:
            return f"{parent.get('name') or ''}, {name}"
        return name

    def _get_write_date(self) -> str:
        # Time goes on with what is done here: the same requests leave the same records.
        return f"{_EPOCH + timedelta(seconds=self.transactions):%Y-%m-%d %H:%M:%S}"


def _convert_plain(field: OdooField, value: Any) -> Any:
    if field.kind == "boolean":
        return bool(value)
    if field.kind == "integer":
        return int(value)
    if field.kind == "float":
        return float(value)
    if not isinstance(value, str | int | float):
        raise ValueError(f"Wrong value for {field.label}: {type(value).__name__}")  # noqa: TRY004  # as Odoo says it
    text = str(value)
    if field.kind == "date":
        return date.fromisoformat(text[:10]).isoformat()
    if "\0" in text:
        raise ValueError("A string literal cannot contain NUL (0x00) characters.")
    text.encode()  # half a surrogate pair is a ValueError, as where the real one keeps its text
    return text


def _narrow_by_index(
    domain: Sequence[Any], model: str, records: Mapping[int, Values]
) -> Sequence[int]:
    """Return, in order, the records that are worth a closer look, as an index would."""
    if not all(isinstance(term, list | tuple) and len(term) == 3 for term in domain):
        return sorted(records)
    ids: Iterable[int] = records
    for field, operator, wanted in domain:
        if field == "id" and operator == "in" and isinstance(wanted, list | tuple):
            ids = {id_ for id_ in wanted if isinstance(id_, int) and id_ in records}
        elif field == "is_company" and operator == "=" and wanted is True:
            ids = [id_ for id_ in ids if records[id_].get("is_company")]
        elif operator == "in" and field in _INDEXED_FIELDS[model] and (words := to_words(wanted)):
            ids = [id_ for id_ in ids if records[id_].get(field) in words]
    return sorted(ids)


def _check_readable(model: str) -> None:
    if model in CLOSED:
        raise build_access_error(
            f"You are not allowed to access '{model}' ({model}) records.\n\n"
            "This operation is allowed for the following groups:\n\t- Role / Administrator"
        )


def _check_writable(model: str, what: str) -> None:
    if model not in WRITABLE:
        raise build_access_error(f"You are not allowed to {what} '{model}' ({model}) records.")
