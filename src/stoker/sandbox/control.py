"""The sandbox's own address, `sandbox.test`: what it saw, what it charged, and its dials.

GET  /              what is here
GET  /log           the last requests (?after=N, ?host=…, ?limit=…)
GET  /charges       what vendors charged, in all and by key's fingerprint
GET  /counts        how many requests there were, by host and by status
GET  /dials         where dials stand;  POST /dials {"tavily.latency": "200ms"} turns them
GET  /registry.csv  the register of all companies (?rows=N, ?release=2025-12-31, ?part=Q)
GET  /company       one company (?domain=…, ?uen=… or ?index=N)
"""

from __future__ import annotations

from dataclasses import asdict, fields
from itertools import chain
from typing import TYPE_CHECKING

from stoker.base.errors import ConfigError
from stoker.sandbox.http import Handler, Request, Response, to_json_response, to_text_response
from stoker.sandbox.world.register import RELEASES, iterate_lines, iterate_pieces

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.sandbox.faults import FaultSettingsTable
    from stoker.sandbox.meter import Meter
    from stoker.sandbox.world.companies import Company, World


def build_control_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    def handle(request: Request) -> Response:
        match request.method, request.path:
            case "GET", "/":
                return to_text_response(__doc__ or "")
            case "GET", "/log":
                return to_json_response(_list_requests(request, meter))
            case "GET", "/charges":
                charges: Json = {"total": meter.charges, "by_key": meter.charges_by_key}
                return to_json_response(charges)
            case "GET", "/counts":
                return to_json_response(_to_counts_json(meter))
            case "GET", "/dials":
                return to_json_response(_to_settings_json(dials))
            case "POST", "/dials":
                return _change_setting(request, dials)
            case "GET", "/registry.csv":
                return _serve_register(request, world)
            case "GET", "/company":
                return _describe_company(request, world)
            case _:
                return to_json_response({"error": "there is no such thing here"}, status=404)

    return handle


def _list_requests(request: Request, meter: Meter) -> Json:
    after, limit = request.get_number("after", 0), request.get_number("limit", 1000)
    host = request.get_argument("host")
    seen = [each for each in meter.log if each.number > after and host in ("", each.host)]
    return [asdict(each) for each in seen[: max(limit, 0)]]


def _to_counts_json(meter: Meter) -> Json:
    return {
        "requests": meter.requests,
        "by_host": dict(meter.by_host),
        "by_status": {str(status): many for status, many in meter.by_status.items()},
    }


def _to_settings_json(dials: FaultSettingsTable) -> Json:
    return {vendor: dict(turned) for vendor, turned in dials.list_changed().items()}


def _change_setting(request: Request, dials: FaultSettingsTable) -> Response:
    try:
        wanted = request.parse_json()
        if not isinstance(wanted, dict):
            raise ConfigError('send an object, e.g. {"tavily.latency": "200ms"}')
        for name, value in wanted.items():
            if not isinstance(value, str | int | float):
                raise ConfigError(f"{name} is a number or a text")
            dials.set_value(name, value)
    except ValueError:
        return to_json_response({"error": "the body is no JSON"}, status=400)
    except ConfigError as error:
        return to_json_response({"error": str(error)}, status=400)
    return to_json_response(_to_settings_json(dials))


def _serve_register(request: Request, world: World) -> Response:
    rows, release = request.get_number("rows", -1), request.get_argument("release")
    if request.get_argument("rows") and not 0 <= rows <= world.size:
        error = f"rows is a number from 0 to {world.size}, which is how many companies there are"
        return to_json_response({"error": error}, status=400)
    rows = rows if rows >= 0 else world.size
    try:
        wanted = iterate_lines(
            world, rows=rows, release=release or RELEASES[0], part=request.get_argument("part")
        )
        lines = chain([next(wanted)], wanted)
    except ConfigError as error:
        return to_json_response({"error": str(error)}, status=400)
    return Response(
        headers={"content-type": "text/csv; charset=utf-8"}, stream=iterate_pieces(lines)
    )


def _describe_company(request: Request, world: World) -> Response:
    company: Company | None
    if domain := request.get_argument("domain"):
        company = world.find_by_domain(domain)
    elif uen := request.get_argument("uen"):
        company = world.find_by_uen(uen)
    else:
        index = request.get_number("index", -1)
        company = world.get_company(index) if 0 <= index < world.size else None
    if company is None:
        return to_json_response({"error": "there is no such company"}, status=404)
    values = {field.name: getattr(company, field.name) for field in fields(company)}
    del values["staff"]
    people = [person._asdict() for person in company.people]
    return to_json_response(
        {**values, "incorporated": company.incorporated.isoformat(), "people": people}
    )
