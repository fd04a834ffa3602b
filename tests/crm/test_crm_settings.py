"""What a tenant's settings make of its companies and leads in the CRM."""

from dataclasses import replace

import pytest

from kit.crm_office import LEAD, dossier, in_office
from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.model import Contact, EmailStatus
from stoker.crm.model import PARTNER

FIRST, SECOND = "20261116_180000", "20261117_180000"
FOUND = {
    FactField.PHONE: "+65 6123 4567",
    FactField.ADDRESS: "1 Raffles Place, Singapore 048616",
    FactField.EMPLOYEES: "50-99",
    FactField.FOUNDED: "2009",
}


def fact(field, value):
    return Fact.build(field, value, source="registry", how=Method.REGISTRY, confidence=0.9)


def full():
    """Return a company of which everything was found."""
    known = dossier()
    box = Contact(email="info@acme.test", source="site", confidence=0.9, verdict=EmailStatus.VALID)
    return replace(
        known,
        company=replace(known.company, ssic="62011"),
        contacts=(*known.contacts, box),
        facts=tuple(fact(field, value) for field, value in FOUND.items()),
    )


def name_of(value):
    return value[1] if value else value


def show_company(record):
    plain = {name: record[name] for name in ("phone", "email", "street", "city", "zip")}
    return {**plain, **{name: name_of(record[name]) for name in ("country_id", "industry_id")}}


IN_FIELDS = {
    "phone": "+65 6123 4567",
    "email": "info@acme.test",
    "street": "1 Raffles Place",
    "city": "Singapore",
    "zip": "048616",
    "country_id": "Singapore",
    "industry_id": "IT/Communication",
}


async def test_what_was_found_about_a_company_is_in_the_fields_of_the_crm():
    async def work(office):
        await office.know(full())
        await office.export(FIRST)
        assert show_company(office.records()["Acme"]) == IN_FIELDS
        assert (await office.export(SECOND)).counts["crm_written"] == 0

    await in_office(work)


async def test_what_people_filled_in_stays_and_only_empty_fields_are_filled():
    async def work(office):
        (malaysia,) = office.person("res.country", "search", domain=[["code", "=", "MY"]])
        (energy,) = office.person(
            "res.partner.industry", "search", domain=[["name", "=", "Energy supply"]]
        )
        theirs = {"phone": "1", "email": "us@acme.test", "street": "S", "city": "C", "zip": "Z"}
        links = {"country_id": malaysia, "industry_id": energy}
        whose = {"name": "Acme", "company_registry": "200900001A", "is_company": True}
        office.person(PARTNER, "create", vals_list=[{**whose, **theirs, **links}])
        await office.know(full())
        await office.export(FIRST)

        expected = {**theirs, "country_id": "Malaysia", "industry_id": "Energy supply"}
        assert show_company(office.records()["Acme"]) == expected

    await in_office(work)


async def test_a_mapped_fact_is_in_the_field_that_the_setting_names():
    async def work(office):
        await office.know(full())
        await office.export(FIRST, map=("founded=ref", "verdict=function"))

        there = office.records()
        assert there["Acme"]["ref"] == "2009"
        assert there["Mei"]["function"] == "valid"
        assert there["Mei"]["category_id"] == []

    await in_office(work)


@pytest.mark.parametrize(
    ("send", "companies"),
    [
        ("leads", {"Good"}),
        ("fitting", {"Good", "Fair", "Not scored"}),
        ("all", {"Good", "Fair", "Not scored", "Unfit"}),
    ],
)
async def test_the_setting_decides_which_companies_are_sent(send, companies):
    scores = {"Good": 0.9, "Fair": 0.2, "Unfit": 0.0, "Not scored": 0.9}
    known = [
        dossier(name, uen=f"2010{nth:05}A", score=score)
        for nth, (name, score) in enumerate(scores.items())
    ]
    known[-1] = replace(known[-1], score=None)

    async def work(office):
        await office.know(*known)
        await office.export(FIRST, send=send)

        there = office.records().values()
        assert {each["name"] for each in there if each["is_company"]} == companies
        assert set(office.records(LEAD)) == {"Good"}

    await in_office(work)


@pytest.mark.parametrize(
    ("settings", "column", "value"),
    [
        ({"lead_type": "lead"}, "type", "lead"),
        ({"lead_type": "opportunity"}, "type", "opportunity"),
        ({"salesperson": "mei"}, "user_id", "Mei Tan"),
        ({"team": "Asia"}, "team_id", "Asia"),
        ({"source": "Stoker"}, "source_id", "Stoker"),
    ],
)
@pytest.mark.parametrize("option", [0, 1])
async def test_a_new_lead_is_as_the_settings_say(settings, column, value, option):
    async def work(office):
        office.box.faults.set_value("odoo.leads", option)
        if "team" in settings:
            office.person("crm.team", "create", vals_list=[{"name": "Asia"}])
        await office.know(dossier())
        await office.export(FIRST, **settings)

        found = office.records(LEAD)["Acme"][column]
        assert (found if isinstance(found, str) else name_of(found)) == value

    await in_office(work)


async def test_tags_are_on_the_company_and_on_the_lead_and_created_once():
    async def work(office):
        await office.know(dossier())
        for run in (FIRST, SECOND):
            await office.export(run, tags=("Stoker", "Singapore"))

        expected = {"res.partner.category": "category_id", "crm.tag": "tag_ids"}
        records = {"category_id": office.records()["Acme"], "tag_ids": office.records(LEAD)["Acme"]}
        for model, column in expected.items():
            tags = office.person(model, "search_read", domain=[])
            ours = {each["id"] for each in tags if each["name"] in ("Stoker", "Singapore")}
            assert (len(ours), set(records[column][column])) == (2, ours)

    await in_office(work)


@pytest.mark.parametrize("settings", [{"salesperson": "unknown"}, {"team": "Nowhere"}])
async def test_without_the_salesperson_or_team_that_settings_name_a_lead_is_as_without_the_setting(
    settings,
):
    async def work(office):
        await office.know(dossier())
        told = await office.export(FIRST, **settings)

        lead = office.records(LEAD)["Acme"]
        assert (lead["user_id"], name_of(lead["team_id"])) == (False, "Sales")
        [(setting, value)] = settings.items()
        assert any(f"odoo.{setting} names {value!r}" in each for each in told.reasons)

    await in_office(work)
