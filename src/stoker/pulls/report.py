"""A plan of pulls told to people and programs, in one screen: who, how deep, at what cost, why not.

What was decided is read from the plan itself; nothing is reckoned here but sums for the eye.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.base.formats import format_duration
from stoker.cli.output import print_table, print_text
from stoker.nightly.report import format_amount, format_history

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.enrichment.forecast import Quote
    from stoker.pulls.saved_plans import PlanningResult

_DECISION_TEXTS = {
    "WORTH": "looked at: worth its price",
    "FLOOR": "looked at: waited too long",
    "SIGNAL": "looked at: because of signals",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedPulls:
    """One tenant's plan, what it is expected to take, and the run it is kept under."""

    tenant: TenantId
    pulls: PlanningResult
    quote: Quote
    run: str = ""  # empty: it is kept nowhere


def print_pulls(planned: PlannedPulls) -> None:
    """Print a plan in one screen."""
    from stoker.pulls.saved_plans import list_active_constraints
    from stoker.pulls.service import NO_ACCOUNTS
    from stoker.pulls.settings import Policy

    told = to_pulls_json(planned)
    rule = planned.pulls.inputs.rule
    by = f"{rule.policy} ({rule.objective})" if rule.policy is Policy.OPTIMAL else rule.policy
    print_text(
        f"{planned.tenant}: {told['selected']} of {told['accounts']} accounts by policy "
        f"{by}, {told['deep']} of them deep; "
        f"{told['spent']} of {told['budget']} pull units"
    )
    print_table(
        ["reason", "accounts", "meaning"],
        [(code, number, _get_meaning(code)) for code, number in count_reasons(planned).items()],
        empty=NO_ACCOUNTS,
    )
    for each in list_active_constraints(planned.pulls):
        print_text(f"  {each.why.name}: {each.message}")
    if told["withheld"]:
        print_text(f"  {told['withheld']} accounts wanted a deep look for which there was no room")
    quote = planned.quote
    print_table(
        ["expected of", "calls", "cost", "caps refuse"],
        [
            (
                name,
                math.ceil(calls),
                _format_costs(planned, name),
                math.ceil(quote.refused.get(name, 0.0)),
            )
            for name, calls in quote.calls.items()
        ],
        empty="nobody needs to be asked",
    )
    print_text(
        f"  price of a unit {told['price']:.3g}; at most {told['gap']:.2%} from the best plan"
    )
    if planned.pulls.plan.overdue:
        print_text(
            f"  {told['overdue']} accounts waited too long; {told['unkept']} of them still wait"
        )
    print_text(
        f"  through in {format_duration(quote.p50)} (P50) to {format_duration(quote.p90)} (P90)"
    )
    print_text(f"  {format_history(quote.nights)}")
    if planned.run:
        print_text(f"  kept as run {planned.run}; one account: stoker why {planned.tenant}/ACCOUNT")
    else:
        print_text("  Nothing was kept, promised or asked for.")


def to_pulls_json(planned: PlannedPulls) -> dict[str, Json]:
    """Return a plan for programs."""
    from stoker.pulls.planner import DEEP, SHALLOW
    from stoker.pulls.saved_plans import list_active_constraints, summarize_plan

    pulls = planned.pulls
    plan, quote = pulls.plan, planned.quote
    codes: dict[str, Json] = dict(count_reasons(planned))
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
        "reasons": codes,
        "quote": {
            "calls": dict(quote.calls),
            "cost": dict(quote.cost),
            "refused": dict(quote.refused),
            "p50_s": quote.p50.total_seconds(),
            "p90_s": quote.p90.total_seconds(),
            "slowest": quote.slowest,
            "learned_from_nights": quote.nights,
        },
    }


def count_reasons(planned: PlannedPulls) -> dict[str, int]:
    """Return how many accounts each reason has, the chosen first."""
    import numpy as np

    from stoker.pulls.columns import Decision

    many = np.bincount(planned.pulls.plan.why, minlength=1).tolist()
    return {Decision(code).name: number for code, number in enumerate(many) if number}


def _get_meaning(code: str) -> str:
    from stoker.base.reasons import Reason

    return _DECISION_TEXTS.get(code) or Reason[code].message


def _format_costs(planned: PlannedPulls, name: str) -> str:
    parts = [
        format_amount(key.partition("/")[2], amount)
        for key, amount in planned.quote.cost.items()
        if key.partition("/")[0] == name
    ]
    return ", ".join(parts)
