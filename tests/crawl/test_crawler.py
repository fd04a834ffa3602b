import asyncio
import itertools
from datetime import timedelta

import pytest

from kit.own_site import AGENT, HOST, makers, page, site, with_etag
from stoker.accounts.facts import FactField
from stoker.base.errors import PermanentError
from stoker.base.process_pool import ProcessPool
from stoker.crawl.fetch import CrawlUsage, PoliteFetcher
from stoker.crawl.model import VisitOutcome, VisitRequest
from stoker.crawl.service import CrawlConnector, Crawler
from stoker.crawl.visit import CrawlLimits
from stoker.http.client import HttpClient
from stoker.http.url import parse_url
from stoker.rate_limits.host_delays import LocalHostPacer
from stoker.sandbox.http import Response, to_page_response, to_text_response
from stoker.sandbox.server import Sandbox
from stoker.sandbox.sites.layout import build_layout
from stoker.sandbox.world.site_faults import SiteFault
from stoker.testing import FakeClock

KEY_LINKS = (
    "<a href=/blog>Blog</a><a href=/about>About</a><a href=/contact>Contact</a>"
    "<a href=/team>Team</a><a href=/jobs>Jobs</a><a href=/pricing>Pricing</a><a href=/x>More</a>"
)
WHOLE = {
    "/": KEY_LINKS,
    **{f"/{name}": f"<h1>{name}</h1>" for name in ("blog", "about", "contact", "team", "jobs")},
    "/pricing": "<h1>pricing</h1>",
    "/x": "<h1>x</h1>",
}


def run(work):
    return asyncio.run(work)


async def visited(served, /, *, hosts=None, url=HOST, known=(), **limits):
    """Visit a site once; return the visit, what was asked for and the time that passed."""

    async with site(served, hosts=hosts, **limits) as own:
        visit = await own.visit(url, known=known)
        return visit, own.asked, own.clock.elapsed()


async def test_a_visit_reads_the_home_page_then_the_pages_that_tell_most():
    visit, asked, _ = await visited(WHOLE)

    assert visit.outcome is VisitOutcome.READ
    assert asked == ["/robots.txt", "/", "/about", "/contact", "/team", "/jobs", "/pricing"]
    kinds = ["home", "about", "contact", "team", "careers", "pricing"]
    assert [each.kind for each in visit.pages] == kinds
    assert visit.requests == 7
    assert visit.limits_hit == ("pages",)


async def test_requests_to_a_host_are_half_a_second_apart():
    _, asked, elapsed = await visited(WHOLE)

    assert elapsed == timedelta(seconds=0.5) * (len(asked) - 1)


async def test_a_longer_wait_asked_for_in_robots_txt_is_kept():
    rules = to_text_response("User-agent: *\nCrawl-delay: 7\n")

    _, asked, elapsed = await visited({**WHOLE, "/robots.txt": rules})

    assert elapsed == timedelta(seconds=7) * (len(asked) - 1)


async def test_a_site_that_wants_more_than_a_minute_is_asked_for_its_home_page_only():
    rules = to_text_response("User-agent: *\nCrawl-delay: 3600\n")

    visit, asked, _ = await visited({**WHOLE, "/robots.txt": rules})

    assert asked == ["/robots.txt", "/"]
    assert [each.kind for each in visit.pages] == ["home"]


async def test_a_visit_that_would_wait_beyond_its_time_ends_before_waiting():
    rules = to_text_response("User-agent: *\nCrawl-delay: 30\n")

    visit, asked, elapsed = await visited(
        {**WHOLE, "/robots.txt": rules}, site=timedelta(seconds=70)
    )

    assert elapsed <= timedelta(seconds=70)
    assert asked == ["/robots.txt", "/", "/about"]
    assert visit.limits_hit == ("time",)


@pytest.mark.parametrize(
    ("rules", "asked"),
    [
        ("User-agent: *\nDisallow: /", ["/robots.txt"]),
        ("User-agent: stoker\nDisallow: /", ["/robots.txt"]),
        ("User-agent: *\nDisallow: /t", ["/robots.txt", "/", "/about", "/contact", "/jobs"]),
    ],
)
async def test_what_robots_txt_does_not_want_is_not_asked_for(rules, asked):
    _, seen, _ = await visited({**WHOLE, "/robots.txt": to_text_response(rules)}, pages=4)

    assert seen == asked


