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
NINE = {
    f"x-{name}"
    for window in ("minute", "hourly", "daily")
    for name in (f"{window}-requests-left", f"{window}-usage", f"rate-limit-{window}")
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


def test_filters_let_through_whom_they_name(box):
    company = box.world.get_company(3)
    title = company.people[0].title
    told = prospects(box, company.domain, jobTitles=[title]).parse_json()["results"]

    assert told
    assert {one["jobTitle"]["title"] for one in told} == {title}


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


def test_every_answer_carries_the_nine_headers(box):
    told = prospects(box, box.world.get_company(0).domain)

    assert set(told.headers) >= NINE
    assert told.headers["x-minute-usage"] == "1"
    left, limit = (
        told.headers[f"x-{name}"] for name in ("minute-requests-left", "rate-limit-minute")
    )
    assert int(left) == int(limit) - 1 > 1_000_000  # nothing is refused


def test_the_headers_speak_of_the_limit_that_was_dialled():
    with RunningBox(companies=1, dials={"lusha.calls": 20, "lusha.window": "60s"}) as box:
        told = prospects(box, "x.test")

    assert told.headers["x-rate-limit-minute"] == "20"
    assert told.headers["x-minute-requests-left"] == "19"


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, {"ids": ["ct-0-0"]}, 401),
        ({"Authorization": "Bearer lusha-key-1"}, {"ids": ["ct-0-0"]}, 401),
        ({"api_key": "lusha-wrong"}, {"ids": ["ct-0-0"]}, 401),
        (KEY, {"ids": []}, 400),
        (KEY, {"ids": ["ct-0-0"] * 101}, 400),
        (KEY, {"ids": ["ct-0-0"], "reveal": ["everything"]}, 400),
        (KEY, "x", 400),
    ],
)
def test_refusals_say_their_status_and_cost_nothing(box, headers, body, status):
    told = post(box, "contacts/enrich", body, headers=headers)

    assert told.status == status
    assert told.parse_json()["statusCode"] == status
    assert isinstance(told.parse_json()["message"], str)
    assert charged(box) == 0


@pytest.mark.parametrize(
    ("window", "name"), [("60s", "minute"), ("3600s", "hourly"), ("1s", "minute")]
)
def test_a_limit_that_is_reached_is_named_in_text_and_headers(window, name):
    with RunningBox(companies=1, dials={"lusha.calls": 1, "lusha.window": window}) as box:
        prospects(box, "x.test")
        told = prospects(box, "x.test")

    assert told.status == 429
    assert name in told.parse_json()["message"]
    assert told.headers[f"x-{name}-requests-left"] == "0"


def test_without_credits_nothing_is_revealed():
    with RunningBox(companies=50, dials={"lusha.credits": 1}) as box:
        first = prospects(box, box.world.get_company(0).domain)
        second = prospects(box, box.world.get_company(0).domain)

        assert (first.status, second.status) == (200, 402)
        assert charged(box) == 1
