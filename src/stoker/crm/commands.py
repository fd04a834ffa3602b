"""`stoker crm`: where a tenant's results go, and undo of what a run wrote there.

The key is a setting and never passes through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count
from stoker.cli.options import aliased_option, choose_tenant, tenant_option
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
    from collections.abc import Sequence

    from stoker.base.types import TenantId
    from stoker.cli.output import CommandContext
    from stoker.crm.checks import CrmCheck
    from stoker.crm.undo import UndoResult
    from stoker.tenants.model import CrmConnection

CRM_KINDS = ("odoo",)

MAX_SHOWN = 50


@click.group()
def crm() -> None:
    """Connect a tenant's CRM; undo what a run wrote into it."""


@crm.command("connect")
@tenant_option
@aliased_option(
    "--system",
    type=click.Choice(CRM_KINDS),
    default=CRM_KINDS[0],
    aliases=["--kind"],
    help="Which CRM.",
)
@click.option("--url", help="Its URL. Default: odoo.url, or the previous one.")
@click.option("--database", help="Its database. Default: odoo.database, or the previous one.")
@click.option(
    "--expires", metavar="TIME", help="When its key expires; Odoo keys last three months at most."
)
@json_option
@pass_context
@async_command
async def connect(
    ctx: CommandContext,
    tenant: str | None,
    system: str,
    url: str | None,
    database: str | None,
    expires: str | None,
    as_json: bool,
) -> Exit:
    """Connect a tenant to its CRM and check, at no cost, that it would take what a night sends.

    The key is ODOO_API_KEY, or keys.odoo in `[tenants.ID]`; it is not stored in the database. Exit
    code 1 when the check fails; the connection is saved all the same.
    """
    from stoker.cli.options import parse_time
    from stoker.crm.checks import check_connection
    from stoker.crm.odoo_protocols import ALLOW_PRIVATE
    from stoker.http.fields import require_allowed_url
    from stoker.tenants.model import CrmConnection
    from stoker.vendors.table import OdooSettings

    expires_at = None if expires is None else parse_time(expires, what="--expires")
    async with ctx.open_app() as app:
        tenant_id = choose_tenant(app.settings, tenant)
        own, setup = (
            app.settings.for_tenant(tenant_id).get_vendor(OdooSettings),
            app.backend.tenant(tenant_id).setup,
        )
        before = await setup.find_connection()
        place = url or (before.url if before else own.url)
        data = database or (before.database if before else own.database)
        if not place or not data:
            raise ConfigError(
                f"connect the CRM of {tenant_id}: stoker crm connect --tenant {tenant_id} "
                "--url https://your.odoo.com --database NAME"
            )
        address = _normalize_url(place)
        require_allowed_url(address, setting=ALLOW_PRIVATE, may_be_private=own.allow_private)
        connection = CrmConnection(
            kind=system, url=address, database=data, key_expires_at=expires_at
        )
        await setup.save_connection(connection)
        await setup.complete_setup_step("crm", at=app.clock.now())
        checks = await check_connection(app.for_tenant(tenant_id), connection)
    _print_connection(tenant_id, connection, checks, as_json=as_json)
    return Exit.OK if all(check.ok for check in checks) else Exit.PROBLEMS


@crm.command("disconnect")
@tenant_option
@json_option
@pass_context
@async_command
async def disconnect(ctx: CommandContext, tenant: str | None, as_json: bool) -> None:
    """Disconnect a tenant's CRM. Results are kept and sent once it is connected again."""
    from dataclasses import replace

    async with ctx.open_app() as app:
        tenant_id = choose_tenant(app.settings, tenant)
        setup = app.backend.tenant(tenant_id).setup
        before = await setup.find_connection()
        if before is None:
            raise ConfigError(f"{tenant_id} is connected by settings alone; unset odoo.url there")
        connection = replace(before, active=False)
        await setup.save_connection(connection)
    _print_connection(tenant_id, connection, (), as_json=as_json)


@crm.command("show")
@tenant_option
@json_option
@pass_context
@async_command
async def show_crm(ctx: CommandContext, tenant: str | None, as_json: bool) -> None:
    """Show the CRM a tenant is connected to. `stoker connectors test odoo` checks it."""
    from stoker.tenants.model import CrmConnection
    from stoker.vendors.table import OdooSettings

    async with ctx.open_app(only_to_read=True) as app:
        tenant_id = choose_tenant(app.settings, tenant)
        connection = await app.backend.tenant(tenant_id).setup.find_connection()
        own = app.settings.for_tenant(tenant_id).get_vendor(OdooSettings)
        if connection is None and own.url and own.database:
            connection = CrmConnection(kind="odoo", url=own.url, database=own.database)
    _print_connection(tenant_id, connection, (), as_json=as_json)


