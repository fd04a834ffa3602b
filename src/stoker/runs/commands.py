"""`stoker runs`: what ran and how it went; repeat, cancel and prune runs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, ConflictError
from stoker.base.formats import (
    format_amount,
    format_count,
    format_duration,
    format_few,
    format_time,
)
from stoker.cli.options import (
    choose_tenant,
    choose_tenants,
    limit_option,
    tenant_option,
    tenants_option,
)
from stoker.cli.output import (
    async_command,
    json_option,
    pass_context,
    print_fields,
    print_json,
    print_table,
    print_text,
    run_async,
)
from stoker.runs.model import RunState, format_run_name, parse_run_name, to_run_view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext, Exit
    from stoker.context import TenantStores
    from stoker.runs.model import CancelRequest, Run

NIGHTLY = "nightly"  # the kind of run; importing it from its room would load the vendors
MAX_LEFT_SHOWN = 20

START_COMMANDS = {  # by kind of run: the command that starts one now
    NIGHTLY: "stoker.nightly.commands:nightly",
    "pulls": "stoker.pulls.commands:run",
    "plan": "stoker.pulls.commands:plan",
    "discovery": "stoker.discovery.commands:discover",
    "sweep": "stoker.heat.commands:sweep",
    "upkeep": "stoker.scheduling.commands:upkeep",
}


@click.group()
def runs() -> None:
    """List, show, compare, repeat, cancel and prune runs."""


@runs.command("list")
@tenants_option
@click.option("--kind", metavar="KIND", help="Only runs of this kind of work.")
@limit_option
@json_option
@pass_context
@async_command
async def list_runs(
    asked: CommandContext,
    tenants: tuple[str, ...],
    kind: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show runs, newest first."""
    async with asked.open_app(only_to_read=True) as app:
        found = [
            (tenant, run)
            for tenant in choose_tenants(app.settings, tenants)
            for run in await app.backend.tenant(tenant).runs.list_runs(kind=kind, limit=limit)
        ]
    found = sorted(found, key=lambda pair: (pair[1].at, pair[0]), reverse=True)[:limit]
    if kind is not None and not found and kind not in START_COMMANDS:
        raise ConfigError(
            f"there is no kind of run {kind!r}; there are: {', '.join(START_COMMANDS)}"
        )
    if as_json:
        print_json([to_run_view(tenant, run) for tenant, run in found])
        return
    print_table(
        ["run", "tenant", "kind", "state", "took", "trigger", "reason"],
        [
            (
                run.name,
                tenant,
                run.kind,
                run.state.value,
                _format_took(run),
                _format_trigger(run).split()[0],
                run.reason,
            )
            for tenant, run in found
        ],
        empty=f"No {kind} runs yet." if kind else "No runs yet; start one: stoker db maintain",
    )


@runs.command("show")
@click.argument("name", metavar="RUN")
@tenant_option
@json_option
@pass_context
@async_command
async def show_run(asked: CommandContext, name: str, tenant: str | None, as_json: bool) -> None:
    """Show one run and its manifest. RUN looks like 20260207_013000, or is `latest`."""
    async with asked.open_app(only_to_read=True) as app:
        store = app.backend.tenant(choose_tenant(app.settings, tenant))
        run = await get_run(store, name)
        owner, request = store.tenant, await store.runs.find_cancel_request(run.at)
        left = {each.external_id: each.reason for each in await store.crm.list_left_rows(run.name)}
    if as_json:
        asked_by = {"by": request.by, "at": request.at.isoformat()} if request else None
        print_json({**to_run_view(owner, run), "cancel_request": asked_by, "crm_left": left})
        return
    _print_run(owner, run, request)
    if left:
        print_text("\nNot written into the CRM:")
        print_table(["record", "because"], list(left.items())[:MAX_LEFT_SHOWN])
    if len(left) > MAX_LEFT_SHOWN:
        print_text(f"and {len(left) - MAX_LEFT_SHOWN} more; --json has them")


def _print_run(tenant: TenantId, run: Run, request: CancelRequest | None) -> None:
    manifest = run.manifest
    print_text(f"{tenant}: {run.kind} {run.name} {run.state.value}")
    is_cancelling = request is not None and run.ended_at is None
    unfinished, incomplete = manifest.remaining, manifest.lacking
    why = f" (stoker why {tenant}/{incomplete[0]})" if incomplete else ""
    print_fields(
        [
            ("Reason", run.reason),
            ("Trigger", _format_trigger(run)),
            ("Took", _format_took(run) or "still running"),
            (
                "Cancel",
                f"requested by {request.by} at {format_time(request.at, seconds=True)}"
                if request and is_cancelling
                else "",
            ),
            *(("Why", reason) for reason in manifest.reasons),
            ("Unfinished", _format_list(unfinished)),
            ("Incomplete", _format_list(incomplete) + why),
            ("Continues", manifest.resume_at and format_time(manifest.resume_at)),
            ("Settings", manifest.config_hash),
        ]
    )
    if manifest.steps:
        # Companies are worked on side by side, so the work can take longer than the run.
        print_text("\nWork, in seconds over all workers:")
        print_table(
            ["step", "seconds", "items"],
            [(step.step, f"{step.seconds:.1f}", step.items) for step in manifest.steps],
            right=("seconds",),
        )
    # A counter of one source begins with the source's name, which stays as it is.
    counts = {
        name if ":" in name else name.replace("_", " "): number
        for name, number in manifest.counts.items()
    }
    _print_numbers("Counted", counts)
    if manifest.cost:
        cost = {name: amount for name, amount in manifest.cost.items() if amount}
        print_text("\nCost:")
        print_fields(
            (name.partition("/")[0], format_amount(name.partition("/")[2], amount))
            for name, amount in sorted(cost.items())
        )
    _print_numbers("Caps at the start", manifest.caps)
    if manifest.rule:
        print_text("\nICP:")
        print_fields((what, _format_value(value)) for what, value in manifest.rule.items())


