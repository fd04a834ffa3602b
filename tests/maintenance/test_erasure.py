"""What an erasure reports when something is in its way. What it erases is in `journeys`."""

from dataclasses import replace
from datetime import timedelta

import apsw
import pytest

from contracts.accounts import company
from contracts.backends import BACKENDS
from stoker import app as wiring
from stoker.accounts.erasure import ERASED
from stoker.accounts.model import CompanyRecord, Contact
from stoker.accounts.store import save_company_record
from stoker.backends.sqlite import SqliteBackend
from stoker.base.errors import TransientError
from stoker.base.types import TenantId
from stoker.db.erasure import TableResult
from stoker.discovery.sources import SourceRecord, SourceState
from stoker.maintenance.erasure import ErasureReport, ErasureRequest, erase_person
from stoker.testing import EventRecorder, FakeClock
from stoker.touches.model import Profile
from stoker.touches.profiles import normalize_profile_url
from stoker.touches.setup import build_touch_service

ACME = TenantId("acme")

REQUEST = ErasureRequest(email="jane.doe@t1.test")


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "stoker.toml").write_text("[tenants.acme]\n")
    return wiring.read_settings(directory=tmp_path, config=None, flags={}, environment={})


@pytest.fixture
def exported(tmp_path):
    """A folder whose only trace of the person is a name, which the store alone knows."""
    folder = tmp_path / "exports"
    folder.mkdir()
    (folder / "minutes.txt").write_text("Jane Doe called.\n")
    return folder


async def save_jane(backend):
    jane = Contact(name="Jane Doe", email=REQUEST.email, source="site", confidence=0.9)
    record = CompanyRecord(company=company(), contacts=(jane,))
    await backend.tenant(ACME).accounts.upsert_companies([company()], now=FakeClock().now())
    await backend.for_tenant(ACME).write(lambda tx: save_company_record(tx, record))


async def test_while_another_process_reads_the_store_what_is_left_is_reported(settings, exported):
    async with wiring.open_app(settings, clock=FakeClock(), observer=EventRecorder()) as app:
        await save_jane(app.backend)
        backend = SqliteBackend(settings.storage.sqlite_path, busy=timedelta(0))
        reader = apsw.Connection(str(settings.storage.sqlite_path))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM contacts").fetchall()
        tenant = replace(app, backend=backend).for_tenant(ACME)
        done = await erase_person(tenant, REQUEST, folders=[exported])
        reader.close()
        assert done.contacts == 1
        assert [path.name for path in done.files] == ["minutes.txt"]
        assert any("read by another process" in each for each in done.problems)
        again = await erase_person(tenant, REQUEST, folders=[exported])
        assert again.problems == []
        await backend.close()


class FailsAfter:
    """A backend whose writes fail once the contact is gone."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def for_tenant(self, tenant):
        return FailingDatabase(self._real.for_tenant(tenant))


class FailingDatabase:
    def __init__(self, real):
        self._real = real

    async def write(self, work):
        if not await self._real.read(lambda tx: tx.query("SELECT tenant_id FROM contacts")):
            raise TransientError("the disk is full")
        return await self._real.write(work)


async def test_an_erasure_that_stops_after_the_contact_has_reported_the_files(settings, exported):
    async with wiring.open_app(settings, clock=FakeClock(), observer=EventRecorder()) as app:
        await save_jane(app.backend)
        tenant = replace(app, backend=FailsAfter(app.backend)).for_tenant(ACME)
        report = ErasureReport()
        with pytest.raises(TransientError):
            await erase_person(tenant, REQUEST, folders=[exported], report=report)
        assert [path.name for path in report.files] == ["minutes.txt"]


@pytest.mark.parametrize("kind", BACKENDS)
async def test_a_row_that_may_not_be_deleted_is_reported_and_holds_nothing_up(
    settings, tmp_path, kind
):
    clock = FakeClock()
    async with (
        wiring.open_app(settings, clock=clock, observer=EventRecorder()) as app,
        BACKENDS[kind](tmp_path) as backend,
    ):
        await save_jane(backend)
        mail, reason = REQUEST.email, f"{REQUEST.email} did not answer"
        source = SourceRecord(
            name=f"file:for {mail}", state=SourceState.FAILED, tried_at=clock.now(), reason=reason
        )
        await backend.tenant(ACME).listings.save_source(source)
        tenant = replace(app, backend=backend).for_tenant(ACME)
        dry = await erase_person(tenant, REQUEST, dry=True)
        assert dry.tables["posting_sources"] == TableResult(left=1)
        done = await erase_person(tenant, REQUEST)
        assert (done.contacts, done.tables["posting_sources"]) == (1, TableResult(left=1))
        assert ["posting_sources: 1 rows" in each for each in done.problems] == [True]
        [left] = await tenant.store.listings.list_sources()
        assert left == replace(source, reason="erased@erased.invalid did not answer")


@pytest.mark.parametrize("kind", BACKENDS)
async def test_what_the_last_step_of_the_schema_grants_counts(settings, tmp_path, kind):
    async with (
        wiring.open_app(settings, clock=FakeClock(), observer=EventRecorder()) as app,
        BACKENDS[kind](tmp_path) as backend,
    ):
        profile = Profile(url="https://in.test/jane", name="Jane Doe")
        await backend.tenant(ACME).touches.save_profiles([profile])
        tenant = replace(app, backend=backend).for_tenant(ACME)
        done = await erase_person(tenant, ErasureRequest(profiles=(profile.url,)))
        assert (done.tables["touch_profiles"], done.problems) == (TableResult(deleted=1), [])


@pytest.mark.parametrize("kind", BACKENDS)
async def test_the_person_a_leads_touches_name_is_erased_and_the_lead_stays(
    settings, tmp_path, kind
):
    async with (
        wiring.open_app(settings, clock=FakeClock(), observer=EventRecorder()) as app,
        BACKENDS[kind](tmp_path) as backend,
    ):
        await save_jane(backend)
        touches = backend.tenant(ACME).touches
        lead = Profile(url=normalize_profile_url(company().website), name="One", person="Jane Doe")
        other = Profile(url="https://else.test/", name="Else", person="Jane Doe")
        await touches.save_profiles([lead, other])
        tenant = replace(app, backend=backend).for_tenant(ACME)
        service = build_touch_service(tenant, report=print)
        plan = await service.generate_weekly_plan()
        assert {t.person for slot in plan.days for t in slot.touches} == {"Jane Doe"}
        done = await erase_person(tenant, REQUEST)
        assert done.problems == []
        assert done.same_name_profiles == [other.url]
        left = {each.url: each.person for each in await touches.list_profiles()}
        assert left == {lead.url: ERASED, other.url: "Jane Doe"}
        kept = await touches.find_plan(plan.week)
        assert {t.url for slot in kept.plan.days for t in slot.touches} == {other.url}
