"""Measure what lookups used of each vendor, and quote a run from it before it starts.

Sums over finished work items of a few runs, and derives from an item what the next lookup of its
company needs. A run waits for vendor rates, host delays and worker slots; the slowest of them
decides when it ends. Default usage is weighed against what was measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING

from stoker.base.types import Depth, Step
from stoker.enrichment.model import KIND, WorkItem, WorkState, is_lookup
from stoker.runs.model import RunState
from stoker.vendors.table import VENDOR_STEPS, VENDORS, VendorNeed

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


PRIOR_LOOKUPS = 10  # looks; so much weighs what is expected before anything is known

_Z90 = 1.2816  # standard deviations to the 90th percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorCapacity:
    """How much and how fast a connector lets us: what is left of its caps, and its pace.

    And what looks took of it in earlier nights, where there were any; and which share of tonight's
    lookups asks it as a first lookup does. By default all deep ones do, and no shallow one.
    """

    per_minute: float = math.inf
    calls_left: float = math.inf
    usage: Mapping[LookupKind, MeasuredUsage] = field(default_factory=dict)
    first_lookup_shares: Mapping[Depth, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a run is expected to use, by connector and unit, and when it would end."""

    calls: Mapping[str, float]  # as caps count them: of a batch, everything in it
    cost: Mapping[str, int]  # connector/unit
    refused: Mapping[str, float]  # calls that caps or stops will not allow
    p50: timedelta
    p90: timedelta
    slowest: str  # the bottleneck
    nights: int = 0  # earlier ones it was learned from


def adjust_by_history(
    expected: Mapping[Depth, Sequence[VendorNeed]], rooms: Mapping[str, VendorCapacity]
) -> dict[Depth, list[VendorNeed]]:
    """Return the needs per lookup, adjusted by what earlier lookups used.

    The more lookups were measured, the less the default counts. A repeated lookup is expected to
    need a small part of a first one; a shallow lookup, what earlier shallow ones used of the
    vendors of a deep one.
    """
    found = {
        depth: [
            _mix_need(each, depth, rooms.get(each.connector, VendorCapacity())) for each in needs
        ]
        for depth, needs in expected.items()
    }
    known = {each.connector for each in expected.get(Depth.SHALLOW, ())}
    for each in expected.get(Depth.DEEP, ()):
        room = rooms.get(each.connector, VendorCapacity())
        asked = LookupKind.SHALLOW in room.usage or room.first_lookup_shares.get(Depth.SHALLOW)
        if asked and each.connector not in known:
            found.setdefault(Depth.SHALLOW, []).append(_mix_need(each, Depth.SHALLOW, room, part=0))
    return found


def _mix_need(
    each: VendorNeed, depth: Depth, room: VendorCapacity, *, part: float | None = None
) -> VendorNeed:
    """Return the mean need of first and repeated lookups, weighted by their shares.

    A repeated lookup is expected to need `part` of what a first one does.
    """
    if not each.cost:
        return each
    kind, share, usual = (
        (LookupKind.AGAIN, room.first_lookup_shares.get(depth, 1.0), each.repeat_share)
        if depth is Depth.DEEP
        else (LookupKind.SHALLOW, room.first_lookup_shares.get(depth, 0.0), 1.0)
    )
    first = _adjust_need(each, room.usage.get(LookupKind.FIRST))
    less = replace(each, calls=each.calls * (usual if part is None else part))
    other = _adjust_need(less, room.usage.get(kind))
    if share in (0.0, 1.0):
        return first if share else other
    by_first, by_others = _compute_per_lookup(first), _compute_per_lookup(other)
    return _with_usage(
        each,
        {
            item: share * by_first.get(item, 0.0) + (1 - share) * by_others.get(item, 0.0)
            for item in sorted({*by_first, *by_others})
        },
    )


def _adjust_need(each: VendorNeed, took: MeasuredUsage | None) -> VendorNeed:
    if took is None:
        return each
    trust, before = took.evidence / (took.evidence + PRIOR_LOOKUPS), _compute_per_lookup(each)
    return _with_usage(
        each,
        {
            item: trust * took.per_lookup.get(item, 0.0) + (1 - trust) * before.get(item, 0.0)
            for item in sorted({*before, *took.per_lookup})
        },
    )


def _compute_per_lookup(each: VendorNeed) -> dict[str, float]:
    return {item: each.calls / each.batch_size * amount for item, amount in each.cost.items()}


def _with_usage(each: VendorNeed, per_look: Mapping[str, float]) -> VendorNeed:
    calls = per_look.get("calls", 0.0)
    if not calls:
        return replace(each, calls=0.0)
    cost = {item: amount / calls * each.batch_size for item, amount in per_look.items()}
    return replace(each, calls=calls, cost=cost)


