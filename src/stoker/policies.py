"""Builds what settings describe: caps, reset times, retention, vendor limits, host delays.

Nothing is opened here.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from stoker.base.clock import Clock, SystemClock
from stoker.base.types import TenantId
from stoker.budgets.windows import ResetRule
from stoker.context import Backend
from stoker.rate_limits.host_delays import HostPacer, LocalHostPacer, SharedHostPacer
from stoker.rate_limits.limiter import VendorLimit, VendorLimits
from stoker.rate_limits.rate_limit import Rate
from stoker.settings import CONNECTORS

if TYPE_CHECKING:
    from stoker.settings import Settings

# Sites have a clock per host; all of them together have only so many places.
VISIT_RATE = Rate(calls=1000, per=timedelta(seconds=1), burst=500)


def build_reset_rule(own: Settings) -> ResetRule:
    """Return when a tenant's caps begin anew, as its settings say."""
    return ResetRule(zone=own.scheduling.timezone, at=own.caps.reset_time)


def build_vendor_limits(
    settings: Settings, backend: Backend, *, owner: str, clock: Clock
) -> VendorLimits:
    """Return how this process's calls to vendors go."""
    return VendorLimits(
        lambda connector: build_vendor_limit(settings, connector),
        shared=backend.shared() if _has_shared_keys(settings) else None,
        owner=owner,
        clock=clock,
        weights={
            tenant.id: settings.for_tenant(tenant.id).pacing.weight for tenant in settings.tenants
        },
        own_keys=_list_own_keys(settings),
        # The same time as the machine's own clock tells, and cheaper to ask for.
        ticks=time.monotonic_ns if isinstance(clock, SystemClock) else None,
    )


def build_vendor_limit(settings: Settings, connector: str) -> VendorLimit:
    """Return how a connector may be called, as settings say."""
    if connector == "crawl":
        return VendorLimit(rate=VISIT_RATE, concurrency=settings.crawl.concurrency)
    section = settings.get_connector(connector)
    return VendorLimit(
        rate=section.to_rate(), concurrency=section.concurrency, own_key=section.own_key
    )


def build_host_pacer(settings: Settings, backend: Backend, *, clock: Clock) -> HostPacer:
    """Return the clock of every host that is visited."""
    if _has_shared_keys(settings):
        return SharedHostPacer(shared=backend.shared(), clock=clock)
    return LocalHostPacer(clock=clock)


def _list_own_keys(settings: Settings) -> dict[tuple[str, TenantId], str]:
    """Return in whose line tenants wait that call with another key than the installation's.

    Those with the same key wait in one line, named by the first of them.
    """
    lines: dict[tuple[str, TenantId], str] = {}
    for name in CONNECTORS:
        first: dict[object, str] = {}
        for tenant in settings.tenants:
            key = tenant.overrides.get(f"keys.{name}")
            if key is not None and key != settings.get_value(f"keys.{name}"):
                lines[name, tenant.id] = first.setdefault(key, tenant.id)
    return lines


def _has_shared_keys(settings: Settings) -> bool:
    if settings.pacing.processes == "auto":
        # A file is open to many processes as well: a daemon, and somebody at a terminal.
        return settings.storage.backend != "memory"
    return settings.pacing.processes == "many"
