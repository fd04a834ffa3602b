"""The settings of the program itself: its log, its tenants, and keys of no vendor."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.base.types import TenantId
from stoker.config.fields import (
    BOOLEAN,
    FLAG_IF_SET,
    SECRET,
    TENANT,
    TEXT,
    ZONE,
    Secret,
    Section,
    choice,
    setting,
    tenant_setting,
)


@dataclass(frozen=True, kw_only=True)
class LoggingSettings(Section):
    """What is written down while it works."""

    format: str = setting(
        choice("auto", "human", "json"), "auto", "Lines for people, or JSON; auto looks who reads."
    )
    level: str = setting(
        choice("debug", "info", "warning", "error"), "info", "The least important line written."
    )
    no_color: bool = setting(
        FLAG_IF_SET, False, "Whether lines stay plain on a terminal.", "NO_COLOR"
    )


@dataclass(frozen=True, kw_only=True)
class KeySettings(Section):
    """The vendors' keys. Each is optional; without one, that vendor is not called."""

    webhook: Secret | None = tenant_setting(
        SECRET,
        None,
        "The secret that signs deliveries to a tenant's webhook; 16 characters or more.",
    )


@dataclass(frozen=True, kw_only=True)
class TenancySettings(Section):
    """The tenant of commands that name none."""

    default_tenant_id: TenantId | None = setting(
        TENANT, None, "The tenant of a command that is about one tenant.", "DEFAULT_TENANT_ID"
    )


@dataclass(frozen=True, kw_only=True)
class TenantTable(Section):
    """What `[tenants.ID]` says besides overriding settings."""

    name: str = setting(TEXT, "", "What people call the tenant; its id, if not given.")
    timezone: str = setting(ZONE, "", "The tenant's time zone; scheduling.timezone, if not given.")
    enabled: bool = setting(BOOLEAN, True, "Whether the tenant is active.")
