"""`stoker crm`: where a tenant's results go. Its key is a setting and never passes through here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import aliased_option, choose_tenant, tenant_option
from stoker.cli.output import Exit, json_option, pass_context, print_json, print_text, run_async

if TYPE_CHECKING:
    from datetime import datetime

    from stoker.base.types import TenantId
    from stoker.budgets.model import Health
    from stoker.cli.output import CommandContext
    from stoker.tenants.model import CrmConnection

CRM_KINDS = ("odoo",)


@click.group()
def crm() -> None:
    """Say and see where a tenant's results go."""


@crm.command("connect")
@tenant_option
@aliased_option(
    "--system",
    type=click.Choice(CRM_KINDS),
    default=CRM_KINDS[0],
    aliases=["--kind"],
    help="Which CRM it is.",
)
@click.option("--url", help="Where it is. Default: odoo.url, or where it was before.")
@click.option("--database", help="Its database. Default: odoo.database, or the one before.")
@click.option(
    "--expires", metavar="TIME", help="When its key expires; Odoo's last three months at most."
)
@json_option
@pass_context
def connect(
    asked: CommandContext,
    tenant: str | None,
    system: str,
    url: str | None,
    database: str | None,
    expires: str | None,
    as_json: bool,
) -> Exit:
    """Connect a tenant to its CRM, and ask it at no cost whether it takes the key.

    The key is ODOO_API_KEY, or keys.odoo in `[tenants.ID]`; it is not kept in the store. Exit code
    1 when the CRM does not answer as it should; the connection is kept all the same.
    """
    from stoker.cli.options import parse_time

    at = None if expires is None else parse_time(expires, what="--expires")
    whose, kept, health = run_async(_connect_crm(asked, tenant, system, url, database, at))
    _print_connection(whose, kept, health, as_json=as_json)
    return Exit.OK if health.ok else Exit.PROBLEMS


@crm.command("disconnect")
@tenant_option
@json_option
@pass_context
def disconnect(asked: CommandContext, tenant: str | None, as_json: bool) -> None:
    """Send a tenant's results nowhere. They are kept, and sent once it is connected again."""
    whose, kept = run_async(_disconnect_crm(asked, tenant))
    _print_connection(whose, kept, None, as_json=as_json)


@crm.command("show")
@tenant_option
@json_option
@pass_context
def show_crm(asked: CommandContext, tenant: str | None, as_json: bool) -> None:
    """Show where a tenant's results go. Nobody is asked; see `stoker connector test odoo`."""
    whose, kept = run_async(_load_connection(asked, tenant))
    _print_connection(whose, kept, None, as_json=as_json)


async def _connect_crm(
    asked: CommandContext,
    tenant: str | None,
    kind: str,
    url: str | None,
    database: str | None,
    expires: datetime | None,
) -> tuple[TenantId, CrmConnection, Health]:
    from stoker.budgets.model import Health
    from stoker.crm.odoo import open_crm
    from stoker.tenants.model import CrmConnection

    async with asked.open_app() as app:
        whose = choose_tenant(app.settings, tenant)
        own, setup = app.settings.for_tenant(whose).odoo, app.backend.tenant(whose).setup
        before = await setup.find_connection()
        place = url or (before.url if before else own.url)
        data = database or (before.database if before else own.database)
        if not place or not data:
            raise ConfigError(
                f"say where the CRM of {whose} is: stoker crm connect --tenant {whose} "
                "--url https://your.odoo.com --database NAME"
            )
        kept = CrmConnection(
            kind=kind, url=_normalize_url(place), database=data, key_expires_at=expires
        )
        await setup.save_connection(kept)
        await setup.complete_setup_step("crm", at=app.clock.now())
        try:
            health = await open_crm(app.for_tenant(whose), kept, despite_stops=True).check()
        except ConfigError as error:  # its key is missing, or must not go there
            health = Health(ok=False, detail=str(error))
    return whose, kept, health


def _normalize_url(url: str) -> str:
    from stoker.http.fields import BASE_URL

    try:
        return str(BASE_URL.read(url, True))
    except ValueError:
        raise ConfigError(f"--url is {url[:80]!r}; allowed: {BASE_URL.allowed}") from None


async def _disconnect_crm(
    asked: CommandContext, tenant: str | None
) -> tuple[TenantId, CrmConnection]:
    from dataclasses import replace

    async with asked.open_app() as app:
        whose = choose_tenant(app.settings, tenant)
        setup = app.backend.tenant(whose).setup
        before = await setup.find_connection()
        if before is None:
            raise ConfigError(f"{whose} is connected by settings alone; unset odoo.url there")
        kept = replace(before, active=False)
        await setup.save_connection(kept)
    return whose, kept


async def _load_connection(
    asked: CommandContext, tenant: str | None
) -> tuple[TenantId, CrmConnection | None]:
    from stoker.tenants.model import CrmConnection

    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        kept = await app.backend.tenant(whose).setup.find_connection()
        own = app.settings.for_tenant(whose).odoo
        if kept is None and own.url and own.database:
            kept = CrmConnection(kind="odoo", url=own.url, database=own.database)
    return whose, kept


def _print_connection(
    tenant: TenantId, kept: CrmConnection | None, health: Health | None, *, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "tenant": tenant,
                "kind": kept.kind if kept else None,
                "url": kept.url if kept else None,
                "database": kept.database if kept else None,
                "active": bool(kept and kept.active),
                "key_expires_at": _format_moment(kept.key_expires_at) if kept else None,
                "ok": health.ok if health else None,
                "detail": health.detail if health else "",
            }
        )
        return
    if kept is None:
        print_text(
            f"results of {tenant} go nowhere; say where with: stoker crm connect --tenant {tenant}"
        )
        return
    where = f"{kept.kind} at {kept.url}, database {kept.database}"
    print_text(f"results of {tenant} {'go' if kept.active else 'would go'} to {where}")
    if not kept.active:
        print_text("  switched off; they are kept until: stoker crm connect")
    if kept.key_expires_at:
        print_text(f"  its key expires {kept.key_expires_at:%Y-%m-%d}")
    if health is not None:
        print_text(f"  {'ok' if health.ok else 'WRONG'}: {health.detail}")


def _format_moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
