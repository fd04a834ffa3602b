"""Dossiers into the make-believe Odoo, night after night, with people at work in it."""

import pytest

from kit.crm_office import TENANT, dossier, in_office
from stoker.backends.sqlite import MemoryBackend
from stoker.crm.model import LEAD, PARTNER
from stoker.crm.rows import build_rows


async def test_the_same_dossier_again_costs_not_one_request():
    async def work(office):
        first = await office.night(dossier())
        before = office.requests()
        again = await office.night(dossier(), run="n2")

        assert (len(first.written), again.written, again.same) == (3, (), 3)
        assert office.requests() == before
        assert office.records()["Mei"]["parent_id"][0] == office.records()["Acme"]["id"]

    await in_office(work)


async def test_a_tenant_that_moves_to_another_crm_finds_everything_there():
    async def work(office):
        await office.night(dossier())
        office.crm = office.odoo(database="bolt")  # from a rehearsal, say, to the real one
        moved = await office.night(dossier(), run="n2")
        again = await office.night(dossier(), run="n3")
        newer = await office.night(dossier("Acme Two"), run="n4")
        there = await office.crm.search(PARTNER, [["is_company", "=", True]], fields=["name"])

        assert (len(moved.written), moved.left) == (3, {})
        assert (again.written, again.same) == ((), 3)
        assert "Acme Two" in {each.values["name"] for each in there}
        assert (newer.left, set(office.records())) == (
            {},
            {"Acme", "Mei"},
        )  # who was left keeps all

    await in_office(work)


async def test_a_deleted_record_stays_deleted_and_an_archived_one_archived():
    async def work(office):
        await office.night(dossier())
        mei, acme = office.records()["Mei"], office.records()["Acme"]
        office.person(PARTNER, "unlink", ids=[mei["id"]])
        office.person(PARTNER, "write", ids=[acme["id"]], vals={"active": False})
        told = await office.night(dossier("Acme Two", phone="2"), run="n2")

        assert [why for why in told.left.values() if "deleted" in why]
        everything = office.records(active_test=False)
        assert "Mei" not in everything
        assert everything["Acme Two"]["active"] is False

    await in_office(work)


async def test_a_company_that_is_there_already_is_not_doubled_and_gets_the_lead():
    async def work(office):
        theirs = {"name": "Theirs", "company_registry": "200900001A", "is_company": True}
        (id_,) = office.person(PARTNER, "create", vals_list=[theirs])
        told = await office.night(dossier())

        mei = office.records()["Mei"]
        assert set(office.records()) == {"Theirs", "Mei"}
        assert mei["parent_id"][0] == id_
        assert office.records(LEAD)["Acme"]["partner_id"][0] == mei["id"]
        assert len(told.left) == 1

    await in_office(work)


async def test_of_two_companies_that_were_there_the_one_that_is_not_archived_gets_the_people():
    async def work(office):
        theirs = {"company_registry": "200900001A", "is_company": True}
        old, new = {"name": "Old", "active": False, **theirs}, {"name": "New", **theirs}
        _, id_ = office.person(PARTNER, "create", vals_list=[old, new])
        await office.night(dossier())

        assert office.records()["Mei"]["parent_id"][0] == id_

    await in_office(work)


@pytest.mark.parametrize("fault", ["close", "garbage", "error_charged"])
async def test_after_lost_answers_the_next_night_goes_on_and_nothing_is_doubled(fault):
    async def work(office):
        await office.crm.fields(PARTNER)
        await office.crm.fields(LEAD)
        await office.night(dossier())
        office.box.faults.set_value(f"odoo.fault.{fault}", 0.7)
        told = [await _kept(office, f"n{nth}") for nth in range(2, 8)]
        office.box.faults.set_value(f"odoo.fault.{fault}", 0)
        last = await office.night(dossier("Acme Four", phone="4"), run="last")

        assert any(told)
        assert not last.left
        assert set(office.records()) == {"Acme Four", "Mei"}
        assert office.records()["Mei"]["phone"] == "4"
        assert len(office.records(LEAD)) == 1

    async def _kept(office, run):
        try:
            told = await office.night(dossier(f"Acme {run}", phone=run), run=run)
        except Exception as error:  # noqa: BLE001 - whatever it was, the night is over
            return type(error).__name__
        return told.later

    await in_office(work)


async def test_what_was_sent_and_forgotten_is_found_again_though_it_has_another_name_now():
    async def work(office):
        await office.night(dossier())
        office.store = MemoryBackend().tenant(TENANT)
        rows = build_rows(dossier("Acme Two"), tenant=TENANT, least=0.5)

        assert len(await office.crm.find_records(rows, known={})) == 3

    await in_office(work)


@pytest.mark.parametrize("theirs", [False, True])
async def test_a_contact_people_gave_another_address_is_found_though_nothing_is_remembered(theirs):
    async def work(office):
        if theirs:
            company = {"name": "Acme", "company_registry": "200900001A", "is_company": True}
            office.person(PARTNER, "create", vals_list=[company])
        await office.night(dossier())
        office.edit("Mei", email="own@acme.test")
        office.delete_files()
        for nth, phone in enumerate(["1", "2"], start=2):
            await office.night(dossier(phone=phone), run=f"n{nth}")

        mei = office.records()["Mei"]
        assert (mei["email"], mei["phone"]) == ("own@acme.test", "2")
        assert len(office.records()) == 2
        assert (await office.undo("n2")).rows == 0

    await in_office(work)
