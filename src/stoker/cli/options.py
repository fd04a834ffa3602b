"""The options that commands share, one meaning each, and how their values are read.

`--limit` is the most rows in total; `--since` and `--until` bound a time. An earlier spelling keeps
working as an alias that help does not list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.base.errors import ConfigError

if TYPE_CHECKING:
    from stoker.accounts.model import CompanyId
    from stoker.base.types import TenantId
    from stoker.settings import Settings

_Command = TypeVar("_Command", bound=Callable[..., Any])

_DEFAULT_LIMIT = 20  # rows

COUNT = click.IntRange(0, 1_000_000_000)  # more than anything there is to count

SEED = click.IntRange(0, 2**63 - 1)

_OPTION_PATTERN = re.compile(r"(--?[A-Za-z][A-Za-z-]*)(?:=(.*))?", re.DOTALL)

_MIN_YEAR, _MAX_YEAR = 1900, 9000

_SPAN_PATTERN = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?")

FREE_TEXT_OPTIONS = frozenset({"--reason", "--name", "--inject"})  # they may be given empty


OUTPUT_FILE = click.Path(dir_okay=False, readable=False, allow_dash=True, path_type=Path)


def plot_option(help_text: str, *names: str) -> Callable[[_Command], _Command]:
    """Give a command `--plot FILE.png`, which replaces the file; passed to it as `plot`."""

    def find_place(ctx: click.Context, _: click.Parameter, plot: Path | None) -> Path | None:
        directory = getattr(ctx.find_root().obj, "directory", Path())
        return plot if plot in (None, Path("-")) else directory / plot

    text = f"{help_text}; replaces the file. - is stdout, and then nothing else is printed."
    return click.option(
        "--plot",
        *names,
        "plot",
        type=OUTPUT_FILE,
        metavar="FILE.png",
        callback=find_place,
        help=text,
    )


class AliasedOption(click.Option):
    """An option with earlier spellings, which work and are not listed: `aliases=["--from"]`."""

    def __init__(self, *arguments: Any, aliases: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.aliases = list(aliases)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        listed = self.opts
        self.opts = [*listed, *self.aliases]
        super().add_to_parser(parser, ctx)
        self.opts = listed


def aliased_option(
    *names: str, aliases: Sequence[str], **options: Any
) -> Callable[[_Command], _Command]:
    """Give a command an option that also has earlier, unlisted spellings."""
    return click.option(*names, cls=AliasedOption, aliases=aliases, **options)


def tenants_option(command: _Command) -> _Command:
    """Give a command `--tenant`, passed to it as `tenants`; it may be repeated."""
    return click.option(
        "--tenant",
        "tenants",
        multiple=True,
        metavar="ID",
        help="Only this tenant; may be repeated. Default: all active tenants.",
    )(command)


def tenant_option(command: _Command) -> _Command:
    """Give a command `--tenant` for exactly one, passed to it as `tenant`."""
    return click.option(
        "--tenant", metavar="ID", help="The tenant. Needed when there is more than one."
    )(command)


def limit_option(command: _Command) -> _Command:
    """Give a command `--limit`, the most rows in total; passed as `limit`, None for all."""
    return click.option(
        "--limit",
        type=click.IntRange(0, 1_000_000),
        default=_DEFAULT_LIMIT,
        show_default=True,
        metavar="N",
        callback=lambda _, __, number: number or None,
        help="Show at most N rows; 0 shows all.",
    )(command)


def since_option(help_text: str, *, aliases: Sequence[str] = ()) -> Callable[[_Command], _Command]:
    """Give a command `--since`: a date, a moment with its offset, or a span back from now."""
    return aliased_option("--since", metavar="TIME", aliases=aliases, help=help_text)


def until_option(help_text: str, *, aliases: Sequence[str] = ()) -> Callable[[_Command], _Command]:
    """Give a command `--until`, read like `--since`."""
    return aliased_option("--until", metavar="TIME", aliases=aliases, help=help_text)


def min_score_option(command: _Command) -> _Command:
    """Give a command `--min-score`, passed to it as `min_score`."""
    return aliased_option(
        "--min-score",
        type=click.FloatRange(0, 1),
        metavar="SCORE",
        aliases=["--min", "--least"],
        help="At least this score. Default: score.min_export.",
    )(command)


def seed_option(command: _Command) -> _Command:
    """Give a command `--seed`, passed to it as `seed`; 0 without one."""
    text = "Seed of the random numbers."
    return click.option("--seed", type=SEED, metavar="N", default=0, show_default=True, help=text)(
        command
    )


def sandbox_option(command: _Command) -> _Command:
    """Give a command `--sandbox HOST:PORT`, passed to it as `sandbox`."""
    return click.option(
        "--sandbox",
        metavar="HOST:PORT",
        help="The sandbox's address. Default: sandbox.address.",
    )(command)


def parse_time(
    text: str, *, what: str, now: datetime | None = None, ahead: bool = False
) -> datetime:
    """Return the moment a user wrote: a date is midnight UTC, a time needs its zone.

    With `now`, also a span such as `7d` or `1h30m`: back from now, or ahead of it.
    """
    span = _SPAN_PATTERN.fullmatch(text)
    if now is not None and span and any(span.groups()):
        days, hours, minutes = (int(part or 0) for part in span.groups())
        length = timedelta(days=days, hours=hours, minutes=minutes)
        return now + length if ahead else now - length
    try:
        written = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        spans = ", or a span: 2h, 90m, 3d" if now is not None else ""
        raise ConfigError(
            f"{what} {text!r} is not a time; write 2026-02-07 or 2026-02-07T01:30+08:00{spans}"
        ) from None
    if not _MIN_YEAR <= written.year <= _MAX_YEAR:
        raise ConfigError(f"{what} {text!r} is not within the years {_MIN_YEAR} to {_MAX_YEAR}")
    if len(text) == len("2026-02-07"):
        return written.replace(tzinfo=UTC)
    if written.tzinfo is None:
        raise ConfigError(f"{what} {text!r} has no time zone; write it as {text}+00:00, or +08:00")
    return written.astimezone(UTC)


def parse_period(
    since: str | None, until: str | None, *, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Return the bounds that `--since` and `--until` name; the first is before the second."""
    start = parse_time(since, what="--since", now=now) if since else None
    end = parse_time(until, what="--until", now=now) if until else None
    if start and end and start >= end:
        raise ConfigError(f"--since {start.isoformat()} is not before --until {end.isoformat()}")
    return start, end


