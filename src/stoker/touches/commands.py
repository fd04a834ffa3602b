"""`stoker touches`: profiles, the week's plan, today's queue, delivery, outcomes, coverage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count
from stoker.cli.options import COUNT, SEED, choose_active_tenant, choose_tenant, tenant_option
from stoker.cli.output import (
    Exit,
    async_command,
    json_option,
    pass_context,
    print_error,
    print_file,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.cli.output import CommandContext
    from stoker.context import TenantContext
    from stoker.settings import Settings
    from stoker.touches.model import Touch, WeeklyPlan
    from stoker.touches.planning.coverage import Certificate
    from stoker.touches.profiles import ParsedProfiles
    from stoker.touches.service import TouchService

MAX_ERRORS_SHOWN = 20

MAX_TOUCHES_SHOWN = 200

_week_option = click.option("--week", metavar="WEEK", help="Like 2026-W07. Default: this week.")


@dataclass(frozen=True, kw_only=True)
class TouchContext:
    """One tenant's touches, opened."""

    tenant: TenantContext
    service: TouchService


@asynccontextmanager
async def open_touches(
    ctx: CommandContext, tenant: str | None, *, only_to_read: bool = False, to_work: bool = False
) -> AsyncIterator[TouchContext]:
    """Open one tenant's touches. Those in a file of their own make no store.

    `to_work` refuses a tenant that is switched off.
    """
    from stoker.touches.setup import build_touch_service

    in_file = _is_in_file(ctx.read_settings(), tenant)
    async with ctx.open_app(only_to_read=only_to_read or in_file) as app:
        tenant_id = (choose_active_tenant if to_work else choose_tenant)(app.settings, tenant)
        context = app.for_tenant(tenant_id)
        service = build_touch_service(context, report=print_error)
        yield TouchContext(tenant=context, service=service)


def _is_in_file(settings: Settings, tenant: str | None) -> bool:
    """Return whether a tenant's touches are in a file, before any store is opened."""
    tenant_id = tenant or settings.find_default_tenant()
    known = [settings.for_tenant(each.id) for each in settings.tenants if each.id == tenant_id]
    return (known[0] if known else settings).touches.state == "file"


@click.group()
def touches() -> None:
    """Plan each week whom to contact, within limits; record outcomes."""


@touches.command("import")
@click.argument("source", metavar="[FILE.csv|ADDRESS]", required=False)
@click.option("--leads", is_flag=True, help="Import the tenant's own leads, by their websites.")
@tenant_option
@json_option
@pass_context
@async_command
async def import_profiles(
    ctx: CommandContext, source: str | None, leads: bool, tenant: str | None, as_json: bool
) -> Exit | None:
    """Import profiles from a CSV file, a shared sheet, or the tenant's leads.

    The first row names the columns: url, and optionally name, person, channel, last_done_at and
    status; those that are not used are named. A Google sheet is given by its address. Invalid rows
    are listed with their reasons.
    """
    if (source is None) == (not leads):
        raise ConfigError("say one of: a CSV file, a sheet's address, or --leads")
    from stoker.touches.setup import read_profiles

    async with open_touches(ctx, tenant) as opened:
        parsed = await read_profiles(opened.tenant, source)
        counts = await opened.service.store.save_profiles(
            parsed.profiles, keep_status=not parsed.has_status
        )
    if as_json:
        print_json(
            {
                "tenant": opened.tenant.id,
                "new": counts.new,
                "changed": counts.changed,
                "same": counts.same,
                "bad": [{"where": each.where, "because": each.reason} for each in parsed.bad_rows],
                **_columns_to_json(parsed),
            }
        )
    else:
        print_text(
            f"{format_count(counts.new, 'profile')} new, {counts.changed} changed, "
            f"{counts.same} unchanged"
        )
        _print_bad_rows(parsed)
    return Exit.PROBLEMS if parsed.bad_rows else None


def _columns_to_json(parsed: ParsedProfiles) -> dict[str, Json]:
    if parsed.columns is None:
        return {}
    return {
        "columns_used": list(parsed.columns.used),
        "columns_not_used": list(parsed.columns.unused),
    }


def _print_bad_rows(parsed: ParsedProfiles) -> None:
    bad = parsed.bad_rows
    if parsed.columns is not None:
        print_text(parsed.columns.format_text())
    if bad:
        print_text(f"{format_count(len(bad), 'row')} rejected:")
        print_table(
            ["row", "because"], [(each.where, each.reason) for each in bad[:MAX_ERRORS_SHOWN]]
        )
    _print_more(bad, MAX_ERRORS_SHOWN)


def _print_more(values: Sequence[Any], shown: int) -> None:
    if len(values) > shown:
        print_text(f"and {len(values) - shown} more; --json has all")


