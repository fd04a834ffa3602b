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
from stoker.cli.options import one_tenant, takes_tenant, working_tenant
from stoker.cli.output import (
    Exit,
    complain,
    pass_asked,
    run_async,
    say,
    show_json,
    show_table,
    takes_json,
)
from stoker.touches.report import (
    certificate_json,
    changes,
    queue_json,
    show_plan,
    show_queue,
    status_json,
    week_json,
)

if TYPE_CHECKING:
    from stoker.app import App
    from stoker.base.types import Json
    from stoker.cli.output import Asked
    from stoker.context import Store
    from stoker.settings import Settings
    from stoker.touches.profiles import ProfilesRead
    from stoker.touches.service import Touching


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One tenant's touches, opened."""

    app: App
    own: Settings
    store: Store
    touching: Touching
    directory: Path


@asynccontextmanager
async def desk(
    asked: Asked, tenant: str | None, *, only_to_read: bool = False, to_work: bool = False
) -> AsyncIterator[Desk]:
    """Open one tenant's touches. Those in a file of their own make no store.

    To work is to have something done for a tenant, and one that is switched off is refused it.
    """
    from stoker.touches.setup import touching_for

    in_file = _in_file(asked.settings(), tenant)
    async with asked.app(only_to_read=only_to_read or in_file) as app:
        whose = (working_tenant if to_work else one_tenant)(app.settings, tenant)
        own, store = app.settings.for_tenant(whose), app.backend.tenant(whose)
        touching = touching_for(
            store, own=own, clock=app.clock, directory=asked.directory, report=complain
        )
        yield Desk(
            app=app,
            own=own,
            store=store,
            touching=touching,
            directory=asked.directory,
        )


def _in_file(said: Settings, tenant: str | None) -> bool:
    """Say whether a tenant's touches are in a file, before any store is opened."""
    whose = tenant or said.default_tenant()
    own = next((said.for_tenant(each.id) for each in said.tenants if each.id == whose), said)
    return own.touches.state == "file"


MOST_SHOWN = 20


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what is due; hand nothing over.")
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Hand over at most so many.")
@takes_tenant
@takes_json
@pass_asked
def run(
    asked: Asked, dry_run: bool, limit: int | None, tenant: str | None, as_json: bool
) -> Exit | None:
    """Hand over what is due, the way touches.way says: a file, a webhook, Odoo."""
    return run_async(_run(asked, dry=dry_run, limit=limit, tenant=tenant, as_json=as_json))


async def _run(
    asked: Asked, *, dry: bool, limit: int | None, tenant: str | None, as_json: bool
) -> Exit | None:
    from stoker.touches.setup import handed_over, way_for

    async with desk(asked, tenant, to_work=not dry) as at:
        way = await way_for(
            at.store, own=at.own, connectors=at.app.connectors, directory=at.directory
        )
        told = await handed_over(
            at.store,
            at.touching,
            way,
            own=at.own,
            directory=at.directory,
            owner=at.app.owner,
            observer=at.app.observer,
            limit=limit,
            dry=dry,
        )
    if as_json:
        left: list[Json] = [touch.url for touch in told.left]
        show_json(
            {
                "tenant": at.store.tenant,
                "way": way.name,
                "dry_run": dry,
                "left": left,
                "refused": dict(told.refused),
                "later": dict(told.later),
                "waiting": told.waiting,
                "because": told.because,
            }
        )
    else:
        say(f"{len(told.left)} touches {'would leave' if dry else 'left'} by {way.name}")
        reasons = [*told.refused.items(), *told.later.items()]
        if reasons:
            show_table(["not handed over", "because"], reasons[:MOST_SHOWN])
        if told.waiting:
            say(f"{told.waiting} wait: {told.because}")
    return Exit.PROBLEMS if told.refused or told.later else None


@click.command("import")
@click.argument("source", metavar="[FILE.csv|ADDRESS]", required=False)
@click.option("--leads", is_flag=True, help="Take the tenant's own leads, by their websites.")
@takes_tenant
@takes_json
@pass_asked
def import_profiles(
    asked: Asked, source: str | None, leads: bool, tenant: str | None, as_json: bool
) -> Exit | None:
    """Read profiles from a CSV file, a shared sheet, or the tenant's leads.

    The first row names the columns: url, and name, last_done_at and status if they are known. A
    Google sheet is given by its address. Every row that is no profile is told, with its reason.
    """
    if (source is None) == (not leads):
        raise ConfigError("say one of: a CSV file, a sheet's address, or --leads")
    return run_async(_import(asked, source, tenant=tenant, as_json=as_json))


