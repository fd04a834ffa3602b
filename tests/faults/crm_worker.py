"""The program whose exports and undos are killed: everything imported, one fork for each."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from faults.forks import Order, serve
from kit.wrapped import Wrapped
from stoker.accounts.model import Bucket, Company, CompanyId, CompanyRecord, Contact, LeadScore
from stoker.backends.sqlite import SqliteBackend
from stoker.base.clock import SystemClock
from stoker.base.types import Depth, TenantId
from stoker.crm.export import CrmExport
from stoker.crm.odoo import Odoo
from stoker.crm.undo import undo_run
from stoker.enrichment.model import WorkItem, WorkState
from stoker.http.client import HttpClient
from stoker.runs.model import RunKey, parse_run_name
from stoker.runs.service import RunHandle

TENANT = TenantId("acme")
COMPANIES = 9
COMPANIES_A_PAGE = 3  # few, so that there are many moments to die in
FIRST, SECOND, THIRD, FOURTH = (f"202611{day}_180000" for day in (16, 17, 18, 19))


class Forgetful(Wrapped):
    """The naive twin: records are made without an id of ours, and found by what we remember."""

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
        from stoker.crm.model import RowResult

        calls, told = await self._inner._get_protocol(), {}
        for write in writes:
            values = {column: value for column, value in write.cells.items() if "/" not in column}
            (id_,) = await calls.call(write.row.model, "create", {"vals_list": [values]})
            told[write.row.external_id] = RowResult(external_id=write.row.external_id, id=id_)
        return told


class Desk:
    """One trial's store and its database in the make-believe Odoo."""

    def __init__(self, path: Path, address: str, database: str, protocol: str, way: str) -> None:
        self._backend = SqliteBackend(path)
        self.store = self._backend.tenant(TENANT)
        self._http = HttpClient(user_agent="Stoker test", sandbox=address)
        crm = Odoo(
            self._http,
            url="http://odoo.test",
            database=database,
            key=f"odoo-{database}-ours",
            login="stoker",
            protocol=protocol,
            deadline=timedelta(seconds=20),
        )
        self.crm = Forgetful(crm) if way == "forgetful" else crm

    async def __aenter__(self) -> Desk:
        await self._backend.migrate()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()
        await self._backend.close()

    async def know(self, run: str, version: str) -> None:
        """Let a night have found everything out, in other words each time."""
        known = [_dossier(nth, version) for nth in range(COMPANIES)]
        units = [
            WorkItem(company=each.company.id, rank=place, depth=Depth.DEEP)
            for place, each in enumerate(known)
        ]
        at = parse_run_name(run)
        await self.store.accounts.upsert_companies([each.company for each in known], now=at)
        await self.store.work_items.insert_items(run, units)
        for unit, each in zip(units, known, strict=True):
            done = WorkItem(
                company=unit.company,
                rank=unit.rank,
                depth=unit.depth,
                state=WorkState.DONE,
                ended_at=at,
            )
            await self.store.work_items.finish_item(run, done, each)

    async def export(self, run: str):
        opened = RunHandle(
            key=RunKey(parse_run_name(run), 1),
            kind="nightly",
            store=self.store,
            clock=SystemClock(),
            observer=lambda event: None,
        )
        exports = CrmExport(lambda _: self.crm, least=0.5, page=COMPANIES_A_PAGE)
        return await exports.begin(opened).flush()

    async def undo(self, run: str):
        now = SystemClock().now()
        return await undo_run(run, crm=self.crm, store=self.store.crm, now=now)


def _dossier(nth: int, version: str) -> CompanyRecord:
    contact = Contact(
        name=f"Mei {nth}",
        email=f"mei@acme{nth}.test",
        phone=version,
        source="s",
        confidence=0.9,
    )
    return CompanyRecord(
        company=Company(
            id=CompanyId(f"2009{nth:05}A"), name=f"Acme {nth}", website=f"https://{version}.test"
        ),
        contacts=(contact,),
        score=LeadScore(
            value=0.9, bucket=Bucket.HIGH, features={}, feature_hash=version, rationale=version
        ),
        looked_at=parse_run_name(FIRST),
        run=FIRST,
    )


async def work(order: Order) -> None:
    """Export or undo one run."""
    async with Desk(Path(order["path"]), *order["desk"]) as desk:
        await (desk.undo(order["run"]) if order["undo"] else desk.export(order["run"]))


if __name__ == "__main__":
    serve(work)
