"""Read ledgers page by page, forwards and backwards, in constant memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from stoker.db.database import iter_pages
from stoker.ledger.chain import LedgerEntry
from stoker.ledger.query import LedgerFilter

if TYPE_CHECKING:
    from stoker.ledger.store import LedgerStore

PAGE_SIZE = 1000


def read_pages(ledger: LedgerStore, *, after: int = 0) -> AsyncIterator[Sequence[LedgerEntry]]:
    """Yield every page in order, up to the end as it is when it is reached."""
    return iter_pages(
        lambda after: ledger.list_entries(after=after, limit=PAGE_SIZE),
        lambda entry: entry.seq,
        after=after,
    )


async def find_last_entry(ledger: LedgerStore) -> LedgerEntry | None:
    """Return the newest entry, in a number of looks that grows with the ledger's logarithm."""
    low, step = 0, 1
    newest: LedgerEntry | None = None
    while found := await ledger.list_entries(after=low + step - 1, limit=1):
        newest, low, step = found[0], found[0].seq, step * 2
    while step > 1:
        step //= 2
        if found := await ledger.list_entries(after=low + step - 1, limit=1):
            newest, low = found[0], found[0].seq
    return newest


async def find_seq_before(ledger: LedgerStore, moment: datetime) -> int:
    """Return the last seq before a time, by binary search.

    Assumes that entries are in the order of time. After a person accepted a clock that went back
    they are not, and some earlier entries may be left out.
    """
    last = await find_last_entry(ledger)
    low, high = 0, last.seq if last else 0
    while low < high:
        middle = (low + high) // 2
        found = await ledger.list_entries(after=middle, limit=1)
        if found and found[0].at < moment:
            low = middle + 1
        else:
            high = middle
    return low


async def list_latest(
    ledger: LedgerStore, selection: LedgerFilter, *, before: int | None = None, limit: int
) -> list[LedgerEntry]:
    """Return the last so many entries that were asked for, newest first, seq below `before`."""
    last = await find_last_entry(ledger)
    end = last.seq + 1 if last else 1
    before = end if before is None else min(before, end)  # beyond the end there is nothing to page
    found: list[LedgerEntry] = []
    while before > 1 and len(found) < limit:
        start = max(before - 1 - PAGE_SIZE, 0)
        page = await ledger.list_entries(after=start, limit=before - 1 - start)
        # A ledger with an entry taken out reaches further than asked; that part was seen already.
        mine = [entry for entry in page if entry.seq < before]
        found += [entry for entry in reversed(mine) if selection.matches(entry)]
        before = start + 1
    return found[:limit]
