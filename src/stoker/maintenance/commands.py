"""`stoker contacts erase`: remove one person everywhere, and keep it out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import StokerError
from stoker.base.formats import format_count
from stoker.cli.options import choose_tenant, tenant_option
from stoker.cli.output import (
    Exit,
    async_command,
    json_option,
    pass_context,
    print_error,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from stoker.base.types import TenantId
    from stoker.cli.output import CommandContext
    from stoker.maintenance.erasure import ErasureReport


@click.group()
def contacts() -> None:
    """Erase a person."""


@contacts.command()
@click.argument("email", metavar="[EMAIL]", required=False, default="")
@tenant_option
@click.option("--name", default="", help="The person's whole name; needs --company.")
@click.option("--company", default="", metavar="NUMBER", help="The company the person is at.")
@click.option(
    "--profile", "profiles", multiple=True, metavar="URL", help="A profile of touches; repeatable."
)
@click.option(
    "--search",
    "folders",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="DIR",
    help="Also search exported files below this directory; repeatable.",
)
@click.option("--without-crm", is_flag=True, help="Leave the CRM alone; list what is there.")
@click.option("--dry-run", is_flag=True, help="Show what would be erased; change nothing.")
@json_option
@pass_context
@async_command
async def erase(
    asked: CommandContext,
    email: str,
    tenant: str | None,
    name: str,
    company: str,
    profiles: tuple[str, ...],
    folders: tuple[Path, ...],
    without_crm: bool,
    dry_run: bool,
    as_json: bool,
) -> Exit:
    """Erase the person with this EMAIL from the store and the CRM, and keep the person out.

    Only a keyed hash stays, so that no later run brings the person back. Files that contain the
    person are named for you to delete. Safe to repeat. Exit code 1 when something is left to you.
    """
    from stoker.maintenance.erasure import ErasureReport, ErasureRequest, erase_person

    request = ErasureRequest(email=email, profiles=profiles, name=name, company=company)
    async with asked.open_app(only_to_read=dry_run) as app:
        tenant_id = choose_tenant(app.settings, tenant)
        storage = app.settings.storage
        discovered = app.settings.directory / app.settings.for_tenant(tenant_id).discovery.out
        own = [app.settings.directory, storage.json_dir / tenant_id, discovered]
        report = ErasureReport()
        try:
            await erase_person(
                app.for_tenant(tenant_id),
                request,
                folders=[*own, *folders],
                live=storage.list_own_files(),
                without_crm=without_crm,
                dry=dry_run,
                report=report,
            )
        except StokerError:
            for problem in report.problems:
                print_error(f"left to you: {problem}")
            raise
    if as_json:
        print_json(
            {
                "tenant": tenant_id,
                "dry_run": dry_run,
                "companies": report.companies,
                "contacts": report.contacts,
                "tables": {table: asdict(each) for table, each in report.tables.items()},
                "crm": asdict(report.crm),
                "files": [str(path) for path in report.files],
                "same_name_profiles": list(report.same_name_profiles),
                "problems": list(report.problems),
                "note": report.note,
            }
        )
    else:
        _print_report(tenant_id, report, dry=dry_run)
    return Exit.PROBLEMS if report.problems else Exit.OK


def _print_report(tenant: TenantId, report: ErasureReport, *, dry: bool) -> None:
    would = "would be " if dry else ""
    print_text(
        f"{tenant}: {format_count(report.contacts, 'contact')} {would}erased at "
        f"{format_count(report.companies, 'company', 'companies')}"
    )
    print_table(
        ["table", "rows deleted", "rows changed"],
        [(name, each.deleted, each.replaced) for name, each in sorted(report.tables.items())],
        empty="  nothing else in the store",
    )
    crm = report.crm
    print_text(
        f"  CRM: {format_count(len(crm.archived), 'record')} {would}archived, "
        f"{len(crm.emptied)} {would}changed"
    )
    for url in report.same_name_profiles:
        print_text(f"  A profile of the same name is left: {url}; erase it with --profile")
    for problem in report.problems:
        print_text(f"  Left to you: {problem}")
    if report.note:
        print_text(f"  {report.note}")
    if not dry:
        print_text("  A keyed hash keeps the person out of later runs.")
