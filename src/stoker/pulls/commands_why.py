"""`stoker why|price`: explain what happened to one company; show what other budgets would buy."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count, format_time
from stoker.base.jsontools import get_line, get_object
from stoker.cli.options import choose_tenant, parse_tenant_argument, plot_option, tenant_option
from stoker.cli.output import (
    async_command,
    json_option,
    pass_context,
    print_json,
    print_table,
    print_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.accounts.model import CompanyRecord
    from stoker.base.types import Json, TenantId
    from stoker.cli.output import CommandContext
    from stoker.enrichment.model import WorkItem
    from stoker.pulls.rates import BudgetPoint
    from stoker.pulls.reports import CompanyReport, PullReport, UnfinishedReport
    from stoker.pulls.store import PlanSnapshot

_HALF_TIMES, _ONCE, _MORE_TIMES = 0.5, 1.0, 1.1

_STATE_TEXTS = {
    "waiting": "waiting",
    "taken": "in progress",
    "done": "complete",
    "degraded": "incomplete",
    "poisoned": "failed",
    "shed": "dropped, so that more valuable companies were done in time",
    "unknown": "a paid call has an unknown outcome; see: stoker holds",
}

_NO_PRICE_TEXTS = (
    "budget was not the limit",
    "budget for all accounts",
)  # not looked up, looked up


@click.command()
@click.argument("which", metavar="[TENANT/]COMPANY")
@click.option(
    "--flip",
    is_flag=True,
    help="Show the smallest change of units, posture or time that would have selected it.",
)
@json_option
@pass_context
@async_command
async def why(asked: CommandContext, which: str, flip: bool, as_json: bool) -> None:
    """Explain one company: why it was selected or not, each step, cost, refusals, score.

    COMPANY is its registry number or part of its name. TENANT can be left out if there is only one.
    """
    from stoker.pulls.reports import read_company_report

    named, slash, wanted = which.partition("/")
    if not slash:
        named, wanted = "", which
    async with asked.open_app(only_to_read=True) as app:
        if not named and app.settings.find_default_tenant() is None:
            names = ", ".join(each.id for each in app.settings.tenants)
            raise ConfigError(f"choose a tenant: stoker why TENANT/{which[:40]} (one of {names})")
        tenant = choose_tenant(app.settings, parse_tenant_argument(named) if named else None)
        own = app.settings.for_tenant(tenant)
        report = await read_company_report(
            app.backend,
            app.backend.tenant(tenant),
            wanted.strip(),
            rule_name=own.icp.rule_name,
            flip=flip,
        )
    if as_json:
        print_json(_to_report_json(tenant, report))
    else:
        _print_report(tenant, report, least=own.score.min_export)


def _print_report(tenant: TenantId, report: CompanyReport, *, least: float) -> None:
    from stoker.accounts.websites import format_site

    company, fit = report.record.company, report.fit
    print_text(f"{company.name} ({company.id}), for {tenant}")
    print_text(f"  {company.website or 'website unknown'}")
    if report.record.site is not None:
        print_text(f"  website {format_site(report.record.site)}")
    if fit is not None:
        print_text(f"\nMatches the ICP: {'yes' if fit.fits else 'no'}, {fit.reason}.")
    if report.item is not None:
        _print_work_item(tenant, report, report.item)
    elif fit is None:
        print_text(
            f"\nNot researched yet. {tenant} has no ICP; set one with: "
            f"stoker icp set --tenant {tenant}"
        )
    elif not fit.fits:
        print_text("\nNot researched yet. It does not match the ICP, so it will not be selected.")
    else:
        print_text(
            "\nNot researched yet. Other companies came first; see the order with: "
            "stoker nightly --dry-run"
        )
    if report.pull_report is not None:
        _print_pull_report(report.pull_report)
    if report.crm_left:
        print_text("\nNot written into the CRM:")
        print_table(
            ["record", "run", "because"],
            [(each.external_id, each.run, each.reason) for each in report.crm_left],
        )
    _print_facts(report.record, least=least)
    if report.page_text is not None:
        page_text = get_object(report.page_text.answer)
        print_text(
            f"\nIts page text is stored ({len(get_line(page_text, 'text')):,} characters, "
            f"run {get_line(page_text, 'run')}); print it with --json."
        )


def _print_work_item(tenant: TenantId, report: CompanyReport, item: WorkItem) -> None:
    from stoker.base.types import Step
    from stoker.nightly.commands_report import format_cost

    run, unfinished = report.run, report.unfinished
    print_text(
        f"\nRun {run}: selected as number {item.rank + 1}, {item.depth.lower()}: {item.reason}."
    )
    cause = unfinished and _format_cause(unfinished, item)
    print_text(f"Status: {cause or _STATE_TEXTS[item.state.value]}.")
    for reason in item.reasons:
        print_text(f"  - {reason}")
    if unfinished is None:
        print_text(f"Cost: {format_cost(item.cost) or 'nothing'}.")
    else:
        _print_unfinished(unfinished, tenant)
    if item.saved:
        print_text(f"Saved by cached answers: {format_cost(item.saved)}.")
    if item.seconds:
        took = ", ".join(
            f"{step} {item.seconds[step]:.1f} s" for step in Step if step in item.seconds
        )
        print_text(f"Time: {took}.")


def _format_cause(unfinished: UnfinishedReport, item: WorkItem) -> str:
    """Return why the company was not finished; empty while the run may still do so."""
    from stoker.enrichment.model import WorkState

    if not unfinished.is_over or item.state is WorkState.DROPPED:
        return ""
    begun = item.state is WorkState.CLAIMED or any(unfinished.spent.settled.values())
    run, how = unfinished.run, "started but not finished" if begun else "not started"
    reason = f" ({run.reason})" if run.reason else ""
    return f"{how}: run {run.name} ended {run.state}{reason}"


def _print_unfinished(unfinished: UnfinishedReport, tenant: TenantId) -> None:
    """Print what was paid for it so far, and how to resume its research."""
    from stoker.budgets.operator import format_resume_command
    from stoker.nightly.commands_report import format_cost

    settled, unknown = format_cost(unfinished.spent.settled), format_cost(unfinished.spent.unknown)
    kept = " (not paid again when it is resumed)" if settled and unfinished.is_over else ""
    print_text(f"Cost: {settled or 'nothing'} so far{kept}.")
    if unknown:
        print_text(f"{unknown} may have been spent too (outcome unknown); see: stoker holds")
    if not unfinished.is_over:
        return
    for stop in unfinished.stops:
        print_text(f"Spending is stopped; first allow it again with: {format_resume_command(stop)}")
    resume_at = unfinished.run.manifest.resume_at
    if resume_at is not None:
        print_text(f"The first full cap resets at {format_time(resume_at)}.")
    print_text(f"Resume with: stoker runs rerun {unfinished.run.name} --tenant {tenant}")


def _print_pull_report(report: PullReport) -> None:
    print_text(
        f"\nPulls: plan of run {report.run} ({format_time(report.at)}, policy {report.policy})"
    )
    explained = report.explanation
    if explained is None:
        print_text("  Not in the plan: it had no heat yet. Compute it with: stoker heat sweep")
        return
    print_text(f"  {explained.message}")
    if report.differs_now and report.saved_decision is not None:
        print_text(
            f"  The stored decision is {report.saved_decision.name}; this version of Stoker would "
            f"decide {explained.why.name}."
        )
    times = explained.worth_over_price
    print_table(
        ["stale", "missed changes", "changes every", "value / cutoff", "due every"],
        [
            (
                f"{explained.stale_chance:.0%}",
                f"{explained.missed_changes:.1f}" if math.isfinite(explained.age) else "-",
                _format_days(explained.days_between_changes),
                f"{times:.3g}" if math.isfinite(times) else _NO_PRICE_TEXTS[explained.depth > 0],
                _format_days(explained.due_every),
            )
        ],
    )
    if report.counterfactual is not None:
        print_text(f"  {_format_flip(report)}")


def _print_facts(record: CompanyRecord, *, least: float) -> None:
    score = record.score
    if score is None:
        print_text("\nNo score yet.")
    else:
        lead = "a lead" if score.value >= least else f"not a lead (needs {least:g})"
        reason = score.rationale.partition(": ")[2] or score.rationale
        print_text(f"\nScore {score.value:.2f} ({score.bucket}), {lead}: {reason}")
        print_table(
            ["feature", "value"], [(name, f"{value:.2f}") for name, value in score.features.items()]
        )
    if record.contacts:
        print_text("\nContacts:")
        print_table(
            ["name", "title", "email", "verdict", "phone", "source"],
            [
                (each.name, each.title, each.email, each.verdict.value, each.phone, each.source)
                for each in record.contacts
            ],
        )
    if record.facts:
        print_text("\nFacts and their sources:")
        print_table(
            ["fact", "value", "confidence", "method", "source"],
            [
                (
                    each.field.value,
                    each.value[:60],
                    f"{each.confidence:.2f}",
                    each.method,
                    each.source,
                )
                for each in record.facts
            ],
        )


def _to_report_json(tenant: TenantId, report: CompanyReport) -> Json:
    from stoker.leads.service import to_lead_row

    looked_at, fit, pull = report.record.looked_at, report.fit, report.pull_report
    return {
        **to_lead_row(tenant, report.record),  # type: ignore[dict-item]  # no date is left
        "looked_at": looked_at.isoformat() if looked_at else None,
        "fit": {"fits": fit.fits, "because": fit.reason} if fit else None,
        "night": _to_work_json(report),
        "pull": _to_pull_json(pull) if pull else None,
        "corpus": report.page_text.answer if report.page_text else None,
        "crm_left": {each.external_id: each.reason for each in report.crm_left},
    }


def _to_work_json(report: CompanyReport) -> Json:
    item, unfinished = report.item, report.unfinished
    if item is None:
        return None
    view: dict[str, Json] = {
        "run": report.run,
        "place": item.rank,
        "depth": item.depth.value,
        "because": item.reason,
        "state": item.state.value,
        "reasons": list(item.reasons),
        "cost": dict(item.cost),
        "saved": dict(item.saved),
        "seconds": dict(item.seconds),
    }
    if unfinished is not None:
        from stoker.budgets.operator import format_resume_command

        view |= {
            "cost": dict(unfinished.spent.settled),
            "unknown": dict(unfinished.spent.unknown),
            "run_state": unfinished.run.state.value,
            "not_done_because": _format_cause(unfinished, item) or None,
            "stops": [format_resume_command(each) for each in unfinished.stops],
        }
    return view


def _to_pull_json(report: PullReport) -> Json:
    explained, saved, ways = report.explanation, report.saved_decision, report.counterfactual
    view: dict[str, Json] = {
        "run": report.run,
        "at": report.at.isoformat(),
        "policy": report.policy,
        "known": explained is not None,
    }
    if explained is None or saved is None:
        return view
    flip: Json = None
    if ways is not None:
        raises: Json = None
        if ways.raises is not None:
            raises = [
                {"scope": each.scope.value, "units": each.units, "deep_looks": each.deep}
                for each in ways.raises
            ]
        flip = {
            "raises": raises,
            "heat" if ways.by_heat else "posture": ways.posture,
            "wait_minutes": None if ways.wait is None else ways.wait.total_seconds() / 60,
            "sentence": _format_flip(report),
        }
    return {**view, **explained.as_json(), "kept_why": saved.name, "flip": flip}


def _format_flip(report: PullReport) -> str:
    if report.explanation is not None and report.explanation.depth:
        return "It was selected; there is nothing to flip."
    return report.counterfactual.message if report.counterfactual is not None else ""


def _format_days(number: float) -> str:
    return f"{number:.1f} days" if number < 3650 else "never"


@click.command()
@click.argument("named", metavar="[TENANT]", required=False)
@tenant_option
@plot_option("Draw the freshness of each budget", "--picture")
@json_option
@pass_context
@async_command
async def price(
    asked: CommandContext,
    named: str | None,
    tenant: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show what a pull unit is worth to a tenant, and what more or fewer units would buy.

    The budget is the whole cap of the day, whatever is spent of it, and stops are ignored.
    """
    from stoker.simulation.chart import write_bar_chart

    if tenant and named and tenant != named:
        raise ConfigError(f"{named} and --tenant {tenant} name two tenants; give one")
    whose, inputs, budget, points = await _compute_price(asked, tenant or named)
    labels, fresh = [f"{each.times:g}" for each in points], [each.freshness for each in points]
    if write_bar_chart(plot, "SHARE OF FRESH DATA BY BUDGET", labels, fresh, as_json=as_json):
        return
    by_times = {each.times: each for each in points}
    now, more, half = by_times[_ONCE], by_times[_MORE_TIMES], by_times[_HALF_TIMES]
    if as_json:
        print_json(
            {
                "tenant": whose,
                "accounts": len(inputs.ids),
                "budget": budget,
                "policy": inputs.rule.policy.value,
                "price": _to_finite(now.price),
                "a_tenth_more": {
                    "looks": more.looks - now.looks,
                    "freshness": more.freshness - now.freshness,
                },
                "half": {
                    "every_days": _to_finite(half.every_days),
                    "every_days_now": _to_finite(now.every_days),
                    "freshness": half.freshness - now.freshness,
                },
                "curve": [
                    {name: _to_finite(value) for name, value in asdict(each).items()}
                    for each in points
                ],
            }
        )
        return
    print_text(
        f"{whose}: {len(inputs.ids):,} accounts, {budget:,} pull units a day, "
        f"policy {inputs.rule.policy.value}"
    )
    print_text(
        f"  Data is up to date {now.freshness:.2%} of the time. "
        f"Cutoff, in value per pull unit: {_format_price(now.price)}"
    )
    print_text(
        f"  10 % more budget: {format_count(more.looks - now.looks, 'more account')} today; up to "
        f"date {_format_points(more.freshness - now.freshness)}"
    )
    print_text(
        f"  Half the budget: half of the accounts are researched every "
        f"{_format_interval(half.every_days)} or more often, instead of every "
        f"{_format_interval(now.every_days)}; up to date "
        f"{_format_points(half.freshness - now.freshness)}"
    )
    _print_points(points)