def _format_list(companies: Sequence[str]) -> str:
    return f"{len(companies)}: {format_few(companies)}" if companies else ""


def _print_numbers(title: str, numbers: Mapping[str, int]) -> None:
    """Print what is not zero; `--json` has the rest."""
    filled = {name: number for name, number in sorted(numbers.items()) if number}
    if filled:
        print_text(f"\n{title}:")
        print_fields((name, f"{number:,}") for name, number in filled.items())


def _format_value(value: Json) -> str:
    return ", ".join(map(str, value)) or "any" if isinstance(value, list) else str(value)


def _format_trigger(run: Run) -> str:
    if run.instant is not None:
        return f"scheduled for {format_time(run.instant)}"
    dead = run.manifest.goes_on_with
    return "manual" if dead is None else f"resumed {format_run_name(dead)}"


def _format_took(run: Run) -> str:
    return format_duration(run.ended_at - run.at) if run.ended_at else ""


@runs.command("compare")
@click.argument("one", metavar="RUN")
@click.argument("other", metavar="RUN")
@tenant_option
@json_option
@pass_context
@async_command
async def compare_runs(
    asked: CommandContext, one: str, other: str, tenant: str | None, as_json: bool
) -> None:
    """Show how two runs differ: settings, counts, cost, timings, reasons."""
    from stoker.runs.compare import diff_runs

    async with asked.open_app(only_to_read=True) as app:
        store = app.backend.tenant(choose_tenant(app.settings, tenant))
        left, right = await get_run(store, one), await get_run(store, other)
    differences = diff_runs(left, right)
    if as_json:
        print_json([{"what": d.what, "one": d.one, "other": d.other} for d in differences])
        return
    print_table(
        ["what", left.name, right.name],
        [(d.what, d.one, d.other) for d in differences],
        empty="The two runs do not differ.",
    )


@runs.command()
@click.argument("name", metavar="RUN")
@click.option("--again", is_flag=True, help="Of a nightly run, also the companies that were done.")
@tenant_option
@json_option
@pass_context
@click.pass_context
def rerun(
    ctx: click.Context,
    asked: CommandContext,
    name: str,
    again: bool,
    tenant: str | None,
    as_json: bool,
) -> Exit | None:
    """Repeat a run as a new run now. RUN looks like 20260207_013000, or is `latest`.

    A nightly run: exactly the companies it selected, without those that were done; nothing is paid
    for twice. Any other kind is started again for the tenant by its own command, with that
    command's output and exit code.
    """
    owner, run = run_async(_get_run_to_repeat(asked, name, tenant=tenant))
    if run.kind not in START_COMMANDS:
        raise ConfigError(f"run {run.name} is of kind {run.kind}, which no command starts")
    if again and run.kind != NIGHTLY:
        raise ConfigError(
            f"--again is for nightly runs, and run {run.name} is of kind {run.kind}; leave it out"
        )
    module, command = START_COMMANDS[run.kind].split(":")
    chosen = {"from_run": run.name, "again": again} if run.kind == NIGHTLY else {}
    ended: Exit | None = ctx.invoke(
        getattr(import_module(module), command), tenants=(owner,), as_json=as_json, **chosen
    )
    return ended


async def _get_run_to_repeat(
    asked: CommandContext, name: str, *, tenant: str | None
) -> tuple[TenantId, Run]:
    """Return a run that has ended, and its tenant. Raises for one that cannot be repeated."""
    async with asked.open_app(only_to_read=True) as app:
        store = app.backend.tenant(choose_tenant(app.settings, tenant))
        run, owner = await get_run(store, name), store.tenant
        if run.state is RunState.RUNNING:
            raise ConflictError(
                f"run {run.name} of {owner} is still running; cancel it first: "
                f"stoker runs cancel {run.name} --tenant {owner}"
            )
        if run.kind == NIGHTLY and not await store.work_items.count_items(run.name):
            raise ConfigError(
                f"run {run.name} of {owner} selected no companies, so there are none to repeat; "
                f"start a new run: stoker nightly --tenant {owner}"
            )
    return owner, run


