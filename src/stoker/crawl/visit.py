"""Visit one site: home page, key pages, their facts, and why the visit ended.

Works through a list that only gets shorter, within limits on pages, bytes, time and depth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from stoker.accounts.facts import Fact, FactField
from stoker.base.clock import Clock
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.base.types import clean_text
from stoker.crawl.extract import read_page
from stoker.crawl.fetch import CrawlUsage, FetchResult, PoliteFetcher
from stoker.crawl.key_pages import (
    HOME,
    OTHER,
    KeyPage,
    choose_key_pages,
    choose_pages,
    find_url,
    get_page_kind,
    get_site,
    list_sitemaps,
)
from stoker.crawl.model import (
    Page,
    PageReading,
    PageState,
    PageType,
    SiteVisit,
    VisitEnd,
    VisitOutcome,
    find_page_end,
    find_status_end,
    get_visit_end,
)
from stoker.crawl.settings import CrawlSettings
from stoker.http.client import Response
from stoker.http.url import Url

MAX_SITEMAP_FILES = 3  # sitemap files fetched in one visit
MAX_SITE_FACTS = 200
_PAGE_TYPES = ("text/html", "application/xhtml", "text/plain")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlLimits:
    """How much one visit may use."""

    pages: int = CrawlSettings.max_pages
    page_bytes: int = 2_000_000  # unpacked
    bytes: int = 10_000_000  # of all pages together, as sent
    request: timedelta = timedelta(seconds=CrawlSettings.timeout_s)
    site: timedelta = timedelta(seconds=120)


class SiteCrawler:
    """A visit in progress. Call `run_visit` once, then `build_visit`."""

    def __init__(
        self,
        asking: PoliteFetcher,
        start: Url,
        known: Sequence[PageState],
        *,
        pool: ProcessPool,
        limits: CrawlLimits,
        clock: Clock,
    ) -> None:
        self._fetcher = asking
        self._pool = pool
        self._start = start
        self._limits = limits
        self._clock = clock
        self._site = get_site(start.host)
        self._usage = CrawlUsage(deadline=limits.request, known={seen.url: seen for seen in known})
        self._pages: list[Page] = []
        self._facts: dict[tuple[FactField, str], Fact] = {}
        self._fingerprints: set[str] = set()
        self._asked_count = 0
        self._changed_count = 0
        self._unchanged_count = 0
        self._gap = asking.gap
        self._started = clock.elapsed()
        self._shell_end: VisitEnd | None = None
        self.limits_hit: set[str] = set()
        self.has_response = False

    async def run_visit(self) -> VisitEnd:
        home = await self._fetch(self._start)
        if home.reply is None:
            return home.end or VisitEnd(VisitOutcome.FAILED, "the website did not answer")
        self.has_response = True
        before = self._changed_count
        links: Sequence[tuple[Url, str]] = ()
        missing = home.reply.status in (404, 410)
        if not missing:
            if (end := await self._find_home_end(home, home.reply)) is not None:
                return end
            reading = await self._record_page(home, HOME)
            if isinstance(reading, Aborted):
                why = f"the home page could not be read: {reading.reason}"
                return VisitEnd(VisitOutcome.FAILED, why)
            if reading is not None:
                end = find_page_end(reading.type)
                # A shell may still have a sitemap; any other such home page ends the visit.
                if end is not None and reading.type is not PageType.SHELL:
                    return end
                self._shell_end = end
                links = reading.links if end is None else ()
        robots = await self._fetcher.get_robots(home.address, self._usage)
        self._gap = robots.compute_delay(self._fetcher.gap)
        if robots.is_home_page_only:
            self.limits_hit.add("time")
            return self._get_end()
        seen = self._usage.known.get(str(home.address))
        if seen is not None and seen.fingerprint and self._changed_count == before:
            wanted = self._list_earlier_pages(home.address)
        else:
            wanted = await self._discover_pages(home.address, links, robots.sitemaps)
        await self._read_pages(wanted, home.address)
        if missing and not self._pages:
            return find_status_end(home.reply.status) or self._get_end()
        return self._get_end()

    def get_timeout_end(self) -> VisitEnd:
        """Return how a visit ended that ran out of time."""
        if self._pages or self._unchanged_count:
            return self._get_end()
        seconds = self._limits.site.total_seconds()
        return VisitEnd(VisitOutcome.FAILED, f"no page could be read within {seconds:g} seconds")

    def build_visit(self, ending: VisitEnd) -> SiteVisit:
        return SiteVisit(
            site=self._site,
            outcome=ending.outcome,
            reason=clean_text(ending.reason)[:500],
            pages=tuple(self._pages),
            seen=tuple(self._usage.seen.values()),
            facts=tuple(self._facts.values()),
            requests=self._usage.requests,
            bytes=self._usage.bytes,
            not_modified=self._usage.not_modified,
            limits_hit=tuple(sorted(self.limits_hit)),
            unwanted=ending.unwanted,
        )

    def _get_end(self) -> VisitEnd:
        if self._shell_end is not None and not self._pages:
            return self._shell_end
        return get_visit_end(
            read=len(self._pages),
            changed=self._changed_count,
            not_modified=self._unchanged_count,
            letters=sum(len(page.text) for page in self._pages),
        )

    async def _find_home_end(self, home: FetchResult, reply: Response) -> VisitEnd | None:
        ending = find_status_end(reply.status)
        if reply.status == 503:
            reading = await self._read(home, reply, HOME)
            if isinstance(reading, PageReading) and reading.type is PageType.CHALLENGE:
                return find_page_end(PageType.CHALLENGE)
        if ending is None and reply.status != 304 and not _is_page(reply):
            return VisitEnd(VisitOutcome.THIN, "the home page is a file, not HTML")
        return ending

    async def _read(
        self, fetched: FetchResult, reply: Response, kind: str
    ) -> PageReading | Aborted:
        return await self._pool.run(
            read_page,
            reply.body,
            content_type=reply.headers.get("content-type", ""),
            url=str(fetched.address),
            kind=kind,
            server=reply.headers.get("server", ""),
        )

    async def _fetch(self, address: Url) -> FetchResult:
        return await self._fetcher.fetch(
            address,
            self._usage,
            same_site=lambda host: get_site(host) == self._site,
            most_bytes=self._limits.page_bytes,
        )

    async def _record_page(self, fetched: FetchResult, kind: str) -> PageReading | Aborted | None:
        """Record a response; return what it says if it is a page."""
        reply = fetched.reply
        if reply is None:
            return None
        url, now = str(fetched.address), self._clock.now()
        before = self._usage.known.get(url)
        if reply.status == 304:
            self._usage.not_modified += 1
            if before is not None:
                self._unchanged_count += 1
                self._usage.record_seen(url, reply, fingerprint=before.fingerprint, now=now)
            return None
        reading: PageReading | Aborted | None = None
        if reply.status in (200, 203) and _is_page(reply):
            reading = await self._read(fetched, reply, kind)
        if not isinstance(reading, PageReading):
            if reading is not None:
                self.limits_hit.add("reading")
            self._usage.record_seen(url, reply, fingerprint="", now=now)
            return reading
        if reply.truncated:
            self.limits_hit.add("bytes")
        fingerprint = reading.fingerprint
        seen = self._usage.record_seen(url, reply, fingerprint=fingerprint, now=now)
        if reading.type is PageType.MISSING:
            self._usage.seen[url] = replace(seen, status=404)
        # The same page may stand under two addresses.
        if reading.type is PageType.PAGE and fingerprint not in self._fingerprints:
            self._fingerprints.add(fingerprint)
            self._changed_count += before is None or before.fingerprint != fingerprint
            self._pages.append(
                Page(
                    url=url,
                    kind=kind,
                    title=reading.title,
                    text=reading.text,
                    facts=reading.facts,
                    seen=seen,
                )
            )
            self._add_facts(reading.contacts)
        return reading

    def _add_facts(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            key = (fact.field, fact.value)
            known = self._facts.get(key)
            if known is None and len(self._facts) >= MAX_SITE_FACTS:
                return
            if known is None or known.confidence < fact.confidence:
                self._facts[key] = fact

    def _list_earlier_pages(self, home: Url) -> list[KeyPage]:
        """Return the pages that were read last time, in the order of their value."""
        read = []
        for seen in self._usage.known.values():
            if seen.status == 200 and seen.fingerprint and not seen.url.endswith("/robots.txt"):
                address = find_url(seen.url)
                if address is not None and get_site(address.host) == self._site:
                    read.append((address, ""))
        homes = [str(home), str(self._start)]
        return choose_key_pages(read, most=self._limits.pages - 1, not_again=homes)

    async def _discover_pages(
        self, home: Url, links: Sequence[tuple[Url, str]], sitemaps: Sequence[str]
    ) -> list[KeyPage]:
        """Return the pages worth a request, from the home page's links and, if few, sitemaps."""
        wanted = await self._choose_pages(home, links, ())
        if sum(page.kind != OTHER for page in wanted) >= self._limits.pages - 1:
            return wanted
        files = await self._fetch_sitemaps(home, sitemaps)
        return await self._choose_pages(home, links, files) if files else wanted

    async def _choose_pages(
        self, home: Url, links: Sequence[tuple[Url, str]], sitemaps: Sequence[bytes]
    ) -> list[KeyPage]:
        chosen = await self._pool.run(
            choose_pages,
            home,
            links,
            sitemaps,
            most=3 * self._limits.pages,  # some will be missing or forbidden
            not_again=[str(home), str(self._start)],
        )
        if isinstance(chosen, Aborted):
            self.limits_hit.add("reading")
            return await self._choose_pages(home, links, ()) if sitemaps else []
        return chosen

    async def _fetch_sitemaps(self, home: Url, sitemaps: Sequence[str]) -> list[bytes]:
        """Return a site's sitemaps, without indexes and files that take too long to read."""
        maps = deque(sitemaps or [f"{home.scheme}://{home.netloc}/sitemap.xml"])
        asked: set[str] = set()
        files: list[bytes] = []
        while maps and len(asked) < MAX_SITEMAP_FILES and not self._is_limit_reached():
            address = find_url(maps.popleft())
            if address is None or str(address) in asked or get_site(address.host) != self._site:
                continue
            asked.add(str(address))
            fetched = await self._fetch(address)
            if fetched.reply is None or fetched.reply.status != 200:
                continue
            listed = await self._pool.run(list_sitemaps, fetched.reply.body, most=MAX_SITEMAP_FILES)
            if isinstance(listed, Aborted):  # it would take as long to find its pages
                self.limits_hit.add("reading")
            elif listed:
                maps.extend(listed)
            else:
                files.append(fetched.reply.body)
        return files

    async def _read_pages(self, wanted: Sequence[KeyPage], home: Url) -> None:
        for page in wanted:
            if self._is_limit_reached():
                return
            address = find_url(page.url)
            if address is None:
                continue
            fetched = await self._fetch(address)
            url = str(fetched.address)
            if url == str(home) or (url != page.url and url in self._usage.seen):
                continue  # a redirect to a page that was read
            kind = page.kind if page.kind != OTHER else get_page_kind(fetched.address.target)
            await self._record_page(fetched, kind)
            if fetched.reply is not None and fetched.reply.status in (429, 503):
                return

    def _is_limit_reached(self) -> bool:
        """Return whether the visit may send no more requests, and note why."""
        if len(self._pages) + self._unchanged_count >= self._limits.pages:
            self.limits_hit.add("pages")
        elif self._usage.bytes >= self._limits.bytes:
            self.limits_hit.add("bytes")
        elif self._usage.requests >= 4 * self._limits.pages + 6:
            self.limits_hit.add("requests")
        elif self._clock.elapsed() - self._started + self._gap >= self._limits.site:
            self.limits_hit.add("time")
        else:
            return False
        return True


def _is_page(reply: Response) -> bool:
    content_type = reply.headers.get("content-type", "").lower()
    return not content_type or content_type.startswith(_PAGE_TYPES)
