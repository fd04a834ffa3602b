"""`stoker heat` and `stoker signals import`: how hot accounts are, why, and how that changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count, format_duration, format_time
from stoker.cli.options import (
    choose_active_tenants,
    choose_tenant,
    choose_tenants,
    limit_option,
    parse_account,
    tenant_option,
    tenants_option,
)
from stoker.cli.output import (
    Exit,
    async_command,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
    to_run_exit,
)
from stoker.runs.model import RunState

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.heat.model import AccountHeat, DailyHeat, Factors, Signal
    from stoker.heat.settings import HeatSettings

MAX_ERRORS_PRINTED = 20

_MAX_SIGNALS_SHOWN = 10

_ALL_DAYS = 10_000  # more than heat.history_days allows


@click.group()
def signals() -> None:
    """Import what happened at accounts."""


@signals.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@tenant_option
@json_option
@pass_context
@async_command
async def import_file(
    asked: CommandContext, file: Path, tenant: str | None, as_json: bool
) -> Exit | None:
    """Import signals from FILE: CSV, or JSON lines when it ends in .jsonl.

    Columns: account and at; optionally strength (0 to 1, default 1), source and id. The same row
    counts once, so a file can be imported again. Invalid rows are listed.
    """
    from stoker.calendar.timezones import get_zone
    from stoker.heat.service import import_signals, read_signal_rows

    async with asked.open_app() as app:
        whose = choose_tenant(app.settings, tenant)
        own = app.settings.for_tenant(whose)
        done = await import_signals(
            app.backend.tenant(whose),
            read_signal_rows(asked.directory / file),
            heat=own.heat,
            zone=get_zone(own.scheduling.timezone),
            clock=app.clock,
        )
    if as_json:
        print_json(
            {
                "tenant": whose,
                "new": done.new,
                "known": done.known,
                "accounts": len(done.accounts),
                "bad": done.rejected,
                "rows": [{"line": line, "because": because} for line, because in done.errors],
            }
        )
        return Exit.PROBLEMS if done.rejected else None
    print_text(
        f"{format_count(done.new, 'new signal')} for "
        f"{format_count(len(done.accounts), 'account')} of {whose}; {done.known} already known"
    )
    if done.rejected:
        print_text(f"{format_count(done.rejected, 'row')} rejected:")
        print_table(["line", "reason"], done.errors[:MAX_ERRORS_PRINTED])
    if done.rejected > MAX_ERRORS_PRINTED:
        print_text(f"and {done.rejected - MAX_ERRORS_PRINTED} more; list all with --json")
    return Exit.PROBLEMS if done.rejected else None


_NO_HEAT = (
    "no account has a heat yet; find companies that match the ICP with: stoker nightly --plan, "
    "then compute heat with: stoker heat sweep"
)


@click.group()
def heat() -> None:
    """Show which accounts are hot, and why."""


@heat.command()
@tenants_option
@click.option(
    "--tier", type=click.Choice(["HOT", "WARM", "COLD"], case_sensitive=False), help="Only these."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Show at most this many accounts.",
)
@json_option
@pass_context
@async_command
async def top(
    asked: CommandContext, tenants: tuple[str, ...], tier: str | None, limit: int, as_json: bool
) -> None:
    """List the hottest accounts."""
    from stoker.heat.heat import score_heats, split_score
    from stoker.heat.model import Tier

    found: list[tuple[TenantId, AccountHeat]] = []
    rules: dict[TenantId, HeatSettings] = {}
    async with asked.open_app(only_to_read=True) as app:
        for tenant in choose_tenants(app.settings, tenants):
            rules[tenant] = own = app.settings.for_tenant(tenant).heat
            heats = await app.backend.tenant(tenant).heat.list_hottest(
                limit=limit, tier=Tier(tier.upper()) if tier else None
            )
            now = score_heats(heats, now=app.clock.now(), rule=own)
            found += [(tenant, each) for each in now]
        found.sort(key=lambda pair: (-pair[1].score, pair[0], pair[1].account))
        found = found[:limit]
        names = {
            tenant: await app.backend.tenant(tenant).accounts.find_names(
                each.account for whose, each in found if whose == tenant
            )
            for tenant in {tenant for tenant, _ in found}
        }
    if as_json:
        print_json(
            [
                {**_to_heat_json(tenant, each), "name": names[tenant].get(each.account, "")}
                for tenant, each in found
            ]
        )
        return
    print_table(
        ["heat", "tier", "tenant", "account", "name", "fit", "signals", "last signal"],
        [
            (
                f"{each.score:.2f}",
                each.tier.value,
                tenant,
                each.account,
                names[tenant].get(each.account, ""),
                *(f"{part:.2f}" for part in split_score(each, rule=rules[tenant])),
                f"{each.state.latest[0]:%d %b %H:%M}" if each.state.latest else "none",
            )
            for tenant, each in found
        ],
        empty=_NO_HEAT,
    )
    if found:
        tenant, first = found[0]
        print_text(
            "Heat is 0 to 1: what the fit (posture) and the signals add; times are UTC. "
            f"One account: stoker heat show {tenant}/{first.account}"
        )


@heat.command()
@click.argument("account", metavar="[TENANT/]ACCOUNT")
@json_option
@pass_context
@async_command
async def show(asked: CommandContext, account: str, as_json: bool) -> None:
    """Show one account's heat, its factors and its latest signals."""
    from stoker.heat.heat import score_heat, split_score

    async with asked.open_app(only_to_read=True) as app:
        tenant, company = parse_account(app.settings, account)
        own = app.settings.for_tenant(tenant).heat
        attention = app.backend.tenant(tenant).heat
        found = await attention.find_heat(company)
        if found is not None:
            found = score_heat(found, now=app.clock.now(), rule=own)
        signals = await attention.list_signals(company, limit=_MAX_SIGNALS_SHOWN)
        name = (await app.backend.tenant(tenant).accounts.find_names([company])).get(company, "")
    if found is None:
        raise ConfigError(
            f"{company} has no heat for {tenant} yet; compute it with: stoker heat sweep"
        )
    if as_json:
        print_json(
            {
                **_to_heat_json(tenant, found),
                "name": name,
                "signals": [_to_signal_json(each) for each in signals],
            }
        )
        return
    made_of, (from_fit, from_signals) = found.factors, split_score(found, rule=own)
    print_text(f"{name or found.account} ({tenant}/{found.account}): {found.tier.value}")
    print_text(
        f"  Heat {found.score:.2f} of 1: {from_fit:.2f} from its fit, "
        f"{from_signals:.2f} from signals"
    )
    print_text(
        f"  Factors, each 0 to 1: posture {made_of.posture_score:.2f} (how well it fits), recency "
        f"{made_of.signal_recency:.2f} and volume {made_of.signal_volume:.2f} (of its signals)"
    )
    print_text(
        f"  HOT from {own.hot_from:.2f}, WARM from {own.warm_from:.2f}; {found.tier.value} since "
        f"{format_time(found.tier_since)}"
    )
    if found.below_since:
        print_text(f"  Below that tier since {format_time(found.below_since)}: it cools down first")
    if found.state.latest:
        age, half = found.computed_at - found.state.latest[0], format_duration(own.half_life)
        print_text(f"  Newest signal {format_duration(age)} ago; a signal counts half after {half}")
    if not made_of.posture_score and from_signals:
        print_text(
            "  Its posture is 0: it does not match the ICP, so no plan selects it. To have it "
            "researched, import it: stoker accounts import FILE.csv"
        )
    print_table(
        ["signal", "at (utc)", "strength (0-1)", "source"],
        [
            (each.kind.value, f"{each.at:%Y-%m-%d %H:%M}", f"{each.strength:.2f}", each.source)
            for each in signals
        ],
        empty="  No signals yet; import some: stoker signals import FILE, or: stoker discover",
    )
    if len(signals) == _MAX_SIGNALS_SHOWN:
        print_text(f"  The {_MAX_SIGNALS_SHOWN} newest signals; older ones count too.")


