"""`stoker tenants`: add, list and switch tenants, their users, and what each still needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import choose_tenant, parse_tenant_argument, tenant_option
from stoker.cli.output import (
    async_command,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.cli.output import CommandContext
    from stoker.nightly.readiness import TenantReadiness


_MAX_NAME_LENGTH = 200  # characters


@click.group()
def tenant() -> None:
    """Add, list, show, disable and enable tenants; manage their users."""


@tenant.command("add")
@click.argument("name", metavar="ID")
@click.option("--name", "called", default="", help="Its display name.")
@json_option
@pass_context
@async_command
async def add_tenant(asked: CommandContext, name: str, called: str, as_json: bool) -> None:
    """Add a tenant that wants technology companies, 2–100 employees, founded 2000–2025.

    Its own caps, time zone and keys go into `[tenants.ID]` of stoker.toml; the table is optional.
    Adding an existing tenant changes its name only.
    """
    from stoker.accounts.icp import IcpRule
    from stoker.tenants.model import Tenant

    id_ = parse_tenant_argument(name)
    if len(called) > _MAX_NAME_LENGTH:
        raise ConfigError(f"--name has more than {_MAX_NAME_LENGTH} characters; give a shorter one")
    async with asked.open_app() as app:
        key = f"tenants.{id_}.name"
        if called and key in app.settings.origins:
            raise ConfigError(
                f"{app.settings.get_origin(key)} sets the name of {id_}, and --name would be "
                "ignored; change it there"
            )
        directory, store, now = app.backend.directory(), app.backend.tenant(id_), app.clock.now()
        known = {each.id: each for each in await directory.list_tenants()}
        before = known.get(id_, Tenant(id=id_))
        await directory.save_tenant(replace(before, name=called or before.name))
        rule_name = app.settings.icp.rule_name
        if id_ in {each.id for each in app.settings.tenants}:
            rule_name = app.settings.for_tenant(id_).icp.rule_name
        if await store.accounts.find_rule(rule_name) is None:
            await store.accounts.save_rule(IcpRule(name=rule_name))
            await store.setup.complete_setup_step("rule", at=now)
        await store.setup.complete_setup_step("added", at=now)
    new = id_ not in known
    if as_json:
        print_json({"tenant": name, "new": new})
        return
    print_text(f"{name} {'is added' if new else 'already exists'}. Next:")
    print_text(f"  stoker icp show --tenant {name}      which companies it wants")
    print_text(f"  stoker crm connect --tenant {name}   where its results go")
    print_text(f"  stoker nightly --tenant {name} --dry-run")


@tenant.command("list")
@json_option
@pass_context
@async_command
async def list_tenants(asked: CommandContext, as_json: bool) -> None:
    """List tenants: which are set up for nightly runs, and what the others still need."""
    from stoker.nightly.readiness import check_readiness

    async with asked.open_app(only_to_read=True) as app:
        found = [await check_readiness(app, each.id) for each in app.settings.tenants]
    if as_json:
        print_json([_readiness_to_json(each) for each in found])
        return
    print_table(
        ["tenant", "name", "ready", "icp", "crm", "missing"],
        [
            (
                each.tenant,
                each.name,
                "yes" if each.is_ready else "no",
                each.rule.name if each.rule else "none",
                each.crm or "none",
                each.missing[0] if each.missing else "",
            )
            for each in found
        ],
        empty="no tenants; add one with: stoker tenants add ID",
    )


@tenant.command("show")
@click.argument("name", metavar="ID")
@json_option
@pass_context
@async_command
async def show_tenant(asked: CommandContext, name: str, as_json: bool) -> None:
    """Show one tenant: its setup, what is missing, and when each step was done."""
    from stoker.nightly.readiness import check_readiness

    async with asked.open_app(only_to_read=True) as app:
        each = await check_readiness(app, app.settings.get_tenant(parse_tenant_argument(name)).id)
    if as_json:
        print_json(_readiness_to_json(each))
        return
    print_text(f"{each.tenant} ({each.name}): {'active' if each.active else 'disabled'}")
    print_text(f"  ICP: {each.rule.name if each.rule else 'none'}")
    print_text(f"  CRM: {each.crm or 'none'}")
    print_text(f"  ready for nightly runs: {'yes' if each.is_ready else 'no'}")
    for lack in each.missing:
        print_text(f"  {lack}")
    for step, at in each.setup_steps.items():
        print_text(f"  {step}: done {at:%Y-%m-%d %H:%M} UTC")


@tenant.command("disable")
@click.argument("name", metavar="ID")
@json_option
@pass_context
@async_command
async def disable_tenant(asked: CommandContext, name: str, as_json: bool) -> None:
    """Disable a tenant: nothing runs for it, and its data stays."""
    await _switch(asked, name, on=False, as_json=as_json)


@tenant.command("enable")
@click.argument("name", metavar="ID")
@json_option
@pass_context
@async_command
async def enable_tenant(asked: CommandContext, name: str, as_json: bool) -> None:
    """Enable a tenant again."""
    await _switch(asked, name, on=True, as_json=as_json)


@tenant.group("users")
def users() -> None:
    """Add, list and remove the people who work with a tenant's data."""


