"""What a run comes to, read back page by page: while it goes on, and afterwards.

Its units, what the ledger says was spent under it, and what it wrote into the CRM.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from stoker.core.night_notes import Summary, Tally
from stoker.core.runs import Run, run_at
from stoker.core.spending import Spending, Spent
from stoker.core.timekeeping import CLOCK_TOLERANCE
from stoker.core.upserts import was_taken_back
from stoker.engine.ledger_reading import pages, seq_before
from stoker.ports import Store

PAGE = 500


async def added_up(store: Store, run: str) -> Summary:
    """Return what a run's units come to so far, and what the ledger says was spent under it.

    A kind of run that has no units comes to its cost alone. What a unit paid for before it was
    given back is in it too.
    """
    tally, after = Tally(), -1
    while page := await store.nights.units(run, after=after, limit=PAGE):
        tally.add(page)
        after = page[-1].place
    spent = await spent_under(store, run)
    return replace(tally.summary(), cost=spent.settled, unknown=spent.unknown)


async def spent_under(
    store: Store, run: str, *, ended: Run | None = None, account: str | None = None
) -> Spent:
    """Return what was spent under a run, for one account or for all, as it is known now.

    Reads only what was entered since the run began, and of one that ended, until then.
    """
    spending = Spending(run, account=account)
    until = ended.ended_at + CLOCK_TOLERANCE if ended and ended.ended_at else None
    # A run is named by its first free second, which may be later than its first entry.
    start = await seq_before(store.ledger, run_at(run) - CLOCK_TOLERANCE)
    async for page in pages(store.ledger, after=start):
        spending.add(page)
        if until is not None and page[-1].at > until:
            break
    for key in spending.open:
        if (hold := await store.money.hold(key)) is not None:
            spending.stands(hold)
    return spending.spent()


async def written_by(store: Store, run: str) -> dict[str, int]:
    """Return how many rows a run wrote into the CRM, as manifests count them; empty if none.

    A row that was meant and not read back afterwards may be there or not.
    """
    found: Counter[str] = Counter()
    after = ""
    while page := await store.nights.sent_by(run, after=after, limit=PAGE):
        after = page[-1].external_id
        found.update(
            "crm_written" if row.digest else "crm_unknown"
            for row in page
            if not was_taken_back(row)
        )
    return dict(found)
