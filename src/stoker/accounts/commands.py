"""`stoker icp` and `stoker accounts`: which companies a tenant wants, and those of its own list."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count, format_time
from stoker.cli.options import choose_tenant, limit_option, parse_account, tenant_option
from stoker.cli.output import (
    Exit,
    async_command,
    json_option,
    pass_context,
    print_fields,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from stoker.accounts.icp import IcpRule
    from stoker.accounts.model import Company
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.registry.store import RegistryStore

_SPAN_PATTERN = re.compile(r"([0-9]{1,9})\s*(?:-|–|\.\.)\s*([0-9]{1,9})")

_MAX_ERRORS_PRINTED = 20

_RULE_OPTION = click.option(
    "--rule", "name", metavar="NAME", help="Which ICP. Default: icp.rule_name."
)


@click.group()
def icp() -> None:
    """Set and show which companies a tenant wants (ideal customer profile)."""


@icp.command("set")
@tenant_option
@_RULE_OPTION
@click.option(
    "--industry",
    "industries",
    multiple=True,
    metavar="INDUSTRY",
    help="A word (technology), a section's letter (J) or digits of a code (62); may be repeated. "
    "`any` takes every industry.",
)
@click.option("--employees", metavar="LEAST-MOST", help="Number of employees, e.g. 2-100.")
@click.option("--years", metavar="FROM-TO", help="Years of incorporation, e.g. 2000-2025.")
@json_option
@pass_context
@async_command
async def set_rule(
    asked: CommandContext,
    tenant: str | None,
    name: str | None,
    industries: tuple[str, ...],
    employees: str | None,
    years: str | None,
    as_json: bool,
) -> None:
    """Set which companies a tenant wants. Options left out keep their values.

    A new ICP starts from technology, 2–100 employees, incorporated 2000–2025. A company of unknown
    size still matches. `stoker registry industries show INDUSTRY` lists the codes of an industry.
    """
    from dataclasses import replace

    from stoker.accounts.icp import IcpRule

    changes: dict[str, tuple[str, ...] | tuple[int, int]] = {}
    if industries:
        changes["industries"] = _parse_industries(industries)
    if employees is not None:
        changes["employees"] = _parse_span(employees, what="--employees", example="2-100")
    if years is not None:
        changes["years"] = _parse_span(years, what="--years", example="2000-2025")
    async with asked.open_app() as app:
        chosen = choose_tenant(app.settings, tenant)
        await _check_codes(app.backend.registry(), changes.get("industries", ()))
        wanted = name or app.settings.for_tenant(chosen).icp.rule_name
        accounts = app.backend.tenant(chosen).accounts
        before = await accounts.find_rule(wanted) or IcpRule(name=wanted)
        rule = replace(before, **changes)  # type: ignore[arg-type]  # each under its own name
        await accounts.save_rule(rule)
        await app.backend.tenant(chosen).setup.complete_setup_step("rule", at=app.clock.now())
    _print_rule(chosen, rule, as_json=as_json)


@icp.command("show")
@tenant_option
@_RULE_OPTION
@json_option
@pass_context
@async_command
async def show_rule(
    asked: CommandContext, tenant: str | None, name: str | None, as_json: bool
) -> None:
    """Show which companies a tenant wants."""
    async with asked.open_app(only_to_read=True) as app:
        chosen = choose_tenant(app.settings, tenant)
        wanted = name or app.settings.for_tenant(chosen).icp.rule_name
        rule = await app.backend.tenant(chosen).accounts.find_rule(wanted)
    if rule is None:
        raise ConfigError(
            f"{chosen} has no ICP {wanted!r}; set it with: "
            f"stoker icp set --tenant {chosen} --industry technology"
        )
    _print_rule(chosen, rule, as_json=as_json)


async def _check_codes(registry: RegistryStore, industries: tuple[str | int, ...]) -> None:
    """Raise ConfigError for a code that no classification has, where one with its division is."""
    from stoker.registry.ssic import VERSIONS

    codes = [each.code for version in VERSIONS for each in await registry.list_codes(version)]
    for begins in map(str, industries):
        beside = [code for code in codes if code.startswith(begins[:2])]
        if beside and not any(code.startswith(begins) for code in beside):
            raise ConfigError(
                f"no industry code begins with {begins}; list codes with: "
                f"stoker registry industries show {begins[:2]}"
            )


def _parse_industries(industries: tuple[str, ...]) -> tuple[str, ...]:
    from stoker.registry.ssic import list_prefixes

    if any(each.strip().casefold() == "any" for each in industries):
        if len(industries) > 1:
            raise ConfigError("--industry any includes every industry; remove the others")
        return ()
    return tuple(dict.fromkeys(code for each in industries for code in list_prefixes(each)))


def _parse_span(text: str, *, what: str, example: str) -> tuple[int, int]:
    found = _SPAN_PATTERN.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{what} is {text[:40]!r}; give two numbers, e.g. {example}")
    return int(found[1]), int(found[2])


def _print_rule(tenant: TenantId, rule: IcpRule, *, as_json: bool) -> None:
    if as_json:
        print_json({"tenant": tenant, **rule.as_json()})
        return
    print_text(f"{tenant} wants these companies (ICP {rule.name!r}):")
    print_table(
        ["criterion", "wanted"],
        [
            ("industries (SSIC)", ", ".join(rule.industries) or "any"),
            ("employees, where known", f"{rule.employees[0]}–{rule.employees[1]}"),
            ("incorporated", f"{rule.years[0]}–{rule.years[1]}"),
        ],
    )


@click.group()
def accounts() -> None:
    """Import accounts of your own, list them, show one."""


@accounts.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@tenant_option
@json_option
@pass_context
@async_command
async def import_file(
    asked: CommandContext, file: Path, tenant: str | None, as_json: bool
) -> Exit | None:
    """Import accounts from FILE, a CSV file.

    Columns: account_id; optionally name, domain and posture (0 to 1, how well it fits). An imported
    account matches the ICP; its posture replaces the lead score in heat and pulls. Empty cells
    change nothing, and a file can be imported again. Invalid rows are listed.
    """
    from stoker.accounts.account_rows import read_account_columns, read_account_rows
    from stoker.heat.account_import import import_accounts
    from stoker.heat.service import build_heat_sweep

    async with asked.open_app() as app:
        whose = choose_tenant(app.settings, tenant)
        columns = read_account_columns(asked.directory / file)
        done = await import_accounts(
            app.backend.tenant(whose),
            read_account_rows(asked.directory / file),
            sweep=build_heat_sweep(app.for_tenant(whose)),
            clock=app.clock,
        )
    if as_json:
        print_json(
            {
                "tenant": whose,
                "new": done.new,
                "changed": done.changed,
                "same": done.same,
                "with_posture": done.with_posture,
                "with_domain": done.with_domain,
                "columns_used": list(columns.used),
                "columns_not_used": list(columns.unused),
                "bad": done.rejected,
                "rows": [{"line": line, "because": because} for line, because in done.errors],
            }
        )
        return Exit.PROBLEMS if done.rejected else None
    print_text(
        f"{whose}: {format_count(done.new, 'new account')}, {done.changed} changed, "
        f"{done.same} as before; {done.with_posture} with a posture, {done.with_domain} with a "
        "domain"
    )
    if columns.unused:
        print_text(
            f"Columns used: {', '.join(columns.used)}. Not used: {', '.join(columns.unused)}."
        )
    if done.rejected:
        print_text(f"{format_count(done.rejected, 'row')} rejected:")
        print_table(["line", "reason"], done.errors[:_MAX_ERRORS_PRINTED])
    if done.rejected > _MAX_ERRORS_PRINTED:
        print_text(f"and {done.rejected - _MAX_ERRORS_PRINTED} more; list all with --json")
    if done.new or done.changed:
        print_text(f"See which are hot: stoker heat top --tenant {whose}")
    return Exit.PROBLEMS if done.rejected else None


@accounts.command("list")
@tenant_option
@click.option("--given", is_flag=True, help="Only accounts that you imported.")
@limit_option
@click.option("--after", metavar="ID", default="", help="Continue after this account.")
@json_option
@pass_context
@async_command
async def list_accounts(
    asked: CommandContext,
    tenant: str | None,
    given: bool,
    limit: int | None,
    after: str,
    as_json: bool,
) -> None:
    """List a tenant's accounts in the order of their ids."""
    found: list[Company] = []
    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        store, last = app.backend.tenant(whose).accounts, after
        # One more than asked for shows whether there are more.
        while (limit is None or len(found) <= limit) and (
            page := await store.list_companies(after=last)
        ):
            last = page[-1].id
            found += [each for each in page if each.is_given or not given]
    more, found = limit is not None and len(found) > limit, found[:limit]
    if as_json:
        print_json([_to_account_json(whose, each) for each in found])
        return
    print_table(
        ["account", "name", "website", "posture", "imported"],
        [
            (
                each.id,
                each.name,
                each.website,
                "" if each.posture is None else f"{each.posture:.2f}",
                "yes" if each.is_given else "",
            )
            for each in found
        ],
        empty=f"{whose} has no accounts{' that you imported' if given else ''} yet; import your "
        "own with: stoker accounts import FILE.csv",
    )
    if more:
        print_text(f"More accounts: repeat with --after {found[-1].id}")


