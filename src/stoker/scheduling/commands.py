"""`stoker schedule` and `stoker upkeep`: start what is due, preview it, see whether it was kept."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError, ConflictError, StokerError
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
    choose_exit,
    json_option,
    on_stop_signal,
    pass_context,
    print_json,
    print_table,
    print_text,
    run_async,
)
from stoker.enrichment.model import KIND
from stoker.runs.model import Run, to_run_view

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.calendar.recurrence import Schedule
    from stoker.cli.output import CommandContext
    from stoker.context import Context
    from stoker.scheduling.audit import AuditLine
    from stoker.settings import Settings

TENANT_POLL_INTERVAL = timedelta(minutes=1)  # for tenants that came or went


@click.group()
def schedule() -> None:
    """Run, preview and audit the schedule."""


@schedule.command("run")
@tenants_option
@click.option("--once", is_flag=True, help="Do what is due now, then stop.")
@json_option
@pass_context
def run_schedule(
    asked: CommandContext, tenants: tuple[str, ...], once: bool, as_json: bool
) -> Exit:
    """Start runs as they fall due, until stopped (Ctrl-C or SIGTERM).

    Every tenant has its upkeep; those with a rule and a CRM have their nights too, as many at once
    as scheduling.tenant_concurrency says, the others after them. Any number of these may share a
    store: each instant is started once. Tenants that are added, set up or switched off meanwhile
    are noticed within a minute, once nothing is under way. What is under way when it is stopped
    begins nothing new and is given half a minute; told to stop once more, it is not. With --once
    the exit code tells how the runs ended, or that a tenant could not be attended to.
    """
    return run_async(_run_schedule(asked, tenants, once=once, as_json=as_json))


async def _run_schedule(
    asked: CommandContext, tenants: tuple[str, ...], *, once: bool, as_json: bool
) -> Exit:
    if once:
        async with asked.open_app() as app:
            taking_part = _list_scheduled(
                app.settings, choose_active_tenants(app.settings, tenants)
            )
            nights = await _list_nightly_tenants(app, taking_part)
            return await _run_once(app, taking_part, nights, as_json=as_json)
    stopping, daemon = asyncio.Event(), asyncio.current_task()

    def stop() -> None:
        if stopping.is_set() and daemon is not None:
            daemon.cancel()  # told again: what is under way is not waited for
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
    """Be the daemon until told to stop, for whoever there is: tenants come and go meanwhile.

    Raises ConfigError when one of those named is switched off at first, or all of them are later.
    """
    from stoker.app import build_scheduler

    began = False
    while not stopping.is_set():
        async with asked.open_app() as app:
            on = filter_active(app.settings, tenants) if began else tenants
            taking_part = _list_scheduled(app.settings, choose_active_tenants(app.settings, on))
            began = True
            nights = await _list_nightly_tenants(app, taking_part)
            changed = asyncio.Event()
            watching = asyncio.create_task(_watch_tenants(asked, app, changed, every=look_again))
            try:
                await build_scheduler(app, taking_part, nights=nights).run_forever(
                    stopping, giving_way=changed
                )
            finally:
                watching.cancel()
                await asyncio.wait({watching})


async def _watch_tenants(
    asked: CommandContext, app: Context, changed: asyncio.Event, *, every: timedelta
) -> None:
    """Say when other tenants are there, or are set up for nights, than when the app was opened."""
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
    """Return who of these is set up for nights."""
    from stoker.nightly.readiness import check_readiness

    return tuple([tenant for tenant in tenants if (await check_readiness(app, tenant)).is_ready])


async def _run_once(
    app: Context, tenants: tuple[TenantId, ...], nights: tuple[TenantId, ...], *, as_json: bool
) -> Exit:
    from stoker.app import build_scheduler
    from stoker.base.events import ClockWentBack, Event, TenantFailed

    not_attended: list[Event] = []

    def observer(event: Event) -> None:
        app.observer(event)
        if isinstance(event, TenantFailed | ClockWentBack):
            not_attended.append(event)

    with app.redirect_events(observer) as seen:
        ended = await build_scheduler(seen, tenants, nights=nights).run_once()
    empty = "nothing was started; the log says why" if not_attended else "nothing is due"
    shown = _show_runs(ended, as_json=as_json, empty=empty)
    return Exit.LATER if not_attended and shown is Exit.OK else shown


@schedule.command("next")
@tenants_option
@click.option(
    "--count",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="How many instants per tenant.",
)
@since_option("Preview from this time on. Default: now.", aliases=["--after"])
@json_option
@pass_context
def list_next(
    asked: CommandContext, tenants: tuple[str, ...], count: int, since: str | None, as_json: bool
) -> None:
    """Show when each tenant's next runs are due."""
    run_async(_list_next(asked, tenants, count=count, since=since, as_json=as_json))


