"""Who shares the rates of vendors, and how tenants share a busy vendor."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.config.fields import (
    Section,
    choice,
    integer,
    setting,
    tenant_setting,
)


@dataclass(frozen=True, kw_only=True)
class PacingSettings(Section):
    """Who shares the vendors' rates, and how tenants share busy vendors."""

    processes: str = setting(
        choice("auto", "one", "many"),
        "auto",
        "Whether one process or many use the vendors' keys: one keeps rates in memory, many share "
        "them through the store; auto is many, except in memory.",
    )
    weight: int = tenant_setting(
        integer(1, 1000), 1, "The tenant's share of a busy connector, against the others' weights."
    )
