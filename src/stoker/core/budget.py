"""How much may be spent: which caps a request must fit into, and whether it does.

Amounts are whole numbers, always. What a cap is stands in `caps`, its windows in `budget_windows`;
what is already spent or promised is told by a store, in the same breath in which it writes the
promise down.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from stoker.core.budget_windows import ResetRule, window_at
from stoker.core.caps import (
    LARGEST,
    Cap,
    CapChange,
    Scope,
    amount,
    connector_name,
    limit_in_force,
    unit,
)
from stoker.core.model import in_utc, storable
from stoker.core.runs import compact_json
from stoker.core.timekeeping import went_back
from stoker.errors import ConfigError

__all__ = [
    "LARGEST",
    "Cap",
    "CapChange",
    "Charge",
    "Refused",
    "Request",
    "Scope",
    "Used",
    "amount",
    "charges",
    "clock_refusal",
    "connector_name",
    "first_refusal",
    "limit_in_force",
    "reset_for",
    "unit",
]

LONGEST_KEY = 500  # characters; a key stands in logs, pages and one index


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
        if not 1 <= len(self.key) <= LONGEST_KEY or not self.key.isprintable():
            raise ConfigError(
                f"a key is 1 to {LONGEST_KEY} printable characters, not {self.key[:60]!r}"
            )
        if not storable(f"{self.run}{self.account}"):
            raise ConfigError(f"{self.key}: its run or account has characters no store can keep")
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
    some unit asked for has no cap at all, for what nobody has limited may not be spent; and when
    one cap is given twice, for nobody could say which limit is meant.
    """
    uncapped = dict.fromkeys(request.amounts)
    wanted: dict[str, Charge] = {}
    for cap in caps:
        if cap.unit not in request.amounts or cap.connector not in ("", request.connector):
            continue
        if cap.id in wanted:
            raise ConfigError(f"the cap {cap.id} is set twice; keep one of the two")
        uncapped.pop(cap.unit, None)
        wanted[cap.id] = _charge(request, cap, changes.get(cap.id), reset=reset, now=now)
    for name in uncapped:
        raise ConfigError(
            f"{request.key}: no cap covers {name} of {request.connector}; set one with: "
            f"stoker caps set tenant_connector/{request.connector}/{name}/day LIMIT"
        )
    return sorted(wanted.values(), key=lambda charge: (not charge.shared, charge.cap))


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

    Otherwise yesterday's budget, or this morning's, could be opened a second time. A difference
    that honest clocks can have is let pass.
    """
    if latest is None or not went_back(now, latest=latest):
        return None
    return Refused(
        reason="CLOCK_WENT_BACK",
        sentence=f"the clock says {in_utc(now):%Y-%m-%d %H:%M:%S} UTC, but "
        f"{in_utc(latest):%Y-%m-%d %H:%M:%S} was already recorded; set it right and ask again",
        resets_at=latest,
    )


def reset_for(cap: Cap, reset: ResetRule) -> ResetRule:
    """Return where a cap's windows begin, for a tenant with this rule."""
    # What tenants in many zones share must begin at one moment for all of them.
    return ResetRule() if cap.shared else reset


def _charge(
    request: Request, cap: Cap, change: CapChange | None, *, reset: ResetRule, now: datetime
) -> Charge:
    window = window_at(cap.window, now, reset=reset_for(cap, reset), run=request.run)
    return Charge(
        cap=cap.id,
        shared=cap.shared,
        window=window.name,
        amount=request.amounts[cap.unit],
        limit=limit_in_force(cap, change, now=now),
        ends_at=window.end,
        reason=cap.reason,
    )
