"""Whose ledger a command reads: tenants' own, or that of what operators do for everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from stoker.cli.tenants import chosen_tenants
from stoker.errors import ConfigError

if TYPE_CHECKING:
    from stoker.ports import LedgerStore
    from stoker.wiring import App

EVERYBODY = "everybody"

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Book(NamedTuple):
    """A ledger, and whose it is as listings say it."""

    whose: str
    ledger: LedgerStore


def takes_shared(command: _Command) -> _Command:
    """Give a command `--shared`, passed to it as `shared`."""
    return click.option(
        "--shared",
        is_flag=True,
        help="What operators did for everybody (stops, shared caps) instead of a tenant's ledger.",
    )(command)


def books(app: App, tenants: tuple[str, ...], *, shared: bool) -> list[Book]:
    """Return the ledgers asked for: those of tenants, or the one of what is done for everybody."""
    if shared:
        if tenants:
            raise ConfigError("--shared is of no tenant; leave out --tenant, or --shared")
        return [Book(EVERYBODY, app.backend.shared().ledger)]
    return [
        Book(tenant, app.backend.tenant(tenant).ledger)
        for tenant in chosen_tenants(app.settings, tenants)
    ]
