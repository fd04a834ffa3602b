"""A tenant's nights and its Odoo: filled, worked in by people, filled again, taken back."""

import pytest

from night_house import ACME, BOLT, Crm, house
from stoker.crm.odoo import open_crm
from stoker.crm.undo import undo_run
from stoker.runs.model import RunState
from stoker.sandbox.vendors.odoo.rights import HUMAN_UID

COMPANIES = 10


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_a_tenants_nights_fill_its_crm_and_can_be_taken_back(tmp_path, backend):
    more = "score.min_export = 0.3\n"
    async with house(
        tmp_path, companies=COMPANIES, troubles=False, backend=backend, more=more
    ) as here:
        crm = Crm(here, ACME)
        first = await here.night()
        there, leads = await crm.records(), await crm.records("crm.lead")

        assert first.state in (RunState.DONE, RunState.PARTIAL)
        assert (first.manifest.counts["crm_later"], first.manifest.counts["crm_refused"]) == (
            0,
            0,
        )
        companies = [each for each in there.values() if each["is_company"]]
        assert len(companies) == COMPANIES
        assert leads
        assert all("Where this is from" in each["comment"] for each in there.values())
        assert await Crm(here, BOLT).records() == {}

        # A colleague corrects something; the next night finds the same and writes nothing.
        edited = next(name for name, each in there.items() if each["is_company"])
        await crm.ask(
            "res.partner",
            "write",
            ids=[there[edited]["id"]],
            vals={"website": "https://own.test"},
        )
        writes = here.box.meter.get_charged("odoo", unit="writes")
        second = await here.night()
        assert second.manifest.counts["crm_written"] == 0
        assert here.box.meter.get_charged("odoo", unit="writes") == writes

        store = here.store()
        told = await undo_run(
            first.name,
            crm=open_crm(here.app.for_tenant(ACME), await store.setup.find_connection()),
            store=store.crm,
            now=here.app.clock.now(),
        )
        left = await crm.records()
        # A write to a company is one to its contacts: they are taken for worked on.
        under = {
            name
            for name, each in there.items()
            if (each["parent_id"] or [0])[0] == there[edited]["id"]
        }
        assert set(left) == {edited} | under == set(told.left)
        assert left[edited]["website"] == "https://own.test"
        assert left[edited]["write_uid"][0] == HUMAN_UID
        assert await crm.records("crm.lead") == {}
        assert len(await crm.records(archived=True)) == len(there)


async def test_a_night_whose_crm_is_down_is_partial_and_the_next_one_sends_everything(tmp_path):
    more = "scheduling.deadline_minutes = 30\n"
    async with house(tmp_path, companies=COMPANIES, troubles=False, more=more) as here:
        here.box.faults.set_value("odoo.retry_after", "3600")  # longer than this night waits
        here.box.faults.set_value("odoo.fault.busy", 1.0)
        down = await here.night(limit=4)
        assert down.state is RunState.PARTIAL
        assert down.manifest.counts["crm_later"] > 0
        assert any("queued for the next run" in why for why in down.manifest.reasons)

        here.box.faults.set_value("odoo.fault.busy", 0)
        up = await here.night(limit=4)
        companies = [
            each for each in (await Crm(here, ACME).records()).values() if each["is_company"]
        ]
        assert up.manifest.counts["crm_later"] == 0
        assert len(companies) >= 4