@touches.command()
@_week_option
@click.option("--seed", type=SEED, metavar="N", help="Seed of the random numbers.")
@click.option("--profiles", metavar="FILE.csv", help="Import these profiles first.")
@click.option("--dry-run", is_flag=True, help="Show what would change; store nothing.")
@tenant_option
@json_option
@pass_context
@async_command
async def plan(
    ctx: CommandContext,
    week: str | None,
    seed: int | None,
    profiles: str | None,
    dry_run: bool,
    tenant: str | None,
    as_json: bool,
) -> Exit | None:
    """Plan a week, and show what changed.

    A week that has a plan keeps what was delivered and its outcomes; the rest is planned again.
    """
    if dry_run and profiles:
        raise ConfigError("--dry-run keeps nothing, and --profiles would be kept; say one of them")
    from stoker.touches.setup import read_profiles

    async with open_touches(ctx, tenant, only_to_read=dry_run, to_work=not dry_run) as opened:
        service = opened.service
        parsed = await read_profiles(opened.tenant, profiles) if profiles else None
        if parsed is not None:
            await service.store.save_profiles(parsed.profiles, keep_status=not parsed.has_status)
        before = await service.find_plan(week)
        make = service.preview_week if dry_run else service.generate_weekly_plan
        after = await make(week, seed=seed)
    old = before.keys if before else frozenset()
    added, dropped = len(after.keys - old), len(old - after.keys)
    if as_json:
        changes = {"dry_run": dry_run, "added": added, "dropped": dropped}
        print_json({**_week_to_json(opened, after), **changes})
    else:
        _print_week(after)
        would = "would be " if dry_run else ""
        print_text(f"{format_count(added, 'touch')} {would}added, {dropped} {would}removed.")
        if parsed is not None:
            _print_bad_rows(parsed)
    return Exit.PROBLEMS if parsed is not None and parsed.bad_rows else None


def _week_to_json(opened: TouchContext, plan: WeeklyPlan) -> dict[str, Json]:
    from stoker.touches.export import plan_to_json

    return {"tenant": opened.tenant.id, "week": plan.week, **plan_to_json(plan)}


def _print_week(plan: WeeklyPlan) -> None:
    planned = sum(len(slot.touches) for slot in plan.days)
    print_text(
        f"Week {plan.week}: {format_count(planned, 'touch')} planned, budget {plan.total}, "
        f"seed {plan.seed}, times in {plan.zone}"
    )
    rows = [
        (
            f"{slot.day:%a %Y-%m-%d}",
            slot.budget,
            len(slot.touches),
            slot.completed,
            "burst" if slot.burst else "",
        )
        for slot in plan.days
    ]
    print_table(["day", "budget", "planned", "done", ""], rows)
    for note in plan.notes:
        print_text(note.message)


def _print_queue(queue: Sequence[Touch], *, zone: str) -> None:
    from stoker.calendar.timezones import get_zone

    rows = [
        (
            f"{touch.at.astimezone(get_zone(zone)):%a %H:%M}",
            touch.who,
            touch.channel,
            touch.url,
            "never" if touch.days_since is None else touch.days_since,
            touch.reason,
            touch.status,
        )
        for touch in queue[:MAX_TOUCHES_SHOWN]
    ]
    print_table(["at", "who", "channel", "url", "days since", "", "status"], rows)
    _print_more(queue, MAX_TOUCHES_SHOWN)


@touches.command()
@_week_option
@click.option("--ics", "kind", flag_value="ics", help="Print a calendar (iCalendar).")
@click.option("--csv", "kind", flag_value="csv", help="Print CSV.")
@tenant_option
@json_option
@pass_context
@async_command
async def show(
    ctx: CommandContext, week: str | None, kind: str | None, tenant: str | None, as_json: bool
) -> None:
    """Show a week's plan and outcomes. Plans nothing."""
    if as_json and kind:
        raise ConfigError(f"say one of --json and --{kind}")
    from stoker.touches.export import plan_to_csv, plan_to_ics

    async with open_touches(ctx, tenant, only_to_read=True) as opened:
        found = await opened.service.find_plan(week)
    if found is None:
        raise ConfigError("that week has no plan yet; make one with: stoker touches plan")
    if kind is not None:
        print_file(plan_to_ics(found) if kind == "ics" else plan_to_csv(found))
    elif as_json:
        print_json(_week_to_json(opened, found))
    else:
        _print_week(found)
        print_text()
        _print_queue([touch for slot in found.days for touch in slot.touches], zone=found.zone)


@touches.command()
@tenant_option
@json_option
@pass_context
@async_command
async def today(ctx: CommandContext, tenant: str | None, as_json: bool) -> None:
    """Show today's queue, replanned from what happened; its times are then fixed."""
    from stoker.touches.export import touch_to_json

    async with open_touches(ctx, tenant) as opened:
        queue = await opened.service.get_todays_queue()
        allowed, reason = await opened.service.check_limits()
    if as_json:
        print_json(
            {
                "tenant": opened.tenant.id,
                "day": opened.service.today().isoformat(),
                "limits": reason,
                "touches": [touch_to_json(touch) for touch in queue],
            }
        )
        return
    _print_queue(queue, zone=opened.service.zone)
    if not allowed:
        print_text(f"No more touches allowed now: {reason}.")


