"""Report a nightly run to people and programs: what it would do, and how it ended.

Everything is read back from the store, as any other command would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from stoker.base.formats import format_amount, format_count, format_duration, format_time
from stoker.budgets.operator import format_resume_command, format_stop, to_stop_json
from stoker.cli.output import print_fields, print_table, print_text
from stoker.enrichment.model import END_STATES, KIND
from stoker.leads.service import iterate_leads
from stoker.runs.model import RunState

if TYPE_CHECKING:
    from stoker.accounts.model import CompanyRecord
    from stoker.base.types import Json, TenantId
    from stoker.context import Context
    from stoker.nightly.plan import NightlyPlan
    from stoker.runs.model import Run

MAX_LEADS_SHOWN = 20  # companies of a selection that are printed; `--json` has all

MAX_REASONS_SHOWN = 6

_STATE_TEXTS = {
    "done": "complete",
    "degraded": "incomplete",
    "poisoned": "failed",
    "shed": "dropped for time",
    "unknown": "with an unknown outcome",
    "waiting": "not started",
    "taken": "not finished",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """What a tenant's nightly run would do now."""

    tenant: TenantId
    plan: NightlyPlan
    at: datetime
    names: Mapping[str, str]  # of the companies shown
    limit: int | None = None  # `--limit`


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReport:
    """How a tenant's nightly run ended."""

    tenant: TenantId
    run: Run
    leads: int
    min_score: float
    top_leads: tuple[CompanyRecord, ...]


async def read_night_report(
    app: Context, tenant: TenantId, run: Run, *, best: int = 3
) -> NightReport:
    """Read from the store how a nightly run ended."""
    found: list[CompanyRecord] = []
    count, least = 0, app.settings.for_tenant(tenant).score.min_export
    async for page in iterate_leads(app, tenant, least=least, run=run.name):
        count += len(page)
        found = sorted([*found, *page], key=_get_sort_key)[:best]
    return NightReport(tenant=tenant, run=run, leads=count, min_score=least, top_leads=tuple(found))


async def format_stopped(app: Context, tenant: TenantId, *, since: datetime) -> str:
    """Return how much of a stopped run was done, and what is left."""
    store = app.backend.tenant(tenant)
    newest = await store.runs.list_runs(kind=KIND, limit=1)
    # A run is named by a whole second, at or after the one it was requested in.
    if not newest or newest[0].at < since.replace(microsecond=0):
        return f"{tenant}: its run had not started"
    counts = await store.work_items.count_items(newest[0].name)
    total, done = sum(counts.values()), sum(counts.get(state, 0) for state in END_STATES)
    if not total:
        return f"{tenant}: run {newest[0].name} was stopped before it selected any companies"
    return (
        f"{tenant}: run {newest[0].name} was stopped with {done} of {total} companies done "
        f"and {total - done} left"
    )


