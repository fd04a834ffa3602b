"""What people touched stays when a run is undone, however our later writes hide it."""

from dataclasses import replace

import pytest

from kit.crm_office import PROTOCOLS, dossier, in_office
from stoker.crm.model import LEAD, PARTNER

TOUCHED = 24  # records of each kind of touch
SMALL = 200_900_000
STAYS = "stays, so it stays too"


def many(count, **news):
    for at in range(count):
        uen = f"{SMALL + at}A"
        yield dossier(f"Co {at}", uen=uen, person=f"Person {at}", **news)


def tag(office, model, ids):
    [made] = office.person("res.partner.category", "create", vals_list=[{"name": "VIP"}])
    return office.person(model, "write", ids=ids, vals={"category_id": [[4, made]]})


def assign(office, model, ids):
    return office.person(model, "write", ids=ids, vals={"user_id": 3})


def note(office, model, ids):
    return office.person(model, "message_post", ids=ids, body="met them", message_type="comment")


def plan_call(office, model, ids):
    table = office.person("mail.activity.type", "search", domain=[["name", "=", "Call"]])
    model_id = {PARTNER: 1, LEAD: 2}[model]
    values = [
        {
            "res_model_id": model_id,
            "res_id": id_,
            "activity_type_id": table[0],
            "date_deadline": "2026-12-01",
        }
        for id_ in ids
    ]
    return office.person("mail.activity", "create", vals_list=values)


def live(office, model, **more):
    return office.person(model, "search_read", domain=[], **more)


def orphans(office):
    """Return live contacts and leads whose company is archived."""
    shown = live(office, PARTNER, context={"active_test": False})
    archived = {each["id"] for each in shown if not each["active"]}
    contacts = [each for each in live(office, PARTNER) if (each["parent_id"] or [0])[0] in archived]
    leads = [each for each in live(office, LEAD) if (each["partner_id"] or [0])[0] in archived]
    return contacts + leads


async def test_of_96_contacts_tagged_assigned_noted_and_called_none_is_lost():
    async def work(office):
        touches = (tag, assign, note, plan_call)
        await office.night(*many(TOUCHED * 4 + 4), run="n1")
        people = [each for each in live(office, PARTNER) if not each["is_company"]]
        for nth, touch in enumerate(touches):
            assert touch(office, PARTNER, [each["id"] for each in people[nth : TOUCHED * 4 : 4]])
        # A later night writes every company, which sets who wrote its contacts last.
        assert (
            await office.night(*many(TOUCHED * 4 + 4, website="https://new.test"), run="n2")
        ).written
        ours = [each for each in live(office, PARTNER) if each["write_uid"][0] == 2]
        assert {each["id"] for each in people} <= {each["id"] for each in ours}

        await office.undo("n2")
        told = await office.undo("n1")

        left = {each["id"] for each in live(office, PARTNER) if not each["is_company"]}
        assert left == {each["id"] for each in people[: TOUCHED * 4]}
        assert orphans(office) == []
        touched = ("a person has worked on it since", "a person has changed category_id since")
        assert sum(why in touched for why in told.left.values()) == 96
        assert sum(STAYS in why for why in told.left.values()) == 96
        assert len(told.archived) == 3 * (TOUCHED * 4 + 4) - 2 * 96

    await in_office(work)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("touch", [assign, note, plan_call])
async def test_a_lead_that_people_worked_on_stays_with_its_company(touch, protocol):
    async def work(office):
        await office.night(*many(4), run="n1")
        [one] = [each for each in live(office, LEAD) if each["name"] == "Co 1"]
        assert touch(office, LEAD, [one["id"]])
        # Our own later write of the lead sets who wrote it last.
        assert (await office.night(*many(4, version="Better."), run="n2")).written
        await office.undo("n2")
        told = await office.undo("n1")

        assert [each["name"] for each in live(office, LEAD)] == ["Co 1"]
        assert "Co 1" in {each["name"] for each in live(office, PARTNER)}
        assert orphans(office) == []
        assert any(STAYS in why for why in told.left.values())

    await in_office(work, protocol=protocol)