@heat.command()
@click.argument("account", metavar="[TENANT/]ACCOUNT")
@limit_option
@json_option
@pass_context
@async_command
async def history(asked: CommandContext, account: str, limit: int | None, as_json: bool) -> None:
    """Show how hot one account was, day by day, newest first.

    A day (UTC) on which its heat did not change is left out. Days older than heat.history_days are
    deleted.
    """
    async with asked.open_app(only_to_read=True) as app:
        tenant, company = parse_account(app.settings, account)
        store = app.backend.tenant(tenant)
        found = await store.heat.list_history(company, limit=limit or _ALL_DAYS)
        name = (await store.accounts.find_names([company])).get(company, "")
    if as_json:
        print_json([_to_day_json(tenant, each) for each in found])
        return
    if found:
        print_text(f"{name or company} ({tenant}/{company}):")
    print_table(
        ["day (utc)", "heat", "tier", "posture", "recency", "volume"],
        [
            (
                each.on.isoformat(),
                f"{each.score:.2f}",
                each.tier.value,
                f"{each.factors.posture_score:.2f}",
                f"{each.factors.signal_recency:.2f}",
                f"{each.factors.signal_volume:.2f}",
            )
            for each in found
        ],
        empty=f"{company} has no history for {tenant} yet; a sweep writes it: stoker heat sweep",
    )
    if found:
        print_text("Days without change are left out.")