def print_plan(planned: PlanReport, *, whole: bool) -> None:
    """Print a plan; whole, with the selection in its order."""
    plan, quote = planned.plan, planned.plan.quote
    origin = (
        f"left by run {plan.resumed_from}"
        if plan.resumed_from
        else f"of {format_count(plan.candidates, 'candidate')} of ICP {plan.rule.name!r}"
    )
    print_text(
        f"{planned.tenant}: {format_count(len(plan.items), 'company')} {origin}, "
        f"{plan.deep} of them researched deeply"
    )
    if nights := _count_nights(planned):
        among = format_count(plan.candidates, "candidate")
        print_text(f"  {among}: {format_count(nights, 'night')} at this pace")
    if plan.empty_reason:
        print_text(f"  {plan.empty_reason}")
    if plan.visited_today:
        print_text(f"  {plan.visited_today} already researched today; --again includes them")
    if plan.over_cap:
        print_text(f"  {plan.over_cap} wait for a later run: {_format_limit(planned)}")
    if plan.over_budget:
        print_text(f"  {plan.over_budget} wait for a later run: no pull units left")
    for stop in plan.stops:
        print_text(f"  {format_stop(stop)}")
        print_text(f"  Allow it again with: {format_resume_command(stop)}")
    if whole:
        print_table(
            ["#", "company", "name", "depth", "reason"],
            [
                (
                    unit.rank + 1,
                    unit.company,
                    planned.names.get(unit.company, ""),
                    unit.depth,
                    unit.reason,
                )
                for unit in plan.items[:MAX_LEADS_SHOWN]
            ],
            empty="no companies",
        )
        if len(plan.items) > MAX_LEADS_SHOWN:
            print_text(f"… and {len(plan.items) - MAX_LEADS_SHOWN} more; --json lists all")
    print_table(
        ["connector", "calls", "cost", "over cap"],
        [
            (
                name,
                math.ceil(calls),
                _format_connector_cost(quote.cost, name),
                _format_calls(quote.refused.get(name, 0.0)),
            )
            for name, calls in quote.calls.items()
        ],
        empty="No vendor calls expected.",
    )
    print_text(
        f"Expected to take {_format_span(quote.p50)} (P50) to {_format_span(quote.p90)} (P90), "
        f"until {_format_moment(planned.at, quote.p90)} UTC. Bottleneck: {quote.slowest}."
    )
    print_text(format_history(quote.nights))
    print_text("Preview only: no vendor called, nothing reserved, CRM untouched.\n")


def format_history(nights: int) -> str:
    """Return what an estimate is based on: earlier runs, or rough numbers only."""
    if not nights:
        return "Estimate based on rough numbers; after the first nightly run, on past runs."
    return (
        f"Estimate based on the last {f'{nights} nightly runs' if nights > 1 else 'nightly run'}."
    )


def _format_limit(planned: PlanReport) -> str:
    if planned.limit is not None and len(planned.plan.items) >= planned.limit:
        return f"--limit {planned.limit} is reached"
    return "the cap on companies is reached"


def _count_nights(planned: PlanReport) -> int:
    """Return in how many nights like this one every candidate is researched; 0: not known."""
    plan = planned.plan
    if plan.resumed_from or not plan.items:
        return 0
    return math.ceil(plan.candidates / len(plan.items))


def to_plan_json(planned: PlanReport, *, whole: bool) -> Json:
    """Return a plan as JSON."""
    plan, quote = planned.plan, planned.plan.quote
    report: dict[str, Json] = {
        "tenant": planned.tenant,
        "rule": plan.rule.name,
        "taken_over_from": plan.resumed_from or None,
        "candidates": plan.candidates,
        "nights": _count_nights(planned) or None,
        "companies": len(plan.items),
        "deep": plan.deep,
        "over_cap": plan.over_cap,
        "over_budget": plan.over_budget,
        "looked_at_today": plan.visited_today,
        "nobody": plan.empty_reason or None,
        "stops": [
            {**to_stop_json(each), "resume": format_resume_command(each)} for each in plan.stops
        ],
        "quote": {
            "calls": dict(quote.calls),
            "cost": dict(quote.cost),
            "refused": dict(quote.refused),
            "p50_s": _to_seconds(quote.p50),
            "p90_s": _to_seconds(quote.p90),
            "slowest": quote.slowest,
            "learned_from_nights": quote.nights,
        },
    }
    if whole:
        report["selected"] = [
            {
                "place": unit.rank,
                "company": unit.company,
                "depth": unit.depth.value,
                "because": unit.reason,
            }
            for unit in plan.items
        ]
    return report


