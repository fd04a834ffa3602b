"""What `doctor` says of touches: do the numbers fit together, can they leave, who shares a file."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from stoker.config.settings import Settings
from stoker.core.model import TenantId
from stoker.core.touch_queue import local_day, monday_of
from stoker.errors import ConfigError
from stoker.ports import Check


def touch_checks(settings: Settings, now: datetime) -> list[Check]:
    """Return one check for each tenant that takes part."""
    own = {tenant: settings.for_tenant(tenant) for tenant in settings.active_tenants()}
    shared = Counter(each.touches.state_file for each in own.values() if _in_file(each))
    return [
        _check(tenant, each, now, alone=not _in_file(each) or shared[each.touches.state_file] == 1)
        for tenant, each in own.items()
    ]


def _check(tenant: TenantId, own: Settings, now: datetime, *, alone: bool) -> Check:
    from stoker.core.coverage.planning import budgets_of
    from stoker.in_touch import why_none_leave

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
