"""Work queue of a run: claim items, extend the claims, finish items, release them.

A worker owns an item until it is finished, released, or the worker's claim expires because it sent
no heartbeat.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from stoker.accounts.model import CompanyRecord
from stoker.base.clock import Clock
from stoker.enrichment.model import WorkItem
from stoker.enrichment.store import WorkStore

LEASE_LENGTH = timedelta(seconds=60)

HEARTBEAT_INTERVAL = timedelta(seconds=15)

LEASE_LOST = "this process was held still for so long that another one may have its work by now"


class WorkQueue:
    """Items of one run, claimed from its tenant's store.

    A worker that sent no heartbeat for longer than its lease owns nothing any more and gets
    nothing: another run may have resumed its work. Create it when the run begins: silence before
    the first item counts too.
    """

    def __init__(
        self,
        nights: WorkStore,
        run: str,
        *,
        owner: str,
        clock: Clock,
        lease: timedelta = LEASE_LENGTH,
    ) -> None:
        self._store = nights
        self._run = run
        self._owner = owner
        self._clock = clock
        self._lease = lease
        self._last_heartbeat = self._read_clocks()
        self._lost = False
        self.lost_reason = LEASE_LOST  # once it is not ours any more

    async def claim(self, limit: int) -> list[WorkItem]:
        """Claim the next free items, the most valuable first."""
        if not self.is_owner():
            return []
        now = self._clock.now()
        return await self._store.claim_items(
            self._run, owner=self._owner, until=now + self._lease, now=now, limit=limit
        )

    async def extend_claims(self) -> int:
        """Lengthen the lease of everything taken."""
        if not self.is_owner():
            return 0
        moment, until = self._read_clocks(), self._clock.now() + self._lease
        extended = await self._store.extend_claims(self._run, owner=self._owner, until=until)
        self._last_heartbeat = moment
        return extended

    async def finish(self, unit: WorkItem, dossier: CompanyRecord | None) -> bool:
        """Write down how an item ended and what is known now, together."""
        if not self.is_owner():
            return False
        return await self._store.finish_item(self._run, unit, dossier)

    async def release(self) -> int:
        """Make everything taken and not finished free again."""
        return await self._store.release_items(self._run, owner=self._owner)

    def abandon(self, because: str) -> None:
        """Have nothing more to do with the run's items: none is taken, worked on or finished."""
        if self.is_owner():
            self._lost, self.lost_reason = True, because

    def is_owner(self) -> bool:
        """Return whether our claims can never have expired and were not abandoned."""
        silent_for = (
            now - then for now, then in zip(self._read_clocks(), self._last_heartbeat, strict=True)
        )
        self._lost = self._lost or max(silent_for) > self._lease
        return not self._lost

    def _read_clocks(self) -> tuple[timedelta, timedelta]:
        # By both clocks: one does not count while the machine sleeps, the other can be set back.
        return self._clock.elapsed(), self._clock.now() - datetime.min.replace(tzinfo=UTC)
