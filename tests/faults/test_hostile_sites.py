"""Sites made to hold us up, mislead us or bring us down: files, pages, patterns, whole sites."""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from urllib.parse import urljoin

import pytest
from protego import Protego
from selectolax.lexbor import LexborHTMLParser

import stoker
from faults.hostile_sites import (
    NAIVE_EMAIL,
    bad_pages,
    bad_robots,
    bad_sitemaps,
    memory_peak,
    processor_time,
)
from faults.site_batch import AGENT, LIMITS
from faults.tally import Tally
from stoker.connectors.contact_reading import contacts
from stoker.connectors.crawling import Crawler
from stoker.connectors.http import Call, Http
from stoker.connectors.page_reading import MOST_LINKS, read_page
from stoker.connectors.robots import read_robots
from stoker.connectors.site_visiting import CrawlLimits
from stoker.connectors.sitemaps import MOST_URLS, read_sitemap
from stoker.connectors.technology import technology
from stoker.core.fingerprints import fingerprint
from stoker.engine.politeness import OwnHosts
from stoker.sandbox.box import Sandbox
from stoker.sandbox.troubles import Trouble
from stoker.testing import FakeClock

pytestmark = pytest.mark.faults

HALF_A_SECOND = 0.5
PAGE_SECONDS = 2.0  # processor time for everything we do with one page
PATTERN_MS = 50


def least_of(work, *, times=3):
    """Return the least it takes: what is above that is the machine's, not ours."""
    return min(processor_time(work) for _ in range(times))


def test_no_robots_txt_takes_longer_than_half_a_second(report):
    tally, worst = Tally(), 0.0
    for name, body in bad_robots():

        def read(body=body):
            rules = read_robots(body, product="stoker")
            for nth in range(6):
                rules.allows(f"http://acme.test/page/{nth}/a/b/c?x={nth}")

        took = least_of(read, times=1)
        if took > HALF_A_SECOND:
            took = least_of(read)
        worst = max(worst, took)
        tally.n += 1
        tally.acked += 1
        if took > HALF_A_SECOND:
            tally.broken.append(f"{name}: {took:.2f} s")

    report(f"robots.txt files that should never be, worst {worst:.2f} s of work", tally)
    assert tally.n >= 50
    assert tally.broken == []


def test_a_reader_of_whole_files_is_caught():
    files = dict(bad_robots())
    body = files["many rules"].decode()

    assert processor_time(lambda: Protego.parse(body)) > HALF_A_SECOND


def test_no_sitemap_is_expanded_followed_or_read_without_end(report):
    tally = Tally()
    for name, body in bad_sitemaps():
        before = memory_peak()
        found = read_sitemap(body)
        tally.n += 1
        if len(found.pages) > MOST_URLS or len(found.maps) > MOST_URLS:
            tally.broken.append(f"{name}: {len(found.pages)} addresses")
        if any("root:" in page or "127.0.0.1" in page for page in found.pages):
            tally.broken.append(f"{name}: it was followed")
        if memory_peak() - before > 64_000_000:
            tally.broken.append(f"{name}: {(memory_peak() - before) / 1e6:.0f} MB")
        if (took := processor_time(lambda body=body: read_sitemap(body))) > PAGE_SECONDS:
            tally.broken.append(f"{name}: {took:.1f} s")

    report("sitemaps that should never be", tally)
    assert tally.n >= 20
    assert tally.broken == []


def test_a_reader_that_expands_entities_is_caught():
    # What expat makes of three small levels of the file that we refuse at sight.
    from xml.etree import ElementTree

    small = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;"><!ENTITY c "&b;&b;&b;">]>'
    text = ElementTree.fromstring(f"{small}<urlset><loc>&c;</loc></urlset>")[0].text

    assert text == "ha" * 9
    assert read_sitemap(f"{small}<urlset><loc>&c;</loc></urlset>".encode()).refused


