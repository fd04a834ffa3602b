"""A run's writes taken back from the make-believe Odoo, with people at work in it."""

from dataclasses import replace

import pytest

from engine.crm_office import PROTOCOLS, TENANT, dossier, in_office
from stoker.core.crm import LEAD, PARTNER, rows_of
from stoker.core.upserts import UNDONE
from stoker.engine.crm_sending import send_rows


class DiedError(Exception):
    """The process is gone."""


class DiesAfterSending:
    """A CRM that got everything, and a process that never heard of it."""

    def __init__(self, crm):
        self.crm = crm

    def __getattr__(self, name):
        return getattr(self.crm, name)

    async def upsert(self, writes):
        await self.crm.upsert(writes)
        raise DiedError


class DiesAfterChanging(DiesAfterSending):
    """The same, for what is restored."""

    async def change(self, model, ids, values):
        await self.crm.change(model, ids, values)
        raise DiedError


protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


@protocols
def test_undoing_a_run_leaves_the_crm_as_it_was_before_it(protocol):
    async def work(office):
        await office.night(dossier(), run="n1")
        before = office.truth()
        await office.night(dossier("Acme Two", phone="2", website="https://two.test"), run="n2")
        assert office.truth() != before
        told = await office.undo("n2")

        assert office.truth() == before
        assert (told.rows, len(told.restored), told.archived, told.left) == (3, 3, [], {})

    in_office(work, protocol=protocol)


@protocols
def test_what_people_changed_since_stays_and_the_rest_is_restored(protocol):
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Acme Two", phone="2"), run="n2")
        office.edit("Mei", phone="theirs")
        told = await office.undo("n2")

        assert office.records()["Acme"]
        assert office.records()["Mei"]["phone"] == "theirs"
        assert [why for why in told.left.values() if "phone" in why]

    in_office(work, protocol=protocol)


@protocols
def test_undoing_the_run_that_made_records_archives_them_and_twice_is_once(protocol):
    async def work(office):
        await office.night(dossier(), run="n1")
        first = await office.undo("n1")
        writes, requests = office.writes(), office.requests()
        again = await office.undo("n1")

        assert (len(first.archived), first.left) == (3, {})
        assert (again.archived, again.restored, again.same) == ([], [], 3)
        assert (office.writes(), office.requests()) == (writes, requests)
        assert office.records() == office.records(LEAD) == {}
        assert len(office.records(active_test=False)) == 2

    in_office(work, protocol=protocol)


def test_what_went_into_another_crm_is_left_alone():
    async def work(office):
        await office.night(dossier())
        office.crm = office.odoo(database="bolt")
        await office.night(dossier(), run="n2")
        told = await office.undo("n1")

        assert (told.rows, told.archived, told.restored) == (3, [], [])
        assert {why for why in told.left.values() if "another CRM" in why}
        assert len(told.left) == 3
        assert len((await office.undo("n2")).archived) == 3
        assert set(office.records()) == {"Acme", "Mei"}

    in_office(work)


def test_a_record_a_person_works_on_is_not_archived():
    async def work(office):
        await office.night(dossier(), run="n1")
        office.edit("Acme", LEAD, expected_revenue=5000.0)  # no column of ours
        told = await office.undo("n1")

        assert office.records(LEAD)["Acme"]["expected_revenue"] == 5000.0
        assert [why for why in told.left.values() if "worked on it" in why]
        assert len(told.archived) == 2

    in_office(work)


def test_what_was_taken_back_is_not_sent_again_but_something_new_is():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Wrong"), run="n2")
        await office.undo("n2")
        same = await office.night(dossier("Wrong"), run="n3")
        assert (same.written, same.same) == ((), 3)
        assert set(office.records()) == {"Acme", "Mei"}

        await office.night(dossier("Right"), run="n4")
        assert set(office.records()) == {"Right", "Mei"}

    in_office(work)


def test_nothing_of_several_runs_that_were_taken_back_is_sent_again():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Acme Two", phone="2"), run="n2")
        await office.night(dossier("Acme Three", phone="3"), run="n3")
        for run in ("n3", "n2", "n1"):
            await office.undo(run)
        writes, before = office.writes(), office.truth()
        for nth, name in enumerate(["Acme Three", "Acme Two", "Acme"], start=4):
            told = await office.night(dossier(name, phone=f"{7 - nth}"), run=f"n{nth}")
            assert (told.written, told.same) == ((), 3)
        assert (office.writes(), office.truth()) == (writes, before)

        assert len((await office.night(dossier("New", phone="9"), run="n7")).written) == 3
        assert not (await office.night(dossier("Acme Two", phone="2"), run="n8")).written

    in_office(work)


