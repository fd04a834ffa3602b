"""`stoker connector`: which connectors are on, what they may use, and whether they are there.

Listing sends nothing. Testing asks each vendor what costs nothing. Settings and the vendors' table
say what is on and where it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.options import choose_tenant, tenant_option
from stoker.cli.output import (
    Exit,
    async_command,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.budgets.model import Health
    from stoker.budgets.operator import BudgetPosition
    from stoker.cli.output import CommandContext
    from stoker.context import Context


@click.group()
def connector() -> None:
    """List connectors; test whether each works."""


@connector.command("list")
@tenant_option
@json_option
@pass_context
@async_command
async def list_connectors(asked: CommandContext, tenant: str | None, as_json: bool) -> None:
    """List connectors: on or off and why, address, rate, cap usage. Calls no vendor."""
    from stoker.budgets.operator import read_position
    from stoker.vendors.table import VENDORS

    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        stands = await read_position(app, whose, now=app.clock.now())
        lines = [_build_view(app, name, whose, stands) for name in VENDORS]
        sandbox = app.settings.sandbox.address
    if as_json:
        print_json({"sandbox": sandbox, "connectors": lines})
        return
    _print_sandbox(sandbox)
    print_table(
        ("connector", "state", "address", "rate", "caps", "reason"),
        [
            (
                line["name"],
                line["state"],
                ", ".join(line["addresses"]) or ("none" if line["state"] == "off" else "any site"),
                line["pace"],
                ", ".join(map(_format_usage, line["caps"])) or "none",
                line["because"],
            )
            for line in lines
        ],
    )


@connector.command("test")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@tenant_option
@json_option
@pass_context
@async_command
async def check_connectors(
    asked: CommandContext, names: tuple[str, ...], tenant: str | None, as_json: bool
) -> Exit:
    """Test connectors by calls that cost nothing: reachable, key accepted, credits left.

    Without NAME, all of them. Exit code 1 when a test fails, 2 when a named connector is off.
    """
    import asyncio

    from stoker.vendors.table import VENDORS, check_vendor, find_off_reason

    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)

        async def tested(name: str) -> tuple[str, Health | None, str]:
            if because := await find_off_reason(app.for_tenant(whose), name):
                return name, None, because
            health = await check_vendor(app.for_tenant(whose), name)
            return name, health, health.detail

        wanted = list(dict.fromkeys(names)) or list(VENDORS)
        found = await asyncio.gather(*(tested(name) for name in wanted))
        sandbox = app.settings.sandbox.address
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
        print_json({"sandbox": sandbox, "connectors": rows})
    else:
        _print_sandbox(sandbox)
        print_table(
            ("connector", "", "detail"),
            [(name, _format_health(health), detail) for name, health, detail in found],
        )
    if names and any(health is None for _, health, _ in found):
        return Exit.CONFIG
    wrong = any(health is not None and not health.ok for _, health, _ in found)
    return Exit.PROBLEMS if wrong else Exit.OK


def _build_view(
    app: Context, name: str, tenant: TenantId, stands: BudgetPosition
) -> dict[str, Any]:
    """Return one connector as it stands for a tenant, as `--json` prints it."""
    from stoker.http.fields import is_sandbox_url
    from stoker.rate_limits.limiter import build_vendor_limits
    from stoker.vendors.table import get_off_reason, list_addresses

    own, way = app.settings.for_tenant(tenant), app.get(build_vendor_limits).get_limit(name)
    rate, addresses = way.rate, list_addresses(own, name)
    pace = f"{rate.calls} in {rate.per.total_seconds():g} s"
    if name == "crawl":
        pace = f"{app.settings.crawl.gap_s:g} s apart at a host"
    stops = {stop.connector: stop.reason or "no reason given" for stop in stands.stops}
    off, stop = get_off_reason(own, name), stops.get(name) or stops.get("")
    return {
        "name": name,
        "state": "off" if off else "stopped" if stop else "on",
        "because": off or (f"stopped: {stop}" if stop else ""),
        "addresses": addresses,
        "make_believe": any(map(is_sandbox_url, addresses)),
        "pace": f"{pace}, {way.concurrency} at once",
        "calls": rate.calls,
        "per_s": rate.per.total_seconds(),
        "burst": rate.burst,
        "share": rate.share,
        "concurrency": way.concurrency,
        "caps": [
            {
                "cap": each.cap,
                "used": each.used.settled,
                "reserved": each.used.reserved,
                "free": each.free,
                "limit": each.limit,
            }
            for each in stands.balances
            if each.cap.split("/")[1] == name
        ],
        "health": "unknown",
    }


def _print_sandbox(address: str | None) -> None:
    if address is not None:
        print_text(f"THE SANDBOX IS ON, at {address}: hosts ending in .test are fake.\n")


def _format_health(health: Health | None) -> str:
    if health is None:
        return "off"
    return "ok" if health.ok else "WRONG"


def _format_usage(cap: Mapping[str, Any]) -> str:
    return f"{cap['used'] + cap['reserved']} of {cap['limit']} {cap['cap'].split('/')[2]}"
