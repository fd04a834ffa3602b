"""Find what limits deep lookups: stops, caps, vendor back-off, rates.

Each constraint has its numbers at the moment of the plan, and how many deep lookups it allows. A
deep lookup is assumed to need every vendor it may call, as often as expected. A rate counts as if
this tenant alone used it, because the demand of others is unknown. Caps that tenants share are not
listed, which would reveal other tenants; nor are host delays, which concern one account each.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoker.base.errors import ConfigError
from stoker.base.formats import format_count
from stoker.base.jsontools import get_object
from stoker.base.types import Json
from stoker.budgets.caps import Cap
from stoker.budgets.model import Stop, filter_stops
from stoker.budgets.operator import format_cap, format_cap_amount
from stoker.budgets.statements import CapBalance
from stoker.budgets.windows import WindowKind
from stoker.context import TenantStores
from stoker.enrichment.model import CRAWL, PULL_UNITS
from stoker.pulls.columns import NO_CAP, Decision, PullLimits
from stoker.pulls.settings import PullRule
from stoker.rate_limits.limiter import VendorLimits
from stoker.rate_limits.rate_limit import Rate
from stoker.vendors.client import MAX_RETRY_WAIT
from stoker.vendors.table import VendorNeed

_EPSILON = 1e-9  # parts of a call that floats lose


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One thing that limits lookups, with its numbers."""

    why: Decision
    connector: str  # whose; empty: of whatever is spent
    looks: int | None = None  # deep lookups that get past it; None: it is about every lookup alike
    had: int = 0  # of the unit, when the plan was made
    limit: int = 0
    needed: float = 0.0  # of the unit, by one lookup
    unit: str = "calls"
    cap: str = ""
    until: datetime | None = None  # when there is room again by itself
    stop_text: str = ""  # the reason given for the stop

    @property
    def message(self) -> str:
        """Return a sentence for people."""
        if self.why is Decision.PAUSED:
            because = self.stop_text or "no reason was given"
            return f"{self.connector or 'spending'} is stopped: {because}"
        until = f"{self.until:%Y-%m-%d %H:%M} UTC" if self.until else "you change it"
        if self.why is Decision.COOLING_DOWN:
            rest = f", then has time for {_format_lookups(self.looks)}" if self.looks else ""
            return f"{self.connector} is backing off until {until}{rest}"
        if self.why is Decision.RATE_LIMIT:
            had = f"{self.connector} may be called {self.had:,} times until {until}"
        else:
            left, limit = (format_cap_amount(self.cap, each) for each in (self.had, self.limit))
            had = f"{format_cap(self.cap)}: {left} of {limit} left until {until}"
        if self.looks is None:
            return f"{had}, {self.needed:,.4g} or more needed for a lookup"
        return f"{had}, enough for {_format_lookups(self.looks)}"

    def as_json(self) -> dict[str, Json]:
        """Return the JSON that plans and `--json` contain."""
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


def parse_constraints(value: object) -> tuple[Constraint, ...]:
    """Return the constraints that `as_json` wrote; none where an old plan has none.

    Raises ValueError, TypeError or KeyError for a wrong type or name.
    """
    constraints = []
    for each in value if isinstance(value, list) else []:
        fields = dict(get_object(each))
        until, stop_text = fields.pop("until"), str(fields.pop("said"))
        why = Decision[str(fields.pop("why"))]
        moment = None if until is None else datetime.fromisoformat(str(until))
        constraints.append(
            Constraint(why=why, until=moment, stop_text=stop_text, **fields)  # type: ignore[arg-type]  # JSON
        )
    return tuple(constraints)


def find_excluded_vendors(
    cap_states: Iterable[tuple[Cap, CapBalance]], needs: Sequence[VendorNeed]
) -> set[str]:
    """Return the vendors that are not called, because a cap allows nothing of what a call takes.

    Lookups go without them, as without vendors that have no key.
    """
    closed = [cap for cap, line in cap_states if not line.limit]
    return {each.connector for each in needs for cap in closed if _compute_need(each, cap) > 0}


def compute_period_units(left: int, *, now: datetime, until: datetime, rule: PullRule) -> int:
    """Return the units one plan may use of those left until then: its tick's share of them.

    Rounded up, so that the last of them are used too; a tick that reaches beyond has them all.
    """
    ticks = (until - now) / rule.tick
    return left if ticks <= 1 else min(left, math.ceil(left / ticks))


