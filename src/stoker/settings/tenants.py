"""One list of tenants: those that settings name, and those the store has.

What a tenant sets for itself is in settings alone; the store has its name and whether it is active.
A tenant that is switched off in either is switched off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.settings import DEFAULT_TENANT, Settings, Tenant
from stoker.settings.sandbox import ORIGIN, apply_sandbox

if TYPE_CHECKING:
    from stoker.tenants import model


def add_stored_tenants(settings: Settings, stored: Sequence[model.Tenant]) -> Settings:
    """Return the settings with every stored tenant among theirs.

    The tenant "default", there only because settings name none, is removed if the store has any.
    """
    if not stored:
        return settings
    tenants = {
        each.id: Tenant(id=each.id, name=each.name or each.id, enabled=each.active)
        for each in stored
    }
    for tenant in settings.tenants:
        if _is_placeholder(settings, tenant):
            continue
        if (other := tenants.get(tenant.id)) is not None:
            name = tenant.name if tenant.name != tenant.id else other.name
            tenant = replace(tenant, name=name, enabled=tenant.enabled and other.enabled)
        tenants[tenant.id] = tenant
    return apply_sandbox(replace(settings, tenants=tuple(tenants[id_] for id_ in sorted(tenants))))


def _is_placeholder(settings: Settings, tenant: Tenant) -> bool:
    own = f"tenants.{tenant.id}."
    return (
        tenant.id == DEFAULT_TENANT
        and settings.tenancy.default_tenant_id is None
        and all(
            origin.startswith(ORIGIN)
            for key, origin in settings.origins.items()
            if key.startswith(own)
        )
    )
