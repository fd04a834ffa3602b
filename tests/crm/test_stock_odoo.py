"""Exports into an Odoo as a stock installation is, with its apps, rights and rules."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kit.crm_office import LEAD, PROTOCOLS, dossier, in_office
from stoker.crm.model import PARTNER

FIRST, SECOND = "20261116_180000", "20261117_180000"
protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def some(many, **known):
    return [dossier(f"Acme {nth}", uen=f"2010{nth:05}A", **known) for nth in range(many)]


@protocols
async def test_with_invoicing_every_contact_arrives_under_its_company(protocol):
    async def work(office):
        office.box.faults.set_value("odoo.apps", "crm account")
        await office.know(*some(40))
        told = await office.export(FIRST)

        people = [each for each in office.records().values() if not each["is_company"]]
        assert (told.counts["crm_refused"], len(people)) == (0, 40)
        assert all(each["parent_id"] for each in people)

    await in_office(work, protocol=protocol)


class DiesBeforeParents:
    """A CRM whose caller is gone before the companies of new contacts are set."""

    def __init__(self, crm):
        self._crm = crm

    def __getattr__(self, name):
        return getattr(self._crm, name)

    async def upsert(self, writes):
        await self._crm.upsert(
            [
                replace(
                    each, cells={c: v for c, v in each.cells.items() if not c.startswith("parent")}
                )
                for each in writes
                if each.row.model == PARTNER
            ]
        )
        raise KeyboardInterrupt


async def test_a_kill_between_the_two_loads_leaves_no_contact_without_a_company():
    async def work(office):
        office.crm, whole = DiesBeforeParents(office.crm), office.crm
        with pytest.raises(KeyboardInterrupt):
            await office.night(dossier(), run="n1")
        assert not office.records()["Mei"]["parent_id"]
        office.crm = whole
        await office.night(dossier(), run="n2")

        assert office.records()["Mei"]["parent_id"][0] == office.records()["Acme"]["id"]
        assert len(office.records()) == 2

    await in_office(work)


async def test_a_night_changes_no_address_phone_or_lead_of_people():
    async def work(office):
        theirs = {"name": "Theirs", "company_registry": "200900001A", "is_company": True}
        theirs |= {"email": "frontdesk@acme.test", "phone": "+65 6000 0000"}
        (id_,) = office.person(PARTNER, "create", vals_list=[theirs])
        own = {"name": "Deal", "partner_id": id_, "email_from": "frontdesk@acme.test"}
        office.person(LEAD, "create", vals_list=[own])
        before = (office.records()["Theirs"], office.records(LEAD)["Deal"])
        await office.night(dossier(phone="2", mail="mei@acme.test"))

        after = (office.records()["Theirs"], office.records(LEAD)["Deal"])
        for old, new in zip(before, after, strict=True):
            changed = {key for key in old if old[key] != new[key]}
            assert not changed & {"email", "phone", "email_from", "name", "partner_id"}
        assert office.records(LEAD)["Acme"]["email_from"] == "mei@acme.test"

    await in_office(work)


async def test_a_new_address_is_not_written_where_people_have_leads():
    async def work(office):
        await office.night(dossier(mail="mei@acme.test"))
        mei = office.records()["Mei"]["id"]
        own = {"name": "Deal", "partner_id": mei, "email_from": "mei@acme.test"}
        office.person(LEAD, "create", vals_list=[own])
        await office.night(replace_mail(dossier(mail="mei@acme.test"), "new@acme.test"), run="n2")

        assert office.records()["Mei"]["email"] == "mei@acme.test"
        assert office.records(LEAD)["Deal"]["email_from"] == "mei@acme.test"

    await in_office(work)


def replace_mail(record, email):
    [mei] = record.contacts
    kept = replace(mei, email=email, kept_key=mei.key) if hasattr(mei, "kept_key") else mei
    return replace(record, contacts=(kept,))


@pytest.mark.parametrize(("option", "kind"), [(0, "opportunity"), (1, "lead")])
async def test_leads_are_what_new_ones_are_there_unassigned_and_in_the_default_team(option, kind):
    async def work(office):
        office.box.faults.set_value("odoo.leads", option)
        await office.night(*some(3))

        for lead in office.records(LEAD).values():
            assert (lead["type"], lead["user_id"]) == (kind, False)
            assert lead["team_id"]

    await in_office(work)


async def test_without_the_crm_app_companies_and_contacts_arrive_and_leads_wait_with_a_reason():
    async def work(office):
        office.box.faults.set_value("odoo.apps", "none")
        await office.know(*some(4))
        told = await office.export(FIRST)

        assert (told.counts["crm_written"], told.later) == (8, 4)
        assert told.problem.startswith("4 leads wait: no leads can be sent: the CRM app is not")
        office.box.faults.set_value("odoo.apps", "crm")
        assert (await office.export(SECOND)).counts["crm_written"] == 4

    await in_office(work)


async def test_with_contact_rights_alone_leads_wait_with_the_right_that_is_missing():
    async def work(office):
        office.crm = office.odoo(key="odoo-acme-contacts-x")
        await office.know(*some(4))
        told = await office.export(FIRST)

        assert (told.counts["crm_written"], told.later) == (8, 4)
        assert "leads" in told.problem
        assert "right" in told.problem

    await in_office(work)


async def test_a_required_field_is_named_in_the_first_line_and_other_kinds_arrive():
    async def work(office):
        office.box.faults.set_value("odoo.required", "crm.lead.x_channel")
        await office.know(*some(5))
        told = await office.export(FIRST)

        assert (told.counts["crm_refused"], told.counts["crm_written"]) == (5, 10)
        assert told.problem.startswith("none of 5 leads got into the CRM: ")
        assert "x_channel" in told.problem
        left = await office.store.crm.list_left_rows(FIRST)
        assert len(left) == 5
        assert all(each.is_refused and "x_channel" in each.reason for each in left)

    await in_office(work)


async def test_an_innocent_lead_beside_one_of_another_company_is_written():
    async def work(office):
        theirs = {"name": "Theirs", "company_registry": "201000001A", "is_company": True}
        office.person(PARTNER, "create", vals_list=[{**theirs, "company_id": 2}])
        await office.know(*some(3))
        await office.export(FIRST)

        assert {"Acme 0", "Acme 2"} <= set(office.records(LEAD))

    await in_office(work)


@pytest.mark.parametrize("database", ["acme", "missing"])
async def test_a_page_instead_of_an_answer_keeps_everything_and_costs_ten_calls_at_most(database):
    async def work(office):
        await office.know(*some(6))
        office.crm = office.odoo(database=database)
        if database == "acme":
            office.box.faults.set_value("odoo.away", 1)
        told = await office.export(FIRST)

        assert (told.later, told.counts["crm_refused"], told.counts["crm_written"]) == (18, 0, 0)
        assert "no such database" in told.reasons[0]
        assert office.requests() <= 10

    await in_office(work)


async def test_a_crm_that_comes_back_before_the_deadline_gets_everything():
    async def work(office):
        await office.know(*some(4))
        office.box.faults.set_value("odoo.fault.unavailable", 1.0)
        sleep = office.clock.sleep

        async def sleep_until_it_is_back(duration):
            await sleep(duration)
            if sum(office.clock.slept, timedelta()) > timedelta(minutes=5):
                office.box.faults.set_value("odoo.fault.unavailable", 0)

        office.clock.sleep = sleep_until_it_is_back
        told = await office.export(FIRST)

        assert (told.counts["crm_written"], told.later, told.reasons) == (12, 0, ())
        assert max(office.clock.slept) <= timedelta(minutes=1)

    await in_office(work)


async def test_a_store_begun_anew_overwrites_nothing_that_people_renamed():
    async def work(office):
        await office.night(dossier())
        ids = {name: each["id"] for name, each in office.records().items()}
        company = {"name": "Renamed", "company_registry": False, "website": "https://own.test"}
        person = {"name": "Mei Tan", "email": "own@mei.test"}
        office.person(PARTNER, "write", ids=[ids["Acme"]], vals=company)
        office.person(PARTNER, "write", ids=[ids["Mei"]], vals=person)
        office.delete_files()
        await office.night(dossier("Acme Two", website="https://new.test"), run="n2")

        assert set(office.records()) == {"Renamed", "Mei Tan"}
        there = office.records()
        assert there["Renamed"]["website"] == "https://own.test"
        assert there["Mei Tan"]["email"] == "own@mei.test"

    await in_office(work)


async def test_no_followers_and_no_messages_are_made():
    async def work(office):
        await office.night(*some(3))
        assert office.person("mail.followers", "search_count", domain=[]) == 0
        assert office.person("mail.message", "search_count", domain=[]) == 0

    await in_office(work)


async def test_a_person_that_people_have_is_recognised_by_address():
    async def work(office):
        office.person(PARTNER, "create", vals_list=[{"name": "M. Tan", "email": "Mei@acme.test"}])
        told = await office.night(dossier(mail="mei@acme.test"))

        assert set(office.records()) == {"Acme", "M. Tan"}
        assert len(told.left) == 1

    await in_office(work)


async def test_a_doubtful_company_is_neither_linked_nor_doubled_but_reported():
    async def work(office):
        theirs = {"name": "Acme", "is_company": True, "website": "https://elsewhere.test"}
        office.person(PARTNER, "create", vals_list=[theirs])
        await office.know(dossier())
        told = await office.export(FIRST)

        assert (set(office.records()), office.records(LEAD)) == ({"Acme"}, {})
        assert told.counts["crm_left_to_people"] == 3
        left = await office.store.crm.list_left_rows(FIRST)
        assert any("another website" in each.reason for each in left)

    await in_office(work)
