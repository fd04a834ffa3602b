"""`stoker discover` reads tenants' sources of postings; `stoker sources` lists and tests them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count
from stoker.cli.options import (
    aliased_option,
    choose_active_tenants,
    choose_tenant,
    tenant_option,
    tenants_option,
)
from stoker.cli.output import (
    Exit,
    async_command,
    choose_exit,
    json_option,
    pass_context,
    print_error,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.context import Context
    from stoker.discovery.service import DiscoverOptions, DiscoveryReport
    from stoker.discovery.sources import SourceRecord, SourceSpec

_NO_SOURCES = (
    "no source is set; set discovery.sources, and try one with: stoker sources test KIND:PLACE"
)

_COLUMNS = {
    "listed": "found",
    "new": "new",
    "gone": "closed",
    "twins": "duplicate",
    "rejected": "invalid",
}

_TOTALS = ("kept", "enriched", "scored", "matched", "employers_matched", "signals")


@click.command()
@tenants_option
@click.option("--enrich", is_flag=True, help="Also enrich and score postings.")
@click.option("--schedule", "scheduled", is_flag=True, help="Only what is due by the schedule.")
@click.option(
    "--summary-only", is_flag=True, help="Write no postings; with --out, the summary alone."
)
@click.option("--all-columns", is_flag=True, help="Write ids, times and parts of scores too.")
@aliased_option(
    "--out",
    aliases=["--out-dir"],
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where files go. Default: discovery.out.",
)
@json_option
@pass_context
@async_command
async def discover(
    asked: CommandContext,
    tenants: tuple[str, ...],
    enrich: bool,
    scheduled: bool,
    summary_only: bool,
    all_columns: bool,
    out: Path | None,
    as_json: bool,
) -> Exit:
    """Read job boards, feeds and files; store, export and match their postings.

    Without --tenant, every active tenant that has sources (discovery.sources). Writes
    jobs_discovered_RUN.csv and jobs_discovered_RUN.summary.json, and with --enrich
    jobs_enriched_RUN.json and jobs_scored_RUN.csv. A source that fails does not stop the others;
    the exit code tells how the runs ended.
    """
    from stoker.discovery.service import DiscoverOptions, run_discoveries

    options = DiscoverOptions(
        enrich=enrich,
        scheduled=scheduled,
        summary_only=summary_only,
        all_columns=all_columns,
        out=out,
    )
    async with asked.open_app() as app:
        chosen = _choose_participants(app, tenants, options)
        done, failed = await run_discoveries(app, chosen, options)
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


def _choose_participants(
    app: Context, named: tuple[str, ...], options: DiscoverOptions
) -> tuple[TenantId, ...]:
    """Return the tenants whose sources are read. Raises ConfigError when there are none."""
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
    if options.scheduled and off:
        raise ConfigError(
            f"scheduling.enabled is false for {off[0]} "
            f"({own[off[0]].get_origin('scheduling.enabled')})"
            "; switch it on, or leave --schedule out"
        )
    return ready


async def _format_next_due(app: Context, tenant: TenantId) -> str:
    from stoker.calendar.recurrence import list_upcoming
    from stoker.discovery.service import build_discovery_run
    from stoker.scheduling.service import build_task

    task = build_task(
        app.for_tenant(tenant), build_discovery_run(app.for_tenant(tenant), files=None)
    )
    now = app.clock.now()
    last = await app.backend.tenant(tenant).schedule.find_last_result(task.name, until=now)
    [due] = list_upcoming(now, task.schedule, 1, last=last.due_at if last else None)
    return f"{tenant}: nothing is due; next at {due:%Y-%m-%d %H:%M} UTC"


def print_discovery(report: DiscoveryReport) -> None:
    """Print one discovery: its sources as a table, what became of them, what to look at."""
    from stoker.discovery.sources import parse_source_counts

    run, counts = report.run, report.run.manifest.counts
    why = f" – {run.reason}" if run.reason else ""
    print_text(f"{report.tenant}: discovery {run.name} {run.state.value}{why}")
    seconds = {timing.step: timing.seconds for timing in run.manifest.sources}
    print_table(
        ["source", "", *_COLUMNS.values(), "seconds"],
        [
            (name, each["state"], *(each[column] for column in _COLUMNS), f"{seconds[name]:.1f}")
            for name, each in parse_source_counts(counts).items()
            if name in seconds
        ],
        empty="No source was read.",
    )
    summary = f"{format_count(counts.get('kept', 0), 'posting')} saved"
    if counts.get("scored"):
        summary += f", {counts['scored']} scored"
    if counts.get("matched"):
        accounts = format_count(counts["employers_matched"], "account")
        signals = format_count(counts["signals"], "new signal")
        summary += f"; {counts['matched']} belong to {accounts} ({signals})"
    print_text(summary)
    for reason in run.manifest.reasons:
        print_text(f"  {reason}")
    for path in report.files:
        print_text(f"  wrote {path}")


def to_discovery_json(report: DiscoveryReport) -> Json:
    """Return one discovery as JSON."""
    from stoker.discovery.sources import parse_source_counts

    run, counts = report.run, report.run.manifest.counts
    seconds = {timing.step: timing.seconds for timing in run.manifest.sources}
    return {
        "tenant": report.tenant,
        "run": run.name,
        "state": run.state.value,
        "reason": run.reason,
        "sources": [
            {"name": name, **each, "seconds": seconds.get(name, 0.0)}
            for name, each in parse_source_counts(counts).items()
        ],
        **{name: counts.get(name, 0) for name in _TOTALS},
        "reasons": list(run.manifest.reasons),
        "files": [str(path) for path in report.files],
    }


@click.group()
def sources() -> None:
    """List sources of postings; test whether each can be read."""


@sources.command("list")
@tenant_option
@json_option
@pass_context
@async_command
async def list_sources(asked: CommandContext, tenant: str | None, as_json: bool) -> None:
    """List a tenant's sources and the result of the last read. Reads no source."""
    from stoker.discovery.sources import build_display_names

    async with asked.open_app(only_to_read=True) as app:
        chosen = choose_tenant(app.settings, tenant)
        seen = {
            each.name: each for each in await app.backend.tenant(chosen).listings.list_sources()
        }
        wanted = app.settings.for_tenant(chosen).discovery.sources
        lines = [(source, seen.get(source.name)) for source in wanted]
    shown = build_display_names(source for source, _ in lines)
    if as_json:
        print_json([_to_source_json(source, seen, shown[source.name]) for source, seen in lines])
        return
    print_table(
        ["source", "company", "domain", "last read", "read at (utc)", "postings", "why"],
        [
            (
                shown[source.name],
                source.company,
                source.domain,
                seen.state.value if seen else "never read",
                f"{seen.read_at:%Y-%m-%d %H:%M}" if seen and seen.read_at else "never",
                seen.listed if seen else 0,
                seen.reason if seen else "",
            )
            for source, seen in lines
        ],
        empty=_NO_SOURCES,
    )


