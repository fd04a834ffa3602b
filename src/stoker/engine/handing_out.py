"""Work handed out unit by unit: take, show signs of life, finish, give back.

One process today and many workers later take from the same hand: whoever takes a unit has it until
it is finished, given back, or its taker falls silent. What is done with a unit is not known here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

from stoker.accounts import NightStore
from stoker.core.companies import Dossier
from stoker.core.nights import Unit
from stoker.ports import Clock

LEASE = timedelta(seconds=60)


class HandingOut(Protocol):
    """Where units come from, and where they go back to."""

    async def take(self, limit: int) -> list[Unit]:
        """Take the next units nobody has, the most valuable first; none are left when empty."""
        ...

    async def keep_alive(self) -> int:
        """Show that whoever took units is still there; return how many it has."""
        ...

    async def finish(self, unit: Unit, dossier: Dossier | None) -> bool:
        """Write down how a unit ended and what is known now, together; False if it is not ours."""
        ...

    async def give_back(self) -> int:
        """Make everything taken and not finished free again; return how many."""
        ...


class StoreUnits:
    """Units of one run, handed out by its tenant's store.

    Whoever was silent for longer than its lease has none any more, and gets none: another run may
    have taken the night over, and knows better by now.
    """

    def __init__(
        self,
        nights: NightStore,
        run: str,
        *,
        owner: str,
        clock: Clock,
        lease: timedelta = LEASE,
    ) -> None:
        self._nights = nights
        self._run = run
        self._owner = owner
        self._clock = clock
        self._lease = lease
        self._alive_at = self._moment()
        self._lost = False

    async def take(self, limit: int) -> list[Unit]:
        """Take the next units nobody has, the most valuable first."""
        if self._was_silent():
            return []
        now = self._clock.now()
        return await self._nights.take_units(
            self._run, owner=self._owner, until=now + self._lease, now=now, limit=limit
        )

    async def keep_alive(self) -> int:
        """Lengthen the lease of everything taken."""
        if self._was_silent():
            return 0
        moment, until = self._moment(), self._clock.now() + self._lease
        kept = await self._nights.keep_units(self._run, owner=self._owner, until=until)
        self._alive_at = moment
        return kept

    async def finish(self, unit: Unit, dossier: Dossier | None) -> bool:
        """Write down how a unit ended and what is known now, together."""
        if self._was_silent():
            return False
        return await self._nights.finish_unit(self._run, unit, dossier)

    async def give_back(self) -> int:
        """Make everything taken and not finished free again."""
        return await self._nights.give_back_units(self._run, owner=self._owner)

    def _was_silent(self) -> bool:
        """Say whether others may have taken us for dead, now or ever before."""
        silent_for = (now - then for now, then in zip(self._moment(), self._alive_at, strict=True))
        self._lost = self._lost or max(silent_for) > self._lease
        return self._lost

    def _moment(self) -> tuple[timedelta, timedelta]:
        # By both clocks: one does not count while the machine sleeps, the other can be set back.
        return self._clock.elapsed(), self._clock.now() - datetime.min.replace(tzinfo=UTC)
