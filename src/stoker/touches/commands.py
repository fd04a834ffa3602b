"""`stoker touches`: this week's plan, today's queue, what came of it, and what can be promised.

Whose touches a command is about, opened: where they are kept, and with which settings.

`stoker touches run`: due touches leave, to a file, a webhook or a CRM.

`stoker touches import`: profiles from a file, a shared sheet, or the tenant's own leads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.cli.options import choose_active_tenant, choose_tenant, tenant_option
from stoker.cli.output import (
    Exit,
    json_option,
    pass_context,
    print_error,
    print_json,
    print_table,
    print_text,
    run_async,
)
from stoker.touches.report import (
    count_changes,
    print_queue,
    print_week,
    to_certificate_json,
    to_queue_json,
    to_status_json,
    to_week_json,
)

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.base.types import Json
    from stoker.cli.output import CommandContext
    from stoker.context import TenantStores
    from stoker.settings import Settings
    from stoker.touches.profiles import ParsedProfiles
    from stoker.touches.service import TouchService


@dataclass(frozen=True, kw_only=True)
class TouchContext:
    """One tenant's touches, opened."""

    app: App
    settings: Settings
    store: TenantStores
    service: TouchService
    directory: Path


@asynccontextmanager
async def open_touches(
    asked: CommandContext, tenant: str | None, *, only_to_read: bool = False, to_work: bool = False
) -> AsyncIterator[TouchContext]:
    """Open one tenant's touches. Those in a file of their own make no store.

    To work is to have something done for a tenant, and one that is switched off is refused it.
    """
    from stoker.touches.setup import build_touch_service

    in_file = _is_in_file(asked.read_settings(), tenant)
    async with asked.open_app(only_to_read=only_to_read or in_file) as app:
        whose = (choose_active_tenant if to_work else choose_tenant)(app.settings, tenant)
        own, store = app.settings.for_tenant(whose), app.backend.tenant(whose)
        touching = build_touch_service(
            store, own=own, clock=app.clock, directory=asked.directory, report=print_error
        )
        yield TouchContext(
            app=app,
            settings=own,
            store=store,
            service=touching,
            directory=asked.directory,
        )


def _is_in_file(said: Settings, tenant: str | None) -> bool:
    """Say whether a tenant's touches are in a file, before any store is opened."""
    whose = tenant or said.find_default_tenant()
    own = next((said.for_tenant(each.id) for each in said.tenants if each.id == whose), said)
    return own.touches.state == "file"


MAX_ERRORS_SHOWN = 20


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what is due; hand nothing over.")
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Hand over at most so many.")
@tenant_option
@json_option
@pass_context
def run(
    asked: CommandContext, dry_run: bool, limit: int | None, tenant: str | None, as_json: bool
) -> Exit | None:
    """Hand over what is due, the way touches.way says: a file, a webhook, Odoo."""
    return run_async(_deliver_due(asked, dry=dry_run, limit=limit, tenant=tenant, as_json=as_json))


async def _deliver_due(
    asked: CommandContext, *, dry: bool, limit: int | None, tenant: str | None, as_json: bool
) -> Exit | None:
    from stoker.touches.setup import open_channel, run_delivery

    async with open_touches(asked, tenant, to_work=not dry) as at:
        way = await open_channel(
            at.store, own=at.settings, connectors=at.app.connectors, directory=at.directory
        )
        told = await run_delivery(
            at.store,
            at.service,
            way,
            own=at.settings,
            directory=at.directory,
            owner=at.app.owner,
            observer=at.app.observer,
            limit=limit,
            dry=dry,
        )
    if as_json:
        left: list[Json] = [touch.url for touch in told.delivered]
        print_json(
            {
                "tenant": at.store.tenant,
                "way": way.name,
                "dry_run": dry,
                "left": left,
                "refused": dict(told.refused),
                "later": dict(told.postponed),
                "waiting": told.waiting,
                "because": told.waiting_reason,
            }
        )
    else:
        print_text(
            f"{len(told.delivered)} touches {'would leave' if dry else 'left'} by {way.name}"
        )
        reasons = [*told.refused.items(), *told.postponed.items()]
        if reasons:
            print_table(["not handed over", "because"], reasons[:MAX_ERRORS_SHOWN])
        if told.waiting:
            print_text(f"{told.waiting} wait: {told.waiting_reason}")
    return Exit.PROBLEMS if told.refused or told.postponed else None


