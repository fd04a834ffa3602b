"""What the newest plan of pulls decided about one account: a sentence, five numbers, what flips it.

Told from the plan as it was kept, with the numbers of that moment, not of now.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.cli.output import say, show_table

if TYPE_CHECKING:
    from datetime import datetime

    from stoker.accounts.model import Company
    from stoker.base.types import Json
    from stoker.context import Store
    from stoker.pulls.columns import Why
    from stoker.pulls.explain import Explanation
    from stoker.pulls.flips import Flips

_NO_PRICE = ("there were units left", "everybody had room")  # not looked at, looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What one plan said about one account."""

    run: str
    at: datetime
    policy: str
    explained: Explanation | None = None  # None: the plan did not know the account
    kept: Why | None = None  # as it was decided then
    flips: Flips | None = None  # None: nobody asked

    @property
    def another_now(self) -> bool:
        """Whether the same inputs would be decided otherwise by this version of Stoker."""
        return self.explained is not None and self.explained.why != self.kept


async def pulled(store: Store, company: Company, *, flip: bool) -> Pulled | None:
    """Return what the newest plan decided about a company; None when no plan is kept."""
    from stoker.pulls.columns import Why
    from stoker.pulls.explain import explain
    from stoker.pulls.flips import flips
    from stoker.pulls.replay import planned_again
    from stoker.pulls.saved_plans import newest_plan

    found = await newest_plan(store)
    if found is None:
        return None
    record, inputs = found.record, found.inputs
    row = found.decisions.place(company.id)
    if row is None:
        return Pulled(run=record.run, at=record.at, policy=record.policy)
    plan, _ = planned_again(inputs, now=record.at)
    accounts, limits = inputs.accounts, inputs.limits
    explained = explain(
        row,
        accounts,
        limits,
        now=record.at,
        rule=inputs.rule,
        plan=plan,
        hindrances=inputs.hindrances,
        name=company.name,
    )
    ways = None
    if flip:
        ways = flips(row, accounts, limits, now=record.at, rule=inputs.rule, plan=plan)
    return Pulled(
        run=record.run,
        at=record.at,
        policy=record.policy,
        explained=explained,
        kept=Why(int(found.decisions.why[row])),
        flips=ways,
    )


def show_pulled(told: Pulled) -> None:
    """Print it."""
    say(f"\nPulls: the plan of run {told.run} ({told.at:%Y-%m-%d %H:%M} UTC, policy {told.policy})")
    explained = told.explained
    if explained is None:
        say("  did not know it: it had no heat then; the next does, after: stoker heat sweep")
        return
    say(f"  {explained.sentence}")
    if told.another_now and told.kept is not None:
        say(
            f"  It was decided as {told.kept.name} then; this version of Stoker would say "
            f"{explained.why.name}."
        )
    show_table(
        ["out of date", "missed changes", "changes every", "worth over price", "due every"],
        [
            (
                f"{explained.stale_chance:.0%}",
                f"{explained.missed_changes:.1f}" if math.isfinite(explained.age) else "-",
                _days(explained.days_between_changes),
                f"{explained.worth_over_price:.3g}"
                if math.isfinite(explained.worth_over_price)
                else _NO_PRICE[explained.depth > 0],
                _days(explained.due_every),
            )
        ],
    )
    if told.flips is not None:
        say(f"  {_flip_sentence(told)}")


def pulled_json(told: Pulled) -> Json:
    """Return it for programs."""
    explained, kept = told.explained, told.kept
    found: dict[str, Json] = {
        "run": told.run,
        "at": told.at.isoformat(),
        "policy": told.policy,
        "known": explained is not None,
    }
    if explained is None or kept is None:
        return found
    flip: Json = None
    if told.flips is not None:
        ways = told.flips
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
            "sentence": _flip_sentence(told),
        }
    return {**found, **explained.as_json(), "kept_why": kept.name, "flip": flip}


def _flip_sentence(told: Pulled) -> str:
    from stoker.pulls.planner import NOT

    if told.explained is not None and told.explained.depth != NOT:
        return "It is looked at; there is nothing to flip."
    return told.flips.sentence if told.flips is not None else ""


def _days(number: float) -> str:
    return f"{number:.1f} days" if number < 3650 else "never"
