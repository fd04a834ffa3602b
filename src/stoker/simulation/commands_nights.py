"""stoker simulate nights: the product's planners on a virtual clock, with things going wrong.

Says which promises broke, whose and on which night. Nothing is read, written or asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stoker.cli.output import Exit, json_option, print_json, print_table, print_text

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.simulation.faults import InjectedFault
    from stoker.simulation.nights import NightTally

_MAX_VIOLATIONS_SHOWN = 20

_COUNT_TEXTS = {
    "nights": "nights begun",
    "killed": "nights the program died in",
    "looks": "looks",
    "deep": "looks that were deep",
    "refused": "times a cap said no",
    "pushed_back": "times a vendor said later",
    "shed": "looks left out to end in time",
    "said": "waits longer than the floor that a plan told of",
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
    help="What goes wrong, with commas between; empty for nothing.",
)
@click.option(
    "--accounts",
    type=click.IntRange(10, 20_000),
    default=200,
    show_default=True,
    help="Of every tenant; half as many pull units a day.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all chance.")
@json_option
def nights(nights: int, inject: str, accounts: int, seed: int, as_json: bool) -> Exit:
    """Rehearse nights and pulls with things going wrong; say which promises broke, and when.

    Exit code 1: a promise broke.
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
    from stoker.simulation.invariants import Invariant

    wrong = ", ".join(sorted(injected)) or "nothing"
    print_text(f"{nights} nights of {tenants} tenants; going wrong: {wrong}\n")
    print_table(
        ["promise", "broken"],
        [
            (each.value, sum(breach.invariant is each for breach in found.violations))
            for each in Invariant
        ],
    )
    if found.violations:
        print_text("")
        print_table(
            ["night", "tenant", "day", "promise", "what happened"],
            [
                (each.night, each.tenant, each.day.isoformat(), each.invariant.value, each.message)
                for each in found.violations[:_MAX_VIOLATIONS_SHOWN]
            ],
        )
        if len(found.violations) > _MAX_VIOLATIONS_SHOWN:
            print_text(
                f"and {len(found.violations) - _MAX_VIOLATIONS_SHOWN} more; see them with --json"
            )
    print_text("")
    print_table(
        ["what happened", "times"],
        [(words, f"{getattr(found, name):,}") for name, words in _COUNT_TEXTS.items()],
    )


def _to_nights_json(
    found: NightTally, *, nights: int, injected: frozenset[InjectedFault], tenants: int
) -> Json:
    from stoker.simulation.invariants import Invariant

    return {
        "nights": nights,
        "tenants": tenants,
        "injected": sorted(injected),
        "counts": {name: getattr(found, name) for name in _COUNT_TEXTS},
        "broken": {
            each.name: sum(breach.invariant is each for breach in found.violations)
            for each in Invariant
        },
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