@click.command("import")
@click.argument("source", metavar="[FILE.csv|ADDRESS]", required=False)
@click.option("--leads", is_flag=True, help="Take the tenant's own leads, by their websites.")
@tenant_option
@json_option
@pass_context
def import_profiles(
    asked: CommandContext, source: str | None, leads: bool, tenant: str | None, as_json: bool
) -> Exit | None:
    """Read profiles from a CSV file, a shared sheet, or the tenant's leads.

    The first row names the columns: url, and name, last_done_at and status if they are known. A
    Google sheet is given by its address. Every row that is no profile is told, with its reason.
    """
    if (source is None) == (not leads):
        raise ConfigError("say one of: a CSV file, a sheet's address, or --leads")
    return run_async(_import_profiles(asked, source, tenant=tenant, as_json=as_json))


async def _import_profiles(
    asked: CommandContext, source: str | None, *, tenant: str | None, as_json: bool
) -> Exit | None:
    async with open_touches(asked, tenant) as at:
        read = await read_profiles(at, source)
        put = await at.service.store.save_profiles(read.profiles)
    if as_json:
        print_json(
            {
                "tenant": at.store.tenant,
                "new": put.new,
                "changed": put.changed,
                "same": put.same,
                "bad": [{"where": each.where, "because": each.reason} for each in read.bad_rows],
            }
        )
    else:
        print_text(f"{put.new} profiles are new, {put.changed} changed, {put.same} as they were")
        print_rejected(read)
    return Exit.PROBLEMS if read.bad_rows else None


async def read_profiles(at: TouchContext, source: str | None) -> ParsedProfiles:
    """Return what a file, a sheet or (None) the tenant's leads list."""
    from stoker.calendar.timezones import get_zone
    from stoker.touches.profile_import import fetch_profiles, read_profiles_file
    from stoker.touches.setup import read_leads_as_profiles

    if source is None:
        least = at.settings.score.min_export
        return await read_leads_as_profiles(at.store.accounts, least=least)
    zone, now = get_zone(at.service.zone), at.app.clock.now()
    if source.lower().startswith(("https://", "http://")):
        return await fetch_profiles(at.app.connectors.http(), source, zone=zone, now=now)
    return await read_profiles_file(at.directory / source, zone=zone, now=now)


def print_rejected(read: ParsedProfiles) -> None:
    """Print which rows were left out, and why."""
    if read.bad_rows:
        print_text(f"{len(read.bad_rows)} rows were left out:")
        print_table(
            ["row", "because"],
            [(each.where, each.reason) for each in read.bad_rows[:MAX_ERRORS_SHOWN]],
        )
    if len(read.bad_rows) > MAX_ERRORS_SHOWN:
        print_text(f"and {len(read.bad_rows) - MAX_ERRORS_SHOWN} more; see all of them with --json")


_week_option = click.option("--week", metavar="WEEK", help="Like 2026-W07. Default: this week.")


@click.group()
def touches() -> None:
    """Stay in touch: a plan each week that forgets nobody, within the caps."""


touches.add_command(import_profiles)

touches.add_command(run)


@touches.command()
@_week_option
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="What chance begins from.")
@click.option("--profiles", metavar="FILE.csv", help="Read these profiles first.")
@click.option("--dry-run", is_flag=True, help="Show what would change; keep nothing.")
@tenant_option
@json_option
@pass_context
def plan(
    asked: CommandContext,
    week: str | None,
    seed: int | None,
    profiles: str | None,
    dry_run: bool,
    tenant: str | None,
    as_json: bool,
) -> Exit | None:
    """Plan a week, and say what changed.

    A week that has a plan keeps what was handed out and what came of it; the rest is planned anew.
    """
    if dry_run and profiles:
        raise ConfigError("--dry-run keeps nothing, and --profiles would be kept; say one of them")
    return run_async(
        _plan_week(
            asked, week, seed=seed, profiles=profiles, dry=dry_run, tenant=tenant, json=as_json
        )
    )


async def _plan_week(
    asked: CommandContext,
    week: str | None,
    *,
    seed: int | None,
    profiles: str | None,
    dry: bool,
    tenant: str | None,
    json: bool,
) -> Exit | None:
    async with open_touches(asked, tenant, only_to_read=dry, to_work=not dry) as at:
        read = await read_profiles(at, profiles) if profiles else None
        if read is not None:
            await at.service.store.save_profiles(read.profiles)
        before = await at.service.find_plan(week)
        if dry:
            made = await at.service.preview_week(week, seed=seed)
        else:
            made = await at.service.generate_weekly_plan(week, seed=seed)
    told = count_changes(before, made)
    if json:
        print_json({**to_week_json(at.store.tenant, made), "dry_run": dry, **told})
    else:
        print_week(made)
        print_text(
            f"{told['added']} touches {'would be' if dry else 'are'} new, {told['dropped']} gone"
        )
        if read is not None:
            print_rejected(read)
    return Exit.PROBLEMS if read is not None and read.bad_rows else None


