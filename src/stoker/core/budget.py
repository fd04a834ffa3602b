"""How much may be spent: what a cap is, which caps a request must fit into, and whether it does.

Amounts are whole numbers, always. Windows come from `budget_windows`; what is already spent or
promised is told by a store, in the same breath in which it writes the promise down.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from stoker.core.budget_windows import BudgetWindow, ResetRule, WindowKind, window_at
from stoker.core.model import storable
from stoker.core.runs import compact_json
from stoker.errors import ConfigError

LARGEST = 10**15  # of anything; a request beyond it is a mistake, not a purchase
CLOCK_TOLERANCE = timedelta(minutes=5)  # clocks of honest machines differ by less
_UNIT = re.compile(r"calls|pull_units|tokens|credits|money:[A-Z]{3}")
_CONNECTOR = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class Scope(StrEnum):
    """Whose spending a cap counts."""

    TENANT = "tenant"  # one tenant's, whatever the connector
    TENANT_CONNECTOR = "tenant_connector"  # one tenant's, with one connector
    CONNECTOR = "connector"  # everybody's, with one connector: one key, one contract


def unit(text: str) -> str:
    """Return the unit of an amount, or say which there are.

    `calls`, `pull_units`, `tokens`, `credits`, or money in minor units: `money:USD`.
    """
    if not _UNIT.fullmatch(text):
        raise ConfigError(
            f"{text!r} is no unit; use calls, pull_units, tokens, credits or money:XXX "
            "with a currency code"
        )
    return text


def amount(number: int, *, what: str = "an amount") -> int:
    """Return an amount that can be meant: a whole number from 0 to 10^15."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= LARGEST:
        raise ConfigError(f"{what} is {number!r}; allowed: whole numbers from 0 to {LARGEST}")
    return number