def build_cap_constraint(
    cap: Cap,
    line: CapBalance,
    needs: Sequence[VendorNeed],
    *,
    ends_at: datetime,
    now: datetime,
    rule: PullRule,
) -> Constraint | None:
    """Return how a cap limits deep lookups; None where they take nothing of it."""
    needed = sum(_compute_need(each, cap) for each in needs)
    if not needed:
        return None
    # The last call must still fit with all that is reserved for it.
    kept_free = max(_compute_surplus(each, cap) for each in needs)
    looks = _round_down(max(line.free - kept_free, 0.0) / needed)
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
    """Return how a rate limits deep lookups, if this tenant alone used it."""
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
    """Return how a vendor's back-off limits deep lookups; None if it is not backing off.

    A vendor that is away for longer than the patience is not waited for; otherwise lookups use the
    time that is left. A wait that the rate itself explains is not a back-off.
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


def find_tightest(constraints: Iterable[Constraint]) -> Constraint | None:
    """Return the constraint that allows the fewest deep lookups; of equals the first."""
    deep = [each for each in constraints if each.looks is not None]
    return min(deep, key=lambda each: each.looks or 0, default=None)


def is_stopped(constraints: Iterable[Constraint]) -> bool:
    """Return whether a stop prevents all lookups."""
    return any(each.why is Decision.PAUSED and each.looks is None for each in constraints)


def list_binding(
    constraints: Sequence[Constraint], refused: Collection[Decision], *, withheld: bool
) -> list[Constraint]:
    """Return the constraints that refused lookups of a plan, or depth."""
    deep = find_tightest(constraints) if withheld else None
    about_all = [each for each in constraints if each.looks is None and each.why in refused]
    return about_all if deep is None else [*about_all, deep]


def limit_deep_lookups(limits: PullLimits, constraints: Iterable[Constraint]) -> PullLimits:
    """Return the limits with as many deep lookups as all constraints allow."""
    tightest = find_tightest(constraints)
    if tightest is None:
        return replace(limits, deep_cap=None)
    return replace(limits, deep_cap=tightest.looks, deep_why=tightest.why)


def replace_call_caps(
    constraints: Sequence[Constraint], calls: Mapping[str, int], needs: Collection[VendorNeed]
) -> tuple[Constraint, ...]:
    """Return the constraints if these vendors had so many calls, and no other cap."""
    replaced = [each for each in constraints if not (each.cap and each.connector in calls)]
    for each in needs:
        if each.connector in calls:
            left = calls[each.connector]
            if left < 0:
                raise ConfigError(f"a cap is a whole number from 0 up, not {left}")
            needed = each.calls / each.batch_size * each.cost.get("calls", 1)
            replaced.append(
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
    return tuple(replaced)


def _compute_need(need: VendorNeed, cap: Cap) -> float:
    """Return how much of a cap's unit one deep lookup takes from one connector."""
    if cap.connector not in ("", need.connector):
        return 0.0
    return need.calls / need.batch_size * need.cost.get(cap.unit, 0)


def _compute_surplus(need: VendorNeed, cap: Cap) -> float:
    """Return how much more of a cap's unit is reserved for one call than it takes."""
    if not _compute_need(need, cap):
        return 0.0
    return max(need.reserved.get(cap.unit, 0) - need.cost.get(cap.unit, 0), 0.0)


def _count_lookups(need: VendorNeed, calls: int) -> int:
    return _round_down(calls * need.batch_size / need.calls)


def _round_down(looks: float) -> int:
    return min(math.floor(looks + _EPSILON), NO_CAP)


def _format_lookups(looks: int | None) -> str:
    return format_count(looks or 0, "deep lookup")


CapState = tuple[Cap, CapBalance, datetime]  # and when its window ends


async def read_constraints(
    store: TenantStores,
    cap_states: Sequence[CapState],
    needs: Sequence[VendorNeed],
    *,
    limits: VendorLimits,
    within: timedelta,
    now: datetime,
    rule: PullRule,
    units: int,
) -> tuple[Constraint, ...]:
    """Return everything that could limit lookups, whether or not it will.

    `needs` are those of a deep lookup, `units` those of a shallow one; lookups end `within` a time.
    """
    # An hourly cap resets while lookups run; it delays them but allows as many.
    cap_states = [each for each in cap_states if each[0].window is not WindowKind.HOUR]
    excluded = find_excluded_vendors(((cap, line) for cap, line, _ in cap_states), needs)
    needs = [each for each in needs if each.connector not in {CRAWL, *excluded}]
    constraints = [*_list_stop_constraints(await store.budgets.list_stops(), needs)]
    for need in needs:
        rate = limits.get_limit(need.connector).rate
        limiter = limits.get_limiter(need.connector, tenant=store.tenant).rate
        backoff = build_backoff_constraint(
            need,
            rate,
            opens_at=await limiter.get_next_allowed_at(),
            now=now,
            within=within,
            patience=MAX_RETRY_WAIT,
        )
        constraints += [backoff] if backoff is not None else []
        constraints.append(build_rate_constraint(need, rate, now=now, within=within))
    return (
        *constraints,
        *_list_cap_constraints(cap_states, needs, now=now, rule=rule, units=units),
    )


def _list_stop_constraints(
    stops: Sequence[Stop], needs: Sequence[VendorNeed]
) -> Iterator[Constraint]:
    for stop in filter_stops(stops, {CRAWL, *(each.connector for each in needs)}):
        looks = None if stop.connector in ("", CRAWL) else 0
        yield Constraint(
            why=Decision.PAUSED, connector=stop.connector, looks=looks, stop_text=stop.reason
        )


def _list_cap_constraints(
    cap_states: Sequence[CapState],
    needs: Sequence[VendorNeed],
    *,
    now: datetime,
    rule: PullRule,
    units: int,
) -> Iterator[Constraint]:
    for cap, line, ends_at in cap_states:
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
        constraint = build_cap_constraint(cap, line, needs, ends_at=ends_at, now=now, rule=rule)
        if constraint is not None:
            yield constraint
