"""The settings of the ideal customer profile."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.config.fields import (
    TEXT,
    Section,
    tenant_setting,
)


@dataclass(frozen=True, kw_only=True)
class IcpSettings(Section):
    """Which companies fit."""

    rule_name: str = tenant_setting(TEXT, "default", "The name of the ICP to use.", "ICP_RULE_NAME")
