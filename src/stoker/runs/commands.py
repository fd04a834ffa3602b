"""`stoker runs` and `stoker prune`: what ran, how it went, what may be forgotten.

Doing a run again and asking one to stop are files of their own, `rerun` and `cancel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import chosen_tenants, one_tenant, takes_tenant, takes_tenants
from stoker.cli.output import pass_asked, run_async, say, show_json, show_table, takes_json
from stoker.runs.commands_cancel import cancel
from stoker.runs.commands_rerun import STARTS, rerun
from stoker.runs.run_argument import found_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.base.types import Json, TenantId
    from stoker.cli.output import Asked
    from stoker.runs.model import Run, Weight
    from stoker.runs.retention import Verdict

_SHOWN = 5  # of many companies


@click.group()
def runs() -> None:
    """List, show, compare, repeat and stop runs."""


@runs.command("list")
@takes_tenants
@click.option("--kind", metavar="KIND", help="Only runs of this kind of work.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Show at most this many.",
)
@takes_json
@pass_asked
def list_runs(
    asked: Asked, tenants: tuple[str, ...], kind: str | None, limit: int, as_json: bool
) -> None:
    """Show runs, newest first."""
    run_async(_list(asked, tenants, kind=kind, limit=limit, as_json=as_json))


async def _list(
    asked: Asked, tenants: tuple[str, ...], *, kind: str | None, limit: int, as_json: bool
) -> None:
    found: list[tuple[TenantId, Run]] = []
    async with asked.app(only_to_read=True) as app:
        for tenant in chosen_tenants(app.settings, tenants):
            there = await app.backend.tenant(tenant).runs.runs(kind=kind, limit=limit)
            found += [(tenant, run) for run in there]
    if kind is not None and not found and kind not in STARTS:
        raise ConfigError(f"there is no kind of run {kind!r}; there are: {', '.join(STARTS)}")
    found.sort(key=lambda pair: (pair[1].at, pair[0]), reverse=True)
    if as_json:
        show_json([run_shown(tenant, run) for tenant, run in found[:limit]])
        return
    show_table(
        ["run", "tenant", "kind", "state", "took", "due", "reason"],
        [
            (
                run.name,
                tenant,
                run.kind,
                run.state.value,
                _took(run),
                _due(run),
                run.reason,
            )
            for tenant, run in found[:limit]
        ],
        empty=f"no runs of kind {kind} yet" if kind else "no runs yet; do one with: stoker upkeep",
    )


@runs.command("show")
@click.argument("name", metavar="RUN")
@takes_tenant
@takes_json
@pass_asked
def show_run(asked: Asked, name: str, tenant: str | None, as_json: bool) -> None:
    """Show one run and its manifest. RUN looks like 20260207_013000, or is `latest`."""
    run_async(_show(asked, name, tenant=tenant, as_json=as_json))


async def _show(asked: Asked, name: str, *, tenant: str | None, as_json: bool) -> None:
    async with asked.app(only_to_read=True) as app:
        whose = one_tenant(app.settings, tenant)
        store = app.backend.tenant(whose)
        run = await found_run(store, name)
        request = await store.runs.cancel_request(run.at)
    if as_json:
        asked_by = {"by": request.by, "at": request.at.isoformat()} if request else None
        show_json({**run_shown(whose, run), "cancel_request": asked_by})
        return
    manifest = run.manifest
    say(f"run {run.name} of {whose}: {run.kind}, {run.state.value}")
    if run.reason:
        say(f"  because {run.reason}")
    began = f"due {_due(run)} UTC" if run.instant else f"started {_due(run)}"
    took = f"took {_took(run)}" if run.ended_at else "not ended yet"
    say(f"  {began}; {took}; settings {manifest.config_hash}")
    if request is not None and run.ended_at is None:
        say(f"  asked to stop by {request.by} at {request.at:%Y-%m-%d %H:%M:%S} UTC")
    for reason in manifest.reasons:
        say(f"  {reason}")
    if manifest.remaining:
        say(f"  {len(manifest.remaining)} remain: {_few(manifest.remaining)}")
    if manifest.lacking:
        say(f"  {len(manifest.lacking)} were not worked on wholly: {_few(manifest.lacking)}")
        say(f"  what each did without: stoker why {whose}/{manifest.lacking[0]}")
    if manifest.resume_at:
        say(f"  can go on at {manifest.resume_at:%Y-%m-%d %H:%M} UTC")
    show_table(
        ["step", "seconds", "items"],
        [(step.step, f"{step.seconds:.3f}", step.items) for step in manifest.steps],
        empty="no steps",
    )
    if manifest.counts:
        show_table(["counted", "number"], sorted(manifest.counts.items()))
    if manifest.cost:
        show_table(["cost", "amount"], sorted(manifest.cost.items()))
    if manifest.caps:
        show_table(["cap at the start", "limit"], sorted(manifest.caps.items()))
    if manifest.rule:
        show_table(
            ["rule", "wanted"], [(what, _plain(said)) for what, said in manifest.rule.items()]
        )


def _plain(said: Json) -> str:
    return ", ".join(map(str, said)) or "any" if isinstance(said, list) else str(said)


def _few(companies: Sequence[str]) -> str:
    more = len(companies) - _SHOWN
    return ", ".join(companies[:_SHOWN]) + (f", … {more} more: --json" if more > 0 else "")


@runs.command("compare")
@click.argument("one", metavar="RUN")
@click.argument("other", metavar="RUN")
@takes_tenant
@takes_json
@pass_asked
def compare_runs(asked: Asked, one: str, other: str, tenant: str | None, as_json: bool) -> None:
    """Show in what two runs differ: settings, counts, cost, timings, reasons."""
    run_async(_compare(asked, one, other, tenant=tenant, as_json=as_json))


async def _compare(
    asked: Asked, one: str, other: str, *, tenant: str | None, as_json: bool
) -> None:
    from stoker.runs.compare import compared

    async with asked.app(only_to_read=True) as app:
        whose = one_tenant(app.settings, tenant)
        store = app.backend.tenant(whose)
        left, right = await found_run(store, one), await found_run(store, other)
    differences = compared(left, right)
    if as_json:
        show_json([{"what": d.what, "one": d.one, "other": d.other} for d in differences])
        return
    show_table(
        ["what", left.name, right.name],
        [(d.what, d.one, d.other) for d in differences],
        empty="the two runs do not differ",
    )


runs.add_command(rerun)

runs.add_command(cancel)


@click.command()
@takes_tenants
@click.option("--dry-run", is_flag=True, help="Say what would go and why the rest stays.")
@takes_json
@pass_asked
def prune(asked: Asked, tenants: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Forget the runs that retention lets go.

    Never the latest ones, never the last that ended well, never one that is running.
    """
    run_async(_prune(asked, tenants, dry_run=dry_run, as_json=as_json))


