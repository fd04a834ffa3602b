"""Measure what lookups used of each vendor in a tenant's latest runs.

Sums over finished work items of a few runs, and derives from an item what the next lookup of its
company needs. `forecast` decides how much weight the measurement gets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

from stoker.base.types import Depth
from stoker.enrichment.model import KIND, VENDOR_STEPS, WorkItem, WorkState, is_lookup
from stoker.runs.model import RunState

if TYPE_CHECKING:
    from stoker.context import TenantStores

MAX_LOOKUPS_PER_NIGHT = 30  # lookups that count as evidence, however many more there were

ANSWER_LIFETIME = timedelta(days=30)  # about as long as answers are good


class LookupKind(StrEnum):
    """Looks that need alike."""

    FIRST = "first"  # deep, and nothing was known: every vendor is asked
    AGAIN = "again"  # deep, but most of what it asks was answered before
    SHALLOW = "shallow"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUsage:
    """What one lookup of one kind used of one connector, in so many runs."""

    nights: int
    evidence: int  # looks it is known from; of each night a few only
    per_lookup: Mapping[str, float] = field(default_factory=dict)  # by unit


def measure_usage(
    nights: Sequence[Sequence[WorkItem]], connector: str
) -> dict[LookupKind, MeasuredUsage]:
    """Return what lookups of each kind used of a connector, for the kinds that occurred.

    `nights` come newest first. Each night has its average, and the median of them counts: of three
    nights or more, one outlier changes little. For a first lookup, cached answers count as used. An
    item that skipped a vendor teaches nothing about it or later vendors; an item that made up for
    skipped steps teaches nothing at all.
    """
    found: dict[LookupKind, MeasuredUsage] = {}
    taught = _group_by_kind(nights)
    for kind in LookupKind:
        informative = (_filter_informative(of.get(kind, ()), connector) for of in taught)
        lookups = [of for of in informative if of]
        if not lookups:
            continue
        averages = [_compute_average(of, f"{connector}/", kind) for of in lookups]
        found[kind] = MeasuredUsage(
            nights=len(lookups),
            evidence=sum(min(len(of), MAX_LOOKUPS_PER_NIGHT) for of in lookups),
            per_lookup={
                item: median(average.get(item, 0.0) for average in averages)
                for item in sorted({item for average in averages for item in average})
            },
        )
    return found


def list_vendors_to_ask(last: WorkItem | None, *, depth: Depth, now: datetime) -> frozenset[str]:
    """Return the vendors that a lookup asks as a first lookup does, given the last item.

    All of them if the company was never looked up, or so long ago that no cached answer is valid;
    otherwise those that the last lookup skipped, and those not asked because of that.
    """
    deep = frozenset(VENDOR_STEPS) if depth is Depth.DEEP else frozenset[str]()
    if last is None:
        return deep
    if last.ended_at is None or not is_lookup(last):
        return deep if last.is_first else frozenset()
    if now - last.ended_at >= ANSWER_LIFETIME:
        return deep
    lacking = list_skipped_vendors(last)
    heard = {name.partition("/")[0] for name in (*last.cost, *last.saved)}
    owed = frozenset(name for name in lacking if name not in heard or name == _find_first(lacking))
    # What was too shallow a lookup is made up for by a deep one alone; what a vendor owes, by any.
    return deep & owed if "crawl" in lacking else owed


def list_skipped_vendors(unit: WorkItem) -> frozenset[str]:
    """Return the vendors that an item did without, by the first step that it skipped.

    When a vendor refused, all later ones are skipped too: what they are asked follows from it.
    """
    if unit.state not in (WorkState.DEGRADED, WorkState.UNKNOWN) or not unit.skipped:
        return frozenset()
    vendors, first = list(VENDOR_STEPS), unit.skipped[0]
    of_step = [name for name, step in VENDOR_STEPS.items() if step is first.step]
    if not of_step:  # a later step, which asks one of them once more
        return frozenset([first.connector] if first.connector else vendors)
    begin = first.connector if first.connector in of_step else of_step[0]
    return frozenset(vendors[vendors.index(begin) :])


def compute_first_lookup_shares(
    looks: Iterable[tuple[Depth, frozenset[str]]],
) -> dict[str, dict[Depth, float]]:
    """Return by connector the share of lookups of each depth that asks it for the first time."""
    many: Counter[Depth] = Counter()
    first: Counter[tuple[str, Depth]] = Counter()
    for depth, asked in looks:
        many[depth] += 1
        first.update((name, depth) for name in asked)
    return {
        name: {depth: first[name, depth] / many[depth] for depth in many} for name in VENDOR_STEPS
    }


def _find_first(connectors: Collection[str]) -> str:
    return next((name for name in VENDOR_STEPS if name in connectors), "")


def _group_by_kind(nights: Sequence[Sequence[WorkItem]]) -> list[dict[LookupKind, list[WorkItem]]]:
    found: list[dict[LookupKind, list[WorkItem]]] = []
    before: dict[str, WorkItem] = {}
    for night in reversed(nights):
        kinds: dict[LookupKind, list[WorkItem]] = {}
        for item in night:
            earlier = before.get(item.company)
            if earlier is None or not list_skipped_vendors(earlier):
                kinds.setdefault(_choose_kind(item, earlier), []).append(item)
        before |= {item.company: item for item in night}
        found.append(kinds)
    return found


def _choose_kind(item: WorkItem, earlier: WorkItem | None) -> LookupKind:
    if item.depth is Depth.SHALLOW:
        return LookupKind.SHALLOW
    first = earlier is None and item.is_first
    return LookupKind.FIRST if first else LookupKind.AGAIN


def _filter_informative(items: Iterable[WorkItem], connector: str) -> list[WorkItem]:
    return [item for item in items if connector not in list_skipped_vendors(item)]


def _compute_average(items: Sequence[WorkItem], prefix: str, kind: LookupKind) -> dict[str, float]:
    total: Counter[str] = Counter()
    for item in items:
        for needed in (item.cost, item.saved) if kind is LookupKind.FIRST else (item.cost,):
            for name, amount in needed.items():
                if name.startswith(prefix):
                    total[name.removeprefix(prefix)] += amount
    return {name: amount / len(items) for name, amount in total.items()}


MAX_NIGHTS, MAX_LOOKUPS = 5, 400

MAX_RUNS_READ = 20  # among them may be runs that had nothing to do, or broke off

FINISHED_RUN_STATES = (RunState.DONE, RunState.PARTIAL)

_ENDED_STATES = (WorkState.DONE, WorkState.DEGRADED)


async def list_recent_lookups(
    store: TenantStores, *, looks: int = MAX_LOOKUPS
) -> list[Sequence[WorkItem]]:
    """Return items of the latest runs that ended, newest first.

    Of each night at most so many `looks`, those that came first in its order; a night without any
    is left out. Several of one date count as one of the few: one that goes on with another teaches
    little, and must not crowd out those that chose.
    """
    found: list[Sequence[WorkItem]] = []
    dates: set[date] = set()
    for run in await store.runs.list_runs(kind=KIND, limit=MAX_RUNS_READ):
        if len(dates) == MAX_NIGHTS and run.at.date() not in dates:
            break
        if run.state in FINISHED_RUN_STATES and run.manifest.counts.get("selected"):
            ended = await store.work_items.list_items(run.name, states=_ENDED_STATES, limit=looks)
            items = [item for item in ended if is_lookup(item)]
            if items:
                found.append(items)
                dates.add(run.at.date())
    return found
