"""Visit sites, and one site now because a person asks for it: reserve, visit, store the pages.

One crawler per process, so that all tenants share the delays per host and the robots.txt cache. A
visit costs no money; it counts pull units and passes the budget.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import TYPE_CHECKING

from stoker.accounts.facts import ExtractedFacts
from stoker.base.clock import Clock
from stoker.base.errors import ConflictError, PermanentError
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.budgets.charges import Refusal, SpendRequest
from stoker.budgets.model import Connector, Health, Paid
from stoker.budgets.service import BudgetService, SettledCall
from stoker.context import Context, TenantContext
from stoker.crawl.extract import extract_facts, read_page
from stoker.crawl.fetch import MIN_DELAY, PoliteFetcher
from stoker.crawl.model import Excerpt, Page, PageState, SiteVisit, VisitOutcome, VisitRequest
from stoker.crawl.visit import CrawlLimits, SiteCrawler
from stoker.http.client import HttpClient, build_http_client
from stoker.http.url import is_sandbox_host, parse_url
from stoker.rate_limits.host_delays import HostPacer, build_host_pacer

if TYPE_CHECKING:
    from stoker.crawl.store import PageStore

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
        pool: ProcessPool | None = None,
    ) -> None:
        self._clock = clock
        self._limits = limits or CrawlLimits()
        self._pool = pool or ProcessPool()
        self._asking = PoliteFetcher(
            http, pacer=pacer, clock=clock, pool=self._pool, user_agent=user_agent, gap=gap
        )

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
        self._pool.prepare(read_page)  # while robots.txt is fetched and the host's delay passes
        for start in starts:
            visiting = SiteCrawler(
                self._asking, start, known, pool=self._pool, limits=self._limits, clock=self._clock
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

    async def extract_facts(
        self, pages: Sequence[Page], *, excerpts: Sequence[Excerpt] = ()
    ) -> ExtractedFacts:
        """Return the facts in pages of a visit, and in excerpts of other sites' pages."""
        facts = await self._pool.run(
            extract_facts, [page.facts for page in pages], excerpts=excerpts
        )
        if isinstance(facts, Aborted):
            return ExtractedFacts(facts=(), note=f"the pages' facts are left out: {facts.reason}")
        return facts


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
        return Health(ok=True, detail="crawling needs no key")


def _list_start_urls(url: str) -> list[str]:
    """Return where a visit may begin: at the URL, or at a host by HTTPS first."""
    text = url.strip()
    if "://" in text[:12] or _OTHER_SCHEME.match(text):
        return [text]
    host = text.partition("/")[0]
    # Hosts of the sandbox have no certificates.
    schemes = ("http",) if is_sandbox_host(host) else ("https", "http")
    return [f"{scheme}://{text}" for scheme in schemes]


_MAX_SITE_LENGTH = 200  # characters of a site in a key; the unique part comes after it


def build_visit_spend(
    site: str, *, connector: str, price: Mapping[str, int], unlike_others: str
) -> SpendRequest:
    """Return the spend request of a visit; `unlike_others` makes its key unique.

    The key can be stored and shown whatever characters the site has.
    """
    shown = "".join(letter if letter.isprintable() else "?" for letter in site[:_MAX_SITE_LENGTH])
    key = f"{connector}/{shown}/{unlike_others}"
    return SpendRequest(key=key, connector=connector, amounts=price, account=shown)


async def visit_site(
    url: str,
    *,
    site: str,
    crawler: Connector[VisitRequest, SiteVisit],
    pages: PageStore,
    gate: BudgetService,
    slot: AbstractAsyncContextManager[object],
    unlike_others: str,
    again: bool = False,
) -> SiteVisit | Refusal:
    """Visit a site and store its pages; Refusal when a cap or a stop forbids it.

    Fetches only changes, unless `again` asks for everything. Raises PermanentError for what is no
    URL, before anything is fetched or reserved, and ConflictError when this very visit is in
    progress elsewhere.
    """
    price = crawler.price(VisitRequest(url=url))
    question = VisitRequest(url=url, known=() if again else await pages.list_pages(site))
    request = build_visit_spend(
        site, connector=crawler.name, price=price, unlike_others=unlike_others
    )
    outcome = await gate.spend(request, lambda: crawler.ask(question, key=request.key), slot=slot)
    if isinstance(outcome, Refusal):
        return outcome
    if not isinstance(outcome, SettledCall):
        raise ConflictError("another process is crawling this site; try again")
    visit: SiteVisit = outcome.answer
    await pages.save_pages(visit.site, visit.seen)
    return visit


def build_crawler(context: Context, *, max_pages: int | None = None) -> Crawler:
    """Build the crawler of a process; with other settings' pages per site, if given."""
    crawl = context.settings.crawl
    pages = crawl.max_pages if max_pages is None else max_pages
    return Crawler(
        context.get(build_http_client),
        pacer=context.get(build_host_pacer),
        clock=context.clock,
        user_agent=crawl.user_agent,
        limits=CrawlLimits(pages=pages, request=timedelta(seconds=crawl.timeout_s)),
        gap=timedelta(seconds=crawl.gap_s),
    )


def build_crawl_connector(
    tenant: TenantContext, *, deep: bool = False, max_pages: int | None = None
) -> CrawlConnector:
    """Build visits to sites, at the pull units they count for this tenant."""
    process, units = tenant.process, tenant.settings.get_pull_units("crawl", deep=deep)
    is_usual = max_pages in (None, process.settings.crawl.max_pages)
    crawler = (
        process.get(build_crawler) if is_usual else build_crawler(process, max_pages=max_pages)
    )
    return CrawlConnector(crawler, units=units)