async def _prune(asked: Asked, tenants: tuple[str, ...], *, dry_run: bool, as_json: bool) -> None:
    from stoker.policies import retention_rule
    from stoker.runs import retention
    from stoker.runs.prune import pruned

    settings = asked.settings()
    if not settings.retention.enabled and not dry_run:
        raise ConfigError(
            f"retention.enabled is false ({settings.origin('retention.enabled')}); set it to true, "
            "or look at what would go with: stoker prune --dry-run"
        )
    answers: list[tuple[TenantId, list[Verdict], Weight]] = []
    async with asked.app(only_to_read=dry_run) as app:
        for tenant in chosen_tenants(app.settings, tenants):
            own = app.settings.for_tenant(tenant)
            now = app.clock.now()
            store = app.backend.tenant(tenant)
            verdicts = retention.verdicts(
                await store.runs.runs(),
                rule=retention_rule(own),
                now=now,
                current=None,
                window_since=retention.longest_window_start(now, own.scheduling.timezone),
            )
            going = [verdict.run.at for verdict in verdicts if verdict.goes]
            weight = await (store.runs.weigh(going) if dry_run else pruned(store, going))
            answers.append((tenant, verdicts, weight))
    if as_json:
        show_json([_prune_json(*answer, dry_run=dry_run) for answer in answers])
        return
    would = "would remove" if dry_run else "removed"
    for tenant, verdicts, weight in answers:
        say(
            f"{tenant}: {would} {weight.runs} of {len(verdicts)} runs, {weight.rows} rows, "
            f"{weight.bytes} bytes"
        )
        if dry_run and verdicts:
            show_table(
                ["run", "state", "goes", "why"],
                [
                    (v.run.name, v.run.state.value, "yes" if v.goes else "no", v.because)
                    for v in verdicts
                ],
            )


def run_shown(tenant: TenantId, run: Run) -> dict[str, Json]:
    """Return a run as programs are shown it: by its name, with everything its manifest has."""
    from stoker.runs.model import run_json

    return {"tenant": tenant, "run": run.name, **run_json(run)}


def _due(run: Run) -> str:
    from stoker.runs.model import run_name

    if run.instant is not None:
        return f"{run.instant:%Y-%m-%d %H:%M}"
    dead = run.manifest.goes_on_with
    return "by hand" if dead is None else f"to go on with {run_name(dead)}"


def _took(run: Run) -> str:
    from stoker.calendar.timezones import duration_text

    return duration_text(run.ended_at - run.at) if run.ended_at else ""


def _prune_json(
    tenant: TenantId, verdicts: list[Verdict], weight: Weight, *, dry_run: bool
) -> Json:
    return {
        "tenant": tenant,
        "dry_run": dry_run,
        "runs": weight.runs,
        "rows": weight.rows,
        "bytes": weight.bytes,
        "verdicts": [{"run": v.run.name, "goes": v.goes, "because": v.because} for v in verdicts],
    }