def print_night(report: NightReport) -> None:
    """Print how a run ended: what was done, spent and saved, what was not done and why."""
    run, manifest = report.run, report.run.manifest
    took = format_duration(run.ended_at - run.at) if run.ended_at else "not ended"
    print_text(f"{report.tenant}  run {run.name}  {run.state.value}  {took}")
    fields: list[tuple[str, object]] = [("Reason", run.reason)]
    counts = manifest.counts
    ends = [
        f"{counts[f'units_{state}']} {words}"
        for state, words in _STATE_TEXTS.items()
        if counts.get(f"units_{state}")
    ]
    if ends:
        chosen = counts.get("selected", len(manifest.selected))
        fields.append(("Companies", f"{chosen} {_format_origin(counts)} ({', '.join(ends)})"))
    fields.append(("Spent", format_cost(manifest.cost) or "nothing"))
    if unknown := _get_amounts(counts, "unknown"):
        fields.append(
            ("Unknown", f"{format_cost(unknown)} may have been spent too; see: stoker holds")
        )
    if saved := _get_amounts(counts, "saved"):
        fields.append(("Saved", f"{format_cost(saved)} (cached answers, not paid again)"))
    fields.append(("Leads", f"{report.leads} with a score of {report.min_score:g} or more"))
    crm = [f"{counts[key]} {word}" for key, word in _CRM_TEXTS.items() if counts.get(key)]
    fields.append(("CRM", ", ".join(crm)))
    fields += [
        ("" if number else "Why", reason)
        for number, reason in enumerate(manifest.reasons[:MAX_REASONS_SHOWN])
    ]
    if len(manifest.reasons) > MAX_REASONS_SHOWN:
        more = len(manifest.reasons) - MAX_REASONS_SHOWN
        fields.append(("", f"{more} more: stoker runs show {run.name} --tenant {report.tenant}"))
    if run.state is RunState.CANCELLED and manifest.remaining:
        fields.append(("Resume", f"stoker runs rerun {run.name} --tenant {report.tenant}"))
    if run.state in (RunState.CANCELLED, RunState.FAILED) and counts.get("crm_written"):
        fields.append(("Undo", f"stoker crm undo {run.name} --tenant {report.tenant}"))
    if manifest.resume_at:
        fields.append(
            ("Continues", f"{format_time(manifest.resume_at)}, when the first cap resets")
        )
    print_fields(fields)
    print_text()


_CRM_TEXTS = {
    "crm_written": "written",
    "crm_same": "unchanged",
    "crm_left_to_people": "kept as edited in the CRM",
    "crm_refused": "rejected by the CRM",
    "crm_later": "queued for the next run",
    "crm_unknown": "with an unknown outcome",
}


def _format_origin(counts: Mapping[str, int]) -> str:
    if "candidates" not in counts:
        return "selected"  # the run was interrupted before the plan was counted
    among = counts["candidates"]
    return f"of {among} candidates" if among else "selected by an earlier run"


def _get_amounts(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the amounts a manifest counts under a prefix, by connector and unit."""
    start = f"{prefix} "
    return {
        key.removeprefix(start): value for key, value in counts.items() if key.startswith(start)
    }


def to_night_json(report: NightReport) -> Json:
    """Return a nightly run as JSON, with the number of leads it found."""
    from stoker.runs.model import to_run_view

    return {**to_run_view(report.tenant, report.run), "leads": report.leads}


def format_cost(cost: Mapping[str, int]) -> str:
    """Return amounts by connector: `lusha 1 call, 1 credit; openai 3 calls`."""
    by_connector: dict[str, list[str]] = {}
    for name, amount in cost.items():
        connector, _, unit = name.partition("/")
        if amount:
            by_connector.setdefault(connector, []).append(format_amount(unit, amount))
    return "; ".join(
        f"{connector} {', '.join(amounts)}" for connector, amounts in by_connector.items()
    )


def _format_connector_cost(cost: Mapping[str, int], connector: str) -> str:
    own = {name: amount for name, amount in cost.items() if name.partition("/")[0] == connector}
    return format_cost(own).removeprefix(f"{connector} ")


def _format_calls(refused: float) -> str:
    return str(round(refused)) if round(refused) else ""


def _get_sort_key(record: CompanyRecord) -> tuple[float, str]:
    return (-record.score.value if record.score else 0.0, record.company.id)


def _format_span(span: timedelta) -> str:
    return "forever" if span == timedelta.max else format_duration(span)


def _to_seconds(span: timedelta) -> float | None:
    return None if span == timedelta.max else span.total_seconds()


def _format_moment(at: datetime, span: timedelta) -> str:
    return "never" if span == timedelta.max else f"{at + span:%H:%M}"
