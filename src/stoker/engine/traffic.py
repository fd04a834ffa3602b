"""One process's paces, places and turnstiles: one of each per connector, made when asked for.

Where many processes use a vendor's key they share its pace and places through the store; where one
does, nobody has to be asked. How fast a connector may go is told by whoever builds this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stoker.core.limits import Rate
from stoker.core.model import TenantId
from stoker.engine.pacing import OwnPace, Pace, Places, SharedPace
from stoker.engine.turnstile import Turnstile
from stoker.errors import ConfigError
from stoker.ports import Clock, SharedStore

QUANTUM = 1  # of cost; the finest turns there are, and what costs more waits for more rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How one connector may be called."""

    rate: Rate
    places: int
    own_key: bool = False  # every tenant calls with a key of its own, or a server of its own


class Traffic:
    """How this process's calls go. `shared` is None when no other process uses the same keys.

    A tenant has to be named where each calls with a key of its own. `own_keys` says whose line,
    by connector and tenant, those stand in that brought a key to a vendor the others share one at.
    """

    def __init__(
        self,
        way: Callable[[str], Way],
        *,
        shared: SharedStore | None,
        owner: str,
        clock: Clock,
        weights: Mapping[TenantId, int] | None = None,
        own_keys: Mapping[tuple[str, TenantId], str] | None = None,
        ticks: Callable[[], int] | None = None,
    ) -> None:
        self._way = way
        self._shared = shared
        self._owner = owner
        self._clock = clock
        self._weights = dict(weights or {})
        self._own_keys = dict(own_keys or {})
        self._ticks = ticks
        self._ways: dict[str, Way] = {}
        self._paces: dict[str, Pace] = {}
        self._places: dict[str, Places] = {}
        self._turnstiles: dict[str, Turnstile] = {}
        self._lines: dict[str, asyncio.Lock] = {}

    def way(self, connector: str) -> Way:
        """Return how a connector may be called. Raises ConfigError when nobody has said."""
        if connector not in self._ways:
            self._ways[connector] = self._way(connector)
        return self._ways[connector]

    def pace(self, connector: str, *, tenant: TenantId | None = None) -> Pace:
        """Return the pace of a connector's calls, of all tenants that call with the same key."""
        name = self._line(connector, tenant)
        if name not in self._paces:
            rate = self.way(connector).rate
            if self._shared is None:
                self._paces[name] = OwnPace(rate, clock=self._clock, ticks=self._ticks)
            else:
                key = f"connector/{name}"
                self._paces[name] = SharedPace(key, rate, shared=self._shared, clock=self._clock)
        return self._paces[name]

    def places(self, connector: str, *, tenant: TenantId | None = None) -> Places | None:
        """Return the places that processes share; None when the turnstile alone says how many."""
        if self._shared is None:
            return None
        name = self._line(connector, tenant)
        if name not in self._places:
            self._places[name] = Places(
                f"connector/{name}",
                self.way(connector).places,
                shared=self._shared,
                owner=self._owner,
                clock=self._clock,
            )
        return self._places[name]

    def turnstile(self, connector: str, *, tenant: TenantId | None = None) -> Turnstile:
        """Return where this process's tenants wait for their turn on a connector."""
        name = self._line(connector, tenant)
        if name not in self._turnstiles:
            self._turnstiles[name] = Turnstile(
                at_once=self.way(connector).places, quantum=QUANTUM, weights=self._weights
            )
        return self._turnstiles[name]

    def line(self, connector: str, *, tenant: TenantId | None = None) -> asyncio.Lock:
        """Return what lets one at a time to the front, before the pace; in the order of asking."""
        return self._lines.setdefault(self._line(connector, tenant), asyncio.Lock())

    def _line(self, connector: str, tenant: TenantId | None) -> str:
        if not self.way(connector).own_key:
            whose = self._own_keys.get((connector, tenant)) if tenant else None
            return f"{connector}/{whose}" if whose else connector
        if tenant is None:
            raise ConfigError(f"each tenant calls {connector} with a key of its own; say whose")
        return f"{connector}/{tenant}"
