"""Which methods of Odoo's models can be called from outside, and with which arguments.

Both protocols end here: one passes arguments by name, the other by position. Two loads that write
the same record within one time window conflict, and the later one loses, as on a real server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.sandbox.vendors.odoo.database import (
    Database,
    OdooError,
    build_access_error,
    build_server_error,
)
from stoker.sandbox.vendors.odoo.load import build_lost_race, list_external_ids, load_rows
from stoker.sandbox.vendors.odoo.models import HUMAN_UID, INTEGRATION_UID, MODELS, OdooField

_DATABASE = "abcdefghijklmnopqrstuvwxyz0123456789_-"


@dataclass(frozen=True, slots=True, kw_only=True)
class OdooCall:
    database: Database
    uid: int
    model: str
    method: str
    ids: Sequence[int] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Method:
    act: Callable[[OdooCall], Any]
    takes: tuple[str, ...]
    needs: int = 0  # how many of them cannot be left out
    on_records: bool = False  # called on ids


class Databases:
    """Every database of the fake server, opened by keys that name them.

    The key of database `acme` begins with `odoo-acme-`; one that begins with `odoo-acme-human-`
    belongs to a colleague, so that a person's edits differ from ours.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Database] = {}
        self._busy: dict[tuple[str, str], float] = {}

    def find_database(self, name: str, key: str) -> tuple[Database, int] | None:
        """Return the database and the key's user, or None when the key does not open it."""
        if not name or len(name) > 63 or set(name) - set(_DATABASE):
            return None
        if not key.startswith(f"odoo-{name}-") or len(key) > 200 or "wrong" in key:
            return None
        uid = HUMAN_UID if key.startswith(f"odoo-{name}-human-") else INTEGRATION_UID
        if name not in self.by_name:
            self.by_name[name] = Database(name)
        return self.by_name[name], uid

    def lose_race(self, call: OdooCall, *, now: float, lasting: float) -> bool:
        """Say whether a load meets another one on a record; if not, its records are busy now."""
        if call.method != "load":
            return False
        fields, data = call.arguments.get("fields"), call.arguments.get("data")
        if not _is_rows(fields, data):
            return False
        mine = {
            (call.database.name, external)
            for external in list_external_ids(fields or (), data or ())
        }
        self._busy = {key: until for key, until in self._busy.items() if until > now}
        if mine & self._busy.keys():
            return True
        self._busy.update(dict.fromkeys(mine, now + lasting))
        return False


def execute_call(call: OdooCall) -> Any:
    if call.model not in MODELS:
        raise OdooError(
            "werkzeug.exceptions.NotFound",
            f"the model {call.model!r} does not exist",
            status=404,
            fault=2,
        )
    if call.method.startswith("_"):
        raise build_access_error(
            f"Private methods (such as '{call.model}.{call.method}') cannot be called remotely."
        )
    method = _METHODS.get(call.method)
    if method is None:
        raise OdooError(
            "werkzeug.exceptions.NotFound",
            f"The method '{call.model}.{call.method}' does not exist",
            status=404,
            fault=1,
        )
    _check_call(call, method)
    try:
        return method.act(call)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # Arguments of a wrong kind blow up inside a real server too, and are reported as they are.
        raise build_server_error(str(error), name=f"builtins.{type(error).__name__}") from error


def bind_arguments(
    method: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[int], dict[str, Any]]:
    """Return ids and named arguments from arguments given by place."""
    known = _METHODS.get(method)
    if known is None:
        return (), dict(kwargs)
    ids: Sequence[int] = ()
    rest = list(args)
    named = dict(kwargs)
    if known.on_records:
        first = rest.pop(0) if rest else named.pop("ids", ())
        ids = [first] if isinstance(first, int) else list(first or ())
    if len(rest) > len(known.takes):
        raise _build_binding_error("too many positional arguments")
    return ids, {**dict(zip(known.takes, rest, strict=False)), **named}


def build_race_answer(call: OdooCall) -> Mapping[str, Any]:
    """Return the answer to a load that lost to another one."""
    return build_lost_race(len(call.arguments.get("data") or ()))


def _check_call(call: OdooCall, method: _Method) -> None:
    strange = [name for name in call.arguments if name not in method.takes]
    if strange:
        raise _build_binding_error(f"got an unexpected keyword argument '{strange[0]}'")
    for name in method.takes[: method.needs]:
        if name not in call.arguments:
            raise _build_binding_error(f"missing a required argument: '{name}'")
    if call.ids and not method.on_records:
        raise _build_binding_error(f"cannot call {call.model}.{call.method} with ids")
    if not all(isinstance(id_, int) and not isinstance(id_, bool) for id_ in call.ids):
        raise build_server_error(f"Invalid ids list: {call.ids!r}"[:200])


def _build_binding_error(message: str) -> OdooError:
    return OdooError("werkzeug.exceptions.UnprocessableEntity", message, status=422, fault=1)


