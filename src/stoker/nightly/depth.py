"""Choose how deep a lookup is, by what is known of the company and by its heat."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.accounts.model import Candidate
from stoker.base.types import Depth

SHALLOW_UNITS = 1  # pull units of a lookup, unless settings say otherwise
DEEP_UNITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthRule:
    """When a lookup is deep, and how many pull units each depth costs."""

    # Below `heat.hot_from` (0.7), where the HOT tier begins: a warm company deserves depth, too.
    deep_from_heat: float = 0.5
    deep_again_after: timedelta = timedelta(days=30)
    shallow_units: int = SHALLOW_UNITS
    deep_units: int = DEEP_UNITS


def choose_depth(standing: Candidate, *, now: datetime, rule: DepthRule) -> tuple[Depth, str]:
    """Return how deep a lookup this company deserves, money aside, and because of what."""
    if not standing.scored:
        return Depth.DEEP, "deep, as nothing is known yet"
    if standing.contacts == 0:
        return Depth.DEEP, "deep, as no contact is known"
    if standing.heat >= rule.deep_from_heat:
        return Depth.DEEP, f"deep, as its heat is {standing.heat:.2f}"
    looked_at = standing.last_looked_at
    if looked_at is None or now - looked_at >= rule.deep_again_after:
        days = f"{(now - looked_at).days} days ago" if looked_at else "never"
        return Depth.DEEP, f"deep, as it was last researched {days}"
    return Depth.SHALLOW, "shallow, as it is scored, has contacts and is not hot"
