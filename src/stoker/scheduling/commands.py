"""`stoker schedule` and `stoker db maintain`: start what is due, preview it, audit it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, ConflictError, StokerError
from stoker.base.formats import format_count
from stoker.cli.options import (
    choose_active_tenants,
    choose_tenants,
    filter_active,
    parse_period,
    parse_time,
    since_option,
    tenants_option,
    until_option,
)
from stoker.cli.output import (
    Exit,
    async_command,
    choose_exit,
    json_option,
    on_stop_signal,
    pass_context,
    print_json,
    print_table,
    print_text,
)
from stoker.enrichment.model import KIND
from stoker.runs.model import Run, to_run_view

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.calendar.recurrence import Schedule
    from stoker.cli.output import CommandContext
    from stoker.context import Context
    from stoker.scheduling.audit import AuditLine
    from stoker.scheduling.service import Scheduler
    from stoker.settings import Settings

TENANT_POLL_INTERVAL = timedelta(minutes=1)  # for tenants that came or went


@click.group()
def schedule() -> None:
    """Run, preview and audit the schedule."""


@schedule.command("run")
@tenants_option
@click.option("--once", is_flag=True, help="Run what is due now, then end.")
@json_option
@pass_context
@async_command
async def run_schedule(
    asked: CommandContext, tenants: tuple[str, ...], once: bool, as_json: bool
) -> Exit:
    """Start runs when they are due, until Ctrl-C or SIGTERM.

    Every active tenant gets maintenance; those with an ICP and a CRM get nightly runs,
    scheduling.tenant_concurrency at a time. Several schedulers can share a database: each scheduled
    time starts one run. Tenants that are added or disabled are noticed within a minute. On a stop
    signal, runs start nothing new and get 30 seconds; a second signal does not wait. With --once
    the exit code tells how the runs ended.
    """
    if once:
        async with asked.open_app(logs_progress=True) as app:
            return await _run_once(app, tenants, as_json=as_json)
    stopping, daemon = asyncio.Event(), asyncio.current_task()

    def stop() -> None:
        if stopping.is_set() and daemon is not None:
            daemon.cancel()  # the second signal: what is under way is not waited for
        stopping.set()

    on_stop_signal(stop)
    await run_daemon(asked, tenants, stopping)
    return Exit.OK


async def run_daemon(
    asked: CommandContext,
    tenants: tuple[str, ...],
    stopping: asyncio.Event,
    *,
    look_again: timedelta = TENANT_POLL_INTERVAL,
) -> None:
    """Run the scheduler until `stopping` is set, for the tenants there are: they come and go.

    Raises ConfigError when one of those named is switched off at first, or all of them are later.
    """
    began = False
    while not stopping.is_set():
        async with asked.open_app(logs_progress=True) as app:
            on = filter_active(app.settings, tenants) if began else tenants
            scheduler = await _build_scheduler(app, _list_scheduled(app.settings, on))
            began, changed = True, asyncio.Event()
            watching = asyncio.create_task(_watch_tenants(asked, app, changed, every=look_again))
            try:
                await scheduler.run_forever(stopping, giving_way=changed)
            finally:
                watching.cancel()
                await asyncio.wait({watching})


async def _watch_tenants(
    asked: CommandContext, app: Context, changed: asyncio.Event, *, every: timedelta
) -> None:
    """Set `changed` once tenants, or those set up for nights, differ from when the app opened."""
    before = await _read_tenants(app)
    while not changed.is_set():
        # Real seconds, as a store is looked at for what other processes did.
        await asyncio.sleep(every.total_seconds())
        with suppress(StokerError):  # a store that is away, or settings that are being written
            if await _read_tenants(app) != before:
                asked.read_settings()
                changed.set()


async def _read_tenants(app: Context) -> tuple[object, ...]:
    known = tuple(each.id for each in app.settings.tenants)
    return (await app.backend.directory().list_tenants(), await _list_nightly_tenants(app, known))


async def _list_nightly_tenants(
    app: Context, tenants: tuple[TenantId, ...]
) -> tuple[TenantId, ...]:
    """Return which of these are set up for nights."""
    from stoker.nightly.readiness import check_readiness

    return tuple([tenant for tenant in tenants if (await check_readiness(app, tenant)).is_ready])


async def _build_scheduler(app: Context, tenants: tuple[TenantId, ...]) -> Scheduler:
    from stoker.app import build_scheduler

    return build_scheduler(app, tenants, nights=await _list_nightly_tenants(app, tenants))


async def _run_once(app: Context, named: tuple[str, ...], *, as_json: bool) -> Exit:
    from stoker.base.events import ClockWentBack, Event, TenantFailed

    skipped: list[Event] = []

    def observer(event: Event) -> None:
        app.observer(event)
        if isinstance(event, TenantFailed | ClockWentBack):
            skipped.append(event)

    tenants = _list_scheduled(app.settings, named)
    with app.redirect_events(observer) as seen:
        ended = await (await _build_scheduler(seen, tenants)).run_once()
    empty = "Nothing was started; the log says why." if skipped else "Nothing is due."
    shown = _show_runs(ended, as_json=as_json, empty=empty)
    return Exit.LATER if skipped and shown is Exit.OK else shown


@schedule.command("next")
@tenants_option
@click.option(
    "--count",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="How many scheduled times per tenant.",
)
@since_option("Start from this time. Default: now.", aliases=["--after"])
@json_option
@pass_context
@async_command
async def list_next(
    asked: CommandContext, tenants: tuple[str, ...], count: int, since: str | None, as_json: bool
) -> None:
    """Show when each tenant's next runs are due."""
    from stoker.calendar.recurrence import list_upcoming
    from stoker.calendar.timezones import format_clock_note, format_local_time

    rows: list[tuple[TenantId, str, datetime, str, str]] = []
    async with asked.open_app(only_to_read=True) as app:
        now = app.clock.now()
        now = parse_time(since, what="--since", now=now) if since else now
        for tenant in choose_tenants(app.settings, tenants):
            zone = app.settings.for_tenant(tenant).scheduling.timezone
            for kind, its in (await _read_schedules(app, tenant)).items():
                last = await app.backend.tenant(tenant).schedule.find_last_result(kind, until=now)
                rows += [
                    (tenant, kind, at, format_local_time(at, zone), format_clock_note(at, zone))
                    for at in list_upcoming(now, its, count, last=last.due_at if last else None)
                ]
    if as_json:
        names = ("tenant", "kind", "instant", "local", "note")
        print_json(
            [
                dict(zip(names, (tenant, kind, at.isoformat(), *rest), strict=True))
                for tenant, kind, at, *rest in rows
            ]
        )
        return
    print_table(
        ["tenant", "kind", "utc", "local", "note"],
        [(tenant, kind, f"{at:%Y-%m-%d %H:%M}", *rest) for tenant, kind, at, *rest in rows],
    )


