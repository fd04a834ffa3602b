"""A run's writes taken back from the make-believe Odoo, with people at work in it."""

from dataclasses import replace

import pytest

from kit.crm_office import PROTOCOLS, TENANT, Ticking, dossier, in_office
from stoker.crm.export import upsert_rows
from stoker.crm.model import LEAD, PARTNER
from stoker.crm.rows import build_rows
from stoker.crm.upsert import UNDONE_PREFIX


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
async def test_undoing_a_run_leaves_the_crm_as_it_was_before_it(protocol):
    async def work(office):
        await office.night(dossier(), run="n1")
        before = office.truth()
        await office.night(dossier("Acme Two", phone="2", website="https://two.test"), run="n2")
        assert office.truth() != before
        told = await office.undo("n2")

        assert office.truth() == before
        assert (told.rows, len(told.restored), told.archived, told.left) == (3, 3, [], {})

    await in_office(work, protocol=protocol)


@protocols
async def test_what_people_changed_since_stays_and_the_rest_is_restored(protocol):
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Acme Two", phone="2"), run="n2")
        office.edit("Mei", phone="theirs")
        told = await office.undo("n2")

        assert office.records()["Acme"]
        assert office.records()["Mei"]["phone"] == "theirs"
        assert [why for why in told.left.values() if "phone" in why]

    await in_office(work, protocol=protocol)


@protocols
async def test_undoing_the_run_that_made_records_archives_them_and_twice_is_once(protocol):
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

    await in_office(work, protocol=protocol)


async def test_an_undo_cut_off_under_a_clock_that_went_back_is_finished_by_the_next():
    async def work(office):
        office.clock.now()  # so that a clock begun again is behind it
        await office.night(dossier(), run="n1")
        before = office.truth()
        await office.night(dossier("Acme Two", phone="2"), run="n2")
        crm, office.crm, office.clock = office.crm, DiesAfterChanging(office.crm), Ticking()
        with pytest.raises(DiedError):
            await office.undo("n2")
        office.crm = crm
        told = await office.undo("n2")

        assert told.left == {}
        assert office.truth() == before

    await in_office(work)


async def test_what_went_into_another_crm_is_left_alone():
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

    await in_office(work)


async def test_a_record_a_person_works_on_is_not_archived():
    async def work(office):
        await office.night(dossier(), run="n1")
        office.edit("Acme", LEAD, expected_revenue=5000.0)  # no column of ours
        told = await office.undo("n1")

        assert office.records(LEAD)["Acme"]["expected_revenue"] == 5000.0
        assert sorted(told.left.values()) == [
            "a contact there stays, so it stays too",
            "a lead there stays, so it stays too",
            "a person has worked on it since",
        ]
        assert not told.archived

    await in_office(work)


async def test_what_was_taken_back_is_not_sent_again_but_something_new_is():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Wrong"), run="n2")
        await office.undo("n2")
        same = await office.night(dossier("Wrong"), run="n3")
        assert (same.written, same.same) == ((), 3)
        assert set(office.records()) == {"Acme", "Mei"}

        await office.night(dossier("Right"), run="n4")
        assert set(office.records()) == {"Right", "Mei"}

    await in_office(work)


async def test_nothing_of_several_runs_that_were_taken_back_is_sent_again():
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

    await in_office(work)


async def test_what_stands_again_after_a_run_was_taken_back_need_not_be_asked_about():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Wrong"), run="n2")
        await office.undo("n2")
        requests = office.requests()
        assert (await office.night(dossier(), run="n3")).same == 3
        assert office.requests() == requests

        assert not (await office.night(dossier("Wrong"), run="n4")).written

    await in_office(work)


