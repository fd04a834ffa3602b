"""Every vendor in one row: what it needs, where it goes, and what `connectors test` checks.

A vendor is what goes over the network, paid for or not. Its client is named and not imported here:
reading settings needs this table, and most commands need no vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from stoker.base.errors import ConfigError

if TYPE_CHECKING:
    from stoker.budgets.model import Health
    from stoker.config.fields import Secret
    from stoker.context import TenantContext
    from stoker.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One vendor, by the name that settings, caps and stops call it."""

    name: str
    client: str  # module:function, which builds it from a tenant's context
    needs: tuple[str, ...] = ()  # the settings without which it is off
    is_paid: bool = False
    # The settings that say where it goes, and where in the sandbox each leads.
    addresses: Mapping[str, str] = field(default_factory=dict)
    key: str = ""  # the setting of a key that the sandbox replaces
    sandbox_key: str | None = None  # by which; None: none is needed there


_ROWS = (
    Vendor(name="crawl", client="stoker.crawl.service:build_crawl_connector"),
    Vendor(
        name="tavily",
        client="stoker.vendors.tavily:build_search",
        needs=("keys.tavily",),
        is_paid=True,
        addresses={"tavily.base_url": "http://tavily.test"},
        key="keys.tavily",
        sandbox_key="tvly-sandbox",
    ),
    Vendor(
        name="openai",
        client="stoker.vendors.openai:build_extractor",
        needs=("keys.openai",),
        is_paid=True,
        addresses={"openai.base_url": "http://openai.test"},
        key="keys.openai",
        sandbox_key="sk-sandbox",
    ),
    Vendor(
        name="lusha",
        client="stoker.vendors.lusha:build_people",
        needs=("keys.lusha",),
        is_paid=True,
        addresses={"lusha.base_url": "http://lusha.test"},
        key="keys.lusha",
        sandbox_key="lusha-sandbox",
    ),
    Vendor(
        name="zerobounce",
        client="stoker.vendors.zerobounce:build_verifier",
        needs=("keys.zerobounce",),
        is_paid=True,
        addresses={"zerobounce.base_url": "http://zerobounce.test"},
        key="keys.zerobounce",
        sandbox_key="zerobounce-sandbox",
    ),
    Vendor(
        name="odoo",
        client="stoker.crm.odoo:build_odoo_despite_stops",
        needs=("odoo.url", "odoo.database", "keys.odoo"),
        addresses={"odoo.url": "http://odoo.test"},
    ),
    Vendor(
        name="datagov",
        client="stoker.registry.download:get_portal",
        addresses={
            "datagov.base_url": "http://data-gov.test",
            "datagov_downloads.base_url": "http://data-gov.test",
        },
        key="keys.datagov",
    ),
    Vendor(
        name="boards",
        client="stoker.discovery.service:build_all_boards",
        addresses={
            "boards.greenhouse_url": "http://greenhouse.test",
            "boards.lever_url": "http://lever.test",
            "boards.ashby_url": "http://ashby.test",
        },
    ),
)

VENDORS: Mapping[str, Vendor] = MappingProxyType({row.name: row for row in _ROWS})

PAID_VENDORS = tuple(row.name for row in _ROWS if row.is_paid)


class _Checkable(Protocol):
    async def check(self) -> Health: ...


def get_off_reason(own: Settings, name: str) -> str:
    """Say why a tenant's settings leave a vendor off; empty when it is on.

    Raises ConfigError when there is no such vendor.
    """
    if name not in VENDORS:
        raise ConfigError(f"there is no connector {name[:40]!r}; there are: {', '.join(VENDORS)}")
    return own.format_missing(key for key in VENDORS[name].needs if own.get_value(key) is None)


def list_paid_vendors(own: Settings) -> list[str]:
    """Return the paid vendors that a tenant's settings switch on."""
    return [name for name in PAID_VENDORS if not get_off_reason(own, name)]


def list_addresses(own: Settings, name: str) -> list[str]:
    """Return where a tenant's settings send a vendor's calls, each address once."""
    urls = [own.get_value(key) for key in VENDORS[name].addresses]
    return list(dict.fromkeys(url for url in urls if url))


def get_key(tenant: TenantContext, name: str) -> str:
    """Return a tenant's key for a vendor. Raises ConfigError when the vendor is off."""
    if reason := get_off_reason(tenant.settings, name):
        raise ConfigError(f"{name} is off for {tenant.id}: {reason}")
    key: Secret = tenant.settings.get_value(f"keys.{name}")
    return key.reveal()


async def check_vendor(tenant: TenantContext, name: str) -> Health:
    """Find out at no cost how a vendor is. Never raises for what a vendor does."""
    from stoker.budgets.model import Health

    if reason := get_off_reason(tenant.settings, name):
        return Health(ok=False, detail=f"it is off: {reason}")
    module, _, function = VENDORS[name].client.partition(":")
    try:
        client: _Checkable = getattr(import_module(module), function)(tenant)
        return await client.check()
    except ConfigError as error:
        return Health(ok=False, detail=str(error))