@runs.command()
@click.argument("name", metavar="RUN")
@tenant_option
@json_option
@pass_context
@async_command
async def cancel(asked: CommandContext, name: str, tenant: str | None, as_json: bool) -> None:
    """Ask a run to stop. RUN looks like 20260207_013000, or is `latest`.

    Its process, on any machine, notices within seconds: it starts nothing new, finishes calls
    already paid for, then ends CANCELLED and lists unfinished companies. A run whose process died
    is CANCELLED at once, 90 seconds after its last heartbeat. A run that has ended stays as it is.
    """
    from stoker.enrichment.runner import build_runner
    from stoker.runs.cancel import request_cancel

    async with asked.open_app() as app:
        store = app.backend.tenant(choose_tenant(app.settings, tenant))
        run, runner = await get_run(store, name), build_runner(app)
        result = await request_cancel(store, run, by=_get_user(), runner=runner)
    run, request, owner = result.run, result.request, store.tenant
    if as_json:
        print_json(
            {
                "tenant": owner,
                "run": run.name,
                "kind": run.kind,
                "state": run.state.value,
                "reason": run.reason,
                "asked_by": request.by if request else None,
                "asked_at": request.at.isoformat() if request else None,
                "process_gone": result.process_died,
                "remaining": list(run.manifest.remaining),
            }
        )
        return
    title = f"Run {run.name} of {owner}"
    if result.process_died:
        left = len(run.manifest.remaining)
        unfinished = f"; {format_count(left, 'company', 'companies')} unfinished" if left else ""
        print_text(f"{title} is CANCELLED: its process had died{unfinished}.")
        print_text(f"Continue with: stoker runs rerun {run.name} --tenant {owner}")
    elif run.ended_at is not None or request is None:
        print_text(f"{title} has already ended as {run.state.value}; nothing was changed.")
    else:
        at = format_time(request.at, seconds=True)
        print_text(
            f"{title}: {request.by} cancelled it at {at}. It starts nothing new and ends once "
            "paid calls are settled."
        )
        print_text(f"See it end: stoker runs show {run.name} --tenant {owner}")
        print_text("If its process was killed, cancel again in 90 seconds.")


def _get_user() -> str:
    """Return the account this process runs under, and its machine."""
    import os
    import pwd
    import socket

    from stoker.base.types import clean_text

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may have no name for its user
        name = f"user {os.getuid()}"
    return clean_text(f"{name}@{socket.gethostname()}")


@runs.command()
@tenants_option
@click.option("--dry-run", is_flag=True, help="Show what would be deleted and why the rest stays.")
@json_option
@pass_context
@async_command
async def prune(
    asked: CommandContext, tenants: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Delete runs that the retention rule no longer keeps.

    Never the latest ones, the last that ended DONE, or one that is running.
    """
    from stoker.runs.prune import prune_runs

    settings = asked.read_settings()
    if not settings.retention.enabled and not dry_run:
        raise ConfigError(
            f"retention.enabled is false ({settings.get_origin('retention.enabled')}); set it to "
            "true, or see what would be deleted: stoker runs prune --dry-run"
        )
    answers = []
    async with asked.open_app(only_to_read=dry_run) as app:
        for tenant in choose_tenants(app.settings, tenants):
            own, store = app.settings.for_tenant(tenant), app.backend.tenant(tenant)
            rule, zone, now = own.retention, own.scheduling.timezone, app.clock.now()
            decisions, size = await prune_runs(
                store, rule=rule, zone=zone, now=now, dry_run=dry_run
            )
            answers.append((tenant, decisions, size))
    if as_json:
        print_json(
            [
                {
                    "tenant": tenant,
                    "dry_run": dry_run,
                    "runs": size.runs,
                    "rows": size.rows,
                    "bytes": size.bytes,
                    "verdicts": [
                        {"run": each.run.name, "goes": each.is_deleted, "because": each.reason}
                        for each in decisions
                    ],
                }
                for tenant, decisions, size in answers
            ]
        )
        return
    verb = "would delete" if dry_run else "deleted"
    for tenant, decisions, size in answers:
        print_text(
            f"{tenant}: {verb} {size.runs} of {format_count(len(decisions), 'run')}, "
            f"{format_count(size.rows, 'row')}, {format_count(size.bytes, 'byte')}"
        )
        if dry_run and decisions:
            print_table(
                ["run", "state", "deleted", "why"],
                [
                    (each.run.name, each.run.state.value, each.is_deleted, each.reason)
                    for each in decisions
                ],
            )


async def get_run(store: TenantStores, name: str) -> Run:
    """Return the run of this name, or the newest for `latest`. Raises ConfigError without one."""
    if name == "latest":
        newest = await store.runs.list_runs(limit=1)
        run = newest[0] if newest else None
    else:
        run = await store.runs.find_run(parse_run_name(name))
    if run is None:
        raise ConfigError(
            f"{store.tenant} has no run {name}; list them: stoker runs list --tenant {store.tenant}"
        )
    return run
