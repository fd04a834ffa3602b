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
BOX = Sandbox(seed=1, companies=SIZE)
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


STATUSES = {
    SiteFault.NO_HOME: 404,
    SiteFault.GONE: 404,
    SiteFault.FAILING: 500,
    SiteFault.UNAVAILABLE: 503,
    SiteFault.CHALLENGE: 403,
    SiteFault.TO_WWW: 301,
    SiteFault.TO_SECURE: 301,
    SiteFault.OFF_SITE: 301,
    SiteFault.LOOPING: 302,
    SiteFault.CHAIN: 302,
    SiteFault.INWARD: 302,
    SiteFault.LOGIN: 302,
}


@pytest.mark.parametrize("trouble", SiteFault)
def test_every_kind_of_site_answers_its_home_page_in_its_own_way(trouble):
    told = asked_of(trouble)

    assert told.status == STATUSES.get(trouble, 200)


def test_texts_of_sites_that_say_little():
    assert asked_of(SiteFault.EMPTY).body == b""
    assert len(asked_of(SiteFault.THIN).body) < 200
    assert b"for sale" in asked_of(SiteFault.PARKED).body
    assert b'id="root"' in asked_of(SiteFault.SCRIPT_ONLY).body
    assert b'type="password"' in asked_of(SiteFault.LOGIN, "/login").body
    assert b"privacy" in asked_of(SiteFault.COOKIE_WALL).body
    assert b"privacy</h1>" not in asked_of(SiteFault.COOKIE_WALL, cookie="consent=yes").body
    assert asked_of(SiteFault.SOFT_404, "/missing.html").status == 200


def test_texts_are_in_the_letters_their_site_uses():
    latin, wrong = asked_of(SiteFault.LATIN_1), asked_of(SiteFault.MISLABELLED)
    japanese = asked_of(SiteFault.SHIFT_JIS)

    assert "Müller" in latin.body.decode("latin-1")
    assert "latin-1" in latin.headers["content-type"]
    assert "utf-8" in wrong.headers["content-type"]
    with pytest.raises(UnicodeDecodeError):
        wrong.body.decode()
    assert "シンガポール" in japanese.body.decode("shift_jis")
    assert japanese.headers["content-type"] == "text/html"


def test_redirects_go_where_their_trouble_says():
    company = BY_TROUBLE[SiteFault.TO_WWW]
    assert asked_of(SiteFault.TO_WWW).headers["location"] == f"http://www.{company.domain}/"
    assert ask("/", host=f"www.{company.domain}").status == 200
    assert asked_of(SiteFault.TO_SECURE).headers["location"].startswith("https://")
    other = asked_of(SiteFault.OFF_SITE).headers["location"]
    assert BOX.world.find_by_domain(other.removeprefix("http://").rstrip("/"))
    where, hops = "/", 0
    while (told := asked_of(SiteFault.CHAIN, where)).status == 302:
        where, hops = told.headers["location"], hops + 1
    assert hops == 25
    where = "/"
    for _ in range(50):
        told = asked_of(SiteFault.LOOPING, where)
        assert told.status == 302
        where = told.headers["location"]


def test_a_calendar_has_a_next_day_forever():
    where = "/events"
    for _ in range(100):
        links = re.findall(
            rb'href="(/events\?day=[^"]*)"', asked_of(SiteFault.CALENDAR, where).body
        )
        assert links
        where = links[-1].decode()
    assert b'href="/events"' in asked_of(SiteFault.CALENDAR).body
    assert asked_of(SiteFault.CALENDAR, "/events?day=9999-12-31").status == 404


def test_the_same_page_stands_under_many_addresses():
    assert (
        asked_of(SiteFault.DUPLICATES).body
        == asked_of(SiteFault.DUPLICATES, "/?session=2e").body
        == asked_of(SiteFault.DUPLICATES, "/?utm_source=mail").body
    )


def test_large_pages_are_as_large_as_they_say():
    assert sum(map(len, asked_of(SiteFault.HUGE).stream)) > 20_000_000
    assert b"".join(asked_of(SiteFault.MANY_LINKS).stream).count(b"<a href") == 100_000
    assert b"".join(asked_of(SiteFault.DEEP_HTML).stream).count(b"<") > 100_000
    assert len(start_of(asked_of(SiteFault.ENDLESS), 50_000_000)) >= 50_000_000
    assert sum(map(len, asked_of(SiteFault.ROBOTS_HUGE, "/robots.txt").stream)) > 9_000_000


def test_a_bomb_is_small_until_it_is_unpacked():
    told = asked_of(SiteFault.BOMB)
    unpack, size, wire = zlib.decompressobj(31), 0, 0
    for piece in islice(told.stream, 20):
        wire += len(piece)
        size += len(unpack.decompress(piece))

    assert size > 500 * wire


def test_a_sitemap_can_be_an_attack():
    start = start_of(asked_of(SiteFault.ODD_SITEMAP, "/sitemap.xml"), 5000)
    assert b"<!ENTITY l9" in start
    assert b"file:///" in start


def test_robots_can_be_anything():
    assert b"Disallow: /\n" in asked_of(SiteFault.ROBOTS_CLOSED, "/robots.txt").body
    assert b"Crawl-delay: 30" in asked_of(SiteFault.ROBOTS_SLOW, "/robots.txt").body
    assert asked_of(SiteFault.ROBOTS_FAILING, "/robots.txt").status == 500
    assert "html" in asked_of(SiteFault.ROBOTS_PAGE, "/robots.txt").headers["content-type"]


def test_slow_and_broken_answers_say_so():
    assert asked_of(SiteFault.SLOW).after
    assert asked_of(SiteFault.DRIPPING).drip
    assert asked_of(SiteFault.HANGING).hang
    assert asked_of(SiteFault.RESETTING).reset
    cut, lying = asked_of(SiteFault.CUT), asked_of(SiteFault.LYING_LENGTH)
    assert len(cut.body) < cut.lying_length
    assert len(lying.body) != lying.lying_length
    assert b"</li>" not in asked_of(SiteFault.BROKEN_HTML).body


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


def test_pages_that_give_orders_give_them_in_many_ways():
    page = asked_of(SiteFault.INJECTION).body.decode()

    assert "display:none" in page
    assert "alt=" in page
    assert "\u200b" in page
