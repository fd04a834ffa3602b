"""Companies that people already have in the CRM are recognised by an export; none is doubled."""

from itertools import product

import pytest

from kit.crm_office import LEAD, PROTOCOLS, dossier, in_office
from stoker.crm.model import PARTNER

FIRST, SECOND = "20261116_180000", "20261117_180000"
EACH = 6  # companies in every guise

GUISES = {  # what people typed, by the number of the company
    "number": lambda n: {"company_registry": f"2009{n:05}A"},
    "number with a space": lambda n: {"company_registry": f"2009 {n:05}a"},
    "number in vat": lambda n: {"vat": f"2009{n:05}A"},
    "same name": lambda n: {"name": f"NORTHSTAR {n} TRADING PTE. LTD."},
    "name in other letters": lambda n: {"name": f"Northstar {n} Trading (Private) Limited"},
    "website": lambda n: {"website": f"https://www.firm{n}.sg/home"},
    "bare website": lambda n: {"website": f"firm{n}.sg"},
    "mail domain": lambda n: {"email": f"Hello@Firm{n}.sg"},
}


def ours(nth):
    return dossier(
        f"NORTHSTAR {nth} TRADING PTE. LTD.",
        uen=f"2009{nth:05}A",
        website=f"https://www.firm{nth}.sg/",
        person=f"Mei {nth}",
        mail=f"mei@firm{nth}.sg",
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_forty_eight_companies_in_eight_guises_are_recognised_and_none_has_a_twin(protocol):
    cases = [guise for guise, _ in product(GUISES, range(EACH))]
    typed = [
        {"name": f"Client {nth}", **GUISES[guise](nth), "is_company": True}
        for nth, guise in enumerate(cases, start=1)
    ]

    async def work(office):
        ids = office.person(PARTNER, "create", vals_list=typed)
        await office.know(*(ours(nth) for nth in range(1, len(cases) + 1)))
        for run in (FIRST, SECOND):
            await office.export(run)
            there = office.records()
            companies = {each["id"] for each in there.values() if each["is_company"]}
            assert companies == set(ids)

        under = [(there[f"Mei {nth}"]["parent_id"] or [0])[0] for nth in range(1, len(cases) + 1)]
        missed = [
            guise for guise, id_, found in zip(cases, ids, under, strict=True) if id_ != found
        ]
        assert missed == []
        assert len(office.records(LEAD)) == len(cases) == 48
        assert [there[each["name"]]["id"] for each in typed] == ids  # their names are kept

    await in_office(work, protocol=protocol)


async def test_companies_that_only_sound_alike_are_new_and_those_of_people_stay_as_they_are():
    names = [f"Northstar {nth} Trade" for nth in range(1, 21)]
    theirs = [
        {"name": name, "is_company": True, "website": f"https://other{nth}.sg"}
        for nth, name in enumerate(names)
    ]

    async def work(office):
        ids = office.person(PARTNER, "create", vals_list=theirs)
        before = {name: office.records()[name] for name in names}
        await office.know(*(ours(nth) for nth in range(1, 21)))
        told = await office.export(FIRST)

        there = office.records()
        assert {name: there[name] for name in names} == before
        parents = [(each["parent_id"] or [0])[0] for each in there.values()]
        assert (set(parents) & set(ids), told.counts["crm_left_to_people"]) == (set(), 0)
        assert sum(each["is_company"] for each in there.values()) == 40

    await in_office(work)
