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
from stoker.cli.options import one_tenant
from stoker.cli.output import pass_asked, run_async, say, show_json, show_table, takes_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.app import App
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import Asked
    from stoker.pulls.plan_record import PlanInputs
    from stoker.pulls.price_curve import BudgetPoint

_HALF, _NOW, _MORE = 0.5, 1.0, 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A tenant's budget for a day, and what multiples of it would buy."""

    tenant: TenantId
    accounts: int
    budget: int  # units of a day
    policy: str
    points: tuple[BudgetPoint, ...]

    def at(self, times: float) -> BudgetPoint:
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
@takes_json
@pass_asked
def price(asked: Asked, tenant: str | None, picture: Path | None, as_json: bool) -> None:
    """Say what a pull unit is worth to a tenant, and what more or less of them would buy.

    TENANT may be left out when there is only one. The budget is the day's whole cap, whatever is
    spent of it, and nothing counts as stopped.
    """
    found = run_async(_priced(asked, tenant))
    if picture is not None:
        _draw(picture, found.points)
    if as_json:
        show_json(_json(found))
    else:
        _show(found)


async def _priced(asked: Asked, named: str | None) -> Priced:
    from stoker.pulls.price_curve import TIMES, points

    async with asked.app(only_to_read=True) as app:
        tenant = one_tenant(app.settings, named)
        now = app.clock.now()
        pulls = await app.pull_planning(tenant).pulls(app.backend.tenant(tenant), now=now)
        budget = await _day_budget(app, tenant)
    inputs = _undisturbed(pulls.inputs, budget)
    if not len(inputs.accounts):
        raise ConfigError(
            f"no account of {tenant} has a heat yet; give those that fit one with: "
            "stoker heat sweep"
        )
    found = []
    for nth, point in enumerate(points(inputs, now=now, times=TIMES), start=1):
        found.append(point)
        if sys.stderr.isatty():
            ending = "\n" if nth == len(TIMES) else ""
            click.echo(f"\r{nth} of {len(TIMES)} budgets{ending}", nl=False, err=True)
    return Priced(
        tenant=tenant,
        accounts=len(inputs.accounts),
        budget=budget,
        policy=inputs.rule.policy.value,
        points=tuple(found),
    )


async def _day_budget(app: App, tenant: TenantId) -> int:
    """Return the pull units of a whole day, by the caps in force."""
    from stoker.budgets.caps import added_caps, limit_in_force
    from stoker.budgets.windows import WindowKind
    from stoker.enrichment.pull_units import CONNECTOR, UNIT
    from stoker.nightly.targets import PLENTY

    caps = await app.caps_for(tenant)
    changes = await app.backend.tenant(tenant).money.cap_changes()
    now = app.clock.now()
    limits = [
        limit_in_force(cap, changes.get(cap.id), now=now)
        for cap in (*caps, *added_caps(caps, changes))
        if cap.unit == UNIT
        and cap.window is WindowKind.DAY
        and cap.connector in ("", CONNECTOR)
        and not cap.shared
    ]
    return min([PLENTY, *limits])


def _undisturbed(inputs: PlanInputs, budget: int) -> PlanInputs:
    """Return what a plan would be made of with a whole day's budget, and nothing in its way."""
    import numpy as np

    from stoker.pulls.columns import Why, limits_of

    free = np.full(len(inputs.accounts), Why.FREE, np.uint8)
    return replace(
        inputs,
        accounts=replace(inputs.accounts, barred=free),
        limits=limits_of([budget]),
    )


def _show(found: Priced) -> None:
    now, more, half = found.at(_NOW), found.at(_MORE), found.at(_HALF)
    say(
        f"{found.tenant}: {found.accounts:,} accounts, {found.budget:,} pull units a day, "
        f"policy {found.policy}"
    )
    say(f"  price of a unit: {_price(now.price)}")
    say(
        f"  10 % more units would buy {more.looks - now.looks:+,} looks today and keep "
        f"{_points(more.freshness - now.freshness)} of value more up to date"
    )
    say(
        f"  with half the budget: a look every {_days(half.every)} in place of every "
        f"{_days(now.every)}, {_points(half.freshness - now.freshness)} up to date"
    )
    show_table(
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
                _price(each.price),
                _days(each.every),
            )
            for each in found.points
        ],
    )
    say(
        "  up to date: share of time, by value, that the best plan of this budget keeps, if what "
        "is believed is true"
    )


def _json(found: Priced) -> Json:
    now, more, half = found.at(_NOW), found.at(_MORE), found.at(_HALF)
    return {
        "tenant": found.tenant,
        "accounts": found.accounts,
        "budget": found.budget,
        "policy": found.policy,
        "price": _finite(now.price),
        "a_tenth_more": {
            "looks": more.looks - now.looks,
            "freshness": more.freshness - now.freshness,
        },
        "half": {
            "every_days": _finite(half.every),
            "every_days_now": _finite(now.every),
            "freshness": half.freshness - now.freshness,
        },
        "curve": [
            {
                "times": each.times,
                "units": each.units,
                "looks": each.looks,
                "freshness": each.freshness,
                "price": _finite(each.price),
                "every_days": _finite(each.every),
                "gap": each.gap,
            }
            for each in found.points
        ],
    }


def _draw(picture: Path, points: Sequence[BudgetPoint]) -> None:
    from stoker.cli.export import new_file
    from stoker.simulation.chart import bar_chart

    labels = [f"{each.times:g}" for each in points]
    fresh = [each.freshness for each in points]
    with new_file(picture, replace=True) as stream:
        stream.write(bar_chart("SHARE UP TO DATE, BY TIMES THE BUDGET", labels, fresh))


def _price(number: float) -> str:
    if number == 0:
        return "0, there is more money than looks"
    return f"{number:.3g}" if math.isfinite(number) else "none, nothing may be spent"


def _points(change: float) -> str:
    return f"{100 * change:+.2f} points"


def _days(number: float) -> str:
    return f"{number:.1f} days" if number < 3650 else "ten years or more"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
