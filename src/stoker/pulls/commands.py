"""`stoker pulls plan|run|quote|replay`: select accounts to research, with reasons.

A replay writes nothing; its vendor calls are estimates, as in a quote.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import (
    MAX_LISTED,
    format_amount,
    format_count,
    format_duration,
    format_few,
    format_time,
)
from stoker.budgets.operator import format_connector
from stoker.cli.options import (
    choose_active_tenants,
    choose_tenant,
    choose_tenants,
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
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stoker.accounts.model import CompanyId
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.context import Context
    from stoker.nightly.service import NightlyRun
    from stoker.pulls.reports import PlanSide, ReplayReport
    from stoker.pulls.service import PlannedPulls

_DECISION_TEXTS = {
    "WORTH": "selected: worth its cost",
    "FLOOR": "selected: past the maximum wait",
    "SIGNAL": "selected: worth it because of signals",
}

_MAX_DIFFERENCES = 20

_DEPTH_NAMES = ("NOT", "SHALLOW", "DEEP")

_policy_option = click.option(
    "--policy",
    type=click.Choice(["optimal", "tiers"]),
    help="How accounts are selected. Default: pulls.policy.",
)


@click.group()
def pulls() -> None:
    """Research accounts where it is worth most, inside every cap."""


@pulls.command()
@tenants_option
@_policy_option
@click.option("--dry-run", is_flag=True, help="Store nothing, like `stoker pulls quote`.")
@json_option
@pass_context
@async_command
async def plan(
    asked: CommandContext,
    tenants: tuple[str, ...],
    policy: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Decide about every account and store the decisions; no account is researched.

    `stoker why TENANT/ACCOUNT` explains one, `stoker pulls replay RUN` computes the plan again.
    """
    await _print_plans(asked, tenants, policy=policy, keep=not dry_run, as_json=as_json)


@click.command()
@tenants_option
@_policy_option
@json_option
@pass_context
@async_command
async def quote(
    asked: CommandContext, tenants: tuple[str, ...], policy: str | None, as_json: bool
) -> None:
    """Estimate what pulls would cost now; show which accounts are not selected, and why."""
    await _print_plans(asked, tenants, policy=policy, keep=False, as_json=as_json)


async def _print_plans(
    asked: CommandContext, named: tuple[str, ...], *, policy: str | None, keep: bool, as_json: bool
) -> None:
    from stoker.enrichment.runner import run_now
    from stoker.pulls.service import PlanJob, PullPlanner

    plans = []
    async with asked.open_app(only_to_read=not keep) as app:
        for tenant in (choose_active_tenants if keep else choose_tenants)(app.settings, named):
            planner = PullPlanner(app.for_tenant(tenant), policy=policy)
            if keep:
                job = PlanJob(planner=planner)
                plans.append(job.get_planned(await run_now(app.for_tenant(tenant), job)))
            else:
                plans.append(await planner.quote_plan(now=app.clock.now()))
    if as_json:
        print_json([_to_plan_json(each) for each in plans])
        return
    for each in plans:
        _print_plan(each)


def _print_plan(planned: PlannedPulls) -> None:
    from stoker.nightly.commands_report import format_history
    from stoker.pulls.service import NO_ACCOUNTS
    from stoker.pulls.settings import Policy
    from stoker.pulls.store import list_active_constraints

    view, rule, quote = _to_plan_json(planned), planned.pulls.inputs.rule, planned.quote
    by = f"{rule.policy}, {rule.objective}" if rule.policy is Policy.OPTIMAL else rule.policy
    print_text(
        f"{planned.tenant}: {view['selected']} of {view['accounts']} accounts selected "
        f"(policy {by}), {view['deep']} deep; {view['spent']} of {view['budget']} pull units"
    )
    print_table(
        ["reason", "accounts", "meaning"],
        [(code, number, _get_meaning(code)) for code, number in _count_reasons(planned).items()],
        empty=NO_ACCOUNTS,
    )
    for each in list_active_constraints(planned.pulls):
        print_text(f"  {each.why.name}: {each.message}")
    if withheld := int((planned.pulls.plan.depth_refusal != 0).sum()):
        print_text(
            f"  {format_count(withheld, 'account')} would get deep research, if these limits "
            "allowed it."
        )
    costs: dict[str, list[str]] = {}
    for key, amount in quote.cost.items():
        connector, _, unit = key.partition("/")
        costs.setdefault(connector, []).append(format_amount(unit, amount))
    print_table(
        ["connector", "calls", "cost", "over cap"],
        [
            (
                name,
                math.ceil(calls),
                ", ".join(costs.get(name, ())),
                math.ceil(quote.refused.get(name, 0.0)),
            )
            for name, calls in quote.calls.items()
        ],
        empty="  No vendor calls expected.",
    )
    plan, wait = planned.pulls.plan, rule.floor
    if plan.price:
        print_text(
            f"  Cutoff: a lookup was selected from a value of {plan.price:.3g} per pull unit on. "
            f"The best plan would be worth at most {plan.gap:.2%} more."
        )
    if plan.overdue and wait is not None:
        print_text(
            f"  {format_count(plan.overdue, 'account')} were never researched, or longer ago than "
            f"{wait / timedelta(days=1):g} days (pulls.floor_days); {len(plan.floor_missed)} of "
            "them could not be selected."
        )
    if len(plan.chosen):
        print_text(
            f"  Expected to take {format_duration(quote.p50)}; nine times in ten less than "
            f"{format_duration(quote.p90)}."
        )
        print_text(f"  {format_history(quote.nights)}")
    if planned.run:
        print_text(
            f"  Stored as run {planned.run}. One account: stoker why {planned.tenant}/ACCOUNT"
        )
    else:
        print_text("  Preview only: nothing stored or reserved, no vendor called.")


