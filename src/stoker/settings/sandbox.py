"""What the sandbox stands in for while it is switched on: addresses, keys, and where we remember.

Only what nobody set gets a make-believe address. A key goes to a make-believe address only when it
is make-believe itself, so that no real one is ever sent to a rehearsal; whoever wants to rehearse
with a key of their own puts the word `sandbox` into it. A rehearsal remembers in files of its own,
unless somebody named those it is to use. Every replaced value says so as its origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from stoker.base.types import TenantId
from stoker.config.fields import Secret
from stoker.http.fields import is_sandbox_key, is_sandbox_url
from stoker.settings import FIELDS
from stoker.vendors.table import VENDORS

if TYPE_CHECKING:
    from stoker.settings import Settings

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
"""Where a rehearsal remembers, so that it uses up no real cap and nothing real is made of it."""


def apply_sandbox(settings: Settings) -> Settings:
    """Return the settings with the sandbox in place of what nobody set; unchanged without one."""
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
    told = "is a make-believe address, but sandbox.address is not set; set"
    for key in SANDBOX_URLS:
        if is_sandbox_url(settings.get_value(key)):
            yield f"{settings.get_origin(key)}: {key} {told} {name}"
        for tenant in settings.tenants:
            if is_sandbox_url(tenant.overrides.get(key)):
                own = f"tenants.{tenant.id}.{key}"
                yield f"{settings.get_origin(own)}: {own} {told} {name}"


def _choose_sandbox_keys(
    settings: Settings, keys: Mapping[str, Secret | None]
) -> dict[str, Secret | None]:
    """Return what stands in for those of these keys that do not go where they would go."""
    found: dict[str, Secret | None] = {}
    for key, vendor in SANDBOX_KEYS.items():
        stand_in = None if vendor.sandbox_key is None else Secret(vendor.sandbox_key)
        rehearses = any(is_sandbox_url(settings.get_value(url)) for url in vendor.addresses)
        if rehearses and key in keys and not is_sandbox_key(keys[key]) and keys[key] != stand_in:
            found[key] = stand_in
    return found


def _choose_sandbox_odoo(settings: Settings, tenant: TenantId) -> dict[str, Any]:
    """Return where a tenant's rehearsals go: a database of its own, opened by its own key."""
    own = settings.for_tenant(tenant)
    if not is_sandbox_url(own.odoo.url):
        return {}
    database = own.odoo.database or tenant
    said: dict[str, Any] = {} if own.odoo.database else {"odoo.database": database}
    said |= {} if own.odoo.login else {"odoo.login": "stoker"}
    if not is_sandbox_key(own.keys.odoo):
        said["keys.odoo"] = Secret(f"odoo-{database}-sandbox")
    return said


def _with_overrides(settings: Settings, tenant: TenantId, said: Mapping[str, Any]) -> Settings:
    origins = {f"tenants.{tenant}.{key}": _format_origin(settings, key, tenant) for key in said}
    tenants = tuple(
        replace(each, overrides=MappingProxyType({**each.overrides, **said}))
        if each.id == tenant
        else each
        for each in settings.tenants
    )
    return replace(settings, tenants=tenants).with_values({}, origins)


def _format_origin(settings: Settings, key: str, tenant: TenantId | None = None) -> str:
    """Say where a value came from, and which one of somebody's is not used because of it."""
    own = f"tenants.{tenant}.{key}"
    was = settings.origins.get(own) or settings.origins.get(key)
    return f"{ORIGIN}, not {was}" if was else ORIGIN
