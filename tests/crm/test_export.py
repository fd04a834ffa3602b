"""What is known goes into the make-believe Odoo: once, all of it, and again only what changed."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from kit.crm_office import LEAD, PROTOCOLS, START, TENANT, dossier, in_office
from stoker.backends.sqlite import SqliteBackend
from stoker.base.clock import SystemClock
from stoker.base.errors import ConfigError, PermanentError, TransientError
from stoker.crm.export import RECORDS_PER_PAGE, CrmExporter, ExportQueue
from stoker.crm.model import PARTNER, RowResult
from stoker.tenants.model import CrmConnection
from stoker.testing import FakeClock

FIRST, SECOND, THIRD = "20261116_180000", "20261117_180000", "20261118_180000"
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def some(many, **known):
    return [dossier(f"Acme {nth}", uen=f"2010{nth:05}A", **known) for nth in range(many)]


@protocols
async def test_everything_known_is_there_once_and_the_second_time_nothing_is_written(protocol):
    async def work(office):
        await office.know(*some(30))
        first = await office.export(FIRST)
        truth, writes, requests = office.truth(), office.writes(), office.requests()
        again = await office.export(SECOND)
        assert office.requests() == requests

        assert (first.companies, first.counts["crm_written"], first.later) == (30, 90, 0)
        assert (again.counts["crm_written"], again.counts["crm_same"]) == (0, 90)
        assert (office.truth(), office.writes()) == (truth, writes)
        assert (first.reasons, again.reasons) == ((), ())

    await in_office(work, protocol=protocol)


@protocols
async def test_a_persons_edit_survives_and_nothing_never_replaces_something(protocol):
    async def work(office):
        await office.know(dossier())
        await office.export(FIRST)
        office.edit("Acme", website="https://theirs.test")
        office.edit("Mei", function="Head of things")
        await office.know(dossier("Acme Two", website="https://new.test"))
        await office.export(SECOND)

        there = office.records()
        assert there["Acme Two"]["website"] == "https://theirs.test"
        assert there["Mei"]["function"] == "Head of things"

    await in_office(work, protocol=protocol)


@pytest.mark.parametrize("fault", ["unavailable", "close", "hang", "garbage"])
async def test_while_the_crm_is_down_everything_is_kept_and_sent_the_next_time(fault):
    async def work(office):
        await office.know(*some(5))
        office.crm = office.odoo(deadline=timedelta(milliseconds=200 if fault == "hang" else 2000))
        office.box.faults.set_value(f"odoo.fault.{fault}", 1.0)
        down = await office.export(FIRST)
        office.box.faults.set_value(f"odoo.fault.{fault}", 0)
        office.crm = office.odoo()
        assert (down.later, down.counts["crm_written"]) == (15, 0)
        assert any("queued for the next run" in why for why in down.reasons)
        assert office.records() == {}

        up = await office.export(SECOND)
        assert (up.later, up.counts["crm_written"], up.reasons) == (0, 15, ())
        assert (len(office.records()), len(office.records(LEAD))) == (10, 5)

    await in_office(work)


async def test_a_crm_that_fails_now_and_then_loses_and_doubles_nothing():
    async def work(office):
        await office.know(*some(12))
        for fault in ("busy", "unavailable", "error_charged", "close", "truncated"):
            office.box.faults.set_value(f"odoo.fault.{fault}", 0.08)
        nights = [await office.export(f"202611{day:02}_180000") for day in range(1, 15)]
        for fault in ("busy", "unavailable", "error_charged", "close", "truncated"):
            office.box.faults.set_value(f"odoo.fault.{fault}", 0)
        last = await office.export("20261116_180000")

        assert (last.later, last.reasons) == (0, ())
        assert (len(office.records()), len(office.records(LEAD))) == (24, 12)
        assert any(status >= 500 for status in office.box.meter.by_status)
        # Answers that were lost were for rows that had been written: those are found, not resent.
        assert sum(night.counts["crm_written"] for night in (*nights, last)) <= 36

    await in_office(work)


async def test_a_key_that_is_refused_is_told_once_and_nobody_is_asked_again():
    async def work(office):
        await office.know(*some(3))
        told = await office.export(FIRST, crm=office.odoo(key="odoo-acme-wrong"))

        assert told.later == 9
        assert len(told.reasons) == 1
        assert "key" in told.reasons[0]
        assert "odoo-acme-wrong" not in told.reasons[0]
        assert office.requests() <= 3

    await in_office(work)


class Wary:
    """A CRM as it is, except that it will not have anything to do with one company."""

    def __init__(self, crm, bad):
        self._crm, self._bad = crm, bad

    def __getattr__(self, name):
        return getattr(self._crm, name)

    async def find_records(self, rows, *, known):
        if any(self._bad in row.external_id for row in rows):
            raise PermanentError("odoo cannot do this call (500)")
        return await self._crm.find_records(rows, known=known)


async def test_a_company_that_spoils_its_page_is_set_aside_with_its_reason():
    async def work(office):
        await office.know(*some(9))
        told = await office.export(FIRST, crm=Wary(office.crm, "company_201000004A"))

        assert (told.counts["crm_refused"], told.counts["crm_written"], told.later) == (3, 24, 0)
        assert "3 rows were set aside" in told.reasons[0]
        assert "cannot do this call" in told.reasons[0]
        assert "Acme 4" not in office.records()

    await in_office(work)


@protocols
async def test_a_row_the_crm_refuses_is_set_aside_and_the_others_are_written(protocol):
    async def work(office):
        await office.know(*some(6))
        await office.export(FIRST)
        await office.know(*some(6, phone="2"))
        told = await office.export(SECOND, crm=Refusing(office.crm, "Mei 201000003A"))

        assert (told.counts["crm_refused"], told.later) == (1, 0)
        assert "1 row was set aside" in told.reasons[0]
        there = office.records()
        assert there["Mei 201000003A"]["phone"] == "1"
        assert {there[f"Mei 2010{nth:05}A"]["phone"] for nth in (0, 1, 2, 4, 5)} == {"2"}

    await in_office(work, protocol=protocol)


class Refusing:
    """A CRM with a rule of its own about one record: the row names a choice it does not have."""

    def __init__(self, crm, name):
        self._crm, self._name = crm, name

    def __getattr__(self, name):
        return getattr(self._crm, name)

    async def upsert(self, writes):
        return await self._crm.upsert(
            [
                replace(write, cells={**write.cells, "type": "nonsense"})
                if write.row.values["name"] == self._name
                else write
                for write in writes
            ]
        )


async def test_without_a_crm_nothing_waits_for_one():
    async def work(office):
        def off(_):
            raise ConfigError("odoo is off for acme: keys.odoo is not set")

        await office.know(dossier())
        told = await office.export(FIRST, opens=off)
        assert (told.later, told.reasons) == (
            0,
            ("nothing was written to the CRM: odoo is off for acme: keys.odoo is not set",),
        )

        await office.store.setup.save_connection(
            CrmConnection(kind="odoo", url="http://odoo.test", database="acme")
        )
        assert (await office.export(FIRST, opens=off)).later == 3

    await in_office(work)


async def test_a_connection_that_is_switched_off_keeps_everything_here():
    async def work(office):
        await office.know(dossier())
        await office.store.setup.save_connection(
            CrmConnection(kind="odoo", url="http://odoo.test", database="acme", active=False)
        )
        told = await office.export(FIRST)

        assert (told.later, office.requests()) == (3, 0)
        assert "switched off" in told.reasons[0]

    await in_office(work)


async def test_what_the_crm_asks_to_wait_for_long_is_for_another_night():
    class Busy:
        def __init__(self):
            self.asked = 0

        database_id = "busy"

        async def call(self, *_, **__):
            self.asked += 1
            raise TransientError("later", retry_after=timedelta(minutes=30))

    async def work(office):
        await office.know(dossier())
        busy = Busy()
        told = await office.export(FIRST, crm=busy)
        assert (told.later, busy.asked, office.clock.slept) == (3, 1, [])

    await in_office(work)


async def test_once_the_crm_is_down_the_rest_is_counted_and_not_asked_for():
    async def work(office):
        await office.know(*some(8))
        office.box.faults.set_value("odoo.fault.unavailable", 1.0)
        told = await office.export(FIRST, page=2)

        assert (told.companies, told.later) == (8, 24)
        assert len(told.reasons) == 1
        waited = sum(office.clock.slept, timedelta())
        assert timedelta(minutes=8) < waited < timedelta(minutes=10)
        assert office.requests() == len(office.clock.slept) + 1

    await in_office(work)


async def test_after_a_move_to_another_crm_everything_waits_for_the_new_one_while_it_is_down():
    async def work(office):
        await office.know(*some(4))
        await office.export(FIRST)
        moved = office.odoo(database="globex")
        office.box.faults.set_value("odoo.fault.unavailable", 1.0)
        told = await office.export(SECOND, crm=moved, page=2)

        assert (told.counts["crm_later"], told.counts["crm_same"]) == (12, 0)
        assert (await office.export(THIRD)).counts["crm_same"] == 12  # as it was where it is

    await in_office(work)


class HalfThere:
    """A CRM that takes the first half of what it is sent the first time, and then all of it."""

    def __init__(self, crm):
        self._crm, self.asked = crm, 0

    def __getattr__(self, name):
        return getattr(self._crm, name)

    async def upsert(self, writes):
        self.asked += 1
        half = list(writes)[: len(writes) // 2] if self.asked == 1 else list(writes)
        told = await self._crm.upsert(half)
        for write in list(writes)[len(half) :]:
            id_ = write.row.external_id
            told[id_] = RowResult(external_id=id_, reason="busy", is_retryable=True)
        return told


async def test_every_row_is_counted_once_however_often_it_was_tried():
    async def work(office):
        await office.know(*some(4))
        told = await office.export(FIRST, crm=HalfThere(office.crm))

        assert told.counts == {
            "crm_written": 12,
            "crm_same": 0,
            "crm_left_to_people": 0,
            "crm_refused": 0,
            "crm_later": 0,
        }
        assert len(office.records()) == 8

    await in_office(work)


async def test_more_than_a_page_goes_in_and_only_what_changed_goes_again(tmp_path):
    async def work(office):
        backend = SqliteBackend(tmp_path / "stoker.db")
        await backend.migrate()
        try:
            office.store = backend.tenant(TENANT)
            many = RECORDS_PER_PAGE + 7
            await office.know(*some(many))
            first = await office.export(FIRST)
            await office.know(dossier("Acme 3", uen="201000003A", phone="33"))
            again = await office.export(SECOND)

            assert (first.companies, first.counts["crm_written"]) == (many, 3 * many)
            assert again.counts["crm_written"] == 1  # the contact; its lead takes it from there
            assert len(office.records()) == 2 * many
        finally:
            await backend.close()

    await in_office(work)


async def test_what_people_keep_to_themselves_is_counted_and_no_trouble():
    async def work(office):
        await office.know(dossier())
        await office.export(FIRST)
        office.person(PARTNER, "unlink", ids=[office.records()["Mei"]["id"]])
        await office.know(dossier(phone="2"))
        told = await office.export(SECOND)

        assert (told.counts["crm_left_to_people"], told.later, told.reasons) == (1, 0, ())
        assert "Mei" not in office.records(active_test=False)

    await in_office(work)


async def test_a_night_says_when_it_wrote():
    async def work(office):
        await office.know(dossier())
        await office.export(THIRD)
        rows = await office.store.crm.list_sent_rows(THIRD)
        assert len(rows) == 3
        assert all(row.at >= START for row in rows)

    await in_office(work)


async def sent_on(office, *batches, between=lambda: None):
    """Export some companies at a time, then the rest; return how all of it went."""
    exporting = CrmExporter(office.opened(FIRST), opens=lambda _: office.crm, least=0.5, size=2)
    for batch in batches:
        await exporting.send([each.company.id for each in batch])
        between()
    return await exporting.flush()


@pytest.mark.parametrize("batches", [(), (3,), (1, 2, 1), (5,)])
async def test_what_was_sent_meanwhile_is_not_sent_again_and_counted_once(batches):
    async def work(office):
        known = some(5)
        await office.know(*known)
        left = iter(known)
        parts = [[next(left) for _ in range(many)] for many in batches]
        told = await sent_on(office, *parts, *parts[:1])  # the first of them twice
        truth, requests = office.truth(), office.requests()
        again = await office.export(SECOND)
        assert office.requests() == requests

        assert (told.companies, told.later, told.reasons) == (5, 0, ())
        assert (told.counts["crm_written"], told.counts["crm_same"]) == (15, 0)
        assert (again.counts["crm_written"], again.counts["crm_same"]) == (0, 15)
        assert office.truth() == truth

    await in_office(work)


async def test_a_crm_that_was_down_meanwhile_gets_everything_at_the_end():
    async def work(office):
        known = some(4)
        await office.know(*known)
        office.box.faults.set_value("odoo.fault.unavailable", 1.0)
        told = await sent_on(
            office,
            known[:2],
            known[2:],
            between=lambda: office.box.faults.set_value("odoo.fault.unavailable", 0),
        )

        assert (told.companies, told.later, told.reasons) == (4, 0, ())
        assert (told.counts["crm_written"], told.counts["crm_same"]) == (12, 0)
        assert len(office.records()) == 8

    await in_office(work)


class Told:
    """An export that only remembers what it was asked to send."""

    def __init__(self):
        self.read_batches, self.sent = [], asyncio.Event()

    async def send(self, companies):
        self.read_batches.append(list(companies))
        self.sent.set()


async def test_companies_that_ended_go_together_and_the_last_few_are_left_to_the_end():
    told = Told()
    async with ExportQueue(
        told, clock=SystemClock(), is_owner=lambda: True, batch_size=2
    ) as outbox:
        for name in "abc":
            outbox.add(name)
        await told.sent.wait()
        outbox.add("d")
    assert told.read_batches == [["a", "b", "c"]]


async def test_after_a_while_few_go_too_and_nothing_goes_that_is_no_longer_ours():
    async def work(ours):
        told = Told()
        how = {"clock": FakeClock(), "batch_size": 100, "interval": timedelta(seconds=10)}
        async with ExportQueue(told, is_owner=lambda: ours, **how) as outbox:
            outbox.add("a")
            await asyncio.sleep(0)
            for _ in range(20):
                how["clock"].advance(timedelta(seconds=1))
                await asyncio.sleep(0)
        return told.read_batches

    assert await work(True) == [["a"]]
    assert await work(False) == []


class Lengthy:
    """An export that takes a while to send anything."""

    def __init__(self):
        self.began, self.came_to = asyncio.Event(), "nothing"

    async def send(self, companies):
        self.began.set()
        try:
            for _ in range(100):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.came_to = "cut off"
            raise
        self.came_to = "sent"


@pytest.mark.parametrize(
    ("goes_wrong", "came_to"), [(None, "sent"), (TransientError("the store is gone"), "cut off")]
)
async def test_what_is_on_its_way_is_waited_for_unless_something_went_wrong(goes_wrong, came_to):
    lengthy, raised = Lengthy(), None
    try:
        async with ExportQueue(
            lengthy, clock=SystemClock(), is_owner=lambda: True, batch_size=1
        ) as outbox:
            outbox.add("a")
            await lengthy.began.wait()
            if goes_wrong is not None:
                raise goes_wrong
    except TransientError as error:
        raised = error
    assert (raised, lengthy.came_to) == (goes_wrong, came_to)
