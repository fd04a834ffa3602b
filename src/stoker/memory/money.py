"""Money in dictionaries: the model the other money stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands. What
may be spent is decided in the core; this file only remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from stoker.base.errors import ConflictError
from stoker.base.types import TenantId, in_utc
from stoker.budgets import reservations as phases_of
from stoker.budgets.caps import Cap, CapChange
from stoker.budgets.charges import Refused, Request, Used, first_refusal
from stoker.budgets.gate import (
    Standing,
    asked_again,
    considered,
    kept_change,
    kept_name,
    kept_owner,
    kept_request,
    kept_stop,
)
from stoker.budgets.ledger_entries import (
    cap_note,
    phase_note,
    refused_note,
    reserved_note,
    resume_note,
    stop_note,
)
from stoker.budgets.model import Stop, Usage
from stoker.budgets.reservations import Hold, Move, Phase, notes, total_changes
from stoker.budgets.windows import ResetRule
from stoker.db.codec import kept_text
from stoker.ledger.chain import Entry, Note
from stoker.memory.shared import Kept, MemoryShared


class _Book(Protocol):
    def add(self, notes: Sequence[Note]) -> list[Entry]: ...

    @property
    def latest_at(self) -> datetime | None: ...


class MemoryMoney:
    """A `MoneyStore` in this process."""

    def __init__(self, tenant: TenantId, book: _Book, shared: MemoryShared) -> None:
        self._tenant = tenant
        self._book = book
        self._shared = shared.kept
        self._kept = Kept()
        self._holds: dict[str, Hold] = {}

    async def reserve(
        self,
        request: Request,
        *,
        caps: Sequence[Cap],
        reset: ResetRule,
        owner: str,
        until: datetime,
        now: datetime,
    ) -> Hold | Refused:
        request, owner = kept_request(request), kept_owner(owner)
        until, now = in_utc(until), in_utc(now)
        if request.key in self._holds:
            return asked_again(self._holds[request.key], request)
        standing = self._standing()
        moment = standing.moment(now)
        wanted = considered(request, caps, standing, reset=reset, now=now)
        if not isinstance(wanted, Refused):
            refused = first_refusal(wanted, self._shared.totals | self._kept.totals)
            if refused is None:
                end = standing.lease_end(until, now=now)
                hold = phases_of.held(request, wanted, owner=owner, until=end, now=moment)
                note = reserved_note(hold, now=moment)
                self._make([Move(before=None, after=hold, note=note)])
                return hold
            wanted = refused
        self._book.add([refused_note(request, wanted, now=moment)])
        return wanted

    async def sent(self, key: str, *, now: datetime) -> Hold:
        return self._moved(key, now, lambda hold, _: phases_of.sent(hold))

    async def settle(self, key: str, actual: Mapping[str, int], *, now: datetime) -> Hold:
        return self._moved(
            key, now, lambda hold, moment: phases_of.settled(hold, actual, now=moment)
        )

    async def release(self, key: str, *, reason: str, now: datetime) -> Hold:
        kept_text(reason, what="a reason")
        return self._moved(
            key, now, lambda hold, moment: phases_of.released(hold, now=moment, reason=reason)
        )

    async def keep_aside(self, key: str, *, reason: str, now: datetime) -> Hold:
        kept_text(reason, what="a reason")
        return self._moved(key, now, lambda hold, _: phases_of.uncertain(hold, reason=reason))

    async def renew(self, owner: str, *, until: datetime, now: datetime) -> int:
        owner, end = kept_owner(owner), self._standing().lease_end(until, now=now)
        mine = [
            hold
            for hold in self._holds.values()
            if hold.owner == owner and hold.phase in (Phase.HELD, Phase.SENT)
        ]
        for hold in mine:
            self._holds[hold.key] = replace(hold, until=max(hold.until, end))
        return len(mine)

    async def expire(self, *, now: datetime) -> list[Hold]:
        moment = self._standing().moment(now)
        moves = []
        for key in sorted(self._holds):
            before = self._holds[key]
            after = phases_of.lapsed(before, now=moment)
            if after != before:
                note = phase_note(before, after, now=moment)
                moves.append(Move(before=before, after=after, note=note))
        self._make(moves)
        return [move.after for move in moves]

    async def hold(self, key: str) -> Hold | None:
        return self._holds.get(kept_name(key, what="a key"))

    async def holds(
        self, *, phases: Sequence[Phase], after: str = "", limit: int = 1000
    ) -> list[Hold]:
        kept_name(after, what="a key")
        found = [self._holds[key] for key in sorted(self._holds) if key > after]
        return [hold for hold in found if hold.phase in phases][:limit]

    async def usage(self) -> list[Usage]:
        return self._kept.usage()

    async def change_cap(self, change: CapChange, *, now: datetime) -> None:
        change = kept_change(change, shared=False)
        self._book.add([cap_note(change, now=self._standing().moment(now))])
        self._kept.change(change)

    async def cap_changes(self) -> dict[str, CapChange]:
        return dict(self._kept.changes)

    async def stop(self, connector: str, *, reason: str, now: datetime) -> None:
        connector, moment = kept_stop(connector, reason=reason), self._standing().moment(now)
        if connector in self._kept.stops:
            return
        self._book.add([stop_note(connector, reason=reason, now=moment)])
        self._kept.stops[connector] = Stop(
            tenant=self._tenant, connector=connector, since=moment, reason=reason
        )

    async def resume(self, connector: str, *, now: datetime) -> bool:
        connector, moment = kept_stop(connector), self._standing().moment(now)
        if self._kept.stops.pop(connector, None) is None:
            return False
        self._book.add([resume_note(connector, now=moment)])
        return True

    async def stops(self) -> list[Stop]:
        both = (self._shared.stops, self._kept.stops)
        return [stops[connector] for stops in both for connector in sorted(stops)]

    def _standing(self) -> Standing:
        stops = {**self._kept.stops, **self._shared.stops}
        return Standing(
            latest=self._book.latest_at,
            changes={**self._kept.changes, **self._shared.changes},
            stops={connector: stop.reason for connector, stop in stops.items()},
            opened=self._kept.totals,
        )

    def _moved(self, key: str, now: datetime, rule: Callable[[Hold, datetime], Hold]) -> Hold:
        moment = self._standing().moment(now)
        before = self._holds.get(kept_name(key, what="a key"))
        if before is None:
            raise ConflictError(f"nothing was promised under {key}; reserve first")
        after = rule(before, moment)
        if after != before:
            note = phase_note(before, after, now=moment)
            self._make([Move(before=before, after=after, note=note)])
        return after

    def _make(self, moves: Sequence[Move]) -> None:
        self._book.add(notes(moves))
        for change in total_changes(moves):
            totals = self._shared.totals if change.shared else self._kept.totals
            there = totals.get((change.cap, change.window), Used())
            totals[change.cap, change.window] = Used(
                settled=there.settled + change.settled, reserved=there.reserved + change.reserved
            )
        for move in moves:
            self._holds[move.after.key] = move.after
