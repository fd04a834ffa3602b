"""Checks of `doctor` for touches: rules, delivery settings, shared state files."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.db.database import Check
from stoker.touches.queue import get_local_day, get_monday

if TYPE_CHECKING:
    from stoker.settings import Settings


def check_touches(settings: Settings, now: datetime) -> list[Check]:
    """Return one check for each tenant that takes part."""
    own = {tenant: settings.for_tenant(tenant) for tenant in settings.list_active_tenants()}
    shared = Counter(each.touches.state_file for each in own.values() if _is_in_file(each))
    return [
        _check_tenant(
            tenant, each, now, alone=not _is_in_file(each) or shared[each.touches.state_file] == 1
        )
        for tenant, each in own.items()
    ]


def _check_tenant(tenant: TenantId, own: Settings, now: datetime, *, alone: bool) -> Check:
    from stoker.touches.planner import compute_week_budgets
    from stoker.touches.setup import find_missing_settings

    what, section, zone = f"touches, {tenant}", own.touches, own.scheduling.timezone
    try:
        section.check()
    except ConfigError as error:
        return Check(what=what, ok=False, detail=str(error))
    if because := find_missing_settings(own):
        return Check(what=what, ok=False, detail=because)
    if not alone:
        return Check(
            what=what,
            ok=False,
            detail=f"another tenant keeps its touches in {section.state_file} too; give each a "
            "touches.state_file of its own",
        )
    _, notes = compute_week_budgets(
        get_monday(get_local_day(now, zone)), rule=section, seed=0, zone=zone
    )
    detail = f"{section.target} a week, by {section.way}, kept in "
    detail += str(section.state_file) if _is_in_file(own) else "the store"
    # What does not fit is planned as far as it does, and every plan says so: news, not an error.
    return Check(what=what, ok=True, detail="; ".join([detail, *notes[-1:]]))


def _is_in_file(own: Settings) -> bool:
    return own.touches.state == "file"