@users.command("add")
@click.argument("user", metavar="USER")
@click.option("--name", "called", default="", metavar="TEXT", help="The person's name.")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "admin"]),
    default="viewer",
    show_default=True,
    help="What the person may do.",
)
@tenant_option
@json_option
@pass_context
@async_command
async def add_user(
    asked: CommandContext, user: str, called: str, role: str, tenant: str | None, as_json: bool
) -> None:
    """Add a user to a tenant, or change the user's name and role.

    USER is an email address, or another name that the tenant knows the person by.
    """
    from stoker.tenants.model import TenantUser, UserRole

    if len(called) > _MAX_NAME_LENGTH:
        raise ConfigError(f"--name has more than {_MAX_NAME_LENGTH} characters; give a shorter one")
    async with asked.open_app() as app:
        owner = choose_tenant(app.settings, tenant)
        added = TenantUser(id=user.strip(), name=called, role=UserRole(role))
        is_new = await app.backend.tenant(owner).setup.save_user(added)
    if as_json:
        print_json({"tenant": owner, "user": added.id, "role": role, "new": is_new})
        return
    done = "is added" if is_new else "was there and is changed"
    print_text(f"{owner}: {added.id} {done}, as {role}.")


@users.command("list")
@tenant_option
@json_option
@pass_context
@async_command
async def list_users(asked: CommandContext, tenant: str | None, as_json: bool) -> None:
    """List a tenant's users and their roles."""
    async with asked.open_app(only_to_read=True) as app:
        owner = choose_tenant(app.settings, tenant)
        found = await app.backend.tenant(owner).setup.list_users()
    if as_json:
        print_json(
            [
                {"tenant": owner, "user": each.id, "name": each.name, "role": each.role.value}
                for each in found
            ]
        )
        return
    print_table(
        ["user", "name", "role"],
        [(each.id, each.name, each.role.value) for each in found],
        empty=f"{owner} has no users; add one with: stoker tenants users add USER",
    )


@users.command("remove")
@click.argument("user", metavar="USER")
@tenant_option
@json_option
@pass_context
@async_command
async def remove_user(asked: CommandContext, user: str, tenant: str | None, as_json: bool) -> None:
    """Remove a user from a tenant."""
    async with asked.open_app() as app:
        owner = choose_tenant(app.settings, tenant)
        removed = await app.backend.tenant(owner).setup.delete_user(user.strip())
    if not removed:
        raise ConfigError(f"{owner} has no user {user[:80]!r}; see: stoker tenants users list")
    if as_json:
        print_json({"tenant": owner, "user": user.strip(), "removed": True})
        return
    print_text(f"{owner}: {user.strip()} is removed.")


async def _switch(asked: CommandContext, name: str, *, on: bool, as_json: bool) -> None:
    from stoker.tenants.model import Tenant

    async with asked.open_app() as app:
        known = app.settings.get_tenant(parse_tenant_argument(name))
        own = {each.id: each for each in await app.backend.directory().list_tenants()}
        settings = asked.read_settings()
        if on and not all(each.enabled for each in settings.tenants if each.id == known.id):
            where = app.settings.get_origin(f"tenants.{known.id}.enabled")
            raise ConfigError(f"{known.id} is disabled by {where}; change it there")
        before = own.get(known.id, Tenant(id=known.id, name=known.name))
        saved = await app.backend.directory().save_tenant(replace(before, active=on))
    changed = saved and before.active is not on
    if as_json:
        print_json({"tenant": name, "active": on, "changed": changed})
        return
    state = "enabled" if on else "disabled"
    print_text(f"{name} is {state}" if changed else f"{name} was already {state}")


def _readiness_to_json(each: TenantReadiness) -> dict[str, Json]:
    return {
        "tenant": each.tenant,
        "name": each.name,
        "active": each.active,
        "nights": each.is_ready,
        "rule": each.rule.name if each.rule else None,
        "crm": each.crm or None,
        "lacks": list(each.missing),
        "onboarded": {step: at.isoformat() for step, at in each.setup_steps.items()},
    }
