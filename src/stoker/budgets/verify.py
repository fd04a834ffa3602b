"""Verify a tenant's ledger, and the operators', against itself and against the store.

The chain must be intact, and totals, open reservations, stops and shared caps must match the
entries. A store in use is compared at a time when no entry is new. `verify_ledger` reads all of a
ledger; `verify_recent` reads what came after a saved checkpoint, and moves the checkpoint on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from stoker.base.clock import CLOCK_TOLERANCE
from stoker.base.errors import TransientError
from stoker.budgets.caps import CapChange
from stoker.budgets.charges import CapWindow, Totals
from stoker.budgets.ledger_entries import (
    OperatorSettings,
    Replay,
    find_differences,
    find_operator_mismatches,
)
from stoker.budgets.model import CapUsage
from stoker.budgets.reservations import OPEN_STATUSES, Reservation
from stoker.budgets.windows import find_window_start, is_old_window
from stoker.context import TenantStores
from stoker.db.database import iter_pages
from stoker.ledger.chain import (
    FIRST_CHECKPOINT,
    Checkpoint,
    LedgerEntry,
    VerifiedLedger,
    find_first_break,
)
from stoker.ledger.read import PAGE_SIZE, read_pages

if TYPE_CHECKING:
    from stoker.budgets.limits_store import OperatorStore
    from stoker.budgets.store import BudgetStore
    from stoker.ledger.store import LedgerStore

State = TypeVar("State")

MAX_READS = 50  # of a store that is being written to, before we say that it never stood still

RECENT = timedelta(days=16)  # every window that counts now began within this time

FULL_CHECK_INTERVAL = timedelta(days=30)

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReport:
    """What reading one ledger showed."""

    entries: int  # how many were read
    problems: tuple[str, ...]
    shared: Mapping[CapWindow, Totals]  # what this tenant took out of caps that tenants share
    head: Checkpoint | None = None  # None: there are no entries


async def verify_ledger(
    store: TenantStores, *, mark: Checkpoint | None = None, now: datetime | None = None
) -> LedgerReport:
    """Read a tenant's whole ledger and compare it with the store.

    With a checkpoint, the ledger must reach it and have the same digest there: a chain whose end
    was cut off is still intact. With `now`, totals that maintenance may have deleted by then may be
    missing. Raises TransientError when the store never stops changing.
    """
    return await _verify_tenant(store, Replay(), _LedgerReader(mark), now=now)


async def verify_recent(store: TenantStores, *, now: datetime) -> LedgerReport:
    """Verify what was added to a tenant's ledger lately; all of it from time to time.

    The chain is checked from the saved checkpoint on, and must still reach the saved head. Totals
    are compared for windows, and statuses for reservations, that began after the checkpoint: every
    window that counts now is among them. A sound ledger's checkpoint is then saved again.
    """
    saved = await store.ledger.find_checkpoint()
    replay, reader = Replay(), _LedgerReader(saved.head if saved else None, recent=now - RECENT)
    full_at, since = now, None
    if saved is not None and timedelta(0) <= now - saved.full_at < FULL_CHECK_INTERVAL:
        full_at = saved.full_at
        if saved.start.seq:
            since, replay.partial = saved.start_at, True
            reader.begin_at(saved)
    report = await _verify_tenant(store, replay, reader, now=now, since=since)
    if report.head is not None and not report.problems:
        verified = VerifiedLedger(
            head=report.head, start=reader.start, start_at=reader.start_at, full_at=full_at
        )
        await store.ledger.save_checkpoint(verified)
    return report


async def _verify_tenant(
    store: TenantStores,
    replay: Replay,
    reader: _LedgerReader,
    *,
    now: datetime | None,
    since: datetime | None = None,
) -> LedgerReport:
    async def read_state() -> tuple[dict[CapWindow, Totals], list[Reservation]]:
        return to_totals(await store.budgets.list_usage()), await list_open_reservations(
            store.budgets
        )

    cache, reservations = await reader.read_until_quiet(
        store.ledger, replay.read, read_state, whose=store.tenant
    )
    own = replay.own
    if since is not None:
        own, cache = _drop_older(own, since), _drop_older(cache, since)
        reservations = [
            each for each in reservations if each.key in replay.open or each.reserved_at > since
        ]
    problems = [*reader.list_problems(), *replay.faults, *find_differences(own, cache, now=now)]
    problems += _find_reservation_mismatches(replay, reservations)
    return LedgerReport(
        entries=reader.count, problems=tuple(problems), shared=replay.shared, head=reader.head
    )


async def verify_operator_ledger(
    shared: OperatorStore, *, mark: Checkpoint | None = None
) -> LedgerReport:
    """Read the operators' whole ledger and compare it with the store. As `verify_ledger`."""
    settings, reader = OperatorSettings(), _LedgerReader(mark)

    async def read_state() -> tuple[list[str], Mapping[str, CapChange]]:
        stops = [stop.connector for stop in await shared.list_stops(guarded=False)]
        return stops, await shared.list_cap_changes(guarded=False)

    stops, changes = await reader.read_until_quiet(
        shared.ledger, settings.read, read_state, whose="operators"
    )
    problems = [*reader.list_problems(), *settings.faults]
    problems += find_operator_mismatches(settings, stops=stops, changes=changes)
    return LedgerReport(entries=reader.count, problems=tuple(problems), shared={}, head=reader.head)


