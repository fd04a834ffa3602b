"""`stoker leads`: the best companies found so far, each with the sentence that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import chosen_tenants, takes_tenants
from stoker.cli.output import pass_asked, run_async, show_json, show_table, takes_json

if TYPE_CHECKING:
    from stoker.accounts.model import Dossier
    from stoker.app import App
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import Asked

_PAGE = 200


@click.command()
@takes_tenants
@click.option(
    "--min",
    "least",
    type=click.FloatRange(0, 1),
    metavar="SCORE",
    help="Only with this score or more. Default: what becomes a lead in the CRM.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Show at most this many.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV for spreadsheets, with sources.")
@takes_json
@pass_asked
def leads(
    asked: Asked,
    tenants: tuple[str, ...],
    least: float | None,
    limit: int,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List leads, best first. `stoker why TENANT/COMPANY` tells the whole story of one.

    `stoker export leads` writes all of them to a file.
    """
    if as_csv and as_json:
        raise ConfigError("--csv and --json are two ways to print the same; choose one")
    found = run_async(_leads(asked, tenants, least=least, limit=limit))
    if as_csv:
        _show_csv(found)
    elif as_json:
        show_json([_json(tenant, dossier) for tenant, dossier in found])
    else:
        show_table(
            ["score", "tenant", "company", "name", "write to", "because"],
            [_row(tenant, dossier) for tenant, dossier in found],
            empty="no leads yet; find some with: stoker nightly",
        )


async def _leads(
    asked: Asked, tenants: tuple[str, ...], *, least: float | None, limit: int
) -> list[tuple[TenantId, Dossier]]:
    async with asked.app(only_to_read=True) as app:
        found: list[tuple[TenantId, Dossier]] = []
        for tenant in chosen_tenants(app.settings, tenants):
            own = app.settings.for_tenant(tenant).score.min_export if least is None else least
            found += await _best(app, tenant, least=own, limit=limit)
    return sorted(found, key=_worth)[:limit]


async def _best(
    app: App, tenant: TenantId, *, least: float, limit: int
) -> list[tuple[TenantId, Dossier]]:
    accounts, after = app.backend.tenant(tenant).accounts, ""
    best: list[tuple[TenantId, Dossier]] = []
    while page := await accounts.dossiers(after=after, limit=_PAGE, least=least):
        after = page[-1].company.id
        best = sorted([*best, *((tenant, each) for each in page)], key=_worth)[:limit]
    return best


def _worth(pair: tuple[TenantId, Dossier]) -> tuple[float, str, str]:
    tenant, dossier = pair
    return (-dossier.score.value if dossier.score else 0.0, tenant, dossier.company.id)


def _row(tenant: TenantId, dossier: Dossier) -> tuple[object, ...]:
    from stoker.accounts.contacts import best_contact, usable_email

    contact, score = best_contact(dossier), dossier.score
    said = score.rationale.partition(": ")[2] if score else ""
    return (
        f"{score.value:.2f}" if score else "",
        tenant,
        dossier.company.id,
        dossier.company.name,
        (usable_email(contact) or contact.name) if contact else "",
        said,
    )


def _json(tenant: TenantId, dossier: Dossier) -> Json:
    from datetime import datetime

    from stoker.leads.export import lead_row

    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in lead_row(tenant, dossier).items()
    }


def _show_csv(found: list[tuple[TenantId, Dossier]]) -> None:
    from stoker.cli.export import export
    from stoker.leads.export import COLUMNS, lead_row

    with export("csv", COLUMNS, out=None, replace=False) as file:
        file.add([lead_row(tenant, dossier) for tenant, dossier in found])