@accounts.command("show")
@click.argument("account", metavar="[TENANT/]ACCOUNT")
@tenant_option
@json_option
@pass_context
@async_command
async def show_account(
    asked: CommandContext, account: str, tenant: str | None, as_json: bool
) -> None:
    """Show one account: name, website, posture, whether it matches, heat, last research."""
    from stoker.accounts.icp import IcpRule, match_icp
    from stoker.heat.heat import score_heat

    async with asked.open_app(only_to_read=True) as app:
        whose, number = parse_account(app.settings, account.strip(), tenant)
        own, store = app.settings.for_tenant(whose), app.backend.tenant(whose)
        record = await store.accounts.find_company_record(number)
        if record is None:
            raise ConfigError(
                f"{whose} has no account {number[:60]!r}; see: stoker accounts list "
                f"--tenant {whose}"
            )
        rule = await store.accounts.find_rule(own.icp.rule_name)
        heat = await store.heat.find_heat(number)
        if heat is not None:
            heat = score_heat(heat, now=app.clock.now(), rule=own.heat)
    company, fit = record.company, None
    if rule is not None or company.is_given:
        fit = match_icp(company, rule or IcpRule())
    if as_json:
        print_json(
            {
                **_to_account_json(whose, company),
                "matches_icp": fit.fits if fit else None,
                "because": fit.reason if fit else None,
                "lead_score": record.score.value if record.score else None,
                "heat_score": heat.score if heat else None,
                "heat_tier": heat.tier.value if heat else None,
                "looked_at": record.looked_at.isoformat() if record.looked_at else None,
            }
        )
        return
    score = record.score
    posture = f"{company.posture:.2f}, as you gave it" if company.posture is not None else ""
    if not posture and score is not None:
        posture = f"{score.value:.2f}, its lead score"
    print_text(f"{company.name} ({company.id}), for {whose}")
    print_fields(
        [
            ("Website", company.website or "unknown"),
            ("Posture", posture or "not known before its first research"),
            ("Lead score", f"{score.value:.2f} ({score.bucket})" if score else "none yet"),
            ("Matches", f"{'yes' if fit.fits else 'no'}, {fit.reason}" if fit else "no ICP is set"),
            ("Heat", f"{heat.score:.2f}, {heat.tier.value}" if heat else "none yet"),
            ("Researched", format_time(record.looked_at) if record.looked_at else "never"),
        ]
    )
    print_text(f"  Why it was selected or not: stoker why {whose}/{company.id}")


def _to_account_json(tenant: TenantId, company: Company) -> dict[str, Json]:
    return {
        "tenant_id": tenant,
        "account_id": company.id,
        "name": company.name,
        "website": company.website,
        "posture": company.posture,
        "given": company.is_given,
        "live": company.live,
    }