def _to_source_json(source: SourceSpec, seen: SourceRecord | None, shown: str) -> Json:
    return {
        "name": shown,
        "kind": source.kind.value,
        "place": source.display_name.partition(":")[2],
        "company": source.company,
        "domain": source.domain,
        "state": seen.state.value if seen else None,
        "tried_at": seen.tried_at.isoformat() if seen else None,
        "read_at": seen.read_at.isoformat() if seen and seen.read_at else None,
        "postings": seen.listed if seen else 0,
        "conditional": bool(seen and (seen.validators.etag or seen.validators.last_modified)),
        "because": seen.reason if seen else "",
    }


@sources.command("test")
@click.argument("names", nargs=-1, metavar="[SOURCE]...")
@tenant_option
@json_option
@pass_context
@async_command
async def try_sources(
    asked: CommandContext, names: tuple[str, ...], tenant: str | None, as_json: bool
) -> Exit:
    """Read sources once and store nothing.

    SOURCE is KIND:PLACE, e.g. greenhouse:acme; without one, all configured sources. Exit code 1
    when one cannot be read.
    """
    from stoker.discovery import service

    async with asked.open_app(only_to_read=True) as app:
        chosen = choose_tenant(app.settings, tenant)
        found = await service.try_sources(app.for_tenant(chosen), names)
    if as_json:
        rows: list[Json] = [
            {
                "name": each.name,
                "ok": not each.error,
                "because": each.error,
                "postings": each.postings,
                "rejected": each.rejected,
                "first": each.first,
                "first_reject": each.reject,
                "columns": each.columns,
            }
            for each in found
        ]
        print_json(rows)
    else:
        print_table(
            ["source", "", "postings", "rejected", "first posting, or error"],
            [
                (
                    each.name,
                    "WRONG" if each.error else "ok",
                    each.postings,
                    each.rejected,
                    each.error or each.first,
                )
                for each in found
            ],
            empty=_NO_SOURCES,
        )
        for each in found:
            if each.reject:
                print_text(f"{each.name}, first rejected posting: {each.reject}")
            if each.columns:
                print_text(f"{each.name}: {each.columns}")
    return Exit.PROBLEMS if any(each.error for each in found) else Exit.OK
