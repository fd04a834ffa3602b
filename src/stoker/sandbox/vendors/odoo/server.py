"""odoo.test: one fake Odoo 19 server with a database for every tenant.

Routes requests to the JSON-2 or XML-RPC protocol, and lets writes conflict.
"""

from __future__ import annotations

import time
from typing import Any

from stoker.sandbox.faults import FaultSettings, FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import Handler, Request, Response, to_json_response
from stoker.sandbox.meter import Meter
from stoker.sandbox.vendors.odoo.database import OdooOptions
from stoker.sandbox.vendors.odoo.errors import OdooError, build_server_error
from stoker.sandbox.vendors.odoo.json2 import (
    answer_json2,
    build_error_response,
    build_no_database_response,
)
from stoker.sandbox.vendors.odoo.methods import Databases, OdooCall, build_race_answer, execute_call
from stoker.sandbox.vendors.odoo.xmlrpc import VERSION, answer_xml_rpc
from stoker.sandbox.world.companies import World

NAME = "odoo"
WRITES = frozenset({"load", "create", "write", "unlink"})


def build_odoo_handler(
    world: World, dials: FaultSettingsTable, meter: Meter, *, databases: Databases | None = None
) -> Handler:
    """Return the server's handler. `databases` are the ones it keeps, for tests to look into."""
    opened = databases or Databases()

    def answer(request: Request) -> Response:
        def act(call: OdooCall) -> Any:
            return _execute_with_races(opened, call, request, world, dials, meter)

        if dials.get_settings(NAME).away == 1 and request.path.startswith("/json/2/"):
            return build_no_database_response()
        if request.path.startswith("/json/2/"):
            return answer_json2(opened, request, act)
        if request.path in ("/xmlrpc/2/common", "/xmlrpc/2/object") and request.method == "POST":
            return answer_xml_rpc(opened, request, act)
        if request.path == "/web/version":
            return to_json_response({"version_info": VERSION, "version": "19.0"})
        return build_error_response(
            OdooError("werkzeug.exceptions.NotFound", "404: Not Found", status=404, fault=1)
        )

    return wrap_with_faults(
        NAME, answer, seed=world.seed, dials=dials, meter=meter, refused=_build_refusal
    )


def _execute_with_races(
    databases: Databases,
    call: OdooCall,
    request: Request,
    world: World,
    dials: FaultSettingsTable,
    meter: Meter,
) -> Any:
    dial = dials.get_settings(NAME)
    if dial.away:
        raise build_server_error("cursor already closed", name="psycopg2.InterfaceError")
    call.database.configure(_read_options(dial))
    if call.method == "load":
        # A transaction is over before its answer is there: who waits for one never meets itself.
        lasting = 0.9 * dial.latency_low.total_seconds()
        met = databases.lose_race(call, now=time.monotonic(), lasting=lasting)
        if met or world.build_draws("odoo race", request.number).draw_bool(dial.races):
            return build_race_answer(call, language=dial.language)
    result = execute_call(call)
    if call.method in WRITES:
        meter.charge(NAME, 1, unit="writes", key=call.database.name)
    return result


def _read_options(dial: FaultSettings) -> OdooOptions:
    return OdooOptions(
        apps=frozenset(dial.apps.split()),
        leads=bool(dial.leads),
        required=tuple(dial.required.split()),
    )


def _build_refusal(status: int) -> Response:
    name = {429: "TooManyRequests", 503: "ServiceUnavailable"}.get(status, "InternalServerError")
    return build_error_response(
        OdooError(f"werkzeug.exceptions.{name}", f"{status}: {name}", status=status, fault=1)
    )


HOSTS = {"odoo.test": build_odoo_handler}
