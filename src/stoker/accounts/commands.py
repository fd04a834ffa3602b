"""`stoker tenant`: who the tenants are, and what each still needs before it has nights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import known_id
from stoker.cli.output import pass_asked, run_async, say, show_json, show_table, takes_json

if TYPE_CHECKING:
    from datetime import datetime

    from stoker.accounts.icp import IcpRule
    from stoker.accounts.model import CrmConnection
    from stoker.app import App
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import Asked
    from stoker.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What a tenant has of what a night needs, and what it lacks, in sentences."""

    tenant: TenantId
    name: str
    active: bool
    rule: IcpRule | None
    connection: CrmConnection | None
    crm: str  # where results go; empty: nowhere
    lacks: tuple[str, ...]
    onboarded: dict[str, datetime]

    @property
    def has_nights(self) -> bool:
        """Whether the nightly run takes this tenant along without being asked to."""
        return not self.lacks


async def readiness(app: App, tenant: TenantId) -> Readiness:
    """Return how far a tenant is set up."""
    from stoker.connectors import why_off

    own, accounts = app.settings.for_tenant(tenant), app.backend.tenant(tenant).accounts
    rule, connection = await accounts.rule(own.icp.rule_name), await accounts.connection()
    lacks, crm = [], ""
    if tenant not in app.settings.active_tenants():
        lacks.append("it is not active: stoker tenant enable, or scheduling.tenant_include")
    if rule is None:
        lacks.append(f"it has no rule {own.icp.rule_name!r}: stoker icp set --tenant {tenant}")
    if connection is not None and connection.active:
        crm = f"{connection.url} {connection.database}"
        if own.keys.odoo is None:
            lacks.append("the key of its CRM is not set: ODOO_API_KEY")
    elif connection is not None:
        lacks.append(f"its CRM is switched off: stoker crm connect --tenant {tenant}")
    elif off := why_off(own, "odoo"):
        lacks.append(f"it has no CRM: stoker crm connect --tenant {tenant} ({off})")
    else:
        crm = f"{own.odoo.url} {own.odoo.database}"
    return Readiness(
        tenant=tenant,
        name=app.settings.tenant(tenant).name,
        active=tenant in app.settings.active_tenants(),
        rule=rule,
        connection=connection,
        crm=crm,
        lacks=tuple(lacks),
        onboarded=await accounts.onboarding(),
    )


@click.group()
def tenant() -> None:
    """Add, list, show and switch off tenants."""


@tenant.command("add")
@click.argument("name", metavar="ID")
@click.option("--name", "called", default="", help="What people call it.")
@takes_json
@pass_asked
def add_tenant(asked: Asked, name: str, called: str, as_json: bool) -> None:
    """Add a tenant, with the rule every tenant starts from: technology, 2–100 employees, 2000–2025.

    What it sets for itself (caps, zone, keys) goes into `[tenants.ID]` of stoker.toml; it needs no
    such table. Adding one that is there changes its name, and nothing else.
    """
    new = run_async(_add(asked, name, called))
    if as_json:
        show_json({"tenant": name, "new": new})
        return
    say(f"{name} {'is added' if new else 'was there already'}. Next:")
    say(f"  stoker icp show --tenant {name}      whom it looks for")
    say(f"  stoker crm connect --tenant {name}   where its results go")
    say(f"  stoker nightly --tenant {name} --dry-run")


async def _add(asked: Asked, name: str, called: str) -> bool:
    from stoker.accounts.icp import IcpRule
    from stoker.accounts.model import Tenant

    id_ = known_id(name)
    async with asked.app() as app:
        directory, now = app.backend.directory(), app.clock.now()
        known = {each.id: each for each in await directory.tenants()}
        before = known.get(id_, Tenant(id=id_))
        await directory.put_tenant(replace(before, name=called or before.name))
        accounts = app.backend.tenant(id_).accounts
        configured = {each.id for each in app.settings.tenants}
        rule_name = app.settings.icp.rule_name
        if id_ in configured:
            rule_name = app.settings.for_tenant(id_).icp.rule_name
        if await accounts.rule(rule_name) is None:
            await accounts.put_rule(IcpRule(name=rule_name))
            await accounts.put_onboarded("rule", at=now)
        await accounts.put_onboarded("added", at=now)
    return id_ not in known


