"""What stands in the way of looks: stops, caps, vendors that want to be left alone, rates.

Each with its numbers at the moment of a plan, and how many deep looks get past it. A deep look is
taken to need everybody it may ask, as much as is expected of one. Who is looked at in spite of it
is `pulls`' decision, and what stops, caps and rates there are is told by whoever asks.

What stands in the way of a tenant's looks now, read from its store and from the traffic.

Stops, what is left of its caps, vendors that asked to be left alone, rates. What each means for a
plan is `core.hindrances`' business. A rate counts as if this tenant alone used it: what others will
ask for cannot be known. Nothing is told of caps that tenants share, for that would speak of the
others; nor of sites that want to be left alone, each of which concerns one account.
"""

from __future__ import annotations

import math
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from stoker.base.errors import ConfigError
from stoker.base.jsontools import get_object
from stoker.base.types import Depth, Json, Step
from stoker.budgets.caps import Cap
from stoker.budgets.charges import Totals
from stoker.budgets.model import Stop, filter_stops
from stoker.budgets.statements import CapBalance, list_current_balances
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.context import TenantStores
from stoker.enrichment.forecast import VendorNeed
from stoker.enrichment.pull_units import CRAWL, PULL_UNITS
from stoker.enrichment.vendor_needs import list_vendor_needs
from stoker.pulls.capacity import NO_CAP
from stoker.pulls.columns import (
    Decision,
    PullLimits,
    PullRule,
    compute_period_units,
    validate_limits,
)
from stoker.rate_limits.limiter import VendorLimits
from stoker.rate_limits.rate_limit import Rate
from stoker.vendors.attempts import MAX_RETRY_WAIT

