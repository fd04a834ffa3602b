import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.types import is_storable
from stoker.crawl.key_pages import MAX_SITEMAP_URLS, parse_sitemap


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