@pytest.mark.parametrize("status", [500, 502, 503, 429])
async def test_a_robots_txt_that_cannot_be_read_closes_the_site(status):
    visit, asked, _ = await visited({**WHOLE, "/robots.txt": to_text_response("no", status=status)})

    assert visit.outcome is VisitOutcome.BLOCKED
    assert visit.unwanted
    assert asked == ["/robots.txt"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
async def test_a_robots_txt_that_is_not_there_opens_it(status):
    visit, _, _ = await visited({**WHOLE, "/robots.txt": to_text_response("no", status=status)})

    assert visit.outcome is VisitOutcome.READ


async def test_a_robots_txt_elsewhere_is_followed():
    moved = Response(status=301, headers={"location": "/rules.txt"})
    closed = to_text_response("User-agent: *\nDisallow: /")

    visit, _, _ = await visited({**WHOLE, "/robots.txt": moved, "/rules.txt": closed})

    assert visit.outcome is VisitOutcome.BLOCKED
    assert visit.unwanted


async def test_who_is_kept_out_by_a_page_was_not_asked_to_stay_away():
    visit, _, _ = await visited({"/": to_page_response("<p>Verify you are human</p>")})

    assert (visit.outcome, visit.unwanted) == (VisitOutcome.BLOCKED, False)


@pytest.mark.parametrize(("room", "times"), [(3, [1, 1]), (2, [2, 2])])
async def test_only_so_many_words_of_rules_are_remembered(room, times):
    rules, other, minute = "Disallow: /secret", "other.test", timedelta(minutes=1)
    pages = {**WHOLE, "/robots.txt": to_text_response(f"User-agent: *\n{rules}")}

    async def work():
        async with Sandbox(vendors=makers({HOST: pages, other: pages})) as box:
            clock, http = FakeClock(), HttpClient(user_agent=AGENT, sandbox=box.address)
            asking = PoliteFetcher(
                http,
                pacer=LocalHostPacer(clock=clock),
                clock=clock,
                pool=ProcessPool(),
                user_agent=AGENT,
                most_rules=room * len("-/secret") - 1,
            )
            for host in (HOST, other, HOST, other):
                address, until = parse_url(f"http://{host}/"), clock.elapsed() + minute
                robots = await asking.get_robots(address, CrawlUsage(until))
                assert not robots.allows(f"http://{host}/secret")
            await http.close()
            return [seen.host for seen in box.log]

    asked = await work()
    assert [asked.count(host) for host in (HOST, other)] == times


async def test_rules_that_another_host_of_the_site_has_are_read_in_its_turn_and_once():
    www = f"www.{HOST}"
    moved = {
        name: Response(status=301, headers={"location": f"http://{www}{name}"})
        for name in ("/", "/robots.txt")
    }
    rules = with_etag("# nothing", '"r"')

    shown = {www: {**WHOLE, "/robots.txt": rules}}
    async with site(moved, hosts=shown) as own:
        first = await own.visit()
        asked = [(seen.host, seen.target) for seen in own.box.log]
        elapsed = own.clock.elapsed()
    async with site(moved, hosts=shown) as own:
        first, asked, elapsed, second = first, asked, elapsed, await own.visit(known=first.seen)
    assert asked[:4] == [(HOST, "/robots.txt"), (www, "/robots.txt"), (HOST, "/"), (www, "/")]
    assert first.requests == len(asked)
    to_www = sum(host == www for host, _ in asked)
    assert elapsed == timedelta(seconds=0.5) * (to_www - 1)
    assert second.not_modified == 1


async def test_rules_that_lead_on_and_on_are_as_good_as_none():
    visit, asked, _ = await visited(
        {**WHOLE, "/robots.txt": Response(status=302, headers={"location": "/robots.txt"})}
    )
    assert visit.outcome is VisitOutcome.READ
    assert asked.count("/robots.txt") == 6


@pytest.mark.parametrize(
    ("first", "hours", "outcome"),
    [
        ("# nothing", 23, VisitOutcome.UNCHANGED),
        ("# nothing", 25, VisitOutcome.BLOCKED),
        ("User-agent: *\nDisallow: /x", 1, VisitOutcome.BLOCKED),
    ],
)
async def test_a_robots_txt_that_was_open_today_still_is_while_it_cannot_be_read(
    first, hours, outcome
):
    rules = [to_text_response(first)]
    pages = {**WHOLE, "/robots.txt": lambda asked: rules[0]}

    async with site(pages) as own:
        visit = await own.visit()
    rules[0] = to_text_response("broken", status=500)
    # A process of its own: it has only what was remembered.
    async with site(pages) as own:
        own.clock.advance(timedelta(hours=hours))
        assert (await own.visit(known=visit.seen)).outcome is outcome


async def test_a_robots_txt_known_to_say_nothing_is_asked_for_only_if_it_changed():
    def rules(asked):
        if asked.headers.get("if-none-match") == '"r"':
            return Response(status=304)
        return to_text_response("# nothing").replace_fields(headers={"etag": '"r"'})

    async with site({**WHOLE, "/robots.txt": rules}) as own:
        visit = await own.visit()
    async with site({**WHOLE, "/robots.txt": rules}) as own:
        assert (await own.visit(known=visit.seen)).not_modified == 1


async def test_a_host_that_nobody_can_reach_failed_and_did_not_forbid():
    visit, _, _ = await visited(
        {"/robots.txt": Response(hang=True)}, request=timedelta(seconds=0.3)
    )

    assert visit.outcome is VisitOutcome.FAILED


async def test_a_site_of_one_page_that_did_not_change_takes_one_request():
    async with site({"/": with_etag("<p>All there is</p>", '"1"')}) as own:
        first = await own.visit()
        again = await own.visit(known=first.seen)
    assert (again.outcome, again.requests) == (VisitOutcome.UNCHANGED, 1)


async def test_robots_txt_is_asked_for_once_a_day():
    async with site(WHOLE) as own:
        await own.visit()
        await own.visit()
        once = own.asked.count("/robots.txt")
        own.clock.advance(timedelta(hours=25))
        await own.visit()
        assert (once, own.asked.count("/robots.txt")) == (1, 2)


async def test_a_site_visited_again_is_asked_only_for_what_changed():
    pages = {
        "/": with_etag(KEY_LINKS, '"1"'),
        "/about": with_etag("<h1>about</h1>", '"2"'),
        "/contact": with_etag("<h1>contact</h1>", '"3"'),
    }

    async with site(pages) as own:
        first = await own.visit()
        before = len(own.asked)
        own.clock.advance(timedelta(hours=1))
        first, again, asked = first, await own.visit(known=first.seen), own.asked[before:]
    assert first.outcome is VisitOutcome.READ
    assert again.outcome is VisitOutcome.UNCHANGED
    assert again.not_modified == 3
    assert again.bytes == 0
    assert asked == ["/", "/about", "/contact"]
    assert {seen.url: seen.changed_at for seen in again.seen}.items() <= {
        seen.url: seen.changed_at for seen in first.seen
    }.items()


async def test_a_page_that_says_something_else_is_read_and_dated():
    words = ["anvils"]
    pages = {**WHOLE, "/about": lambda asked: to_page_response(page(f"<h1>{words[0]}</h1>"))}

    async with site(pages) as own:
        first = await own.visit()
        own.clock.advance(timedelta(hours=1))
        same = await own.visit(known=first.seen)
        words[0] = "hammers"
        own.clock.advance(timedelta(hours=1))
        same, changed, now = same, await own.visit(known=same.seen), own.clock.now()
    assert same.outcome is VisitOutcome.UNCHANGED
    assert changed.outcome is VisitOutcome.READ
    dates = {seen.url: seen.changed_at for seen in changed.seen}
    about = f"http://{HOST}/about"
    assert dates.pop(about) > now - timedelta(minutes=1)
    assert all(date < now - timedelta(hours=1) for date in dates.values())


async def test_markup_that_differs_on_every_visit_is_no_change():
    nonces = iter(range(100))

    def told(asked):
        return to_page_response(page(f"<script nonce={next(nonces)}></script><p>Anvils</p>"))

    async with site({"/": told}) as own:
        first = await own.visit()
        assert (await own.visit(known=first.seen)).outcome is VisitOutcome.UNCHANGED


async def test_new_links_on_a_changed_home_page_are_found():
    links = ["<a href=/about>About</a>"]
    pages = {**WHOLE, "/": lambda asked: to_page_response(page(links[0]))}

    async with site(pages) as own:
        first = await own.visit()
        links[0] += "<a href=/team>Team</a>"
        assert [each.kind for each in (await own.visit(known=first.seen)).pages] == [
            "home",
            "about",
            "team",
        ]


async def test_sitemaps_are_asked_when_the_home_page_links_to_little():
    listed = "".join(f"<url><loc>http://{HOST}/{name}</loc></url>" for name in ("team", "about"))
    pages = {
        **WHOLE,
        "/": "<p>Welcome</p>",
        "/robots.txt": to_text_response(f"Sitemap: http://{HOST}/map.xml"),
        "/map.xml": to_text_response(
            f"<sitemapindex><sitemap><loc>http://{HOST}/pages.xml</loc></sitemap></sitemapindex>"
        ),
        "/pages.xml": to_text_response(f"<urlset>{listed}</urlset>"),
    }

    visit, asked, _ = await visited(pages)

    assert [each.kind for each in visit.pages] == ["home", "about", "team"]
    assert asked[:4] == ["/robots.txt", "/", "/map.xml", "/pages.xml"]


async def test_other_sites_are_not_visited():
    elsewhere = {"/": "<p>not ours</p>", "/about": "<p>not ours</p>"}
    pages = {
        "/": "<a href=http://other.test/about>About</a><a href=/contact>Contact</a>",
        "/contact": Response(status=302, headers={"location": "http://other.test/"}),
        "/sitemap.xml": to_text_response("<urlset><loc>http://other.test/team</loc></urlset>"),
        "/robots.txt": to_text_response(
            f"Sitemap: http://other.test/map.xml\nSitemap: http://{HOST}/sitemap.xml"
        ),
    }

    async with site(pages, hosts={"other.test": elsewhere}) as own:
        await own.visit()
        assert {seen.host for seen in own.box.log} == {HOST}


async def test_a_home_page_that_leads_to_another_site_says_where():
    moved = Response(status=301, headers={"location": "http://other.test/"})

    visit, _, _ = await visited({"/": moved})

    assert visit.outcome is VisitOutcome.GONE
    assert "other.test" in visit.reason


async def test_redirects_within_the_site_are_followed_and_other_hosts_rules_are_read():
    moved = Response(status=301, headers={"location": f"http://www.{HOST}/"})

    async with site({"/": moved}, hosts={f"www.{HOST}": WHOLE}) as own:
        visit = await own.visit()
        visit, asked = visit, [(seen.host, seen.target) for seen in own.box.log][:4]
    assert visit.outcome is VisitOutcome.READ
    www = f"www.{HOST}"
    assert asked == [(HOST, "/robots.txt"), (HOST, "/"), (www, "/robots.txt"), (www, "/")]


async def test_redirects_without_end_end():
    visit, asked, _ = await visited({"/": Response(status=302, headers={"location": "/"})})

    assert visit.outcome is VisitOutcome.FAILED
    assert len(asked) <= 8


async def test_the_same_page_under_two_addresses_is_one():
    pages = {"/": KEY_LINKS, "/about": "<h1>same</h1>", "/contact": "<h1>same</h1>"}

    visit, _, _ = await visited(pages)

    assert [each.kind for each in visit.pages] == ["home", "about"]


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        (to_page_response("<p>Checking your browser</p>", status=503), VisitOutcome.BLOCKED),
        (to_page_response("<p>Verify you are human</p>"), VisitOutcome.BLOCKED),
        (to_page_response("<form><input type=password></form>"), VisitOutcome.BLOCKED),
        (to_page_response("<p>no</p>", status=403), VisitOutcome.BLOCKED),
        (to_page_response("<p>Accept cookies to continue</p>"), VisitOutcome.BLOCKED),
        (to_page_response("<p>This domain is for sale</p>"), VisitOutcome.GONE),
        (to_page_response("<p>gone</p>", status=410), VisitOutcome.GONE),
        (to_page_response("<p>broken</p>", status=500), VisitOutcome.FAILED),
        (to_page_response("<p>later</p>", status=429), VisitOutcome.FAILED),
        (to_page_response("<p>Hello.</p>"), VisitOutcome.THIN),
        (to_page_response("<div id=root></div>"), VisitOutcome.THIN),
        (Response(headers={"content-type": "application/pdf"}, body=b"%PDF"), VisitOutcome.THIN),
        (Response(hang=True), VisitOutcome.FAILED),
        (Response(reset=True), VisitOutcome.FAILED),
        (Response(close_after=30), VisitOutcome.FAILED),
    ],
)
async def test_a_visit_to_a_site_that_is_no_site_ends_with_a_sentence(told, outcome):
    visit, _, _ = await visited({"/": told}, request=timedelta(seconds=0.5))

    assert visit.outcome is outcome
    assert len(visit.reason) > 10


