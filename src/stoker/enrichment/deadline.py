"""Watches a night while it goes on: how far it has come, when it will end, what to leave out.

Tells how it stands every few seconds, and which vendor it waits for; when the deadline is at risk
it lets the least valuable units go that nobody has begun. How the end is reckoned is decided in the
core.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoker.base.clock import Clock
from stoker.base.errors import TransientError, UncertainError
from stoker.base.events import NightProgress, Observer, UnitsShed
from stoker.context import Store
from stoker.enrichment.forecast import projected_finish, to_shed
from stoker.enrichment.model import Unit, UnitState
from stoker.enrichment.summary import Stragglers
from stoker.enrichment.worker_pool import UnitFlow

LOOKS_EVERY = timedelta(seconds=5)

GRACE = timedelta(minutes=10)  # after the deadline, for companies that were under way

ENOUGH_SEEN = 10  # units that must have ended before their pace is believed

PAGE = 200  # units in memory, however many are left out

Rests = Callable[[], Awaitable[Mapping[str, datetime]]]
"""Says which vendors want to be left alone that work waits for, and until when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When a night began, when it must end, and how long it was expected to take."""

    began_at: datetime
    deadline: datetime
    expected: timedelta


class NightWatch:
    """Looks after one run's time."""

    def __init__(
        self,
        store: Store,
        run: str,
        *,
        flow: UnitFlow,
        times: Times,
        clock: Clock,
        observer: Observer,
        rests: Rests,
        every: timedelta = LOOKS_EVERY,
    ) -> None:
        self._store = store
        self._run = run
        self._flow = flow
        self._times = times
        self._clock = clock
        self._observer = observer
        self._rests = rests
        self._every = every

    async def keep_watch(self) -> None:
        """Look again and again, until what is under way has had all the time there is."""
        while self._clock.now() < self._times.deadline + GRACE:
            await self._clock.sleep(self._every)
            with suppress(TransientError, UncertainError):  # the work itself notices a lost store
                await self.look()

    async def look(self) -> int:
        """Tell how the night stands, and leave out what cannot be done in time; return how much."""
        counts = await self._store.nights.count_units(self._run)
        rests = await self._rests()
        waits_for = max(rests, key=lambda name: rests[name], default="")
        waiting, ended = counts.get(UnitState.WAITING, 0), self._flow.ended
        left, now = waiting + self._flow.under_way, self._clock.now()
        finish = projected_finish(
            began_at=self._times.began_at,
            now=now,
            ended=ended,
            left=left,
            expected=self._times.expected,
            waits_until=rests.get(waits_for),
        )
        late = (finish or now) > self._times.deadline
        self._observer(
            NightProgress(
                at=now,
                tenant=self._store.tenant,
                run=self._run,
                ended=ended,
                under_way=self._flow.under_way,
                left=waiting,
                began_at=self._times.began_at,
                finish=finish,
                late=late,
                waits_for=waits_for,
                waits_until=rests.get(waits_for),
            )
        )
        if not waiting or not late:
            return 0
        if ended < ENOUGH_SEEN and now < self._times.deadline:
            return 0
        return await self._shed(now, per_unit=(now - self._times.began_at) / max(ended, 1))

    async def _shed(self, now: datetime, *, per_unit: timedelta) -> int:
        shed = before = 0
        after = -1
        while page := await self._store.nights.units(
            self._run, states=(UnitState.WAITING,), after=after, limit=PAGE
        ):
            after = page[-1].place
            for unit in to_shed(
                page,
                now=now + per_unit * self._flow.under_way,
                deadline=self._times.deadline,
                per_unit=per_unit,
                before=before,
            ):
                shed += await self._left_out(unit, now)
            before += len(page)
        if shed:
            self._observer(UnitsShed(at=now, tenant=self._store.tenant, run=self._run, units=shed))
        return shed

    async def _left_out(self, unit: Unit, now: datetime) -> bool:
        gone = replace(
            unit,
            state=UnitState.SHED,
            reasons=("left out: the night would have ended after its deadline",),
            ended_at=now,
        )
        # False when somebody has begun it meanwhile, and then it is done after all.
        return await self._store.nights.finish_unit(self._run, gone, None)


async def stragglers_of(store: Store, run: str, *, times: Times, now: datetime) -> Stragglers:
    """Return who of a run was still under way at its deadline, if that has passed by now."""
    found, after = Stragglers(times.deadline), -1
    while now > times.deadline and (page := await store.nights.units(run, after=after, limit=PAGE)):
        found.add(page)
        after = page[-1].place
    return found
