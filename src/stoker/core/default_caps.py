"""Which caps there are: those that settings switch on, and those a person added.

Caps are on by default, with small numbers. What is spent against them, and who may change them, is
not known here; a cap that was added counts what is reserved from that moment on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from stoker.core.budget_windows import WindowKind
from stoker.core.caps import Cap, CapChange, Scope
from stoker.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """What a tenant may use in one of its days, as settings say it. Money is in minor units."""

    tavily_calls: int
    tavily_credits: int
    lusha_calls: int
    lusha_credits: int
    zerobounce_calls: int
    zerobounce_credits: int
    openai_calls: int
    openai_tokens: int
    pull_units: int
    money: int
    currency: str


def default_caps(daily: Allowances) -> tuple[Cap, ...]:
    """Return the caps these allowances mean, sorted by id."""
    caps = [
        _with("tavily", "calls", daily.tavily_calls),
        _with("tavily", "credits", daily.tavily_credits),
        _with("lusha", "calls", daily.lusha_calls),
        _with("lusha", "credits", daily.lusha_credits),
        _with("zerobounce", "calls", daily.zerobounce_calls),
        _with("zerobounce", "credits", daily.zerobounce_credits),
        _with("openai", "calls", daily.openai_calls),
        _with("openai", "tokens", daily.openai_tokens),
        _of_tenant("pull_units", daily.pull_units),
        _of_tenant(f"money:{daily.currency}", daily.money),
    ]
    return tuple(sorted(caps, key=lambda cap: cap.id))


def cap_named(cap_id: str, *, limit: int) -> Cap:
    """Return the cap of this id with this limit, or say what an id looks like."""
    parts = cap_id.split("/")
    scopes, windows = {scope.value for scope in Scope}, {kind.value for kind in WindowKind}
    if len(parts) != 4 or parts[0] not in scopes or parts[3] not in windows:
        raise ConfigError(
            f"{cap_id!r} is no cap; write SCOPE/CONNECTOR/UNIT/WINDOW, e.g. "
            "tenant_connector/lusha/credits/day or tenant/*/pull_units/week; scopes: "
            f"{', '.join(Scope)}; windows: {', '.join(WindowKind)}"
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
        raise ConfigError(f"{cap_id!r} is no cap; did you mean {cap.id}?")
    return cap


def caps_in_force(
    given: Iterable[Cap], changes: Mapping[str, CapChange], *, shared: bool
) -> tuple[Cap, ...]:
    """Return the caps that were given and those a person added by naming a limit, sorted by id.

    `changes` are what was said about caps that tenants share, or about one tenant's own. Changed
    limits are not in it: `limit_in_force` tells those at the moment they are needed.
    """
    caps = {cap.id: cap for cap in given if cap.shared is shared}
    for cap_id, change in changes.items():
        if cap_id not in caps and change.limit is not None:
            caps[cap_id] = cap_named(cap_id, limit=change.limit)
    return tuple(caps[cap_id] for cap_id in sorted(caps))


def added_caps(given: Iterable[Cap], changes: Mapping[str, CapChange]) -> list[Cap]:
    """Return the caps people added by naming a limit that are not among those given.

    Asked with every reservation, so that a cap binds whoever was already at work when it came.
    """
    if not changes:
        return []
    known = {cap.id for cap in given}
    return [
        _once_named(cap_id, change.limit)
        for cap_id, change in changes.items()
        if cap_id not in known and change.limit is not None
    ]


@lru_cache(maxsize=1024)  # reading a name takes longer than all the rest of a reservation's caps
def _once_named(cap_id: str, limit: int) -> Cap:
    return cap_named(cap_id, limit=limit)


def _with(connector: str, unit: str, limit: int) -> Cap:
    return Cap(
        scope=Scope.TENANT_CONNECTOR,
        connector=connector,
        unit=unit,
        window=WindowKind.DAY,
        limit=limit,
    )


def _of_tenant(unit: str, limit: int) -> Cap:
    return Cap(scope=Scope.TENANT, unit=unit, window=WindowKind.DAY, limit=limit)