async def test_a_host_that_says_later_is_left_alone_until_then():
    later = Response(status=503, headers={"retry-after": "120"})

    async with site({"/": later}) as own:
        await own.visit()
        before = own.clock.elapsed()
        await own.visit()
        assert (own.clock.elapsed() - before) >= timedelta(seconds=119)


async def test_visits_that_meet_at_a_host_take_turns():
    async with site({"/": "<a href=/about>About</a>", "/about": "<h1>about</h1>"}) as own:
        visits = await asyncio.gather(*(own.visit() for _ in range(4)))
        visits, asked, elapsed = visits, len(own.asked), own.clock.elapsed()
    assert all(visit.outcome is VisitOutcome.READ for visit in visits)
    assert elapsed >= timedelta(seconds=0.5) * (asked - 1)


async def test_one_request_at_a_time_goes_to_a_host():
    """However many visits want it: the next one arrives after the answer to the last one."""
    takes, arrivals = timedelta(milliseconds=40), []

    def told(asked):
        arrivals.append(asyncio.get_running_loop().time())
        return to_page_response(page(f"<h1>{asked.path}</h1>")).replace_fields(after=takes)

    async with site({"/": told}) as own:
        await asyncio.gather(*(own.visit() for _ in range(5)))
    apart = [later - one for one, later in itertools.pairwise(arrivals)]
    assert len(arrivals) == 5
    assert min(apart) >= takes.total_seconds() * 0.9


