"""What stands in the way of a tenant's looks now, read from its store and from the traffic.

Stops, what is left of its caps, vendors that asked to be left alone, rates. What each means for a
plan is `core.hindrances`' business. A rate counts as if this tenant alone used it: what others will
ask for cannot be known. Nothing is told of caps that tenants share, for that would speak of the
others; nor of sites that want to be left alone, each of which concerns one account.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from datetime import datetime, timedelta

from stoker.core.budget import Used
from stoker.core.budget_windows import ResetRule, WindowKind
from stoker.core.caps import Cap
from stoker.core.expectations import expected
from stoker.core.forecast import Expected
from stoker.core.hindrances import Hindrance, cooling, never_asked, short, slow
from stoker.core.nights import Depth, Step
from stoker.core.pull_columns import PullRule, Why
from stoker.core.statements import Statement, of_now
from stoker.engine.attempting import LONGEST_PATIENCE
from stoker.engine.looking import CONNECTOR, UNIT
from stoker.engine.traffic import Traffic
from stoker.ports import Stop, Store

_Standing = tuple[Cap, Statement, datetime]


class Hindering:
    """Says what stands in the way of one tenant's looks.

    `connectors` are those that are on, `may_take` how long a run of looks may last.
    """

    def __init__(
        self,
        connectors: Collection[str],
        *,
        steps: Collection[Step],
        caps: Callable[[], Awaitable[tuple[Cap, ...]]],
        reset: ResetRule,
        traffic: Traffic,
        may_take: timedelta,
    ) -> None:
        self._needs = expected(set(connectors), steps=steps)[Depth.DEEP]
        self._caps = caps
        self._reset = reset
        self._traffic = traffic
        self._may_take = may_take

    async def found(
        self, store: Store, *, now: datetime, rule: PullRule, units: int
    ) -> tuple[Hindrance, ...]:
        """Return everything that could stand in the way of looks, whether or not it will.

        `units` are those of the cheapest look. Raises what the store raises.
        """
        standing = await self._standing(store, now)
        never = never_asked(((cap, line) for cap, line, _ in standing), self._needs)
        needs = [each for each in self._needs if each.connector not in {CONNECTOR, *never}]
        return (
            *_stopped(await store.money.stops(), needs),
            *[each async for each in self._paced(store, needs, now, rule)],
            *_capped(standing, needs, now=now, rule=rule, units=units),
        )

    async def _standing(self, store: Store, now: datetime) -> list[_Standing]:
        used: dict[tuple[str, str], Used] = {
            (each.cap, each.window): each.used for each in await store.money.usage()
        }
        changes = await store.money.cap_changes()
        found = of_now(await self._caps(), changes, used, reset=self._reset, now=now)
        # An hour's cap begins anew while looks are made; it makes them later, not fewer.
        return [each for each in found if each[0].window is not WindowKind.HOUR]

    async def _paced(
        self, store: Store, needs: Sequence[Expected], now: datetime, rule: PullRule
    ) -> AsyncIterator[Hindrance]:
        within = min(self._may_take, rule.tick)
        for need in needs:
            rate = self._traffic.way(need.connector).rate
            pace = self._traffic.pace(need.connector, tenant=store.tenant)
            rests = cooling(
                need,
                rate,
                opens_at=await pace.opens_at(),
                now=now,
                within=within,
                patience=LONGEST_PATIENCE,
            )
            if rests is not None:
                yield rests
            yield slow(need, rate, now=now, within=within)


def concerning(stops: Iterable[Stop], asked: Collection[str]) -> tuple[Stop, ...]:
    """Return the stops by which whoever asks these connectors is refused, in part or altogether."""
    return tuple(stop for stop in stops if asked and stop.connector in {"", *asked})


def _stopped(stops: Sequence[Stop], needs: Sequence[Expected]) -> Iterator[Hindrance]:
    for stop in concerning(stops, {CONNECTOR, *(each.connector for each in needs)}):
        looks = None if stop.connector in ("", CONNECTOR) else 0
        yield Hindrance(why=Why.PAUSED, connector=stop.connector, looks=looks, said=stop.reason)


def _capped(
    standing: Sequence[_Standing],
    needs: Sequence[Expected],
    *,
    now: datetime,
    rule: PullRule,
    units: int,
) -> Iterator[Hindrance]:
    for cap, line, ends_at in standing:
        if cap.unit == UNIT and cap.connector == CONNECTOR:
            yield Hindrance(
                why=Why.CAP_CONNECTOR_DAY,
                connector=CONNECTOR,
                had=line.free,
                limit=line.limit or 0,
                needed=units,
                unit=UNIT,
                cap=cap.id,
                until=ends_at,
            )
        found = short(cap, line, needs, ends_at=ends_at, now=now, rule=rule)
        if found is not None:
            yield found
