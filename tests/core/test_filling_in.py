"""What is worth asking for once a site was visited."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.companies import Company, CompanyId
from stoker.core.contacting import CompanyAt, CompanyFacts
from stoker.core.filling_in import MOST_READ, pages_wanted, read_for_us, size_wanted
from stoker.core.findings import Field, Finding, How
from stoker.core.pages import Outcome, PageSeen, SiteVisit
from stoker.core.searching import FoundPage, PageTexts
from stoker.core.urls import web_address

AT = datetime(2030, 1, 1, tzinfo=UTC)
outcomes = st.sampled_from(Outcome)
statuses = st.sampled_from([200, 301, 404, 500])
urls = st.sampled_from(
    [
        "http://acme.test/",
        "http://acme.test/about",
        "http://www.acme.test/contact",
        "http://acme.test/robots.txt",
        "http://acme.test/sitemap.xml",
        "http://other.test/about",
        "http://127.0.0.1/",
        "http://[",
        "",
    ]
)


def company(website="http://www.acme.test/", employees=None):
    return Company(id=CompanyId("1"), name="Acme", website=website, employees=employees)


def employing(value):
    return Finding.found(
        Field.EMPLOYEES, value, source="http://acme.test/", how=How.TEXT, confidence=0.4
    )


def seen(url, status=200):
    return PageSeen(url=url, status=status, seen_at=AT, changed_at=AT)


def visit(outcome, *pages, unwanted=False):
    return SiteVisit(
        site="acme.test", outcome=outcome, reason="so it is", seen=pages, unwanted=unwanted
    )


def test_a_size_nobody_knows_is_asked_for_by_the_site_s_domain():
    assert size_wanted(company(), []) == CompanyAt(domain="acme.test")
    assert size_wanted(company("acme.com.sg"), []) == CompanyAt(domain="acme.com.sg")


@pytest.mark.parametrize(
    ("one", "findings"),
    [
        (company(employees=7), []),
        (company(), [employing("5-9")]),
        (company(website=""), []),
        (company(website="http://10.0.0.1/"), []),
        (company(website="mailto:mei@acme.test"), []),
    ],
)
def test_a_size_that_is_known_or_cannot_be_asked_for_costs_nothing(one, findings):
    assert size_wanted(one, findings) is None


def test_what_a_vendor_says_of_a_size_is_known_from_then_on():
    facts = CompanyFacts(employees=42)
    assert size_wanted(company(), facts.findings(source="lusha")) is None


@given(st.text(max_size=60))
def test_whatever_stands_where_a_site_should_is_asked_about_or_left_alone(website):
    wanted = size_wanted(company(website), [])
    assert wanted is None or web_address(f"http://{wanted.domain}/").host == wanted.domain
    assert pages_wanted(website, None) is None
    pages_wanted(website, visit(Outcome.THIN))


@given(outcomes, st.booleans(), st.lists(st.tuples(urls, statuses), max_size=12))
def test_pages_are_read_for_us_only_where_we_saw_little_and_were_not_asked_away(
    outcome, unwanted, pages
):
    there = visit(outcome, *(seen(url, status) for url, status in pages), unwanted=unwanted)
    wanted = pages_wanted("http://acme.test/", there)
    little = outcome in (Outcome.BLOCKED, Outcome.THIN) and not unwanted
    assert (wanted is not None) == little
    if wanted is not None:
        assert wanted.urls[0] == "http://acme.test/"
        assert len(set(wanted.urls)) == len(wanted.urls) <= MOST_READ
        hosts = {web_address(url).host for url in wanted.urls}
        assert hosts <= {"acme.test", "www.acme.test"}
        assert not any(url.endswith((".txt", ".xml")) for url in wanted.urls)


@given(st.lists(st.tuples(urls, st.sampled_from(["", " \n", "We sell tea."])), max_size=6))
def test_only_words_of_the_site_itself_are_taken_for_its_own(pages):
    texts = PageTexts(pages=tuple(FoundPage(url=url, title="", text=text) for url, text in pages))
    said = read_for_us("http://acme.test/", texts)
    assert all(excerpt.text == "We sell tea." for excerpt in said)
    assert {web_address(excerpt.url).host for excerpt in said} <= {"acme.test", "www.acme.test"}
    honest = [url for url, text in pages if "acme.test" in url and text.strip()]
    assert len(said) == len(honest)


def test_a_page_that_was_read_for_us_is_of_the_kind_its_address_says():
    texts = PageTexts(
        pages=(FoundPage(url="http://acme.test/about-us", title="", text="We sell tea."),)
    )
    [excerpt] = read_for_us("acme.test", texts)
    assert (excerpt.kind, excerpt.url) == ("about", "http://acme.test/about-us")
