"""Report a nightly run to people and programs: what it would be, and how it went.

Everything is read back from the store, as any other command would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from textwrap import wrap
from typing import TYPE_CHECKING

from stoker.base.formats import format_duration
from stoker.budgets.operator import format_resume_command, format_stop, to_stop_json
from stoker.cli.output import print_table, print_text
from stoker.enrichment.model import END_STATES, KIND
from stoker.runs.model import RunState

if TYPE_CHECKING:
    from stoker.accounts.model import CompanyRecord
    from stoker.base.types import Json, TenantId
    from stoker.context import Context
    from stoker.nightly.plan import NightlyPlan
    from stoker.runs.model import Run

MAX_LEADS_SHOWN = 20  # companies of a selection shown to a person; programs are shown all

MAX_REASONS_SHOWN = 6

_WIDTH = 100

_PAGE_SIZE = 200

_STATE_TEXTS = {
    "done": "done",
    "degraded": "with something left out",
    "poisoned": "could not be worked on",
    "shed": "left out for lack of time",
    "unknown": "with a paid answer lost",
    "waiting": "not begun",
    "taken": "not finished",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """What a tenant's night would be, begun now."""

    tenant: TenantId
    plan: NightlyPlan
    at: datetime
    names: Mapping[str, str]  # of the companies shown
    limit: int | None = None  # how many a person asked for at most


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReport:
    """How a tenant's night went."""

    tenant: TenantId
    run: Run
    leads: int
    min_score: float
    top_leads: tuple[CompanyRecord, ...]


async def read_night_report(
    app: Context, tenant: TenantId, run: Run, *, best: int = 3
) -> NightReport:
    """Read back how a run of nightly work went."""
    accounts, least = app.backend.tenant(tenant).accounts, app.settings.for_tenant(tenant).score
    found: list[CompanyRecord] = []
    count, after = 0, ""
    while page := await accounts.list_company_records(
        after=after, limit=_PAGE_SIZE, run=run.name, least=least.min_export
    ):
        count, after = count + len(page), page[-1].company.id
        found = sorted([*found, *page], key=_get_sort_key)[:best]
    return NightReport(
        tenant=tenant, run=run, leads=count, min_score=least.min_export, top_leads=tuple(found)
    )


async def format_stopped(app: Context, tenant: TenantId, *, since: datetime) -> str:
    """Say of a night that was stopped how much of it was done, and what is left."""
    store = app.backend.tenant(tenant)
    newest = await store.runs.list_runs(kind=KIND, limit=1)
    # A run is named by a whole second, at or after the one it was asked for in.
    if not newest or newest[0].at < since.replace(microsecond=0):
        return f"{tenant}: its night had not begun"
    counts = await store.nights.count_items(newest[0].name)
    total, done = sum(counts.values()), sum(counts.get(state, 0) for state in END_STATES)
    if not total:
        return f"{tenant}: run {newest[0].name} was stopped before it had chosen any companies"
    return (
        f"{tenant}: run {newest[0].name} was stopped with {done} of {total} companies through "
        f"and {total - done} left"
    )


def print_plan(planned: PlanReport, *, whole: bool) -> None:
    """Print a plan; whole, with the selection in its order."""
    plan, quote = planned.plan, planned.plan.quote
    origin = (
        f"left by run {plan.resumed_from}"
        if plan.resumed_from
        else f"of {plan.candidates} candidates by rule {plan.rule.name!r}"
    )
    print_text(
        f"{planned.tenant}: {len(plan.items)} companies {origin}, {plan.deep} looked at deeply"
    )
    if plan.empty_reason:
        print_text(f"  {plan.empty_reason}")
    if plan.visited_today:
        print_text(
            f"  {plan.visited_today} already looked at today; --again looks at them once more"
        )
    if plan.over_cap:
        print_text(f"  {plan.over_cap} wait for another night: {_format_limit(planned)}")
    if plan.over_budget:
        print_text(f"  {plan.over_budget} wait for another night: no pull units are left for them")
    for stop in plan.stops:
        print_text(f"  {format_stop(stop)}; take it back with: {format_resume_command(stop)}")
    if whole:
        print_table(
            ["#", "company", "name", "depth", "because"],
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
            empty="nobody",
        )
        if len(plan.items) > MAX_LEADS_SHOWN:
            print_text(f"… and {len(plan.items) - MAX_LEADS_SHOWN} more; --json lists all")
    print_table(
        ["expected of", "calls", "cost", "refused"],
        [
            (
                name,
                math.ceil(calls),
                _format_connector_cost(quote.cost, name),
                _format_calls(quote.refused.get(name, 0.0)),
            )
            for name, calls in quote.calls.items()
        ],
        empty="nobody needs to be asked",
    )
    print_text(
        f"through in {_format_span(quote.p50)} (P50) to {_format_span(quote.p90)} (P90), at "
        f"{_format_moment(planned.at, quote.p50)} to {_format_moment(planned.at, quote.p90)} UTC; "
        f"it waits for {quote.slowest}"
    )
    print_text(format_history(quote.nights))
    print_text("Nobody was asked, and nothing was promised or written to a CRM.\n")


def format_history(nights: int) -> str:
    """Say what a quote goes by: how many earlier nights, or rough numbers only."""
    if not nights:
        return "Quoted by rough numbers; from its first night on, by what its nights took."
    return f"Quoted by what the latest {f'{nights} nights' if nights > 1 else 'night'} took."


