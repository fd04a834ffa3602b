"""Read what the newest pull plan decided about one account: a sentence, numbers, what flips it.

All numbers are those of the saved plan, not of now.
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

_NO_PRICE_TEXTS = ("there were units left", "all accounts had room")  # not looked up, looked up


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReport:
    """One plan's decision about one account."""

    run: str
    at: datetime
    policy: str
    explanation: Explanation | None = None  # None: the plan did not know the account
    saved_decision: Decision | None = None  # as it was decided then
    counterfactual: Counterfactual | None = None  # None: not requested

    @property
    def differs_now(self) -> bool:
        """Whether the same inputs would be decided otherwise by this version of Stoker."""
        return self.explanation is not None and self.explanation.why != self.saved_decision


async def find_pull_report(
    store: TenantStores, company: Company, *, flip: bool
) -> PullReport | None:
    """Return what the newest plan decided about a company; None without a saved plan."""
    from stoker.pulls.columns import Decision
    from stoker.pulls.explain import explain
    from stoker.pulls.flips import find_counterfactual
    from stoker.pulls.saved_plans import find_newest_plan, replay_plan

    saved = await find_newest_plan(store)
    if saved is None:
        return None
    record, inputs = saved.record, saved.inputs
    row = saved.decisions.find_row(company.id)
    if row is None:
        return PullReport(run=record.run, at=record.at, policy=record.policy)
    plan = replay_plan(inputs, now=record.at).plan
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
        saved_decision=Decision(int(saved.decisions.why[row])),
        counterfactual=ways,
    )


def print_pull_report(report: PullReport) -> None:
    """Print it."""
    print_text(
        f"\nPulls: the plan of run {report.run} "
        f"({report.at:%Y-%m-%d %H:%M} UTC, policy {report.policy})"
    )
    explained = report.explanation
    if explained is None:
        print_text(
            "  did not know it: it had no heat then; the next does, after: stoker heat sweep"
        )
        return
    print_text(f"  {explained.message}")
    if report.differs_now and report.saved_decision is not None:
        print_text(
            f"  It was decided as {report.saved_decision.name} then; this version of Stoker would "
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
    if report.counterfactual is not None:
        print_text(f"  {_format_flip(report)}")


def to_pull_report_json(report: PullReport) -> Json:
    """Return it for programs."""
    explained, saved = report.explanation, report.saved_decision
    view: dict[str, Json] = {
        "run": report.run,
        "at": report.at.isoformat(),
        "policy": report.policy,
        "known": explained is not None,
    }
    if explained is None or saved is None:
        return view
    flip: Json = None
    if report.counterfactual is not None:
        ways = report.counterfactual
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
    from stoker.pulls.planner import NOT

    if report.explanation is not None and report.explanation.depth != NOT:
        return "It is looked at; there is nothing to flip."
    return report.counterfactual.message if report.counterfactual is not None else ""


def _format_days(number: float) -> str:
    return f"{number:.1f} days" if number < 3650 else "never"