async def test_what_was_taken_back_stays_known_when_a_later_night_finds_nothing_to_write():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.night(dossier("Wrong"), run="n2")
        await office.undo("n2")
        # The same values under another digest: what is set once is no longer changed.
        rows = [
            replace(row, on_create={**row.on_create, "comment": "x"})
            for row in build_rows(dossier(), tenant=TENANT, least=0.5)
        ]
        idle = await upsert_rows(
            rows, crm=office.crm, store=office.store.crm, run="n3", now=office.clock.now()
        )
        assert (idle.written, idle.same) == ((), 3)

        assert not (await office.night(dossier("Wrong"), run="n4")).written

    await in_office(work)


async def test_runs_are_taken_back_latest_first():
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

    await in_office(work)


async def test_dry_it_says_what_it_would_do_and_does_nothing():
    async def work(office):
        await office.night(dossier(), run="n1")
        before, writes = office.truth(), office.writes()
        dry = await office.undo("n1", dry=True)

        assert (office.truth(), office.writes()) == (before, writes)
        done = await office.undo("n1")
        assert (dry.archived, dry.left, dry.rows) == (done.archived, done.left, done.rows)

    await in_office(work)


async def test_a_record_that_is_gone_is_said_to_be_and_holds_nothing_up():
    async def work(office):
        await office.night(dossier(), run="n1")
        mei = office.records()["Mei"]
        office.person(PARTNER, "unlink", ids=[mei["id"]])
        told = await office.undo("n1")

        assert len(told.archived) == 2
        assert list(told.left.values()) == ["it is no longer in the CRM"]

    await in_office(work)


async def test_a_record_whose_making_was_never_answered_is_found_and_taken_back():
    async def work(office):
        office.crm = DiesAfterSending(office.crm)
        with pytest.raises(DiedError):
            await office.night(dossier(), run="n1")
        office.crm = office.crm.crm
        told = await office.undo("n1")

        assert (len(told.archived), told.left) == (3, {})
        assert office.records() == office.records(LEAD) == {}

    await in_office(work)


async def test_what_was_restored_and_not_remembered_is_not_taken_for_a_persons():
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

    await in_office(work)


@pytest.mark.parametrize("fault", ["close", "garbage", "error_charged"])
async def test_stopped_half_way_and_started_again_it_ends_the_same(fault):
    async def work(office):
        await office.night(dossier(), run="n1")
        before = office.truth()
        await office.night(dossier("Acme Two", phone="2"), run="n2")
        office.box.faults.set_value(f"odoo.fault.{fault}", 0.6)
        stopped = 0
        for _ in range(12):
            try:
                await office.undo("n2")
            except Exception:  # noqa: BLE001 - whatever it was, somebody starts it again
                stopped += 1
        office.box.faults.set_value(f"odoo.fault.{fault}", 0)
        last = await office.undo("n2")

        assert stopped
        assert not last.left
        assert office.truth() == before
        kept = await office.store.crm.list_sent_rows("n2")
        assert all(row.digest.startswith(UNDONE_PREFIX) for row in kept)
        await office.night(dossier("Acme Three", phone="3"), run="n3")
        assert set(office.records()) == {"Acme Three", "Mei"}
        assert office.records()["Mei"]["phone"] == "3"

    await in_office(work)


async def test_many_records_are_taken_back_in_few_requests():
    async def work(office):
        many = [dossier(f"Acme {nth}", uen=f"2009{nth:05}A") for nth in range(120)]
        await office.night(*many, run="n1")
        before = office.requests()
        told = await office.undo("n1")

        assert len(told.archived) == 360
        assert office.requests() - before < 40

    await in_office(work)


@protocols
async def test_a_run_that_found_everything_there_has_nothing_to_take_back(protocol):
    async def work(office):
        await office.night(dossier(), run="n1")
        office.delete_files()
        found = await office.night(dossier(), run="n2")
        before = office.truth()
        requests = office.requests()
        again = await office.night(dossier(), run="n3")
        assert (found.written, found.same, again.same) == ((), 3, 3)
        assert office.requests() == requests

        for run in ("n2", "n3"):
            told = await office.undo(run)
            assert (told.rows, told.archived, told.restored, told.left) == (0, [], [], {})
        assert office.truth() == before

    await in_office(work, protocol=protocol)


