"""Tavily as it answers in the sandbox: what is sent, what comes back, what it cost."""

import json

import pytest

from stoker.base.errors import ConfigError, PermanentError, UncertainError
from stoker.http.client import HttpClient
from stoker.vendors.tavily import (
    MAX_QUERY_LENGTH,
    PageTexts,
    PageTextsQuery,
    SearchDepth,
    SearchQuery,
    SearchResult,
    build_company_search,
    build_tavily_api,
)
from vendor_desk import Saying, at_desk


async def test_a_search_finds_a_companys_site_at_the_price_it_said():
    async def work(here):
        company = here.box.world.get_company(5)
        question = build_company_search(company.name, "Singapore")
        done = await here.search.ask(question, key="k")
        return company, done, here.search.price(question), here.charged("tavily")

    company, done, price, charged = await at_desk(work)
    assert f"http://{company.domain}/" in [page.url for page in done.answer.pages]
    assert all(page.title and page.text and 0 <= page.score <= 1 for page in done.answer.pages)
    assert done.cost == price == {"calls": 1, "credits": 1}
    assert charged == 1


async def test_only_who_asks_for_more_depth_pays_for_it():
    async def work(here):
        for depth in SearchDepth:
            await here.search.ask(SearchQuery(query="singapore logistics", depth=depth), key="k")
        return here.charged("tavily")

    assert await at_desk(work) == 1 + 2


async def test_domains_can_be_asked_for_and_left_out():
    async def work(here):
        company = here.box.world.get_company(6)
        only = SearchQuery(query=company.name, only=(company.domain,))
        never = SearchQuery(query=company.name, never=(company.domain,))
        return company.domain, [(await here.search.ask(q, key="k")).answer for q in (only, never)]

    domain, (only, never) = await at_desk(work)
    assert only.pages
    assert all(domain in page.url for page in only.pages)
    assert all(domain not in page.url for page in never.pages)


async def test_pages_are_read_and_those_that_are_not_are_named():
    async def work(here):
        company = here.box.world.get_company(7)
        site, nowhere = f"http://{company.domain}/", "http://nobody-lives-here.test/"
        question = PageTextsQuery(urls=(site, nowhere))
        return site, nowhere, await here.reading.ask(question, key="k"), here.charged("tavily")

    site, nowhere, done, charged = await at_desk(work)
    assert [page.url for page in done.answer.pages] == [site]
    assert done.answer.unread == (nowhere,)
    assert done.cost["credits"] == charged


async def told(said, question):
    """What the connector makes of a vendor that says this."""

    async def work(here):
        connector = here.search if isinstance(question, SearchQuery) else here.reading
        return await connector.ask(question, key="k")

    return await at_desk(work, says=said if isinstance(said, Saying) else Saying(said))


A_SEARCH, A_READING = SearchQuery(query="a"), PageTextsQuery(urls=("http://a.test/",))


async def test_it_never_lets_the_vendor_choose_the_depth():
    vendor = Saying({"results": []})
    await told(vendor, A_SEARCH)
    assert vendor.bodies == [
        {"query": "a", "search_depth": "basic", "max_results": 5, "include_usage": True}
    ]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"credits": 0}, 0),
        ({"credits": 3}, 3),
        ({"credits": 1.2}, 2),
        ({"credits": "2"}, 2),
        ({"credits": -1}, 1),
        ({"credits": True}, 1),
        ({"credits": None}, 1),
        ({"credits": []}, 1),
        ([], 1),
        (None, 1),
    ],
)
async def test_it_counts_what_the_vendor_says_and_otherwise_what_was_promised(usage, counted):
    assert (await told({"results": [], "usage": usage}, A_SEARCH)).cost["credits"] == counted


@pytest.mark.parametrize("data", [None, [], "x", {}, {"results": {}}, {"results": None}])
async def test_an_answer_without_results_may_have_been_charged(data):
    for question in (A_SEARCH, A_READING):
        with pytest.raises(UncertainError):
            await told(data, question)


async def test_a_charge_nobody_can_mean_is_not_taken_for_one():
    with pytest.raises(UncertainError):
        await told({"results": [], "usage": {"credits": 10**30}}, A_SEARCH)


async def test_one_bad_result_does_not_lose_the_others():
    good = {"url": "http://a.test/x", "title": "A\x00\ud800", "content": "c", "score": 9}
    odd = [None, 3, {}, {"url": "javascript:alert(1)"}, {"url": "http://127.0.0.1/"}, {"url": []}]
    [page] = (await told({"results": [*odd, good, good]}, A_SEARCH)).answer.pages
    assert (page.url, page.score) == ("http://a.test/x", 1.0)
    assert page.title == "A�"


async def test_more_results_than_asked_for_are_cut():
    data = {"results": [{"url": f"http://a{n}.test/"} for n in range(1000)]}
    assert len((await told(data, SearchQuery(query="a", most=3))).answer.pages) == 3


@pytest.mark.parametrize("key", ["", " ", "two words", "línea", "a\nb", "x" * 501])
async def test_without_a_usable_key_nothing_is_asked(key):
    http = HttpClient(user_agent="Stoker test")
    try:
        with pytest.raises(ConfigError):
            build_tavily_api(http, key=key)
    finally:
        await http.close()


@pytest.mark.parametrize("query", ["", "  ", "x" * (MAX_QUERY_LENGTH + 1)])
def test_a_query_no_engine_takes_is_refused_unasked(query):
    with pytest.raises(PermanentError):
        SearchQuery(query=query)


def test_a_companys_name_always_fits_into_a_query():
    assert len(build_company_search("X" * 5000, "Singapore").query) <= MAX_QUERY_LENGTH


def test_at_most_twenty_pages_are_read_at_a_time():
    with pytest.raises(PermanentError):
        PageTextsQuery(urls=tuple(f"http://a.test/{n}" for n in range(21)))
    with pytest.raises(PermanentError):
        PageTextsQuery(urls=("http://10.0.0.1/",))


async def test_answers_come_back_from_what_is_kept_as_they_were():
    async def work(here):
        company = here.box.world.get_company(8)
        search, read = (
            build_company_search(company.name),
            PageTextsQuery(urls=(f"http://{company.domain}/",)),
        )
        found = (await here.search.ask(search, key="k")).answer
        texts = (await here.reading.ask(read, key="k")).answer
        for question, answer in ((search, found), (read, texts)):
            kept = json.loads(json.dumps(answer.as_json()))
            assert question.decode_answer(kept) == answer
        for question in (search, read):
            for odd in (None, [], {}, {"pages": [1]}, {"pages": "x"}):
                with pytest.raises(PermanentError):
                    question.decode_answer(odd)

    await at_desk(work)


def test_what_was_found_is_worth_more_than_what_was_not():
    assert SearchResult().ttl < SearchResult(pages=("p",)).ttl
    assert PageTexts(unread=("u",), pages=("p",)).ttl < PageTexts(pages=("p",)).ttl


async def test_a_check_costs_nothing_and_says_what_is_used():
    async def work(here):
        await here.search.ask(SearchQuery(query="a"), key="k")
        health = await here.search.check()
        return health, here.charged("tavily")

    health, charged = await at_desk(work)
    assert health.ok
    assert health.detail == "1 of 15000 credits used"
    assert charged == 1
