"""What settings mean to those who act: caps, resets, retention, ways to vendors and hosts.

Turns settings into the values and clocks the engine works with. Nothing is opened here.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from stoker.base.clock import Clock, SystemClock
from stoker.base.types import TenantId
from stoker.budgets.caps import Allowances, Cap, default_caps
from stoker.budgets.windows import ResetRule
from stoker.context import Backend
from stoker.crawl.model import Pacer
from stoker.crawl.politeness import OwnHosts, SharedHosts
from stoker.rate_limits.limiter import Traffic, Way
from stoker.rate_limits.rate_limit import Rate
from stoker.runs.retention import RetentionRule
from stoker.settings import CONNECTORS

if TYPE_CHECKING:
    from stoker.settings import Settings

# Sites have a clock per host; all of them together have only so many places.
VISITS = Rate(calls=1000, per=timedelta(seconds=1), burst=500)


def caps_of(own: Settings) -> tuple[Cap, ...]:
    """Return the caps a tenant's settings switch on."""
    caps = own.caps
    return default_caps(
        Allowances(
            tavily_calls=caps.tavily_queries,
            tavily_credits=caps.tavily_credits,
            lusha_calls=caps.lusha_contact_lookups,
            lusha_credits=caps.lusha_credits,
            zerobounce_calls=caps.zerobounce_verifications,
            zerobounce_credits=caps.zerobounce_credits,
            openai_calls=caps.openai_calls,
            openai_tokens=caps.openai_daily_tokens,
            pull_units=caps.pull_units_per_day,
            money=caps.money_per_day_minor,
            currency=caps.currency,
        )
    )


def reset_of(own: Settings) -> ResetRule:
    """Return when a tenant's caps begin anew, as its settings say."""
    return ResetRule(zone=own.scheduling.timezone, at=own.caps.reset_time)


def traffic_for(settings: Settings, backend: Backend, *, owner: str, clock: Clock) -> Traffic:
    """Return how this process's calls to vendors go."""
    return Traffic(
        lambda connector: way_of(settings, connector),
        shared=backend.shared() if _shares_keys(settings) else None,
        owner=owner,
        clock=clock,
        weights={
            tenant.id: settings.for_tenant(tenant.id).pacing.weight for tenant in settings.tenants
        },
        own_keys=_own_keys(settings),
        # The same time as the machine's own clock tells, and cheaper to ask for.
        ticks=time.monotonic_ns if isinstance(clock, SystemClock) else None,
    )


def way_of(settings: Settings, connector: str) -> Way:
    """Return how a connector may be called, as settings say."""
    if connector == "crawl":
        return Way(rate=VISITS, places=settings.crawl.concurrency)
    section = settings.connector(connector)
    return Way(rate=section.rate(), places=section.concurrency, own_key=section.own_key)


def hosts_for(settings: Settings, backend: Backend, *, clock: Clock) -> Pacer:
    """Return the clock of every host that is visited."""
    if _shares_keys(settings):
        return SharedHosts(shared=backend.shared(), clock=clock)
    return OwnHosts(clock=clock)


def retention_rule(own: Settings) -> RetentionRule:
    """Return the rule a tenant's settings describe, whether or not it is switched on."""
    return RetentionRule(days=own.retention.days, keep_latest=own.retention.keep_latest_n_runs)


def _own_keys(settings: Settings) -> dict[tuple[str, TenantId], str]:
    """Return in whose line tenants wait that call with another key than the installation's.

    Those with the same key wait in one line, named by the first of them.
    """
    lines: dict[tuple[str, TenantId], str] = {}
    for name in CONNECTORS:
        first: dict[object, str] = {}
        for tenant in settings.tenants:
            key = tenant.overrides.get(f"keys.{name}")
            if key is not None and key != settings.value(f"keys.{name}"):
                lines[name, tenant.id] = first.setdefault(key, tenant.id)
    return lines


def _shares_keys(settings: Settings) -> bool:
    if settings.pacing.processes == "auto":
        # A file is open to many processes as well: a daemon, and somebody at a terminal.
        return settings.storage.backend != "memory"
    return settings.pacing.processes == "many"
