"""A customer that Stoker works for, and where its results go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from stoker.base.types import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A customer that Stoker works for, without its settings."""

    id: TenantId
    name: str = ""
    active: bool = True


class UserRole(StrEnum):
    """What a tenant's user may do; each may do what those before it may."""

    VIEWER = "viewer"  # read
    OPERATOR = "operator"  # start, stop and cancel
    ADMIN = "admin"  # set caps and rules, connect a CRM, undo


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUser:
    """A person who works with one tenant's data."""

    id: str  # an email address or another name that the tenant knows the person by
    name: str = ""
    role: UserRole = UserRole.VIEWER
    active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmConnection:
    """Where a tenant's results go. Its key is a setting, and never in a store."""

    kind: str  # odoo
    url: str
    database: str
    active: bool = True
    key_expires_at: datetime | None = None  # keys of Odoo last three months at most
