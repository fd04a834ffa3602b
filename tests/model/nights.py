"""One tenant's units of work and CRM rows, in dictionaries: the model the other stores are held to.

Each verb is plain code without a wait in it, so on one event loop it is atomic as it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from model.accounts import MemoryAccounts, validate_company_id, validate_company_record
from stoker.accounts.model import CompanyId, CompanyRecord, SentRow
from stoker.base.errors import ConflictError
from stoker.base.types import to_utc
from stoker.crm.schema import SENT_ROWS
from stoker.db.codec import validate_text
from stoker.db.values import validate_key
from stoker.enrichment.model import END_STATES, WorkItem, WorkState
from stoker.enrichment.schema import ITEMS
from stoker.enrichment.store import check_item_end, choose_latest_sent


class MemoryNights:
    """A `NightStore` in this process; what units find out goes to the accounts."""

    def __init__(self, accounts: MemoryAccounts) -> None:
        self._accounts = accounts
        self._runs: dict[str, dict[CompanyId, WorkItem]] = {}
        self._sent: dict[tuple[str, str], SentRow] = {}  # by run and external id

    async def insert_items(self, run: str, units: Sequence[WorkItem]) -> int:
        known = self._runs.get(validate_key(run, what="a run's name"), {})
        planned = dict(known)
        for unit in [ITEMS.store(unit) for unit in units]:
            planned.setdefault(unit.company, unit)
        if len({unit.rank for unit in planned.values()}) < len(planned):
            raise ConflictError("a place in the order is another unit's; nothing was written")
        self._runs[run] = planned
        return len(planned) - len(known)

    async def claim_items(
        self, run: str, *, owner: str, until: datetime, now: datetime, limit: int
    ) -> list[WorkItem]:
        until, now, owner = to_utc(until), to_utc(now), validate_key(owner, what="an owner")
        free = [unit for unit in self._in_order(run) if _is_free(unit, now=now)]
        return self._put(
            run,
            [
                replace(unit, state=WorkState.CLAIMED, owner=owner, claimed_until=until)
                for unit in free[:limit]
            ],
        )

    async def extend_claims(self, run: str, *, owner: str, until: datetime) -> int:
        until = to_utc(until)
        taken = self._taken(run, owner)
        longer = [
            replace(unit, claimed_until=max(unit.claimed_until or until, until)) for unit in taken
        ]
        return len(self._put(run, longer))

    async def finish_item(self, run: str, unit: WorkItem, dossier: CompanyRecord | None) -> bool:
        check_item_end(unit, dossier)
        ended = replace(ITEMS.store(unit), claimed_until=None)
        known = self._runs.get(validate_key(run, what="a run's name"), {}).get(unit.company)
        if known is None or known.state in END_STATES or known.owner != unit.owner:
            return False
        found = dossier and validate_company_record(dossier)
        self._put(run, [replace(ended, rank=known.rank)])
        if found is not None:
            self._accounts.put_dossier(found)
        return True

    async def release_items(self, run: str, *, owner: str) -> int:
        free = [
            replace(unit, state=WorkState.WAITING, owner="", claimed_until=None)
            for unit in self._taken(run, owner)
        ]
        return len(self._put(run, free))

    async def list_items(
        self, run: str, *, states: Sequence[WorkState] = (), after: int = -1, limit: int = 1000
    ) -> list[WorkItem]:
        return [
            unit
            for unit in self._in_order(run)
            if unit.rank > after and (not states or unit.state in states)
        ][:limit]

    async def count_items(self, run: str) -> dict[WorkState, int]:
        return dict(Counter(unit.state for unit in self._in_order(run)))

    async def list_item_runs(self) -> list[str]:
        return sorted(run for run, units in self._runs.items() if units)

    async def delete_items(self, run: str, *, limit: int = 10_000) -> int:
        going = list(self._runs.get(validate_key(run, what="a run's name"), {}))[:limit]
        for company in going:
            del self._runs[run][company]
        return len(going)

    async def find_last_items(
        self, companies: Sequence[CompanyId]
    ) -> dict[CompanyId, tuple[str, WorkItem]]:
        found = {}
        for company in map(validate_company_id, companies):
            having = [run for run, units in self._runs.items() if company in units]
            if having:
                found[company] = (max(having), self._runs[max(having)][company])
        return found

    async def find_sent_rows(self, external_ids: Sequence[str]) -> dict[str, SentRow]:
        asked = {validate_key(name, what="a record's external id") for name in external_ids}
        return choose_latest_sent(row for row in self._sent.values() if row.external_id in asked)

    async def save_sent_rows(self, rows: Sequence[SentRow]) -> None:
        for row in [SENT_ROWS.store(row) for row in rows]:
            first = self._sent.get((row.run, row.external_id), row)
            self._sent[row.run, row.external_id] = replace(row, before=first.before)

    async def list_sent_rows(
        self, run: str, *, after: str = "", limit: int = 1000
    ) -> list[SentRow]:
        validate_text(after, what="a record's external id")
        validate_key(run, what="a run's name")
        rows = sorted(
            (row for row in self._sent.values() if row.run == run), key=lambda row: row.external_id
        )
        return [row for row in rows if row.external_id > after][:limit]

    def _in_order(self, run: str) -> list[WorkItem]:
        units = self._runs.get(validate_key(run, what="a run's name"), {})
        return sorted(units.values(), key=lambda unit: unit.rank)

    def _taken(self, run: str, owner: str) -> list[WorkItem]:
        validate_key(owner, what="an owner")
        return [
            unit
            for unit in self._in_order(run)
            if unit.state is WorkState.CLAIMED and unit.owner == owner
        ]

    def _put(self, run: str, units: list[WorkItem]) -> list[WorkItem]:
        if units:
            self._runs[run] |= {unit.company: unit for unit in units}
        return units


def _is_free(unit: WorkItem, *, now: datetime) -> bool:
    fell_silent = unit.claimed_until is None or unit.claimed_until <= now
    return unit.state is WorkState.WAITING or (unit.state is WorkState.CLAIMED and fell_silent)
