"""`stoker leads`: the best companies found so far, each with the sentence that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import (
    DefaultGroup,
    choose_tenants,
    limit_option,
    min_score_option,
    tenants_option,
)
from stoker.cli.output import json_option, pass_context, print_json, print_table, run_async
from stoker.leads.commands_export import export_leads

if TYPE_CHECKING:
    from stoker.accounts.model import CompanyRecord
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.context import Context

_PAGE_SIZE = 200


@click.group("leads", cls=DefaultGroup)
def leads_group() -> None:
    """List the best leads with reasons, or write them to a file."""


@leads_group.command("list")
@tenants_option
@min_score_option
@limit_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV for spreadsheets, with sources.")
@json_option
@pass_context
def leads(
    asked: CommandContext,
    tenants: tuple[str, ...],
    min_score: float | None,
    limit: int | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List leads, best first. `stoker why TENANT/COMPANY` tells the whole story of one.

    `stoker leads export` writes all of them to a file.
    """
    if as_csv and as_json:
        raise ConfigError("--csv and --json are two ways to print the same; choose one")
    found = run_async(_list_leads(asked, tenants, least=min_score, limit=limit))
    if as_csv:
        _print_csv(found)
    elif as_json:
        print_json([_lead_to_json(tenant, dossier) for tenant, dossier in found])
    else:
        print_table(
            ["score", "tenant", "company", "name", "email", "reason"],
            [_to_table_row(tenant, dossier) for tenant, dossier in found],
            empty="no leads yet; find some with: stoker nightly",
        )


async def _list_leads(
    asked: CommandContext, tenants: tuple[str, ...], *, least: float | None, limit: int | None
) -> list[tuple[TenantId, CompanyRecord]]:
    async with asked.open_app(only_to_read=True) as app:
        found: list[tuple[TenantId, CompanyRecord]] = []
        for tenant in choose_tenants(app.settings, tenants):
            own = app.settings.for_tenant(tenant).score.min_export if least is None else least
            found += await _list_best(app, tenant, least=own, limit=limit)
    return sorted(found, key=_get_sort_key)[:limit]


async def _list_best(
    app: Context, tenant: TenantId, *, least: float, limit: int | None
) -> list[tuple[TenantId, CompanyRecord]]:
    accounts, after = app.backend.tenant(tenant).accounts, ""
    best: list[tuple[TenantId, CompanyRecord]] = []
    while page := await accounts.list_company_records(after=after, limit=_PAGE_SIZE, least=least):
        after = page[-1].company.id
        best = sorted([*best, *((tenant, each) for each in page)], key=_get_sort_key)[:limit]
    return best


def _get_sort_key(pair: tuple[TenantId, CompanyRecord]) -> tuple[float, str, str]:
    tenant, dossier = pair
    return (-dossier.score.value if dossier.score else 0.0, tenant, dossier.company.id)


def _to_table_row(tenant: TenantId, dossier: CompanyRecord) -> tuple[object, ...]:
    from stoker.accounts.contacts import choose_best_contact, get_usable_email

    contact, score = choose_best_contact(dossier), dossier.score
    said = score.rationale.partition(": ")[2] if score else ""
    return (
        f"{score.value:.2f}" if score else "",
        tenant,
        dossier.company.id,
        dossier.company.name,
        (get_usable_email(contact) or contact.name) if contact else "",
        said,
    )


def _lead_to_json(tenant: TenantId, dossier: CompanyRecord) -> Json:
    from datetime import datetime

    from stoker.leads.export import to_lead_row

    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in to_lead_row(tenant, dossier).items()
    }


def _print_csv(found: list[tuple[TenantId, CompanyRecord]]) -> None:
    from stoker.files.export import open_export
    from stoker.leads.export import LEAD_COLUMNS, to_lead_row

    with open_export("csv", LEAD_COLUMNS, out=None, replace=False) as file:
        file.add([to_lead_row(tenant, dossier) for tenant, dossier in found])


leads_group.add_command(export_leads, "export")