@touches.command()
@_week_option
@click.option("--ics", "kind", flag_value="ics", help="Print a calendar (iCalendar).")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV.")
@tenant_option
@json_option
@pass_context
def show(
    asked: CommandContext, week: str | None, kind: str | None, tenant: str | None, as_json: bool
) -> None:
    """Show a week's plan and what came of it. Nothing is planned for it."""
    if as_json and kind:
        raise ConfigError(f"say one of --json and --{kind}")
    run_async(_show_week(asked, week, kind=kind, tenant=tenant, as_json=as_json))


async def _show_week(
    asked: CommandContext, week: str | None, *, kind: str | None, tenant: str | None, as_json: bool
) -> None:
    from stoker.touches.export import plan_to_csv, plan_to_ics

    async with open_touches(asked, tenant, only_to_read=True) as at:
        found = await at.service.find_plan(week)
    if found is None:
        raise ConfigError("that week has no plan yet; make one with: stoker touches plan")
    if kind is not None:
        text = plan_to_ics(found) if kind == "ics" else plan_to_csv(found)
        click.echo(text.encode(), nl=False)
    elif as_json:
        print_json(to_week_json(at.store.tenant, found))
    else:
        print_week(found, touches=True)


@touches.command()
@tenant_option
@json_option
@pass_context
def today(asked: CommandContext, tenant: str | None, as_json: bool) -> None:
    """Show today's queue: planned, repaired from what happened, times fixed."""
    run_async(_show_today(asked, tenant=tenant, as_json=as_json))


async def _show_today(asked: CommandContext, *, tenant: str | None, as_json: bool) -> None:
    async with open_touches(asked, tenant) as at:
        waiting = await at.service.get_todays_queue()
        allowed, why = await at.service.check_limits()
    if as_json:
        print_json(to_queue_json(at.store.tenant, at.service.today(), waiting, limits=why))
        return
    print_queue(waiting, zone=at.service.zone)
    if not allowed:
        print_text(f"no more may be made now: {why}")


@touches.command()
@click.argument("url", metavar="URL")
@click.argument("outcome", metavar="OUTCOME")
@tenant_option
@json_option
@pass_context
def mark(asked: CommandContext, url: str, outcome: str, tenant: str | None, as_json: bool) -> None:
    """Record what came of a touch: done, skipped, failed, already_reacted, no_posts.

    Saying it twice is saying it once. Only done is counted, and begins the wait anew.
    """
    run_async(_mark_outcome(asked, url, outcome, tenant=tenant, as_json=as_json))


async def _mark_outcome(
    asked: CommandContext, url: str, outcome: str, *, tenant: str | None, as_json: bool
) -> None:
    async with open_touches(asked, tenant) as at:
        news = await at.service.mark_outcome(url, outcome)
    if as_json:
        print_json({"tenant": at.store.tenant, "url": url, "outcome": outcome, "changed": news})
    else:
        print_text(f"{url} is {outcome}" if news else f"{url} was {outcome} already")


@touches.command()
@tenant_option
@json_option
@pass_context
def status(asked: CommandContext, tenant: str | None, as_json: bool) -> None:
    """Show what is used of each limit, and whether this week has a plan."""
    run_async(_show_status(asked, tenant=tenant, as_json=as_json))


async def _show_status(asked: CommandContext, *, tenant: str | None, as_json: bool) -> None:
    async with open_touches(asked, tenant, only_to_read=True) as at:
        told = await at.service.status()
        allowed, why = await at.service.check_limits()
    if as_json:
        print_json(to_status_json(at.store.tenant, told, limits=why))
        return
    rows = [(kind, told.counters.get_used(kind), most) for kind, most in told.limits.items()]
    print_table(["per", "used", "limit"], rows)
    print_text(f"week {told.week} has {'a' if told.has_plan else 'no'} plan")
    print_text("one more may be made now" if allowed else f"no more may be made now: {why}")


@touches.command()
@click.option(
    "--runs", type=click.IntRange(1, 10_000), default=200, show_default=True, help="Rehearsals."
)
@tenant_option
@json_option
@pass_context
def certify(asked: CommandContext, runs: int, tenant: str | None, as_json: bool) -> Exit | None:
    """Say what can be promised: whether the budgets suffice, and how likely a longer wait is."""
    return run_async(_certify_coverage(asked, runs=runs, tenant=tenant, as_json=as_json))


async def _certify_coverage(
    asked: CommandContext, *, runs: int, tenant: str | None, as_json: bool
) -> Exit | None:
    async with open_touches(asked, tenant, only_to_read=True) as at:
        told = await at.service.compute_certificate(runs=runs)
    if as_json:
        print_json(to_certificate_json(at.store.tenant, told))
    else:
        print_text(told.message)
    return None if told.feasibility.feasible else Exit.PROBLEMS
