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


async def find_seq_before(ledger: LedgerStore, moment: datetime) -> int:
    """Return the last seq before a time, by binary search.

    Assumes that entries are in the order of time. After a person accepted a clock that went back
    they are not, and some earlier entries may be left out.
    """
    last = await ledger.list_latest(limit=1)
    low, high = 0, last[0].seq if last else 0
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
    found: list[LedgerEntry] = []
    while len(found) < limit and (page := await ledger.list_latest(before=before, limit=PAGE_SIZE)):
        found += [entry for entry in page if selection.matches(entry)]
        before = page[-1].seq
    return found[:limit]