@pytest.mark.parametrize("url", ["", "http://", "file:///etc/passwd", "http://127.0.0.1/", "a b"])
async def test_an_address_we_do_not_visit_is_an_outcome_too(url):
    visit, asked, _ = await visited(WHOLE, url=url)

    assert visit.outcome in (VisitOutcome.GONE, VisitOutcome.FAILED)
    assert asked == []


async def test_contacts_and_technology_are_found_with_their_pages():
    pages = {
        "/": "<a href=/contact>Contact</a>",
        "/contact": "<a href=mailto:info@acme.test>Mail</a><p>+65 6123 4567</p>",
    }

    visit, _, _ = await visited(pages)

    found = {finding.field: finding for finding in visit.facts}
    assert found[FactField.EMAIL].value == "info@acme.test"
    assert found[FactField.PHONE].value == "+6561234567"
    assert found[FactField.EMAIL].source == f"http://{HOST}/contact"


async def test_as_a_connector_a_visit_costs_a_pull_unit_and_nonsense_costs_nothing():
    async with site(WHOLE) as own:
        connector = CrawlConnector(own.crawler)
        question = VisitRequest(url=HOST)
        assert connector.price(question) == {"pull_units": 1}
        assert (await connector.check()).ok
        with pytest.raises(PermanentError):
            connector.price(VisitRequest(url="file:///x"))
        done = await connector.ask(question, key="k")
    assert done.cost == {"pull_units": 1}
    assert done.answer.outcome is VisitOutcome.READ


