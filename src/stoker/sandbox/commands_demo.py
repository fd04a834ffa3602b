"""`stoker demo`: a whole nightly run on a fake internet, with no keys, no network and no set-up.

Two tenants, the production code, and a sandbox in a process of its own. Everything shown is read
from the store or from the vendors' own counters.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.accounts.icp import IcpRule
from stoker.base.errors import ConfigError, TransientError
from stoker.base.types import TenantId
from stoker.cli.output import (
    Exit,
    json_option,
    print_error,
    print_json,
    print_table,
    print_text,
    run_async,
)
from stoker.files.durable import open_output
from stoker.vendors.table import VENDOR_SECTIONS

if TYPE_CHECKING:
    from stoker.accounts.model import CompanyRecord
    from stoker.base.types import Json
    from stoker.context import Context
    from stoker.discovery.service import DiscoveryReport
    from stoker.nightly.commands_report import NightReport
    from stoker.settings import Settings

COMPANIES, SEED = 1000, 45  # of a world without sites that ask for half a minute between pages

COMPANIES_PER_TENANT = 100

BOARDS_PER_TENANT = 2  # of each kind that are read for openings

TENANT_RULES: Mapping[TenantId, IcpRule] = {
    TenantId("merlion"): IcpRule(),
    TenantId("hudson"): IcpRule(
        industries=("64", "65", "66", "69", "70", "71", "72", "73", "74"),
        employees=(2, 500),
        years=(1990, 2025),
    ),
}

DISCOVERY_TENANT = TenantId("merlion")  # whose accounts' job boards are read

SETTINGS = """\
# Written by `stoker demo`. Two tenants; all vendors and all sites are fake.
[sandbox]
address = "{address}"

[scheduling]
company_concurrency = 40
daily_cap_per_tenant = {each}

[crawl]
concurrency = 120
timeout_s = 3                 # some sites hang on purpose

[caps]                        # small enough that the run reaches some of them
openai_daily_tokens = 600000
tavily_queries = 90
lusha_contact_lookups = 40
{paces}
[tenants.merlion]
name = "Merlion Analytics"

[tenants.merlion.discovery]   # who hires: job boards and a feed of companies in the register
sources = {sources}

[tenants.hudson]
name = "Hudson Revenue"
timezone = "America/New_York"
"""

# Faster than real vendors allow, so that the demo takes less than a minute.
_RATE_SETTINGS = "".join(
    f"\n[{vendor}]\ncalls = 100000\nburst = 1000\nconcurrency = 100\n" for vendor in VENDOR_SECTIONS
)

_FAULT_SETTINGS = {
    "zerobounce.calls": "1000000",
    "tavily.latency": "120ms",
    "openai.latency": "400ms",
    "lusha.latency": "120ms",
    "zerobounce.latency": "300ms",
    "sites.latency": "30ms",
}

_REGISTER_DATE = "2025-12-31"


@click.command()
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep settings and database in this new directory.",
)
@json_option
def demo(keep: Path | None, as_json: bool) -> Exit:
    """Research 200 companies for two tenants on a fake internet; no keys, no network."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise click.UsageError(f"{keep} is not empty; name a new directory")
        return _run_in_directory(keep, kept=True, as_json=as_json)
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as directory:
        return _run_in_directory(Path(directory), kept=False, as_json=as_json)


def _run_in_directory(directory: Path, *, kept: bool, as_json: bool) -> Exit:
    from stoker import app as wiring

    with serve_sandbox() as address:
        sources = json.dumps(_list_sources(), indent=4)
        text = SETTINGS.format(
            address=address, each=COMPANIES_PER_TENANT, paces=_RATE_SETTINGS, sources=sources
        )
        with open_output(directory / wiring.CONFIG_FILE, private=True) as stream:
            stream.write(text.encode())
        # Only the demo's own file counts: the environment is for real work.
        settings = wiring.read_settings(directory=directory, config=None, flags={}, environment={})
        return run_async(_run_demo(settings, directory if kept else None, as_json=as_json))


