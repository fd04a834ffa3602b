import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.websites import (
    SearchHit,
    find_company_website,
    find_other_uen,
    get_host,
    get_significant_words,
    mentions_company,
)


def page(url, title="", text=""):
    return SearchHit(url=url, title=title, text=text)


def number(value):
    return Fact.build(FactField.UEN, value, source="x", how=Method.TEXT, confidence=0.9)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ACME ROBOTICS PTE. LTD.", ("acme", "robotics")),
        ("The Singapore Company Pte Ltd", ("the", "singapore", "company", "pte", "ltd")),
        ("3M LLP", ("3m",)),
        ("", ()),
    ],
)
def test_a_name_is_told_from_others_by_what_is_not_its_legal_form(name, words):
    assert get_significant_words(name) == words


@pytest.mark.parametrize(
    ("name", "pages", "site"),
    [
        ("ACME ROBOTICS PTE LTD", ["https://acmerobotics.com/about"], "https://acmerobotics.com/"),
        ("ACME ROBOTICS PTE LTD", ["http://www.acme-robotics.sg/"], "http://www.acme-robotics.sg/"),
        ("ACME ROBOTICS PTE LTD", ["https://sg.linkedin.com/company/acme-robotics"], None),
        ("ACME ROBOTICS PTE LTD", ["https://news.example/acmerobotics"], None),
        ("ACME ROBOTICS PTE LTD", ["https://acm.org/", "nonsense", "ftp://acmerobotics.com"], None),
        ("", ["https://example.com/"], None),
    ],
)
def test_a_site_is_a_companys_own_when_its_host_is_called_like_it(name, pages, site):
    assert find_company_website(name, [page(url) for url in pages]) == site


def test_the_surest_site_wins_whatever_came_first():
    found = [page("https://acme.io/", "Acme Robotics"), page("https://acmerobotics.com/")]
    assert find_company_website("Acme Robotics", found) == "https://acmerobotics.com/"


def test_a_page_speaks_of_a_company_when_it_says_every_word_of_its_name():
    told = page("http://x.test/", "News", "Acme wins a prize for Robotics")
    assert mentions_company("ACME ROBOTICS PTE LTD", told)
    assert not mentions_company("ACME FREIGHT PTE LTD", told)


def test_a_site_that_says_another_number_is_somebody_elses():
    assert find_other_uen("202012345K", [number("201912345Z")]) == "201912345Z"
    assert find_other_uen("202012345K", [number("201912345Z"), number("202012345K")]) == ""
    assert find_other_uen("202012345K", []) == ""


@pytest.mark.parametrize(
    ("website", "host"),
    [
        ("https://www.Acme.com/about", "acme.com"),
        ("acme.com", "acme.com"),
        ("javascript:alert(1)", ""),
        ("", ""),
    ],
)
def test_a_host_is_a_sites_name_alone(website, host):
    assert get_host(website) == host


@given(st.text(max_size=80), st.lists(st.tuples(st.text(max_size=60), st.text(max_size=60))))
def test_strangers_names_and_addresses_never_raise(name, pages):
    found = [page(url, title) for url, title in pages]
    site = find_company_website(name, found)
    assert site is None or site.startswith(("http://", "https://"))
    assert all(isinstance(mentions_company(name, each), bool) for each in found)
