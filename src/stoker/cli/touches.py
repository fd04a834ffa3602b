"""`stoker touches`: this week's plan, today's queue, what came of it, and what can be promised."""

from __future__ import annotations

import click

from stoker.cli.output import (
    Asked,
    Exit,
    pass_asked,
    run_async,
    say,
    show_json,
    show_table,
    takes_json,
)
from stoker.cli.tenants import takes_tenant
from stoker.cli.touch_desk import desk
from stoker.cli.touch_importing import import_profiles, profiles_from, say_bad
from stoker.cli.touch_running import run
from stoker.cli.touch_showing import (
    certificate_json,
    changes,
    queue_json,
    show_plan,
    show_queue,
    status_json,
    week_json,
)
from stoker.errors import ConfigError

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
    from stoker.core.coverage.writing import plan_csv, plan_ics

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