def test_what_stands_again_after_a_run_was_taken_back_need_not_be_asked_about():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Wrong"), run="n2")
        await office.undo("n2")
        requests = office.requests()
        assert (await office.night(dossier(), run="n3")).same == 3
        assert office.requests() == requests

        assert not (await office.night(dossier("Wrong"), run="n4")).written

    in_office(work)


def test_what_was_taken_back_stays_known_when_a_later_night_finds_nothing_to_write():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Wrong"), run="n2")
        await office.undo("n2")
        # The same values under another digest: what is set once is no longer changed.
        rows = [
            replace(row, once={**row.once, "comment": "x"})
            for row in rows_of(dossier(), tenant=TENANT, least=0.5)
        ]
        idle = await send_rows(
            rows, crm=office.crm, store=office.store.nights, run="n3", now=office.clock.now()
        )
        assert (idle.written, idle.same) == ((), 3)

        assert not (await office.night(dossier("Wrong"), run="n4")).written

    in_office(work)


def test_runs_are_taken_back_latest_first():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Acme Two"), run="n2")
        refused = await office.undo("n1")
        latest = await office.undo("n2")
        first = await office.undo("n1")

        assert [why for why in refused.left.values() if "undo that one first" in why]
        assert set(refused.archived) & set(latest.restored) == set()
        assert (len(latest.restored), latest.left) == (2, {})  # the company and its lead
        assert len(first.archived) + len(refused.archived) == 3
        assert office.records() == {}

    in_office(work)


def test_dry_it_says_what_it_would_do_and_does_nothing():
    async def work(office):
        await office.night(dossier(), run="n1")
        before, writes = office.truth(), office.writes()
        dry = await office.undo("n1", dry=True)

        assert (office.truth(), office.writes()) == (before, writes)
        done = await office.undo("n1")
        assert (dry.archived, dry.left, dry.rows) == (done.archived, done.left, done.rows)

    in_office(work)


def test_a_record_that_is_gone_is_said_to_be_and_holds_nothing_up():
    async def work(office):
        await office.night(dossier(), run="n1")
        mei = office.records()["Mei"]
        office.person(PARTNER, "unlink", ids=[mei["id"]])
        told = await office.undo("n1")

        assert len(told.archived) == 2
        assert list(told.left.values()) == ["it is no longer in the CRM"]

    in_office(work)


def test_a_record_whose_making_was_never_answered_is_found_and_taken_back():
    async def work(office):
        office.crm = DiesAfterSending(office.crm)
        with pytest.raises(DiedError):
            await office.night(dossier(), run="n1")
        office.crm = office.crm.crm
        told = await office.undo("n1")

        assert (len(told.archived), told.left) == (3, {})
        assert office.records() == office.records(LEAD) == {}

    in_office(work)


def test_what_was_restored_and_not_remembered_is_not_taken_for_a_persons():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Wrong", phone="2"), run="n2")
        office.crm, whole = DiesAfterChanging(office.crm), office.crm
        for _ in range(3):  # each of three groups of records dies once
            with pytest.raises(DiedError):
                await office.undo("n2")
        office.crm = whole
        await office.undo("n2")
        assert set(office.records()) == {"Acme", "Mei"}
        await office.night(dossier("Right", phone="3"), run="n3")

        assert set(office.records()) == {"Right", "Mei"}
        assert office.records()["Mei"]["phone"] == "3"

    in_office(work)


@pytest.mark.parametrize("fault", ["close", "garbage", "error_charged"])
def test_stopped_half_way_and_started_again_it_ends_the_same(fault):
    async def work(office):
        await office.night(dossier(), run="n1")
        before = office.truth()
        await office.night(dossier("Acme Two", phone="2"), run="n2")
        office.box.dials.turn(f"odoo.fault.{fault}", 0.6)
        stopped = 0
        for _ in range(12):
            try:
                await office.undo("n2")
            except Exception:  # noqa: BLE001 - whatever it was, somebody starts it again
                stopped += 1
        office.box.dials.turn(f"odoo.fault.{fault}", 0)
        last = await office.undo("n2")

        assert stopped
        assert not last.left
        assert office.truth() == before
        kept = await office.store.nights.sent_by("n2")
        assert all(row.digest.startswith(UNDONE) for row in kept)
        await office.night(dossier("Acme Three", phone="3"), run="n3")
        assert set(office.records()) == {"Acme Three", "Mei"}
        assert office.records()["Mei"]["phone"] == "3"

    in_office(work)


def test_many_records_are_taken_back_in_few_requests():
    async def work(office):
        many = [dossier(f"Acme {nth}", uen=f"2009{nth:05}A") for nth in range(120)]
        await office.night(*many, run="n1")
        before = office.requests()
        told = await office.undo("n1")

        assert len(told.archived) == 360
        assert office.requests() - before < 40

    in_office(work)
