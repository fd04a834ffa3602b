"""Holds the ledger of operators' orders against itself and against what the store enforces.

The chain must be sound, and the stops and shared caps in force must be what was ordered. Reads
only; a store that is in use meanwhile is judged at a moment at which it stood still.
"""

from __future__ import annotations

from stoker.core.ledger import Entry, first_break
from stoker.core.orders import Orders, order_differences
from stoker.engine.ledger_reading import pages
from stoker.engine.verifying import ROUNDS, Mark, Verdict
from stoker.errors import TransientError
from stoker.ports import LedgerStore, SharedStore


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
