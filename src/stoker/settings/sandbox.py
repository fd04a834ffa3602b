"""Replace addresses, keys and files while the sandbox is switched on.

Only an address that is not set is replaced. A key is sent to a sandbox address only if it has the
word `sandbox` in it, so that no real key ever leaves. The sandbox has files of its own, unless
settings name them. Every replaced value has the sandbox as its origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stoker.base.types import TenantId
from stoker.config.fields import Secret
from stoker.http.fields import is_sandbox_key, is_sandbox_url
from stoker.settings import FIELDS, Settings
from stoker.vendors.table import VENDORS, OdooSettings

ORIGIN = "sandbox.address"

SANDBOX_URLS = {
    setting: url for vendor in VENDORS.values() for setting, url in vendor.addresses.items()
}

SANDBOX_KEYS = {vendor.key: vendor for vendor in VENDORS.values() if vendor.key}

SANDBOX_FILES: Mapping[str, Path] = MappingProxyType(
    {
        "storage.sqlite_path": Path("stoker-sandbox.db"),
        "storage.json_dir": Path("stoker-sandbox-data"),
        "touches.state_file": Path("schedule_state-sandbox.json"),
        "touches.file": Path("touches-sandbox.jsonl"),
    }
)
"""The store and files of a sandbox: it uses up no real cap and changes nothing real."""


def apply_sandbox(settings: Settings) -> Settings:
    """Return the settings with the sandbox in place of what is not set; unchanged without one."""
    if settings.sandbox.address is None:
        return settings
    unset = {
        key: value
        for key, value in {**SANDBOX_URLS, **SANDBOX_FILES}.items()
        if key not in settings.origins
    }
    settings = settings.with_values(unset, dict.fromkeys(unset, ORIGIN))
    replaced = _choose_sandbox_keys(
        settings, {key: settings.get_value(key) for key in SANDBOX_KEYS}
    )
    settings = settings.with_values(
        replaced, {key: _format_origin(settings, key) for key in replaced}
    )
    for tenant in settings.tenants:
        settings = _with_overrides(
            settings, tenant.id, _choose_sandbox_keys(settings, tenant.overrides)
        )
        settings = _with_overrides(settings, tenant.id, _choose_sandbox_odoo(settings, tenant.id))
    return settings


def find_sandbox_contradictions(settings: Settings) -> Iterator[str]:
    """Yield every address that leads nowhere because there is no sandbox, each as one line."""
    if settings.sandbox.address is not None:
        return
    name = FIELDS[ORIGIN].env[0]
    problem = "is a fake address, but sandbox.address is not set; set"
    for key in SANDBOX_URLS:
        if is_sandbox_url(settings.get_value(key)):
            yield f"{settings.get_origin(key)}: {key} {problem} {name}"
        for tenant in settings.tenants:
            if is_sandbox_url(tenant.overrides.get(key)):
                own = f"tenants.{tenant.id}.{key}"
                yield f"{settings.get_origin(own)}: {own} {problem} {name}"


def _choose_sandbox_keys(
    settings: Settings, keys: Mapping[str, Secret | None]
) -> dict[str, Secret | None]:
    """Return the replacements of those keys that must not be sent to a sandbox address."""
    found: dict[str, Secret | None] = {}
    for key, vendor in SANDBOX_KEYS.items():
        stand_in = None if vendor.sandbox_key is None else Secret(vendor.sandbox_key)
        is_sandbox = any(is_sandbox_url(settings.get_value(url)) for url in vendor.addresses)
        if is_sandbox and key in keys and not is_sandbox_key(keys[key]) and keys[key] != stand_in:
            found[key] = stand_in
    return found


def _choose_sandbox_odoo(settings: Settings, tenant: TenantId) -> dict[str, Any]:
    """Return a tenant's Odoo in the sandbox: a database of its own, opened by its own key."""
    own = settings.for_tenant(tenant)
    odoo = own.get_vendor(OdooSettings)
    if not is_sandbox_url(odoo.url):
        return {}
    database = odoo.database or tenant
    values: dict[str, Any] = {} if odoo.database else {"odoo.database": database}
    values |= {} if odoo.login else {"odoo.login": "stoker"}
    if not is_sandbox_key(odoo.key):
        values["keys.odoo"] = Secret(f"odoo-{database}-sandbox")
    return values


def _with_overrides(settings: Settings, tenant: TenantId, values: Mapping[str, Any]) -> Settings:
    origins = {f"tenants.{tenant}.{key}": _format_origin(settings, key, tenant) for key in values}
    tenants = tuple(
        replace(each, overrides=MappingProxyType({**each.overrides, **values}))
        if each.id == tenant
        else each
        for each in settings.tenants
    )
    return replace(settings, tenants=tenants).with_values({}, origins)


def _format_origin(settings: Settings, key: str, tenant: TenantId | None = None) -> str:
    """Return the sandbox as an origin, and the origin of the value it replaces."""
    own = f"tenants.{tenant}.{key}"
    replaced = settings.origins.get(own) or settings.origins.get(key)
    return f"{ORIGIN}, not {replaced}" if replaced else ORIGIN
