"""`stoker sandbox`: the make-believe internet on a port of this machine, until Ctrl-C.

Prints where it is and what to set so that Stoker talks to it, then a line now and then. What is
behind the port is the sandbox's business.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.output import Exit, say, takes_json, when_told_to_stop

if TYPE_CHECKING:
    from stoker.sandbox.server import Sandbox

_LOOK = 0.2  # seconds between looks at the counters


@click.group()
def sandbox() -> None:
    """Serve a make-believe internet on this machine: company sites and vendors."""


@sandbox.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8099,
    show_default=True,
    help="Listen there, on loopback only; 0 takes any free port.",
)
@click.option(
    "--companies",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="How many companies there are.",
)
@click.option("--seed", default=1, show_default=True, help="The same seed is the same world.")
@click.option(
    "--dial",
    "dials",
    multiple=True,
    metavar="VENDOR.DIAL=VALUE",
    help="Turn a dial, e.g. tavily.latency=200ms or sites.fault.reset=0.01. May be repeated.",
)
@click.option(
    "--every",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Say how things stand after every N requests.",
)
@takes_json
def serve(
    port: int, companies: int, seed: int, dials: tuple[str, ...], every: int, as_json: bool
) -> Exit:
    """Serve until Ctrl-C or SIGTERM. http://sandbox.test/ says what can be asked and turned."""
    return asyncio.run(
        _serve(port, companies, seed, dict(map(_turned, dials)), every=every, as_json=as_json)
    )


def _turned(dial: str) -> tuple[str, str]:
    name, equals, value = dial.partition("=")
    if not equals:
        raise click.BadParameter("give it as VENDOR.DIAL=VALUE", param_hint="--dial")
    return name.strip(), value.strip()


async def _serve(
    port: int, companies: int, seed: int, dials: dict[str, str], *, every: int, as_json: bool
) -> Exit:
    from stoker.sandbox.server import Sandbox

    box = Sandbox(seed=seed, companies=companies, dials=dials, port=port)
    stopping = asyncio.Event()
    when_told_to_stop(stopping.set)
    try:
        await box.__aenter__()
    except OSError as error:
        # The event loop's own words repeat the address; the system's say why.
        why = os.strerror(error.errno) if error.errno else "the system does not say why"
        raise ConfigError(
            f"port {port} cannot be listened on ({why}); choose another with --port"
        ) from error
    try:
        _open(box, as_json=as_json)
        await _until(stopping, box, every=every, as_json=as_json)
        _tell("ended", box, as_json=as_json)
    finally:
        await box.__aexit__()
    return Exit.OK


async def _until(stopping: asyncio.Event, box: Sandbox, *, every: int, as_json: bool) -> None:
    told = 0
    while not stopping.is_set():
        if box.tallies.requests // every > told // every:
            told = box.tallies.requests
            _tell("so far", box, as_json=as_json)
        try:
            await asyncio.wait_for(stopping.wait(), _LOOK)
        except TimeoutError:
            continue


def _open(box: Sandbox, *, as_json: bool) -> None:
    from stoker.sandbox.server import VENDORS

    if as_json:
        _line({"said": "serving", "address": box.address, "hosts": sorted(VENDORS)})
        return
    first = box.world.company(0)
    say(f"A make-believe internet of {box.world.size:,} companies is at {box.address}.")
    say("Names ending in .test are served there. With this, all vendors are make-believe:")
    say(f"  STOKER_SANDBOX_ADDRESS={box.address} stoker connector test")
    say(f"There are {', '.join(sorted(VENDORS))}.")
    say(f"Every company has its own site too, e.g. http://{first.domain}. Try:")
    say(f"  curl -H 'Host: sandbox.test' http://{box.address}/")
    say(f"  curl -H 'Host: {first.domain}' http://{box.address}/")
    say("Ctrl-C ends it.")


def _tell(what: str, box: Sandbox, *, as_json: bool) -> None:
    tallies = box.tallies
    if as_json:
        _line(
            {
                "said": what,
                "requests": tallies.requests,
                "by_host": dict(tallies.by_host),
                "charges": tallies.charges,
            }
        )
        return
    charged = ", ".join(
        f"{vendor} {amount:,} {unit}"
        for vendor, units in sorted(tallies.charges.items())
        for unit, amount in sorted(units.items())
    )
    say(f"{what}: {tallies.requests:,} requests; charged: {charged or 'nothing'}")


def _line(value: dict[str, object]) -> None:
    # One document a line, so that a program can read along.
    click.echo(json.dumps(value, ensure_ascii=True))
