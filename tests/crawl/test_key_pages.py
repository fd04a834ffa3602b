import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.counted_work import counted_calls
from stoker.base.types import is_storable
from stoker.crawl.key_pages import (
    HOME,
    KINDS,
    MAX_SITEMAP_URLS,
    OTHER,
    KeyPage,
    Link,
    choose_key_pages,
    get_page_kind,
    list_site_pages,
    parse_page_url,
    parse_sitemap,
)
from stoker.http.url import parse_url

HOME_PAGE = parse_url("http://acme.test/")
words = st.sampled_from([word for some in KINDS.values() for word in some] + ["x", "y", "z1"])
paths = st.lists(words, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
texts = st.sampled_from(["", "About us", "Contact", "Our Team", "Read more", "Careers"])
link_lists = st.lists(st.tuples(paths, texts), max_size=40)


def addressed(links):
    found = ((parse_page_url(HOME_PAGE, href), text) for href, text in links)
    return [(address, text) for address, text in found if address is not None]


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("/about-us", "", "about"),
        ("/company/about.html", "", "about"),
        ("/p/17", "Contact Us", "contact"),
        ("/our-team/", "", "team"),
        ("/en/careers", "", "careers"),
        ("/meet-leadership", "", "team"),
        ("/x", "关于我们", "about"),
        ("/tentang-kami", "", "about"),
        ("/blog/about-water", "", "news"),
        ("/index.php", "", OTHER),
        ("/q", "read more", OTHER),
    ],
)
def test_a_pages_kind_is_told_by_its_path_or_the_words_on_its_link(path, text, kind):
    assert get_page_kind(path, text) == kind


def test_pages_about_the_company_come_first_and_news_last():
    links = [("/blog", ""), ("/x", ""), ("/careers", ""), ("/contact", ""), ("/about", "")]

    found = choose_key_pages(addressed(links), most=5)

    assert [page.kind for page in found] == ["about", "contact", "careers", "news", OTHER]


def test_one_page_of_each_kind_comes_before_two_of_any():
    links = [("/about", ""), ("/about/history", ""), ("/pricing", "")]

    assert [page.kind for page in choose_key_pages(addressed(links), most=2)] == [
        "about",
        "pricing",
    ]


@given(link_lists, st.integers(1, 10))
def test_never_more_than_asked_for_and_no_page_twice(links, most):
    found = choose_key_pages(addressed(links), most=most)

    assert len(found) <= most
    assert len({page.url for page in found}) == len(found)


@given(link_lists)
def test_what_was_read_already_is_not_wanted_again(links):
    first = choose_key_pages(addressed(links), most=5)
    again = choose_key_pages(addressed(links), most=50, not_again=[page.url for page in first])

    assert not {page.url for page in first} & {page.url for page in again}


@given(st.permutations(["/about", "/contact", "/team", "/careers", "/pricing"]))
def test_the_order_of_links_of_different_kinds_does_not_matter(hrefs):
    found = choose_key_pages(addressed([(href, "") for href in hrefs]), most=5)

    assert [page.kind for page in found] == ["about", "contact", "team", "careers", "pricing"]


@pytest.mark.parametrize(
    "href",
    [
        *("mailto:a@b.c", "tel:+65", "javascript:void(0)", "#top", "data:text/html,x", "ftp://x/"),
        *("/a.pdf", "/logo.PNG", "/events?day=2026-01-01", "/calendar/2026", "/2026/01/02/post"),
        *("/a/b/c/d/e", "/a/b/a/b", "/page/2", "/search?q=x", "/x?" + "y" * 200, "http://["),
        *("/tag/blue", "/login", "/wp-admin/", "/news/2026-11"),
    ],
)
def test_what_is_no_page_or_has_no_end_is_left_alone(href):
    assert parse_page_url(HOME_PAGE, href) is None


def test_addresses_that_differ_in_what_counts_clicks_are_one():
    hrefs = ["/about?utm_source=x", "/about?ref=footer", "/about/", "/about", "/about?session=2"]

    assert len(choose_key_pages(addressed([(href, "") for href in hrefs]), most=9)) == 1


def test_the_home_page_under_other_names_is_not_a_key_page():
    hrefs = ["/", "/index.html", "/?lang=en", "http://www.acme.test/"]

    links = addressed([(href, "") for href in hrefs])
    assert choose_key_pages(links, most=9, not_again=["http://acme.test/"]) == []


