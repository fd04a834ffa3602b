"""What the units of a run add up to, read back page by page: while it goes on, and afterwards."""

from __future__ import annotations

from stoker.core.night_notes import Summary, Tally
from stoker.ports import Store

PAGE = 500


async def added_up(store: Store, run: str) -> Summary:
    """Return what a run's units come to so far; nothing for a kind of run that has none."""
    tally, after = Tally(), -1
    while page := await store.nights.units(run, after=after, limit=PAGE):
        tally.add(page)
        after = page[-1].place
    return tally.summary()
