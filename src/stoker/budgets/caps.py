"""Define caps: a limit on a unit, per window, within a scope.

Lists valid units, connectors and amounts, the caps that settings switch on and those people add,
and merges changes to caps into the limit in force. `charges` decides what is charged
to them, and which of them refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from stoker.base.errors import ConfigError
from stoker.base.types import to_utc
from stoker.budgets.settings import CapSettings
from stoker.budgets.windows import WindowKind

MAX_AMOUNT = 10**15  # of anything; a request beyond it is a mistake, not a purchase

_UNIT_PATTERN = re.compile(r"calls|pull_units|tokens|credits|money:[A-Z]{3}")

_CONNECTOR_PATTERN = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class Scope(StrEnum):
    """Whose spending a cap counts."""

    TENANT = "tenant"  # one tenant's, whatever the connector
    TENANT_CONNECTOR = "tenant_connector"  # one tenant's, with one connector
    CONNECTOR = "connector"  # all tenants', with one connector: one key, one contract


_REASON_PARTS = {
    Scope.TENANT: "TENANT",
    Scope.TENANT_CONNECTOR: "CONNECTOR",
    Scope.CONNECTOR: "SHARED",
}


def validate_unit(text: str) -> str:
    """Return the unit of an amount. Raises ConfigError listing the valid ones.

    `calls`, `pull_units`, `tokens`, `credits`, or money in minor units: `money:USD`.
    """
    if not _UNIT_PATTERN.fullmatch(text):
        raise ConfigError(
            f"{text!r} is no unit; use calls, pull_units, tokens, credits, or money in minor "
            "units of a currency, e.g. money:USD"
        )
    return text


def validate_amount(number: int, *, what: str = "an amount") -> int:
    """Return an amount that can be meant: a whole number from 0 to 10^15."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_AMOUNT:
        raise ConfigError(f"{what} is {number!r}; allowed: whole numbers from 0 to {MAX_AMOUNT}")
    return number


