"""What the newest plan of pulls decided about one account: a sentence, five numbers, what flips it.

Told from the plan as it was kept, with the numbers of that moment, not of now.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.cli.output import print_table, print_text

if TYPE_CHECKING:
    from datetime import datetime

    from stoker.accounts.model import Company
    from stoker.base.types import Json
    from stoker.context import TenantStores
    from stoker.pulls.columns import Decision
    from stoker.pulls.explain import Explanation
    from stoker.pulls.flips import Counterfactual

_NO_PRICE_TEXTS = ("there were units left", "everybody had room")  # not looked at, looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReport:
    """What one plan said about one account."""

    run: str
    at: datetime
    policy: str
    explanation: Explanation | None = None  # None: the plan did not know the account
    saved_decision: Decision | None = None  # as it was decided then
    counterfactual: Counterfactual | None = None  # None: nobody asked

    @property
    def differs_now(self) -> bool:
        """Whether the same inputs would be decided otherwise by this version of Stoker."""
        return self.explanation is not None and self.explanation.why != self.saved_decision


async def find_pull_report(
    store: TenantStores, company: Company, *, flip: bool
) -> PullReport | None:
    """Return what the newest plan decided about a company; None when no plan is kept."""
    from stoker.pulls.columns import Decision
    from stoker.pulls.explain import explain
    from stoker.pulls.flips import find_counterfactual
    from stoker.pulls.replay import replay_plan
    from stoker.pulls.saved_plans import find_newest_plan

    found = await find_newest_plan(store)
    if found is None:
        return None
    record, inputs = found.record, found.inputs
    row = found.decisions.find_row(company.id)
    if row is None:
        return PullReport(run=record.run, at=record.at, policy=record.policy)
    plan, _ = replay_plan(inputs, now=record.at)
    accounts, limits = inputs.accounts, inputs.limits
    explained = explain(
        row,
        accounts,
        limits,
        now=record.at,
        rule=inputs.rule,
        plan=plan,
        hindrances=inputs.constraints,
        name=company.name,
    )
    ways = None
    if flip:
        ways = find_counterfactual(
            row, accounts, limits, now=record.at, rule=inputs.rule, plan=plan
        )
    return PullReport(
        run=record.run,
        at=record.at,
        policy=record.policy,
        explanation=explained,
        saved_decision=Decision(int(found.decisions.why[row])),
        counterfactual=ways,
    )


def print_pull_report(told: PullReport) -> None:
    """Print it."""
    print_text(
        f"\nPulls: the plan of run {told.run} ({told.at:%Y-%m-%d %H:%M} UTC, policy {told.policy})"
    )
    explained = told.explanation
    if explained is None:
        print_text(
            "  did not know it: it had no heat then; the next does, after: stoker heat sweep"
        )
        return
    print_text(f"  {explained.message}")
    if told.differs_now and told.saved_decision is not None:
        print_text(
            f"  It was decided as {told.saved_decision.name} then; this version of Stoker would "
            "say "
            f"{explained.why.name}."
        )
    print_table(
        ["out of date", "missed changes", "changes every", "worth over price", "due every"],
        [
            (
                f"{explained.stale_chance:.0%}",
                f"{explained.missed_changes:.1f}" if math.isfinite(explained.age) else "-",
                _format_days(explained.days_between_changes),
                f"{explained.worth_over_price:.3g}"
                if math.isfinite(explained.worth_over_price)
                else _NO_PRICE_TEXTS[explained.depth > 0],
                _format_days(explained.due_every),
            )
        ],
    )
    if told.counterfactual is not None:
        print_text(f"  {_format_flip(told)}")


def to_pull_report_json(told: PullReport) -> Json:
    """Return it for programs."""
    explained, kept = told.explanation, told.saved_decision
    found: dict[str, Json] = {
        "run": told.run,
        "at": told.at.isoformat(),
        "policy": told.policy,
        "known": explained is not None,
    }
    if explained is None or kept is None:
        return found
    flip: Json = None
    if told.counterfactual is not None:
        ways = told.counterfactual
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
            "sentence": _format_flip(told),
        }
    return {**found, **explained.as_json(), "kept_why": kept.name, "flip": flip}


def _format_flip(told: PullReport) -> str:
    from stoker.pulls.planner import NOT

    if told.explanation is not None and told.explanation.depth != NOT:
        return "It is looked at; there is nothing to flip."
    return told.counterfactual.message if told.counterfactual is not None else ""


def _format_days(number: float) -> str:
    return f"{number:.1f} days" if number < 3650 else "never"
