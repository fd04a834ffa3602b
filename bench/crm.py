"""Partners a second that an export sends into the sandbox's Odoo, beside bare loads of as many.

An export reads what is known from SQLite, finds what the CRM has, sends companies, contacts and
leads, reads them back and stores what was written. The baseline sends ready rows with a name alone,
200 in a load, through the same client. The sandbox runs in this process and answers at once, and
calls are not limited: a real server adds its own time, and settings the limits of `odoo.calls`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.crm_office import TENANT, Office, dossier
from running_box import RunningBox
from stoker.backends.sqlite import SqliteBackend
from stoker.crm.export import RECORDS_PER_PAGE
from stoker.crm.model import PARTNER, CrmRow, RowWrite
from stoker.http.client import HttpClient

RUN, SECOND_RUN = "20261116_180000", "20261117_180000"
MIN_RATE = 200  # partners a second
DEADLINE = timedelta(seconds=60)


async def export_companies(box: RunningBox, http: HttpClient, count: int) -> tuple[float, float]:
    """Return how long a first export takes, and a second one that has nothing to write."""
    known = [
        dossier(f"Acme {nth}", uen=f"2010{nth:05}A", website=f"https://acme{nth}.test")
        for nth in range(count)
    ]
    took = []
    with tempfile.TemporaryDirectory() as directory:
        backend = SqliteBackend(Path(directory) / "stoker.db")
        await backend.migrate()
        office = Office(box, http, store=backend.tenant(TENANT), deadline=DEADLINE)
        await office.know(*known)
        for run, written in ((RUN, 3 * count), (SECOND_RUN, 0)):
            began = time.perf_counter()
            result = await office.export(run, page=RECORDS_PER_PAGE)
            took.append(time.perf_counter() - began)
            assert result.counts["crm_written"] == written, result
        await backend.close()
    return took[0], took[1]


async def load_bare(box: RunningBox, http: HttpClient, count: int) -> float:
    """Return how long it takes to load partners that have a name alone."""
    crm = Office(box, http).odoo(database="bare", deadline=DEADLINE)
    rows = [
        CrmRow(model=PARTNER, external_id=f"stoker.bare_{nth}", values={"name": f"Bare {nth}"})
        for nth in range(count)
    ]
    writes = [RowWrite(row=row, cells=row.values, digest="", before={}, intent={}) for row in rows]
    began = time.perf_counter()
    results = await crm.upsert(writes)
    took = time.perf_counter() - began
    assert all(each.id for each in results.values())
    return took


async def measure(count: int) -> tuple[float, float, float]:
    with RunningBox(companies=5) as box:
        http = HttpClient(user_agent="Stoker bench", sandbox=box.box.address)
        try:
            first, second = await export_companies(box, http, count)
            return first, second, await load_bare(box, http, 2 * count)
        finally:
            await http.close()


def main(companies: int = 500, rounds: int = 2) -> list[tuple[str, str, str, str]]:
    partners = 2 * companies
    taken = [asyncio.run(measure(companies)) for _ in range(rounds)]
    first, second, bare = (partners / min(each) for each in zip(*taken, strict=True))
    sent = f"{partners:,} partners and {companies:,} leads exported, partners a second"
    return [
        (
            f"{sent} (at least {MIN_RATE})",
            f"{first:,.0f} rows/s",
            f"{bare:,.0f} rows/s, bare",
            f"{first / bare:.2f}",
        ),
        (
            "the same again, nothing to write",
            f"{second:,.0f} rows/s",
            f"{first:,.0f} rows/s",
            f"{second / first:.2f}",
        ),
    ]


if __name__ == "__main__":
    for row in main():
        print(*row, sep=" | ")
