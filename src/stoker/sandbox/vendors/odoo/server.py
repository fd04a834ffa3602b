"""odoo.test: one make-believe Odoo 19 server with a database for every tenant.

It knows which protocol a path belongs to and when loads meet; the protocols and the records have
files of their own.
"""

from __future__ import annotations

import time
from typing import Any

from stoker.sandbox.faults import Dials, dialled
from stoker.sandbox.http import Asked, Handler, Told, json_told
from stoker.sandbox.meter import Tallies
from stoker.sandbox.vendors.odoo.database import OdooError
from stoker.sandbox.vendors.odoo.json2 import error_told, json2
from stoker.sandbox.vendors.odoo.methods import Databases, OdooCall, called, losing
from stoker.sandbox.vendors.odoo.xmlrpc import VERSION, xml_rpc
from stoker.sandbox.world.companies import World

NAME = "odoo"

WRITES = frozenset({"load", "create", "write", "unlink"})


def odoo(
    world: World, dials: Dials, tallies: Tallies, *, databases: Databases | None = None
) -> Handler:
    """Return the server's handler. `databases` are the ones it keeps, for tests to look into."""
    kept = databases or Databases()

    def answer(asked: Asked) -> Told:
        def act(call: OdooCall) -> Any:
            return _acted(kept, call, asked, world, dials, tallies)

        if asked.path.startswith("/json/2/"):
            return json2(kept, asked, act)
        if asked.path in ("/xmlrpc/2/common", "/xmlrpc/2/object") and asked.method == "POST":
            return xml_rpc(kept, asked, act)
        if asked.path == "/web/version":
            return json_told({"version_info": VERSION, "version": "19.0"})
        return error_told(
            OdooError("werkzeug.exceptions.NotFound", "404: Not Found", status=404, fault=1)
        )

    return dialled(NAME, answer, seed=world.seed, dials=dials, tallies=tallies, refused=_refused)


def _acted(
    databases: Databases, call: OdooCall, asked: Asked, world: World, dials: Dials, tallies: Tallies
) -> Any:
    dial = dials.of(NAME)
    if call.method == "load":
        # A transaction is over before its answer is there: who waits for one never meets itself.
        lasting = 0.9 * dial.latency_low.total_seconds()
        met = databases.loses(call, now=time.monotonic(), lasting=lasting)
        if met or world.draws("odoo race", asked.number).chance(dial.races):
            return losing(call)
    result = called(call)
    if call.method in WRITES:
        tallies.charge(NAME, 1, unit="writes", key=call.database.name)
    return result


def _refused(status: int) -> Told:
    name = {429: "TooManyRequests", 503: "ServiceUnavailable"}.get(status, "InternalServerError")
    return error_told(
        OdooError(f"werkzeug.exceptions.{name}", f"{status}: {name}", status=status, fault=1)
    )
