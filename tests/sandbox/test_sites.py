import gzip
import json
import re
import zlib
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protego import Protego

from stoker.sandbox.http import Request
from stoker.sandbox.server import Sandbox
from stoker.sandbox.sites.layout import build_layout
from stoker.sandbox.world.site_faults import SiteFault

SIZE = 5000
BOX = Sandbox(seed=1, companies=SIZE, squatted=[SIZE - 1])
BY_TROUBLE = {
    company.trouble: company
    for company in (BOX.world.get_company(index) for index in reversed(range(SIZE)))
}
places = st.integers(0, SIZE - 1)


def ask(target, *, box=BOX, company=None, host=None, **headers):
    path, _, search = target.partition("?")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return box.answer(
        Request(method="GET", host=host or company.domain, path=path, search=search, headers=named)
    )


def asked_of(trouble, target="/", **headers):
    return ask(target, company=BY_TROUBLE[trouble], **headers)


def layout(company):
    return build_layout(BOX.world, company)


def start_of(told, size):
    pieces, got = [], 0
    for piece in told.stream:
        pieces.append(piece)
        got += len(piece)
        if got >= size:
            break
    return b"".join(pieces)


@settings(max_examples=30, deadline=None)
@given(places, st.integers(0, 400))
def test_the_same_seed_and_night_give_the_same_bytes(index, night):
    one, other = (Sandbox(seed=1, companies=SIZE, dials={"sites.night": night}) for _ in range(2))
    company = BOX.world.get_company(index)
    for path in ["/robots.txt", "/sitemap.xml", "/nothing", *layout(company).pages]:
        first = ask(path, box=one, company=company)
        second = ask(path, box=other, company=company)
        assert (first.status, first.headers, first.body) == (
            second.status,
            second.headers,
            second.body,
        )


@settings(max_examples=30, deadline=None)
@given(places, st.integers(0, 60))
def test_who_has_seen_a_page_is_told_so_unless_it_changed(index, night):
    company = BOX.world.get_company(index)
    box = Sandbox(seed=1, companies=SIZE)
    for path in layout(company).pages:
        box.faults.set_value("sites.night", 0)
        before = ask(path, box=box, company=company)
        seen = {}
        if "etag" in before.headers:
            seen["if_none_match"] = before.headers["etag"]
        if "last-modified" in before.headers:
            seen["if_modified_since"] = before.headers["last-modified"]
        box.faults.set_value("sites.night", night)
        now = ask(path, box=box, company=company)
        again = ask(path, box=box, company=company, **seen)
        if now.body == before.body:
            assert again.status == (304 if seen and now.status == 200 else now.status)
        else:
            assert (again.status, again.body) == (now.status, now.body)


def test_some_pages_change_from_night_to_night_and_most_do_not():
    places = [
        place
        for index in range(300)
        for place in layout(BOX.world.get_company(index)).pages.values()
    ]
    changed = sum(place.count_changes(1) != place.count_changes(0) for place in places) / len(
        places
    )

    assert 0.01 < changed < 0.2


def test_a_fine_site_tells_who_it_is_in_a_way_machines_read():
    company = next(
        each
        for each in map(BOX.world.get_company, range(SIZE))
        if each.trouble is SiteFault.FINE and layout(each).style == "json_ld"
    )
    page = ask("/", company=company).body.decode()
    block = re.search(r'<script type="application/ld\+json">(.*?)</script>', page)
    about = json.loads(block[1])

    assert about["legalName"] == company.name
    assert about["email"] == company.email
    assert about["taxID"] == company.uen
    assert about["numberOfEmployees"]["value"] == company.employees


def test_every_page_linked_from_a_fine_home_is_there():
    company = BY_TROUBLE[SiteFault.FINE]
    page = ask("/", company=company).body.decode()

    for path in re.findall(r'href="(/[^"]*)"', page):
        assert ask(path, company=company).status == 200


def test_pages_are_packed_for_those_who_can_unpack_them():
    company = next(
        each
        for each in map(BOX.world.get_company, range(SIZE))
        if each.trouble is SiteFault.FINE and layout(each).gzip
    )
    packed = ask("/", company=company, accept_encoding="gzip, br")

    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == ask("/", company=company).body