def _normalize_url(url: str) -> str:
    from stoker.http.fields import OWN_URL

    try:
        return str(OWN_URL.read(url, True))
    except ValueError:
        raise ConfigError(f"--url is {url[:80]!r}; allowed: {OWN_URL.allowed}") from None


def _print_connection(
    tenant: TenantId,
    connection: CrmConnection | None,
    checks: Sequence[CrmCheck],
    *,
    as_json: bool,
) -> None:
    if as_json:
        expires = connection.key_expires_at if connection else None
        print_json(
            {
                "tenant": tenant,
                "kind": connection.kind if connection else None,
                "url": connection.url if connection else None,
                "database": connection.database if connection else None,
                "active": bool(connection and connection.active),
                "key_expires_at": expires.isoformat() if expires else None,
                "ok": all(check.ok for check in checks) if checks else None,
                "detail": "; ".join(check.detail for check in checks if not check.ok)
                or next((check.detail for check in checks), ""),
                "checks": [
                    {"what": each.what, "ok": each.ok, "detail": each.detail} for each in checks
                ],
            }
        )
        return
    if connection is None:
        print_text(f"{tenant} has no CRM; connect one with: stoker crm connect --tenant {tenant}")
        return
    where = f"{connection.kind} at {connection.url}, database {connection.database}"
    print_text(f"results of {tenant} {'go' if connection.active else 'would go'} to {where}")
    if not connection.active:
        print_text("  switched off; records are queued until: stoker crm connect")
    if connection.key_expires_at:
        print_text(f"  its key expires {connection.key_expires_at:%Y-%m-%d}")
    if checks:
        print_table(
            ["check", "", "detail"],
            [(each.what, "ok" if each.ok else "WRONG", each.detail) for each in checks],
        )


@crm.command()
@click.argument("run", metavar="RUN")
@tenant_option
@click.option("--dry-run", is_flag=True, help="Show what would be undone; change nothing.")
@json_option
@pass_context
@async_command
async def undo(
    ctx: CommandContext, run: str, tenant: str | None, dry_run: bool, as_json: bool
) -> None:
    """Undo what a run wrote into the CRM. RUN looks like 20260207_013000, or is `latest`.

    `latest` is the tenant's newest run that wrote something. Fields get their earlier values back
    unless a person changed them since. Records that the run created are archived unless a person
    worked on them or something live hangs on them; nothing is deleted. Undo later runs first. Safe
    to repeat.
    """
    from stoker.crm.odoo import open_crm
    from stoker.crm.undo import find_run_to_undo, undo_run

    async with ctx.open_app(only_to_read=dry_run) as app:
        tenant_id = choose_tenant(app.settings, tenant)
        store = app.backend.tenant(tenant_id)
        name = await find_run_to_undo(store, run)
        odoo = open_crm(
            app.for_tenant(tenant_id), await store.setup.find_connection(), despite_stops=True
        )
        result = await undo_run(name, crm=odoo, store=store.crm, now=app.clock.now(), dry=dry_run)
    if as_json:
        print_json(
            {
                "tenant": tenant_id,
                "run": name,
                "dry_run": dry_run,
                "rows": result.rows,
                "restored": list(result.restored),
                "archived": list(result.archived),
                "same": result.same,
                "left": dict(result.left),
            }
        )
        return
    _print_undo(tenant_id, name, result, would="would be " if dry_run else "")


def _print_undo(tenant: TenantId, run: str, result: UndoResult, *, would: str) -> None:
    if not result.rows:
        print_text(f"Run {run} of {tenant} wrote nothing to the CRM.")
        return
    print_text(f"Run {run} of {tenant} wrote {format_count(result.rows, 'record')}:")
    print_text(f"  {len(result.restored)} {would}restored to their earlier values")
    print_text(f"  {len(result.archived)} {would}archived, because that run created them")
    print_text(f"  {result.same} had nothing to undo")
    print_text(f"  {len(result.left)} left unchanged, fully or in part")
    if result.left:
        print_table(["record", "left because"], sorted(result.left.items())[:MAX_SHOWN])
    if len(result.left) > MAX_SHOWN:
        print_text(f"and {len(result.left) - MAX_SHOWN} more; --json has all")
