"""`stoker runs` and `stoker prune`: what ran, how it went, what may be forgotten.

Doing a run again and asking one to stop are files of their own, `rerun` and `cancel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import choose_tenant, choose_tenants, tenant_option, tenants_option
from stoker.cli.output import (
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
    run_async,
)
from stoker.runs.commands_cancel import cancel
from stoker.runs.commands_rerun import START_COMMANDS, rerun
from stoker.runs.run_argument import get_run_or_exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.runs.model import Run, StorageSize
    from stoker.runs.retention import RetentionDecision

_MAX_SHOWN = 5  # of many companies


@click.group()
def runs() -> None:
    """List, show, compare, repeat and stop runs."""


@runs.command("list")
@tenants_option
@click.option("--kind", metavar="KIND", help="Only runs of this kind of work.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Show at most this many.",
)
@json_option
@pass_context
def list_runs(
    asked: CommandContext, tenants: tuple[str, ...], kind: str | None, limit: int, as_json: bool
) -> None:
    """Show runs, newest first."""
    run_async(_list_runs(asked, tenants, kind=kind, limit=limit, as_json=as_json))


async def _list_runs(
    asked: CommandContext, tenants: tuple[str, ...], *, kind: str | None, limit: int, as_json: bool
) -> None:
    found: list[tuple[TenantId, Run]] = []
    async with asked.open_app(only_to_read=True) as app:
        for tenant in choose_tenants(app.settings, tenants):
            there = await app.backend.tenant(tenant).runs.list_runs(kind=kind, limit=limit)
            found += [(tenant, run) for run in there]
    if kind is not None and not found and kind not in START_COMMANDS:
        raise ConfigError(
            f"there is no kind of run {kind!r}; there are: {', '.join(START_COMMANDS)}"
        )
    found.sort(key=lambda pair: (pair[1].at, pair[0]), reverse=True)
    if as_json:
        print_json([to_run_view(tenant, run) for tenant, run in found[:limit]])
        return
    print_table(
        ["run", "tenant", "kind", "state", "took", "due", "reason"],
        [
            (
                run.name,
                tenant,
                run.kind,
                run.state.value,
                _format_duration(run),
                _format_trigger(run),
                run.reason,
            )
            for tenant, run in found[:limit]
        ],
        empty=f"no runs of kind {kind} yet" if kind else "no runs yet; do one with: stoker upkeep",
    )


@runs.command("show")
@click.argument("name", metavar="RUN")
@tenant_option
@json_option
@pass_context
def show_run(asked: CommandContext, name: str, tenant: str | None, as_json: bool) -> None:
    """Show one run and its manifest. RUN looks like 20260207_013000, or is `latest`."""
    run_async(_show_run(asked, name, tenant=tenant, as_json=as_json))


async def _show_run(asked: CommandContext, name: str, *, tenant: str | None, as_json: bool) -> None:
    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        store = app.backend.tenant(whose)
        run = await get_run_or_exit(store, name)
        request = await store.runs.find_cancel_request(run.at)
    if as_json:
        asked_by = {"by": request.by, "at": request.at.isoformat()} if request else None
        print_json({**to_run_view(whose, run), "cancel_request": asked_by})
        return
    manifest = run.manifest
    print_text(f"run {run.name} of {whose}: {run.kind}, {run.state.value}")
    if run.reason:
        print_text(f"  because {run.reason}")
    began = f"due {_format_trigger(run)} UTC" if run.instant else f"started {_format_trigger(run)}"
    took = f"took {_format_duration(run)}" if run.ended_at else "not ended yet"
    print_text(f"  {began}; {took}; settings {manifest.config_hash}")
    if request is not None and run.ended_at is None:
        print_text(f"  asked to stop by {request.by} at {request.at:%Y-%m-%d %H:%M:%S} UTC")
    for reason in manifest.reasons:
        print_text(f"  {reason}")
    if manifest.remaining:
        print_text(f"  {len(manifest.remaining)} remain: {_format_few(manifest.remaining)}")
    if manifest.lacking:
        print_text(
            f"  {len(manifest.lacking)} were not worked on wholly: {_format_few(manifest.lacking)}"
        )
        print_text(f"  what each did without: stoker why {whose}/{manifest.lacking[0]}")
    if manifest.resume_at:
        print_text(f"  can go on at {manifest.resume_at:%Y-%m-%d %H:%M} UTC")
    print_table(
        ["step", "seconds", "items"],
        [(step.step, f"{step.seconds:.3f}", step.items) for step in manifest.steps],
        empty="no steps",
    )
    if manifest.counts:
        print_table(["counted", "number"], sorted(manifest.counts.items()))
    if manifest.cost:
        print_table(["cost", "amount"], sorted(manifest.cost.items()))
    if manifest.caps:
        print_table(["cap at the start", "limit"], sorted(manifest.caps.items()))
    if manifest.rule:
        print_table(
            ["rule", "wanted"],
            [(what, _format_value(said)) for what, said in manifest.rule.items()],
        )


def _format_value(said: Json) -> str:
    return ", ".join(map(str, said)) or "any" if isinstance(said, list) else str(said)


def _format_few(companies: Sequence[str]) -> str:
    more = len(companies) - _MAX_SHOWN
    return ", ".join(companies[:_MAX_SHOWN]) + (f", … {more} more: --json" if more > 0 else "")


@runs.command("compare")
@click.argument("one", metavar="RUN")
@click.argument("other", metavar="RUN")
@tenant_option
@json_option
@pass_context
def compare_runs(
    asked: CommandContext, one: str, other: str, tenant: str | None, as_json: bool
) -> None:
    """Show in what two runs differ: settings, counts, cost, timings, reasons."""
    run_async(_compare_runs(asked, one, other, tenant=tenant, as_json=as_json))


async def _compare_runs(
    asked: CommandContext, one: str, other: str, *, tenant: str | None, as_json: bool
) -> None:
    from stoker.runs.compare import diff_runs

    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        store = app.backend.tenant(whose)
        left, right = await get_run_or_exit(store, one), await get_run_or_exit(store, other)
    differences = diff_runs(left, right)
    if as_json:
        print_json([{"what": d.what, "one": d.one, "other": d.other} for d in differences])
        return
    print_table(
        ["what", left.name, right.name],
        [(d.what, d.one, d.other) for d in differences],
        empty="the two runs do not differ",
    )


runs.add_command(rerun)

runs.add_command(cancel)


@click.command()
@tenants_option
@click.option("--dry-run", is_flag=True, help="Say what would go and why the rest stays.")
@json_option
@pass_context
def prune(asked: CommandContext, tenants: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Forget the runs that retention lets go.

    Never the latest ones, never the last that ended well, never one that is running.
    """
    run_async(_prune_runs(asked, tenants, dry_run=dry_run, as_json=as_json))


