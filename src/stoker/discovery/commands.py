"""`stoker discover`: read a tenant's sources of postings now, or when its schedule says so.

What a discovery does is the engine's business; here is who, whether now, and how it is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, StokerError
from stoker.cli.options import choose_active_tenants, tenants_option
from stoker.cli.output import (
    Exit,
    choose_exit,
    json_option,
    pass_context,
    print_error,
    print_json,
    print_table,
    print_text,
    run_async,
)

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.runs.model import Run

_COLUMNS = ("listed", "new", "gone", "twins", "rejected")

_TOTALS = ("kept", "enriched", "scored", "matched", "employers_matched", "signals")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverOptions:
    """What a person asks of a discovery."""

    enrich: bool = False
    scheduled: bool = False
    writes: bool = True
    out: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryReport:
    """One discovery, as it is told."""

    tenant: TenantId
    run: Run
    files: tuple[Path, ...]


@click.command()
@tenants_option
@click.option("--enrich", is_flag=True, help="Also say what each posting is, and how good.")
@click.option(
    "--schedule", "scheduled", is_flag=True, help="Only what is due by the schedule, once each."
)
@click.option("--summary-only", is_flag=True, help="Print the summary and write no file.")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where files go. Default: discovery.out.",
)
@json_option
@pass_context
def discover(
    asked: CommandContext,
    tenants: tuple[str, ...],
    enrich: bool,
    scheduled: bool,
    summary_only: bool,
    out: Path | None,
    as_json: bool,
) -> Exit:
    """Read job boards, feeds and files; keep, export and match what they list.

    Without --tenant, every active tenant that has sources (discovery.sources). Writes
    jobs_discovered_RUN.csv, and with --enrich jobs_enriched_RUN.json and jobs_scored_RUN.csv too.
    A source that fails is told of and the others go on; the exit code says how the runs ended.
    """
    if summary_only and out is not None:
        raise ConfigError(
            "--summary-only writes no file, so there is none for --out; leave one out"
        )
    wish = DiscoverOptions(enrich=enrich, scheduled=scheduled, writes=not summary_only, out=out)
    return run_async(_run_discoveries(asked, tenants, wish, as_json=as_json))


async def _run_discoveries(
    asked: CommandContext, named: tuple[str, ...], wish: DiscoverOptions, *, as_json: bool
) -> Exit:
    async with asked.open_app() as app:
        chosen = choose_participants(app, named, wish)
        done, failed = await run_discoveries(app, chosen, wish)
        waits = [] if done or failed else [await _format_next_due(app, tenant) for tenant in chosen]
    if as_json:
        rows: list[Json] = [to_discovery_json(each) for each in done]
        print_json(rows)
    else:
        for each in done:
            print_discovery(each)
        for line in waits:
            print_text(line)
    for tenant, error in failed:
        print_error(f"{tenant}: {error}")
    return choose_exit([each.run.state for each in done], [error for _, error in failed])


def choose_participants(
    app: App, named: tuple[str, ...], wish: DiscoverOptions
) -> tuple[TenantId, ...]:
    """Return whose sources are read. Raises ConfigError when nobody's can be."""
    chosen = choose_active_tenants(app.settings, named)
    own = {tenant: app.settings.for_tenant(tenant) for tenant in chosen}
    ready = tuple(tenant for tenant in chosen if own[tenant].discovery.sources)
    if (named and len(ready) < len(chosen)) or not ready:
        lacks = next(tenant for tenant in chosen if tenant not in ready)
        raise ConfigError(
            f"{lacks} has no source of postings; set discovery.sources, "
            'e.g. ["greenhouse:acme", "feed:https://acme.com/jobs.rss"], and try one with: '
            "stoker sources test greenhouse:acme"
        )
    off = [tenant for tenant in ready if not own[tenant].scheduling.enabled]
    if wish.scheduled and off:
        raise ConfigError(
            f"scheduling.enabled is false for {off[0]} "
            f"({own[off[0]].get_origin('scheduling.enabled')})"
            "; switch it on, or leave --schedule out"
        )
    return ready


