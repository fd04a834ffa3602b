"""Tenants the store knows, beside those that settings name: one list for everybody.

What a tenant sets for itself is said by settings alone; the store knows that it is there, what it
is called and whether it is active. Switched off in either of them is switched off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.settings import DEFAULT_TENANT, Tenant
from stoker.settings.sandbox import ORIGIN, apply_sandbox

if TYPE_CHECKING:
    from stoker.settings import Settings
    from stoker.tenants import model as stored


def add_stored_tenants(settings: Settings, known: Sequence[stored.Tenant]) -> Settings:
    """Return the settings with every tenant the store knows among theirs.

    The one called "default", there only because nobody named any, makes way for the first that
    somebody did.
    """
    if not known:
        return settings
    told = {tenant.id: tenant for tenant in known}
    named = {each.id: each for each in settings.tenants if not _is_placeholder(settings, each)}
    both = {
        id_: Tenant(id=id_, name=tenant.name or id_, enabled=tenant.active)
        for id_, tenant in told.items()
    }
    for id_, tenant in named.items():
        other = told.get(id_)
        if other is None:
            both[id_] = tenant
            continue
        name = tenant.name if tenant.name != id_ else other.name or id_
        both[id_] = replace(tenant, name=name, enabled=tenant.enabled and other.active)
    return apply_sandbox(replace(settings, tenants=tuple(both[id_] for id_ in sorted(both))))


def _is_placeholder(settings: Settings, tenant: Tenant) -> bool:
    own = f"tenants.{tenant.id}."
    said = [where for key, where in settings.origins.items() if key.startswith(own)]
    return (
        tenant.id == DEFAULT_TENANT
        and settings.tenancy.default_tenant_id is None
        and all(where.startswith(ORIGIN) for where in said)
    )