def _format_limit(planned: PlanReport) -> str:
    if planned.limit is not None and len(planned.plan.items) >= planned.limit:
        return f"--limit asked for at most {planned.limit} tonight"
    return "the cap on companies is reached"


def to_plan_json(planned: PlanReport, *, whole: bool) -> Json:
    """Return a plan for programs."""
    plan, quote = planned.plan, planned.plan.quote
    report: dict[str, Json] = {
        "tenant": planned.tenant,
        "rule": plan.rule.name,
        "taken_over_from": plan.resumed_from or None,
        "candidates": plan.candidates,
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
    """Print how a night went: what was done, spent and saved, what was not done and why."""
    run, manifest = report.run, report.run.manifest
    took = format_duration(run.ended_at - run.at) if run.ended_at else "not ended"
    print_text(f"{report.tenant}  run {run.name}  {run.state.value}  {took}")
    if run.reason:
        _print_line("because", run.reason)
    counts = manifest.counts
    ends = [
        f"{counts[f'units_{state}']} {words}"
        for state, words in _STATE_TEXTS.items()
        if counts.get(f"units_{state}")
    ]
    if ends:
        chosen = counts.get("selected", len(manifest.selected))
        _print_line("looked", f"{chosen} {_format_origin(counts)}: {', '.join(ends)}")
    _print_line("spent", format_cost(manifest.cost) or "nothing")
    if unknown := _get_amounts(counts, "unknown"):
        _print_line(
            "unknown", f"{format_cost(unknown)} may have been spent besides; see: stoker holds"
        )
    if saved := _get_amounts(counts, "saved"):
        _print_line("saved", f"{format_cost(saved)}, answered before and not paid again")
    _print_line("leads", f"{report.leads} with a score of {report.min_score:g} or more")
    crm = [f"{counts[key]} {word}" for key, word in _CRM_TEXTS.items() if counts.get(key)]
    if crm:
        _print_line("crm", ", ".join(crm))
    for reason in manifest.reasons[:MAX_REASONS_SHOWN]:
        _print_line("why not", reason)
    if len(manifest.reasons) > MAX_REASONS_SHOWN:
        more = len(manifest.reasons) - MAX_REASONS_SHOWN
        _print_line(
            "why not", f"… {more} more: stoker runs show {run.name} --tenant {report.tenant}"
        )
    if run.state is RunState.CANCELLED and manifest.remaining:
        _print_line("goes on", f"stoker runs rerun {run.name} --tenant {report.tenant}")
    if run.state in (RunState.CANCELLED, RunState.FAILED) and counts.get("crm_written"):
        _print_line(
            "undo", f"stoker undo {run.name} --tenant {report.tenant} takes back what it wrote"
        )
    if manifest.resume_at:
        _print_line(
            "goes on", f"{manifest.resume_at:%Y-%m-%d %H:%M} UTC, when the first cap has room"
        )
    print_text()


_CRM_TEXTS = {
    "crm_written": "rows written",
    "crm_same": "as they were",
    "crm_left_to_people": "left as people have them",
    "crm_refused": "set aside",
    "crm_later": "kept for the next night",
    "crm_unknown": "that may be there or not",
}


def _format_origin(counts: Mapping[str, int]) -> str:
    if "candidates" not in counts:
        return "companies"  # it was cut off before the plan was counted
    among = counts["candidates"]
    return f"of {among} candidates" if among else "that an earlier run chose"


def _get_amounts(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the amounts a manifest counts under a prefix, by connector and unit."""
    start = f"{prefix} "
    return {
        key.removeprefix(start): value for key, value in counts.items() if key.startswith(start)
    }


def _print_line(label: str, text: str) -> None:
    wrapped = wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    for nth, part in enumerate(wrapped):
        print_text(f"  {'' if nth else label:<9}{part}")


def to_night_json(report: NightReport) -> Json:
    """Return how a night went, for programs: the run, and how many leads it found."""
    from stoker.runs.model import to_run_view

    return {**to_run_view(report.tenant, report.run), "leads": report.leads}


def format_amount(unit: str, amount: int) -> str:
    """Return an amount as people say it; money is kept in minor units."""
    kind, _, currency = unit.partition(":")
    if kind == "money":
        return f"{currency} {amount / 100:,.2f}"
    words = unit.replace("_", " ")
    return f"{amount:,} {words.removesuffix('s') if amount == 1 else words}"


def format_cost(cost: Mapping[str, int]) -> str:
    """Return what was spent as people say it, connector by connector."""
    found: dict[str, list[str]] = {}
    for name, amount in cost.items():
        connector, _, unit = name.partition("/")
        if amount:
            found.setdefault(connector, []).append(format_amount(unit, amount))
    return "; ".join(f"{connector} {', '.join(amounts)}" for connector, amounts in found.items())


def _format_connector_cost(cost: Mapping[str, int], connector: str) -> str:
    own = {name: amount for name, amount in cost.items() if name.partition("/")[0] == connector}
    return format_cost(own).removeprefix(f"{connector} ")


def _format_calls(refused: float) -> str:
    return str(round(refused)) if round(refused) else ""


def _get_sort_key(dossier: CompanyRecord) -> tuple[float, str]:
    return (-dossier.score.value if dossier.score else 0.0, dossier.company.id)


def _format_span(span: timedelta) -> str:
    return "for ever" if span == timedelta.max else format_duration(span)


def _to_seconds(span: timedelta) -> float | None:
    return None if span == timedelta.max else span.total_seconds()


def _format_moment(at: datetime, span: timedelta) -> str:
    return "never" if span == timedelta.max else f"{at + span:%H:%M}"
