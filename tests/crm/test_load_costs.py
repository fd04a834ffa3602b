"""What bad rows and conflicts cost in one load, and that the good rows beside them are written."""

import asyncio

import pytest

from kit.crm_office import LEAD, in_office
from stoker.crm.model import PARTNER, CrmRow, RowWrite

OTHER_COMPANY = 2
ROWS = 100


def lead(nth, partner, **more):
    row = CrmRow(model=LEAD, external_id=f"stoker.acme_lead_{nth}", values={"name": f"Lead {nth}"})
    cells = {**row.values, "type": "opportunity", "partner_id": str(partner), **more}
    return RowWrite(row=row, cells=cells, digest="", before={}, intent={})


def make_partners(office):
    """Return a partner that leads may have, and one of another company, that they may not."""
    theirs = [{"name": "Good"}, {"name": "Bad", "company_id": OTHER_COMPANY}]
    return office.person(PARTNER, "create", vals_list=theirs)


def count_loads(office, model=LEAD):
    return sum(each.target.endswith(f"/{model}/load") for each in office.box.box.log)


async def send(office, writes):
    await office.crm.fields(LEAD)
    results = await office.crm.upsert(writes)
    return {id_ for id_, each in results.items() if each.id is None}


@pytest.mark.parametrize("place", ["first", "spread", "last"])
@pytest.mark.parametrize("many", [1, 5, 12, 30, 60])
async def test_bad_rows_cost_two_loads_each_and_ten_more_at_most(many, place):
    firsts = {"first": range(many), "last": range(ROWS - many, ROWS)}
    bad = set(firsts.get(place, [nth * ROWS // many for nth in range(many)]))

    async def work(office):
        good, other = make_partners(office)
        writes = [lead(nth, other if nth in bad else good) for nth in range(ROWS)]
        refused = await send(office, writes)

        assert refused == {f"stoker.acme_lead_{nth}" for nth in bad}
        assert len(office.records(LEAD)) == ROWS - many
        assert 0 < count_loads(office) <= 2 * many + 10

    await in_office(work)


@pytest.mark.parametrize("many", [1, 12, 60])
async def test_rows_with_a_value_that_a_field_refuses_cost_no_more(many):
    async def work(office):
        good, _ = make_partners(office)
        writes = [lead(nth, good, priority="9" if nth < many else "1") for nth in range(ROWS)]
        refused = await send(office, writes)

        assert len(refused) == many
        assert len(office.records(LEAD)) == ROWS - many
        assert 0 < count_loads(office) <= 2 * many + 10

    await in_office(work)


async def test_of_good_bad_good_two_are_written():
    async def work(office):
        good, other = make_partners(office)
        refused = await send(office, [lead(0, good), lead(1, other), lead(2, good)])

        assert refused == {"stoker.acme_lead_1"}
        assert set(office.records(LEAD)) == {"Lead 0", "Lead 2"}

    await in_office(work)


@pytest.mark.parametrize("conflicts", [1, 2, 4])
async def test_a_conflict_in_german_is_tried_again_and_counts_for_nothing(conflicts):
    async def work(office):
        good, _ = make_partners(office)
        waits = []

        async def end_conflicts(_):
            waits.append(office)
            if len(waits) >= conflicts:
                office.box.faults.set_value("odoo.races", 0)
            await asyncio.sleep(0)

        office.box.faults.set_value("odoo.language", "de")
        office.box.faults.set_value("odoo.races", 1)
        office.crm = office.odoo(sleep=end_conflicts)
        refused = await send(office, [lead(nth, good) for nth in range(3)])

        assert (refused, len(waits)) == (set(), conflicts)
        assert len(office.records(LEAD)) == 3

    await in_office(work)
