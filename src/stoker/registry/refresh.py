"""What is new in the public register, taken over into one tenant's companies.

Follows the register's own order of changes and remembers how far it came, so that a stop in the
middle costs nothing but the last part again. What a row of the register says is `core.acra`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stoker.accounts.model import Company, CompanyId
from stoker.accounts.store import AccountStore
from stoker.base.clock import Clock
from stoker.registry.model import Entity
from stoker.registry.store import RegistryStore

PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshCount:
    """How the register's changes compared with what the tenant knew."""

    read: int = 0
    new: int = 0
    changed: int = 0


async def refresh_companies(
    registry: RegistryStore, accounts: AccountStore, *, clock: Clock, page: int = PAGE_SIZE
) -> RefreshCount:
    """Take over every change since last time, page by page."""
    since, after = await accounts.find_registry_cursor(), ""
    read = new = changed = 0
    while rows := await registry.list_changed_entities(since=since, after=after, limit=page):
        count = await accounts.upsert_companies(
            [build_company(entity) for entity in rows], now=clock.now()
        )
        read, new, changed = read + len(rows), new + count.new, changed + count.changed
        through = _compute_safe_cursor(rows, since)
        since, after = rows[-1].changed_at, rows[-1].uen
        if through is not None:
            await accounts.set_registry_cursor(through)
    if read and since is not None:
        await accounts.set_registry_cursor(since)
    return RefreshCount(read=read, new=new, changed=changed)


def build_company(entity: Entity) -> Company:
    """Return a registered entity as a tenant's company, knowing what the register knows."""
    return Company(
        id=CompanyId(entity.uen),
        name=entity.name,
        live=entity.live and entity.gone_at is None,
        ssic=entity.ssic,
        year=entity.registered_on.year if entity.registered_on else None,
        postal_code=entity.postal_code,
    )


def _compute_safe_cursor(rows: list[Entity], before: datetime | None) -> datetime | None:
    """Return the latest date that a page is surely through with: more may share its last one."""
    last = rows[-1].changed_at
    earlier = [row.changed_at for row in rows if row.changed_at and row.changed_at != last]
    if earlier:
        return earlier[-1]
    return before if before != last else None