async def _import(
    asked: Asked, source: str | None, *, tenant: str | None, as_json: bool
) -> Exit | None:
    async with desk(asked, tenant) as at:
        read = await profiles_from(at, source)
        put = await at.touching.store.put_profiles(read.profiles)
    if as_json:
        show_json(
            {
                "tenant": at.store.tenant,
                "new": put.new,
                "changed": put.changed,
                "same": put.same,
                "bad": [{"where": each.where, "because": each.because} for each in read.bad],
            }
        )
    else:
        say(f"{put.new} profiles are new, {put.changed} changed, {put.same} as they were")
        say_bad(read)
    return Exit.PROBLEMS if read.bad else None


async def profiles_from(at: Desk, source: str | None) -> ProfilesRead:
    """Return what a file, a sheet or (None) the tenant's leads list."""
    from stoker.calendar.timezones import zone_named
    from stoker.touches.profile_import import profiles_at, profiles_file
    from stoker.touches.setup import leads_as_profiles

    if source is None:
        least = at.own.score.min_export
        return await leads_as_profiles(at.store.accounts, least=least)
    zone, now = zone_named(at.touching.zone), at.app.clock.now()
    if source.lower().startswith(("https://", "http://")):
        return await profiles_at(at.app.connectors.http(), source, zone=zone, now=now)
    return await profiles_file(at.directory / source, zone=zone, now=now)


def say_bad(read: ProfilesRead) -> None:
    """Print which rows were left out, and why."""
    if read.bad:
        say(f"{len(read.bad)} rows were left out:")
        show_table(
            ["row", "because"], [(each.where, each.because) for each in read.bad[:MOST_SHOWN]]
        )
    if len(read.bad) > MOST_SHOWN:
        say(f"and {len(read.bad) - MOST_SHOWN} more; see all of them with --json")


_takes_week = click.option("--week", metavar="WEEK", help="Like 2026-W07. Default: this week.")


@click.group()
def touches() -> None:
    """Stay in touch: a plan each week that forgets nobody, within the caps."""


touches.add_command(import_profiles)

touches.add_command(run)


@touches.command()
@_takes_week
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="What chance begins from.")
@click.option("--profiles", metavar="FILE.csv", help="Read these profiles first.")
@click.option("--dry-run", is_flag=True, help="Show what would change; keep nothing.")
@takes_tenant
@takes_json
@pass_asked
def plan(
    asked: Asked,
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
        _plan(asked, week, seed=seed, profiles=profiles, dry=dry_run, tenant=tenant, json=as_json)
    )


async def _plan(
    asked: Asked,
    week: str | None,
    *,
    seed: int | None,
    profiles: str | None,
    dry: bool,
    tenant: str | None,
    json: bool,
) -> Exit | None:
    async with desk(asked, tenant, only_to_read=dry, to_work=not dry) as at:
        read = await profiles_from(at, profiles) if profiles else None
        if read is not None:
            await at.touching.store.put_profiles(read.profiles)
        before = await at.touching.kept(week)
        if dry:
            made = await at.touching.planned(week, seed=seed)
        else:
            made = await at.touching.generate_weekly_plan(week, seed=seed)
    told = changes(before, made)
    if json:
        show_json({**week_json(at.store.tenant, made), "dry_run": dry, **told})
    else:
        show_plan(made)
        say(f"{told['added']} touches {'would be' if dry else 'are'} new, {told['dropped']} gone")
        if read is not None:
            say_bad(read)
    return Exit.PROBLEMS if read is not None and read.bad else None


@touches.command()
@_takes_week
@click.option("--ics", "kind", flag_value="ics", help="Print a calendar (iCalendar).")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV.")
@takes_tenant
@takes_json
@pass_asked
def show(
    asked: Asked, week: str | None, kind: str | None, tenant: str | None, as_json: bool
) -> None:
    """Show a week's plan and what came of it. Nothing is planned for it."""
    if as_json and kind:
        raise ConfigError(f"say one of --json and --{kind}")
    run_async(_show(asked, week, kind=kind, tenant=tenant, as_json=as_json))


