"""What a night will take: a quote before it begins, its finish while it runs, what to drop if late.

Everything that a night waits for is a resource: a vendor's rate, a politeness clock, places for
companies. The slowest of them says when the night ends. Pure arithmetic over expectations; what
was really spent and how long it really took is measured elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoker.base.types import Depth
from stoker.enrichment.history import LookKind, Taken
from stoker.enrichment.model import Unit

PRIOR = 10  # looks; so much weighs what is expected before anything is known

ASKED_AGAIN = 0.1  # of what a first look asks, before it is known; the rest was answered before

_Z90 = 1.2816  # standard deviations to the 90th percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one look of one depth is expected to need from one connector."""

    connector: str
    calls: float  # on average per company; 0.3: three companies in ten need one
    cost: Mapping[str, float] = field(default_factory=dict)  # per call, by unit
    seconds: float = 1.0  # a company waits for one call
    spread: float = 0.5  # standard deviation of that wait, as a part of it
    per_call: int = 1  # how many of them go together in one; a batch takes many


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much and how fast a connector lets us: what is left of its caps, and its pace.

    And what looks took of it in earlier nights, where there were any; and which share of tonight's
    looks asks it as a first look does. Unless it is said, all deep ones do, and no shallow one.
    """

    per_minute: float = math.inf
    calls_left: float = math.inf
    took: Mapping[LookKind, Taken] = field(default_factory=dict)
    anew: Mapping[Depth, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a night is expected to use, by connector and unit, and when it would be through."""

    calls: Mapping[str, float]  # as caps count them: of a batch, everything in it
    cost: Mapping[str, int]  # connector/unit
    refused: Mapping[str, float]  # calls that caps or stops will not allow
    p50: timedelta
    p90: timedelta
    slowest: str  # what the night waits for
    nights: int = 0  # earlier ones it was learned from


def learned(
    expected: Mapping[Depth, Sequence[Expected]], rooms: Mapping[str, Room]
) -> dict[Depth, list[Expected]]:
    """Return what looks need by what earlier ones took, beside what was expected all along.

    The more looks there were, the less is left of the expectation. Whoever asks again is expected
    to need a small part of it; a shallow look, whatever earlier ones took of those a deep one asks.
    """
    found = {
        depth: [_tonight(each, depth, rooms.get(each.connector, Room())) for each in needs]
        for depth, needs in expected.items()
    }
    known = {each.connector for each in expected.get(Depth.SHALLOW, ())}
    for each in expected.get(Depth.DEEP, ()):
        room = rooms.get(each.connector, Room())
        asked = LookKind.SHALLOW in room.took or room.anew.get(Depth.SHALLOW)
        if asked and each.connector not in known:
            found.setdefault(Depth.SHALLOW, []).append(_tonight(each, Depth.SHALLOW, room, part=0))
    return found


def _tonight(each: Expected, depth: Depth, room: Room, *, part: float | None = None) -> Expected:
    """Return what is needed by those who ask anew and those who do not, as many as there are.

    The latter are expected to need that `part` of what the former do.
    """
    if not each.cost:
        return each
    kind, share, usual = (
        (LookKind.AGAIN, room.anew.get(depth, 1.0), ASKED_AGAIN)
        if depth is Depth.DEEP
        else (LookKind.SHALLOW, room.anew.get(depth, 0.0), 1.0)
    )
    first = _learned(each, room.took.get(LookKind.FIRST))
    less = replace(each, calls=each.calls * (usual if part is None else part))
    other = _learned(less, room.took.get(kind))
    if share in (0.0, 1.0):
        return first if share else other
    by_first, by_others = _per_look(first), _per_look(other)
    return _needing(
        each,
        {
            unit: share * by_first.get(unit, 0.0) + (1 - share) * by_others.get(unit, 0.0)
            for unit in sorted({*by_first, *by_others})
        },
    )


def _learned(each: Expected, took: Taken | None) -> Expected:
    if took is None:
        return each
    trust, before = took.evidence / (took.evidence + PRIOR), _per_look(each)
    return _needing(
        each,
        {
            unit: trust * took.per_look.get(unit, 0.0) + (1 - trust) * before.get(unit, 0.0)
            for unit in sorted({*before, *took.per_look})
        },
    )


def _per_look(each: Expected) -> dict[str, float]:
    return {unit: each.calls / each.per_call * amount for unit, amount in each.cost.items()}


