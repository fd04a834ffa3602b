"""Odoo's JSON-2 protocol: POST /json/2/<model>/<method> with named arguments, and its errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from stoker.base.types import Json
from stoker.sandbox.http import Request, Response, to_json_response
from stoker.sandbox.vendors.odoo.errors import OdooError, build_server_error
from stoker.sandbox.vendors.odoo.methods import Databases, OdooCall

_PATH = re.compile(r"/json/2/([a-z0-9_.]{1,100})/([A-Za-z0-9_]{1,100})")
Act = Callable[[OdooCall], Any]


_NO_DATABASE = (
    "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n"
    "<p>No database is selected and the requested URL was not found in the server-wide "
    "controllers. Please verify the hostname, login and try again.</p>\n"
)


def answer_json2(databases: Databases, request: Request, act: Act) -> Response:
    if not databases.has_database(request.headers.get("x-odoo-database", "")):
        return build_no_database_response()
    try:
        return to_json_response(act(_parse_json2_call(databases, request)))
    except OdooError as error:
        return build_error_response(error)


def build_no_database_response() -> Response:
    """Return what the server answers without a database: none named, none such, or one away."""
    return Response(
        status=404,
        headers={"content-type": "text/html; charset=utf-8"},
        body=_NO_DATABASE.encode(),
    )


def build_error_response(error: OdooError) -> Response:
    message = str(error)
    data: Mapping[str, Json] = {
        "name": error.name,
        "message": message,
        "arguments": [message] if error.status != 401 else [message, 401],
        "context": {},
        "debug": build_traceback(error),
    }
    return to_json_response(data, status=error.status)


def build_traceback(error: OdooError) -> str:
    """Return a traceback as the server sends it, which no user should see."""
    where = "/opt/odoo/server/odoo/http.py"
    return (
        "Traceback (most recent call last):\n"
        f'  File "{where}", line 2287, in _serve_db\n'
        "    return service_model.retrying(serve_func, env=self.env)\n"
        f"{error.name.removeprefix('builtins.')}: {error}\n"
    )


def _parse_json2_call(databases: Databases, request: Request) -> OdooCall:
    match = _PATH.fullmatch(request.path)
    if match is None or request.method != "POST":
        status = 405 if match else 404
        raise OdooError("werkzeug.exceptions.NotFound", "404: Not Found", status=status, fault=1)
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    opened = databases.find_database(request.headers.get("x-odoo-database", ""), key.strip())
    if scheme.lower() != "bearer" or opened is None:
        raise OdooError("werkzeug.exceptions.Unauthorized", "Invalid apikey", status=401, fault=3)
    database, uid = opened
    try:
        body: Any = request.parse_json() if request.body else {}
    except ValueError as error:
        raise OdooError(
            "werkzeug.exceptions.BadRequest",
            f"could not parse the body: {error}",
            status=400,
            fault=1,
        ) from error
    if not isinstance(body, dict):
        raise OdooError(
            "werkzeug.exceptions.BadRequest", "the body must be a JSON object", status=400, fault=1
        )
    ids, context = body.pop("ids", []), body.pop("context", {})
    if not isinstance(ids, list) or not isinstance(context, dict):
        raise build_server_error(
            "ids must be a list and context an object", name="builtins.TypeError"
        )
    return OdooCall(
        database=database,
        uid=uid,
        model=match[1],
        method=match[2],
        ids=ids,
        arguments=body,
        context=context,
    )
