"""Sites made to hold us up, mislead us or bring us down, and patterns that could be held up."""

import re
from datetime import timedelta
from urllib.parse import urljoin

import pytest
from selectolax.lexbor import LexborHTMLParser

from faults import site_trials
from faults.site_batch import AGENT
from faults.site_trials import PATTERN_MS, PatternTrials
from stoker.crawl.key_pages import parse_sitemap
from stoker.crawl.page import MAX_TAGS, parse_page, sanitize_html
from stoker.crawl.service import Crawler
from stoker.crawl.visit import CrawlLimits
from stoker.http.client import HttpClient, Request
from stoker.rate_limits.host_delays import LocalHostPacer
from stoker.sandbox.server import Sandbox
from stoker.sandbox.world.site_faults import SiteFault
from stoker.testing import FakeClock

pytestmark = pytest.mark.faults

# A reader of addresses as one finds them in a thousand places, with a quantifier in a quantifier.
NAIVE_EMAIL = re.compile(r"^([a-zA-Z0-9]+[._-]?)+@[a-z]+\.[a-z]+$")


def test_a_reader_that_expands_entities_is_caught():
    # What expat makes of three small levels of the file that we refuse at sight.
    from xml.etree import ElementTree

    small = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;"><!ENTITY c "&b;&b;&b;">]>'
    text = ElementTree.fromstring(f"{small}<urlset><loc>&c;</loc></urlset>")[0].text

    assert text == "ha" * 9
    assert parse_sitemap(f"{small}<urlset><loc>&c;</loc></urlset>".encode()).refused


def test_a_reader_that_parses_pages_as_they_come_is_caught():
    # The parser's time grows with the square of the levels, so their number is what is bounded.
    page = "<div>" * (MAX_TAGS + 2_000)

    assert levels(page) > MAX_TAGS + 2_000
    assert levels(sanitize_html(page)) <= MAX_TAGS + ROOTS


ROOTS = 3  # the document, html, body


def levels(markup):
    """Count the elements around the innermost one, and itself."""
    node, number = LexborHTMLParser(markup).css("div")[-1], 0
    while node is not None:
        node, number = node.parent, number + 1
    return number


def test_no_pattern_of_ours_can_be_held_up(report):
    tally, worst = site_trials.held_up()
    report(f"D9 patterns of ours, worst {worst[0]:.1f} ms ({worst[1]} on {worst[2]})", tally)
    assert tally.n >= 50
    assert tally.broken == []


def test_a_pattern_with_a_quantifier_in_a_quantifier_is_caught():
    with PatternTrials(seconds=2) as trials:
        told = trials.slowest(NAIVE_EMAIL)

    assert told is None or told[0] >= PATTERN_MS


def test_two_hundred_sites_with_every_trouble_there_is_all_end(report):
    """Within their limits, with a sentence each, nothing raised, memory bounded."""
    tally, told = site_trials.visited(200)
    report(
        f"D8 sites of {len(told['troubles'])} troubles, {dict(told['outcomes'])}, "
        f"memory grew by {told['grown'] / 1e6:.0f} MB",
        tally,
    )
    assert tally.n == 200
    assert told["troubles"] == set(SiteFault) - {SiteFault.SQUATTED}  # whose pages are as others
    assert tally.broken == []


async def test_a_crawler_that_follows_every_link_is_caught_in_a_calendar():
    async with Sandbox(seed=6, companies=20_000) as box:
        made = (box.world.get_company(index) for index in range(20_000))
        company = next(each for each in made if each.trouble is SiteFault.CALENDAR)
        http = HttpClient(user_agent=AGENT, sandbox=box.address)
        waiting, asked = [f"http://{company.domain}/events"], set()
        while waiting and len(asked) < 100:
            asked.add(url := waiting.pop(0))
            call = Request(method="GET", url=url, deadline=timedelta(seconds=5))
            for link in parse_page((await http.send(call)).body).links:
                onward = urljoin(url, link.href)
                if onward not in asked and onward not in waiting:
                    waiting.append(onward)
        await http.close()
        asked, waiting = len(asked), len(waiting)
    assert asked == 100
    assert waiting  # and there would always be more


@pytest.mark.parametrize(
    ("trouble", "outcomes"),
    [
        (SiteFault.FINE, {"read"}),
        (SiteFault.THIN, {"thin"}),
        (SiteFault.EMPTY, {"thin"}),
        (SiteFault.SCRIPT_ONLY, {"thin"}),
        (SiteFault.CHALLENGE, {"blocked"}),
        (SiteFault.LOGIN, {"blocked"}),
        (SiteFault.COOKIE_WALL, {"blocked"}),
        (SiteFault.ROBOTS_CLOSED, {"blocked"}),
        (SiteFault.ROBOTS_FAILING, {"blocked"}),
        (SiteFault.PARKED, {"gone"}),
        (SiteFault.GONE, {"gone"}),
        (SiteFault.OFF_SITE, {"gone"}),
        (SiteFault.INWARD, {"gone"}),
        (SiteFault.LOOPING, {"failed"}),
        (SiteFault.CALENDAR, {"read"}),
        (SiteFault.DEEP_HTML, {"read"}),
        (SiteFault.MANY_LINKS, {"read"}),
        (SiteFault.BOMB, {"read", "thin"}),
        (SiteFault.SOFT_404, {"read"}),
        (SiteFault.DUPLICATES, {"read"}),
    ],
)
async def test_each_trouble_is_seen_for_what_it_is(trouble, outcomes):
    async with Sandbox(seed=6, companies=20_000) as box:
        made = (box.world.get_company(index) for index in range(20_000))
        company = next(each for each in made if each.trouble is trouble)
        http = HttpClient(user_agent=AGENT, sandbox=box.address)
        clock = FakeClock()
        limits = CrawlLimits(request=timedelta(seconds=5))
        crawler = Crawler(
            http,
            pacer=LocalHostPacer(clock=clock),
            clock=clock,
            user_agent=AGENT,
            limits=limits,
        )
        visit = await crawler.visit(company.domain)
        await http.close()

    assert visit.outcome.value in outcomes, visit.reason