def test_no_page_holds_us_up(report):
    tally, worst = Tally(), (0.0, "")
    for name, body in bad_pages():

        def read(body=body[:2_000_000]):
            reading = read_page(body, content_type="text/html")
            contacts(reading, url="http://acme.test/")
            technology(reading, url="http://acme.test/", headers={})
            fingerprint(reading.title, reading.text)
            return reading

        took = processor_time(read)
        if took > PAGE_SECONDS:
            took = least_of(read)
        worst = max(worst, (took, name))
        tally.n += 1
        if took > PAGE_SECONDS:
            tally.broken.append(f"{name}: {took:.1f} s")
        if len(read().links) > MOST_LINKS:
            tally.broken.append(f"{name}: too many links")

    report(f"pages that should never be, worst {worst[0]:.2f} s of work ({worst[1]})", tally)
    assert tally.n >= 30
    assert tally.broken == []


def test_a_reader_that_parses_pages_as_they_come_is_caught():
    # A quarter of the levels, and already more than all of our work on the whole page.
    page = b"<div>" * 40_000

    assert processor_time(lambda: LexborHTMLParser(page)) > PAGE_SECONDS


def patterns():
    """Return every pattern that a module of ours has compiled, by where it stands."""
    found = {}
    for module in pkgutil.walk_packages(stoker.__path__, "stoker."):
        try:
            held = vars(importlib.import_module(module.name))
        except ImportError:
            continue  # an extra that is not installed has nothing to offer
        for name, value in held.items():
            for nth, pattern in enumerate(_patterns_in(value)):
                found[f"{module.name}.{name}.{nth}"] = pattern
    return found


def _patterns_in(value):
    if isinstance(value, re.Pattern):
        return [value]
    if isinstance(value, dict):
        return [each for each in value.values() if isinstance(each, re.Pattern)]
    if isinstance(value, tuple | list | set | frozenset):
        return [each for each in value if isinstance(each, re.Pattern)]
    return []


TRIAL = """
import json, re, sys, time
source, flags, is_bytes, limit = json.load(sys.stdin)
pattern = re.compile(source.encode("latin-1") if is_bytes else source, flags)
pieces = ["a", "0", " ", "-", ".", "@", "<", ">", '"', "'", "=", "/", "*", ":", "\\n", "(", "&",
          "#", "a.", "a@", "a-", "0 ", "0.", "0-", "<a ", "<a x=", "a=", "</", "<!--", "at ",
          " dot ",
          "::", "a b", "0/",
          "//", "http://a", "Disallow", "user-agent", "site", "crawl", "cookies ",
          "accept ", "domain ", "page ", "19", "2026-01-01 ", "1,", "views", "x" * 50 + " ", "+65 ",
          "cf", "%41", "<loc>", "charset=", "href=", "©", "日", "\\t", "_", ","]
ends = ["", "!", "\\x00", "@", ">", "日"]
worst = (0.0, "")
for piece in pieces:
    for end in ends:
        text = (piece * (3000 // len(piece) + 1))[:3000] + end
        if is_bytes:
            text = text.encode("utf-8")
        for ask in (pattern.search, pattern.match, pattern.fullmatch):
            least = 9.0
            for _ in range(3):
                began = time.process_time()
                ask(text)
                least = min(least, time.process_time() - began)
                if least * 1000 < limit:
                    break
            worst = max(worst, (least, repr(piece + "..." + end)))
print(json.dumps(worst))
"""


