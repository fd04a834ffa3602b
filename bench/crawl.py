"""The crawler beside Scrapy: the same make-believe sites, the same politeness, in one run.

The sandbox, our crawler and Scrapy each have a process of their own. Both crawlers obey
robots.txt, send one request at a time to a host, half a second apart, and read up to six pages of
a site. Ours also looks for contacts and technology and remembers what it saw; Scrapy takes title
and text. The second visit is conditional with ours; Scrapy's is as Scrapy makes it by itself.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from datetime import timedelta

SITES, PAGES, GAP, ROUNDS = 200, 6, 0.5, 3
SEED, WORLD = 11, 2_000
AGENT = "Stoker/0.1 (benchmark)"


def site_names() -> list[str]:
    """Return sites without trouble and without a Crawl-delay, which Scrapy would not heed."""
    from stoker.sandbox.sites.layout import build_layout
    from stoker.sandbox.world.companies import World
    from stoker.sandbox.world.site_faults import SiteFault

    world, names = World(seed=SEED, size=WORLD), []
    for index in range(WORLD):
        company = world.get_company(index)
        if company.trouble is SiteFault.FINE and not build_layout(world, company).crawl_delay:
            names.append(company.domain)
    return names[:SITES]


async def serve() -> None:
    from stoker.sandbox.server import Sandbox

    async with Sandbox(seed=SEED, companies=WORLD) as box:
        print(box.address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def ours(address: str) -> dict[str, float]:
    from stoker.base.clock import SystemClock
    from stoker.crawl.service import Crawler
    from stoker.crawl.visit import CrawlLimits
    from stoker.http.client import HttpClient
    from stoker.rate_limits.host_delays import LocalHostPacer

    clock, names = SystemClock(), site_names()

    async def visits(known):
        # A process of its own each night, as far as robots.txt files are concerned.
        http = HttpClient(user_agent=AGENT, sandbox=address, connections=2 * SITES)
        limits = CrawlLimits(pages=PAGES, site=timedelta(seconds=120))
        hosts = LocalHostPacer(clock=clock)
        crawler = Crawler(http, pacer=hosts, clock=clock, user_agent=AGENT, limits=limits)
        began, worked = time.perf_counter(), time.process_time()
        made = await asyncio.gather(
            *(crawler.visit(f"http://{name}/", known=known.get(name, ())) for name in names)
        )
        took, work = time.perf_counter() - began, time.process_time() - worked
        await http.close()
        return made, took, work

    first, took, work = await visits({})
    seen = {name: visit.seen for name, visit in zip(names, first, strict=True)}
    second, _, _ = await visits(seen)
    return {
        "pages": sum(len(visit.pages) for visit in first),
        "requests": sum(visit.requests for visit in first),
        "most": max(visit.requests for visit in first),
        "took": took,
        "work": work,
        "bytes": sum(visit.bytes for visit in first),
        "again": sum(visit.bytes for visit in second),
        "again_requests": sum(visit.requests for visit in second),
    }


def scrapy(address: str) -> dict[str, float]:
    from scrapy import Spider
    from scrapy.crawler import CrawlerProcess
    from scrapy.linkextractors import LinkExtractor
    from scrapy.resolver import CachingThreadedResolver
    from twisted.internet import defer

    port = int(address.rpartition(":")[2])
    tally = {"pages": 0, "requests": 0, "bytes": 0}

    class Loopback(CachingThreadedResolver):
        def getHostByName(self, name, timeout=None):  # noqa: N802 - Twisted's name for it
            return defer.succeed("127.0.0.1")

    class Weighed:
        """Counts answers as they came, before they are unpacked."""

        def process_response(self, request, response):
            tally["requests"] += 1
            tally["bytes"] += len(response.body)
            return response

    class Reader(Spider):
        name = "reader"
        start_urls = [f"http://{name}:{port}/" for name in site_names()]  # noqa: RUF012

        def parse(self, response):
            host = response.url.split("/")[2]
            self.read(response)
            links = LinkExtractor(allow_domains=[host]).extract_links(response)
            pages = [link.url for link in links if link.url.rstrip("/") != response.url.rstrip("/")]
            for url in list(dict.fromkeys(pages))[: PAGES - 1]:
                yield response.follow(url, callback=self.read)

        def read(self, response):
            tally["pages"] += 1
            response.css("title::text").get()
            " ".join(response.css("body *:not(script):not(style)::text").getall())

    globals()["Loopback"], globals()["Weighed"] = Loopback, Weighed
    process = CrawlerProcess(
        {
            "LOG_LEVEL": "ERROR",
            "USER_AGENT": AGENT,
            "ROBOTSTXT_OBEY": True,
            "DOWNLOAD_DELAY": GAP,
            "RANDOMIZE_DOWNLOAD_DELAY": False,
            "CONCURRENT_REQUESTS": 2 * SITES,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "DNS_RESOLVER": Loopback,
            "DOWNLOADER_MIDDLEWARES": {Weighed: 860},
            "TELNETCONSOLE_ENABLED": False,
            "RETRY_ENABLED": False,
        }
    )
    process.crawl(Reader)
    began, worked = time.perf_counter(), time.process_time()
    process.start()
    took, work = time.perf_counter() - began, time.process_time() - worked
    return {**tally, "took": took, "work": work}


def child(role: str, address: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.crawl", role, address]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(rounds: int = ROUNDS) -> list[tuple[str, str, str, str]]:
    command = [sys.executable, "-m", "bench.crawl", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as box:
        address = box.stdout.readline().strip()
        child("ours", address)  # the sandbox makes its pages once; nobody pays for that
        pairs = [(child("ours", address), child("scrapy", address)) for _ in range(rounds)]
        box.stdin.close()
    our_rate = statistics.median(one["pages"] / one["took"] for one, _ in pairs)
    their_rate = statistics.median(other["pages"] / other["took"] for _, other in pairs)
    one, other = pairs[-1]
    # Nobody polite can be faster: robots.txt and the pages of one site, half a second apart.
    floor = PAGES * GAP
    bound = PAGES * SITES / floor
    named = f"{SITES} sites, {GAP} s between requests to a host, up to {PAGES} pages each"
    rows = [
        (
            f"pages read per second ({named}; median of {rounds}; politeness allows {bound:.0f}/s)",
            f"{our_rate:.0f}/s",
            f"Scrapy {their_rate:.0f}/s",
            f"{our_rate / their_rate:.2f}",
        ),
        (
            "processor time per page read, without the workers that parse (Scrapy parses itself)",
            f"{one['work'] / one['pages'] * 1000:.1f} ms",
            f"Scrapy {other['work'] / other['pages'] * 1000:.1f} ms",
            f"{(one['work'] / one['pages']) / (other['work'] / other['pages']):.2f}",
        ),
        (
            f"bytes of a second visit, nothing changed ({one['again_requests']:.0f} requests; "
            "Scrapy as it comes, without its cache)",
            f"{one['again'] / 1000:.0f} kB",
            f"Scrapy {other['bytes'] / 1000:.0f} kB",
            f"{one['again'] / other['bytes']:.2f}",
        ),
    ]
    print(
        f"n={SITES} sites: ours {one['pages']:.0f} pages in {one['took']:.1f} s, "
        f"Scrapy {other['pages']:.0f} pages in {other['took']:.1f} s, floor {floor:.1f} s",
        file=sys.stderr,
    )
    return rows


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            asyncio.run(serve())
        case ["ours", where]:
            print(json.dumps(asyncio.run(ours(where))))
        case ["scrapy", where]:
            print(json.dumps(scrapy(where)))
        case _:
            for row in main():
                print(*row, sep=" | ")