async def test_what_a_night_changed_is_what_the_next_visits_say_changed():
    """Sixty sites over a week: no change missed, none made up."""

    async with Sandbox(seed=21, companies=2_000) as box:
        made = (box.world.get_company(index) for index in range(2_000))
        fine = [each for each in made if each.trouble is SiteFault.FINE][:60]
        http = HttpClient(user_agent=AGENT, sandbox=box.address)
        clock = FakeClock()
        crawler = Crawler(http, pacer=LocalHostPacer(clock=clock), clock=clock, user_agent=AGENT)
        told, true, pages = set(), set(), 0
        for company in fine:
            box.faults.set_value("sites.night", "0")
            first = await crawler.visit(company.domain)
            box.faults.set_value("sites.night", "7")
            clock.advance(timedelta(days=7))
            again = await crawler.visit(company.domain, known=first.seen)
            places = build_layout(box.world, company).pages
            paths = {seen.url.split(company.domain)[1]: seen for seen in again.seen}
            for path in paths.keys() & places.keys():
                pages += 1
                if places[path].count_changes(0) != places[path].count_changes(7):
                    true.add((company.domain, path))
                if paths[path].changed_at > first.seen[0].seen_at + timedelta(days=1):
                    told.add((company.domain, path))
        await http.close()

    assert pages > 300
    assert len(true) > 20
    assert told == true


