"""Quote a run before it starts, and project its finish while it runs.

A run waits for vendor rates, host delays and worker slots; the slowest of them decides when it
ends. Pure arithmetic over default usage, weighed against what `history` measured.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from stoker.base.types import Depth, Step
from stoker.enrichment.history import (
    LookupKind,
    MeasuredUsage,
    compute_first_lookup_shares,
    list_vendors_to_ask,
)
from stoker.enrichment.model import VENDOR_STEPS, WorkItem

if TYPE_CHECKING:
    from stoker.context import TenantStores

PRIOR_LOOKUPS = 10  # looks; so much weighs what is expected before anything is known

REPEAT_SHARE = 0.1  # of what a first lookup asks, before it is known; the rest was answered before

_Z90 = 1.2816  # standard deviations to the 90th percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorNeed:
    """What one lookup of one depth is expected to need from one connector."""

    connector: str
    calls: float  # on average per company; 0.3: three companies in ten need one
    cost: Mapping[str, float] = field(default_factory=dict)  # per call, by unit
    seconds: float = 1.0  # a company waits for one call
    spread: float = 0.5  # standard deviation of that wait, as a part of it
    batch_size: int = 1  # how many of them go together in one; a batch takes many


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
        (LookupKind.AGAIN, room.first_lookup_shares.get(depth, 1.0), REPEAT_SHARE)
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


def project_finish(
    *,
    began_at: datetime,
    now: datetime,
    ended: int,
    left: int,
    expected: timedelta,
    waits_until: datetime | None = None,
) -> datetime | None:
    """Return when a run will finish, from its pace so far; None when that cannot be known.

    Before any item has ended, only the quote counts; then its weight fades as evidence grows. Once
    the quoted time is over and still no item has ended, the finish is unknown. Remaining items that
    wait for a vendor until `waits_until` end no sooner.
    """
    if left <= 0:
        return now
    found = [] if waits_until is None or waits_until <= now else [waits_until]
    if ended:
        found.append(now + _estimate_remaining(now - began_at, ended, left, expected))
    elif began_at + expected > now:
        found.append(began_at + expected)
    return max(found, default=None)


def _estimate_remaining(spent: timedelta, ended: int, left: int, expected: timedelta) -> timedelta:
    evidence = ended / (ended + 10)  # ten companies weigh as much as the quote
    seen = spent / ended * left
    quoted = expected * (left / (ended + left))
    return seen * evidence + quoted * (1 - evidence)


def _to_timedelta(seconds: float) -> timedelta:
    return timedelta.max if math.isinf(seconds) else timedelta(seconds=seconds)


# Default usage, close to what the sandbox uses.
_CRAWL_NEED = VendorNeed(connector="crawl", calls=0.9, seconds=4.0, spread=1.0)

_DEFAULT_NEEDS: Mapping[Depth, Sequence[VendorNeed]] = MappingProxyType(
    {
        Depth.SHALLOW: (_CRAWL_NEED,),
        Depth.DEEP: (
            _CRAWL_NEED,
            VendorNeed(connector="tavily", calls=1.0, cost={"calls": 1, "credits": 1}, seconds=1.5),
            # Money is rounded up to a cent a call, and few texts cost more.
            VendorNeed(
                connector="openai",
                calls=1.0,
                cost={"calls": 1, "money:USD": 1, "tokens": 2_000},
                seconds=6.0,
            ),
            VendorNeed(connector="lusha", calls=0.1, cost={"calls": 1, "credits": 1}, seconds=1.0),
            # Two addresses of a company; a hundred go in one call. A company that waits for a
            # verdict holds no worker slot, so waiting takes the run no time.
            VendorNeed(
                connector="zerobounce",
                calls=2.0,
                cost={"calls": 100, "credits": 100},
                seconds=0.0,
                batch_size=100,
            ),
        ),
    }
)

# What a call is reserved at, where that is more than it costs: an answer at its longest. As long as
# less is free, the vendor is not asked.
_RESERVED_COSTS: Mapping[str, Mapping[str, int]] = MappingProxyType({"openai": {"tokens": 6_000}})

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
    promised = _RESERVED_COSTS.get(connector, {})
    needs = [each for each in _DEFAULT_NEEDS[Depth.DEEP] if each.connector == connector]
    calls = [
        _count_fitting_calls(free[item], amount, promised.get(item, 0), whole=each.batch_size == 1)
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
