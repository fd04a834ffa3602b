"""`stoker price`: what a unit costs a tenant in looks not made, and what more budget would buy.

Reckoned from what is known now; nothing is written but the picture that is asked for.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import choose_tenant
from stoker.cli.output import (
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
    run_async,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.app import App
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.pulls.rates import BudgetPoint

_HALF_TIMES, _ONCE, _MORE_TIMES = 0.5, 1.0, 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceReport:
    """A tenant's budget for a day, and what multiples of it would buy."""

    tenant: TenantId
    accounts: int
    budget: int  # units of a day
    policy: str
    points: tuple[BudgetPoint, ...]

    def get_point(self, times: float) -> BudgetPoint:
        """Return the point of this multiple."""
        return next(each for each in self.points if each.times == times)


@click.command()
@click.argument("tenant", required=False)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.png",
    help="Draw how fresh each budget keeps accounts; a file of that name is replaced.",
)
@json_option
@pass_context
def price(asked: CommandContext, tenant: str | None, picture: Path | None, as_json: bool) -> None:
    """Say what a pull unit is worth to a tenant, and what more or less of them would buy.

    TENANT may be left out when there is only one. The budget is the day's whole cap, whatever is
    spent of it, and nothing counts as stopped.
    """
    found = run_async(_build_price_report(asked, tenant))
    if picture is not None:
        _write_chart(picture, found.points)
    if as_json:
        print_json(_to_price_json(found))
    else:
        _print_price(found)


async def _build_price_report(asked: CommandContext, named: str | None) -> PriceReport:
    import numpy as np

    from stoker.pulls.columns import Decision
    from stoker.pulls.rates import TIMES, iterate_budget_points

    async with asked.open_app(only_to_read=True) as app:
        tenant = choose_tenant(app.settings, named)
        now = app.clock.now()
        pulls = await app.build_pull_planner(tenant).preview_plan(
            app.backend.tenant(tenant), now=now
        )
        budget = await _read_day_budget(app, tenant)
    accounts, rule = pulls.inputs.accounts, pulls.inputs.rule
    # A whole day's budget, and nothing in its way.
    accounts = replace(accounts, barred=np.full(len(accounts), Decision.FREE, np.uint8))
    if not len(accounts):
        raise ConfigError(
            f"no account of {tenant} has a heat yet; give those that fit one with: "
            "stoker heat sweep"
        )
    found = []
    points = iterate_budget_points(accounts, budget, now=now, rule=rule)
    for nth, point in enumerate(points, start=1):
        found.append(point)
        if sys.stderr.isatty():
            ending = "\n" if nth == len(TIMES) else ""
            click.echo(f"\r{nth} of {len(TIMES)} budgets{ending}", nl=False, err=True)
    return PriceReport(
        tenant=tenant,
        accounts=len(accounts),
        budget=budget,
        policy=rule.policy.value,
        points=tuple(found),
    )


async def _read_day_budget(app: App, tenant: TenantId) -> int:
    """Return the pull units of a whole day, by the caps in force."""
    from stoker.budgets.caps import compute_effective_limit, list_added_caps
    from stoker.budgets.windows import WindowKind
    from stoker.enrichment.pull_units import CRAWL, PULL_UNITS
    from stoker.nightly.targets import UNLIMITED

    caps = await app.list_caps(tenant)
    changes = await app.backend.tenant(tenant).money.list_cap_changes()
    now = app.clock.now()
    limits = [
        compute_effective_limit(cap, changes.get(cap.id), now=now)
        for cap in (*caps, *list_added_caps(caps, changes))
        if cap.unit == PULL_UNITS
        and cap.window is WindowKind.DAY
        and cap.connector in ("", CRAWL)
        and not cap.shared
    ]
    return min([UNLIMITED, *limits])


def _print_price(found: PriceReport) -> None:
    now, more, half = (
        found.get_point(_ONCE),
        found.get_point(_MORE_TIMES),
        found.get_point(_HALF_TIMES),
    )
    print_text(
        f"{found.tenant}: {found.accounts:,} accounts, {found.budget:,} pull units a day, "
        f"policy {found.policy}"
    )
    print_text(f"  price of a unit: {_format_price(now.price)}")
    print_text(
        f"  10 % more units would buy {more.looks - now.looks:+,} looks today and keep "
        f"{_format_points(more.freshness - now.freshness)} of value more up to date"
    )
    print_text(
        f"  with half the budget: a look every {_format_interval(half.every)} in place of every "
        f"{_format_interval(now.every)}, {_format_points(half.freshness - now.freshness)} up to "
        f"date"
    )
    print_table(
        [
            "budget",
            "units a day",
            "looks today",
            "up to date",
            "price",
            "half of all looked at every",
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
            for each in found.points
        ],
    )
    print_text(
        "  up to date: share of time, by value, that the best plan of this budget keeps, if what "
        "is believed is true"
    )


def _to_price_json(found: PriceReport) -> Json:
    now, more, half = (
        found.get_point(_ONCE),
        found.get_point(_MORE_TIMES),
        found.get_point(_HALF_TIMES),
    )
    return {
        "tenant": found.tenant,
        "accounts": found.accounts,
        "budget": found.budget,
        "policy": found.policy,
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
            for each in found.points
        ],
    }


def _write_chart(picture: Path, points: Sequence[BudgetPoint]) -> None:
    from stoker.simulation.chart import write_bar_chart

    labels = [f"{each.times:g}" for each in points]
    fresh = [each.freshness for each in points]
    write_bar_chart(picture, "SHARE UP TO DATE, BY TIMES THE BUDGET", labels, fresh)


def _format_price(number: float) -> str:
    if number == 0:
        return "0, there is more money than looks"
    return f"{number:.3g}" if math.isfinite(number) else "none, nothing may be spent"


def _format_points(change: float) -> str:
    return f"{100 * change:+.2f} points"


def _format_interval(number: float) -> str:
    return f"{number:.1f} days" if number < 3650 else "ten years or more"


def _to_finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
