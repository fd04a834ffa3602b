"""The make-believe Tavily over raw HTTP: shapes, credits, refusals."""

import pytest

from running_box import RunningBox
from stoker.sandbox.vendors.tavily import CompanySearch
from stoker.sandbox.world.companies import World

KEY = {"Authorization": "Bearer tvly-dev-abc"}


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=300) as running:
        yield running


def search(box, query, *, headers=KEY, **more):
    return box.ask("tavily.test", "POST", "/search", {"query": query, **more}, headers=headers)


def credits_of(box):
    return box.box.charges.get("tavily", {}).get("credits", 0)


def test_a_companys_name_finds_its_site_a_directory_and_noise(box):
    company = box.world.get_company(5)
    told = search(box, f"{company.name} Singapore", max_results=20).parse_json()

    assert set(told) == {
        "query",
        "follow_up_questions",
        "answer",
        "images",
        "results",
        "response_time",
        "request_id",
    }
    assert told["query"] == f"{company.name} Singapore"
    assert all(
        set(result) == {"url", "title", "content", "score", "raw_content"}
        for result in told["results"]
    )
    urls = [result["url"] for result in told["results"]]
    assert f"http://{company.domain}/" in urls
    assert f"http://directory.test/company/{company.uen}" in urls
    assert any(url.startswith("http://news.test/") for url in urls)
    scores = [result["score"] for result in told["results"]]
    assert scores == sorted(scores, reverse=True)


def test_what_was_not_asked_for_is_not_there(box):
    company = box.world.get_company(7)
    plain = search(box, company.name).parse_json()
    more = search(
        box,
        company.name,
        include_raw_content=True,
        include_usage=True,
        max_results=1,
    ).parse_json()

    assert plain["answer"] is None
    assert plain["results"][0]["raw_content"] is None
    assert len(plain["results"]) == 5
    assert more["usage"] == {"credits": 1}
    (result,) = more["results"]
    assert result["raw_content"]


@pytest.mark.parametrize(
    ("depth", "cost"), [("basic", 1), ("fast", 1), ("ultra-fast", 1), ("advanced", 2)]
)
def test_a_search_costs_what_its_depth_costs(box, depth, cost):
    before = credits_of(box)
    told = search(box, "anything", search_depth=depth, include_usage=True).parse_json()

    assert told["usage"]["credits"] == cost
    assert credits_of(box) == before + cost


def test_extraction_costs_one_credit_for_every_five_pages_that_came_back(box):
    pages = [f"http://{box.world.get_company(at).domain}/about" for at in range(6)]
    before = credits_of(box)
    told = box.ask(
        "tavily.test",
        "POST",
        "/extract",
        {"urls": [*pages, "http://nobody.test/"], "extract_depth": "advanced"},
        headers=KEY,
    ).parse_json()

    assert {"results", "failed_results", "response_time"} <= set(told)
    assert [result["url"] for result in told["results"]] == pages
    assert set(told["results"][0]) == {"url", "raw_content", "images"}
    assert told["failed_results"] == [
        {"url": "http://nobody.test/", "error": "Failed to fetch url"}
    ]
    assert credits_of(box) == before + 4


def test_a_key_without_credits_is_told_432_and_usage_agrees():
    with RunningBox(companies=1, dials={"tavily.credits": 3}) as box:
        told = [search(box, "x", search_depth="advanced").status for _ in range(2)]
        usage = box.ask("tavily.test", "GET", "/usage", headers=KEY).parse_json()

    assert told == [200, 432]
    assert usage["key"]["usage"] == 2
    assert usage["key"]["limit"] == 3
    assert usage["key"]["search_usage"] == 2
    assert usage["account"]["plan_usage"] == 2


def test_every_company_is_found_by_its_name_number_and_domain():
    world = World(seed=3, size=400)
    recall = CompanySearch(world)

    for at in range(world.size):
        company = world.get_company(at)
        assert company in recall.find_companies(f"about {company.name} please", most=50)
        assert recall.find_companies(f"see {company.domain}")[0] == company
        assert recall.find_companies(f"UEN {company.uen}")[0] == company