def slowest(pattern, *, timeout=20):
    """Return how long a pattern takes at worst, in ms, and on what; None if it does not end."""
    is_bytes = isinstance(pattern.pattern, bytes)
    source = pattern.pattern.decode("latin-1") if is_bytes else pattern.pattern
    given = json.dumps([source, pattern.flags & ~re.DEBUG, is_bytes, PATTERN_MS])
    try:
        done = subprocess.run(
            [sys.executable, "-c", TRIAL],
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return None
    seconds, what = json.loads(done.stdout)
    return seconds * 1000, what


def test_no_pattern_of_ours_can_be_held_up(report):
    tally, worst = Tally(), (0.0, "", "")
    for where, pattern in patterns().items():
        told = slowest(pattern)
        tally.n += 1
        if told is None:
            tally.broken.append(f"{where} did not end")
            continue
        worst = max(worst, (told[0], where, told[1]))
        if told[0] >= PATTERN_MS:
            tally.broken.append(f"{where} took {told[0]:.0f} ms on {told[1]}")

    report(f"patterns of ours, worst {worst[0]:.1f} ms ({worst[1]} on {worst[2]})", tally)
    assert tally.n >= 50
    assert tally.broken == []


def test_a_pattern_with_a_quantifier_in_a_quantifier_is_caught():
    told = slowest(NAIVE_EMAIL, timeout=5)

    assert told is None or told[0] >= PATTERN_MS


def test_two_hundred_sites_with_every_trouble_there_is_all_end(report):
    """Within their limits, with a sentence each, nothing raised, memory bounded."""
    done = subprocess.run(
        [sys.executable, "-m", "faults.site_batch"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    tally = Tally()
    for visit in told["visits"]:
        tally.n += 1
        tally.acked += visit["outcome"] in ("read", "thin")
        if not 10 < len(visit["reason"]) <= 500:
            tally.broken.append(f"{visit['trouble']}: no sentence")
        if visit["pages"] > LIMITS.pages or visit["requests"] > 4 * LIMITS.pages + 12:
            tally.broken.append(f"{visit['trouble']}: {visit['requests']} requests")
        if visit["bytes"] > LIMITS.bytes + LIMITS.page_bytes:
            tally.broken.append(f"{visit['trouble']}: {visit['bytes']} bytes")
    outcomes = Counter(visit["outcome"] for visit in told["visits"])
    troubles = {visit["trouble"] for visit in told["visits"]}
    report(
        f"sites of {len(troubles)} troubles, {dict(outcomes)}, "
        f"memory grew by {told['grown'] / 1e6:.0f} MB",
        tally,
    )
    assert tally.n == 200
    assert troubles == set(Trouble)
    assert tally.broken == []
    assert told["grown"] < 250_000_000


def test_a_crawler_that_follows_every_link_is_caught_in_a_calendar():
    async def work():
        async with Sandbox(seed=6, companies=20_000) as box:
            made = (box.world.company(index) for index in range(20_000))
            company = next(each for each in made if each.trouble is Trouble.CALENDAR)
            http = Http(user_agent=AGENT, sandbox=box.address)
            waiting, asked = [f"http://{company.domain}/events"], set()
            while waiting and len(asked) < 100:
                asked.add(url := waiting.pop(0))
                call = Call(method="GET", url=url, deadline=timedelta(seconds=5))
                for link in read_page((await http.send(call)).body).links:
                    onward = urljoin(url, link.href)
                    if onward not in asked and onward not in waiting:
                        waiting.append(onward)
            await http.close()
            return len(asked), len(waiting)

    asked, waiting = asyncio.run(work())
    assert asked == 100
    assert waiting  # and there would always be more


@pytest.mark.parametrize(
    ("trouble", "outcomes"),
    [
        (Trouble.FINE, {"read"}),
        (Trouble.THIN, {"thin"}),
        (Trouble.EMPTY, {"thin"}),
        (Trouble.SCRIPT_ONLY, {"thin"}),
        (Trouble.CHALLENGE, {"blocked"}),
        (Trouble.LOGIN, {"blocked"}),
        (Trouble.COOKIE_WALL, {"blocked"}),
        (Trouble.ROBOTS_CLOSED, {"blocked"}),
        (Trouble.ROBOTS_FAILING, {"blocked"}),
        (Trouble.PARKED, {"gone"}),
        (Trouble.GONE, {"gone"}),
        (Trouble.OFF_SITE, {"gone"}),
        (Trouble.INWARD, {"gone"}),
        (Trouble.LOOPING, {"failed"}),
        (Trouble.CALENDAR, {"read"}),
        (Trouble.DEEP_HTML, {"read"}),
        (Trouble.MANY_LINKS, {"read"}),
        (Trouble.BOMB, {"read", "thin"}),
        (Trouble.SOFT_404, {"read"}),
        (Trouble.DUPLICATES, {"read"}),
    ],
)
def test_each_trouble_is_seen_for_what_it_is(trouble, outcomes):
    async def work():
        async with Sandbox(seed=6, companies=20_000) as box:
            made = (box.world.company(index) for index in range(20_000))
            company = next(each for each in made if each.trouble is trouble)
            http = Http(user_agent=AGENT, sandbox=box.address)
            clock = FakeClock()
            limits = CrawlLimits(request=timedelta(seconds=5))
            crawler = Crawler(
                http, pacer=OwnHosts(clock=clock), clock=clock, user_agent=AGENT, limits=limits
            )
            visit = await crawler.visit(company.domain)
            await http.close()
            return visit

    visit = asyncio.run(work())
    assert visit.outcome.value in outcomes, visit.reason