async def _compute_price(
    asked: CommandContext, named: str | None
) -> tuple[TenantId, PlanSnapshot, int, list[BudgetPoint]]:
    from stoker.pulls.rates import TIMES, iterate_budget_points
    from stoker.pulls.service import PullPlanner

    async with asked.open_app(only_to_read=True) as app:
        tenant, now = choose_tenant(app.settings, named), app.clock.now()
        planner = PullPlanner(app.for_tenant(tenant))
        inputs, budget = await planner.read_price_inputs(now=now)
    if not inputs.ids:
        raise ConfigError(
            f"no account of {tenant} has a heat yet; compute it with: stoker heat sweep"
        )
    points: list[BudgetPoint] = []
    for point in iterate_budget_points(inputs.accounts, budget, now=now, rule=inputs.rule):
        points.append(point)
        if sys.stderr.isatty():
            ending = "\n" if len(points) == len(TIMES) else ""
            click.echo(f"\r{len(points)} of {len(TIMES)} budgets{ending}", nl=False, err=True)
    return tenant, inputs, budget, points


def _print_points(points: Sequence[BudgetPoint]) -> None:
    print_table(
        [
            "budget",
            "units a day",
            "accounts today",
            "up to date",
            "cutoff",
            "median interval",
        ],
        [
            (
                f"{each.times:g} ×",
                f"{each.units:,}",
                f"{each.looks:,}",
                f"{each.freshness:.2%}",
                f"{each.price:.3g}" if math.isfinite(each.price) else "none",
                _format_interval(each.every_days),
            )
            for each in points
        ],
    )
    print_text(
        "  UP TO DATE: share of the time, weighted by value, under the best plan of this budget, "
        "if the estimated change rates are right. CUTOFF: value per pull unit; 0 means more "
        "budget than demand."
    )


def _format_price(number: float) -> str:
    if number == 0:
        return "0 (more budget than demand)"
    return f"{number:.3g}" if math.isfinite(number) else "none (nothing may be spent)"


def _format_points(change: float) -> str:
    """Return a change of a share in words: percentage points more or less of the time."""
    more = "less" if change < 0 else "more"
    return f"{abs(100 * change):.2f} percentage points {more} of the time"


def _format_interval(number: float) -> str:
    return f"{number:.1f} days" if number < 3650 else "10 years or more"


def _to_finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
