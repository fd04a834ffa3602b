"""Visits many troubled sites in a process of its own, so that its memory is all theirs."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from kit.memory import read_memory
from stoker.crawl.model import SiteVisit
from stoker.crawl.service import Crawler
from stoker.crawl.visit import CrawlLimits
from stoker.http.client import HttpClient
from stoker.rate_limits.host_delays import LocalHostPacer
from stoker.sandbox.server import Sandbox
from stoker.sandbox.world.companies import Company, World
from stoker.sandbox.world.site_faults import SiteFault
from stoker.testing import FakeClock

AGENT = "Stoker/0.1 (+https://stoker.test)"
LIMITS = CrawlLimits(request=timedelta(seconds=3), site=timedelta(seconds=60))
AT_ONCE = 40  # most of their time they wait for those that hang


def chosen_sites(world: World, most: int) -> Iterator[Company]:
    """Return companies of every trouble, as evenly as there are."""
    counts: Counter[SiteFault] = Counter()
    fair = -(-most // len(SiteFault))
    for index in range(world.size):
        company = world.get_company(index)
        if counts[company.trouble] < fair and counts.total() < most:
            counts[company.trouble] += 1
            yield company


async def visits(sites: int, seed: int) -> list[tuple[SiteFault, SiteVisit]]:
    """Visit so many, some at once, on a clock whose waits pass at once."""
    async with Sandbox(seed=seed, companies=100 * sites) as box:
        http = HttpClient(user_agent=AGENT, sandbox=box.address, connections=50)
        clock = FakeClock()
        crawler = Crawler(
            http, pacer=LocalHostPacer(clock=clock), clock=clock, user_agent=AGENT, limits=LIMITS
        )
        room = asyncio.Semaphore(AT_ONCE)

        async def visit(company: Company) -> tuple[SiteFault, SiteVisit]:
            async with room:
                return company.trouble, await crawler.visit(company.domain)

        made = await asyncio.gather(*(visit(each) for each in chosen_sites(box.world, sites)))
        await http.close()
        return made


def main() -> None:
    """Print what became of every site, and by how much memory grew over it all."""
    before = read_memory()
    made = asyncio.run(visits(*map(int, sys.argv[1:])))
    grown = read_memory() - before
    told = [
        {
            "trouble": trouble,
            "outcome": visit.outcome,
            "reason": visit.reason,
            "pages": len(visit.pages),
            "requests": visit.requests,
            "bytes": visit.bytes,
        }
        for trouble, visit in made
    ]
    print(json.dumps({"grown": grown, "visits": told}))


if __name__ == "__main__":
    main()
