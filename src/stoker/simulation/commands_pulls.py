"""stoker simulate pulls|nights: lookup policies side by side, and nights with things going wrong.

The planners are those the product uses. Nothing is written but the requested picture.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import plot_option, seed_option
from stoker.cli.output import Exit, json_option, print_json, print_table, print_text
from stoker.simulation.chart import write_bar_chart

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.simulation.faults import InjectedFault
    from stoker.simulation.nights import NightTally
    from stoker.simulation.policies import PolicyComparison
    from stoker.simulation.world import SimWorld

_FILE_TYPE = click.Path(dir_okay=False, path_type=Path)

_DEFAULT_ACCOUNTS = 2000

_SHORT_NAMES = {  # what a picture has room for
    "production": "product",
    "production, yields told": "yields",
    "true values": "true",
    "true values, for freshness": "true fresh",
    "true values and rates": "true rates",
    "tiers": "tiers",
    "tiers, HOT first": "hot first",
    "top by heat": "top heat",
    "uniform": "uniform",
    "by value": "by value",
    "by heat": "by heat",
    "by change rate, known": "by rate",
}


@click.command()
@click.option(
    "--accounts",
    type=click.IntRange(1, 200_000),
    metavar="N",
    help=f"How many to make up; default {_DEFAULT_ACCOUNTS:,}.",
)
@click.option(
    "--budget",
    type=click.FloatRange(0.001, 1.0),
    default=0.143,
    show_default=True,
    help="Lookups per account and day; tiers of 1, 3 and 7 days need 0.286.",
)
@click.option(
    "--days",
    type=click.IntRange(14, 3660),
    default=365,
    show_default=True,
    help="How many days; the second half is measured.",
)
@seed_option
@click.option(
    "--trace",
    type=_FILE_TYPE,
    metavar="FILE",
    help="Recorded changes instead: CSV of item and unix time.",
)
@click.option(
    "--importance",
    type=_FILE_TYPE,
    metavar="FILE",
    help="Value of the trace's items: CSV of item and number.",
)
@plot_option("Draw how long data is out of date", "--picture")
@json_option
def pulls(
    accounts: int | None,
    budget: float,
    days: int,
    seed: int,
    trace: Path | None,
    importance: Path | None,
    plot: Path | None,
    as_json: bool,
) -> Exit:
    """Compare how fresh each policy keeps accounts at the same budget."""
    from stoker.simulation.policies import compare_policies

    world = _build_world(accounts, days, seed, trace, importance)
    found = compare_policies(world, budget=budget, days=days, seed=seed)
    labels = [_SHORT_NAMES[each.policy] for each in found.policies]
    stale = [1 - each.tally.freshness for each in found.policies]
    if found.bounds is not None:
        labels, stale = [*labels, "bound"], [*stale, 1 - found.bounds.freshness]
    title = "SHARE OF TIME OUT OF DATE, BY POLICY"
    if write_bar_chart(plot, title, labels, stale, as_json=as_json):
        return Exit.OK
    if as_json:
        print_json(
            {
                "accounts": len(world),
                "budget": budget,
                "days": days,
                "seed": seed,
                "bound": None
                if found.bounds is None
                else {
                    "freshness": found.bounds.freshness,
                    "missed_changes": found.bounds.harmonic,
                },
                "policies": [
                    {
                        "policy": each.policy,
                        "freshness": each.tally.freshness,
                        "missed_changes": each.tally.harmonic,
                        "captured": each.tally.capture,
                        "delay_days": each.tally.delay,
                        "looks_per_account_day": each.per_day,
                        "looks_over_budget": each.over,
                    }
                    for each in found.policies
                ],
            }
        )
        return Exit.OK
    _print_comparison(world, found, budget=budget, days=days)
    return Exit.OK


def _build_world(
    accounts: int | None, days: int, seed: int, trace: Path | None, importance: Path | None
) -> SimWorld:
    if trace is not None:
        from stoker.simulation.world import read_trace

        if accounts is not None:
            raise ConfigError("--accounts makes accounts up; a trace has its own: leave one out")
        return read_trace(trace, days=days, importance=importance, seed=seed)
    from stoker.simulation.world import build_population

    if importance is not None:
        raise ConfigError("--importance says what items of a trace are worth; give --trace too")
    return build_population(accounts or _DEFAULT_ACCOUNTS, seed=seed)


def _print_comparison(
    world: SimWorld, found: PolicyComparison, *, budget: float, days: int
) -> None:
    print_text(
        f"{len(world):,} accounts, {budget:g} looks per account and day, "
        f"days {days // 2 + 1} to {days} of {days}\n"
    )
    bounds, tiers = found.bounds, found.tiers.tally

    def against(ours: float, theirs: float) -> str:
        return f"{ours / theirs - 1:+.0%}" if theirs > 0 else "-"

    rows = [
        (
            each.policy,
            f"{each.tally.freshness:.3f}",
            "-" if bounds is None else f"{each.tally.freshness / bounds.freshness:.1%}",
            against(1 - each.tally.freshness, 1 - tiers.freshness),
            f"{each.tally.harmonic:.3f}",
            f"{each.tally.capture:.3f}",
            f"{each.tally.delay:.1f} d",
            f"{each.per_day:.3f}",
        )
        for each in found.policies
    ]
    if bounds is not None:
        rows.append(
            (
                "no policy can beat",
                f"{bounds.freshness:.3f}",
                "100.0%",
                against(1 - bounds.freshness, 1 - tiers.freshness),
                f"{bounds.harmonic:.3f}",
                "-",
                "-",
                f"{budget:.3f}",
            )
        )
    print_table(
        ("policy", "fresh", "of bound", "stale", "missed", "captured", "delay", "looks"), rows
    )
    print_text(
        "\nfresh: share of time up to date; stale: time out of date beside tiers; missed: changes "
        "a copy lacks, the\nk-th counting 1/k; captured: what changes are still worth when found; "
        "delay: until they are. All by value."
    )


_MAX_VIOLATIONS_SHOWN = 20

_COUNT_TEXTS = {
    "nights": "nightly runs started",
    "killed": "nightly runs in which the program died",
    "looks": "lookups",
    "deep": "deep lookups",
    "refused": "refusals by a cap",
    "pushed_back": "rate limits of a vendor",
    "shed": "lookups skipped to end in time",
    "said": "accounts over the maximum wait that a plan reported",
}


@click.command()
@click.option(
    "--nights", type=click.IntRange(12, 3650), default=90, show_default=True, help="How many."
)
@click.option(
    "--inject",
    default="outage,dst,429,cap-cut",
    show_default=True,
    metavar="TROUBLE,…",
    help="Failures, separated by commas; empty for none.",
)
@click.option(
    "--accounts",
    type=click.IntRange(10, 20_000),
    default=200,
    show_default=True,
    help="Accounts per tenant; half as many pull units a day.",
)
@seed_option
@json_option
def nights(nights: int, inject: str, accounts: int, seed: int, as_json: bool) -> Exit:
    """Simulate nightly runs and pulls with failures; list the guarantees that broke, and when.

    Exit code 1 when one broke.
    """
    from stoker.simulation.faults import list_sim_tenants, parse_faults
    from stoker.simulation.nights import SimOptions, simulate_nights

    injected = parse_faults(inject)
    tenants = len(list_sim_tenants(injected))
    begun = 0

    def show_progress() -> None:
        nonlocal begun
        begun += 1
        if sys.stderr.isatty():
            click.echo(f"\rnight {begun} of {nights * tenants}", nl=False, err=True)

    order = SimOptions(
        accounts=accounts,
        units=max(accounts // 2, 10),
        credits=max(accounts // 13, 1),
        companies=max(accounts // 33, 1),
    )
    found = simulate_nights(
        nights=nights, injected=injected, order=order, seed=seed, on_night_done=show_progress
    )
    if sys.stderr.isatty():
        click.echo("\r" + " " * 40 + "\r", nl=False, err=True)
    if as_json:
        print_json(_to_nights_json(found, nights=nights, injected=injected, tenants=tenants))
    else:
        _print_nights(found, nights=nights, injected=injected, tenants=tenants)
    return Exit.PROBLEMS if found.violations else Exit.OK


def _print_nights(
    found: NightTally, *, nights: int, injected: frozenset[InjectedFault], tenants: int
) -> None:
    from stoker.simulation.faults import Invariant

    wrong = ", ".join(sorted(injected)) or "none"
    print_text(f"{nights} nights of {tenants} tenants; failures: {wrong}\n")
    broken = Counter(each.invariant for each in found.violations)
    print_table(["guarantee", "broken"], [(each.value, broken[each]) for each in Invariant])
    if found.violations:
        print_text("")
        print_table(
            ["night", "tenant", "day", "guarantee", "what happened"],
            [
                (each.night, each.tenant, each.day.isoformat(), each.invariant.value, each.message)
                for each in found.violations[:_MAX_VIOLATIONS_SHOWN]
            ],
        )
        if len(found.violations) > _MAX_VIOLATIONS_SHOWN:
            print_text(f"and {len(found.violations) - _MAX_VIOLATIONS_SHOWN} more; --json has all")
    print_text("")
    print_table(
        ["what happened", "times"],
        [(words, f"{getattr(found, name):,}") for name, words in _COUNT_TEXTS.items()],
    )


def _to_nights_json(
    found: NightTally, *, nights: int, injected: frozenset[InjectedFault], tenants: int
) -> Json:
    from stoker.simulation.faults import Invariant

    broken = Counter(each.invariant for each in found.violations)
    return {
        "nights": nights,
        "tenants": tenants,
        "injected": sorted(injected),
        "counts": {name: getattr(found, name) for name in _COUNT_TEXTS},
        "broken": {each.name: broken[each] for each in Invariant},
        "breaches": [
            {
                "promise": each.invariant.name,
                "tenant": each.tenant,
                "night": each.night,
                "day": each.day.isoformat(),
                "sentence": each.message,
            }
            for each in found.violations
        ],
    }
