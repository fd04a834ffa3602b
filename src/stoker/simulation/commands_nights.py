"""stoker simulate nights: the product's planners on a virtual clock, with things going wrong.

Says which promises broke, whose and on which night. Nothing is read, written or asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stoker.cli.output import Exit, say, show_json, show_table, takes_json

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.simulation.faults import Trouble
    from stoker.simulation.nights import Tally

_SHOWN = 20

_COUNTED = {
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
@takes_json
def nights(nights: int, inject: str, accounts: int, seed: int, as_json: bool) -> Exit:
    """Rehearse nights and pulls with things going wrong; say which promises broke, and when.

    Exit code 1: a promise broke.
    """
    from stoker.simulation.faults import places, troubles
    from stoker.simulation.nights import Order, rehearsed

    injected = troubles(inject)
    tenants = len(places(injected))
    begun = 0

    def told() -> None:
        nonlocal begun
        begun += 1
        if sys.stderr.isatty():
            click.echo(f"\rnight {begun} of {nights * tenants}", nl=False, err=True)

    order = Order(
        accounts=accounts,
        units=max(accounts // 2, 10),
        credits=max(accounts // 13, 1),
        companies=max(accounts // 33, 1),
    )
    found = rehearsed(nights=nights, injected=injected, order=order, seed=seed, told=told)
    if sys.stderr.isatty():
        click.echo("\r" + " " * 40 + "\r", nl=False, err=True)
    if as_json:
        show_json(_json(found, nights=nights, injected=injected, tenants=tenants))
    else:
        _show(found, nights=nights, injected=injected, tenants=tenants)
    return Exit.PROBLEMS if found.breaches else Exit.OK


def _show(found: Tally, *, nights: int, injected: frozenset[Trouble], tenants: int) -> None:
    from stoker.simulation.invariants import Promise

    wrong = ", ".join(sorted(injected)) or "nothing"
    say(f"{nights} nights of {tenants} tenants; going wrong: {wrong}\n")
    show_table(
        ["promise", "broken"],
        [
            (each.value, sum(breach.promise is each for breach in found.breaches))
            for each in Promise
        ],
    )
    if found.breaches:
        say("")
        show_table(
            ["night", "tenant", "day", "promise", "what happened"],
            [
                (each.night, each.tenant, each.day.isoformat(), each.promise.value, each.sentence)
                for each in found.breaches[:_SHOWN]
            ],
        )
        if len(found.breaches) > _SHOWN:
            say(f"and {len(found.breaches) - _SHOWN} more; see them with --json")
    say("")
    show_table(
        ["what happened", "times"],
        [(words, f"{getattr(found, name):,}") for name, words in _COUNTED.items()],
    )


def _json(found: Tally, *, nights: int, injected: frozenset[Trouble], tenants: int) -> Json:
    from stoker.simulation.invariants import Promise

    return {
        "nights": nights,
        "tenants": tenants,
        "injected": sorted(injected),
        "counts": {name: getattr(found, name) for name in _COUNTED},
        "broken": {
            each.name: sum(breach.promise is each for breach in found.breaches) for each in Promise
        },
        "breaches": [
            {
                "promise": each.promise.name,
                "tenant": each.tenant,
                "night": each.night,
                "day": each.day.isoformat(),
                "sentence": each.sentence,
            }
            for each in found.breaches
        ],
    }