def _is_rows(fields: Any, data: Any) -> bool:
    return (
        isinstance(fields, list)
        and isinstance(data, list)
        and all(isinstance(name, str) for name in fields)
        and all(isinstance(row, list) for row in data)
    )


def _call_load(call: OdooCall) -> Any:
    fields, data = call.arguments["fields"], call.arguments["data"]
    if not _is_rows(fields, data):
        raise build_server_error("fields and data must be lists", name="builtins.TypeError")
    return load_rows(call.database, call.model, fields, data, uid=call.uid)


def _call_search(call: OdooCall) -> list[int]:
    given = call.arguments
    domain = given.get("domain", [])
    if not isinstance(domain, list | tuple):
        raise build_server_error(f"Invalid domain: {domain!r}"[:200])
    offset, limit = given.get("offset") or 0, given.get("limit")
    if not isinstance(offset, int) or not isinstance(limit, int | None) or offset < 0:
        raise build_server_error("offset and limit must be numbers")
    return call.database.search(
        call.model,
        domain,
        offset=offset,
        limit=limit or None,
        archived=call.context.get("active_test") is False,
    )


def _call_read(call: OdooCall, ids: Sequence[int]) -> Any:
    fields = call.arguments.get("fields")
    if fields is not None and not _is_names(fields):
        raise build_server_error("fields must be a list of names", name="builtins.TypeError")
    return call.database.read(call.model, ids, fields)


def _call_create(call: OdooCall) -> Any:
    rows = call.arguments["vals_list"]
    one = isinstance(rows, Mapping)
    if not one and not (isinstance(rows, list) and all(isinstance(r, Mapping) for r in rows)):
        raise build_server_error("vals_list must be a list of values", name="builtins.TypeError")
    ids = call.database.create(call.model, [rows] if one else rows, uid=call.uid)
    return ids[0] if one else ids


def _call_write(call: OdooCall) -> bool:
    values = call.arguments["vals"]
    if not isinstance(values, Mapping):
        raise build_server_error("vals must be an object", name="builtins.TypeError")
    return call.database.write(call.model, call.ids, values, uid=call.uid)


def _call_external_ids(call: OdooCall) -> dict[int, str]:
    named = call.database.list_external_ids(call.model, call.ids)
    return {id_: ids[0] if ids else "" for id_, ids in named.items()}  # any one of them


def _call_metadata(call: OdooCall) -> list[dict[str, Any]]:
    named = call.database.list_external_ids(call.model, call.ids)
    fields = ["create_uid", "create_date", "write_uid", "write_date"]
    return [
        {
            **record,
            "xmlid": next(iter(named[record["id"]]), False),
            "xmlids": [{"xmlid": each, "noupdate": False} for each in named[record["id"]]],
            "noupdate": False,
        }
        for record in call.database.read(call.model, call.ids, fields)
    ]


def _call_fields_get(call: OdooCall) -> dict[str, dict[str, Any]]:
    wanted, attributes = call.arguments.get("allfields"), call.arguments.get("attributes")
    described = {
        name: _describe_field(name, one)
        for name, one in call.database.get_fields(call.model).items()
    }
    return {
        name: {key: value for key, value in one.items() if not attributes or key in attributes}
        for name, one in described.items()
        if not wanted or name in wanted
    }


def _describe_field(name: str, one: OdooField) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": name,
        "type": one.kind,
        "string": one.label,
        "required": one.required,
        "readonly": one.readonly,
        "store": name != "display_name",
    }
    if one.relation:
        described["relation"] = one.relation
    if one.choices:
        described["selection"] = [[choice, choice.title()] for choice in one.choices]
    return described


def _is_names(fields: Any) -> bool:
    return isinstance(fields, list) and all(isinstance(name, str) for name in fields)


_SEARCH = ("domain", "offset", "limit", "order")

_METHODS: Mapping[str, _Method] = {
    "load": _Method(act=_call_load, takes=("fields", "data"), needs=2),
    "search": _Method(act=_call_search, takes=_SEARCH, needs=1),
    "search_count": _Method(
        act=lambda call: len(_call_search(call)), takes=("domain", "limit"), needs=1
    ),
    "search_read": _Method(
        act=lambda call: _call_read(call, _call_search(call)),
        takes=("domain", "fields", "offset", "limit", "order"),
    ),
    "read": _Method(
        act=lambda call: _call_read(call, call.ids), takes=("fields",), on_records=True
    ),
    "create": _Method(act=_call_create, takes=("vals_list",), needs=1),
    "write": _Method(act=_call_write, takes=("vals",), needs=1, on_records=True),
    "unlink": _Method(
        act=lambda call: call.database.unlink(call.model, call.ids), takes=(), on_records=True
    ),
    "get_external_id": _Method(act=_call_external_ids, takes=(), on_records=True),
    "get_metadata": _Method(act=_call_metadata, takes=(), on_records=True),
    "fields_get": _Method(act=_call_fields_get, takes=("allfields", "attributes")),
}
