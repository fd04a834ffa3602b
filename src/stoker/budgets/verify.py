"""Holds a tenant's ledger against itself and against what the store says it has spent.

The chain must be sound, and totals and open promises must be what the entries add up to. Reads
only; a store that is in use meanwhile is judged at a moment at which it stood still.

Holds the ledger of operators' orders against itself and against what the store enforces.

The chain must be sound, and the stops and shared caps in force must be what was ordered. Reads
only; a store that is in use meanwhile is judged at a moment at which it stood still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.base.errors import TransientError
from stoker.budgets.charges import Place, Used
from stoker.budgets.model import MoneyStore, SharedStore, Usage
from stoker.budgets.replay import Orders, Replay, differences, order_differences
from stoker.budgets.reservations import OPEN, Phase
from stoker.context import Store
from stoker.ledger.chain import Entry, LedgerStore, first_break
from stoker.ledger.read import PAGE, pages

ROUNDS = 50  # looks at a store that is being written to, before we say that it never stood still


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a ledger had come, as somebody remembers who does not keep it."""

    seq: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What reading one ledger from its beginning showed."""

    entries: int
    problems: tuple[str, ...]
    shared: Mapping[Place, Used]  # what this tenant took out of caps that tenants share
    head: Mark | None = None  # None: there are no entries


async def verified(store: Store, *, mark: Mark | None = None) -> Verdict:
    """Read a tenant's whole ledger and compare.

    With a mark, the ledger must have come as far and still say the same there: entries taken off
    its end leave a chain that is sound. Raises TransientError when the store never stands still
    for long enough.
    """
    reader = _TenantReader(mark)
    await reader.read_on(store)
    for _ in range(ROUNDS):
        cache = places(await store.money.usage())
        phases = await _open_phases(store.money)
        # Whatever changes a total writes an entry with it: no new entry, nothing has changed.
        if not await reader.read_on(store):
            problems = [*reader.problems, *reader.missing(), *reader.replay.faults]
            problems += differences(reader.replay.own, cache)
            problems += _promises_differ(reader.replay, phases)
            return Verdict(
                entries=reader.count,
                problems=tuple(problems),
                shared=reader.replay.shared,
                head=reader.head,
            )
    raise TransientError(
        f"the ledger of {store.tenant} grows faster than it can be read; try when it is quieter"
    )


async def shared_differences(
    shared: SharedStore, verdicts: Sequence[Verdict], *, before: Sequence[Usage] | None = None
) -> list[str]:
    """Return where caps that tenants share say something else than tenants took out of them.

    A total may be too low for what these tenants took. With `before`, which is `shared.usage()`
    as it was before the ledgers were read, and with the verdicts of all tenants there are, it may
    also be too high.
    """
    taken: dict[Place, int] = {}
    for verdict in verdicts:
        for place, used in verdict.shared.items():
            taken[place] = taken.get(place, 0) + used.settled
    # Only what is settled is compared: it never becomes less. So ledgers have at least what totals
    # said before they were read, and at most what totals say after, whoever spends meanwhile. What
    # is reserved comes and goes.
    first, last = places(before or ()), places(await shared.usage())
    found = []
    for place in sorted(taken.keys() | first.keys()):
        took = taken.get(place, 0)
        least, most = first.get(place, Used()).settled, last.get(place, Used()).settled
        if took > most:
            found.append(f"{place[0]} in {place[1]}: tenants took {took}, its total says {most}")
        elif took < least:
            found.append(
                f"{place[0]} in {place[1]}: tenants took {took}, its total says {least}; unless a "
                "tenant is missing from the settings, the total is wrong"
            )
    return found


def places(usages: Iterable[Usage]) -> dict[Place, Used]:
    """Return totals by cap and window."""
    return {(usage.cap, usage.window): usage.used for usage in usages}


class _TenantReader:
    def __init__(self, mark: Mark | None) -> None:
        self._mark = mark
        self.replay = Replay()
        self.problems: list[str] = []
        self.count = 0
        self._last: Entry | None = None
        self._broken = False

    async def read_on(self, store: Store) -> int:
        """Read what is new since the last time; return how many entries that was."""
        before = self.count
        async for page in pages(store.ledger, after=self._last.seq if self._last else 0):
            self._look_at_chain(page)
            self._look_at_mark(page)
            self.replay.read(page)
            self.count += len(page)
            self._last = page[-1]
        return self.count - before

    @property
    def head(self) -> Mark | None:
        """How far the ledger has come."""
        return Mark(self._last.seq, self._last.digest) if self._last else None

    def missing(self) -> list[str]:
        """Return a sentence when the ledger does not reach as far as it once did."""
        end = self._last.seq if self._last else 0
        if self._mark is None or end >= self._mark.seq:
            return []
        return [f"it ends with entry {end}, but had come to {self._mark.seq}: the rest is gone"]

    def _look_at_mark(self, page: list[Entry]) -> None:
        self.problems += [
            f"entry {entry.seq} is not what it was: its digest is {entry.digest}"
            for entry in page
            if self._mark and entry.seq == self._mark.seq and entry.digest != self._mark.digest
        ]

    def _look_at_chain(self, page: list[Entry]) -> None:
        # One break is the finding; whatever follows it cannot be judged any more.
        at = None if self._broken else first_break(page, after=self._last)
        if at is not None:
            self._broken = True
            self.problems.append(
                f"the chain breaks at entry {at}: it was changed or taken out, or the one before it"
            )


async def _open_phases(money: MoneyStore) -> dict[str, Phase]:
    found: dict[str, Phase] = {}
    after = ""
    while page := await money.holds(phases=sorted(OPEN), after=after, limit=PAGE):
        found |= {hold.key: hold.phase for hold in page}
        after = page[-1].key
    return found


def _promises_differ(replay: Replay, phases: Mapping[str, Phase]) -> list[str]:
    truth = {key: promise.phase for key, promise in replay.open.items()}
    return [
        f"the promise {key}: its entries say {truth.get(key, 'that it is closed')}, the store says "
        f"{phases.get(key, 'that it is closed')}"
        for key in sorted(truth.keys() | phases.keys())
        if truth.get(key) != phases.get(key)
    ]


async def verified_orders(shared: SharedStore, *, mark: Mark | None = None) -> Verdict:
    """Read the whole ledger of what was done for everybody, and compare.

    With a mark, the ledger must have come as far and still say the same there. Raises
    TransientError when the store never stands still for long enough.
    """
    reader = _Reader(mark)
    await reader.read_on(shared.ledger)
    for _ in range(ROUNDS):
        stops = [stop.connector for stop in await shared.stops()]
        changes = await shared.cap_changes()
        # Whatever changes one of them writes an entry with it: no new entry, nothing has changed.
        if not await reader.read_on(shared.ledger):
            problems = [*reader.problems(), *reader.orders.faults]
            problems += order_differences(reader.orders, stops=stops, changes=changes)
            return Verdict(
                entries=reader.count, problems=tuple(problems), shared={}, head=reader.head
            )
    raise TransientError(
        "the ledger of operators grows faster than it can be read; try when it is quieter"
    )


class _Reader:
    def __init__(self, mark: Mark | None) -> None:
        self._mark = mark
        self._last: Entry | None = None
        self._broken_at: int | None = None
        self._changed_at_mark = False
        self.orders = Orders()
        self.count = 0

    async def read_on(self, ledger: LedgerStore) -> int:
        """Read what is new since the last time; return how many entries that was."""
        before = self.count
        async for page in pages(ledger, after=self._last.seq if self._last else 0):
            if self._broken_at is None:
                self._broken_at = first_break(page, after=self._last)
            for entry in page:
                if self._mark and entry.seq == self._mark.seq:
                    self._changed_at_mark = entry.digest != self._mark.digest
            self.orders.read(page)
            self.count += len(page)
            self._last = page[-1]
        return self.count - before

    @property
    def head(self) -> Mark | None:
        """How far the ledger has come."""
        return Mark(self._last.seq, self._last.digest) if self._last else None

    def problems(self) -> list[str]:
        """Return what is wrong with the chain itself, one sentence each."""
        end = self._last.seq if self._last else 0
        found = []
        if self._broken_at is not None:
            found.append(
                f"the chain breaks at entry {self._broken_at}: it was changed or taken out, or "
                "the one before it"
            )
        if self._mark and self._changed_at_mark:
            found.append(f"entry {self._mark.seq} is not what it was")
        if self._mark and end < self._mark.seq:
            found.append(
                f"it ends with entry {end}, but had come to {self._mark.seq}: the rest is gone"
            )
        return found