@tenant.command("list")
@takes_json
@pass_asked
def list_tenants(asked: Asked, as_json: bool) -> None:
    """Show every tenant, whether it has nights, and if not, what it lacks."""
    found = run_async(_listed(asked))
    if as_json:
        show_json([_json(each) for each in found])
        return
    show_table(
        ["tenant", "name", "nights", "rule", "crm", "lacks"],
        [
            (
                each.tenant,
                each.name,
                "yes" if each.has_nights else "no",
                each.rule.name if each.rule else "none",
                each.crm or "none",
                each.lacks[0] if each.lacks else "",
            )
            for each in found
        ],
        empty="no tenants; add one with: stoker tenant add ID",
    )


async def _listed(asked: Asked) -> list[Readiness]:
    async with asked.app(only_to_read=True) as app:
        return [await readiness(app, each.id) for each in app.settings.tenants]


@tenant.command("show")
@click.argument("name", metavar="ID")
@takes_json
@pass_asked
def show_tenant(asked: Asked, name: str, as_json: bool) -> None:
    """Show one tenant: what it has, what it lacks, what was done to set it up and when."""
    each = run_async(_shown(asked, name))
    if as_json:
        show_json(_json(each))
        return
    say(f"{each.tenant} ({each.name}): {'active' if each.active else 'switched off'}")
    say(f"  rule: {each.rule.name if each.rule else 'none'}")
    say(f"  results go to: {each.crm or 'nowhere'}")
    say(f"  has nights: {'yes' if each.has_nights else 'no'}")
    for lack in each.lacks:
        say(f"  {lack}")
    for step, at in each.onboarded.items():
        say(f"  {step}: done {at:%Y-%m-%d %H:%M} UTC")


async def _shown(asked: Asked, name: str) -> Readiness:
    async with asked.app(only_to_read=True) as app:
        return await readiness(app, app.settings.tenant(known_id(name)).id)


@tenant.command("disable")
@click.argument("name", metavar="ID")
@takes_json
@pass_asked
def disable_tenant(asked: Asked, name: str, as_json: bool) -> None:
    """Switch a tenant off: nothing runs for it any more; nothing of it is lost."""
    _tell_switched(name, changed=run_async(_switch(asked, name, on=False)), on=False, json=as_json)


@tenant.command("enable")
@click.argument("name", metavar="ID")
@takes_json
@pass_asked
def enable_tenant(asked: Asked, name: str, as_json: bool) -> None:
    """Switch a tenant on again."""
    _tell_switched(name, changed=run_async(_switch(asked, name, on=True)), on=True, json=as_json)


async def _switch(asked: Asked, name: str, *, on: bool) -> bool:
    from stoker.accounts.model import Tenant

    async with asked.app() as app:
        known = app.settings.tenant(known_id(name))
        own = {each.id: each for each in await app.backend.directory().tenants()}
        if on and not _enabled_by_settings(asked.settings(), known.id):
            where = app.settings.origin(f"tenants.{known.id}.enabled")
            raise ConfigError(f"{known.id} is switched off by {where}; change it there")
        before = own.get(known.id, Tenant(id=known.id, name=known.name))
        return await app.backend.directory().put_tenant(replace(before, active=on)) and (
            before.active is not on
        )


def _enabled_by_settings(said: Settings, tenant: TenantId) -> bool:
    return all(each.enabled for each in said.tenants if each.id == tenant)


def _tell_switched(name: str, *, changed: bool, on: bool, json: bool) -> None:
    if json:
        show_json({"tenant": name, "active": on, "changed": changed})
        return
    state = "on" if on else "off"
    say(f"{name} is switched {state}" if changed else f"{name} was switched {state} already")


def _json(each: Readiness) -> dict[str, Json]:
    return {
        "tenant": each.tenant,
        "name": each.name,
        "active": each.active,
        "nights": each.has_nights,
        "rule": each.rule.name if each.rule else None,
        "crm": each.crm or None,
        "lacks": list(each.lacks),
        "onboarded": {step: at.isoformat() for step, at in each.onboarded.items()},
    }
