"""What a night will take: a quote before it begins, its finish while it runs, what to drop if late.

Everything that a night waits for is a resource: a vendor's rate, a politeness clock, places for
companies. The slowest of them says when the night ends. Pure arithmetic over expectations; what
was really spent and how long it really took is measured elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stoker.core.nights import Depth, Unit

_Z90 = 1.2816  # standard deviations to the 90th percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one look of one depth is expected to need from one connector."""

    connector: str
    calls: float  # on average per company; 0.3: three companies in ten need it
    cost: Mapping[str, int] = field(default_factory=dict)  # per call, by unit
    seconds: float = 1.0  # a company waits for one call
    spread: float = 0.5  # standard deviation of that wait, as a part of it
    per_call: int = 1  # companies one call serves; a batch serves many


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much and how fast a connector lets us: what is left of its caps, and its pace."""

    per_minute: float = math.inf
    calls_left: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a night is expected to use, by connector and unit, and when it would be through."""

    calls: Mapping[str, float]
    cost: Mapping[str, int]  # connector/unit
    refused: Mapping[str, float]  # calls that caps will not allow
    p50: timedelta
    p90: timedelta
    slowest: str  # what the night waits for


def quote(
    looks: Mapping[Depth, int],
    expected: Mapping[Depth, Sequence[Expected]],
    rooms: Mapping[str, Room],
    *,
    at_once: int,
) -> Quote:
    """Return what so many looks of each depth will use and take, `at_once` companies at a time."""
    calls: dict[str, float] = {}
    refused: dict[str, float] = {}
    cost: dict[str, float] = {}
    waits = spread = 0.0
    for depth, number in looks.items():
        for each in expected.get(depth, ()):
            wanted = number * each.calls / each.per_call
            room = rooms.get(each.connector, Room())
            allowed = min(wanted, max(room.calls_left - calls.get(each.connector, 0.0), 0.0))
            calls[each.connector] = calls.get(each.connector, 0.0) + allowed
            if wanted > allowed:
                refused[each.connector] = refused.get(each.connector, 0.0) + wanted - allowed
            for unit, amount in each.cost.items():
                name = f"{each.connector}/{unit}"
                cost[name] = cost.get(name, 0.0) + allowed * amount
            waited = allowed * each.per_call
            waits += waited * each.seconds
            spread += waited * (each.seconds * each.spread) ** 2
    places = max(at_once, 1)
    times = {"places for companies": waits / places}
    for connector, number_of_calls in calls.items():
        pace = rooms.get(connector, Room()).per_minute
        times[connector] = number_of_calls / pace * 60 if pace > 0 else math.inf
    slowest = max(sorted(times), key=lambda name: times[name])
    p50 = times[slowest]
    p90 = p50 + _Z90 * math.sqrt(spread) / places
    return Quote(
        calls=calls,
        cost={name: math.ceil(amount) for name, amount in sorted(cost.items())},
        refused=refused,
        p50=_span(p50),
        p90=_span(p90),
        slowest=slowest,
    )


def projected_finish(
    *, began_at: datetime, now: datetime, ended: int, left: int, expected: timedelta
) -> datetime:
    """Return when a night will be through, from how it went so far.

    Before anything has ended there is only the quote to go by; then it fades as evidence grows.
    """
    total = ended + left
    if left <= 0:
        return now
    spent = now - began_at
    if not ended:
        return max(began_at + expected, now)
    evidence = ended / (ended + 10)  # ten companies weigh as much as the quote
    seen = spent / ended * left
    quoted = expected * (left / total) if total else timedelta(0)
    return now + seen * evidence + quoted * (1 - evidence)


def to_shed(
    waiting: Sequence[Unit],
    *,
    now: datetime,
    deadline: datetime,
    per_unit: timedelta,
    before: int = 0,
) -> tuple[Unit, ...]:
    """Return which waiting units to leave out so that the rest ends in time, least valuable first.

    `per_unit` is how long the night takes for one more unit, others going on beside it; `before` is
    how many more valuable ones are waiting besides these.
    """
    if per_unit <= timedelta(0):
        return ()
    room = max(int((deadline - now) / per_unit) - before, 0)
    by_value = sorted(waiting, key=lambda unit: unit.place)
    return tuple(reversed(by_value[room:]))


def _span(seconds: float) -> timedelta:
    return timedelta.max if math.isinf(seconds) else timedelta(seconds=seconds)
