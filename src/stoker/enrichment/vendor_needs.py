"""Default usage of each vendor per lookup, before anything is measured.

Rough numbers to quote a first run by, close to what the sandbox uses. `forecast` weighs them
against what a tenant's own runs used.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from stoker.base.types import Depth, Step
from stoker.enrichment.forecast import VendorCapacity, VendorNeed, adjust_by_history
from stoker.enrichment.history import VENDOR_STEPS, LookupKind, MeasuredUsage

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
