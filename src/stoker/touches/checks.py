"""What `doctor` says of touches: do the numbers fit together, can they leave, who shares a file."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.db.database import Check
from stoker.touches.queue import local_day, monday_of

if TYPE_CHECKING:
    from stoker.settings import Settings


def touch_checks(settings: Settings, now: datetime) -> list[Check]:
    """Return one check for each tenant that takes part."""
    own = {tenant: settings.for_tenant(tenant) for tenant in settings.active_tenants()}
    shared = Counter(each.touches.state_file for each in own.values() if _in_file(each))
    return [
        _check(tenant, each, now, alone=not _in_file(each) or shared[each.touches.state_file] == 1)
        for tenant, each in own.items()
    ]


def _check(tenant: TenantId, own: Settings, now: datetime, *, alone: bool) -> Check:
    from stoker.touches.planner import budgets_of
    from stoker.touches.setup import why_none_leave

    what, said, zone = f"touches, {tenant}", own.touches, own.scheduling.timezone
    try:
        rule = said.rule()
    except ConfigError as error:
        return Check(what=what, ok=False, detail=str(error))
    if because := why_none_leave(own):
        return Check(what=what, ok=False, detail=because)
    if not alone:
        return Check(
            what=what,
            ok=False,
            detail=f"another tenant keeps its touches in {said.state_file} too; give each a "
            "touches.state_file of its own",
        )
    _, notes = budgets_of(monday_of(local_day(now, zone)), rule=rule, seed=0, zone=zone)
    told = f"{rule.target} a week, by {said.way}, kept in "
    told += str(said.state_file) if _in_file(own) else "the store"
    # What does not fit is planned as far as it does, and every plan says so: news, not an error.
    return Check(what=what, ok=True, detail="; ".join([told, *notes[-1:]]))


def _in_file(own: Settings) -> bool:
    return own.touches.state == "file"
