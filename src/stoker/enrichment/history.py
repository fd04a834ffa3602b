"""What looks took of each vendor in a tenant's latest nights, to quote the next one by.

Sums over units as they were written down, and what a unit says of the next look at its company.
How much is believed of it, beside what is expected before anything is known, is `forecast`'s
business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median
from types import MappingProxyType

from stoker.base.types import Depth, Step
from stoker.enrichment.model import Unit, UnitState, was_look

A_NIGHT_COUNTS = 30  # looks, however many more it had

KEPT_FOR = timedelta(days=30)  # about as long as answers are good

NEVER_SCORED = "never scored"  # among the reasons of `core.targets`: nothing is known yet

ASKED: Mapping[str, Step] = MappingProxyType(
    {
        "crawl": Step.CRAWL,
        "tavily": Step.EXTRACT,
        "openai": Step.EXTRACT,
        "lusha": Step.CONTACTS,
        "zerobounce": Step.VERIFY,
    }
)
"""Whom a look asks, in this order, and in which step. What one says decides who is asked next."""


class LookKind(StrEnum):
    """Looks that need alike."""

    FIRST = "first"  # deep, and nothing was known: everybody is asked anew
    AGAIN = "again"  # deep, but most of what it asks was answered before
    SHALLOW = "shallow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one look of one kind took of one connector, in so many nights."""

    nights: int
    evidence: int  # looks it is known from; of each night a few only
    per_look: Mapping[str, float] = field(default_factory=dict)  # by unit


def taken(nights: Sequence[Sequence[Unit]], connector: str) -> dict[LookKind, Taken]:
    """Return what looks of each kind took of a connector; nothing of a kind nobody had.

    `nights` come newest first. Each night has its average, and the median of them counts: of three
    nights or more, one that was odd changes little. A first look took also what kept answers saved
    it. Whoever did without a vendor teaches nothing of it, nor of those asked later; and whoever
    made up for what an earlier night did without, nothing at all.
    """
    found: dict[LookKind, Taken] = {}
    taught = _taught(nights)
    for kind in LookKind:
        told = (_telling(of.get(kind, ()), connector) for of in taught)
        looked = [of for of in told if of]
        if not looked:
            continue
        averages = [_average(of, f"{connector}/", kind) for of in looked]
        found[kind] = Taken(
            nights=len(looked),
            evidence=sum(min(len(of), A_NIGHT_COUNTS) for of in looked),
            per_look={
                unit: median(average.get(unit, 0.0) for average in averages)
                for unit in sorted({unit for average in averages for unit in average})
            },
        )
    return found


def asked_anew(last: Unit | None, *, depth: Depth, now: datetime) -> frozenset[str]:
    """Return whom a look this deep asks as a first look does, given its company's last unit.

    Everybody where nobody looked, or so long ago that no answer is good any more; otherwise whom
    the last look had to do without, and who was never asked because of it.
    """
    deep = frozenset(ASKED) if depth is Depth.DEEP else frozenset[str]()
    if last is None:
        return deep
    if last.ended_at is None or not was_look(last):
        return deep if NEVER_SCORED in last.because else frozenset()
    if now - last.ended_at >= KEPT_FOR:
        return deep
    lacking = did_without(last)
    heard = {name.partition("/")[0] for name in (*last.cost, *last.saved)}
    owed = frozenset(name for name in lacking if name not in heard or name == _first(lacking))
    # What was too shallow a look is made up for by a deep one alone; what a vendor owes, by any.
    return deep & owed if "crawl" in lacking else owed


def did_without(unit: Unit) -> frozenset[str]:
    """Return whom a unit did not hear, or heard less of than it would have: it says why first.

    With a vendor that refused, all that are asked later: what they are asked follows from it.
    """
    if unit.state not in (UnitState.DEGRADED, UnitState.UNKNOWN):
        return frozenset()
    order = list(ASKED)
    step, _, because = (unit.reasons[0] if unit.reasons else "").partition(": ")
    named = [name for name in order if because.startswith(f"{name} ")]
    of_step = [name for name, taken_in in ASKED.items() if taken_in == step]
    if not of_step:
        return frozenset(named or order)  # a later step, which asks one of them once more
    first = next((name for name in named if name in of_step), of_step[0])
    return frozenset(order[order.index(first) :])


def shares_anew(
    looks: Iterable[tuple[Depth, frozenset[str]]],
) -> dict[str, dict[Depth, float]]:
    """Return by connector which share of the looks of each depth asks it anew."""
    many: Counter[Depth] = Counter()
    anew: Counter[tuple[str, Depth]] = Counter()
    for depth, asked in looks:
        many[depth] += 1
        anew.update((name, depth) for name in asked)
    return {name: {depth: anew[name, depth] / many[depth] for depth in many} for name in ASKED}


def _first(connectors: Collection[str]) -> str:
    return next((name for name in ASKED if name in connectors), "")


def _taught(nights: Sequence[Sequence[Unit]]) -> list[dict[LookKind, list[Unit]]]:
    found: list[dict[LookKind, list[Unit]]] = []
    before: dict[str, Unit] = {}
    for night in reversed(nights):
        kinds: dict[LookKind, list[Unit]] = {}
        for unit in night:
            earlier = before.get(unit.company)
            if earlier is None or not did_without(earlier):
                kinds.setdefault(_kind(unit, earlier), []).append(unit)
        before |= {unit.company: unit for unit in night}
        found.append(kinds)
    return found


def _kind(unit: Unit, earlier: Unit | None) -> LookKind:
    if unit.depth is Depth.SHALLOW:
        return LookKind.SHALLOW
    first = earlier is None and NEVER_SCORED in unit.because
    return LookKind.FIRST if first else LookKind.AGAIN


def _telling(units: Iterable[Unit], connector: str) -> list[Unit]:
    return [unit for unit in units if connector not in did_without(unit)]


def _average(units: Sequence[Unit], prefix: str, kind: LookKind) -> dict[str, float]:
    total: Counter[str] = Counter()
    for unit in units:
        for needed in (unit.cost, unit.saved) if kind is LookKind.FIRST else (unit.cost,):
            for name, amount in needed.items():
                if name.startswith(prefix):
                    total[name.removeprefix(prefix)] += amount
    return {name: amount / len(units) for name, amount in total.items()}