@protocols
async def test_of_records_found_there_only_what_the_run_added_is_taken_back(protocol):
    async def work(office):
        await office.night(dossier(website=""), run="n1")
        before = office.truth()
        office.delete_files()
        added = await office.night(dossier(), dossier("Bolt", uen="200900002B"), run="n2")
        assert (len(added.written), added.same) == (5, 1)
        told = await office.undo("n2")

        assert (told.rows, len(told.restored), len(told.archived), told.left) == (5, 2, 3, {})
        assert {key: office.truth()[key] for key in before} == before
        assert set(office.records()) == {"Acme", "Mei"}

    await in_office(work, protocol=protocol)


async def test_what_was_found_there_and_changed_by_a_later_run_is_restored_by_undoing_that_one():
    async def work(office):
        await office.night(dossier(), run="n1")
        before = office.truth()
        office.delete_files()
        await office.night(dossier(), run="n2")
        await office.night(dossier("Acme Two", phone="2"), run="n3")
        assert office.truth() != before
        told = await office.undo("n3")

        assert (told.rows, len(told.restored), told.archived) == (3, 3, [])
        assert office.truth() == before

    await in_office(work)


async def test_what_was_made_before_a_move_and_found_again_after_it_is_still_that_runs():
    async def work(office):
        here = office.crm
        await office.night(dossier(), run="n1")
        office.crm = office.odoo(database="bolt")
        await office.night(dossier(), run="n2")
        office.crm = here
        back = await office.night(dossier(), run="n3")
        assert (back.written, back.same) == ((), 3)

        assert (await office.undo("n3")).rows == 0
        assert len((await office.undo("n1")).archived) == 3

    await in_office(work)


@pytest.mark.parametrize("name", ["Acme", "Acme Two"])
async def test_what_a_run_made_and_never_heard_of_is_its_own_though_a_later_one_found_it(name):
    async def work(office):
        office.crm, whole = DiesAfterSending(office.crm), office.crm
        with pytest.raises(DiedError):
            await office.night(dossier(), run="n1")
        office.crm = whole
        before = office.truth()
        later = await office.night(dossier(name), run="n2")
        changed = 0 if name == "Acme" else 2  # the company and its lead
        assert len(later.written) == changed

        told = await office.undo("n2")
        assert (told.rows, len(told.restored), told.archived) == (changed, changed, [])
        assert office.truth() == before
        assert len((await office.undo("n1")).archived) == 3
        assert office.records() == office.records(LEAD) == {}

    await in_office(work)


async def test_a_run_that_goes_on_after_it_was_killed_still_made_what_it_made():
    async def work(office):
        office.crm, whole = DiesAfterSending(office.crm), office.crm
        with pytest.raises(DiedError):
            await office.night(dossier(), run="n1")
        office.crm = whole
        await office.night(dossier("Acme Two", phone="2"), run="n1")
        told = await office.undo("n1")

        assert (told.rows, len(told.archived), told.left) == (3, 3, {})

    await in_office(work)


def with_another(known):
    other = replace(known.contacts[0], name="Raj", email="raj@acme.test", confidence=0.1)
    return replace(known, contacts=(*known.contacts, other))


@protocols
async def test_news_of_what_was_taken_back_bring_it_back_and_what_it_belongs_to(protocol):
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.undo("n1")
        away = office.truth()
        told = await office.night(with_another(dossier()), run="n2")

        assert (len(told.written), told.same, told.left) == (2, 2, {})
        assert set(office.records()) == {"Acme", "Raj"}  # Mei was taken back, and says nothing new
        assert office.records()["Raj"]["parent_id"][0] == office.records()["Acme"]["id"]
        assert not office.records(LEAD)
        writes = office.writes()
        assert (await office.night(with_another(dossier()), run="n3")).same == 4
        assert office.writes() == writes

        undone = await office.undo("n2")
        assert (len(undone.restored), len(undone.archived), undone.left) == (1, 1, {})
        assert office.records() == {}
        assert {key: office.truth()[key] for key in away} == away
        await office.night(dossier(phone="2"), run="n4")
        assert set(office.records()) == {"Acme", "Mei"}
        assert not office.records(LEAD)  # it was taken back, and says nothing new

    await in_office(work, protocol=protocol)


