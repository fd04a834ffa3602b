"""Verify a tenant's ledger, and the operators', against itself and against the store.

The chain must be intact, and totals, open reservations, stops and shared caps must match the
entries. Reads only; a store in use is compared at a time when no entry is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.base.errors import TransientError
from stoker.budgets.charges import CapWindow, Totals
from stoker.budgets.model import CapUsage
from stoker.budgets.replay import (
    OperatorSettings,
    Replay,
    find_differences,
    find_operator_mismatches,
)
from stoker.budgets.reservations import OPEN_STATUSES, ReservationStatus
from stoker.context import TenantStores
from stoker.ledger.chain import LedgerEntry, find_first_break
from stoker.ledger.read import PAGE_SIZE, read_pages

if TYPE_CHECKING:
    from stoker.budgets.shared_store import OperatorStore
    from stoker.budgets.store import BudgetStore
    from stoker.ledger.store import LedgerStore

MAX_READS = 50  # looks at a store that is being written to, before we say that it never stood still


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A ledger's last entry at some time, saved outside the store."""

    seq: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReport:
    """What reading one ledger from its beginning showed."""

    entries: int
    problems: tuple[str, ...]
    shared: Mapping[CapWindow, Totals]  # what this tenant took out of caps that tenants share
    head: Checkpoint | None = None  # None: there are no entries


async def verify_ledger(store: TenantStores, *, mark: Checkpoint | None = None) -> LedgerReport:
    """Read a tenant's whole ledger and compare it with the store.

    With a checkpoint, the ledger must reach it and have the same digest there: a chain whose end
    was cut off is still intact. Raises TransientError when the store never stops changing.
    """
    reader = _TenantReader(mark)
    await reader.read_on(store)
    for _ in range(MAX_READS):
        cache = to_totals(await store.money.list_usage())
        phases = await _list_open_statuses(store.money)
        # Whatever changes a total writes an entry with it: no new entry, nothing has changed.
        if not await reader.read_on(store):
            problems = [*reader.problems, *reader.missing(), *reader.replay.faults]
            problems += find_differences(reader.replay.own, cache)
            problems += _find_reservation_mismatches(reader.replay, phases)
            return LedgerReport(
                entries=reader.count,
                problems=tuple(problems),
                shared=reader.replay.shared,
                head=reader.head,
            )
    raise TransientError(
        f"the ledger of {store.tenant} grows faster than it can be read; try when it is quieter"
    )


async def find_shared_mismatches(
    shared: OperatorStore,
    verdicts: Sequence[LedgerReport],
    *,
    before: Sequence[CapUsage] | None = None,
) -> list[str]:
    """Return where totals of shared caps differ from what tenants took.

    A total may be too low for what these tenants took. With `before`, the totals from before the
    ledgers were read, and the reports of all tenants, it may also be too high.
    """
    taken: dict[CapWindow, int] = {}
    for verdict in verdicts:
        for place, used in verdict.shared.items():
            taken[place] = taken.get(place, 0) + used.settled
    # Only what is settled is compared: it never becomes less. So ledgers have at least what totals
    # had before they were read, and at most what totals have after, also if others spend. What
    # is reserved comes and goes.
    first, last = to_totals(before or ()), to_totals(await shared.list_usage())
    found = []
    for place in sorted(taken.keys() | first.keys()):
        took = taken.get(place, 0)
        least, most = first.get(place, Totals()).settled, last.get(place, Totals()).settled
        if took > most:
            found.append(f"{place[0]} in {place[1]}: tenants took {took}, its total says {most}")
        elif took < least:
            found.append(
                f"{place[0]} in {place[1]}: tenants took {took}, its total says {least}; unless a "
                "tenant is missing from the settings, the total is wrong"
            )
    return found


def to_totals(usages: Iterable[CapUsage]) -> dict[CapWindow, Totals]:
    """Return totals by cap and window."""
    return {(usage.cap, usage.window): usage.used for usage in usages}