_EPSILON = 1e-9  # parts of a call that floats lose


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One thing that stands in the way of looks, with the numbers behind it."""

    why: Decision
    connector: str  # whose; empty: of whatever is spent
    looks: int | None = None  # deep looks that get past it; None: it is about every look alike
    had: int = 0  # of the unit, when the plan was made
    limit: int = 0
    needed: float = 0.0  # of the unit, by one look
    unit: str = "calls"
    cap: str = ""
    until: datetime | None = None  # when there is room again by itself
    stop_text: str = ""  # by whoever stopped it

    @property
    def message(self) -> str:
        """Say it for people."""
        if self.why is Decision.PAUSED:
            because = self.stop_text or "no reason was given"
            return f"{self.connector or 'spending'} is stopped: {because}"
        until = f"{self.until:%Y-%m-%d %H:%M} UTC" if self.until else "somebody acts"
        if self.why is Decision.COOLING_DOWN:
            rest = f", and then has time for {_format_lookups(self.looks)}" if self.looks else ""
            return f"{self.connector} asked to be left alone until {until}{rest}"
        if self.why is Decision.RATE_LIMIT:
            had = f"{self.connector} may be called {self.had:,} times until {until}"
        else:
            had = f"{self.cap} has {self.had:,} of {self.limit:,} left until {until}"
        if self.looks is None:
            return f"{had}, {self.needed:,.4g} or more needed for a look"
        return (
            f"{had}, about {self.needed:,.4g} needed for a deep look: {_format_lookups(self.looks)}"
        )

    def as_json(self) -> dict[str, Json]:
        """Return it as it is kept, and shown to machines."""
        return {
            "why": self.why.name,
            "connector": self.connector,
            "looks": self.looks,
            "had": self.had,
            "limit": self.limit,
            "needed": self.needed,
            "unit": self.unit,
            "cap": self.cap,
            "until": self.until.isoformat() if self.until else None,
            "said": self.stop_text,
        }


def parse_constraints(said: object) -> tuple[Constraint, ...]:
    """Return what stood in the way as `as_json` wrote it; nothing where a plan says nothing of it.

    Raises what a wrong type or name raises: ValueError, TypeError or KeyError.
    """
    found = []
    for each in said if isinstance(said, list) else []:
        given = dict(get_object(each))
        until = given.pop("until")
        why = Decision[str(given.pop("why"))]
        moment = None if until is None else datetime.fromisoformat(str(until))
        found.append(Constraint(why=why, until=moment, **given))  # type: ignore[arg-type]  # JSON
    return tuple(found)


def find_excluded_vendors(
    standing: Iterable[tuple[Cap, CapBalance]], needs: Sequence[VendorNeed]
) -> set[str]:
    """Return who is not asked at all, because a cap allows nothing of what asking takes.

    Looks go without them, as without those who have no key.
    """
    closed = [cap for cap, line in standing if not line.limit]
    return {each.connector for each in needs for cap in closed if _compute_need(each, cap) > 0}


def build_cap_constraint(
    cap: Cap,
    line: CapBalance,
    needs: Sequence[VendorNeed],
    *,
    ends_at: datetime,
    now: datetime,
    rule: PullRule,
) -> Constraint | None:
    """Return how a cap stands in the way of deep looks; None where they take nothing of it.

    Of what is left, a plan uses its tick's share.
    """
    needed = sum(_compute_need(each, cap) for each in needs)
    if not needed:
        return None
    looks = _round_down(line.free / needed)
    return Constraint(
        why=Decision.CAP_CONNECTOR_DAY if cap.connector else Decision.CAP_TENANT_DAY,
        connector=cap.connector,
        looks=compute_period_units(looks, now=now, until=ends_at, rule=rule),
        had=line.free,
        limit=line.limit or 0,
        needed=needed,
        unit=cap.unit,
        cap=cap.id,
        until=ends_at,
    )


def build_rate_constraint(
    need: VendorNeed, rate: Rate, *, now: datetime, within: timedelta
) -> Constraint:
    """Return how a rate stands in the way: as fast as it allows, if nobody else used it."""
    calls = rate.burst + within // rate.interval
    return Constraint(
        why=Decision.RATE_LIMIT,
        connector=need.connector,
        looks=_count_lookups(need, calls),
        had=calls,
        needed=need.calls / need.batch_size,
        until=now + within,
    )


def build_backoff_constraint(
    need: VendorNeed,
    rate: Rate,
    *,
    opens_at: datetime,
    now: datetime,
    within: timedelta,
    patience: timedelta,
) -> Constraint | None:
    """Return how a vendor that asked to be left alone stands in the way; None if it did not.

    Whoever wants us gone for longer than our patience is not waited for; otherwise looks are made
    in what is left of the time. A wait that the rate itself explains is none.
    """
    wait = opens_at - now
    if wait <= rate.interval:
        return None
    calls = 1 + (within - wait) // rate.interval if wait <= min(patience, within) else 0
    return Constraint(
        why=Decision.COOLING_DOWN,
        connector=need.connector,
        looks=_count_lookups(need, calls),
        had=calls,
        needed=need.calls / need.batch_size,
        until=opens_at,
    )


def find_tightest(found: Iterable[Constraint]) -> Constraint | None:
    """Return what lets the fewest deep looks past; of equals the first."""
    deep = [each for each in found if each.looks is not None]
    return min(deep, key=lambda each: each.looks or 0, default=None)


def is_stopped(found: Iterable[Constraint]) -> bool:
    """Say whether nobody is looked at, because somebody said so."""
    return any(each.why is Decision.PAUSED and each.looks is None for each in found)


def list_binding(
    found: Sequence[Constraint], refused: Collection[Decision], *, withheld: bool
) -> list[Constraint]:
    """Return what did stand in the way of a plan: of every look that was refused, and of depth."""
    deep = find_tightest(found) if withheld else None
    about_all = [each for each in found if each.looks is None and each.why in refused]
    return about_all if deep is None else [*about_all, deep]


def limit_deep_lookups(limits: PullLimits, found: Iterable[Constraint]) -> PullLimits:
    """Return one tenant's limits with as many deep looks as get past everything."""
    tightest = find_tightest(found)
    if tightest is None or tightest.looks is None:
        return replace(limits, deep_cap=np.zeros(0, np.int64), deep_why=np.zeros(0, np.uint8))
    deep = validate_limits([0], deep_cap=[tightest.looks], deep_why=[tightest.why])
    return replace(limits, deep_cap=deep.deep_cap, deep_why=deep.deep_why)


def replace_call_caps(
    found: Sequence[Constraint], calls: Mapping[str, int], needs: Collection[VendorNeed]
) -> tuple[Constraint, ...]:
    """Return what stands in the way if these vendors had so many calls, and no other cap."""
    kept = [each for each in found if not (each.cap and each.connector in calls)]
    for each in needs:
        if each.connector in calls:
            left = calls[each.connector]
            if left < 0:
                raise ConfigError(f"a cap is a whole number from 0 up, not {left}")
            needed = each.calls / each.batch_size * each.cost.get("calls", 1)
            kept.append(
                Constraint(
                    why=Decision.CAP_CONNECTOR_DAY,
                    connector=each.connector,
                    looks=_round_down(left / needed),
                    had=left,
                    limit=left,
                    needed=needed,
                    cap=f"tenant_connector/{each.connector}/calls/day",
                )
            )
    return tuple(kept)


