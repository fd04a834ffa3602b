"""A night told to people and programs: what it would be, and how it went, in numbers and reasons.

Everything is read back from the store, as any other command would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from textwrap import wrap
from typing import TYPE_CHECKING

from stoker.budgets.views import resume_words, stop_json, stop_text
from stoker.calendar.timezones import duration_text
from stoker.cli.output import say, show_table
from stoker.enrichment.model import ENDS, KIND
from stoker.runs.model import RunState

if TYPE_CHECKING:
    from stoker.accounts.model import Dossier
    from stoker.app import App
    from stoker.base.types import Json, TenantId
    from stoker.nightly.plan import NightPlan
    from stoker.runs.model import Run

SHOWN = 20  # companies of a selection shown to a person; programs are shown all

REASONS = 6

_WIDTH = 100

_PAGE = 200

_STATES = {
    "done": "done",
    "degraded": "with something left out",
    "poisoned": "could not be worked on",
    "shed": "left out for lack of time",
    "unknown": "with a paid answer lost",
    "waiting": "not begun",
    "taken": "not finished",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a tenant's night would be, begun now."""

    tenant: TenantId
    plan: NightPlan
    at: datetime
    names: Mapping[str, str]  # of the companies shown
    limit: int | None = None  # how many a person asked for at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How a tenant's night went."""

    tenant: TenantId
    run: Run
    leads: int
    least: float
    best: tuple[Dossier, ...]


async def told_of(app: App, tenant: TenantId, run: Run, *, best: int = 3) -> Told:
    """Read back how a run of nightly work went."""
    accounts, least = app.backend.tenant(tenant).accounts, app.settings.for_tenant(tenant).score
    found: list[Dossier] = []
    count, after = 0, ""
    while page := await accounts.dossiers(
        after=after, limit=_PAGE, run=run.name, least=least.min_export
    ):
        count, after = count + len(page), page[-1].company.id
        found = sorted([*found, *page], key=_worth)[:best]
    return Told(tenant=tenant, run=run, leads=count, least=least.min_export, best=tuple(found))


async def stopped_text(app: App, tenant: TenantId, *, since: datetime) -> str:
    """Say of a night that was stopped how much of it was done, and what is left."""
    store = app.backend.tenant(tenant)
    newest = await store.runs.runs(kind=KIND, limit=1)
    # A run is named by a whole second, at or after the one it was asked for in.
    if not newest or newest[0].at < since.replace(microsecond=0):
        return f"{tenant}: its night had not begun"
    counts = await store.nights.count_units(newest[0].name)
    total, done = sum(counts.values()), sum(counts.get(state, 0) for state in ENDS)
    if not total:
        return f"{tenant}: run {newest[0].name} was stopped before it had chosen any companies"
    return (
        f"{tenant}: run {newest[0].name} was stopped with {done} of {total} companies through "
        f"and {total - done} left"
    )


def show_plan(planned: Planned, *, whole: bool) -> None:
    """Print a plan; whole, with the selection in its order."""
    plan, quote = planned.plan, planned.plan.quote
    origin = (
        f"left by run {plan.taken_over_from}"
        if plan.taken_over_from
        else f"of {plan.candidates} candidates by rule {plan.rule.name!r}"
    )
    say(f"{planned.tenant}: {len(plan.units)} companies {origin}, {plan.deep} looked at deeply")
    if plan.nobody:
        say(f"  {plan.nobody}")
    if plan.looked_at_today:
        say(f"  {plan.looked_at_today} already looked at today; --again looks at them once more")
    if plan.over_cap:
        say(f"  {plan.over_cap} wait for another night: {_why_no_more(planned)}")
    if plan.over_budget:
        say(f"  {plan.over_budget} wait for another night: no pull units are left for them")
    for stop in plan.stops:
        say(f"  {stop_text(stop)}; take it back with: {resume_words(stop)}")
    if whole:
        show_table(
            ["#", "company", "name", "depth", "because"],
            [
                (
                    unit.place + 1,
                    unit.company,
                    planned.names.get(unit.company, ""),
                    unit.depth,
                    unit.because,
                )
                for unit in plan.units[:SHOWN]
            ],
            empty="nobody",
        )
        if len(plan.units) > SHOWN:
            say(f"… and {len(plan.units) - SHOWN} more; --json lists all")
    show_table(
        ["expected of", "calls", "cost", "refused"],
        [
            (name, math.ceil(calls), _costs(quote.cost, name), _calls(quote.refused.get(name, 0.0)))
            for name, calls in quote.calls.items()
        ],
        empty="nobody needs to be asked",
    )
    say(
        f"through in {_span(quote.p50)} (P50) to {_span(quote.p90)} (P90), at "
        f"{_moment(planned.at, quote.p50)} to {_moment(planned.at, quote.p90)} UTC; "
        f"it waits for {quote.slowest}"
    )
    say(learned_text(quote.nights))
    say("Nobody was asked, and nothing was promised or written to a CRM.\n")


def learned_text(nights: int) -> str:
    """Say what a quote goes by: how many earlier nights, or rough numbers only."""
    if not nights:
        return "Quoted by rough numbers; from its first night on, by what its nights took."
    return f"Quoted by what the latest {f'{nights} nights' if nights > 1 else 'night'} took."


def _why_no_more(planned: Planned) -> str:
    if planned.limit is not None and len(planned.plan.units) >= planned.limit:
        return f"--limit asked for at most {planned.limit} tonight"
    return "the cap on companies is reached"