def _list_sources() -> list[str]:
    """Return the job boards of a few companies of the fake world."""
    from stoker.sandbox.world.companies import World

    world = World(seed=SEED, size=COMPANIES)
    live = [each for at in range(COMPANIES) if (each := world.get_company(at)).live]
    boards = [
        f"{each.board}:{each.slug} | {each.name}"
        for vendor in ("greenhouse", "lever", "ashby")
        for each in [each for each in live if each.board == vendor][:BOARDS_PER_TENANT]
    ]
    feed = next(each for each in live if each.board)
    return [*boards, f"feed:http://feeds.test/{feed.slug}/jobs.rss | {feed.brand}"]


@contextmanager
def serve_sandbox() -> Iterator[str]:
    """Serve the fake internet from a process of its own; yield its address."""
    words = ["sandbox", "serve", "--port", "0", "--companies", str(COMPANIES)]
    words += ["--seed", str(SEED), "--json"]
    for dial, value in _FAULT_SETTINGS.items():
        words += ["--dial", f"{dial}={value}"]
    serving = subprocess.Popen(  # noqa: S603 - our own program, our own words
        [sys.executable, "-m", "stoker.cli.main", *words], stdout=subprocess.PIPE
    )
    try:
        yield _read_address(serving)
    finally:
        serving.terminate()
        serving.communicate()


def _read_address(serving: subprocess.Popen[bytes]) -> str:
    first = serving.stdout.readline() if serving.stdout else b""
    try:
        return str(json.loads(first)["address"])
    except (ValueError, KeyError, TypeError):
        raise TransientError("the sandbox did not start; try: stoker sandbox serve") from None


async def _run_demo(settings: Settings, kept: Path | None, *, as_json: bool) -> Exit:
    from stoker import app as wiring
    from stoker.base.types import Step
    from stoker.discovery.commands import print_discovery
    from stoker.discovery.service import DiscoverOptions, run_discoveries
    from stoker.nightly.commands import NightlyWish, run_nights
    from stoker.nightly.progress import ProgressDisplay

    began = time.monotonic()
    async with wiring.open_app(settings, observer=_ignore_event) as app:
        registered = await _set_up_tenants(app)
        if not as_json:
            _print_start(settings, registered)
        with ProgressDisplay(sys.stderr, otherwise=_ignore_event) as live:
            done, failed = await run_nights(
                app,
                tuple(TENANT_RULES),
                NightlyWish(limit=COMPANIES_PER_TENANT, steps=tuple(Step)).build_night,
                observer=live,
            )
        charged = await _read_charges(app)
        took = time.monotonic() - began
        hiring, away = await run_discoveries(
            app, (DISCOVERY_TENANT,), DiscoverOptions(enrich=True, summary_only=not kept)
        )
    for _, error in [*failed, *away]:
        raise error
    if as_json:
        print_json(_to_demo_json(done, charged, hiring, took=took))
    else:
        _print_result(done, charged, took=took)
        print_text("\nWho is hiring, from their job boards:")
        for each in hiring:
            print_discovery(each)
        _print_next_steps(kept, done, settings)
    return Exit.OK  # the demo reaches its caps on purpose


async def _set_up_tenants(app: Context) -> int:
    """Load the fake register and save each tenant's ICP rule; return the register's size."""
    from stoker.registry.service import ImportOptions, RegistryImport

    register = RegistryImport(
        app=app,
        options=ImportOptions(release=_REGISTER_DATE),
        on_refusal=print_error,
        observer=app.observer,
    )
    await register.read_files(["http://sandbox.test/registry.csv"], directory=Path())
    if not register.read:
        raise ConfigError("the fake register could not be read; see the errors above")
    for tenant, rule in TENANT_RULES.items():
        await app.backend.tenant(tenant).accounts.save_rule(rule)
    return sum(each.load.count.rows_read for each in register.read)


async def _read_charges(app: Context) -> dict[str, dict[str, int]]:
    """Ask the sandbox what its vendors charged, by their own counters."""
    from datetime import timedelta

    from stoker.http.client import Request, build_http_client

    reply = await app.get(build_http_client).send(
        Request(method="GET", url="http://sandbox.test/charges", deadline=timedelta(seconds=10))
    )
    total: dict[str, dict[str, int]] = json.loads(reply.body)["total"]
    return total


