"""What is new in the public register, taken over into one tenant's companies.

Follows the register's own order of changes and remembers how far it came, so that a stop in the
middle costs nothing but the last part again. What a row of the register says is `core.acra`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stoker.accounts.model import AccountStore, Company, CompanyId
from stoker.base.clock import Clock
from stoker.registry.model import Entity, RegistryStore

PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """How the register's changes compared with what the tenant knew."""

    read: int = 0
    new: int = 0
    changed: int = 0


async def refresh(
    registry: RegistryStore, accounts: AccountStore, *, clock: Clock, page: int = PAGE
) -> Refreshed:
    """Take over every change since last time, page by page."""
    since, after = await accounts.mark(), ""
    read = new = changed = 0
    while rows := await registry.entities_changed(since=since, after=after, limit=page):
        count = await accounts.upsert_companies(
            [company_of(entity) for entity in rows], now=clock.now()
        )
        read, new, changed = read + len(rows), new + count.new, changed + count.changed
        through = _through(rows, since)
        since, after = rows[-1].changed_at, rows[-1].uen
        if through is not None:
            await accounts.put_mark(through)
    if read and since is not None:
        await accounts.put_mark(since)
    return Refreshed(read=read, new=new, changed=changed)


def company_of(entity: Entity) -> Company:
    """Return a registered entity as a tenant's company, knowing what the register knows."""
    return Company(
        id=CompanyId(entity.uen),
        name=entity.name,
        live=entity.live and entity.gone_at is None,
        ssic=entity.ssic,
        year=entity.registered_on.year if entity.registered_on else None,
        postal_code=entity.postal_code,
    )


def _through(rows: list[Entity], before: datetime | None) -> datetime | None:
    """Return the latest date that a page is surely through with: more may share its last one."""
    last = rows[-1].changed_at
    earlier = [row.changed_at for row in rows if row.changed_at and row.changed_at != last]
    if earlier:
        return earlier[-1]
    return before if before != last else None
