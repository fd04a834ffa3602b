"""The tables of tenants, their setup and their connections."""

from __future__ import annotations

from typing import Any

from stoker.base.types import parse_tenant_id
from stoker.db.policies import OWN_ROW
from stoker.db.table import FLAG, KEY, ORDERED_TEXT, TEXT, TIME, Column, Table, enum
from stoker.tenants.model import CrmConnection, Tenant, TenantUser, UserRole

TENANTS = Table(
    "tenants",
    Tenant,
    Column("id", ORDERED_TEXT),
    Column("name", TEXT),
    Column("active", FLAG),
    Column("tenant_id", ORDERED_TEXT, generated="id", since=18),
    Column(
        "status",
        TEXT,
        generated="CASE WHEN active THEN 'active' ELSE 'disabled' END",
        since=18,
    ),
    key=["id"],
    check=lambda tenant: parse_tenant_id(tenant.id),
    since=6,
    what="the tenant",
    grants="SELECT, INSERT, UPDATE",
    tenant=False,
    policies=OWN_ROW,
    guarded_since=15,
)

USERS = Table(
    "tenant_users",
    TenantUser,
    Column("id", KEY),
    Column("name", TEXT),
    Column("role", enum(UserRole)),
    Column("active", FLAG),
    Column("user_id", ORDERED_TEXT, generated="id", since=18),
    key=["id"],
    since=6,
    what="the user",
    grants="SELECT, INSERT, UPDATE, DELETE",
)

SETUP_STEPS: Table[Any] = Table(
    "onboarding_status",
    None,
    Column("step", KEY),
    Column("done_at", TIME),
    key=["step"],
    since=6,
    what="the setup step",
    grants="SELECT, INSERT",
)

CONNECTIONS = Table(
    "odoo_connections",
    CrmConnection,
    Column("kind", TEXT),
    Column("url", TEXT),
    Column("database_name", TEXT, field="database"),
    Column("active", FLAG),
    Column("key_expires_at", TIME, null=True),
    key=[],
    since=6,
    what="the CRM connection",
    grants="SELECT, INSERT, UPDATE",
)

TABLES = (TENANTS, USERS, SETUP_STEPS, CONNECTIONS)