async def _list_next(
    asked: CommandContext, tenants: tuple[str, ...], *, count: int, since: str | None, as_json: bool
) -> None:
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
                decided = last.due_at if last else None
                rows += [
                    (
                        tenant,
                        kind,
                        instant,
                        format_local_time(instant, zone),
                        format_clock_note(instant, zone),
                    )
                    for instant in list_upcoming(now, its, count, last=decided)
                ]
    if as_json:
        print_json(
            [
                {
                    "tenant": tenant,
                    "kind": kind,
                    "instant": instant.isoformat(),
                    "local": local,
                    "note": note,
                }
                for tenant, kind, instant, local, note in rows
            ]
        )
        return
    table = [
        (tenant, kind, f"{at:%Y-%m-%d %H:%M}", local, note)
        for tenant, kind, at, local, note in rows
    ]
    print_table(["tenant", "kind", "utc", "local", "note"], table)


async def _read_schedules(app: Context, tenant: TenantId) -> dict[str, Schedule]:
    """Return what is scheduled for a tenant, by kind: its upkeep, nights, whatever it wants."""
    from stoker.app import build_scheduler

    scheduler = build_scheduler(app, (tenant,), nights=await _list_nightly_tenants(app, (tenant,)))
    return {task.name: task.schedule for task in scheduler.tasks}


@schedule.command("audit")
@tenants_option
@since_option("Default: seven days ago.", aliases=["--from"])
@until_option("Default: now.", aliases=["--to"])
@json_option
@pass_context
def audit_schedule(
    asked: CommandContext,
    tenants: tuple[str, ...],
    since: str | None,
    until: str | None,
    as_json: bool,
) -> Exit:
    """Hold what ran against what should have run; every gap has a name.

    TIME is a date (2026-02-07, midnight UTC) or a moment with its offset
    (2026-02-07T01:30+08:00). A run whose process was killed counts as failed from 90 seconds after
    its last sign of life. Exit code 1 when something needs looking at.
    """
    return run_async(_audit_schedule(asked, tenants, since=since, until=until, as_json=as_json))


async def _audit_schedule(
    asked: CommandContext,
    tenants: tuple[str, ...],
    *,
    since: str | None,
    until: str | None,
    as_json: bool,
) -> Exit:
    from stoker.maintenance.service import AUDIT_PERIOD, read_audit
    from stoker.scheduling import audit

    async with asked.open_app(only_to_read=True) as app:
        now = app.clock.now()
        start, to = parse_period(since, until, now=now)
        start, to = start or now - AUDIT_PERIOD, to or now + timedelta(microseconds=1)
        if start >= to:
            raise ConfigError(f"--since {start.isoformat()} is not before --until {to.isoformat()}")
        found: list[tuple[TenantId, str, AuditLine]] = []
        for tenant in choose_tenants(app.settings, tenants):
            store = app.backend.tenant(tenant)
            rule = app.settings.for_tenant(tenant).retention
            schedules = await _read_schedules(app, tenant)
            # Nobody expects a night of whoever is no longer set up for one; those it had count.
            over = {} if KIND in schedules else {KIND: app.settings.get_schedule(tenant)}
            for kind, its in (schedules | over).items():
                end = to
                if kind in over:
                    last = await store.schedule.find_last_result(kind, until=to)
                    end = min(to, last.due_at + timedelta(microseconds=1)) if last else start
                if start >= end:
                    continue
                findings = await read_audit(
                    store, kind, its, since=start, until=end, now=now, rule=rule
                )
                found += [(tenant, kind, finding) for finding in findings]
    bad = audit.list_problems([finding for _, _, finding in found])
    if as_json:
        print_json({"findings": [_to_audit_json(*each) for each in found], "problems": len(bad)})
    else:
        print_table(
            ["tenant", "kind", "instant (utc)", "finding", "why"],
            [
                (tenant, kind, f"{f.due_at:%Y-%m-%d %H:%M}", f.status.value, f.message)
                for tenant, kind, f in found
            ],
            empty="nothing was due, and nothing ran",
        )
        print_text(f"{len(found)} instants, {len(bad)} to look at")
    return Exit.PROBLEMS if bad else Exit.OK