async def find_shared_mismatches(
    shared: OperatorStore,
    verdicts: Sequence[LedgerReport],
    *,
    before: Sequence[CapUsage] | None = None,
    now: datetime | None = None,
) -> list[str]:
    """Return where totals of shared caps differ from what tenants took.

    A total may be too low for what these tenants took. With `before`, the totals from before the
    ledgers were read, and the reports of all tenants, it may also be too high. With `now`, totals
    of old windows may be lower, as maintenance deletes them.
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
        if took > most and (now is None or not is_old_window(place[1], now=now)):
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


async def list_open_reservations(money: BudgetStore, *, connector: str = "") -> list[Reservation]:
    """Return the reservations whose outcome is not known yet, of a connector or (empty) of all."""
    pages = iter_pages(
        lambda after: money.list_reservations(
            phases=sorted(OPEN_STATUSES), after=after, limit=PAGE_SIZE
        ),
        lambda reservation: reservation.key,
        after="",
    )
    return [each async for page in pages for each in page if connector in ("", each.connector)]


class _LedgerReader:
    """Reads a ledger on, page by page, and checks its chain.

    `start` is the last entry before the first that is not older than `recent`.
    """

    def __init__(self, mark: Checkpoint | None, *, recent: datetime = _LONG_AGO) -> None:
        self._mark = mark
        self._recent: datetime | None = recent
        self._begin = self._last = self.start = FIRST_CHECKPOINT
        self.start_at = _LONG_AGO
        self._broken_at: int | None = None
        self._changed_at: list[int] = []
        self.count = 0

    def begin_at(self, saved: VerifiedLedger) -> None:
        """Read from this checkpoint on, as if all before it had been read."""
        self._begin = self._last = self.start = saved.start
        self.start_at = saved.start_at

    async def read_until_quiet(
        self,
        ledger: LedgerStore,
        use: Callable[[Sequence[LedgerEntry]], None],
        read_state: Callable[[], Awaitable[State]],
        *,
        whose: str,
    ) -> State:
        """Read the ledger to its end; return the state read while no entry was added.

        Every change of the state comes with an entry: without a new one, nothing has changed.
        """
        await self._check_begin(ledger)
        await self._read_new(ledger, use)
        for _ in range(MAX_READS):
            state = await read_state()
            if not await self._read_new(ledger, use):
                return state
        raise TransientError(
            f"the ledger of {whose} grows faster than it can be read; try when it is quieter"
        )

    @property
    def head(self) -> Checkpoint | None:
        """How far the ledger has come."""
        return self._last if self._last.seq else None

    def list_problems(self) -> list[str]:
        """Return what is wrong with the chain itself, one sentence each."""
        found = [f"entry {seq} was changed" for seq in self._changed_at]
        if self._broken_at is not None:
            # Entries after a break cannot be judged.
            found.append(
                f"the chain breaks at entry {self._broken_at}: it was changed or taken out, or "
                "the one before it"
            )
        end = self._last.seq
        if self._mark and end < self._mark.seq:
            found.append(
                f"it ends with entry {end}, but had come to {self._mark.seq}: the rest is gone"
            )
        return found

    async def _check_begin(self, ledger: LedgerStore) -> None:
        begin = self._begin
        if begin.seq:
            found = await ledger.list_entries(after=begin.seq - 1, limit=1)
            if not found or (found[0].seq, found[0].digest) != (begin.seq, begin.digest):
                self._changed_at.append(begin.seq)

    async def _read_new(
        self, ledger: LedgerStore, use: Callable[[Sequence[LedgerEntry]], None]
    ) -> int:
        before = self.count
        async for page in read_pages(ledger, after=self._last.seq):
            if self._broken_at is None:
                self._broken_at = find_first_break(page, after=self._last)
            for entry in page:
                if self._mark and entry.seq == self._mark.seq and entry.digest != self._mark.digest:
                    self._changed_at.append(entry.seq)
                if self._recent is not None and entry.at < self._recent:
                    self.start = Checkpoint(entry.seq, entry.digest)
                    self.start_at = max(self.start_at, entry.at)
                else:
                    self._recent = None
            use(page)
            self.count += len(page)
            self._last = Checkpoint(page[-1].seq, page[-1].digest)
        return self.count - before


def _drop_older(totals: Mapping[CapWindow, Totals], since: datetime) -> dict[CapWindow, Totals]:
    """Return the totals of windows that began after a time, by whichever clock."""
    return {
        place: used
        for place, used in totals.items()
        if (start := find_window_start(place[1])) and start > since + CLOCK_TOLERANCE
    }


def _find_reservation_mismatches(replay: Replay, reservations: Iterable[Reservation]) -> list[str]:
    truth = {key: reservation.status for key, reservation in replay.open.items()}
    stored = {reservation.key: reservation.status for reservation in reservations}
    return [
        f"the reservation {key}: its entries say {truth.get(key, 'that it is closed')}, the store "
        f"says {stored.get(key, 'that it is closed')}"
        for key in sorted(truth.keys() | stored.keys())
        if truth.get(key) != stored.get(key)
    ]
