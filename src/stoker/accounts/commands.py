"""`stoker icp`: which companies a tenant wants, its ideal customer profile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import choose_tenant, tenant_option
from stoker.cli.output import (
    async_command,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from stoker.accounts.icp import IcpRule
    from stoker.base.types import TenantId
    from stoker.cli.output import CommandContext
    from stoker.registry.store import RegistryStore

_SPAN_PATTERN = re.compile(r"([0-9]{1,9})\s*(?:-|–|\.\.)\s*([0-9]{1,9})")

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
