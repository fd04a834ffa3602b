"""Grant or refuse a request to spend, and decide which caps it is charged to.

In this order: caps, clock, stops, room; of several full caps the first refuses, shared ones before
a tenant's own, then by id. Amounts are whole numbers. The store reads what is already spent or
reserved in the transaction in which it writes the reservation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from stoker.base.clock import clock_went_backwards
from stoker.base.errors import ConfigError
from stoker.base.jsontools import compute_digest
from stoker.base.types import is_storable, to_utc
from stoker.budgets.caps import (
    Cap,
    CapChange,
    compute_effective_limit,
    list_added_caps,
    validate_amount,
    validate_connector,
    validate_unit,
)
from stoker.budgets.windows import (
    FAR_FUTURE,
    BudgetWindow,
    ResetRule,
    WindowKind,
    compute_window,
    parse_window,
)

CapWindow = tuple[str, str]
"""A cap, and one of its windows."""

ALL_CONNECTORS = ""  # stands for every connector

MAX_KEY_LENGTH = 500  # characters; a key stands in logs, pages and one index


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendRequest:
    """A request to spend amounts, under a key that is good for one attempt."""

    key: str
    connector: str
    amounts: Mapping[str, int]
    run: str | None = None
    account: str | None = None
    sends_at_once: bool = True  # the reservation may be acted on the time it is given
    # The run whose caps per run count it, when `run` goes on with that one. It is no input: the
    # same key is the same request before and after its run was resumed.
    budget_run: str = ""

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= MAX_KEY_LENGTH or not self.key.isprintable():
            raise ConfigError(
                f"a key is 1 to {MAX_KEY_LENGTH} printable characters, not {self.key[:60]!r}"
            )
        if not is_storable(f"{self.run}{self.account}"):
            raise ConfigError(
                f"{self.key}: its run or account has characters that cannot be stored"
            )
        validate_connector(self.connector)
        if not self.amounts:
            raise ConfigError(f"{self.key} requests nothing; give an amount and its unit")
        for name, number in self.amounts.items():
            validate_amount(number, what=f"{self.key}: the amount of {validate_unit(name)}")

    @property
    def fingerprint(self) -> str:
        """The digest of the inputs; a key always has the same fingerprint."""
        inputs = [self.connector, dict(self.amounts), self.run, self.account, self.sends_at_once]
        return compute_digest(inputs, length=32)


def to_attempt(request: SpendRequest, number: int) -> SpendRequest:
    """Return the request of the first, second, … attempt, with a key of its own."""
    return replace(request, key=f"{request.key}/{number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one request takes out of one cap in one window."""

    cap: str
    shared: bool
    window: str
    amount: int
    limit: int
    ends_at: datetime
    reason: str
    # What windows that overlap this one had used by themselves. It bears on granting alone,
    # so a reservation that was granted is the same with it and without.
    overlap_amount: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What one cap has used in one window: spent, and reserved."""

    settled: int = 0
    reserved: int = 0

    @property
    def total(self) -> int:
        """Everything that is not free."""
        return self.settled + self.reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """What holds for a tenant at this time, apart from how full its caps are."""

    latest: datetime | None = None  # the time of the last ledger entry
    changes: Mapping[str, CapChange] = field(default_factory=dict)
    stops: Mapping[str, str] = field(default_factory=dict)  # connector to reason
    open_windows: Mapping[CapWindow, Totals] = field(default_factory=dict)  # windows near this time

    def to_ledger_time(self, now: datetime) -> datetime:
        """Return the time as money counts it: never earlier than what is already written."""
        moment = to_utc(now)
        return moment if self.latest is None else max(moment, self.latest)

    def compute_lease_end(self, until: datetime, *, now: datetime) -> datetime:
        """Return when a lease that is to end at `until` ends, as money counts time.

        It is as long as was asked. Otherwise, with a clock that was set back a little, a
        reservation would be taken for one of a silent owner the time it is given.
        """
        return to_utc(until) + (self.to_ledger_time(now) - to_utc(now))


def list_charges(
    request: SpendRequest,
    caps: Iterable[Cap],
    changes: Mapping[str, CapChange],
    *,
    reset: ResetRule,
    now: datetime,
    opened: Mapping[CapWindow, Totals] | None = None,
) -> list[Charge]:
    """Return what a request must be charged, in the order that all processes use.

    The order is fixed so that no two requests can wait for each other. `opened` are the windows
    of the tenant's own caps that were charged before. One that overlaps the current window began
    under another reset rule: the request is charged to it as well, and what it used before counts
    against the limit, so that changing the rule opens no second budget.

    Raises ConfigError when a requested unit has no cap (uncapped spending is not allowed), or when
    one cap is given twice (its limit would be ambiguous).
    """
    uncapped = dict.fromkeys(request.amounts)
    run = request.budget_run or request.run
    wanted: dict[str, list[Charge]] = {}
    for cap in caps:
        if not cap_applies(cap, request):
            continue
        if cap.id in wanted:
            raise ConfigError(f"the cap {cap.id} is set twice; keep one of the two")
        uncapped.pop(cap.unit, None)
        limit = compute_effective_limit(cap, changes.get(cap.id), now=now)
        window = compute_window(cap.window, now, reset=get_reset_rule(cap, reset), run=run)
        wanted[cap.id] = _list_cap_charges(request, cap, limit, window, opened or {})
    for name in uncapped:
        raise ConfigError(
            f"{request.key}: no cap covers {name} of {request.connector}; set one with: "
            f"stoker caps set tenant_connector/{request.connector}/{name}/day LIMIT"
        )
    return sorted(
        (charge for found in wanted.values() for charge in found),
        key=lambda charge: (not charge.shared, charge.cap, charge.window),
    )


def cap_applies(cap: Cap, request: SpendRequest) -> bool:
    """Return whether a request falls under a cap."""
    return cap.unit in request.amounts and cap.connector in ("", request.connector)


def list_overlapping_windows(
    cap: Cap, window: BudgetWindow, opened: Mapping[CapWindow, Totals]
) -> list[BudgetWindow]:
    """Return the other windows of this cap that share a time with this one, in order of names.

    There are none unless the rule for resetting was changed. Those of caps that tenants share
    follow one rule for ever, and a run has only one.
    """
    if cap.shared or cap.window is WindowKind.RUN:
        return []
    named = sorted(name for cap_id, name in opened if cap_id == cap.id and name != window.name)
    return [other for other in map(parse_window, named) if other.overlaps(window)]


def compute_overlap(own: Totals, others: Iterable[tuple[BudgetWindow, Totals]]) -> Totals:
    """Return what windows that overlap one used by themselves.

    Whatever is used is charged to all windows that overlap: what this one gave is in theirs
    too, and of others that overlap each other one has it all. So this is the most that others
    which do not overlap each other add up to, without what was charged here.
    """
    most = [Totals()]
    ends: list[datetime] = []
    for window, used in sorted(others, key=lambda other: (other[0].end, other[0].start)):
        before = most[bisect_right(ends, window.start)]
        ends.append(window.end)
        taken = Totals(
            settled=before.settled + max(used.settled - own.settled, 0),
            reserved=before.reserved + max(used.reserved - own.reserved, 0),
        )
        most.append(max(most[-1], taken, key=lambda found: found.total))
    return most[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """No, and why: what refused, how full it is, and when asking again makes sense."""

    reason: str
    message: str
    cap: str = ""
    used: int = 0
    limit: int = 0
    resets_at: datetime | None = None


def evaluate_request(
    request: SpendRequest,
    caps: Sequence[Cap],
    state: BudgetState,
    *,
    reset: ResetRule,
    now: datetime,
) -> tuple[Charge, ...] | Refusal:
    """Return the charges of a new request, or a refusal that does not depend on room.

    Caps that people added count beside those given. Raises ConfigError when a unit has no cap.
    """
    moment = state.to_ledger_time(now)
    together = [*caps, *list_added_caps(caps, state.changes)]
    wanted = list_charges(
        request, together, state.changes, reset=reset, now=moment, opened=state.open_windows
    )
    refused = find_clock_refusal(to_utc(now), latest=state.latest)
    return refused or find_stop_refusal(request.connector, state.stops) or tuple(wanted)


def find_refusal(wanted: Iterable[Charge], used: Mapping[CapWindow, Totals]) -> Refusal | None:
    """Return the refusal of the first cap that would be exceeded, or None when all have room.

    The refusal of a shared cap has no numbers: they would reveal other tenants' spending.
    """
    for charge in wanted:
        gone = used.get((charge.cap, charge.window), Totals()).total + charge.overlap_amount
        if gone + charge.amount <= charge.limit:
            continue
        left = max(charge.limit - gone, 0)
        room = "not enough" if charge.shared else f"{left} of {charge.limit}"
        return Refusal(
            reason=charge.reason,
            message=f"{charge.cap} has {room} left, {charge.amount} needed",
            cap=charge.cap,
            used=0 if charge.shared else gone,
            limit=0 if charge.shared else charge.limit,
            resets_at=None if charge.ends_at == FAR_FUTURE else charge.ends_at,
        )
    return None


def find_clock_refusal(now: datetime, *, latest: datetime | None) -> Refusal | None:
    """Return a refusal when the clock is earlier than what is already written down.

    Otherwise yesterday's budget, or this morning's, could be opened a second time. A difference
    that honest clocks can have is let pass.
    """
    if latest is None or not clock_went_backwards(now, latest=latest):
        return None
    return Refusal(
        reason="CLOCK_WENT_BACK",
        message=f"the clock says {to_utc(now):%Y-%m-%d %H:%M:%S} UTC, but "
        f"{to_utc(latest):%Y-%m-%d %H:%M:%S} was already recorded; set the clock, then try again",
        resets_at=latest,
    )


def find_stop_refusal(connector: str, stops: Mapping[str, str]) -> Refusal | None:
    """Return a refusal when this connector, or all of them, are stopped."""
    for stopped in (ALL_CONNECTORS, connector):
        if stopped in stops:
            what = stopped or "spending"
            why = stops[stopped] or "no reason was given"
            return Refusal(reason="STOPPED", message=f"{what} is stopped: {why}")
    return None


def get_reset_rule(cap: Cap, reset: ResetRule) -> ResetRule:
    """Return where a cap's windows begin, for a tenant with this rule."""
    # What tenants in many zones share must begin at one time for all of them.
    return ResetRule() if cap.shared else reset


def _list_cap_charges(
    request: SpendRequest,
    cap: Cap,
    limit: int,
    window: BudgetWindow,
    opened: Mapping[CapWindow, Totals],
) -> list[Charge]:
    others = list_overlapping_windows(cap, window, opened)
    own = opened.get((cap.id, window.name), Totals())
    before = compute_overlap(own, ((other, opened[cap.id, other.name]) for other in others))
    return [
        Charge(
            cap=cap.id,
            shared=cap.shared,
            window=one.name,
            amount=request.amounts[cap.unit],
            limit=limit,
            ends_at=window.end,
            reason=cap.reason,
            overlap_amount=before.total if one is window else 0,
        )
        for one in (window, *others)
    ]
