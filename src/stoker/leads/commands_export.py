"""`stoker export`: leads as a file, with why each is one and where each value came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import choose_tenants, tenants_option
from stoker.cli.output import pass_context, print_json, print_text, run_async
from stoker.files.export import open_export
from stoker.leads.export import LEAD_COLUMNS, to_lead_row

if TYPE_CHECKING:
    from stoker.base.types import TenantId
    from stoker.cli.output import CommandContext
    from stoker.context import Context

RECORDS_PER_PAGE = 200


@click.group("export")
def export_files() -> None:
    """Write what was found to a file."""


@export_files.command("leads")
@click.option(
    "--format", "kind", type=click.Choice(["json", "csv"]), required=True, help="What to write."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to; stdout otherwise.",
)
@click.option("--force", is_flag=True, help="Replace a file that is already there.")
@click.option(
    "--min-score",
    "--least",
    "least",
    type=click.FloatRange(0, 1),
    metavar="SCORE",
    help="Only leads scored at least this. Default: what becomes a lead in the CRM.",
)
@click.option("--run", metavar="RUN", help="Only what this run found, e.g. 20260207_013000.")
@tenants_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print how many went where as JSON; needs --out."
)
@pass_context
def export_leads(
    asked: CommandContext,
    kind: str,
    out: Path | None,
    force: bool,
    least: float | None,
    run: str | None,
    tenants: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the latest scores, tenant by tenant: the reason, contacts, verdicts, sources.

    In CSV, text that a spreadsheet could take for a formula has a ' in front; on a terminal,
    characters that could move the cursor are made visible.
    """
    if as_json and out is None:
        raise ConfigError(
            "--json tells what was written where, and needs --out FILE; "
            "for the leads themselves use --format json"
        )
    writing = _write_leads(asked, tenants, kind=kind, out=out, force=force, least=least, run=run)
    count = run_async(writing)
    if as_json:
        print_json({"leads": count, "out": str(out), "format": kind})
    elif out is not None:
        print_text(f"{count} leads are in {out}")


async def _write_leads(
    asked: CommandContext,
    tenants: tuple[str, ...],
    *,
    kind: str,
    out: Path | None,
    force: bool,
    least: float | None,
    run: str | None,
) -> int:
    from stoker.runs.model import format_run_name, parse_run_name

    wanted = format_run_name(parse_run_name(run)) if run is not None else None
    count = 0
    async with asked.open_app(only_to_read=True) as app:
        place = out and asked.directory / out
        chosen = choose_tenants(app.settings, tenants)
        with open_export(kind, LEAD_COLUMNS, out=place, replace=force) as file:
            for tenant in chosen:
                at_least = _get_min_score(app, tenant, least)
                accounts, after = app.backend.tenant(tenant).accounts, ""
                while page := await accounts.list_company_records(
                    after=after, limit=RECORDS_PER_PAGE, run=wanted, least=at_least
                ):
                    after = page[-1].company.id
                    file.add([to_lead_row(tenant, dossier) for dossier in page])
                    count += len(page)
    return count


def _get_min_score(app: Context, tenant: TenantId, said: float | None) -> float:
    return app.settings.for_tenant(tenant).score.min_export if said is None else said
