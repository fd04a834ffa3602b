from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.counted_work import counted_calls
from stoker.accounts.facts import FactField, Method
from stoker.crawl.contacts import (
    MAX_ATTEMPTS,
    decode_protected_email,
    find_contacts,
    parse_email,
    parse_phone,
)
from stoker.crawl.extract import find_technology
from stoker.crawl.page import parse_page

URL = "https://acme.com.sg/contact"


def found(markup, field):
    return [
        finding
        for finding in find_contacts(parse_page(markup.encode()), url=URL)
        if finding.field is field
    ]


def values(markup, field):
    return [finding.value for finding in found(markup, field)]


def covered(address, key=0x2A):
    return bytes([key, *(byte ^ key for byte in address.encode())]).hex()


@pytest.mark.parametrize(
    "markup",
    [
        "<a href='mailto:info@acme.com.sg'>Write</a>",
        "<a href='MAILTO:Info@ACME.com.sg?subject=Hi&body=x'>Write</a>",
        "<a href='mailto:%69nfo@acme.com.sg'>x</a>",
        "<p>Write to info@acme.com.sg.</p>",
        "<p>(info@acme.com.sg)</p>",
        "<p>info (at) acme (dot) com (dot) sg</p>",
        "<p>info[at]acme.com.sg</p>",
        "<p>info {at} acme {dot} com {dot} sg</p>",
        "<p>info at acme dot com dot sg</p>",
        "<p>&#105;nfo&#64;acme&#46;com.sg</p>",
        "<p>info<span>@</span>acme.com.sg</p>",
        f"<a class=x data-cfemail={covered('info@acme.com.sg')}>[email&nbsp;protected]</a>",
    ],
)
def test_an_address_is_found_however_it_is_written(markup):
    assert values(markup, FactField.EMAIL) == ["info@acme.com.sg"]


@pytest.mark.parametrize(
    "text",
    [
        *("logo@2x.png", "sprite@3x.webp", "a@b", "@acme.com", "a@@b.com", "info@-acme.com"),
        *("user@example.com", "you@domain.com", "x@localhost", "a" * 65 + "@acme.com", "a@1.2.3.4"),
    ],
)
def test_what_only_looks_like_an_address_is_refused(text):
    assert parse_email(text) is None
    assert values(f"<p>{text}</p>", FactField.EMAIL) == []


def test_a_finding_says_where_it_was_found_how_and_in_which_words():
    finding = found("<a href='mailto:info@acme.com.sg'>x</a>", FactField.EMAIL)[0]

    assert (finding.source, finding.method) == (URL, Method.LINK)
    assert finding.evidence == "mailto:info@acme.com.sg"
    assert finding.confidence > found("<p>b (at) acme.com.sg</p>", FactField.EMAIL)[0].confidence


@pytest.mark.parametrize(
    "markup",
    [
        "<a href='tel:+6561234567'>Call</a>",
        "<a href='tel:6123%204567'>Call</a>",
        "<p>Call +65 6123 4567 now</p>",
        "<p>Tel: 6123 4567</p>",
        "<p>(+65) 6123-4567</p>",
        "<p>(65) 6123 4567</p>",
        "<p>6123-4567</p>",
    ],
)
def test_a_number_is_found_however_it_is_written_and_is_international(markup):
    assert values(markup, FactField.PHONE) == ["+6561234567"]


@pytest.mark.parametrize("text", ["201234567K", "12/11/2026 10:30", "1234567", "S$ 12,000.00", "1"])
def test_other_numbers_are_no_phones(text):
    assert values(f"<p>{text}</p>", FactField.PHONE) == []


@pytest.mark.parametrize(
    ("href", "value"),
    [
        ("https://www.linkedin.com/company/acme/?x=1", "https://www.linkedin.com/company/acme"),
        ("http://sg.linkedin.com/company/acme/about", "https://www.linkedin.com/company/acme"),
        ("//facebook.com/acme.sg", "https://www.facebook.com/acme.sg"),
        ("https://twitter.com/acme", "https://x.com/acme"),
        ("https://m.youtube.com/channel/UC1/videos", "https://www.youtube.com/channel/UC1/videos"),
    ],
)
def test_social_pages_are_written_one_way(href, value):
    assert values(f"<a href='{href}'>x</a>", FactField.SOCIAL) == [value]


@pytest.mark.parametrize(
    "href",
    [
        *("https://www.facebook.com/sharer.php?u=x", "https://twitter.com/intent/tweet"),
        *("https://facebook.com/", "https://evil.test/linkedin.com/company/x"),
    ],
)
def test_buttons_for_sharing_are_no_social_pages(href):
    assert values(f"<a href='{href}'>x</a>", FactField.SOCIAL) == []


@given(st.text(max_size=300))
def test_no_text_makes_looking_for_contacts_fail(text):
    found = (parse_email(text), parse_phone(text), decode_protected_email(text))
    assert all(each is None or isinstance(each, str) for each in found)
    assert find_contacts(parse_page(text.encode("utf-8", "replace")), url=URL) is not None


@pytest.mark.parametrize(
    ("markup", "work"),
    [
        ("".join(f"<a href='mailto:{'é@é.é,' * 80}{n}'></a>" for n in range(1_950)), ""),
        ("".join(f"<a href='mailto:{n}é@-é.é'></a>" for n in range(1_950)), "validate_email"),
        (" ".join(f"a@xn--{n}.com" for n in range(6_000)), "validate_email"),
        (" ".join(f"a{n} at xn--{n} dot com" for n in range(4_000)), "validate_email"),
        (" ".join(f"0000{n:04d};" for n in range(9_000)), "is_valid_number"),
        ("".join(f"<a href='tel:0000{n:04d}'></a>" for n in range(1_950)), "is_valid_number"),
        ("".join(f"<p>a{n}@acme.com.sg +65 6123 {n:04d}</p>" for n in range(500)), ""),
    ],
)
def test_so_many_texts_are_tried_however_many_there_are_and_whatever_comes_of_them(markup, work):
    page = parse_page(f"<body>{markup}".encode(), content_type="text/html; charset=utf-8")
    with counted_calls() as calls:
        facts = find_contacts(page, url=URL)
    kinds = Counter(fact.field for fact in facts)
    assert kinds[FactField.EMAIL] <= 30
    assert kinds[FactField.PHONE] <= 20
    assert max(calls["validate_email"], calls["is_valid_number"]) <= MAX_ATTEMPTS
    assert not work or calls[work] == MAX_ATTEMPTS


def test_what_a_site_is_built_with_is_told_by_what_it_loads_and_says():
    reading = parse_page(
        b'<meta name=generator content="WordPress 6.5"><script src="https://js.stripe.com/v3"></script>'
    )

    names = {finding.value for finding in find_technology(reading, url=URL, server="nginx/1.2")}
    assert names == {"WordPress", "Stripe", "nginx"}
