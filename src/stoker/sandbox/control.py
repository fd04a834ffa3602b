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

from collections.abc import Iterator
from dataclasses import asdict, fields
from itertools import islice
from typing import TYPE_CHECKING

from stoker.base.errors import ConfigError
from stoker.sandbox.http import Asked, Handler, Told, json_told, text_told
from stoker.sandbox.world.register import RELEASES, lines

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.sandbox.faults import Dials
    from stoker.sandbox.meter import Tallies
    from stoker.sandbox.world.companies import Company, World


def control(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the handler of `sandbox.test`."""

    def handled(asked: Asked) -> Told:
        match asked.method, asked.path:
            case "GET", "/":
                return text_told(__doc__ or "")
            case "GET", "/log":
                return json_told(_log(asked, tallies))
            case "GET", "/charges":
                charges: Json = {"total": tallies.charges, "by_key": tallies.charges_by_key}
                return json_told(charges)
            case "GET", "/counts":
                return json_told(_counts(tallies))
            case "GET", "/dials":
                return json_told(_dials(dials))
            case "POST", "/dials":
                return _turned(asked, dials)
            case "GET", "/registry.csv":
                return _registry(asked, world)
            case "GET", "/company":
                return _company(asked, world)
            case _:
                return json_told({"error": "there is no such thing here"}, status=404)

    return handled


def _log(asked: Asked, tallies: Tallies) -> Json:
    after, limit = _number(asked.argument("after"), 0), _number(asked.argument("limit"), 1000)
    host = asked.argument("host")
    seen = [each for each in tallies.log if each.number > after and host in ("", each.host)]
    return [asdict(each) for each in seen[: max(limit, 0)]]


def _counts(tallies: Tallies) -> Json:
    return {
        "requests": tallies.requests,
        "by_host": dict(tallies.by_host),
        "by_status": {str(status): many for status, many in tallies.by_status.items()},
    }


def _dials(dials: Dials) -> Json:
    return {vendor: dict(turned) for vendor, turned in dials.shown().items()}


def _turned(asked: Asked, dials: Dials) -> Told:
    try:
        wanted = asked.json()
        if not isinstance(wanted, dict):
            raise ConfigError('send an object, e.g. {"tavily.latency": "200ms"}')
        for name, value in wanted.items():
            if not isinstance(value, str | int | float):
                raise ConfigError(f"{name} is a number or a text")
            dials.turn(name, value)
    except ValueError:
        return json_told({"error": "the body is no JSON"}, status=400)
    except ConfigError as error:
        return json_told({"error": str(error)}, status=400)
    return json_told(_dials(dials))


def _registry(asked: Asked, world: World) -> Told:
    rows, release = _number(asked.argument("rows"), -1), asked.argument("release")
    if asked.argument("rows") and not 0 <= rows <= world.size:
        error = f"rows is a number from 0 to {world.size}, which is how many companies there are"
        return json_told({"error": error}, status=400)
    rows = rows if rows >= 0 else world.size
    try:
        wanted = lines(
            world, rows=rows, release=release or RELEASES[0], part=asked.argument("part")
        )
        first = next(wanted)
    except ConfigError as error:
        return json_told({"error": str(error)}, status=400)
    return Told(
        headers={"content-type": "text/csv; charset=utf-8"}, stream=_in_pieces(first, wanted)
    )


def _in_pieces(first: str, wanted: Iterator[str]) -> Iterator[bytes]:
    yield first.encode()
    # Small pieces: while one is being made, nobody else is answered.
    while piece := "".join(islice(wanted, 50)):
        yield piece.encode()


def _company(asked: Asked, world: World) -> Told:
    found: Company | None
    if domain := asked.argument("domain"):
        found = world.by_domain(domain)
    elif uen := asked.argument("uen"):
        found = world.by_uen(uen)
    else:
        index = _number(asked.argument("index"), -1)
        found = world.company(index) if 0 <= index < world.size else None
    if found is None:
        return json_told({"error": "there is no such company"}, status=404)
    told = {field.name: getattr(found, field.name) for field in fields(found)}
    del told["staff"]
    people = [person._asdict() for person in found.people]
    return json_told({**told, "incorporated": found.incorporated.isoformat(), "people": people})


def _number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else default
