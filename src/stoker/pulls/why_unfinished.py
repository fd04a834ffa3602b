"""A company a run chose and never ended with, told: because of what, what was paid, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.budgets.views import resume_words
from stoker.cli.output import say
from stoker.enrichment.model import UnitState
from stoker.enrichment.pull_units import CONNECTOR
from stoker.enrichment.summary import spent_under
from stoker.nightly.report import by_connector
from stoker.runs.model import RunState, run_at

if TYPE_CHECKING:
    from stoker.base.types import Json
    from stoker.budgets.model import Stop
    from stoker.budgets.statements import Spent
    from stoker.context import Store
    from stoker.enrichment.model import Unit
    from stoker.runs.model import Run

_NOT_DONE = (UnitState.WAITING, UnitState.TAKEN, UnitState.SHED)

_STOPS_LOOKS = ("", CONNECTOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """How a company stands that its run did not come to the end of."""

    run: Run
    spent: Spent  # for it, under that run
    stops: tuple[Stop, ...]  # in force now, that keep anybody from looking at it

    @property
    def is_over(self) -> bool:
        """Say whether the run has ended, so that nobody comes to it any more."""
        return self.run.state is not RunState.RUNNING


async def left(store: Store, name: str, unit: Unit) -> Left | None:
    """Find out how a company stands that is not done; None for one that is, or a forgotten run."""
    run = await store.runs.run(run_at(name)) if unit.state in _NOT_DONE else None
    if run is None:
        return None
    return Left(
        run=run,
        spent=await spent_under(store, name, ended=run, account=unit.company),
        stops=tuple(each for each in await store.money.stops() if each.connector in _STOPS_LOOKS),
    )


def because(left: Left, unit: Unit) -> str:
    """Say in a sentence why nobody came to its end; empty while somebody still may."""
    if not left.is_over or unit.state is UnitState.SHED:
        return ""
    begun = unit.state is UnitState.TAKEN or any(left.spent.settled.values())
    run, how = left.run, "was begun and not finished" if begun else "was not begun"
    why = f", because {run.reason}" if run.reason else ""
    return f"{how}: run {run.name} ended {run.state}{why}"


def show_spent(left: Left) -> None:
    """Print what was paid for it so far."""
    settled, unknown = by_connector(left.spent.settled), by_connector(left.spent.unknown)
    kept = ", which is kept for when it is taken up again" if settled and left.is_over else ""
    say(f"It cost {settled or 'nothing'} so far{kept}.")
    if unknown:
        say(f"Besides, {unknown} may have been spent, and nobody knows; see: stoker holds")


def show_what_to_do(left: Left, tenant: str) -> None:
    """Print how to have it looked at all the same."""
    if not left.is_over:
        return
    for stop in left.stops:
        say(f"Spending is stopped; take that back first, with: {resume_words(stop)}")
    if left.run.manifest.resume_at is not None:
        say(f"A full cap has room again at {left.run.manifest.resume_at:%Y-%m-%d %H:%M} UTC.")
    say(f"To have it taken up again: stoker runs rerun {left.run.name} --tenant {tenant}")


def left_json(left: Left, unit: Unit) -> dict[str, Json]:
    """Return the same for programs, as part of what is told of its night."""
    return {
        "cost": dict(left.spent.settled),
        "unknown": dict(left.spent.unknown),
        "run_state": left.run.state.value,
        "not_done_because": because(left, unit) or None,
        "stops": [resume_words(each) for each in left.stops],
    }