def _print_start(settings: Settings, registered: int) -> None:
    print_text(f"A fake internet is running: {registered} registered companies with websites,")
    print_text("a search engine, an LLM, a contact database, an email verifier and two CRMs.")
    names = " and ".join(each.name for each in settings.tenants)
    print_text(f"Now {names} research {COMPANIES_PER_TENANT} companies each …\n")


def _print_result(
    done: list[NightReport], charged: Mapping[str, Mapping[str, int]], *, took: float
) -> None:
    from stoker.nightly.commands_report import print_night

    for report in done:
        print_night(report)
    rows = [
        (
            f"{record.score.value:.2f}",
            report.tenant,
            record.company.name,
            _get_email(record),
        )
        for report in done
        for record in report.top_leads
        if record.score
    ]
    print_table(["score", "tenant", "company", "email"], rows, empty="no leads")
    for record in done[0].top_leads[:1]:
        print_text(f"\nWhy the first one? {record.score.rationale if record.score else ''}")
    ours, theirs = (
        _count_credits(done),
        {name: each.get("credits", 0) for name, each in charged.items()},
    )
    amounts = ", ".join(f"{name} {ours[name]}" for name in ours)
    agree = all(theirs.get(name, 0) == amount for name, amount in ours.items())
    print_text(
        f"\nCredits in our ledger: {amounts}; the vendors' own counters "
        f"{'match' if agree else f'differ: {theirs}'}."
    )
    print_text(
        f"{sum(len(each.run.manifest.selected) for each in done)} companies in {took:.0f} s."
    )


def _count_credits(done: list[NightReport]) -> dict[str, int]:
    found: dict[str, int] = {}
    for report in done:
        for name, amount in report.run.manifest.cost.items():
            connector, _, unit = name.partition("/")
            if unit == "credits":
                found[connector] = found.get(connector, 0) + amount
    return found


def _get_email(record: CompanyRecord) -> str:
    from stoker.accounts.contacts import choose_best_contact, get_usable_email

    contact = choose_best_contact(record)
    return get_usable_email(contact) if contact else ""


def _print_next_steps(kept: Path | None, done: list[NightReport], settings: Settings) -> None:
    if kept is None:
        print_text("\nNothing was kept. To keep the database and explore it:")
        print_text("  stoker demo --keep demo-out")
        print_text("To start with your own tenants:")
        print_text("  stoker init && stoker doctor && stoker tenants add acme")
        return
    report = done[0]
    company = (
        report.top_leads[0].company.id if report.top_leads else report.run.manifest.selected[0]
    )
    print_text(f"\nExplore {kept}:")
    for command in (
        f"why {report.tenant}/{company}",
        "leads --limit 10",
        f"runs show {report.run.name} --tenant {report.tenant}",
        f"sources list --tenant {DISCOVERY_TENANT}",
        "caps list",
        "ledger verify",
    ):
        print_text(f"  stoker -C {kept} {command}")
    port = (settings.sandbox.address or "").rpartition(":")[2]
    print_text("To continue the run, start the fake vendors again in another terminal:")
    print_text(f"  stoker sandbox serve --port {port} --companies {COMPANIES} --seed {SEED}")
    print_text(f"  stoker -C {kept} nightly")


def _to_demo_json(
    done: list[NightReport],
    charged: Mapping[str, Mapping[str, int]],
    hiring: list[DiscoveryReport],
    *,
    took: float,
) -> Json:
    from stoker.discovery.commands import to_discovery_json as discovered_json
    from stoker.nightly.commands_report import to_night_json

    return {
        "seconds": round(took, 1),
        "nights": [to_night_json(each) for each in done],
        "discoveries": [discovered_json(each) for each in hiring],
        "charged": {vendor: dict(units) for vendor, units in charged.items()},
    }


def _ignore_event(_: object) -> None:
    """Drop an event: the demo prints its own report."""