async def test_a_company_stays_under_what_people_hung_on_it():
    async def work(office):
        office.box.faults.set_value("odoo.apps", "crm sale")
        await office.night(*many(4), run="n1")
        ids = {each["name"]: each["id"] for each in live(office, PARTNER)}
        office.person(PARTNER, "create", vals_list={"name": "Hers", "parent_id": ids["Co 0"]})
        office.person(LEAD, "create", vals_list={"name": "Deal", "partner_id": ids["Co 1"]})
        office.person("sale.order", "create", vals_list=[{"name": "S1", "partner_id": ids["Co 2"]}])
        would = await office.undo("n1", dry=True)
        told = await office.undo("n1")

        names = {each["name"] for each in live(office, PARTNER)}
        assert names == {"Co 0", "Co 1", "Co 2", "Hers"}
        assert orphans(office) == []
        reasons = sorted(told.left.values())
        assert reasons == [f"{what} there {STAYS}" for what in ("a contact", "a lead", "an order")]
        assert (would.left, sorted(would.archived)) == (told.left, sorted(told.archived))

    await in_office(work)


async def test_an_undo_cut_off_between_contacts_and_companies_still_spares_what_people_touched():
    class Dies:
        """A CRM that is gone once a company is to be archived."""

        def __init__(self, crm, companies):
            self.crm, self.companies = crm, companies

        def __getattr__(self, name):
            return getattr(self.crm, name)

        async def change(self, model, ids, values):
            await self.crm.change(model, ids, values)
            if model == PARTNER and set(ids) & self.companies:
                raise ConnectionResetError

    async def work(office):
        await office.night(*many(6), run="n1")
        people = [each for each in live(office, PARTNER) if not each["is_company"]]
        companies = {each["id"] for each in live(office, PARTNER) if each["is_company"]}
        assert assign(office, PARTNER, [people[0]["id"]])
        office.crm, whole = Dies(office.crm, companies), office.crm
        with pytest.raises(ConnectionResetError):
            await office.undo("n1")
        office.crm = whole
        await office.undo("n1")

        names = {each["name"] for each in live(office, PARTNER)}
        assert names == {"Co 0", "Person 0"}
        assert orphans(office) == []

    await in_office(work)


async def test_undone_leads_are_not_counted_as_lost():
    async def work(office):
        await office.night(*many(3), run="n1")
        office.edit("Co 0", LEAD, probability=20.0)
        office.edit("Co 0", LEAD, probability=0.0)
        before = live(office, "crm.lead.scoring.frequency")
        await office.undo("n1")

        shown = live(office, LEAD, context={"active_test": False}, fields=["active", "won_status"])
        assert [(each["active"], each["won_status"]) for each in shown].count(
            (False, "pending")
        ) == 2  # the third is a person's
        assert live(office, "crm.lead.scoring.frequency") == before == []

    await in_office(work)


async def test_a_thousand_records_are_restored_fifty_a_call():
    async def work(office):
        def known(website):
            return [replace(each, contacts=(), score=None) for each in many(1000, website=website)]

        await office.night(*known("https://one.test"), run="n1")
        before = office.truth()
        await office.night(*known("https://two.test"), run="n2")
        office.edit("Co 7", website="https://hers.test")
        start = office.requests()
        told = await office.undo("n2")

        log = [each.target for each in office.box.box.log[start:]]
        assert len(told.restored) == 999
        assert sum(path.endswith("/load") for path in log) == 20
        assert len(log) <= 60
        assert {name: each for name, each in office.truth().items() if name[1] != "Co 7"} == {
            name: each for name, each in before.items() if name[1] != "Co 7"
        }

    await in_office(work)


async def test_a_restore_that_the_crm_refuses_is_left_with_its_reason_and_the_others_are_made():
    async def work(office):
        await office.night(*many(3), run="n1")
        await office.night(*many(3, version="Better."), run="n2")
        [one] = [each for each in live(office, LEAD) if each["name"] == "Co 0"]
        office.person(LEAD, "write", ids=[one["id"]], vals={"company_id": 2})
        partner = one["partner_id"][0]
        office.person(PARTNER, "write", ids=[partner], vals={"company_id": 1})
        told = await office.undo("n2")

        assert len(told.restored) == 2
        assert len(told.left) == 1

    await in_office(work)