async def _read_schedules(app: Context, tenant: TenantId) -> dict[str, Schedule]:
    """Return a tenant's schedules by kind of work."""
    scheduler = await _build_scheduler(app, (tenant,))
    return {task.name: task.schedule for task in scheduler.tasks}


@schedule.command("audit")
@tenants_option
@since_option("Default: seven days ago.", aliases=["--from"])
@until_option("Default: now.", aliases=["--to"])
@json_option
@pass_context
@async_command
async def audit_schedule(
    asked: CommandContext,
    tenants: tuple[str, ...],
    since: str | None,
    until: str | None,
    as_json: bool,
) -> Exit:
    """Compare what ran with what should have run; each gap gets a code.

    TIME is a date (2026-02-07, midnight UTC) or a time with its offset (2026-02-07T01:30+08:00). A
    run whose process was killed counts as failed 90 seconds after its last heartbeat. Exit code 1
    when something needs attention.
    """
    from stoker.scheduling.audit import AUDIT_PERIOD, list_problems
    from stoker.scheduling.service import read_audit

    found: list[tuple[TenantId, str, AuditLine]] = []
    async with asked.open_app(only_to_read=True) as app:
        now = app.clock.now()
        start, to = parse_period(since, until, now=now)
        start, to = start or now - AUDIT_PERIOD, to or now + timedelta(microseconds=1)
        if start >= to:
            raise ConfigError(f"--since {start.isoformat()} is not before --until {to.isoformat()}")
        for tenant in choose_tenants(app.settings, tenants):
            store = app.backend.tenant(tenant)
            kept_for = timedelta(days=app.settings.for_tenant(tenant).retention.days)
            schedules = await _read_schedules(app, tenant)
            ends = dict.fromkeys(schedules, to)
            if KIND not in schedules:
                # A tenant not set up for nightly runs is expected to have only those it had.
                schedules[KIND] = app.settings.get_schedule(tenant)
                last = await store.schedule.find_last_result(KIND, until=to)
                ends[KIND] = min(to, last.due_at + timedelta(microseconds=1)) if last else start
            for kind, its in schedules.items():
                if start < ends[kind]:
                    lines = await read_audit(
                        store, kind, its, since=start, until=ends[kind], now=now, kept_for=kept_for
                    )
                    found += [(tenant, kind, line) for line in lines]
    bad = list_problems([line for _, _, line in found])
    if as_json:
        print_json({"findings": [_to_audit_json(*each) for each in found], "problems": len(bad)})
    else:
        print_table(
            ["tenant", "kind", "due (utc)", "finding", "why"],
            [
                (tenant, kind, f"{line.due_at:%Y-%m-%d %H:%M}", line.status.value, line.message)
                for tenant, kind, line in found
            ],
            empty="Nothing was due, and nothing ran.",
        )
        print_text(
            f"{format_count(len(found), 'scheduled time')}, {format_count(len(bad), 'problem')}."
        )
    return Exit.PROBLEMS if bad else Exit.OK


