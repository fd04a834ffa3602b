"""The program whose exports and undos are killed: everything imported, one fork for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from faults.forks import Order, serve
from kit.crm_office import TENANT, Office, dossier
from kit.wrapped import Wrapped
from stoker.accounts.model import CompanyRecord
from stoker.backends.sqlite import SqliteBackend
from stoker.crm.model import PARTNER, RowResult
from stoker.http.client import HttpClient

COMPANIES = 9
PAGE = 3  # companies exported together: few, so that there are many moments to die in
FIRST, SECOND, THIRD, FOURTH = (f"202611{day}_180000" for day in (16, 17, 18, 19))


class Forgetful(Wrapped):
    """The naive twin: records are made without an id of ours, and found by what we remember.

    Nothing is recognised by its values: that alone would find most of them again.
    """

    async def search_values(self, model, domain, *, fields, after):
        if model == PARTNER:
            return {}
        return await self._inner.search_values(model, domain, fields=fields, after=after)

    async def find_records(self, rows, *, known):
        there = {}
        for row in rows:
            if row.external_id in known:
                term = [["id", "=", known[row.external_id]]]
                for record in await self._inner.search(row.model, term, fields=list(row.values)):
                    there[row.external_id] = type(record)(
                        id=record.id, external_id=row.external_id, values=record.values
                    )
        return there

    async def upsert(self, writes):
        calls, told = await self._inner._get_protocol(), {}
        for write in writes:
            values = {
                column: value
                for column, value in write.cells.items()
                if not column.endswith(("/id", "_id", "_ids"))  # links are of no matter here
            }
            (id_,) = await calls.call(write.row.model, "create", {"vals_list": [values]})
            told[write.row.external_id] = RowResult(external_id=write.row.external_id, id=id_)
        return told


@asynccontextmanager
async def desk(
    path: Path, address: str, database: str, protocol: str, way: str
) -> AsyncIterator[Office]:
    """Open one trial's store and its database in the make-believe Odoo."""
    backend = SqliteBackend(path)
    http = HttpClient(user_agent="Stoker test", sandbox=address)
    patience = timedelta(seconds=20)
    store = backend.tenant(TENANT)
    office = Office(
        None, http, protocol=protocol, store=store, database=database, deadline=patience
    )
    if way == "forgetful":
        office.crm = Forgetful(office.crm)
    await backend.migrate()
    try:
        yield office
    finally:
        await http.close()
        await backend.close()


def build_records(version: str) -> list[CompanyRecord]:
    """Return what a night found out about all companies, in other words each time."""
    return [
        dossier(
            f"Acme {nth}",
            uen=f"2009{nth:05}A",
            website=f"https://{version}.test",
            phone=version,
            person=f"Mei {nth}",
            version=version,
        )
        for nth in range(COMPANIES)
    ]


async def work(order: Order) -> None:
    """Export or undo one run."""
    async with desk(Path(order["path"]), *order["desk"]) as office:
        run = order["run"]
        await (office.undo(run) if order["undo"] else office.export(run, page=PAGE))


if __name__ == "__main__":
    serve(work)