@protocols
async def test_what_a_person_archived_stays_so_and_new_contacts_are_left_with_the_reason(protocol):
    async def work(office):
        await office.night(dossier(), run="n1")
        office.edit("Acme", active=False)
        for name, run in (("Acme", "n2"), ("Acme Two", "n3"), ("Acme Two", "n4")):
            told = await office.night(with_another(dossier(name)), run=run)
            assert list(told.left.values()) == ["what it belongs to is archived in the CRM"]
        assert set(office.records()) == {"Mei"}

        office.edit("Acme Two", active=True)
        assert not (await office.night(with_another(dossier("Acme Two")), run="n5")).left
        assert set(office.records()) == {"Acme Two", "Mei", "Raj"}

    await in_office(work, protocol=protocol)


async def test_what_a_person_archived_after_it_was_brought_back_stays_archived():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.undo("n1")
        await office.night(dossier("Acme Two"), run="n2")
        assert set(office.records()) == {"Acme Two", "Mei"}  # the lead is about Mei
        office.edit("Acme Two", active=False)
        await office.undo("n2")
        told = await office.night(with_another(dossier("Acme Three")), run="n3")

        assert "Acme Two" not in office.records()
        assert "archived" in "".join(told.left.values())

    await in_office(work)


async def test_what_was_brought_back_and_worked_on_by_a_person_is_not_archived_again():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.undo("n1")
        await office.night(dossier("Acme Two"), run="n2")
        office.edit("Acme Two", city="Singapore")  # no column of ours
        told = await office.undo("n2")

        assert "Acme" in office.records()
        assert [why for why in told.left.values() if "worked on it" in why]
        assert office.records(LEAD) == {}

    await in_office(work)


class DiesBeforeSending(DiesAfterSending):
    """A process that is gone before the CRM got anything."""

    async def upsert(self, writes):
        raise DiedError


async def test_what_never_got_there_is_not_said_to_be_gone():
    async def work(office):
        office.crm, whole = DiesBeforeSending(office.crm), office.crm
        with pytest.raises(DiedError):
            await office.night(dossier(), run="n1")
        office.crm = whole
        told = await office.undo("n1")

        assert (told.rows, told.same, told.archived, told.left) == (0, 0, [], {})

    await in_office(work)


async def test_what_was_to_be_brought_back_and_was_not_still_can_be():
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.undo("n1")
        office.crm, whole = DiesBeforeSending(office.crm), office.crm
        with pytest.raises(DiedError):
            await office.night(with_another(dossier()), run="n2")
        office.crm = whole
        assert not (await office.night(dossier(), run="n3")).written  # no news any more
        assert not (await office.night(with_another(dossier()), run="n4")).left

        assert set(office.records()) == {"Acme", "Raj"}

    await in_office(work)


@pytest.mark.parametrize("dies", [DiesBeforeSending, DiesAfterSending])
async def test_a_night_killed_while_it_brings_back_is_finished_by_the_next_and_taken_back_whole(
    dies,
):
    async def work(office):
        await office.night(dossier(), run="n1")
        await office.undo("n1")
        office.crm, whole = dies(office.crm), office.crm
        with pytest.raises(DiedError):
            await office.night(with_another(dossier()), run="n2")
        office.crm = whole
        told = await office.night(with_another(dossier()), run="n3")
        assert not told.left
        assert set(office.records()) == {"Acme", "Raj"}
        assert (await office.night(with_another(dossier()), run="n4")).same == 4

        for run in ("n3", "n2"):
            await office.undo(run)
        assert office.records() == {}

    await in_office(work)
