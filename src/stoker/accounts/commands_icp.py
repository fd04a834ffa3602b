"""`stoker icp`: whom a tenant looks for, its ideal customer profile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import one_tenant, takes_tenant
from stoker.cli.output import pass_asked, run_async, say, show_json, show_table, takes_json

if TYPE_CHECKING:
    from stoker.accounts.icp import IcpRule
    from stoker.base.types import TenantId
    from stoker.cli.output import Asked
    from stoker.registry.model import RegistryStore

_SPAN = re.compile(r"([0-9]{1,9})\s*(?:-|–|\.\.)\s*([0-9]{1,9})")

_NAME = click.option(
    "--rule", "name", metavar="NAME", help="Which rule. Default: the one icp.rule_name names."
)


@click.group()
def icp() -> None:
    """Say and see which companies a tenant looks for."""


@icp.command("set")
@takes_tenant
@_NAME
@click.option(
    "--industry",
    "industries",
    multiple=True,
    metavar="INDUSTRY",
    help="A word (technology), a section's letter (J) or digits of a code (62); may be repeated. "
    "`any` takes every industry.",
)
@click.option("--employees", metavar="LEAST-MOST", help="How many people work there, e.g. 2-100.")
@click.option("--years", metavar="FROM-TO", help="When it was incorporated, e.g. 2000-2025.")
@takes_json
@pass_asked
def set_rule(
    asked: Asked,
    tenant: str | None,
    name: str | None,
    industries: tuple[str, ...],
    employees: str | None,
    years: str | None,
    as_json: bool,
) -> None:
    """Say which companies to look for. What is left out stays as it was.

    A new rule starts from technology, 2–100 employees, incorporated 2000–2025. A size nobody knows
    is no reason to refuse a company. `stoker registry ssic show INDUSTRY` says which codes are
    meant.
    """
    said: dict[str, tuple[str, ...] | tuple[int, int]] = {}
    if industries:
        said["industries"] = _codes(industries)
    if employees is not None:
        said["employees"] = _span(employees, what="--employees", example="2-100")
    if years is not None:
        said["years"] = _span(years, what="--years", example="2000-2025")
    whose, rule = run_async(_set(asked, tenant, name, said))
    _show(whose, rule, as_json=as_json)


@icp.command("show")
@takes_tenant
@_NAME
@takes_json
@pass_asked
def show_rule(asked: Asked, tenant: str | None, name: str | None, as_json: bool) -> None:
    """Show which companies a tenant looks for."""
    whose, rule = run_async(_shown(asked, tenant, name))
    _show(whose, rule, as_json=as_json)


async def _set(
    asked: Asked,
    tenant: str | None,
    name: str | None,
    said: dict[str, tuple[str, ...] | tuple[int, int]],
) -> tuple[TenantId, IcpRule]:
    from dataclasses import replace

    from stoker.accounts.icp import IcpRule

    async with asked.app() as app:
        whose = one_tenant(app.settings, tenant)
        await _must_be_there(app.backend.registry(), said.get("industries", ()))
        wanted = name or app.settings.for_tenant(whose).icp.rule_name
        accounts = app.backend.tenant(whose).accounts
        before = await accounts.rule(wanted) or IcpRule(name=wanted)
        rule = replace(before, **said)  # type: ignore[arg-type]  # each under its own name
        await accounts.put_rule(rule)
        await accounts.put_onboarded("rule", at=app.clock.now())
    return whose, rule


async def _must_be_there(registry: RegistryStore, industries: tuple[str | int, ...]) -> None:
    """Raise ConfigError for a code that no classification has, where one with its division is."""
    from stoker.registry.ssic import VERSIONS

    codes = [each.code for version in VERSIONS for each in await registry.codes(version)]
    for begins in map(str, industries):
        beside = [code for code in codes if code.startswith(begins[:2])]
        if beside and not any(code.startswith(begins) for code in beside):
            raise ConfigError(
                f"no industry's code begins with {begins}; see those there are with: "
                f"stoker registry ssic show {begins[:2]}"
            )


async def _shown(asked: Asked, tenant: str | None, name: str | None) -> tuple[TenantId, IcpRule]:
    async with asked.app(only_to_read=True) as app:
        whose = one_tenant(app.settings, tenant)
        wanted = name or app.settings.for_tenant(whose).icp.rule_name
        rule = await app.backend.tenant(whose).accounts.rule(wanted)
    if rule is None:
        raise ConfigError(
            f"{whose} has no rule {wanted!r}; set it with: "
            f"stoker icp set --tenant {whose} --industry technology"
        )
    return whose, rule


def _codes(industries: tuple[str, ...]) -> tuple[str, ...]:
    from stoker.registry.ssic import prefixes

    if any(each.strip().casefold() == "any" for each in industries):
        if len(industries) > 1:
            raise ConfigError("--industry any takes every industry; leave the others out")
        return ()
    return tuple(dict.fromkeys(code for each in industries for code in prefixes(each)))


def _span(text: str, *, what: str, example: str) -> tuple[int, int]:
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{what} is {text[:40]!r}; write two numbers, e.g. {example}")
    return int(found[1]), int(found[2])


def _show(tenant: TenantId, rule: IcpRule, *, as_json: bool) -> None:
    if as_json:
        show_json({"tenant": tenant, **rule.as_json()})
        return
    say(f"{tenant} looks for companies by rule {rule.name!r}:")
    show_table(
        ["what", "wanted"],
        [
            ("industries (SSIC)", ", ".join(rule.industries) or "any"),
            ("employees, where known", f"{rule.employees[0]}–{rule.employees[1]}"),
            ("incorporated", f"{rule.years[0]}–{rule.years[1]}"),
        ],
    )
