"""Which methods of Odoo's models can be called from outside, and with which arguments.

Both protocols end here: one passes arguments by name, the other by position. Two loads that write
the same record within one time window conflict, and the later one loses, as on a real server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.sandbox.vendors.odoo.database import Database
from stoker.sandbox.vendors.odoo.errors import (
    OdooError,
    build_access_error,
    build_server_error,
    build_user_error,
)
from stoker.sandbox.vendors.odoo.load import build_lost_race, list_external_ids, load_rows
from stoker.sandbox.vendors.odoo.merges import merge_leads, merge_partners
from stoker.sandbox.vendors.odoo.models import OdooField
from stoker.sandbox.vendors.odoo.rights import (
    OPERATIONS,
    USE_LEADS,
    USERS,
    find_access_problem,
    find_user,
)

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
    of_model: str = ""  # only this one has it


class Databases:
    """Every database of the fake server, opened by keys that name them.

    The key of database `acme` begins with `odoo-acme-`, then says whose it is (see `USERS`), so
    that a person's edits differ from ours. A database with `missing` in its name does not exist.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Database] = {}
        self._busy: dict[tuple[str, str], float] = {}

    def has_database(self, name: str) -> bool:
        well_formed = bool(name) and len(name) <= 63 and not set(name) - set(_DATABASE)
        return well_formed and "missing" not in name

    def find_database(self, name: str, key: str) -> tuple[Database, int] | None:
        """Return the database and the key's user, or None when the key does not open it."""
        uid = find_user(name, key) if self.has_database(name) else None
        if uid is None:
            return None
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
    if not call.database.has_model(call.model):
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
    if method is None or method.of_model not in ("", call.model):
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


def build_race_answer(call: OdooCall, *, language: str) -> Mapping[str, Any]:
    """Return the answer to a load that lost to another one."""
    return build_lost_race(len(call.arguments.get("data") or ()), language=language)


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
    return load_rows(call.database, call.model, fields, data, uid=call.uid, context=call.context)


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
        uid=call.uid,
        offset=offset,
        limit=limit or None,
        archived=call.context.get("active_test") is False,
    )


def _call_read(call: OdooCall, ids: Sequence[int]) -> Any:
    fields = call.arguments.get("fields")
    if fields is not None and not _is_names(fields):
        raise build_server_error("fields must be a list of names", name="builtins.TypeError")
    return call.database.read(call.model, ids, fields, uid=call.uid)


def _call_create(call: OdooCall) -> Any:
    rows = call.arguments["vals_list"]
    one = isinstance(rows, Mapping)
    if not one and not (isinstance(rows, list) and all(isinstance(r, Mapping) for r in rows)):
        raise build_server_error("vals_list must be a list of values", name="builtins.TypeError")
    ids = call.database.create(
        call.model, [rows] if one else rows, uid=call.uid, context=call.context
    )
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
        for record in call.database.read(call.model, call.ids, fields, uid=call.uid)
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
        described["selection"] = [[code, label] for code, label in one.choices.items()]
    return described


def _call_reference(call: OdooCall) -> list[Any]:
    """Return what an external id names; its number only if the caller can find it."""
    external = f"{call.arguments['module']}.{call.arguments['xml_id']}"
    there = call.database.external.get(external)
    if there is None:
        raise build_server_error(f"External ID not found in the system: {external}")
    model, id_ = there
    archived = call.context.get("active_test") is False
    domain = [["id", "=", id_]]
    found = call.database.search(model, domain, uid=call.uid, archived=archived)
    return [model, id_ if found else False]


def _call_has_access(call: OdooCall) -> bool:
    operation = call.arguments["operation"]
    if operation not in OPERATIONS:
        raise ValueError(f"Invalid access operation {operation!r}")
    return not find_access_problem(call.model, operation, call.uid)


def _call_has_group(call: OdooCall) -> bool:
    if len(call.ids) != 1:
        raise ValueError(f"Expected singleton: res.users{tuple(call.ids)}")
    group = call.arguments["group_ext_id"]
    if group == USE_LEADS:
        return call.database.options.leads
    return group in USERS[call.ids[0]].groups


def _call_defaults(call: OdooCall) -> dict[str, Any]:
    values = call.database.build_defaults(call.model, {}, uid=call.uid)
    return {name: values[name] for name in call.arguments["fields"] if name in values}


def _call_post(call: OdooCall) -> list[int]:
    call.database.get_records(call.model, call.ids)
    body, kind = call.arguments.get("body", ""), call.arguments.get("message_type", "notification")
    return [
        call.database.add_message(call.model, id_, str(body), kind=str(kind), uid=call.uid)
        for id_ in call.ids
    ]


def _call_export(call: OdooCall) -> Any:
    raise build_user_error(
        "You don't have the rights to export data. Please contact an Administrator."
    )


def _call_merge(call: OdooCall) -> Any:
    [wizard] = call.database.get_records(call.model, call.ids)
    if call.model == "crm.merge.opportunity":
        return merge_leads(call.database, wizard["opportunity_ids"], uid=call.uid)
    merge_partners(
        call.database, wizard["partner_ids"], into=wizard["dst_partner_id"], uid=call.uid
    )
    return True


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
        act=lambda call: call.database.unlink(call.model, call.ids, uid=call.uid),
        takes=(),
        on_records=True,
    ),
    "get_external_id": _Method(act=_call_external_ids, takes=(), on_records=True),
    "get_metadata": _Method(act=_call_metadata, takes=(), on_records=True),
    "fields_get": _Method(act=_call_fields_get, takes=("allfields", "attributes")),
    "default_get": _Method(act=_call_defaults, takes=("fields",), needs=1),
    "has_access": _Method(act=_call_has_access, takes=("operation",), needs=1, on_records=True),
    "has_group": _Method(
        act=_call_has_group, takes=("group_ext_id",), needs=1, on_records=True, of_model="res.users"
    ),
    "context_get": _Method(
        act=lambda call: {"lang": "en_US", "tz": "Asia/Singapore", "uid": call.uid},
        takes=(),
        of_model="res.users",
    ),
    "check_object_reference": _Method(
        act=_call_reference, takes=("module", "xml_id"), needs=2, of_model="ir.model.data"
    ),
    "message_post": _Method(
        act=_call_post, takes=("body", "message_type", "subtype_xmlid"), on_records=True
    ),
    "export_data": _Method(act=_call_export, takes=("fields_to_export",), needs=1, on_records=True),
    "action_merge": _Method(act=_call_merge, takes=(), on_records=True),
}