@pytest.mark.parametrize("kind", ["plain", "index", "gzip"])
def test_sitemaps_list_every_page_of_a_site(kind):
    company = next(
        each
        for each in map(BOX.world.get_company, range(SIZE))
        if each.trouble is SiteFault.FINE and layout(each).maps == kind
    )
    robots = Protego.parse(ask("/robots.txt", company=company).body.decode())
    listed, todo = set(), list(robots.sitemaps)
    while todo:
        told = ask(todo.pop().removeprefix(f"http://{company.domain}"), company=company)
        if told.status == 404:
            continue
        text = gzip.decompress(told.body) if told.body[:2] == b"\x1f\x8b" else told.body
        for where in re.findall(r"<loc>(.*?)</loc>", text.decode()):
            if "/sitemap" in where:
                todo.append(where)
            else:
                listed.add(where)

    assert listed == {f"http://{company.domain}{path}" for path in layout(company).pages}


def test_robots_let_polite_crawlers_in_and_keep_staff_pages_to_themselves():
    company = BY_TROUBLE[SiteFault.FINE]
    robots = Protego.parse(ask("/robots.txt", company=company).body.decode())

    assert robots.can_fetch(f"http://{company.domain}/", "Anybody")
    assert not robots.can_fetch(f"http://{company.domain}/admin/login", "Anybody")
    assert not robots.can_fetch(f"http://{company.domain}/", "HungryBot")


# What each trouble does, and where: the home page unless another path is given.
TROUBLES = {
    SiteFault.FINE: lambda told: told.status == 200,
    SiteFault.THIN: lambda told: 0 < len(told.body) < 200,
    SiteFault.EMPTY: lambda told: told.body == b"",
    SiteFault.SLOW: lambda told: told.after,
    SiteFault.DRIPPING: lambda told: told.drip,
    SiteFault.HANGING: lambda told: told.hang,
    SiteFault.CUT: lambda told: len(told.body) < told.lying_length,
    SiteFault.RESETTING: lambda told: told.reset,
    SiteFault.BROKEN_HTML: lambda told: b"</li>" not in told.body,
    SiteFault.DEEP_HTML: lambda told: whole(told).count(b"<") > 100_000,
    SiteFault.HUGE: lambda told: len(whole(told)) > 20_000_000,
    SiteFault.ENDLESS: lambda told: len(start_of(told, 50_000_000)) >= 50_000_000,
    SiteFault.BOMB: lambda told: is_bomb(told),
    SiteFault.MANY_LINKS: lambda told: whole(told).count(b"<a href") == 100_000,
    SiteFault.CALENDAR: lambda told: b'href="/events"' in told.body,
    SiteFault.TO_WWW: lambda told: told.status == 301,
    SiteFault.TO_SECURE: lambda told: told.headers["location"].startswith("https://"),
    SiteFault.LOOPING: lambda told: told.status == 302,
    SiteFault.CHAIN: lambda told: told.status == 302,
    SiteFault.OFF_SITE: lambda told: told.status == 301,
    SiteFault.INWARD: lambda told: told.status == 302,
    SiteFault.NO_HOME: lambda told: told.status == 404,
    SiteFault.GONE: lambda told: told.status == 404,
    SiteFault.FAILING: lambda told: told.status == 500,
    SiteFault.UNAVAILABLE: lambda told: (told.status, "retry-after" in told.headers) == (503, True),
    SiteFault.CHALLENGE: lambda told: told.status == 403,
    SiteFault.LOGIN: lambda told: told.headers["location"].startswith("/login"),
    SiteFault.COOKIE_WALL: lambda told: b"privacy</h1>" in told.body,
    SiteFault.SCRIPT_ONLY: lambda told: b'id="root"' in told.body,
    SiteFault.PARKED: lambda told: b"for sale" in told.body,
    SiteFault.SOFT_404: ("/missing.html", lambda told: told.status == 200),
    SiteFault.DUPLICATES: (
        "/?session=2e",
        lambda told: told.body == asked_of(SiteFault.DUPLICATES).body,
    ),
    SiteFault.LATIN_1: lambda told: letters(told) == ("latin-1", "Müller"),
    SiteFault.MISLABELLED: lambda told: letters(told) == ("utf-8", "Müller"),
    SiteFault.SHIFT_JIS: lambda told: "シンガポール" in told.body.decode("shift_jis"),
    SiteFault.ROBOTS_CLOSED: ("/robots.txt", lambda told: b"Disallow: /\n" in told.body),
    SiteFault.ROBOTS_SLOW: ("/robots.txt", lambda told: b"Crawl-delay: 30" in told.body),
    SiteFault.ROBOTS_FAILING: ("/robots.txt", lambda told: told.status == 500),
    SiteFault.ROBOTS_HUGE: ("/robots.txt", lambda told: len(whole(told)) > 9_000_000),
    SiteFault.ROBOTS_PAGE: ("/robots.txt", lambda told: "html" in told.headers["content-type"]),
    SiteFault.HIDDEN_CONTACTS: lambda told: told.status == 200,
    SiteFault.INJECTION: lambda told: b"display:none" in told.body and b"alt=" in told.body,
    SiteFault.LYING_LENGTH: lambda told: len(told.body) != told.lying_length,
    SiteFault.ODD_SITEMAP: ("/sitemap.xml", lambda told: b"<!ENTITY l9" in start_of(told, 5000)),
    SiteFault.SQUATTED: lambda told: not shows(BY_TROUBLE[SiteFault.SQUATTED], told.body.decode()),
}


