"""A customer that Stoker works for, and where its results go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stoker.base.types import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A customer that Stoker works for, without its settings."""

    id: TenantId
    name: str = ""
    active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmConnection:
    """Where a tenant's results go. Its key is a setting, and never in a store."""

    kind: str  # odoo
    url: str
    database: str
    active: bool = True
    key_expires_at: datetime | None = None  # keys of Odoo last three months at most
