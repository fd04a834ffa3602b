"""A stranger takes the names of companies: nothing of theirs gets into fields of the CRM."""

from collections import Counter
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from night_house import ACME, PLENTY, Crm, Days, chosen, house
from stoker.accounts.contacts import list_own_contacts
from stoker.accounts.model import SiteOwner
from stoker.sandbox.server import Sandbox
from stoker.sandbox.world.companies import World

NIGHTS = 3
NAMES = 12  # that were taken; as many companies have sites of their own
REGISTERED = {"name", "company_registry", "zip", "comment", "is_company"}
OF_A_LEAD = {"name", "partner_name", "description", "priority", "type", "partner_id"}
FIELDS = {  # what a night may write
    "res.partner": REGISTERED | {"website", "email", "phone", "function", "parent_id"},
    "crm.lead": OF_A_LEAD | {"contact_name", "function", "email_from", "phone", "website"},
}


def filled(record, model):
    return {name for name in FIELDS[model] if record.get(name)}


async def in_crm(crm):
    """Return by register number which fields its company and lead have, and its contacts."""
    there, leads = await crm.records(), await crm.records("crm.lead")
    partners = {each["id"]: each for each in there.values()}
    found = {
        each["company_registry"]: {"company": filled(each, "res.partner"), "note": each["comment"]}
        for each in partners.values()
        if each["is_company"]
    }
    for each in found.values():
        each |= {"contacts": [], "lead": None}
    for each in partners.values():
        if not each["is_company"]:
            owner = partners[each["parent_id"][0]]["company_registry"]
            found[owner]["contacts"].append(each["name"])
    for each in leads.values():
        owner = found[partners[each["partner_id"][0]]["company_registry"]]
        owner |= {"lead": filled(each, "crm.lead"), "why": each["description"]}
    return found


@asynccontextmanager
async def squatted_house(tmp_path, names, **how):
    """Open a house where a stranger took so many names, and as many companies have own sites."""
    quick = chosen(World(seed=1, size=1000), 2 * names, troubles=False)
    taken = [company.index for company in quick[::2]]
    dials = {"zerobounce.calls": PLENTY}
    async with Sandbox(companies=1000, seed=1, dials=dials, squatted=taken) as box:
        picked = [box.world.get_company(company.index) for company in quick]
        more = "score.min_export = 0.01\n"
        async with house(tmp_path, box=box, picked=picked, more=more, **how) as here:
            yield here, {each.uen: each for each in picked[::2]}


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_squatted_names_put_nothing_into_fields_of_the_crm_on_any_night(tmp_path, backend):
    clock = Days()
    async with squatted_house(tmp_path, NAMES, clock=clock, backend=backend) as (here, taken):
        for night in range(NIGHTS):
            here.box.faults.set_value("sites.night", night)
            await here.night()
            records = {each.company.id: each for each in await here.records()}
            found = await in_crm(Crm(here, ACME))
            for number, there in found.items():
                site = records[number].site
                if number in taken:
                    stranger = here.box.world.get_site_owner(taken[number]).people[0]
                    assert site.owner is SiteOwner.PROBABLE
                    assert there["company"] <= REGISTERED
                    assert there["contacts"] == []
                    assert records[number].company.employees is None
                    assert there["lead"] <= OF_A_LEAD
                    assert f"probable contact: {stranger.name}" in there["note"]
                    assert "Probable only" in there["why"]
                else:
                    assert site.owner is SiteOwner.CONFIRMED
                    assert {"website"} <= there["company"] & there["lead"]
                    assert list_own_contacts(records[number]) == records[number].contacts
            assert sum(bool(there["contacts"]) for there in found.values()) > NAMES // 2
            owners = Counter(record.site.owner for record in records.values())
            assert owners == {SiteOwner.PROBABLE: NAMES, SiteOwner.CONFIRMED: NAMES}
            clock.proceed += timedelta(days=1)


async def test_a_website_that_a_person_gives_counts_from_the_next_night_on(tmp_path):
    clock = Days()
    async with squatted_house(tmp_path, 1, clock=clock) as (here, taken):
        await here.night()
        [(number, company)] = taken.items()
        await here.store().accounts.give_website(number, f"http://{company.domain}/")
        clock.proceed += timedelta(days=1)
        await here.night()
        record = await here.store().accounts.find_company_record(number)
        there = (await in_crm(Crm(here, ACME)))[number]

    assert record.site.owner is SiteOwner.GIVEN
    assert "website" in there["company"] & there["lead"]
    assert there["contacts"]