def _to_plan_json(planned: PlannedPulls) -> dict[str, Json]:
    from stoker.pulls.jobs import list_pull_jobs
    from stoker.pulls.planner import DEEP, SHALLOW
    from stoker.pulls.store import list_active_constraints, summarize_plan

    pulls, quote = planned.pulls, planned.quote
    jobs = list_pull_jobs(planned.tenant, pulls, bucket=pulls.inputs.rule.tick, run=planned.run)
    plan = pulls.plan
    return {
        "tenant": planned.tenant,
        "run": planned.run or None,
        "at": pulls.at.isoformat(),
        "selected": len(plan.chosen),
        "shallow": int((plan.depth == SHALLOW).sum()),
        "deep": int((plan.depth == DEEP).sum()),
        **summarize_plan(pulls),
        "withheld": int((plan.depth_refusal != 0).sum()),
        "hindrances": [each.as_json() for each in list_active_constraints(pulls)],
        "reasons": {**_count_reasons(planned)},
        "quote": {
            "calls": dict(quote.calls),
            "cost": dict(quote.cost),
            "refused": dict(quote.refused),
            "p50_s": quote.p50.total_seconds(),
            "p90_s": quote.p90.total_seconds(),
            "slowest": quote.slowest,
            "learned_from_nights": quote.nights,
        },
        "jobs": [each.as_json() for each in jobs],
    }


def _count_reasons(planned: PlannedPulls) -> dict[str, int]:
    """Return how many accounts each reason has, the chosen first."""
    from stoker.pulls.columns import Decision
    from stoker.pulls.store import count_decisions

    counts = count_decisions(planned.pulls.plan)
    return {name: number for name, number in counts.items() if name in Decision.__members__}


def _get_meaning(code: str) -> str:
    from stoker.base.reasons import Reason

    return _DECISION_TEXTS.get(code) or Reason[code].message


@pulls.command()
@tenants_option
@_policy_option
@json_option
@pass_context
@async_command
async def run(
    asked: CommandContext, tenants: tuple[str, ...], policy: str | None, as_json: bool
) -> Exit:
    """Plan, then research the selected accounts: each pull is reserved, done once and settled.

    A run that was stopped or killed continues and pays nothing twice. The exit code tells how it
    ended.
    """
    from stoker.nightly.commands import print_nights, run_nights
    from stoker.nightly.progress import ProgressDisplay
    from stoker.pulls.service import build_pull_run

    def build(app: Context, tenant: TenantId) -> NightlyRun:
        return build_pull_run(app.for_tenant(tenant), policy=policy)

    async with asked.open_app() as app:
        chosen = choose_active_tenants(app.settings, tenants)
        with ProgressDisplay(sys.stderr, otherwise=app.observer) as live:
            done, failed = await run_nights(app, chosen, build, observer=live)
    return print_nights(done, failed, as_json=as_json)


@click.command()
@click.argument("run", metavar="RUN")
@tenant_option
@click.option(
    "--cap",
    "caps",
    multiple=True,
    metavar="NAME=NUMBER",
    help="With another cap for the day: pull_units of the tenant, crawl for its lookups, "
    "or a vendor's calls, e.g. lusha=200. May be repeated.",
)
@click.option("--policy", type=click.Choice(["optimal", "tiers"]), help="Another policy.")
@json_option
@pass_context
@async_command
async def replay(
    asked: CommandContext,
    run: str,
    tenant: str | None,
    caps: tuple[str, ...],
    policy: str | None,
    as_json: bool,
) -> Exit:
    """Compute a stored plan again: unchanged, or with another cap or policy.

    RUN is a run's name, or latest. Exit code 1 when a decision differs, or the ledger records
    another one.
    """
    from stoker.accounts.model import CompanyId
    from stoker.pulls.reports import replay_run
    from stoker.vendors.table import list_paid_vendors

    changed_caps = _parse_caps(caps)
    async with asked.open_app(only_to_read=True) as app:
        whose = choose_tenant(app.settings, tenant)
        vendors = list_paid_vendors(app.settings.for_tenant(whose))
        store = app.backend.tenant(whose)
        report = await replay_run(store, run, vendors=vendors, caps=changed_caps, policy=policy)
        shown = [each.account for each in report.differences[:_MAX_DIFFERENCES]]
        shown += [*report.gained[:MAX_LISTED], *report.lost[:MAX_LISTED]]
        names = await store.accounts.find_names(map(CompanyId, shown))
    if as_json:
        print_json(_to_replay_json(whose, report))
    else:
        _print_replay(whose, report, names)
    return Exit.PROBLEMS if report.differences or not report.matches_ledger else Exit.OK


