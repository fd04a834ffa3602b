"""`stoker schedule` and `stoker upkeep`: start what is due, preview it, see whether it was kept.

Words of a command that say nothing, as an unset variable of a shell leaves them.

Taken for a flag left out, such a word would start something else than was meant: everything
instead of one thing, something new instead of something again. So none is taken.

`--tenant`: whose data a command is about, and for whom anything may be run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.base.errors import ConfigError

if TYPE_CHECKING:
    from stoker.accounts.model import CompanyId
    from stoker.base.types import TenantId
    from stoker.settings import Settings


def parse_time(text: str, *, what: str) -> datetime:
    """Return the moment a user wrote: a date is midnight UTC, a time needs its zone."""
    from stoker.base.types import to_utc

    try:
        if len(text) == len("2026-02-07"):
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        written = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{what} {text!r} is not a time; write 2026-02-07 or 2026-02-07T01:30+08:00"
        ) from None
    if written.tzinfo is None:
        raise ConfigError(f"{what} {text!r} has no time zone; write it as {text}+00:00, or +08:00")
    return to_utc(written, what=what)


FREE_TEXT_OPTIONS = frozenset(
    {"--reason", "--name", "--inject"}
)  # options that may well say nothing

_OPTION_PATTERN = re.compile(r"(--?[A-Za-z][A-Za-z-]*)(?:=(.*))?", re.DOTALL)


def check_not_empty(words: Sequence[str]) -> None:
    """Raise ConfigError when a word, or the value an option brings along, is empty."""
    option = ""  # that the next word may be the value of
    for word in words:
        given = _OPTION_PATTERN.fullmatch(word)
        option, value = (given[1], given[2]) if given else (option, word)
        if value is None:
            continue
        if not value.strip() and option not in FREE_TEXT_OPTIONS:
            what = option or "a word of the command"
            raise ConfigError(
                f"{what} is empty, as an unset variable leaves it; say what is meant, or leave "
                "it out"
            )
        option = ""


_Command = TypeVar("_Command", bound=Callable[..., Any])


def tenants_option(command: _Command) -> _Command:
    """Give a command `--tenant`, passed to it as `tenants`; it may be repeated."""
    return click.option(
        "--tenant",
        "tenants",
        multiple=True,
        metavar="ID",
        help="Only this tenant; may be repeated. Default: every active tenant.",
    )(command)


def tenant_option(command: _Command) -> _Command:
    """Give a command `--tenant` for exactly one, passed to it as `tenant`."""
    return click.option(
        "--tenant", metavar="ID", help="Whose. Needed when there is more than one tenant."
    )(command)


def choose_tenants(settings: Settings, named: tuple[str, ...]) -> tuple[TenantId, ...]:
    """Return the tenants asked for, or all active ones; an unknown one is a ConfigError."""
    if named:
        return tuple(
            settings.get_tenant(parse_tenant_argument(name)).id for name in dict.fromkeys(named)
        )
    active = settings.list_active_tenants()
    if not active:
        raise ConfigError(
            "no tenant is active; look at the tenants tables and scheduling.tenant_include "
            "and tenant_exclude with: stoker config show"
        )
    return active


def choose_tenant(settings: Settings, named: str | None) -> TenantId:
    """Return the one tenant a command is about."""
    if named is not None:
        return settings.get_tenant(parse_tenant_argument(named)).id
    default = settings.find_default_tenant()
    if default is None:
        names = ", ".join(tenant.id for tenant in settings.tenants)
        raise ConfigError(f"say whose with --tenant (one of {names}), or set DEFAULT_TENANT_ID")
    return default


def choose_active_tenants(settings: Settings, named: tuple[str, ...]) -> tuple[TenantId, ...]:
    """Return the tenants asked for, to run something for them; one that takes no part is refused.

    That is one that is switched off, is in `scheduling.tenant_exclude`, or is not among those that
    `scheduling.tenant_include` names.
    """
    return tuple(_check_active(settings, tenant) for tenant in choose_tenants(settings, named))


def choose_active_tenant(settings: Settings, named: str | None) -> TenantId:
    """Return the one tenant something is run for; one that takes no part is refused."""
    return _check_active(settings, choose_tenant(settings, named))


def filter_active(settings: Settings, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the tenants named that take part; all of them when none does."""
    off = {tenant.id for tenant in settings.tenants} - {*settings.list_active_tenants()}
    return tuple(name for name in named if name not in off) or named


def _check_active(settings: Settings, tenant: TenantId) -> TenantId:
    if not settings.get_tenant(tenant).enabled:
        raise ConfigError(
            f"{tenant} is switched off, so nothing is run for it; "
            f"switch it on with: stoker tenant enable {tenant}"
        )
    scheduling = settings.scheduling
    if tenant in scheduling.tenant_exclude:
        raise ConfigError(
            f"{tenant} is in scheduling.tenant_exclude "
            f"({settings.get_origin('scheduling.tenant_exclude')}), so nothing is run for it; "
            "take it out there, if it is meant to run"
        )
    if scheduling.tenant_include and tenant not in scheduling.tenant_include:
        raise ConfigError(
            f"{tenant} is not in scheduling.tenant_include "
            f"({settings.get_origin('scheduling.tenant_include')}), so nothing is run for it; "
            "name it there too, if it is meant to run"
        )
    return tenant


def parse_account(settings: Settings, which: str) -> tuple[TenantId, CompanyId]:
    """Return the tenant and the account that TENANT/ACCOUNT, or ACCOUNT alone, names."""
    from stoker.accounts.model import CompanyId

    whose, slash, account = which.partition("/")
    if not slash:
        return choose_tenant(settings, None), CompanyId(which)
    return choose_tenant(settings, whose), CompanyId(account)


def parse_tenant_argument(name: str) -> TenantId:
    """Return the name as a tenant's id, or say what an id looks like."""
    from stoker.base.types import parse_tenant_id

    return parse_tenant_id(name)


def hide_command(command: click.Command) -> click.Command:
    """Return a command under an older name: it works, and help does not list it."""
    from copy import copy

    alias = copy(command)
    alias.hidden = True
    return alias


class DefaultGroup(click.Group):
    """A group whose bare name, or name with options, is its first command: `holds` lists holds."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        helps = ctx.help_option_names
        if not args or (args[0] not in self.commands and args[0] not in helps):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)
