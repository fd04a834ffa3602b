"""`stoker leads`: list the best companies found so far with the reason, or export them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, PermanentError
from stoker.base.formats import format_count
from stoker.cli.options import (
    DefaultGroup,
    choose_tenants,
    limit_option,
    min_score_option,
    parse_account,
    tenant_option,
    tenants_option,
)
from stoker.cli.output import (
    async_command,
    export_json_option,
    export_options,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from stoker.accounts.model import CompanyRecord
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.leads.service import Lead


@click.group("leads", cls=DefaultGroup)
def leads_group() -> None:
    """List the best leads with reasons, write them to a file, or say whose a website is."""


@leads_group.command("list")
@tenants_option
@min_score_option
@limit_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV for spreadsheets, with sources.")
@json_option
@pass_context
@async_command
async def leads(
    asked: CommandContext,
    tenants: tuple[str, ...],
    min_score: float | None,
    limit: int | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List leads, best first, each with its reason.

    `stoker why TENANT/COMPANY` explains one; `stoker leads export` writes all to a file.
    """
    from stoker.leads.service import list_best_leads

    if as_csv and as_json:
        raise ConfigError("--csv and --json exclude each other; choose one")
    async with asked.open_app(only_to_read=True) as app:
        chosen = choose_tenants(app.settings, tenants)
        found = await list_best_leads(app, chosen, least=min_score, limit=limit)
    if as_csv:
        _print_csv(found)
    elif as_json:
        print_json([_lead_to_json(tenant, record) for tenant, record in found])
    else:
        print_table(
            ["score", "tenant", "company", "name", "email", "reason"],
            [_to_table_row(tenant, record) for tenant, record in found],
            empty="no leads yet; find some with: stoker nightly",
        )


def _to_table_row(tenant: TenantId, record: CompanyRecord) -> tuple[object, ...]:
    from stoker.accounts.contacts import choose_best_contact, get_usable_email

    contact, score = choose_best_contact(record), record.score
    probable = "website only probable; " if record.is_site_probable else ""
    return (
        f"{score.value:.2f}" if score else "",
        tenant,
        record.company.id,
        record.company.name,
        (get_usable_email(contact) or contact.name) if contact else "",
        probable + (score.rationale.partition(": ")[2].removesuffix(".") if score else ""),
    )


def _lead_to_json(tenant: TenantId, record: CompanyRecord) -> Json:
    from datetime import datetime

    from stoker.leads.service import to_lead_row

    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in to_lead_row(tenant, record).items()
    }


def _print_csv(found: list[Lead]) -> None:
    from stoker.files.export import open_export
    from stoker.leads.service import LEAD_COLUMNS, to_lead_row

    with open_export("csv", LEAD_COLUMNS, out=None, replace=False) as file:
        file.add([to_lead_row(tenant, record) for tenant, record in found])


@leads_group.command("website")
@click.argument("company", metavar="[TENANT/]COMPANY")
@click.argument("url", required=False)
@tenant_option
@json_option
@pass_context
@async_command
async def give_website(
    asked: CommandContext, company: str, url: str | None, tenant: str | None, as_json: bool
) -> None:
    """Give a company's website, or confirm the one that a search found.

    COMPANY is its registry number. What a given website shows goes into the CRM with the next run;
    without URL, the known website counts as given.
    """
    from stoker.accounts.model import SiteOwner
    from stoker.http.url import parse_url

    async with asked.open_app() as app:
        tenant_id, number = parse_account(app.settings, company.strip(), tenant)
        accounts = app.backend.tenant(tenant_id).accounts
        record = await accounts.find_company_record(number)
        if record is None:
            raise ConfigError(f"{tenant_id} has no company {number[:40]}; see: stoker leads")
        address = url or record.company.website
        if not address:
            raise ConfigError(f"{number} has no website yet; give its URL")
        try:
            parsed = parse_url(address if "://" in address[:12] else f"https://{address}")
        except PermanentError as error:
            raise ConfigError(f"{address[:80]!r} is no web address: {error}") from None
        website = f"{parsed.scheme}://{parsed.netloc}/"
        await accounts.give_website(record.company.id, website)
    known = record.company
    if as_json:
        print_json(
            {
                "tenant": tenant_id,
                "company": known.id,
                "name": known.name,
                "website": website,
                "website_owner": SiteOwner.GIVEN.value,
            }
        )
    else:
        print_text(f"{known.name} ({known.id}) has the website {website}, given.")


@click.group("export")
def export_files() -> None:
    """Write results to a file."""


@export_files.command("leads")
@export_options(["json", "csv"], out="The file. Default, and -: stdout.")
@click.option(
    "--min-score",
    "--least",
    "least",
    type=click.FloatRange(0, 1),
    metavar="SCORE",
    help="At least this score. Default: score.min_export.",
)
@click.option("--run", metavar="RUN", help="Only what this run found, e.g. 20260207_013000.")
@tenants_option
@export_json_option
@pass_context
@async_command
async def export_leads(
    asked: CommandContext,
    kind: str,
    out: Path | None,
    force: bool,
    least: float | None,
    run: str | None,
    tenants: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write scores, reasons, contacts, verification results and sources to a file.

    In CSV, a ' precedes text that a spreadsheet could take for a formula; on a terminal, control
    characters are made visible.
    """
    from stoker.files.export import open_export
    from stoker.leads.service import LEAD_COLUMNS, write_leads
    from stoker.runs.model import format_run_name, parse_run_name

    if as_json and out is None:
        raise ConfigError(
            "--json prints a summary and needs --out FILE; "
            "for the leads themselves use --format json"
        )
    name = format_run_name(parse_run_name(run)) if run is not None else None
    async with asked.open_app(only_to_read=True) as app:
        chosen = choose_tenants(app.settings, tenants)
        place = out and asked.directory / out
        with open_export(kind, LEAD_COLUMNS, out=place, replace=force) as file:
            count = await write_leads(app, chosen, file, least=least, run=name)
    if as_json:
        print_json({"leads": count, "out": str(out), "format": kind})
    elif out is not None:
        print_text(f"{format_count(count, 'lead')} written to {out}")


leads_group.add_command(export_leads, "export")
