"""One tenant's units of work and CRM rows, in dictionaries: the model the other stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from stoker.accounts.model import CompanyId, Dossier, SentRow
from stoker.accounts.row_checks import kept_dossier, kept_id, kept_owner, kept_run_name
from stoker.base.errors import ConflictError
from stoker.base.types import in_utc
from stoker.db.codec import kept_text
from stoker.db.values import kept_name
from stoker.enrichment.model import ENDS, Unit, UnitState
from stoker.memory.accounts import MemoryAccounts
from stoker.nightly.row_checks import kept_end, kept_sent, kept_unit, latest_sent


class MemoryNights:
    """A `NightStore` in this process; what units find out goes to the accounts."""

    def __init__(self, accounts: MemoryAccounts) -> None:
        self._accounts = accounts
        self._runs: dict[str, dict[CompanyId, Unit]] = {}
        self._sent: dict[tuple[str, str], SentRow] = {}  # by run and external id

    async def plan_units(self, run: str, units: Sequence[Unit]) -> int:
        known = self._runs.get(kept_run_name(run), {})
        planned = dict(known)
        for unit in [kept_unit(unit) for unit in units]:
            planned.setdefault(unit.company, unit)
        if len({unit.place for unit in planned.values()}) < len(planned):
            raise ConflictError("a place in the order is another unit's; nothing was written")
        self._runs[run] = planned
        return len(planned) - len(known)

    async def take_units(
        self, run: str, *, owner: str, until: datetime, now: datetime, limit: int
    ) -> list[Unit]:
        until, now, owner = in_utc(until), in_utc(now), kept_owner(owner)
        free = [unit for unit in self._in_order(run) if _is_free(unit, now=now)]
        return self._put(
            run,
            [
                replace(unit, state=UnitState.TAKEN, owner=owner, until=until)
                for unit in free[:limit]
            ],
        )

    async def keep_units(self, run: str, *, owner: str, until: datetime) -> int:
        until = in_utc(until)
        taken = self._taken(run, owner)
        longer = [replace(unit, until=max(unit.until or until, until)) for unit in taken]
        return len(self._put(run, longer))

    async def finish_unit(self, run: str, unit: Unit, dossier: Dossier | None) -> bool:
        ended, found = kept_end(unit, dossier), dossier and kept_dossier(dossier)
        known = self._runs.get(kept_run_name(run), {}).get(unit.company)
        if known is None or known.state in ENDS or known.owner != unit.owner:
            return False
        self._put(run, [replace(ended, place=known.place)])
        if found is not None:
            self._accounts.put_dossier(found)
        return True

    async def give_back_units(self, run: str, *, owner: str) -> int:
        free = [
            replace(unit, state=UnitState.WAITING, owner="", until=None)
            for unit in self._taken(run, owner)
        ]
        return len(self._put(run, free))

    async def units(
        self, run: str, *, states: Sequence[UnitState] = (), after: int = -1, limit: int = 1000
    ) -> list[Unit]:
        return [
            unit
            for unit in self._in_order(run)
            if unit.place > after and (not states or unit.state in states)
        ][:limit]

    async def count_units(self, run: str) -> dict[UnitState, int]:
        return dict(Counter(unit.state for unit in self._in_order(run)))

    async def last_look(self, company: CompanyId) -> tuple[str, Unit] | None:
        kept_id(company)
        having = [run for run, units in self._runs.items() if company in units]
        return (max(having), self._runs[max(having)][company]) if having else None

    async def sent_rows(self, external_ids: Sequence[str]) -> dict[str, SentRow]:
        asked = {kept_name(name, what="a record's external id") for name in external_ids}
        return latest_sent(row for row in self._sent.values() if row.external_id in asked)

    async def keep_sent(self, rows: Sequence[SentRow]) -> None:
        for row in kept_sent(rows):
            first = self._sent.get((row.run, row.external_id), row)
            self._sent[row.run, row.external_id] = replace(row, before=first.before)

    async def sent_by(self, run: str, *, after: str = "", limit: int = 1000) -> list[SentRow]:
        kept_text(after, what="a record's external id")
        kept_run_name(run)
        rows = sorted(
            (row for row in self._sent.values() if row.run == run), key=lambda row: row.external_id
        )
        return [row for row in rows if row.external_id > after][:limit]

    def _in_order(self, run: str) -> list[Unit]:
        units = self._runs.get(kept_run_name(run), {})
        return sorted(units.values(), key=lambda unit: unit.place)

    def _taken(self, run: str, owner: str) -> list[Unit]:
        kept_owner(owner)
        return [
            unit
            for unit in self._in_order(run)
            if unit.state is UnitState.TAKEN and unit.owner == owner
        ]

    def _put(self, run: str, units: list[Unit]) -> list[Unit]:
        if units:
            self._runs[run] |= {unit.company: unit for unit in units}
        return units


def _is_free(unit: Unit, *, now: datetime) -> bool:
    fell_silent = unit.until is None or unit.until <= now
    return unit.state is UnitState.WAITING or (unit.state is UnitState.TAKEN and fell_silent)