def compute_quote(
    looks: Mapping[Depth, int],
    expected: Mapping[Depth, Sequence[VendorNeed]],
    rooms: Mapping[str, VendorCapacity],
    *,
    at_once: int,
) -> Quote:
    """Return the usage and time of so many lookups of each depth, `at_once` companies at a time.

    Usage measured in earlier runs counts for more than what is `expected`.
    """
    sent: dict[str, float] = {}
    calls: dict[str, float] = {}
    refused: dict[str, float] = {}
    cost: dict[str, float] = {}
    waits = spread = 0.0
    needs = adjust_by_history(expected, rooms)
    for depth, number in looks.items():
        for each in needs.get(depth, ()):
            name, counts_as = each.connector, each.cost.get("calls", 1)
            wanted = number * each.calls / each.batch_size
            room = rooms.get(name, VendorCapacity())
            allowed = min(wanted, max(room.calls_left - sent.get(name, 0.0), 0.0))
            sent[name] = sent.get(name, 0.0) + allowed
            calls[name] = calls.get(name, 0.0) + allowed * counts_as
            if wanted > allowed:
                refused[name] = refused.get(name, 0.0) + (wanted - allowed) * counts_as
            for item, amount in each.cost.items():
                cost[f"{name}/{item}"] = cost.get(f"{name}/{item}", 0.0) + allowed * amount
            waited = allowed * each.batch_size
            waits += waited * each.seconds
            spread += waited * (each.seconds * each.spread) ** 2
    places = max(at_once, 1)
    times = {"company concurrency": waits / places}
    for connector, number_sent in sent.items():
        pace = rooms.get(connector, VendorCapacity()).per_minute
        times[connector] = number_sent / pace * 60 if pace > 0 else math.inf
    slowest = max(sorted(times), key=lambda name: times[name])
    p50 = times[slowest]
    p90 = p50 + _Z90 * math.sqrt(spread) / places
    seen = [took.nights for room in rooms.values() for took in room.usage.values()]
    return Quote(
        calls=calls,
        cost={name: math.ceil(round(amount, 6)) for name, amount in sorted(cost.items())},
        refused=refused,
        p50=_to_timedelta(p50),
        p90=_to_timedelta(p90),
        slowest=slowest,
        nights=max(seen, default=0),
    )


def close_vendors(
    rooms: Mapping[str, VendorCapacity], *, connectors: Collection[str]
) -> dict[str, VendorCapacity]:
    """Return the rooms with these connectors letting nothing through."""
    return {
        name: replace(room, calls_left=0.0) if name in connectors else room
        for name, room in rooms.items()
    }


def add_refusals(quote: Quote, others: Quote) -> Quote:
    """Return a quote with what others are refused besides; what they would use is left out."""
    refused = {
        name: quote.refused.get(name, 0.0) + others.refused.get(name, 0.0)
        for name in {**quote.refused, **others.refused}
    }
    return replace(
        quote, calls={**dict.fromkeys(others.calls, 0.0), **quote.calls}, refused=refused
    )


def _to_timedelta(seconds: float) -> timedelta:
    return timedelta.max if math.isinf(seconds) else timedelta(seconds=seconds)


_NEEDS = tuple(vendor.need for vendor in VENDORS.values() if vendor.need is not None)

_DEFAULT_NEEDS: Mapping[Depth, Sequence[VendorNeed]] = MappingProxyType(
    {
        Depth.SHALLOW: [need for need in _NEEDS if VENDOR_STEPS[need.connector] is Step.CRAWL],
        Depth.DEEP: _NEEDS,
    }
)

_EPSILON = 1e-9  # parts of a call that floats lose


def list_vendor_needs(
    connectors: Collection[str], *, steps: Collection[Step] = tuple(Step)
) -> dict[Depth, list[VendorNeed]]:
    """Return what each depth needs from those connectors that can be asked and that steps ask."""
    asked = {name for name in connectors if VENDOR_STEPS[name] in steps}
    return {
        depth: [each for each in needs if each.connector in asked]
        for depth, needs in _DEFAULT_NEEDS.items()
    }


def compute_capacity(
    connector: str,
    *,
    free: Mapping[str, int],
    per_minute: float,
    took: Mapping[LookupKind, MeasuredUsage] = MappingProxyType({}),
) -> VendorCapacity:
    """Return how many calls a connector allows, from what is free of each of its units.

    A unit without a limit is not in `free`. What earlier lookups `took` says how much of
    each unit a call takes; the last one must still fit with all that is reserved for it. Calls are
    whole, except of a batch, which may be smaller.
    """
    found = VendorCapacity(per_minute=per_minute, usage=took)
    needs = [each for each in _NEEDS if each.connector == connector]
    calls = [
        _count_fitting_calls(
            free[item], amount, each.reserved.get(item, 0), whole=each.batch_size == 1
        )
        for each in adjust_by_history({Depth.DEEP: needs}, {connector: found})[Depth.DEEP]
        for item, amount in each.cost.items()
        if item in free and amount
    ]
    return replace(found, calls_left=min(calls, default=math.inf))


def _count_fitting_calls(free: int, amount: float, promised: float, *, whole: bool) -> float:
    calls = max((free - max(promised - amount, 0.0)) / amount, 0.0)
    return math.floor(calls + _EPSILON) if whole else calls


async def add_first_lookup_shares(
    store: TenantStores,
    units: Sequence[WorkItem],
    rooms: Mapping[str, VendorCapacity],
    *,
    now: datetime,
) -> dict[str, VendorCapacity]:
    """Return the capacities with the share of these lookups that asks each vendor first.

    Decided by the last item of each company, in whichever run.
    """
    last_items = await store.work_items.find_last_items([item.company for item in units])
    lookups = []
    for item in units:
        _, last = last_items.get(item.company, ("", None))
        lookups.append((item.depth, list_vendors_to_ask(last, depth=item.depth, now=now)))
    shares = compute_first_lookup_shares(lookups)
    return {
        name: replace(room, first_lookup_shares=shares.get(name, {}))
        for name, room in rooms.items()
    }
