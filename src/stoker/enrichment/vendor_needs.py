"""What a look of each depth is expected to need from everybody, before anything is measured.

Rough numbers to quote a first night by, near to what the sandbox's world takes. What a tenant's
own nights took is weighed against them in `forecast`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from stoker.base.types import Depth, Step
from stoker.enrichment.forecast import Expected, Room, learned
from stoker.enrichment.history import ASKED, LookKind, Taken

_SITE = Expected(connector="crawl", calls=0.9, seconds=4.0, spread=1.0)

_EXPECTED: Mapping[Depth, Sequence[Expected]] = MappingProxyType(
    {
        Depth.SHALLOW: (_SITE,),
        Depth.DEEP: (
            _SITE,
            Expected(connector="tavily", calls=1.0, cost={"calls": 1, "credits": 1}, seconds=1.5),
            # Money is rounded up to a cent a call, and few texts cost more.
            Expected(
                connector="openai",
                calls=1.0,
                cost={"calls": 1, "money:USD": 1, "tokens": 2_000},
                seconds=6.0,
            ),
            Expected(connector="lusha", calls=0.1, cost={"calls": 1, "credits": 1}, seconds=1.0),
            # Two addresses of a company; a hundred go in one call. Whoever waits for a verdict
            # holds no place, so waiting takes the night no time.
            Expected(
                connector="zerobounce",
                calls=2.0,
                cost={"calls": 100, "credits": 100},
                seconds=0.0,
                per_call=100,
            ),
        ),
    }
)

# What a call is promised at, where that is more than it costs: an answer at its longest. As long as
# less is free, nobody is asked.
_PROMISED: Mapping[str, Mapping[str, int]] = MappingProxyType({"openai": {"tokens": 6_000}})

_EPSILON = 1e-9  # parts of a call that floats lose


def expected(
    connectors: Collection[str], *, steps: Collection[Step] = tuple(Step)
) -> dict[Depth, list[Expected]]:
    """Return what each depth needs from those connectors that can be asked and that steps ask."""
    asked = {name for name in connectors if ASKED[name] in steps}
    return {
        depth: [each for each in needs if each.connector in asked]
        for depth, needs in _EXPECTED.items()
    }


def room(
    connector: str,
    *,
    free: Mapping[str, int],
    per_minute: float,
    took: Mapping[LookKind, Taken] = MappingProxyType({}),
) -> Room:
    """Return how many calls a connector allows, from what is free of each of its units.

    A unit that nobody has limited is not in `free`. What earlier looks `took` says how much of
    each unit a call takes; the last one must still fit with all that it is promised. Calls are
    whole, except of a batch, which may be smaller.
    """
    found = Room(per_minute=per_minute, took=took)
    promised = _PROMISED.get(connector, {})
    needs = [each for each in _EXPECTED[Depth.DEEP] if each.connector == connector]
    calls = [
        _fitting(free[unit], amount, promised.get(unit, 0), whole=each.per_call == 1)
        for each in learned({Depth.DEEP: needs}, {connector: found})[Depth.DEEP]
        for unit, amount in each.cost.items()
        if unit in free and amount
    ]
    return replace(found, calls_left=min(calls, default=math.inf))


def _fitting(free: int, amount: float, promised: float, *, whole: bool) -> float:
    calls = max((free - max(promised - amount, 0.0)) / amount, 0.0)
    return math.floor(calls + _EPSILON) if whole else calls
