"""The make-believe Lusha over raw HTTP: shapes, credits, limits, item errors."""

import pytest

from running_box import RunningBox

KEY = {"api_key": "lusha-key-1"}
OUTLINE = {
    "id",
    "firstName",
    "lastName",
    "jobTitle",
    "company",
    "location",
    "socialLinks",
    "has",
    "canReveal",
}


@pytest.fixture
def box():
    with RunningBox(companies=200) as running:
        yield running


def post(box, path, data, *, headers=KEY):
    return box.ask("lusha.test", "POST", f"/v3/{path}", data, headers=headers)


def prospects(box, *domains, **include):
    filters = {
        "contacts": {"include": include},
        "companies": {"include": {"domains": list(domains)}},
    }
    return post(
        box,
        "contacts/prospecting",
        {"pagination": {"page": 0, "size": 50}, "filters": filters},
    )


def charged(box):
    return box.box.charges.get("lusha", {}).get("credits", 0)


def everybody(box):
    domains = [box.world.get_company(at).domain for at in range(100)]
    ids = []
    for at in range(0, 100, 10):
        ids += [one["id"] for one in prospects(box, *domains[at : at + 10]).parse_json()["results"]]
    return ids


def test_people_at_a_company_are_found_without_anything_personal(box):
    company = box.world.get_company(3)
    told = prospects(box, company.domain)
    found = told.parse_json()

    assert set(found) == {"requestId", "results", "billing", "pagination"}
    assert [one["lastName"] for one in found["results"]] == [
        person.last_name for person in company.people
    ]
    for one in found["results"]:
        assert set(one) == OUTLINE
        assert set(one["jobTitle"]) == {"title", "departments", "seniority"}
        assert one["company"]["domain"] == company.domain
        assert set(one["company"]) == {"id", "name", "domain"}
    assert not any(person.email in told.body.decode() for person in company.people)
    assert found["billing"] == {"creditsCharged": 1, "resultsReturned": len(company.people)}


def test_revealing_costs_one_for_an_email_and_five_for_a_phone_and_only_once(box):
    found = prospects(box, *(box.world.get_company(at).domain for at in range(5))).parse_json()[
        "results"
    ]
    both = next(one for one in found if one["has"] == ["emails", "phones"])
    assert both["canReveal"] == [
        {"field": "emails", "credits": 1},
        {"field": "phones", "credits": 5},
    ]
    before = charged(box)
    costs = [
        post(box, "contacts/enrich", {"ids": [both["id"]], "reveal": reveal}).parse_json()[
            "billing"
        ]["creditsCharged"]
        for reveal in (["emails"], ["emails"], ["emails", "phones"], ["phones"])
    ]

    assert costs == [1, 0, 5, 0]
    assert charged(box) == before + 6
    again = post(box, "contacts/enrich", {"ids": [both["id"]]}, headers={"api_key": "another-key"})
    assert again.parse_json()["billing"]["creditsCharged"] == 6


def test_some_people_cannot_be_revealed_and_are_not_charged(box):
    ids = everybody(box)
    codes = set()
    for at in range(0, len(ids), 100):
        told = post(box, "contacts/enrich", {"ids": ids[at : at + 100], "reveal": ["emails"]})
        results, billing = told.parse_json()["results"], told.parse_json()["billing"]
        codes |= {one["error"]["code"] for one in results if "error" in one}
        revealed = sum(1 for one in results if one.get("emails"))
        assert billing["creditsCharged"] == revealed

    assert codes == {"COMPLIANCE_RESTRICTED", "ENRICH_FAILED"}
    told = post(box, "contacts/enrich", {"ids": ["ct-0-99", "nonsense"]}).parse_json()["results"]
    assert [one["error"]["code"] for one in told] == ["NOT_FOUND", "NOT_FOUND"]


def test_without_credits_nothing_is_revealed():
    with RunningBox(companies=50, dials={"lusha.credits": 1}) as box:
        first = prospects(box, box.world.get_company(0).domain)
        second = prospects(box, box.world.get_company(0).domain)

        assert (first.status, second.status) == (200, 402)
        assert charged(box) == 1