@schedule.command("accept-clock")
@tenants_option
@json_option
@pass_context
def accept_clock(asked: CommandContext, tenants: tuple[str, ...], as_json: bool) -> None:
    """Vouch for the clock after it was wrong: count time from now on again.

    For a machine that once wrote down a moment in the future. Only tenants for whom the clock
    seems to have gone back are changed; what was decided stays decided, and the ledger says so.
    """
    run_async(_reset_clock_marks(asked, tenants, as_json=as_json))


async def _reset_clock_marks(
    asked: CommandContext, tenants: tuple[str, ...], *, as_json: bool
) -> None:
    from stoker.base.clock import clock_went_backwards
    from stoker.scheduling.model import build_clock_accepted_entry

    accepted: list[Json] = []
    async with asked.open_app() as app:
        for tenant in choose_tenants(app.settings, tenants):
            store, now = app.backend.tenant(tenant), app.clock.now()
            latest = await store.schedule.find_latest_entry_at()
            if latest is not None and clock_went_backwards(now, latest=latest):
                await store.ledger.append([build_clock_accepted_entry(now, latest=latest)])
                accepted.append({"tenant": tenant, "recorded": latest.isoformat()})
    if as_json:
        print_json(accepted)
        return
    print_text(
        f"accepted for {len(accepted)} tenants" if accepted else "the clock was not in doubt"
    )


@click.command()
@tenants_option
@json_option
@pass_context
def upkeep(asked: CommandContext, tenants: tuple[str, ...], as_json: bool) -> Exit:
    """Check the store, close dead runs, audit the schedule, apply retention now, due or not."""
    return run_async(_run_upkeep(asked, tenants, as_json=as_json))


async def _run_upkeep(asked: CommandContext, tenants: tuple[str, ...], *, as_json: bool) -> Exit:
    from stoker.enrichment.runner import run_now
    from stoker.maintenance.service import build_maintenance

    async with asked.open_app() as app:
        chosen = choose_active_tenants(app.settings, tenants)
        ended, busy = [], []
        for tenant in chosen:
            try:
                ended.append(
                    (
                        tenant,
                        await run_now(
                            app.for_tenant(tenant), build_maintenance(app.for_tenant(tenant))
                        ),
                    )
                )
            except ConflictError as error:
                busy.append(error)
    shown = _show_runs(ended, as_json=as_json)
    if busy:
        raise busy[0]
    return shown


def _list_scheduled(settings: Settings, tenants: tuple[TenantId, ...]) -> tuple[TenantId, ...]:
    on = tuple(t for t in tenants if settings.for_tenant(t).scheduling.enabled)
    if not on:
        origin = settings.get_origin("scheduling.enabled")
        raise ConfigError(
            f"scheduling.enabled is false for every tenant asked for ({origin}); "
            "switch it on, or do one run with: stoker upkeep"
        )
    return on


def _show_runs(
    ended: list[tuple[TenantId, Run]], *, as_json: bool, empty: str = "nothing is due"
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