async def _show(
    asked: Asked, week: str | None, *, kind: str | None, tenant: str | None, as_json: bool
) -> None:
    from stoker.touches.export import plan_csv, plan_ics

    async with desk(asked, tenant, only_to_read=True) as at:
        found = await at.touching.kept(week)
    if found is None:
        raise ConfigError("that week has no plan yet; make one with: stoker touches plan")
    if kind is not None:
        text = plan_ics(found) if kind == "ics" else plan_csv(found)
        click.echo(text.encode(), nl=False)
    elif as_json:
        show_json(week_json(at.store.tenant, found))
    else:
        show_plan(found, touches=True)


@touches.command()
@takes_tenant
@takes_json
@pass_asked
def today(asked: Asked, tenant: str | None, as_json: bool) -> None:
    """Show today's queue: planned, repaired from what happened, times fixed."""
    run_async(_today(asked, tenant=tenant, as_json=as_json))


async def _today(asked: Asked, *, tenant: str | None, as_json: bool) -> None:
    async with desk(asked, tenant) as at:
        waiting = await at.touching.get_todays_queue()
        allowed, why = await at.touching.check_limits()
    if as_json:
        show_json(queue_json(at.store.tenant, at.touching.today(), waiting, limits=why))
        return
    show_queue(waiting, zone=at.touching.zone)
    if not allowed:
        say(f"no more may be made now: {why}")


@touches.command()
@click.argument("url", metavar="URL")
@click.argument("outcome", metavar="OUTCOME")
@takes_tenant
@takes_json
@pass_asked
def mark(asked: Asked, url: str, outcome: str, tenant: str | None, as_json: bool) -> None:
    """Record what came of a touch: done, skipped, failed, already_reacted, no_posts.

    Saying it twice is saying it once. Only done is counted, and begins the wait anew.
    """
    run_async(_mark(asked, url, outcome, tenant=tenant, as_json=as_json))


async def _mark(asked: Asked, url: str, outcome: str, *, tenant: str | None, as_json: bool) -> None:
    async with desk(asked, tenant) as at:
        news = await at.touching.mark_outcome(url, outcome)
    if as_json:
        show_json({"tenant": at.store.tenant, "url": url, "outcome": outcome, "changed": news})
    else:
        say(f"{url} is {outcome}" if news else f"{url} was {outcome} already")


@touches.command()
@takes_tenant
@takes_json
@pass_asked
def status(asked: Asked, tenant: str | None, as_json: bool) -> None:
    """Show what is used of each limit, and whether this week has a plan."""
    run_async(_status(asked, tenant=tenant, as_json=as_json))


async def _status(asked: Asked, *, tenant: str | None, as_json: bool) -> None:
    async with desk(asked, tenant, only_to_read=True) as at:
        told = await at.touching.status()
        allowed, why = await at.touching.check_limits()
    if as_json:
        show_json(status_json(at.store.tenant, told, limits=why))
        return
    rows = [(kind, told.counters.used(kind), most) for kind, most in told.limits.items()]
    show_table(["per", "used", "limit"], rows)
    say(f"week {told.week} has {'a' if told.has_plan else 'no'} plan")
    say("one more may be made now" if allowed else f"no more may be made now: {why}")


@touches.command()
@click.option(
    "--runs", type=click.IntRange(1, 10_000), default=200, show_default=True, help="Rehearsals."
)
@takes_tenant
@takes_json
@pass_asked
def certify(asked: Asked, runs: int, tenant: str | None, as_json: bool) -> Exit | None:
    """Say what can be promised: whether the budgets suffice, and how likely a longer wait is."""
    return run_async(_certify(asked, runs=runs, tenant=tenant, as_json=as_json))


async def _certify(asked: Asked, *, runs: int, tenant: str | None, as_json: bool) -> Exit | None:
    async with desk(asked, tenant, only_to_read=True) as at:
        usual = at.own.touches.success_rate
        told = await at.touching.certified(usual=usual, runs=runs)
    if as_json:
        show_json(certificate_json(at.store.tenant, told))
    else:
        say(told.sentence)
    return None if told.feasibility.feasible else Exit.PROBLEMS
