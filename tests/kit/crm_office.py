"""A tenant's make-believe Odoo, a real store that remembers what went there, and a colleague."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

from running_box import RunningBox
from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    EmailStatus,
    LeadScore,
)
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import Depth, TenantId
from stoker.crm.export import CrmExporter, upsert_rows
from stoker.crm.model import LEAD, PARTNER
from stoker.crm.odoo import Odoo
from stoker.crm.rows import build_rows
from stoker.crm.undo import undo_run
from stoker.enrichment.model import WorkItem, WorkState
from stoker.http.client import HttpClient
from stoker.runs.model import RunKey, format_run_name, parse_run_name
from stoker.runs.service import RunHandle
from stoker.vendors.table import OdooSettings

START = datetime(2026, 11, 16, 18, tzinfo=UTC)
TENANT = TenantId("acme")
PROTOCOLS = ["json2", "xmlrpc"]


class Ticking:
    """A clock on which every look is a second later, and sleep takes no time but its own."""

    def __init__(self):
        self._ticks = count()
        self.slept = []

    def now(self):
        return START + self.elapsed()

    def elapsed(self):
        return timedelta(seconds=next(self._ticks)) + sum(self.slept, timedelta())

    async def sleep(self, duration):
        self.slept.append(duration)
        await asyncio.sleep(0)


class Office:
    """A tenant's CRM, what we remember of it, and a colleague who works in it."""

    def __init__(self, box, http, *, protocol="", store=None, **how):
        self.box, self._http, self._protocol = box, http, protocol
        self.store = store or MemoryBackend().tenant(TENANT)
        self.clock = Ticking()
        self.crm = self.odoo(**how)

    def odoo(self, *, database="acme", key="", deadline=timedelta(seconds=2), sleep=None):
        return Odoo(
            self._http,
            url="http://odoo.test",
            database=database,
            key=key or f"odoo-{database}-ours",
            login="stoker",
            protocol=self._protocol,
            deadline=deadline,
            sleep=sleep or (lambda _: asyncio.sleep(0)),
        )

    def delete_files(self):
        """Begin a new store, as when there is no backup."""
        self.store = MemoryBackend().tenant(TENANT)

    async def night(self, *dossiers, run="n1", least=0.5):
        rows = [row for each in dossiers for row in build_rows(each, tenant=TENANT, least=least)]
        return await upsert_rows(
            rows, crm=self.crm, store=self.store.crm, run=run, now=self.clock.now()
        )

    async def know(self, *dossiers, run=""):
        """Let a night have found this out."""
        now = parse_run_name(run) if run else self.clock.now()
        nights, run = self.store.work_items, run or format_run_name(now)
        planned = [
            WorkItem(company=each.company.id, rank=place, depth=Depth.DEEP)
            for place, each in enumerate(dossiers)
        ]
        await self.store.accounts.upsert_companies([each.company for each in dossiers], now=now)
        await nights.insert_items(run, planned)
        for unit, known in zip(planned, dossiers, strict=True):
            ended = replace(unit, state=WorkState.DONE, ended_at=now)
            assert await nights.finish_item(run, ended, replace(known, looked_at=now, run=run))

    def opened(self, run):
        return RunHandle(
            key=RunKey(parse_run_name(run), 1),
            kind="nightly",
            store=self.store,
            clock=self.clock,
            observer=lambda event: None,
        )

    async def export(
        self, run="20261116_180000", *, crm=None, opens=None, least=0.5, page=200, **settings
    ):
        opens, rule = opens or (lambda _: crm or self.crm), OdooSettings(**settings)
        exporter = CrmExporter(self.opened(run), opens=opens, least=least, size=page, rule=rule)
        return await exporter.flush()

    async def undo(self, run, *, dry=False):
        return await undo_run(
            run, crm=self.crm, store=self.store.crm, now=self.clock.now(), dry=dry
        )

    def person(self, model, method, **arguments):
        return ask_as_person(self.box, "acme", model, method, **arguments)

    def edit(self, name, model=PARTNER, **values):
        record = self.records(model, active_test=False)[name]
        assert self.person(model, "write", ids=[record["id"]], vals=values) is True

    def records(self, model=PARTNER, **context):
        found = self.person(model, "search_read", domain=[], context=context)
        names = [each["name"] for each in found]
        assert len(set(names)) == len(names), f"there twice: {names}"
        return {each["name"]: each for each in found}

    def truth(self):
        """Everything in the CRM but who touched it when."""
        volatile = {"write_date", "write_uid", "create_date", "create_uid"}
        return {
            (model, name): {key: each[key] for key in each.keys() - volatile}
            for model in (PARTNER, LEAD)
            for name, each in self.records(model, active_test=False).items()
        }

    def requests(self):
        return len(self.box.box.log)

    def writes(self):
        return self.box.meter.get_charged("odoo", unit="writes")


def ask_as_person(box, database, model, method, **arguments):
    """Call a method as a colleague who works in this database."""
    headers = {"Authorization": f"bearer odoo-{database}-human-mei", "X-Odoo-Database": database}
    path = f"/json/2/{model}/{method}"
    return box.ask("odoo.test", "POST", path, arguments, headers=headers).parse_json()


VOLATILE = {"id", "create_date", "create_uid", "write_date", "write_uid", "display_name"}


def list_records(box, database, model):
    """Return every record by its number, archived or not, but for numbers and moments."""
    records = {}
    context = {"active_test": False}
    for each in ask_as_person(box, database, model, "search_read", domain=[], context=context):
        shown = {key: each[key] for key in sorted(each.keys() - VOLATILE)}
        for link in ("parent_id", "partner_id"):
            shown[link] = shown[link][1] if shown.get(link) else False
        records[each["id"]] = shown
    return records


async def in_office(work, *, protocol=""):
    async def run(box):
        http = HttpClient(user_agent="Stoker test", sandbox=box.box.address)
        try:
            await work(Office(box, http, protocol=protocol))
        finally:
            await http.close()

    with RunningBox(companies=5) as box:
        await run(box)


def dossier(
    name="Acme",
    *,
    uen="200900001A",
    score=0.9,
    website="https://acme.test",
    phone="1",
    mail=None,
    person=None,
    version="Fits.",
):
    person = person or ("Mei" if uen == "200900001A" else f"Mei {uen}")
    mail = mail or f"mei@{uen.lower()}.test"
    return CompanyRecord(
        company=Company(id=CompanyId(uen), name=name, website=website),
        contacts=(
            Contact(
                name=person,
                email=mail,
                phone=phone,
                source="s",
                confidence=0.9,
                verdict=EmailStatus.VALID,
            ),
        ),
        score=LeadScore(
            value=score, bucket=Bucket.HIGH, features={}, feature_hash="f", rationale=version
        ),
    )
