"""One clock per host: at least so long between two requests, whoever makes them.

A host is paced by this process alone, or by all through the store they share. How long a gap is
polite is the caller's to say; robots.txt and settings are not known here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stoker.base.clock import Clock
from stoker.budgets.model import SharedStore
from stoker.rate_limits.rate_limit import LONGEST_PUSH_BACK, Rate, SharedPace

MOST_HOSTS = 1000  # kept in mind before those that may be asked again are let go

KEPT_FOR = timedelta(minutes=1)  # at least: its robots.txt may yet ask for a longer gap

LONGEST_GAP = timedelta(hours=1)  # a robots.txt that asks for more is asked again after it


@dataclass(slots=True)
class _Host:
    last_at: timedelta | None = None
    gap: timedelta = KEPT_FOR  # the longest anybody was asked to leave
    open_at: timedelta = timedelta.min
    waiting: int = 0
    line: asyncio.Lock = field(default_factory=asyncio.Lock)


class OwnHosts:
    """A `Pacer` for hosts that no other process of ours visits."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._hosts: dict[str, _Host] = {}
        self._let_go_above = MOST_HOSTS

    async def turn(self, host: str, *, gap: timedelta) -> None:
        gap = min(gap, LONGEST_GAP)
        known = self._known(host)
        known.waiting += 1
        known.gap = max(known.gap, gap)
        try:
            async with known.line:
                # Asked again after each wait: the host may have been pushed back meanwhile.
                while (wait := self._wait(known, gap)) > timedelta(0):
                    await self._clock.sleep(wait)
                known.last_at = self._clock.elapsed()
        finally:
            known.waiting -= 1

    async def push_back(self, host: str, *, until: datetime) -> None:
        known = self._known(host)
        wait = min(until - self._clock.now(), LONGEST_PUSH_BACK)
        known.open_at = max(known.open_at, self._clock.elapsed() + wait)

    def _wait(self, known: _Host, gap: timedelta) -> timedelta:
        opens_at = known.open_at
        if known.last_at is not None:
            opens_at = max(opens_at, known.last_at + gap)
        return opens_at - self._clock.elapsed() if opens_at > timedelta.min else timedelta(0)

    def _known(self, host: str) -> _Host:
        if host not in self._hosts:
            if len(self._hosts) >= self._let_go_above:
                self._let_go()
            self._hosts[host] = _Host()
        return self._hosts[host]

    def _let_go(self) -> None:
        now = self._clock.elapsed()
        self._hosts = {
            host: known
            for host, known in self._hosts.items()
            if known.waiting
            or known.open_at > now
            or (known.last_at is not None and known.last_at + known.gap > now)
        }
        self._let_go_above = max(MOST_HOSTS, 2 * len(self._hosts))


class SharedHosts:
    """A `Pacer` for hosts that many processes visit; the store they share gives the turns."""

    def __init__(self, *, shared: SharedStore, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock
        # What a host was promised is in the store; here is only who of us waits for it.
        self._paces: dict[tuple[str, timedelta], SharedPace] = {}

    async def turn(self, host: str, *, gap: timedelta) -> None:
        await self._pace(host, min(max(gap, timedelta.resolution), LONGEST_GAP)).turn()

    async def push_back(self, host: str, *, until: datetime) -> None:
        await self._pace(host, timedelta.resolution).push_back(until=until)

    def _pace(self, host: str, gap: timedelta) -> SharedPace:
        if (host, gap) not in self._paces:
            if len(self._paces) >= MOST_HOSTS:
                self._paces.clear()
            rate = Rate(calls=1, per=gap)
            self._paces[host, gap] = SharedPace(
                f"host/{host}", rate, shared=self._shared, clock=self._clock
            )
        return self._paces[host, gap]
