"""What looks took of each vendor in a tenant's latest nights, to quote the next one by.

Sums over units as they were written down. How much is believed of it, beside what is expected
before anything is known, is `forecast`'s business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from stoker.core.nights import Depth, Unit

A_NIGHT_COUNTS = 30  # looks, however many more it had


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one look of one depth took of one connector, in so many nights."""

    nights: int
    evidence: int  # looks it is known from; of each night a few only
    per_look: Mapping[str, float] = field(default_factory=dict)  # by unit


def taken(nights: Sequence[Sequence[Unit]], connector: str) -> dict[Depth, Taken]:
    """Return what looks of each depth took of a connector; nothing of a depth nobody looked at.

    Each night has its average, and the median of them counts: of three nights or more, one that
    was odd changes little.
    """
    found: dict[Depth, Taken] = {}
    for depth in Depth:
        looked = [of for night in nights if (of := [u for u in night if u.depth is depth])]
        if not looked:
            continue
        averages = [_average(of, f"{connector}/") for of in looked]
        found[depth] = Taken(
            nights=len(looked),
            evidence=sum(min(len(of), A_NIGHT_COUNTS) for of in looked),
            per_look={
                unit: median(average.get(unit, 0.0) for average in averages)
                for unit in sorted({unit for average in averages for unit in average})
            },
        )
    return found


def _average(units: Sequence[Unit], prefix: str) -> dict[str, float]:
    total: Counter[str] = Counter()
    for unit in units:
        total.update(
            {
                name.removeprefix(prefix): amount
                for name, amount in unit.cost.items()
                if name.startswith(prefix)
            }
        )
    return {name: amount / len(units) for name, amount in total.items()}
