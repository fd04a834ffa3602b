"""Odoo's XML-RPC protocol: /xmlrpc/2/common and /xmlrpc/2/object, with its faults.

A document that declares anything (a DOCTYPE, entities) is refused unread.
"""

from __future__ import annotations

import xmlrpc.client as xmlrpc
from collections.abc import Callable, Mapping
from typing import Any
from xml.parsers import expat

from stoker.base.types import Json
from stoker.sandbox.http import Request, Response
from stoker.sandbox.vendors.odoo.database import Database
from stoker.sandbox.vendors.odoo.errors import OdooError, build_server_error
from stoker.sandbox.vendors.odoo.json2 import build_traceback
from stoker.sandbox.vendors.odoo.methods import Databases, OdooCall, bind_arguments
from stoker.sandbox.vendors.odoo.rights import USERS

VERSION: list[Json] = [19, 0, 0, "final", 0, ""]
MAX_DEPTH = 100  # elements within elements
_CONTROLS = dict.fromkeys(set(range(32)) - {9, 10, 13})
Act = Callable[[OdooCall], Any]


def answer_xml_rpc(databases: Databases, request: Request, act: Act) -> Response:
    try:
        method, params = read_call(request.body)
    except ValueError as error:
        return _build_fault(1, f"the request could not be read: {error}")
    try:
        if request.path == "/xmlrpc/2/common":
            return _build_answer(_answer_common(databases, method, params))
        return _build_answer(act(_parse_xml_rpc_call(databases, method, params)))
    except OdooError as error:
        message = build_traceback(error) if error.fault == 1 else str(error)
        return _build_fault(error.fault, message)


def read_call(body: bytes) -> tuple[str, tuple[Any, ...]]:
    """Return the method and parameters of a call; ValueError for anything else."""
    reading = xmlrpc.Unmarshaller(use_builtin_types=True)
    reading.xml("", None)  # the parser has already made text of everything
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        reading.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        reading.end(name)

    def refuse_declaration(*_: object) -> None:
        raise ValueError("a call has no business declaring a document type")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = reading.data
    parser.StartDoctypeDeclHandler = refuse_declaration
    parser.EntityDeclHandler = refuse_declaration
    try:
        parser.Parse(body, True)
        params = reading.close()
    except (expat.ExpatError, xmlrpc.Error, TypeError, KeyError, IndexError, LookupError) as error:
        raise ValueError(str(error) or type(error).__name__) from error
    method = reading.getmethodname()
    if not method:
        raise ValueError("no method is named")
    return method, tuple(params)


def _answer_common(databases: Databases, method: str, params: tuple[Any, ...]) -> Any:
    match method, params:
        case "version", ():
            return {
                "server_version": "19.0",
                "server_version_info": VERSION,
                "server_serie": "19.0",
                "protocol_version": 1,
            }
        case "authenticate", (str(name), str(login), str(key), _):
            opened = _open_database(databases, name, key)
            if opened is None or login != USERS[opened[1]].login:
                return False
            return opened[1]
    raise OdooError("builtins.AttributeError", f"Method not found: {method}", status=404, fault=1)


def _parse_xml_rpc_call(databases: Databases, method: str, params: tuple[Any, ...]) -> OdooCall:
    args: Any
    kwargs: Any
    match method, params:
        case "execute_kw", (str(name), int(uid), str(key), str(model), str(verb), args, *rest):
            kwargs = rest[0] if rest else {}
        case _:
            raise OdooError(
                "builtins.AttributeError", f"Method not found: {method}", status=404, fault=1
            )
    opened = _open_database(databases, name, key)
    if opened is None or opened[1] != uid:
        raise OdooError("odoo.exceptions.AccessDenied", "Access Denied", status=401, fault=3)
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        raise OdooError("builtins.TypeError", "args and kwargs are not", status=500, fault=1)
    context = kwargs.pop("context", None) or {}
    ids, arguments = bind_arguments(verb, args, kwargs)
    return OdooCall(
        database=opened[0],
        uid=uid,
        model=model,
        method=verb,
        ids=ids,
        arguments=arguments,
        context=context if isinstance(context, dict) else {},
    )


def _open_database(databases: Databases, name: str, key: str) -> tuple[Database, int] | None:
    if not databases.has_database(name):
        raise OdooError(
            "psycopg2.OperationalError", f'database "{name}" does not exist', status=500, fault=1
        )
    return databases.find_database(name, key)


def _build_answer(result: Any) -> Response:
    return _to_xml_response(
        xmlrpc.dumps((_to_xml_value(result),), methodresponse=True, allow_none=True)
    )


def _build_fault(code: int, text: str) -> Response:
    # Odoo answers faults with status 200, like everything else on this path.
    return _to_xml_response(
        xmlrpc.dumps(xmlrpc.Fault(code, _to_xml_value(text)), methodresponse=True)
    )


def _to_xml_response(text: str) -> Response:
    return Response(
        headers={"content-type": "text/xml; charset=utf-8"}, body=text.encode("utf-8", "replace")
    )


def _to_xml_value(value: Any) -> Any:
    """XML has no control characters, and its numbers are small."""
    if isinstance(value, str):
        return value.translate(_CONTROLS)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            # As with a real server's get_external_id, whose keys are numbers.
            raise build_server_error("dictionary key must be string", name="builtins.TypeError")
        return {key: _to_xml_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_xml_value(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**31 - 1:
        return float(value)
    return value
