"""Visit a company's site and return its key pages and contacts.

One crawler per process, so that all tenants share the delays per host and the robots.txt cache.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta

from stoker.base.clock import Clock
from stoker.base.errors import PermanentError
from stoker.budgets.model import Health, Paid
from stoker.crawl.fetch import MIN_DELAY, PoliteFetcher
from stoker.crawl.model import HostPacer, PageState, SiteVisit, VisitOutcome, VisitRequest
from stoker.crawl.visit import CrawlLimits, SiteCrawler
from stoker.http.client import HttpClient
from stoker.http.url import is_sandbox_host, parse_url

# A word and a colon, and no port after it: javascript:, mailto:, data:. A host has a dot.
_OTHER_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+-]*:(?![0-9]{1,5}(?:[/?#]|$))")


class Crawler:
    """Visits sites, many at once. One per process, so that delays per host are shared."""

    def __init__(
        self,
        http: HttpClient,
        *,
        pacer: HostPacer,
        clock: Clock,
        user_agent: str,
        limits: CrawlLimits | None = None,
        gap: timedelta = MIN_DELAY,
    ) -> None:
        self._clock = clock
        self._limits = limits or CrawlLimits()
        self._asking = PoliteFetcher(http, pacer=pacer, clock=clock, user_agent=user_agent, gap=gap)

    async def visit(self, url: str, *, known: Sequence[PageState] = ()) -> SiteVisit:
        """Visit a site, beginning at this address or, without a scheme, at this host.

        With what is `known` of its pages only changes are asked for: a page that is as it was is
        in `seen` and not in `pages`. Raises nothing for what a site does; a store that paces
        hosts for many processes may raise its own.
        """
        try:
            starts = [parse_url(start) for start in _list_start_urls(url)]
        except PermanentError as error:
            return SiteVisit(site=url[:200], outcome=VisitOutcome.GONE, reason=str(error))
        for start in starts:
            visiting = SiteCrawler(
                self._asking, start, known, limits=self._limits, clock=self._clock
            )
            try:
                async with asyncio.timeout(self._limits.site.total_seconds()):
                    ending = await visiting.run_visit()
            except TimeoutError:
                visiting.limits_hit.add("time")
                ending = visiting.get_timeout_end()
            if (
                start is starts[-1]
                or ending.outcome is not VisitOutcome.FAILED
                or visiting.has_response
            ):
                break
        return visiting.build_visit(ending)


class CrawlConnector:
    """The crawler as a connector, so that visits pass the budget like paid calls."""

    name = "crawl"

    def __init__(self, crawler: Crawler, *, units: int = 1) -> None:
        self._crawler = crawler
        self._units = units

    def price(self, question: VisitRequest) -> Mapping[str, int]:
        for start in _list_start_urls(question.url):
            parse_url(start)
        return {"pull_units": self._units}

    async def ask(self, question: VisitRequest, *, key: str) -> Paid[SiteVisit]:
        visit = await self._crawler.visit(question.url, known=question.known)
        return Paid(answer=visit, cost={"pull_units": self._units})

    async def check(self) -> Health:
        return Health(ok=True, detail="sites are visited without a key")


def _list_start_urls(url: str) -> list[str]:
    """Return where a visit may begin: at the URL, or at a host by HTTPS first."""
    text = url.strip()
    if "://" in text[:12] or _OTHER_SCHEME.match(text):
        return [text]
    host = text.partition("/")[0]
    # Hosts of the sandbox have no certificates.
    schemes = ("http",) if is_sandbox_host(host) else ("https", "http")
    return [f"{scheme}://{text}" for scheme in schemes]