async def _prune_runs(
    asked: CommandContext, tenants: tuple[str, ...], *, dry_run: bool, as_json: bool
) -> None:
    from stoker.policies import build_retention_rule
    from stoker.runs import retention
    from stoker.runs.prune import delete_old_runs

    settings = asked.read_settings()
    if not settings.retention.enabled and not dry_run:
        raise ConfigError(
            f"retention.enabled is false ({settings.get_origin('retention.enabled')}); set it to "
            f"true, "
            "or look at what would go with: stoker prune --dry-run"
        )
    answers: list[tuple[TenantId, list[RetentionDecision], StorageSize]] = []
    async with asked.open_app(only_to_read=dry_run) as app:
        for tenant in choose_tenants(app.settings, tenants):
            own = app.settings.for_tenant(tenant)
            now = app.clock.now()
            store = app.backend.tenant(tenant)
            verdicts = retention.decide_retention(
                await store.runs.list_runs(),
                rule=build_retention_rule(own),
                now=now,
                current=None,
                window_since=retention.compute_longest_window_start(now, own.scheduling.timezone),
            )
            going = [verdict.run.at for verdict in verdicts if verdict.is_deleted]
            weight = await (
                store.runs.measure_runs(going) if dry_run else delete_old_runs(store, going)
            )
            answers.append((tenant, verdicts, weight))
    if as_json:
        print_json([_to_prune_json(*answer, dry_run=dry_run) for answer in answers])
        return
    would = "would remove" if dry_run else "removed"
    for tenant, verdicts, weight in answers:
        print_text(
            f"{tenant}: {would} {weight.runs} of {len(verdicts)} runs, {weight.rows} rows, "
            f"{weight.bytes} bytes"
        )
        if dry_run and verdicts:
            print_table(
                ["run", "state", "goes", "why"],
                [
                    (v.run.name, v.run.state.value, "yes" if v.is_deleted else "no", v.reason)
                    for v in verdicts
                ],
            )


def to_run_view(tenant: TenantId, run: Run) -> dict[str, Json]:
    """Return a run as programs are shown it: by its name, with everything its manifest has."""
    from stoker.runs.model import to_run_json

    return {"tenant": tenant, "run": run.name, **to_run_json(run)}


def _format_trigger(run: Run) -> str:
    from stoker.runs.model import format_run_name

    if run.instant is not None:
        return f"{run.instant:%Y-%m-%d %H:%M}"
    dead = run.manifest.goes_on_with
    return "by hand" if dead is None else f"to go on with {format_run_name(dead)}"


def _format_duration(run: Run) -> str:
    from stoker.calendar.timezones import format_duration

    return format_duration(run.ended_at - run.at) if run.ended_at else ""


def _to_prune_json(
    tenant: TenantId, verdicts: list[RetentionDecision], weight: StorageSize, *, dry_run: bool
) -> Json:
    return {
        "tenant": tenant,
        "dry_run": dry_run,
        "runs": weight.runs,
        "rows": weight.rows,
        "bytes": weight.bytes,
        "verdicts": [
            {"run": v.run.name, "goes": v.is_deleted, "because": v.reason} for v in verdicts
        ],
    }