def _compute_need(need: VendorNeed, cap: Cap) -> float:
    """Return how much of a cap's unit one deep look takes from one connector."""
    if cap.connector not in ("", need.connector):
        return 0.0
    return need.calls / need.batch_size * need.cost.get(cap.unit, 0)


def _count_lookups(need: VendorNeed, calls: int) -> int:
    return _round_down(calls * need.batch_size / need.calls)


def _round_down(looks: float) -> int:
    return min(math.floor(looks + _EPSILON), NO_CAP)


def _format_lookups(looks: int | None) -> str:
    return f"{looks or 0:,} deep look{'' if looks == 1 else 's'}"


_CapState = tuple[Cap, CapBalance, datetime]


class ConstraintReader:
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
        traffic: VendorLimits,
        may_take: timedelta,
    ) -> None:
        self._needs = list_vendor_needs(set(connectors), steps=steps)[Depth.DEEP]
        self._caps = caps
        self._reset = reset
        self._traffic = traffic
        self._may_take = may_take

    async def list_constraints(
        self, store: TenantStores, *, now: datetime, rule: PullRule, units: int
    ) -> tuple[Constraint, ...]:
        """Return everything that could stand in the way of looks, whether or not it will.

        `units` are those of the cheapest look. Raises what the store raises.
        """
        standing = await self._read_caps(store, now)
        never = find_excluded_vendors(((cap, line) for cap, line, _ in standing), self._needs)
        needs = [each for each in self._needs if each.connector not in {CRAWL, *never}]
        return (
            *_list_stop_constraints(await store.money.list_stops(), needs),
            *[each async for each in self._read_rates(store, needs, now, rule)],
            *_list_cap_constraints(standing, needs, now=now, rule=rule, units=units),
        )

    async def _read_caps(self, store: TenantStores, now: datetime) -> list[_CapState]:
        used: dict[tuple[str, str], Totals] = {
            (each.cap, each.window): each.used for each in await store.money.list_usage()
        }
        changes = await store.money.list_cap_changes()
        found = list_current_balances(await self._caps(), changes, used, reset=self._reset, now=now)
        # An hour's cap begins anew while looks are made; it makes them later, not fewer.
        return [each for each in found if each[0].window is not WindowKind.HOUR]

    async def _read_rates(
        self, store: TenantStores, needs: Sequence[VendorNeed], now: datetime, rule: PullRule
    ) -> AsyncIterator[Constraint]:
        within = min(self._may_take, rule.tick)
        for need in needs:
            rate = self._traffic.get_limit(need.connector).rate
            pace = self._traffic.get_rate_limiter(need.connector, tenant=store.tenant)
            rests = build_backoff_constraint(
                need,
                rate,
                opens_at=await pace.get_next_allowed_at(),
                now=now,
                within=within,
                patience=MAX_RETRY_WAIT,
            )
            if rests is not None:
                yield rests
            yield build_rate_constraint(need, rate, now=now, within=within)


def _list_stop_constraints(
    stops: Sequence[Stop], needs: Sequence[VendorNeed]
) -> Iterator[Constraint]:
    for stop in filter_stops(stops, {CRAWL, *(each.connector for each in needs)}):
        looks = None if stop.connector in ("", CRAWL) else 0
        yield Constraint(
            why=Decision.PAUSED, connector=stop.connector, looks=looks, stop_text=stop.reason
        )


def _list_cap_constraints(
    standing: Sequence[_CapState],
    needs: Sequence[VendorNeed],
    *,
    now: datetime,
    rule: PullRule,
    units: int,
) -> Iterator[Constraint]:
    for cap, line, ends_at in standing:
        if cap.unit == PULL_UNITS and cap.connector == CRAWL:
            yield Constraint(
                why=Decision.CAP_CONNECTOR_DAY,
                connector=CRAWL,
                had=line.free,
                limit=line.limit or 0,
                needed=units,
                unit=PULL_UNITS,
                cap=cap.id,
                until=ends_at,
            )
        found = build_cap_constraint(cap, line, needs, ends_at=ends_at, now=now, rule=rule)
        if found is not None:
            yield found
