"""`stoker connector`: which connectors are on, what they may use, and whether they are there.

Listing asks nobody. Testing asks each vendor what costs nothing. What is on and where it goes is
said by settings; `stoker.connectors` builds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stoker.cli.options import one_tenant, takes_tenant
from stoker.cli.output import Exit, pass_asked, run_async, say, show_json, show_table, takes_json

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.base.types import Json, TenantId
    from stoker.budgets.model import Health
    from stoker.budgets.statements import Statement
    from stoker.cli.output import Asked
    from stoker.rate_limits.limiter import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One connector as it stands for a tenant."""

    name: str
    off: str  # why; empty when it is on
    stopped: str  # why, when somebody stopped it
    addresses: list[str]
    make_believe: bool
    way: Way
    pace: str
    caps: list[Statement]

    @property
    def state(self) -> str:
        if self.off:
            return "off"
        return "stopped" if self.stopped else "on"


@click.group()
def connector() -> None:
    """List connectors; see whether each is there."""


@connector.command("list")
@takes_tenant
@takes_json
@pass_asked
def list_connectors(asked: Asked, tenant: str | None, as_json: bool) -> None:
    """Show every connector: on or off and why, where it goes, how fast, what it has used today.

    Nobody is asked, so how they are is not known; see `stoker connector test`.
    """
    lines, sandbox = run_async(_listed(asked, tenant))
    if as_json:
        show_json({"sandbox": sandbox, "connectors": [_json(line) for line in lines]})
        return
    _say_sandbox(sandbox)
    show_table(
        ("connector", "state", "where", "rate", "caps", "why"),
        [
            (
                line.name,
                line.state,
                ", ".join(line.addresses) or ("nowhere" if line.off else "any site"),
                line.pace,
                ", ".join(_used(each) for each in line.caps) or "none of its own",
                line.off or line.stopped,
            )
            for line in lines
        ],
    )


@connector.command("test")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@takes_tenant
@takes_json
@pass_asked
def ask_connectors(asked: Asked, names: tuple[str, ...], tenant: str | None, as_json: bool) -> Exit:
    """Ask connectors what costs nothing: is it there, does it take our key, what is left.

    Without a NAME, all of them; those that are off are listed as such. Exit code 1 when one is not
    well, 2 when one that was named is off.
    """
    found, sandbox = run_async(_tested(asked, names, tenant))
    if as_json:
        rows: list[Json] = [
            {
                "name": name,
                "on": health is not None,
                "ok": None if health is None else health.ok,
                "detail": detail,
            }
            for name, health, detail in found
        ]
        show_json({"sandbox": sandbox, "connectors": rows})
    else:
        _say_sandbox(sandbox)
        show_table(
            ("connector", "", "detail"),
            [(name, _mark(health), detail) for name, health, detail in found],
        )
    if names and any(health is None for _, health, _ in found):
        return Exit.CONFIG
    wrong = any(health is not None and not health.ok for _, health, _ in found)
    return Exit.PROBLEMS if wrong else Exit.OK


async def _listed(asked: Asked, tenant: str | None) -> tuple[list[_Line], str | None]:
    from stoker.budgets.views import position
    from stoker.connectors import NEEDS

    async with asked.app(only_to_read=True) as app:
        whose = one_tenant(app.settings, tenant)
        stands = await position(app, whose, now=app.clock.now())
        lines = [_line(app, name, whose, stands.statements) for name in NEEDS]
        stops = {stop.connector: stop.reason or "no reason was given" for stop in stands.stops}
        return [_stopped(line, stops) for line in lines], app.settings.sandbox.address


def _line(app: App, name: str, tenant: TenantId, statements: list[Statement]) -> _Line:
    from stoker.http.fields import is_make_believe

    addresses, way = app.connectors.addresses(name, tenant), app.traffic.way(name)
    pace = f"{way.rate.calls} in {way.rate.per.total_seconds():g} s"
    if name == "crawl":
        pace = f"{app.settings.crawl.gap_s:g} s apart at a host"
    return _Line(
        name=name,
        off=app.connectors.why_off(name, tenant),
        stopped="",
        addresses=addresses,
        make_believe=any(map(is_make_believe, addresses)),
        way=way,
        pace=f"{pace}, {way.places} at once",
        caps=[each for each in statements if each.cap.split("/")[1] == name],
    )


def _stopped(line: _Line, stops: dict[str, str]) -> _Line:
    from dataclasses import replace

    why = stops.get(line.name) or stops.get("")
    return line if why is None else replace(line, stopped=f"stopped: {why}")


async def _tested(
    asked: Asked, names: tuple[str, ...], tenant: str | None
) -> tuple[list[tuple[str, Health | None, str]], str | None]:
    """Return each connector's health, None when it is off, and what there is to say about it."""
    import asyncio

    from stoker.connectors import NEEDS

    async with asked.app(only_to_read=True) as app:
        whose = one_tenant(app.settings, tenant)

        async def tested(name: str) -> tuple[str, Health | None, str]:
            if because := app.connectors.why_off(name, whose):
                return name, None, because
            health = await app.connectors.checked(name, whose)
            return name, health, health.detail

        wanted = list(dict.fromkeys(names)) or list(NEEDS)
        found = await asyncio.gather(*(tested(name) for name in wanted))
        return list(found), app.settings.sandbox.address


def _say_sandbox(address: str | None) -> None:
    if address is not None:
        say(f"THE SANDBOX IS ON, at {address}: addresses ending in .test are make-believe.\n")


def _mark(health: Health | None) -> str:
    if health is None:
        return "off"
    return "ok" if health.ok else "WRONG"


def _used(line: Statement) -> str:
    unit = line.cap.split("/")[2]
    return f"{line.used.total} of {line.limit} {unit}"


def _json(line: _Line) -> Json:
    rate = line.way.rate
    return {
        "name": line.name,
        "state": line.state,
        "because": line.off or line.stopped,
        "addresses": list(line.addresses),
        "make_believe": line.make_believe,
        "pace": line.pace,
        "calls": rate.calls,
        "per_s": rate.per.total_seconds(),
        "burst": rate.burst,
        "share": rate.share,
        "concurrency": line.way.places,
        "caps": [
            {
                "cap": each.cap,
                "used": each.used.settled,
                "reserved": each.used.reserved,
                "free": each.free,
                "limit": each.limit,
            }
            for each in line.caps
        ],
        "health": "unknown",
    }
