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
from stoker.http.fields import is_make_believe
from stoker.settings import KNOWN

if TYPE_CHECKING:
    from stoker.settings import Settings

ORIGIN = "sandbox.address"

WORD = "sandbox"  # what tells a make-believe key from one that may cost somebody something

ADDRESSES: Mapping[str, str] = MappingProxyType(
    {
        "tavily.base_url": "http://tavily.test",
        "openai.base_url": "http://openai.test",
        "lusha.base_url": "http://lusha.test",
        "zerobounce.base_url": "http://zerobounce.test",
        "odoo.url": "http://odoo.test",
        "datagov.base_url": "http://data-gov.test",
        "datagov_downloads.base_url": "http://data-gov.test",
        "boards.greenhouse_url": "http://greenhouse.test",
        "boards.lever_url": "http://lever.test",
        "boards.ashby_url": "http://ashby.test",
    }
)

STAND_INS: Mapping[str, str | None] = MappingProxyType(
    {
        "keys.tavily": "tvly-sandbox",
        "keys.openai": "sk-sandbox",
        "keys.lusha": "lusha-sandbox",
        "keys.zerobounce": "zerobounce-sandbox",
        "keys.datagov": None,  # it is not needed there
    }
)
"""What stands in for each key where its vendor is make-believe."""

FILES: Mapping[str, Path] = MappingProxyType(
    {
        "storage.sqlite_path": Path("stoker-sandbox.db"),
        "storage.json_dir": Path("stoker-sandbox-data"),
        "touches.state_file": Path("schedule_state-sandbox.json"),
        "touches.file": Path("touches-sandbox.jsonl"),
    }
)
"""Where a rehearsal remembers, so that it uses up no real cap and nothing real is made of it."""


def rehearsed(settings: Settings) -> Settings:
    """Return the settings with the sandbox in place of what nobody set; unchanged without one."""
    if settings.sandbox.address is None:
        return settings
    unset = {
        key: value for key, value in {**ADDRESSES, **FILES}.items() if key not in settings.origins
    }
    settings = settings.with_values(unset, dict.fromkeys(unset, ORIGIN))
    replaced = _replaced(settings, {key: settings.value(key) for key in STAND_INS})
    settings = settings.with_values(replaced, {key: _instead_of(settings, key) for key in replaced})
    for tenant in settings.tenants:
        settings = _with_own(settings, tenant.id, _replaced(settings, tenant.overrides))
        settings = _with_own(settings, tenant.id, _own_odoo(settings, tenant.id))
    return settings


def contradictions(settings: Settings) -> Iterator[str]:
    """Yield every address that leads nowhere because there is no sandbox, each as one line."""
    if settings.sandbox.address is not None:
        return
    name = KNOWN[ORIGIN].env[0]
    told = "is a make-believe address, but sandbox.address is not set; set"
    for key in ADDRESSES:
        if is_make_believe(settings.value(key)):
            yield f"{settings.origin(key)}: {key} {told} {name}"
        for tenant in settings.tenants:
            if is_make_believe(tenant.overrides.get(key)):
                own = f"tenants.{tenant.id}.{key}"
                yield f"{settings.origin(own)}: {own} {told} {name}"


def is_stand_in(key: Secret | None) -> bool:
    """Say whether a key may be shown to a make-believe vendor."""
    return key is not None and WORD in key.reveal()


def _replaced(settings: Settings, keys: Mapping[str, Secret | None]) -> dict[str, Secret | None]:
    """Return what stands in for those of these keys that do not go where they would go."""
    found: dict[str, Secret | None] = {}
    for key, stand_in in STAND_INS.items():
        vendor = key.partition(".")[2]
        goes_to = [settings.value(url) for url in ADDRESSES if url.startswith(vendor)]
        other = None if stand_in is None else Secret(stand_in)
        rehearses = key in keys and any(map(is_make_believe, goes_to))
        if rehearses and not is_stand_in(keys[key]) and keys[key] != other:
            found[key] = other
    return found


def _own_odoo(settings: Settings, tenant: TenantId) -> dict[str, Any]:
    """Return where a tenant's rehearsals go: a database of its own, opened by its own key."""
    own = settings.for_tenant(tenant)
    if not is_make_believe(own.odoo.url):
        return {}
    database = own.odoo.database or tenant
    said: dict[str, Any] = {} if own.odoo.database else {"odoo.database": database}
    said |= {} if own.odoo.login else {"odoo.login": "stoker"}
    if not is_stand_in(own.keys.odoo):
        said["keys.odoo"] = Secret(f"odoo-{database}-sandbox")
    return said


def _with_own(settings: Settings, tenant: TenantId, said: Mapping[str, Any]) -> Settings:
    origins = {f"tenants.{tenant}.{key}": _instead_of(settings, key, tenant) for key in said}
    tenants = tuple(
        replace(each, overrides=MappingProxyType({**each.overrides, **said}))
        if each.id == tenant
        else each
        for each in settings.tenants
    )
    return replace(settings, tenants=tenants).with_values({}, origins)


def _instead_of(settings: Settings, key: str, tenant: TenantId | None = None) -> str:
    """Say where a value came from, and which one of somebody's is not used because of it."""
    own = f"tenants.{tenant}.{key}"
    was = settings.origins.get(own) or settings.origins.get(key)
    return f"{ORIGIN}, not {was}" if was else ORIGIN
