"""What a look of each depth is expected to need from everybody, before anything is measured.

Rough numbers to quote a night by; while it runs, what it really takes replaces them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from stoker.core.forecast import Expected, Room
from stoker.core.nights import Depth, Step

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
                calls=0.8,
                cost={"calls": 1, "money:USD": 1, "tokens": 4_000},
                seconds=6.0,
            ),
            Expected(connector="lusha", calls=0.6, cost={"calls": 1, "credits": 1}, seconds=1.0),
            # Whoever waits for a verdict holds no place, so waiting takes the night no time.
            Expected(
                connector="zerobounce",
                calls=0.8,
                cost={"calls": 100, "credits": 100},
                seconds=0.0,
                per_call=100,
            ),
        ),
    }
)


_STEPS: Mapping[str, Step] = MappingProxyType(
    {
        "crawl": Step.CRAWL,
        "tavily": Step.EXTRACT,
        "openai": Step.EXTRACT,
        "lusha": Step.CONTACTS,
        "zerobounce": Step.VERIFY,
    }
)


def expected(
    connectors: Collection[str], *, steps: Collection[Step] = tuple(Step)
) -> dict[Depth, list[Expected]]:
    """Return what each depth needs from those connectors that can be asked and that steps ask."""
    asked = {name for name in connectors if _STEPS[name] in steps}
    return {
        depth: [each for each in needs if each.connector in asked]
        for depth, needs in _EXPECTED.items()
    }


def room(connector: str, *, free: Mapping[str, int], per_minute: float) -> Room:
    """Return how many calls a connector allows, from what is free of each of its units.

    A unit that nobody has limited is not in `free`.
    """
    calls = [
        free[unit] / amount
        for each in _EXPECTED[Depth.DEEP]
        if each.connector == connector
        for unit, amount in each.cost.items()
        if unit in free
    ]
    return Room(per_minute=per_minute, calls_left=min(calls, default=math.inf))
