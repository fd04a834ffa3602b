"""`stoker sandbox`: serve the fake internet on a local port, until Ctrl-C.

Prints its address and how Stoker uses it, then a line of counts now and then.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import SEED
from stoker.cli.output import Exit, json_option, on_stop_signal, print_text

if TYPE_CHECKING:
    from stoker.sandbox.server import Sandbox

_POLL_SECONDS = 0.2  # seconds between reads of the counters


@click.group()
def sandbox() -> None:
    """Serve a fake internet on this machine: company sites and vendors."""


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
    type=click.IntRange(1, 1_000_000_000),
    default=1000,
    show_default=True,
    help="How many companies there are.",
)
@click.option(
    "--seed",
    type=SEED,
    metavar="N",
    default=1,
    show_default=True,
    help="The same seed gives the same world.",
)
@click.option(
    "--dial",
    "dials",
    multiple=True,
    metavar="VENDOR.DIAL=VALUE",
    help="Change a fault setting, e.g. tavily.latency=200ms. May be repeated.",
)
@click.option(
    "--every",
    type=click.IntRange(1, 1_000_000_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="Print counts after every N requests.",
)
@json_option
def serve(
    port: int, companies: int, seed: int, dials: tuple[str, ...], every: int, as_json: bool
) -> Exit:
    """Serve until Ctrl-C or SIGTERM. http://sandbox.test/ lists its pages and fault settings."""
    return asyncio.run(
        _run_server(
            port,
            companies,
            seed,
            dict(map(_parse_fault_setting, dials)),
            every=every,
            as_json=as_json,
        )
    )


def _parse_fault_setting(dial: str) -> tuple[str, str]:
    name, equals, value = dial.partition("=")
    if not equals:
        raise click.BadParameter("give it as VENDOR.DIAL=VALUE", param_hint="--dial")
    return name.strip(), value.strip()


async def _run_server(
    port: int, companies: int, seed: int, dials: dict[str, str], *, every: int, as_json: bool
) -> Exit:
    from stoker.sandbox.server import Sandbox

    box = Sandbox(seed=seed, companies=companies, dials=dials, port=port)
    stopping = asyncio.Event()
    on_stop_signal(stopping.set)
    try:
        await box.__aenter__()
    except OSError as error:
        # The event loop's message repeats the address; the system's says why.
        why = os.strerror(error.errno) if error.errno else "the system does not say why"
        raise ConfigError(
            f"port {port} cannot be listened on ({why}); choose another with --port"
        ) from error
    try:
        _print_start(box, as_json=as_json)
        await _wait_for_stop(stopping, box, every=every, as_json=as_json)
        _print_usage("ended", box, as_json=as_json)
    finally:
        await box.__aexit__()
    return Exit.OK


async def _wait_for_stop(
    stopping: asyncio.Event, box: Sandbox, *, every: int, as_json: bool
) -> None:
    printed = 0
    while not stopping.is_set():
        if box.meter.requests // every > printed // every:
            printed = box.meter.requests
            _print_usage("so far", box, as_json=as_json)
        try:
            await asyncio.wait_for(stopping.wait(), _POLL_SECONDS)
        except TimeoutError:
            continue


def _print_start(box: Sandbox, *, as_json: bool) -> None:
    from stoker.sandbox.server import HANDLERS

    if as_json:
        _print_line({"said": "serving", "address": box.address, "hosts": sorted(HANDLERS)})
        return
    first = box.world.get_company(0)
    print_text(f"A fake internet of {box.world.size:,} companies is at {box.address}.")
    print_text("It serves all hosts ending in .test. To use its fake vendors:")
    print_text(f"  STOKER_SANDBOX_ADDRESS={box.address} stoker connectors test")
    print_text(f"Hosts: {', '.join(sorted(HANDLERS))}.")
    print_text(f"Every company has its own website, e.g. http://{first.domain}. Try:")
    print_text(f"  curl -H 'Host: sandbox.test' http://{box.address}/")
    print_text(f"  curl -H 'Host: {first.domain}' http://{box.address}/")
    print_text("Ctrl-C ends it.")


def _print_usage(what: str, box: Sandbox, *, as_json: bool) -> None:
    tallies = box.meter
    if as_json:
        _print_line(
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
    print_text(f"{what}: {tallies.requests:,} requests; charged: {charged or 'nothing'}")


def _print_line(value: dict[str, object]) -> None:
    # One document a line, so that a program can read along.
    click.echo(json.dumps(value, ensure_ascii=True))