@schedule.command("accept-clock")
@tenants_option
@json_option
@pass_context
@async_command
async def accept_clock(asked: CommandContext, tenants: tuple[str, ...], as_json: bool) -> None:
    """Accept the clock after it was wrong, so that runs start again.

    For a machine that once recorded a time in the future. Only tenants for which the clock seems to
    have gone back are changed; earlier decisions stay, and the ledger records this one.
    """
    from stoker.scheduling.service import accept_clock

    accepted: list[Json] = []
    async with asked.open_app() as app:
        for tenant in choose_tenants(app.settings, tenants):
            latest = await accept_clock(app.backend.tenant(tenant), now=app.clock.now())
            if latest is not None:
                accepted.append({"tenant": tenant, "recorded": latest.isoformat()})
    if as_json:
        print_json(accepted)
        return
    tenants_text = format_count(len(accepted), "tenant")
    print_text(
        f"The clock is accepted for {tenants_text}." if accepted else "The clock was right already."
    )


@click.command()
@tenants_option
@json_option
@pass_context
@async_command
async def upkeep(asked: CommandContext, tenants: tuple[str, ...], as_json: bool) -> Exit:
    """Check the database, close dead runs, audit the schedule, apply retention; now, due or not."""
    from stoker.enrichment.runner import run_now
    from stoker.maintenance.service import build_maintenance

    ended, busy = [], []
    async with asked.open_app() as app:
        for tenant in map(app.for_tenant, choose_active_tenants(app.settings, tenants)):
            try:
                ended.append((tenant.id, await run_now(tenant, build_maintenance(tenant))))
            except ConflictError as error:
                busy.append(error)
    shown = _show_runs(ended, as_json=as_json)
    if busy:
        raise busy[0]
    return shown


def _list_scheduled(settings: Settings, named: tuple[str, ...]) -> tuple[TenantId, ...]:
    tenants = choose_active_tenants(settings, named)
    on = tuple(t for t in tenants if settings.for_tenant(t).scheduling.enabled)
    if not on:
        origin = settings.get_origin("scheduling.enabled")
        raise ConfigError(
            f"scheduling.enabled is false for all these tenants ({origin}); "
            "set it to true, or start one run with: stoker db maintain"
        )
    return on


def _show_runs(
    ended: list[tuple[TenantId, Run]], *, as_json: bool, empty: str = "Nothing is due."
) -> Exit:
    if as_json:
        print_json([to_run_view(tenant, run) for tenant, run in ended])
    else:
        print_table(
            ["tenant", "run", "kind", "state", "reason"],
            [(tenant, run.name, run.kind, run.state.value, run.reason) for tenant, run in ended],
            empty=empty,
        )
    return choose_exit(run.state for _, run in ended)


def _to_audit_json(tenant: TenantId, kind: str, finding: AuditLine) -> Json:
    return {
        "tenant": tenant,
        "kind": kind,
        "instant": finding.due_at.isoformat(),
        "finding": finding.status.value,
        "why": finding.message,
    }
