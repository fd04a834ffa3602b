"""A plan of pulls told to people and programs, in one screen: who, how deep, at what cost, why not.

What was decided is read from the plan itself; nothing is reckoned here but sums for the eye.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.calendar.timezones import duration_text
from stoker.cli.output import say, show_table
from stoker.nightly.report import by_unit, learned_text

if TYPE_CHECKING:
    from stoker.base.types import Json, TenantId
    from stoker.enrichment.forecast import Quote
    from stoker.pulls.service import Pulls

_MEANS = {
    "WORTH": "looked at: worth its price",
    "FLOOR": "looked at: waited too long",
    "SIGNAL": "looked at: because of signals",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedPulls:
    """One tenant's plan, what it is expected to take, and the run it is kept under."""

    tenant: TenantId
    pulls: Pulls
    quote: Quote
    run: str = ""  # empty: it is kept nowhere


def show_pulls(planned: PlannedPulls) -> None:
    """Print a plan in one screen."""
    from stoker.pulls.columns import Policy
    from stoker.pulls.service import NOBODY, hindered

    told = pulls_json(planned)
    rule = planned.pulls.inputs.rule
    by = f"{rule.policy} ({rule.objective})" if rule.policy is Policy.OPTIMAL else rule.policy
    say(
        f"{planned.tenant}: {told['selected']} of {told['accounts']} accounts by policy "
        f"{by}, {told['deep']} of them deep; "
        f"{told['spent']} of {told['budget']} pull units"
    )
    show_table(
        ["reason", "accounts", "meaning"],
        [(code, number, _meaning(code)) for code, number in reasons(planned).items()],
        empty=NOBODY,
    )
    for each in hindered(planned.pulls):
        say(f"  {each.why.name}: {each.sentence}")
    if told["withheld"]:
        say(f"  {told['withheld']} accounts wanted a deep look for which there was no room")
    quote = planned.quote
    show_table(
        ["expected of", "calls", "cost", "caps refuse"],
        [
            (name, math.ceil(calls), _costs(planned, name), math.ceil(quote.refused.get(name, 0.0)))
            for name, calls in quote.calls.items()
        ],
        empty="nobody needs to be asked",
    )
    say(f"  price of a unit {told['price']:.3g}; at most {told['gap']:.2%} from the best plan")
    if planned.pulls.plan.overdue.sum():
        say(f"  {told['overdue']} accounts waited too long; {told['unkept']} of them still wait")
    say(f"  through in {duration_text(quote.p50)} (P50) to {duration_text(quote.p90)} (P90)")
    say(f"  {learned_text(quote.nights)}")
    if planned.run:
        say(f"  kept as run {planned.run}; one account: stoker why {planned.tenant}/ACCOUNT")
    else:
        say("  Nothing was kept, promised or asked for.")


def pulls_json(planned: PlannedPulls) -> dict[str, Json]:
    """Return a plan for programs."""
    from stoker.pulls.plan_record import summary
    from stoker.pulls.planner import DEEP, SHALLOW
    from stoker.pulls.service import hindered

    pulls = planned.pulls
    plan, inputs, quote = pulls.plan, pulls.inputs, planned.quote
    codes: dict[str, Json] = dict(reasons(planned))
    return {
        "tenant": planned.tenant,
        "run": planned.run or None,
        "at": pulls.at.isoformat(),
        "accounts": len(inputs.ids),
        "selected": len(plan.chosen),
        "shallow": int((plan.depth == SHALLOW).sum()),
        "deep": int((plan.depth == DEEP).sum()),
        **summary(plan, inputs.limits, inputs.rule, tenant=0),
        "unkept": len(plan.unkept),
        "withheld": int((plan.withheld != 0).sum()),
        "hindrances": [each.as_json() for each in hindered(pulls)],
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


def reasons(planned: PlannedPulls) -> dict[str, int]:
    """Return how many accounts each reason has, the chosen first."""
    import numpy as np

    from stoker.pulls.columns import Why

    many = np.bincount(planned.pulls.plan.why, minlength=1).tolist()
    return {Why(code).name: number for code, number in enumerate(many) if number}


def _meaning(code: str) -> str:
    from stoker.base.reasons import Reason

    return _MEANS.get(code) or Reason[code].sentence


def _costs(planned: PlannedPulls, name: str) -> str:
    parts = [
        by_unit(key.partition("/")[2], amount)
        for key, amount in planned.quote.cost.items()
        if key.partition("/")[0] == name
    ]
    return ", ".join(parts)