@pytest.mark.parametrize("trouble", SiteFault)
def test_every_trouble_is_what_it_says(trouble):
    found = TROUBLES[trouble]
    path, is_so = found if isinstance(found, tuple) else ("/", found)

    assert is_so(asked_of(trouble, path))


def shows(company, markup):
    """Say whether a page shows what the register knows of a company besides its name."""
    return company.uen in markup or company.postal_code in markup


def whole(told):
    return b"".join(told.stream)


def is_bomb(told):
    wire = b"".join(islice(told.stream, 20))
    return len(zlib.decompressobj(31).decompress(wire)) > 500 * len(wire)


def letters(told):
    """Return what a page says its letters are, and a word that stands there in Latin 1."""
    said = told.headers["content-type"].partition("charset=")[2]
    return said, re.search("M.ller", told.body.decode("latin-1"))[0]


def test_who_agrees_to_cookies_is_let_in():
    assert b"privacy</h1>" not in asked_of(SiteFault.COOKIE_WALL, cookie="consent=yes").body


def test_redirects_go_where_their_trouble_says():
    company = BY_TROUBLE[SiteFault.TO_WWW]
    assert asked_of(SiteFault.TO_WWW).headers["location"] == f"http://www.{company.domain}/"
    assert ask("/", host=f"www.{company.domain}").status == 200
    other = asked_of(SiteFault.OFF_SITE).headers["location"]
    assert BOX.world.find_by_domain(other.removeprefix("http://").rstrip("/"))
    for trouble, most, hops in ((SiteFault.CHAIN, 50, 25), (SiteFault.LOOPING, 50, 50)):
        where, met = "/", 0
        while (told := asked_of(trouble, where)).status == 302 and met < most:
            where, met = told.headers["location"], met + 1
        assert met == hops


def test_a_calendar_has_a_next_day_forever():
    where = "/events"
    for _ in range(100):
        links = re.findall(
            rb'href="(/events\?day=[^"]*)"', asked_of(SiteFault.CALENDAR, where).body
        )
        where = links[-1].decode()
    assert asked_of(SiteFault.CALENDAR, "/events?day=9999-12-31").status == 404


def contact_page(trouble):
    company = BY_TROUBLE[trouble]
    path = layout(company).list_kind("contact")[0].path
    return company, ask(path, company=company).body.decode()


def test_hidden_addresses_are_there_but_never_in_plain_letters():
    company, page = contact_page(SiteFault.HIDDEN_CONTACTS)

    assert company.email not in page
    assert " (at) " in page
    assert "data-cfemail" in page
    masked = bytes.fromhex(re.search(r'data-cfemail="([0-9a-f]+)"', page)[1])
    assert bytes(byte ^ masked[0] for byte in masked[1:]).decode() == company.email
    for path in layout(company).pages:
        assert company.email not in ask(path, company=company).body.decode()