class StuckPool(ProcessPool):
    """Gives up calls with bytes that no page of ours has but one."""

    def __init__(self, only=""):
        super().__init__()
        self._only, self.given_up = only, []

    async def run(self, function, *args, **kwargs):
        is_meant = function.__name__ == (self._only or function.__name__)
        if is_meant and any("bomb" in str(each) for each in args):
            self.given_up.append(function.__name__)
            return await ProcessPool(cpu_seconds=0.05).run(pow, 3, 50_000_000)
        return await super().run(function, *args, **kwargs)


BOMB = "<p>bomb</p>"
TOO_LONG = "it takes too much processor time to read"


async def test_a_page_that_takes_too_long_to_read_is_left_out_and_read_again_next_time():
    async with site({**WHOLE, "/about": BOMB}, pool=StuckPool()) as own:
        visit = await own.visit()
        again = await own.visit(known=visit.seen)
    assert [each.kind for each in visit.pages] == [
        *("home", "contact", "team", "careers", "pricing", "news")
    ]
    assert "reading" in visit.limits_hit
    [about] = [seen for seen in visit.seen if seen.url.endswith("/about")]
    assert (about.status, about.fingerprint) == (200, "")
    assert again.outcome is VisitOutcome.UNCHANGED


@pytest.mark.parametrize(
    ("pages", "outcome", "reason"),
    [
        ({"/": BOMB}, VisitOutcome.FAILED, f"the home page could not be read: {TOO_LONG}"),
        (
            {**WHOLE, "/robots.txt": to_text_response("# bomb\n" * 300)},
            VisitOutcome.BLOCKED,
            "its robots.txt could not be read, so it is not crawled",
        ),
    ],
)
async def test_a_visit_whose_first_file_takes_too_long_to_read_ends_with_that_reason(
    pages, outcome, reason
):
    async with site(pages, pool=StuckPool()) as own:
        visit = await own.visit()
    assert (visit.outcome, visit.reason) == (outcome, reason)


@pytest.mark.parametrize("given_up", ["list_sitemaps", "choose_pages"])
async def test_sitemaps_that_take_too_long_to_read_leave_the_links_of_the_home_page(given_up):
    bomb = to_text_response(f"<urlset><loc>http://{HOST}/bomb</loc></urlset>")
    pages = {**WHOLE, "/": "<a href=/about>Us</a>", "/sitemap.xml": bomb}
    async with site(pages, pool=StuckPool(given_up)) as own:
        visit = await own.visit()
    assert [each.kind for each in visit.pages] == ["home", "about"]
    assert visit.limits_hit == ("reading",)


async def test_a_sitemap_that_takes_too_long_to_read_is_read_once_and_costs_no_other():
    robots = f"Sitemap: http://{HOST}/long.xml\nSitemap: http://{HOST}/short.xml"
    pages = {
        **WHOLE,
        "/": "<p>Welcome</p>",
        "/robots.txt": to_text_response(robots),
        "/long.xml": to_text_response(f"<urlset><loc>http://{HOST}/bomb</loc></urlset>"),
        "/short.xml": to_text_response(f"<urlset><loc>http://{HOST}/team</loc></urlset>"),
    }
    pool = StuckPool()
    async with site(pages, pool=pool) as own:
        visit = await own.visit()
    assert [each.kind for each in visit.pages] == ["home", "team"]
    assert visit.limits_hit == ("reading",)
    assert pool.given_up == ["list_sitemaps"]


async def test_a_page_that_is_cut_off_is_said_to_be():
    whole, cut = "<p>We sell ships.</p>", "<p>We sell ships.</p>" + " " * CrawlLimits().page_bytes
    for text, limits in ((whole, ()), (cut, ("bytes",))):
        visit, _, _ = await visited({"/": to_page_response(text)})
        assert visit.limits_hit == limits
