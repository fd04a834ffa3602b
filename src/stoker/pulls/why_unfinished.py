"""Explain a company that a run chose and did not finish: cause, cost so far, next steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.budgets.views import format_resume_command
from stoker.cli.output import print_text
from stoker.enrichment.model import WorkState
from stoker.enrichment.pull_units import CRAWL
from stoker.enrichment.summary import compute_run_cost
from stoker.nightly.report import format_cost
from stoker.runs.model import RunState, parse_run_name

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.budgets.model import Stop
    from stoker.budgets.statements import RunCost
    from stoker.context import TenantStores
    from stoker.enrichment.model import WorkItem
    from stoker.runs.model import Run

_UNFINISHED_STATES = (WorkState.WAITING, WorkState.CLAIMED, WorkState.DROPPED)

_LOOKUP_STOPS = ("", CRAWL)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedReport:
    """The state of a company that its run did not finish."""

    run: Run
    spent: RunCost  # for it, under that run
    stops: tuple[Stop, ...]  # in force now, that prevent its lookup

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended, so that it will not finish the company."""
        return self.run.state is not RunState.RUNNING


async def find_unfinished(
    store: TenantStores, name: str, unit: WorkItem
) -> UnfinishedReport | None:
    """Return the state of a company that is not done; None if it is, or for a deleted run."""
    run = (
        await store.runs.find_run(parse_run_name(name))
        if unit.state in _UNFINISHED_STATES
        else None
    )
    if run is None:
        return None
    return UnfinishedReport(
        run=run,
        spent=await compute_run_cost(store, name, ended=run, account=unit.company),
        stops=tuple(
            each for each in await store.money.list_stops() if each.connector in _LOOKUP_STOPS
        ),
    )


def format_cause(left: UnfinishedReport, unit: WorkItem) -> str:
    """Return a sentence why the company was not finished; empty while the run may still do so."""
    if not left.is_over or unit.state is WorkState.DROPPED:
        return ""
    begun = unit.state is WorkState.CLAIMED or any(left.spent.settled.values())
    run, how = left.run, "was begun and not finished" if begun else "was not begun"
    why = f", because {run.reason}" if run.reason else ""
    return f"{how}: run {run.name} ended {run.state}{why}"


def print_spent(left: UnfinishedReport) -> None:
    """Print what was paid for it so far."""
    settled, unknown = format_cost(left.spent.settled), format_cost(left.spent.unknown)
    kept = ", which counts when it is resumed" if settled and left.is_over else ""
    print_text(f"It cost {settled or 'nothing'} so far{kept}.")
    if unknown:
        print_text(f"Besides, {unknown} may have been spent (outcome unknown); see: stoker holds")


def print_next_steps(left: UnfinishedReport, tenant: str) -> None:
    """Print how to have it looked up all the same."""
    if not left.is_over:
        return
    for stop in left.stops:
        print_text(
            f"Spending is stopped; take that back first, with: {format_resume_command(stop)}"
        )
    if left.run.manifest.resume_at is not None:
        print_text(
            f"A full cap has room again at {left.run.manifest.resume_at:%Y-%m-%d %H:%M} UTC."
        )
    print_text(f"To resume it: stoker runs rerun {left.run.name} --tenant {tenant}")


def to_unfinished_json(left: UnfinishedReport, unit: WorkItem) -> dict[str, Json]:
    """Return the same for programs, as part of the company's nightly report."""
    return {
        "cost": dict(left.spent.settled),
        "unknown": dict(left.spent.unknown),
        "run_state": left.run.state.value,
        "not_done_because": format_cause(left, unit) or None,
        "stops": [format_resume_command(each) for each in left.stops],
    }