@touches.command()
@click.option("--dry-run", is_flag=True, help="Show what is due; deliver nothing.")
@click.option("--limit", type=COUNT, metavar="N", help="Deliver at most N.")
@tenant_option
@json_option
@pass_context
@async_command
async def run(
    ctx: CommandContext, dry_run: bool, limit: int | None, tenant: str | None, as_json: bool
) -> Exit | None:
    """Deliver due touches through touches.way: a file, a webhook, or Odoo."""
    from stoker.touches.setup import open_channel, run_delivery

    async with open_touches(ctx, tenant, to_work=not dry_run) as opened:
        channel = await open_channel(opened.tenant)
        result = await run_delivery(
            opened.tenant, opened.service, channel, limit=limit, dry=dry_run
        )
    if as_json:
        print_json(
            {
                "tenant": opened.tenant.id,
                "way": channel.name,
                "dry_run": dry_run,
                "left": [touch.url for touch in result.delivered],
                "refused": dict(result.refused),
                "later": dict(result.postponed),
                "waiting": result.waiting,
                "because": result.waiting_reason,
            }
        )
    else:
        verb = "would be delivered" if dry_run else "delivered"
        print_text(f"{format_count(len(result.delivered), 'touch')} {verb} by {channel.name}.")
        reasons = [*result.refused.items(), *result.postponed.items()]
        if reasons:
            print_table(["not delivered", "because"], reasons[:MAX_ERRORS_SHOWN])
        if result.waiting:
            print_text(f"{result.waiting} waiting: {result.waiting_reason}")
    return Exit.PROBLEMS if result.refused or result.postponed else None


@touches.command()
@click.argument("url", metavar="URL")
@click.argument("outcome", metavar="OUTCOME")
@tenant_option
@json_option
@pass_context
@async_command
async def mark(
    ctx: CommandContext, url: str, outcome: str, tenant: str | None, as_json: bool
) -> None:
    """Record the outcome of a touch: done, skipped, failed, already_reacted, no_posts.

    Safe to repeat. Only done counts as a touch and restarts the wait.
    """
    async with open_touches(ctx, tenant) as opened:
        changed = await opened.service.mark_outcome(url, outcome)
    if as_json:
        values: dict[str, Json] = {"url": url, "outcome": outcome, "changed": changed}
        print_json({"tenant": opened.tenant.id, **values})
    else:
        print_text(f"{url} is {outcome}" if changed else f"{url} was {outcome} already")


@touches.command()
@tenant_option
@json_option
@pass_context
@async_command
async def status(ctx: CommandContext, tenant: str | None, as_json: bool) -> None:
    """Show how much of each limit is used, and whether this week has a plan."""
    async with open_touches(ctx, tenant, only_to_read=True) as opened:
        found = await opened.service.status()
        allowed, reason = await opened.service.check_limits()
    rows = [(str(kind), found.used[kind], limit) for kind, limit in found.limits.items()]
    if as_json:
        print_json(
            {
                "tenant": opened.tenant.id,
                "week": found.week,
                "has_plan": found.has_plan,
                "limits": reason,
                "counters": {kind: {"used": used, "limit": limit} for kind, used, limit in rows},
            }
        )
        return
    print_table(["per", "used", "limit"], rows)
    print_text(f"Week {found.week} has {'a' if found.has_plan else 'no'} plan.")
    print_text("Touches are allowed now." if allowed else f"No more touches allowed now: {reason}.")


@touches.command()
@click.option(
    "--runs", type=click.IntRange(1, 10_000), default=200, show_default=True, help="Simulated runs."
)
@tenant_option
@json_option
@pass_context
@async_command
async def certify(ctx: CommandContext, runs: int, tenant: str | None, as_json: bool) -> Exit | None:
    """Show whether the budgets reach everyone in time, and how likely a longer wait is."""
    async with open_touches(ctx, tenant, only_to_read=True) as opened:
        certificate = await opened.service.compute_certificate(runs=runs)
    if as_json:
        print_json({"tenant": opened.tenant.id, **_certificate_to_json(certificate)})
    else:
        for line in certificate.message.splitlines():
            print_text(line)
    return None if certificate.feasibility.feasible else Exit.PROBLEMS


def _certificate_to_json(certificate: Certificate) -> dict[str, Json]:
    from dataclasses import asdict

    found = certificate.feasibility
    return {
        "profiles": certificate.profiles,
        "feasible": found.feasible,
        "failing_day": found.failing_day.isoformat() if found.failing_day else None,
        "shortfall": found.shortfall,
        "smallest_weekly": found.smallest_weekly,
        "window_days": certificate.window.days,
        "weeks": certificate.weeks,
        "runs": certificate.runs,
        "success_rate": certificate.success_rate,
        "one_waits": asdict(certificate.one_waits),
        "any_waits": asdict(certificate.any_waits),
    }