def validate_connector(text: str) -> str:
    """Return a connector's name. Raises ConfigError for one that is not valid."""
    if not _CONNECTOR_PATTERN.fullmatch(text):
        raise ConfigError(
            f"{text!r} is no connector; names are 1 to 63 of a-z, 0-9, '-' and '_', "
            "beginning with a letter"
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """At most so much of a unit, in each window of a kind, within a scope.

    `id` is what it is called everywhere: `tenant_connector/lusha/credits/day`.
    """

    scope: Scope
    unit: str
    window: WindowKind
    limit: int
    connector: str = ""  # empty for scope tenant
    id: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        validate_unit(self.unit)
        validate_amount(self.limit, what=f"the limit of {self.unit}")
        if self.scope is not Scope.TENANT:
            validate_connector(self.connector)
        elif self.connector:
            raise ConfigError(
                f"a cap of scope {self.scope} counts all connectors; leave out "
                f"{self.connector!r} or use scope {Scope.TENANT_CONNECTOR}"
            )
        name = f"{self.scope}/{self.connector or '*'}/{self.unit}/{self.window}"
        object.__setattr__(self, "id", name)  # made once; every reservation asks for it

    @property
    def shared(self) -> bool:
        """Whether it counts what all tenants spend together."""
        return self.scope is Scope.CONNECTOR

    @property
    def reason(self) -> str:
        """The reason code of a refusal by this cap."""
        return f"CAP_{_REASON_PARTS[self.scope]}_{self.window.name}"


def get_cap_unit(cap: str) -> str:
    """Return the unit that the cap of this id counts."""
    return cap.split("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapChange:
    """A change to a cap by a person: a new limit, or a higher one until a time."""

    cap: str
    limit: int | None = None
    raised_to: int | None = None
    raised_until: datetime | None = None

    def __post_init__(self) -> None:
        if self.limit is not None:
            validate_amount(self.limit, what=f"the limit of {self.cap}")
        if (self.raised_to is None) != (self.raised_until is None):
            raise ConfigError(f"{self.cap} is raised to a number and until a time; give both")
        if self.raised_to is not None and self.raised_until is not None:
            validate_amount(self.raised_to, what=f"the raised limit of {self.cap}")
            to_utc(self.raised_until, what="raised_until")


def merge_changes(before: CapChange | None, change: CapChange) -> CapChange:
    """Merge a newer change into an older one of the same cap; None keeps the older value."""
    if before is None:
        return change
    merged = before if change.limit is None else replace(before, limit=change.limit)
    if change.raised_to is None:
        return merged
    return replace(merged, raised_to=change.raised_to, raised_until=change.raised_until)


def list_custom_limits(changes: Mapping[str, CapChange], *, now: datetime) -> dict[str, int]:
    """Return the limits people have given caps, as they are at this time, by cap."""
    limits_by_cap = {}
    for name, change in changes.items():
        raised = change.raised_until is not None and now < change.raised_until
        limits = [change.limit, change.raised_to if raised else None]
        if given := [limit for limit in limits if limit is not None]:
            limits_by_cap[name] = max(given)
    return limits_by_cap


def compute_effective_limit(cap: Cap, change: CapChange | None, *, now: datetime) -> int:
    """Return how much this cap allows at this time. A raise never makes it less."""
    if change is None:
        return cap.limit
    limit = cap.limit if change.limit is None else change.limit
    if change.raised_to is None or change.raised_until is None or now >= change.raised_until:
        return limit
    return max(limit, change.raised_to)


def build_default_caps(
    daily: CapSettings,
    vendors: Iterable[tuple[str, str, int]],
    *,
    per_run: Iterable[tuple[str, str, int]] = (),
) -> tuple[Cap, ...]:
    """Return the caps a tenant's settings switch on, sorted by id.

    `vendors` has what may be used of each vendor in a day, and `per_run` in a run: its name, the
    unit, the limit.
    """
    caps = [
        *(_build_vendor_cap(*each, window=WindowKind.DAY) for each in vendors),
        *(_build_vendor_cap(*each, window=WindowKind.RUN) for each in per_run),
        _build_tenant_cap("pull_units", daily.pull_units_per_day),
        _build_tenant_cap(f"money:{daily.currency}", daily.money_per_day_minor),
    ]
    return tuple(sorted(caps, key=lambda cap: cap.id))


@lru_cache(maxsize=1024)  # reading a name takes longer than all the rest of a reservation's caps
def parse_cap(cap_id: str, *, limit: int) -> Cap:
    """Return the cap of this id with this limit. Raises ConfigError for an invalid id."""
    parts = cap_id.split("/")
    scopes, windows = {scope.value for scope in Scope}, {kind.value for kind in WindowKind}
    if len(parts) != 4 or parts[0] not in scopes or parts[3] not in windows:
        raise ConfigError(
            f"unknown cap {cap_id!r}; use a name from `stoker caps list`, e.g. tavily/calls/day "
            f"(windows: {', '.join(WindowKind)})"
        )
    scope, connector, unit, window = parts
    cap = Cap(
        scope=Scope(scope),
        connector="" if connector == "*" else connector,
        unit=unit,
        window=WindowKind(window),
        limit=limit,
    )
    if cap.id != cap_id:  # `tenant//calls/day` and the like: one cap has one name
        raise ConfigError(f"unknown cap {cap_id!r}; did you mean {cap.id}?")
    return cap


def list_effective_caps(
    given: Iterable[Cap], changes: Mapping[str, CapChange], *, shared: bool
) -> tuple[Cap, ...]:
    """Return the given caps and those a person added by setting a limit, sorted by id.

    `changes` are the changes to shared caps, or to one tenant's own. Changed limits are not
    applied: `compute_effective_limit` computes them when they are needed.
    """
    caps = [cap for cap in given if cap.shared is shared]
    return tuple(sorted([*caps, *list_added_caps(caps, changes)], key=lambda cap: cap.id))


def list_added_caps(given: Iterable[Cap], changes: Mapping[str, CapChange]) -> list[Cap]:
    """Return the caps people added by setting a limit that are not among those given.

    Called with every reservation, so that a new cap binds processes that are already running.
    """
    if not changes:
        return []
    known = {cap.id for cap in given}
    return [
        parse_cap(cap_id, limit=change.limit)
        for cap_id, change in changes.items()
        if cap_id not in known and change.limit is not None
    ]


def _build_vendor_cap(connector: str, unit: str, limit: int, *, window: WindowKind) -> Cap:
    return Cap(
        scope=Scope.TENANT_CONNECTOR,
        connector=connector,
        unit=unit,
        window=window,
        limit=limit,
    )


def _build_tenant_cap(unit: str, limit: int) -> Cap:
    return Cap(scope=Scope.TENANT, unit=unit, window=WindowKind.DAY, limit=limit)