def plan_json(planned: Planned, *, whole: bool) -> Json:
    """Return a plan for programs."""
    plan, quote = planned.plan, planned.plan.quote
    told: dict[str, Json] = {
        "tenant": planned.tenant,
        "rule": plan.rule.name,
        "taken_over_from": plan.taken_over_from or None,
        "candidates": plan.candidates,
        "companies": len(plan.units),
        "deep": plan.deep,
        "over_cap": plan.over_cap,
        "over_budget": plan.over_budget,
        "looked_at_today": plan.looked_at_today,
        "nobody": plan.nobody or None,
        "stops": [{**stop_json(each), "resume": resume_words(each)} for each in plan.stops],
        "quote": {
            "calls": dict(quote.calls),
            "cost": dict(quote.cost),
            "refused": dict(quote.refused),
            "p50_s": _seconds(quote.p50),
            "p90_s": _seconds(quote.p90),
            "slowest": quote.slowest,
            "learned_from_nights": quote.nights,
        },
    }
    if whole:
        told["selected"] = [
            {
                "place": unit.place,
                "company": unit.company,
                "depth": unit.depth.value,
                "because": unit.because,
            }
            for unit in plan.units
        ]
    return told


def show_told(told: Told) -> None:
    """Print how a night went: what was done, spent and saved, what was not done and why."""
    run, manifest = told.run, told.run.manifest
    took = duration_text(run.ended_at - run.at) if run.ended_at else "not ended"
    say(f"{told.tenant}  run {run.name}  {run.state.value}  {took}")
    if run.reason:
        _line("because", run.reason)
    counts = manifest.counts
    ends = [
        f"{counts[f'units_{state}']} {words}"
        for state, words in _STATES.items()
        if counts.get(f"units_{state}")
    ]
    if ends:
        chosen = counts.get("selected", len(manifest.selected))
        _line("looked", f"{chosen} {_whence(counts)}: {', '.join(ends)}")
    _line("spent", by_connector(manifest.cost) or "nothing")
    if unknown := _named(counts, "unknown"):
        _line("unknown", f"{by_connector(unknown)} may have been spent besides; see: stoker holds")
    if saved := _named(counts, "saved"):
        _line("saved", f"{by_connector(saved)}, answered before and not paid again")
    _line("leads", f"{told.leads} with a score of {told.least:g} or more")
    crm = [f"{counts[key]} {word}" for key, word in _CRM.items() if counts.get(key)]
    if crm:
        _line("crm", ", ".join(crm))
    for reason in manifest.reasons[:REASONS]:
        _line("why not", reason)
    if len(manifest.reasons) > REASONS:
        more = len(manifest.reasons) - REASONS
        _line("why not", f"… {more} more: stoker runs show {run.name} --tenant {told.tenant}")
    if run.state is RunState.CANCELLED and manifest.remaining:
        _line("goes on", f"stoker runs rerun {run.name} --tenant {told.tenant}")
    if run.state in (RunState.CANCELLED, RunState.FAILED) and counts.get("crm_written"):
        _line("undo", f"stoker undo {run.name} --tenant {told.tenant} takes back what it wrote")
    if manifest.resume_at:
        _line("goes on", f"{manifest.resume_at:%Y-%m-%d %H:%M} UTC, when the first cap has room")
    say()


_CRM = {
    "crm_written": "rows written",
    "crm_same": "as they were",
    "crm_left_to_people": "left as people have them",
    "crm_refused": "set aside",
    "crm_later": "kept for the next night",
    "crm_unknown": "that may be there or not",
}


def _whence(counts: Mapping[str, int]) -> str:
    if "candidates" not in counts:
        return "companies"  # it was cut off where nobody could tell any more
    among = counts["candidates"]
    return f"of {among} candidates" if among else "that an earlier run chose"


def _named(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the amounts a manifest counts under a prefix, by connector and unit."""
    start = f"{prefix} "
    return {
        key.removeprefix(start): value for key, value in counts.items() if key.startswith(start)
    }


def _line(label: str, text: str) -> None:
    wrapped = wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    for nth, part in enumerate(wrapped):
        say(f"  {'' if nth else label:<9}{part}")


def told_json(told: Told) -> Json:
    """Return how a night went, for programs: the run, and how many leads it found."""
    from stoker.runs.commands import run_shown

    return {**run_shown(told.tenant, told.run), "leads": told.leads}


def by_unit(unit: str, amount: int) -> str:
    """Return an amount as people say it; money is kept in minor units."""
    kind, _, currency = unit.partition(":")
    if kind == "money":
        return f"{currency} {amount / 100:,.2f}"
    words = unit.replace("_", " ")
    return f"{amount:,} {words.removesuffix('s') if amount == 1 else words}"


def by_connector(cost: Mapping[str, int]) -> str:
    """Return what was spent as people say it, connector by connector."""
    found: dict[str, list[str]] = {}
    for name, amount in cost.items():
        connector, _, unit = name.partition("/")
        if amount:
            found.setdefault(connector, []).append(by_unit(unit, amount))
    return "; ".join(f"{connector} {', '.join(amounts)}" for connector, amounts in found.items())


def _costs(cost: Mapping[str, int], connector: str) -> str:
    own = {name: amount for name, amount in cost.items() if name.partition("/")[0] == connector}
    return by_connector(own).removeprefix(f"{connector} ")


def _calls(refused: float) -> str:
    return str(round(refused)) if round(refused) else ""


def _worth(dossier: Dossier) -> tuple[float, str]:
    return (-dossier.score.value if dossier.score else 0.0, dossier.company.id)


def _span(span: timedelta) -> str:
    return "for ever" if span == timedelta.max else duration_text(span)


def _seconds(span: timedelta) -> float | None:
    return None if span == timedelta.max else span.total_seconds()


def _moment(at: datetime, span: timedelta) -> str:
    return "never" if span == timedelta.max else f"{at + span:%H:%M}"