def _needing(each: Expected, per_look: Mapping[str, float]) -> Expected:
    calls = per_look.get("calls", 0.0)
    if not calls:
        return replace(each, calls=0.0)
    cost = {unit: amount / calls * each.per_call for unit, amount in per_look.items()}
    return replace(each, calls=calls, cost=cost)


def quote(
    looks: Mapping[Depth, int],
    expected: Mapping[Depth, Sequence[Expected]],
    rooms: Mapping[str, Room],
    *,
    at_once: int,
) -> Quote:
    """Return what so many looks of each depth will use and take, `at_once` companies at a time.

    What rooms tell of earlier nights counts for more than what is `expected`.
    """
    sent: dict[str, float] = {}
    calls: dict[str, float] = {}
    refused: dict[str, float] = {}
    cost: dict[str, float] = {}
    waits = spread = 0.0
    needs = learned(expected, rooms)
    for depth, number in looks.items():
        for each in needs.get(depth, ()):
            name, counts_as = each.connector, each.cost.get("calls", 1)
            wanted = number * each.calls / each.per_call
            room = rooms.get(name, Room())
            allowed = min(wanted, max(room.calls_left - sent.get(name, 0.0), 0.0))
            sent[name] = sent.get(name, 0.0) + allowed
            calls[name] = calls.get(name, 0.0) + allowed * counts_as
            if wanted > allowed:
                refused[name] = refused.get(name, 0.0) + (wanted - allowed) * counts_as
            for unit, amount in each.cost.items():
                cost[f"{name}/{unit}"] = cost.get(f"{name}/{unit}", 0.0) + allowed * amount
            waited = allowed * each.per_call
            waits += waited * each.seconds
            spread += waited * (each.seconds * each.spread) ** 2
    places = max(at_once, 1)
    times = {"places for companies": waits / places}
    for connector, number_sent in sent.items():
        pace = rooms.get(connector, Room()).per_minute
        times[connector] = number_sent / pace * 60 if pace > 0 else math.inf
    slowest = max(sorted(times), key=lambda name: times[name])
    p50 = times[slowest]
    p90 = p50 + _Z90 * math.sqrt(spread) / places
    seen = [took.nights for room in rooms.values() for took in room.took.values()]
    return Quote(
        calls=calls,
        cost={name: math.ceil(round(amount, 6)) for name, amount in sorted(cost.items())},
        refused=refused,
        p50=_span(p50),
        p90=_span(p90),
        slowest=slowest,
        nights=max(seen, default=0),
    )


def shut(rooms: Mapping[str, Room], *, connectors: Collection[str]) -> dict[str, Room]:
    """Return the rooms with these connectors letting nothing through."""
    return {
        name: replace(room, calls_left=0.0) if name in connectors else room
        for name, room in rooms.items()
    }


def and_refused(told: Quote, others: Quote) -> Quote:
    """Return a quote with what others are refused besides; what they would use is left out."""
    refused = {
        name: told.refused.get(name, 0.0) + others.refused.get(name, 0.0)
        for name in {**told.refused, **others.refused}
    }
    return replace(told, calls={**dict.fromkeys(others.calls, 0.0), **told.calls}, refused=refused)


def projected_finish(
    *,
    began_at: datetime,
    now: datetime,
    ended: int,
    left: int,
    expected: timedelta,
    waits_until: datetime | None = None,
) -> datetime | None:
    """Return when a night will be through, from how it went so far; None when nobody can know.

    Before anything has ended there is only the quote to go by; then it fades as evidence grows.
    Once the quoted time is over and still nothing has ended, there is nothing to go by. What is
    left waits for something until `waits_until`, if that is given, and ends no sooner.
    """
    if left <= 0:
        return now
    found = [] if waits_until is None or waits_until <= now else [waits_until]
    if ended:
        found.append(now + _still_takes(now - began_at, ended, left, expected))
    elif began_at + expected > now:
        found.append(began_at + expected)
    return max(found, default=None)


def _still_takes(spent: timedelta, ended: int, left: int, expected: timedelta) -> timedelta:
    evidence = ended / (ended + 10)  # ten companies weigh as much as the quote
    seen = spent / ended * left
    quoted = expected * (left / (ended + left))
    return seen * evidence + quoted * (1 - evidence)


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