class _TenantReader:
    def __init__(self, mark: Checkpoint | None) -> None:
        self._mark = mark
        self.replay = Replay()
        self.problems: list[str] = []
        self.count = 0
        self._last: LedgerEntry | None = None
        self._broken = False

    async def read_on(self, store: TenantStores) -> int:
        """Read what is new since the last time; return how many entries that was."""
        before = self.count
        async for page in read_pages(store.ledger, after=self._last.seq if self._last else 0):
            self._look_at_chain(page)
            self._look_at_mark(page)
            self.replay.read(page)
            self.count += len(page)
            self._last = page[-1]
        return self.count - before

    @property
    def head(self) -> Checkpoint | None:
        """How far the ledger has come."""
        return Checkpoint(self._last.seq, self._last.digest) if self._last else None

    def missing(self) -> list[str]:
        """Return a sentence when the ledger does not reach as far as it once did."""
        end = self._last.seq if self._last else 0
        if self._mark is None or end >= self._mark.seq:
            return []
        return [f"it ends with entry {end}, but had come to {self._mark.seq}: the rest is gone"]

    def _look_at_mark(self, page: list[LedgerEntry]) -> None:
        self.problems += [
            f"entry {entry.seq} is not what it was: its digest is {entry.digest}"
            for entry in page
            if self._mark and entry.seq == self._mark.seq and entry.digest != self._mark.digest
        ]

    def _look_at_chain(self, page: list[LedgerEntry]) -> None:
        # One break is the finding; whatever follows it cannot be judged any more.
        at = None if self._broken else find_first_break(page, after=self._last)
        if at is not None:
            self._broken = True
            self.problems.append(
                f"the chain breaks at entry {at}: it was changed or taken out, or the one before it"
            )


async def _list_open_statuses(money: BudgetStore) -> dict[str, ReservationStatus]:
    found: dict[str, ReservationStatus] = {}
    after = ""
    while page := await money.list_reservations(
        phases=sorted(OPEN_STATUSES), after=after, limit=PAGE_SIZE
    ):
        found |= {reservation.key: reservation.status for reservation in page}
        after = page[-1].key
    return found


def _find_reservation_mismatches(
    replay: Replay, phases: Mapping[str, ReservationStatus]
) -> list[str]:
    truth = {key: reservation.status for key, reservation in replay.open.items()}
    return [
        f"the reservation {key}: its entries say {truth.get(key, 'that it is closed')}, the store "
        f"says {phases.get(key, 'that it is closed')}"
        for key in sorted(truth.keys() | phases.keys())
        if truth.get(key) != phases.get(key)
    ]


async def verify_operator_ledger(
    shared: OperatorStore, *, mark: Checkpoint | None = None
) -> LedgerReport:
    """Read the operators' whole ledger and compare it with the store.

    With a checkpoint, the ledger must reach it and have the same digest there. Raises
    TransientError when the store never stops changing.
    """
    reader = _LedgerReader(mark)
    await reader.read_new(shared.ledger)
    for _ in range(MAX_READS):
        stops = [stop.connector for stop in await shared.list_stops()]
        changes = await shared.list_cap_changes()
        # Whatever changes one of them writes an entry with it: no new entry, nothing has changed.
        if not await reader.read_new(shared.ledger):
            problems = [*reader.list_problems(), *reader.operator_settings.faults]
            problems += find_operator_mismatches(
                reader.operator_settings, stops=stops, changes=changes
            )
            return LedgerReport(
                entries=reader.count, problems=tuple(problems), shared={}, head=reader.head
            )
    raise TransientError(
        "the ledger of operators grows faster than it can be read; try when it is quieter"
    )


class _LedgerReader:
    def __init__(self, mark: Checkpoint | None) -> None:
        self._checkpoint = mark
        self._last: LedgerEntry | None = None
        self._broken_at: int | None = None
        self._changed_at_checkpoint = False
        self.operator_settings = OperatorSettings()
        self.count = 0

    async def read_new(self, ledger: LedgerStore) -> int:
        """Read what is new since the last time; return how many entries that was."""
        before = self.count
        async for page in read_pages(ledger, after=self._last.seq if self._last else 0):
            if self._broken_at is None:
                self._broken_at = find_first_break(page, after=self._last)
            for entry in page:
                if self._checkpoint and entry.seq == self._checkpoint.seq:
                    self._changed_at_checkpoint = entry.digest != self._checkpoint.digest
            self.operator_settings.read(page)
            self.count += len(page)
            self._last = page[-1]
        return self.count - before

    @property
    def head(self) -> Checkpoint | None:
        """How far the ledger has come."""
        return Checkpoint(self._last.seq, self._last.digest) if self._last else None

    def list_problems(self) -> list[str]:
        """Return what is wrong with the chain itself, one sentence each."""
        end = self._last.seq if self._last else 0
        found = []
        if self._broken_at is not None:
            found.append(
                f"the chain breaks at entry {self._broken_at}: it was changed or taken out, or "
                "the one before it"
            )
        if self._checkpoint and self._changed_at_checkpoint:
            found.append(f"entry {self._checkpoint.seq} is not what it was")
        if self._checkpoint and end < self._checkpoint.seq:
            found.append(
                f"it ends with entry {end}, but had come to {self._checkpoint.seq}: the rest is "
                f"gone"
            )
        return found