def _parse_caps(caps: Iterable[str]) -> dict[str, int]:
    parsed: dict[str, int] = {}
    for each in caps:
        name, equals, number = each.partition("=")
        if not equals or not number.isascii() or not number.isdigit() or len(number) > 15:
            raise ConfigError(f"unknown cap {each[:40]!r}; use NAME=NUMBER, e.g. lusha=200")
        if name in parsed:
            raise ConfigError(f"the cap of {name[:40]} is given twice; give it once")
        parsed[name] = int(number)
    return parsed


def _print_replay(tenant: TenantId, report: ReplayReport, names: Mapping[CompanyId, str]) -> None:
    from stoker.accounts.model import CompanyId

    record, differences = report.saved.record, report.differences
    print_text(
        f"{tenant}, run {record.run}: {len(report.saved.inputs.ids)} accounts planned again "
        f"(policy {record.policy}, {format_time(record.at)}): "
        + (f"{len(differences)} differ" if differences else "the same decisions, byte for byte")
    )
    if not report.matches_ledger:
        recorded = "other decisions" if report.in_ledger else "no such plan"
        print_text(f"  The ledger has {recorded}; see: stoker ledger list --kind plan")
    if differences:
        print_table(
            ["account", "name", "stored", "now", "depth stored", "depth now"],
            [
                (
                    each.account,
                    names.get(CompanyId(each.account), ""),
                    each.before.name,
                    each.after.name,
                    _DEPTH_NAMES[each.depth_before],
                    _DEPTH_NAMES[each.depth_after],
                )
                for each in islice(differences, _MAX_DIFFERENCES)
            ],
        )
    if report.after is None:
        return
    rows = _to_rows(report.before, report.after)
    print_table(["measure", "stored plan", "changed", "difference"], rows)
    for word, accounts in (("more", report.gained), ("fewer", report.lost)):
        if accounts:
            count = format_count(len(accounts), f"{word} account")
            few = [
                f"{names[CompanyId(each)]} ({each})" if CompanyId(each) in names else each
                for each in accounts
            ]
            print_text(f"  {count}: {format_few(few)}")
    print_text("  Preview only: nothing stored or reserved, no vendor called.")


def _to_rows(before: PlanSide, after: PlanSide) -> list[tuple[str, str, str, str]]:
    one, other = before.totals, after.totals
    rows = [
        ("accounts selected", f"{one.accounts:,}", f"{other.accounts:,}"),
        ("of them deep", f"{one.deep:,}", f"{other.deep:,}"),
        ("pull units", f"{one.units:,}", f"{other.units:,}"),
    ]
    differences = [
        other.accounts - one.accounts,
        other.deep - one.deep,
        other.units - one.units,
    ]
    changes = [f"{each:+,}" for each in differences]
    for name in sorted({*before.quote.cost, *after.quote.cost}):
        connector, _, unit = name.partition("/")
        was, would_be = before.quote.cost.get(name, 0), after.quote.cost.get(name, 0)
        if was or would_be:
            amounts = (format_amount(unit, was), format_amount(unit, would_be))
            rows.append((f"{format_connector(connector)}, expected", *amounts))
            sign = "-" if would_be < was else "+"
            changes.append(f"{sign}{format_amount(unit, abs(would_be - was))}")
    rows.append(("cutoff, value per pull unit", f"{one.price:.3g}", f"{other.price:.3g}"))
    changes.append("")
    fresh = (f"{one.freshness:.2%}", f"{other.freshness:.2%}")
    rows.append(("up to date right after, by value", *fresh))
    changes.append(f"{100 * (other.freshness - one.freshness):+.2f} points")
    return [(*row, change) for row, change in zip(rows, changes, strict=True)]


def _to_replay_json(tenant: TenantId, report: ReplayReport) -> Json:
    record = report.saved.record
    return {
        "tenant": tenant,
        "run": record.run,
        "at": record.at.isoformat(),
        "policy": record.policy,
        "accounts": len(report.saved.inputs.ids),
        "digest": record.header["digest"],
        "same": not report.differences,
        "ledger_agrees": report.matches_ledger,
        "differs": [
            {
                "account": each.account,
                "kept": each.before.name,
                "now": each.after.name,
                "depth_kept": _DEPTH_NAMES[each.depth_before],
                "depth_now": _DEPTH_NAMES[each.depth_after],
            }
            for each in report.differences
        ],
        "as_it_was": _to_side_json(report.before),
        "changed": None if report.after is None else _to_side_json(report.after),
        "gained": list(report.gained),
        "lost": list(report.lost),
    }


def _to_side_json(side: PlanSide) -> Json:
    quote = side.quote
    return {**asdict(side.totals), "calls": dict(quote.calls), "cost": dict(quote.cost)}
