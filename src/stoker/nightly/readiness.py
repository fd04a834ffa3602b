"""Check what a tenant still needs for the nightly run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from stoker.accounts.icp import IcpRule
    from stoker.base.types import TenantId
    from stoker.context import Context
    from stoker.tenants.model import CrmConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantReadiness:
    """What a tenant has of what a nightly run needs, and what is missing, in sentences."""

    tenant: TenantId
    name: str
    active: bool
    rule: IcpRule | None
    connection: CrmConnection | None
    crm: str  # where results go; empty: nowhere
    missing: tuple[str, ...]
    setup_steps: dict[str, datetime]

    @property
    def is_ready(self) -> bool:
        """Whether the nightly run includes this tenant without --tenant."""
        return not self.missing


async def check_readiness(app: Context, tenant: TenantId) -> TenantReadiness:
    """Return how far a tenant is set up."""
    from stoker.vendors.table import get_off_reason

    own, store = app.settings.for_tenant(tenant), app.backend.tenant(tenant)
    rule = await store.accounts.find_rule(own.icp.rule_name)
    connection = await store.setup.find_connection()
    lacks, crm = [], ""
    if tenant not in app.settings.list_active_tenants():
        lacks.append("it is not active: stoker tenants enable, or scheduling.tenant_include")
    if rule is None:
        lacks.append(f"it has no ICP {own.icp.rule_name!r}: stoker icp set --tenant {tenant}")
    if connection is not None and connection.active:
        crm = f"{connection.url} {connection.database}"
        if own.get_value("keys.odoo") is None:
            lacks.append("the key of its CRM is not set: ODOO_API_KEY")
    elif connection is not None:
        lacks.append(f"its CRM is disconnected: stoker crm connect --tenant {tenant}")
    elif off := get_off_reason(own, "odoo"):
        lacks.append(f"it has no CRM: stoker crm connect --tenant {tenant} ({off})")
    else:
        crm = f"{own.get_value('odoo.url')} {own.get_value('odoo.database')}"
    return TenantReadiness(
        tenant=tenant,
        name=app.settings.get_tenant(tenant).name,
        active=tenant in app.settings.list_active_tenants(),
        rule=rule,
        connection=connection,
        crm=crm,
        missing=tuple(lacks),
        setup_steps=await store.setup.list_setup_steps(),
    )