def connector_name(text: str) -> str:
    """Return a connector's name, or say what one looks like."""
    if not _CONNECTOR.fullmatch(text):
        raise ConfigError(
            f"{text!r} is no connector; names are 1 to 63 of a-z, 0-9, '-' and '_', "
            "beginning with a letter"
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """At most so much of a unit, in each window of a kind, within a scope."""

    scope: Scope
    unit: str
    window: WindowKind
    limit: int
    connector: str = ""  # empty for scope tenant

    def __post_init__(self) -> None:
        unit(self.unit)
        amount(self.limit, what=f"the limit of {self.unit}")
        if (self.scope is Scope.TENANT) != (self.connector == ""):
            raise ConfigError(f"a cap of scope {self.scope} and connector {self.connector!r}")
        if self.connector:
            connector_name(self.connector)

    @property
    def id(self) -> str:
        """What a cap is called everywhere: `tenant_connector/lusha/credits/day`."""
        return f"{self.scope}/{self.connector or '*'}/{self.unit}/{self.window}"

    @property
    def shared(self) -> bool:
        """Whether it counts what all tenants spend together."""
        return self.scope is Scope.CONNECTOR

    @property
    def reason(self) -> str:
        """The reason code of a refusal by this cap."""
        who = {"tenant": "TENANT", "tenant_connector": "CONNECTOR", "connector": "SHARED"}
        return f"CAP_{who[self.scope.value]}_{self.window.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapChange:
    """What a person said about a cap: its limit from now on, or a higher one for a while."""

    cap: str
    limit: int | None = None
    raised_to: int | None = None
    raised_until: datetime | None = None


def limit_in_force(cap: Cap, change: CapChange | None, *, now: datetime) -> int:
    """Return how much this cap allows at this moment."""
    if change is None:
        return cap.limit
    limit = cap.limit if change.limit is None else change.limit
    if change.raised_to is not None and change.raised_until is not None:
        return max(limit, change.raised_to) if now < change.raised_until else limit
    return limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody wants to spend, under a name that is good for one attempt."""

    key: str
    connector: str
    amounts: Mapping[str, int]
    run: str | None = None
    account: str | None = None
    sends_at_once: bool = True  # the promise may be acted on the moment it is given

    def __post_init__(self) -> None:
        if not self.key or len(self.key) > 500 or not storable(self.key):
            raise ConfigError(f"a key is 1 to 500 ordinary characters, not {self.key[:60]!r}")
        connector_name(self.connector)
        if not self.amounts:
            raise ConfigError(f"{self.key} asks for nothing; say how much of what")
        for name, number in self.amounts.items():
            amount(number, what=f"{self.key}: the amount of {unit(name)}")

    @property
    def fingerprint(self) -> str:
        """The same for the same inputs; a key comes with one fingerprint for ever."""
        said = [self.connector, dict(self.amounts), self.run, self.account, self.sends_at_once]
        return hashlib.sha256(compact_json(said).encode()).hexdigest()[:32]


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


def charges(
    request: Request,
    caps: Iterable[Cap],
    changes: Mapping[str, CapChange],
    *,
    reset: ResetRule,
    now: datetime,
) -> list[Charge]:
    """Return what a request must be charged, in the one order everybody charges in.

    The order is fixed so that no two requests can wait for each other. Raises ConfigError when
    some unit asked for has no cap at all: what nobody has limited may not be spent.
    """
    wanted = []
    capped: set[str] = set()
    for cap in caps:
        needed = request.amounts.get(cap.unit, 0)
        if cap.unit not in request.amounts or cap.connector not in ("", request.connector):
            continue
        capped.add(cap.unit)
        window = window_at(cap.window, now, reset=_reset_for(cap, reset), run=request.run)
        wanted.append(_charge(cap, window, needed, changes.get(cap.id), now=now))
    for name in request.amounts:
        if name not in capped:
            raise ConfigError(
                f"{request.key}: no cap covers {name} of {request.connector}; set one with: "
                f"stoker caps set tenant_connector/{request.connector}/{name}/day LIMIT"
            )
    return sorted(wanted, key=lambda charge: (not charge.shared, charge.cap))


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What one cap has given away in one window: spent, and promised."""

    settled: int = 0
    reserved: int = 0

    @property
    def total(self) -> int:
        """Everything that is not free."""
        return self.settled + self.reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No, and why: what refused, how full it is, and when asking again makes sense."""

    reason: str
    sentence: str
    cap: str = ""
    used: int = 0
    limit: int = 0
    resets_at: datetime | None = None


def first_refusal(wanted: Iterable[Charge], used: Mapping[tuple[str, str], Used]) -> Refused | None:
    """Return the refusal of the first cap that would be exceeded, or None when all have room.

    Of a cap that tenants share, no numbers are told: they would speak of the others.
    """
    for charge in wanted:
        there = used.get((charge.cap, charge.window), Used())
        if there.total + charge.amount <= charge.limit:
            continue
        left = max(charge.limit - there.total, 0)
        room = "not enough" if charge.shared else f"{left} of {charge.limit}"
        return Refused(
            reason=charge.reason,
            sentence=f"{charge.cap} has {room} left, {charge.amount} needed",
            cap=charge.cap,
            used=0 if charge.shared else there.total,
            limit=0 if charge.shared else charge.limit,
            resets_at=charge.ends_at,
        )
    return None


def clock_refusal(now: datetime, *, latest: datetime | None) -> Refused | None:
    """Return a refusal when the clock is earlier than what is already written down.

    Otherwise yesterday's budget, or this morning's, could be opened a second time.
    """
    if latest is None or now >= latest - CLOCK_TOLERANCE:
        return None
    return Refused(
        reason="CLOCK_WENT_BACK",
        sentence=f"the clock says {now.isoformat()}, but {latest.isoformat()} was already recorded",
        resets_at=latest,
    )


def _charge(
    cap: Cap, window: BudgetWindow, needed: int, change: CapChange | None, *, now: datetime
) -> Charge:
    return Charge(
        cap=cap.id,
        shared=cap.shared,
        window=window.name,
        amount=needed,
        limit=limit_in_force(cap, change, now=now),
        ends_at=window.end,
        reason=cap.reason,
    )


def _reset_for(cap: Cap, reset: ResetRule) -> ResetRule:
    # What tenants in many zones share must begin at one moment for all of them.
    return ResetRule() if cap.shared else reset