@heat.command()
@tenants_option
@json_option
@pass_context
@async_command
async def sweep(asked: CommandContext, tenants: tuple[str, ...], as_json: bool) -> Exit:
    """Recompute heat for all accounts; add accounts that newly match the ICP.

    `stoker schedule run` does this every hour (heat.sweep_minutes).
    """
    from stoker.enrichment.runner import run_now
    from stoker.heat.service import build_heat_sweep

    async with asked.open_app() as app:
        done = [
            (
                tenant,
                await run_now(app.for_tenant(tenant), build_heat_sweep(app.for_tenant(tenant))),
            )
            for tenant in choose_active_tenants(app.settings, tenants)
        ]
    if as_json:
        print_json(
            [
                {"tenant": tenant, "run": run.name, "state": run.state.value, **run.manifest.counts}
                for tenant, run in done
            ]
        )
    else:
        print_table(
            ["tenant", "run", "accounts", "new", "warmer", "cooler", "HOT", "WARM", "COLD"],
            [
                (
                    tenant,
                    run.name,
                    *(
                        run.manifest.counts.get(name, 0)
                        for name in ("accounts", "new", "warmer", "cooler", "hot", "warm", "cold")
                    ),
                )
                for tenant, run in done
            ],
        )
    bad = [run.state for _, run in done if run.state is not RunState.DONE]
    return to_run_exit(bad[0] if bad else RunState.DONE)


def _to_heat_json(tenant: TenantId, each: AccountHeat) -> dict[str, Json]:
    return {
        "pk": _build_partition_key(tenant, each.account),
        "sk": "HEAT#LATEST",
        "tenant_id": tenant,
        "account_id": each.account,
        "heat_score": each.score,
        "heat_tier": each.tier.value,
        "factors": _to_factors_json(each.factors),
        "tier_since": each.tier_since.isoformat(),
        "computed_at": each.computed_at.isoformat(),
        "updated_at": each.updated_at.isoformat(),
    }


def _to_day_json(tenant: TenantId, each: DailyHeat) -> dict[str, Json]:
    return {
        "pk": _build_partition_key(tenant, each.account),
        "sk": f"HEAT#{each.on.isoformat()}",
        "tenant_id": tenant,
        "account_id": each.account,
        "date": each.on.isoformat(),
        "heat_score": each.score,
        "heat_tier": each.tier.value,
        "factors": _to_factors_json(each.factors),
        "computed_at": each.computed_at.isoformat(),
    }


def _to_factors_json(factors: Factors) -> dict[str, Json]:
    return {
        "posture_score": factors.posture_score,
        "signal_recency": factors.signal_recency,
        "signal_volume": factors.signal_volume,
    }


def _build_partition_key(tenant: str, account: str) -> str:
    """Return the key under which a key-value table has all that is about one account."""
    return f"TENANT#{tenant}#ACCOUNT#{account}"


def _to_signal_json(each: Signal) -> dict[str, Json]:
    return {
        "id": each.id,
        "kind": each.kind.value,
        "at": each.at.isoformat(),
        "strength": each.strength,
        "source": each.source,
    }