async def run_discoveries(
    app: App, tenants: tuple[TenantId, ...], wish: DiscoverOptions
) -> tuple[list[DiscoveryReport], list[tuple[TenantId, StokerError]]]:
    """Carry out discoveries side by side; return how they went, and whose did not begin."""

    from stoker.runs.parallel import run_for_tenants

    async def run_tenant(tenant: TenantId) -> list[DiscoveryReport]:
        files = app.get_posting_files(tenant, out=wish.out) if wish.writes else None
        # A setting that is on stays on: the flag only adds to it.
        discovery = app.build_discovery_run(tenant, files=files, enrich=wish.enrich or None)
        if wish.scheduled:
            runs = await app.build_scheduler(()).run_task(app.build_task(tenant, discovery))
        else:
            runs = [await app.run_now(tenant, discovery)]
        return [
            DiscoveryReport(
                tenant=tenant, run=run, files=files.list_existing(run.name) if files else ()
            )
            for run in runs
        ]

    done, failed = await run_for_tenants(
        tenants, run_tenant, concurrency=app.settings.scheduling.tenant_concurrency
    )
    return [report for reports in done for report in reports], failed


async def _format_next_due(app: App, tenant: TenantId) -> str:
    from stoker.calendar.recurrence import list_upcoming

    task = app.build_task(tenant, app.build_discovery_run(tenant, files=None))
    now = app.clock.now()
    last = await app.backend.tenant(tenant).schedule.find_last_result(task.name, until=now)
    [due] = list_upcoming(now, task.schedule, 1, last=last.due_at if last else None)
    return f"{tenant}: nothing is due; next at {due:%Y-%m-%d %H:%M} UTC"


def print_discovery(told: DiscoveryReport) -> None:
    """Print one discovery: its sources as a table, what became of them, what to look at."""
    from stoker.discovery.report import parse_source_counts

    run, counts = told.run, told.run.manifest.counts
    why = f" – {run.reason}" if run.reason else ""
    print_text(f"{told.tenant}: discovery {run.name} {run.state.value}{why}")
    seconds = {timing.step: timing.seconds for timing in run.manifest.sources}
    print_table(
        ["source", "", *_COLUMNS, "seconds"],
        [
            (name, each["state"], *(each[column] for column in _COLUMNS), f"{seconds[name]:.1f}")
            for name, each in parse_source_counts(counts).items()
            if name in seconds
        ],
        empty="no source was read",
    )
    said = f"{counts.get('kept', 0)} postings kept"
    if counts.get("scored"):
        said += f", {counts['scored']} enriched and scored"
    if counts.get("matched"):
        accounts = counts["employers_matched"]
        said += (
            f"; {counts['matched']} are of {accounts} account{'' if accounts == 1 else 's'}, "
            f"{counts['signals']} new signals"
        )
    print_text(said)
    for reason in run.manifest.reasons:
        print_text(f"  {reason}")
    for path in told.files:
        print_text(f"  wrote {path}")


def to_discovery_json(told: DiscoveryReport) -> Json:
    """Return one discovery as JSON."""
    from stoker.discovery.report import parse_source_counts

    run, counts = told.run, told.run.manifest.counts
    seconds = {timing.step: timing.seconds for timing in run.manifest.sources}
    return {
        "tenant": told.tenant,
        "run": run.name,
        "state": run.state.value,
        "reason": run.reason,
        "sources": [
            {"name": name, **each, "seconds": seconds.get(name, 0.0)}
            for name, each in parse_source_counts(counts).items()
        ],
        **{name: counts.get(name, 0) for name in _TOTALS},
        "reasons": list(run.manifest.reasons),
        "files": [str(path) for path in told.files],
    }