def check_not_empty(words: Sequence[str]) -> None:
    """Raise ConfigError when a word, or the value of an option, is empty.

    Taken for a flag left out, it would do something else than was meant: everything instead of one
    thing, something new instead of something again.
    """
    option = ""  # that the next word may be the value of
    for word in words:
        given = _OPTION_PATTERN.fullmatch(word)
        option, value = (given[1], given[2]) if given else (option, word)
        if value is None:
            continue
        if not value.strip() and option not in FREE_TEXT_OPTIONS:
            raise ConfigError(
                f"{option or 'a word of the command'} is empty (an unset shell variable?); "
                "give a value, or leave it out"
            )
        option = ""


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
        raise ConfigError(
            f"choose a tenant with --tenant (one of {names}), or set DEFAULT_TENANT_ID"
        )
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
            f"{tenant} is switched off, so nothing runs for it; "
            f"switch it on with: stoker tenants enable {tenant}"
        )
    scheduling = settings.scheduling
    key = ""
    if tenant in scheduling.tenant_exclude:
        key, next_step = "scheduling.tenant_exclude", "remove it there"
    elif scheduling.tenant_include and tenant not in scheduling.tenant_include:
        key, next_step = "scheduling.tenant_include", "add it there"
    if key:
        is_in = "is in" if key.endswith("exclude") else "is not in"
        raise ConfigError(
            f"{tenant} {is_in} {key} ({settings.get_origin(key)}), so nothing runs for it; "
            f"{next_step} to let it run"
        )
    return tenant


def parse_account(
    settings: Settings, which: str, tenant: str | None = None
) -> tuple[TenantId, CompanyId]:
    """Return the tenant and the account of `TENANT/ACCOUNT`, or of `ACCOUNT` and `--tenant`."""
    from stoker.accounts.model import CompanyId

    whose, slash, account = which.partition("/")
    if not slash:
        return choose_tenant(settings, tenant), CompanyId(which)
    if tenant is not None and tenant != whose:
        raise ConfigError(f"{which} and --tenant {tenant} name two tenants; give one")
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
