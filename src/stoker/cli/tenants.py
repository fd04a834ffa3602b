"""`--tenant`: whose data a command is about, and for whom anything may be run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from stoker.config.settings import Settings
    from stoker.core.companies import CompanyId
    from stoker.core.model import TenantId

_Command = TypeVar("_Command", bound=Callable[..., Any])


def takes_tenants(command: _Command) -> _Command:
    """Give a command `--tenant`, passed to it as `tenants`; it may be repeated."""
    return click.option(
        "--tenant",
        "tenants",
        multiple=True,
        metavar="ID",
        help="Only this tenant; may be repeated. Default: every active tenant.",
    )(command)


def takes_tenant(command: _Command) -> _Command:
    """Give a command `--tenant` for exactly one, passed to it as `tenant`."""
    return click.option(
        "--tenant", metavar="ID", help="Whose. Needed when there is more than one tenant."
    )(command)


def chosen_tenants(settings: Settings, named: tuple[str, ...]) -> tuple[TenantId, ...]:
    """Return the tenants asked for, or all active ones; an unknown one is a ConfigError."""
    if named:
        return tuple(settings.tenant(known_id(name)).id for name in dict.fromkeys(named))
    active = settings.active_tenants()
    if not active:
        raise ConfigError(
            "no tenant is active; look at the tenants tables and scheduling.tenant_include "
            "and tenant_exclude with: stoker config show"
        )
    return active


def one_tenant(settings: Settings, named: str | None) -> TenantId:
    """Return the one tenant a command is about."""
    if named is not None:
        return settings.tenant(known_id(named)).id
    default = settings.default_tenant()
    if default is None:
        names = ", ".join(tenant.id for tenant in settings.tenants)
        raise ConfigError(f"say whose with --tenant (one of {names}), or set DEFAULT_TENANT_ID")
    return default


def working_tenants(settings: Settings, named: tuple[str, ...]) -> tuple[TenantId, ...]:
    """Return the tenants asked for, to run something for them; one that takes no part is refused.

    That is one that is switched off, is in `scheduling.tenant_exclude`, or is not among those that
    `scheduling.tenant_include` names.
    """
    return tuple(_working(settings, tenant) for tenant in chosen_tenants(settings, named))


def working_tenant(settings: Settings, named: str | None) -> TenantId:
    """Return the one tenant something is run for; one that takes no part is refused."""
    return _working(settings, one_tenant(settings, named))


def still_on(settings: Settings, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the tenants named that take part; all of them when none does."""
    off = {tenant.id for tenant in settings.tenants} - {*settings.active_tenants()}
    return tuple(name for name in named if name not in off) or named


def _working(settings: Settings, tenant: TenantId) -> TenantId:
    if not settings.tenant(tenant).enabled:
        raise ConfigError(
            f"{tenant} is switched off, so nothing is run for it; "
            f"switch it on with: stoker tenant enable {tenant}"
        )
    scheduling = settings.scheduling
    if tenant in scheduling.tenant_exclude:
        raise ConfigError(
            f"{tenant} is in scheduling.tenant_exclude "
            f"({settings.origin('scheduling.tenant_exclude')}), so nothing is run for it; "
            "take it out there, if it is meant to run"
        )
    if scheduling.tenant_include and tenant not in scheduling.tenant_include:
        raise ConfigError(
            f"{tenant} is not in scheduling.tenant_include "
            f"({settings.origin('scheduling.tenant_include')}), so nothing is run for it; "
            "name it there too, if it is meant to run"
        )
    return tenant


def one_account(settings: Settings, which: str) -> tuple[TenantId, CompanyId]:
    """Return the tenant and the account that TENANT/ACCOUNT, or ACCOUNT alone, names."""
    from stoker.core.companies import CompanyId

    whose, slash, account = which.partition("/")
    if not slash:
        return one_tenant(settings, None), CompanyId(which)
    return one_tenant(settings, whose), CompanyId(account)


def known_id(name: str) -> TenantId:
    """Return the name as a tenant's id, or say what an id looks like."""
    from stoker.core.model import tenant_id

    return tenant_id(name)