def test_a_key_page_knows_its_kind():
    assert choose_key_pages(addressed([("/jobs", "")]), most=1) == [
        KeyPage(url="http://acme.test/jobs", kind="careers")
    ]
    assert HOME not in KINDS


@pytest.mark.parametrize("home", ["http://acme.test/", "http://é.test/"])
def test_hosts_of_other_sites_are_not_written_as_dns_knows_them(home):
    other = [Link(f"http://{n}.{'é.' * 100}com/about") for n in range(500)]
    links = [*other, Link("//other.test/team"), Link(f"{home}about"), Link("/team")]
    with counted_calls() as calls:
        found = list(list_site_pages(parse_url(home), links, room=1_000))
    assert [at.target for at, _ in found] == ["/about", "/team"]
    assert calls["alabel"] < 20


def test_hosts_of_our_site_are_written_as_dns_knows_them_up_to_a_bound():
    links = [Link(f"http://{n}.{'é.' * 100}é.test/about") for n in range(500)]
    with counted_calls() as calls:
        list(list_site_pages(parse_url("http://é.test/"), links, room=1_000))
    assert calls["alabel"] < 21 * 110


def test_links_are_taken_only_as_far_as_there_is_room_for_them():
    links = [Link(f"/{n}", "x" * 94) for n in range(10, 99)]
    assert len(list(list_site_pages(HOME_PAGE, links, room=1_000))) == 10


def urlset(*urls):
    return (
        "<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>"
    ).encode()


def test_pages_are_listed_in_order_each_once():
    found = parse_sitemap(urlset("http://a.test/x", "http://a.test/y", "http://a.test/x"))

    assert found.pages == ("http://a.test/x", "http://a.test/y")
    assert found.maps == ()


def test_an_index_lists_further_files():
    body = b"<sitemapindex><sitemap><loc> http://a.test/1.xml.gz </loc></sitemap></sitemapindex>"

    assert parse_sitemap(body).maps == ("http://a.test/1.xml.gz",)


def test_packed_files_and_lists_in_plain_text_are_read():
    assert parse_sitemap(gzip.compress(urlset("http://a.test/x"))).pages == ("http://a.test/x",)
    assert parse_sitemap(b"http://a.test/x\nnonsense\n").pages == ("http://a.test/x",)


def test_addresses_are_unquoted_as_xml_has_it():
    assert parse_sitemap(urlset("http://a.test/x?a=1&amp;b=2")).pages == (
        "http://a.test/x?a=1&b=2",
    )
    assert parse_sitemap(b"<urlset><loc><![CDATA[http://a.test/x]]></loc>").pages == (
        "http://a.test/x",
    )


def test_what_is_no_web_address_is_left_out():
    body = urlset("javascript:alert(1)", "file:///etc/passwd", "ftp://x/", "http://a.test/x")

    assert parse_sitemap(body).pages == ("http://a.test/x",)


def test_there_are_never_more_than_the_format_allows():
    body = urlset(*(f"http://a.test/{nth}" for nth in range(MAX_SITEMAP_URLS + 10_000)))

    assert len(parse_sitemap(body).pages) == MAX_SITEMAP_URLS


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE x [<!ENTITY a "b">]><urlset><loc>http://a.test/&a;</loc></urlset>',
        b'<!doctype x SYSTEM "file:///etc/passwd"><urlset><loc>http://a.test/</loc></urlset>',
    ],
)
def test_a_file_that_declares_entities_is_refused(body):
    found = parse_sitemap(body)

    assert found.pages == ()
    assert "entities" in found.refused


ONE = "http://a.test/x"


@given(st.binary(max_size=2000))
def test_whatever_a_file_is_nothing_but_web_addresses_comes_out_of_it(body):
    for file in (body, b"\x1f\x8b" + body, gzip.compress(body), b"<urlset><loc>" + body):
        found = parse_sitemap(file)
        listed = (*found.pages, *found.maps)
        assert all(each.startswith(("http://", "https://")) for each in listed)
        assert all(is_storable(each) for each in listed)
        assert not (found.pages and found.maps)
        assert not (found.refused and listed)


@given(st.binary(max_size=2000), st.booleans())
def test_no_nonsense_hides_an_address_that_stands_before_it(body, packed):
    file = urlset(ONE) + body
    found = parse_sitemap(gzip.compress(file) if packed else file)
    assert found.refused or (*found.pages, *found.maps)[0] == ONE
    declares = b"<!doctype" in file.lower() or b"<!entity" in file.lower()
    assert bool(found.refused) >= declares
    assert b"<!" in file or not found.refused
