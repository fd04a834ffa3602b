"""`stoker pulls price|replay`: what other budgets would buy, and saved plans computed again.

Nothing is written but the requested picture. Vendor calls are estimates, as in a quote.
"""

from __future__ import annotations

import math
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count, format_few, format_time
from stoker.cli.options import choose_tenant, tenant_option
from stoker.cli.output import (
    Exit,
    async_command,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.pulls.rates import BudgetPoint
    from stoker.pulls.saved_plans import PlanSnapshot
    from stoker.pulls.service import PlanSide, ReplayReport

_HALF_TIMES, _ONCE, _MORE_TIMES = 0.5, 1.0, 1.1

_MAX_DIFFERENCES = 20

_DEPTH_NAMES = ("NOT", "SHALLOW", "DEEP")


@click.command()
@click.argument("named", metavar="[TENANT]", required=False)
@tenant_option
@click.option(
    "--plot",
    "--picture",
    "picture",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.png",
    help="Draw the freshness of each budget; replaces the file.",
)
@json_option
@pass_context
@async_command
async def price(
    asked: CommandContext,
    named: str | None,
    tenant: str | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Show what a pull unit is worth to a tenant, and what more or fewer units would buy.

    The budget is the whole cap of the day, whatever is spent of it, and stops are ignored.
    """
    whose, inputs, budget, points = await _compute_price(asked, tenant or named)
    if picture is not None:
        from stoker.simulation.chart import write_bar_chart

        labels = [f"{each.times:g}" for each in points]
        fresh = [each.freshness for each in points]
        write_bar_chart(picture, "SHARE OF FRESH DATA BY BUDGET", labels, fresh)
    by_times = {each.times: each for each in points}
    now, more, half = by_times[_ONCE], by_times[_MORE_TIMES], by_times[_HALF_TIMES]
    if as_json:
        print_json(
            {
                "tenant": whose,
                "accounts": len(inputs.ids),
                "budget": budget,
                "policy": inputs.rule.policy.value,
                "price": _to_finite(now.price),
                "a_tenth_more": {
                    "looks": more.looks - now.looks,
                    "freshness": more.freshness - now.freshness,
                },
                "half": {
                    "every_days": _to_finite(half.every),
                    "every_days_now": _to_finite(now.every),
                    "freshness": half.freshness - now.freshness,
                },
                "curve": [
                    {
                        "times": each.times,
                        "units": each.units,
                        "looks": each.looks,
                        "freshness": each.freshness,
                        "price": _to_finite(each.price),
                        "every_days": _to_finite(each.every),
                        "gap": each.gap,
                    }
                    for each in points
                ],
            }
        )
        return
    print_text(
        f"{whose}: {len(inputs.ids):,} accounts, {budget:,} pull units a day, "
        f"policy {inputs.rule.policy.value}"
    )
    print_text(f"  Cutoff: {_format_price(now.price)} value per unit")
    print_text(
        f"  10 % more budget: {more.looks - now.looks:+,} accounts today, "
        f"{_format_points(more.freshness - now.freshness)} fresher"
    )
    print_text(
        f"  Half the budget: research every {_format_interval(half.every)} instead of every "
        f"{_format_interval(now.every)}, {_format_points(half.freshness - now.freshness)} fresher"
    )
    _print_points(points)


async def _compute_price(
    asked: CommandContext, named: str | None
) -> tuple[TenantId, PlanSnapshot, int, list[BudgetPoint]]:
    from stoker.pulls.rates import TIMES, iterate_budget_points
    from stoker.pulls.service import PullPlanner

    async with asked.open_app(only_to_read=True) as app:
        tenant, now = choose_tenant(app.settings, named), app.clock.now()
        planner = PullPlanner(app.for_tenant(tenant))
        inputs, budget = await planner.read_price_inputs(now=now)
    if not inputs.ids:
        raise ConfigError(
            f"no account of {tenant} has a heat yet; compute it with: stoker heat sweep"
        )
    points: list[BudgetPoint] = []
    for point in iterate_budget_points(inputs.accounts, budget, now=now, rule=inputs.rule):
        points.append(point)
        if sys.stderr.isatty():
            ending = "\n" if len(points) == len(TIMES) else ""
            click.echo(f"\r{len(points)} of {len(TIMES)} budgets{ending}", nl=False, err=True)
    return tenant, inputs, budget, points


def _print_points(points: Sequence[BudgetPoint]) -> None:
    print_table(
        [
            "budget",
            "units a day",
            "accounts today",
            "fresh",
            "cutoff",
            "median interval",
        ],
        [
            (
                f"{each.times:g} ×",
                f"{each.units:,}",
                f"{each.looks:,}",
                f"{each.freshness:.2%}",
                _format_price(each.price),
                _format_interval(each.every),
            )
            for each in points
        ],
    )
    print_text(
        "  FRESH: share of time, weighted by value, that data is up to date under the best plan "
        "of this budget, if the estimated change rates are right"
    )


def _format_price(number: float) -> str:
    if number == 0:
        return "0 (more budget than demand)"
    return f"{number:.3g}" if math.isfinite(number) else "none (nothing may be spent)"


def _format_points(change: float) -> str:
    return f"{100 * change:+.2f} points"


def _format_interval(number: float) -> str:
    return f"{number:.1f} days" if number < 3650 else "10 years or more"


def _to_finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


@click.command()
@click.argument("run", metavar="RUN")
@tenant_option
@click.option(
    "--cap",
    "caps",
    multiple=True,
    metavar="NAME=NUMBER",
    help="With another cap for the day: pull_units of the tenant, crawl for its lookups, "
    "or a vendor's calls, e.g. lusha=200. May be repeated.",
)
@click.option("--policy", type=click.Choice(["optimal", "tiers"]), help="Another policy.")
@json_option
@pass_context
@async_command
async def replay(
    asked: CommandContext,
    run: str,
    tenant: str | None,
    caps: tuple[str, ...],
    policy: str | None,
    as_json: bool,
) -> Exit:
    """Compute a stored plan again: unchanged, or with another cap or policy.

    RUN is a run's name, or latest. Exit code 1 when a decision differs, or the ledger records
    another one.
    """
    from stoker.pulls.service import replay_run
    from stoker.vendors.table import list_paid_vendors

    changed_caps = _parse_caps(caps)
    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        vendors = list_paid_vendors(app.settings.for_tenant(whose))
        store = app.backend.tenant(whose)
        report = await replay_run(store, run, vendors=vendors, caps=changed_caps, policy=policy)
    if as_json:
        print_json(_to_replay_json(whose, report))
    else:
        _print_replay(whose, report)
    return Exit.PROBLEMS if report.differences or not report.matches_ledger else Exit.OK


def _parse_caps(caps: Iterable[str]) -> dict[str, int]:
    parsed: dict[str, int] = {}
    for each in caps:
        name, equals, number = each.partition("=")
        if not equals or not number.isascii() or not number.isdigit() or len(number) > 15:
            raise ConfigError(f"unknown cap {each[:40]!r}; use NAME=NUMBER, e.g. lusha=200")
        if name in parsed:
            raise ConfigError(f"the cap of {name[:40]} is given twice; give it once")
        parsed[name] = int(number)
    return parsed


def _print_replay(tenant: TenantId, report: ReplayReport) -> None:
    record, differences = report.saved.record, report.differences
    print_text(
        f"{tenant}, run {record.run}: {len(report.saved.inputs.ids)} accounts planned again "
        f"(policy {record.policy}, {format_time(record.at)}): "
        + (f"{len(differences)} differ" if differences else "the same decisions, byte for byte")
    )
    if not report.matches_ledger:
        recorded = "other decisions" if report.in_ledger else "no such plan"
        print_text(f"  The ledger has {recorded}; see: stoker ledger list --kind plan")
    if differences:
        print_table(
            ["account", "stored", "now", "depth stored", "depth now"],
            [
                (
                    each.account,
                    each.before.name,
                    each.after.name,
                    _DEPTH_NAMES[each.depth_before],
                    _DEPTH_NAMES[each.depth_after],
                )
                for each in islice(differences, _MAX_DIFFERENCES)
            ],
        )
    if report.after is None:
        return
    rows = _to_rows(report.before, report.after)
    print_table(["measure", "stored plan", "changed", "difference"], rows)
    for word, accounts in (("more", report.gained), ("fewer", report.lost)):
        if accounts:
            count = format_count(len(accounts), f"{word} account")
            print_text(f"  {count}: {format_few(accounts)}")
    print_text("  Preview only: nothing stored or reserved, no vendor called.")


def _to_rows(before: PlanSide, after: PlanSide) -> list[tuple[str, str, str, str]]:
    one, other = before.totals, after.totals
    costs = sorted({*before.quote.cost, *after.quote.cost})
    numbers = {
        "accounts selected": (one.looks, other.looks),
        "of them deep": (one.deep, other.deep),
        "pull units": (one.units, other.units),
        **{name: (before.quote.cost.get(name, 0), after.quote.cost.get(name, 0)) for name in costs},
    }
    return [
        *(
            (name, f"{was:,}", f"{would_be:,}", f"{would_be - was:+,}")
            for name, (was, would_be) in numbers.items()
        ),
        ("cutoff, value per unit", f"{one.price:.3g}", f"{other.price:.3g}", ""),
        (
            "fresh, by value",
            f"{one.freshness:.2%}",
            f"{other.freshness:.2%}",
            f"{other.freshness - one.freshness:+.2%}",
        ),
    ]


def _to_replay_json(tenant: TenantId, report: ReplayReport) -> Json:
    record = report.saved.record
    return {
        "tenant": tenant,
        "run": record.run,
        "at": record.at.isoformat(),
        "policy": record.policy,
        "accounts": len(report.saved.inputs.ids),
        "digest": record.header["digest"],
        "same": not report.differences,
        "ledger_agrees": report.matches_ledger,
        "differs": [
            {
                "account": each.account,
                "kept": each.before.name,
                "now": each.after.name,
                "depth_kept": _DEPTH_NAMES[each.depth_before],
                "depth_now": _DEPTH_NAMES[each.depth_after],
            }
            for each in report.differences
        ],
        "as_it_was": _to_side_json(report.before),
        "changed": None if report.after is None else _to_side_json(report.after),
        "gained": list(report.gained),
        "lost": list(report.lost),
    }


def _to_side_json(side: PlanSide) -> Json:
    totals, quote = side.totals, side.quote
    return {
        "accounts": totals.looks,
        "deep": totals.deep,
        "units": totals.units,
        "price": totals.price,
        "freshness": totals.freshness,
        "calls": dict(quote.calls),
        "cost": dict(quote.cost),
    }
