"""Visit one site: home page, key pages, their facts, and why the visit ended.

Works through a list that only gets shorter, within limits on pages, bytes, time and depth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache

from publicsuffixlist import PublicSuffixList

from stoker.accounts.facts import Fact, FactField
from stoker.base.clock import Clock
from stoker.base.errors import PermanentError
from stoker.base.types import clean_text
from stoker.crawl.contacts import find_contacts
from stoker.crawl.extract import find_technology
from stoker.crawl.fetch import CrawlUsage, FetchResult, PoliteFetcher, build_page_state
from stoker.crawl.key_pages import (
    HOME,
    OTHER,
    KeyPage,
    choose_key_pages,
    get_page_kind,
    parse_page_url,
    parse_sitemap,
)
from stoker.crawl.model import (
    Page,
    PageState,
    PageType,
    SiteVisit,
    VisitEnd,
    VisitOutcome,
    classify_page,
    compute_fingerprint,
    find_page_end,
    find_status_end,
    get_visit_end,
)
from stoker.crawl.page import ParsedPage, parse_page
from stoker.crawl.settings import CrawlSettings
from stoker.http.client import Response
from stoker.http.url import Url, parse_url

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
        limits: CrawlLimits,
        clock: Clock,
    ) -> None:
        self._fetcher = asking
        self._start = start
        self._known = {seen.url: seen for seen in known}
        self._limits = limits
        self._clock = clock
        self._site = get_site(start.host)
        self._usage = CrawlUsage()
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
        links: list[tuple[Url, str]] = []
        missing = home.reply.status in (404, 410)
        if not missing:
            if (end := self._find_home_end(home.reply)) is not None:
                return end
            recorded = self._record_page(home, HOME)
            if isinstance(recorded, PageType):
                end = find_page_end(recorded)
                # A shell may still have a sitemap; any other such home page ends the visit.
                if end is not None and recorded is not PageType.SHELL:
                    return end
                self._shell_end = end
            elif recorded is not None:
                links = self._list_links(home.address, recorded)
        robots = await self._fetcher.get_robots(
            home.address, usage=self._usage, known=self._known, deadline=self._limits.request
        )
        self._gap = robots.compute_delay(self._fetcher.gap)
        if robots.is_home_page_only:
            self.limits_hit.add("time")
            return self._get_end()
        seen = self._known.get(str(home.address))
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

    def _find_home_end(self, reply: Response) -> VisitEnd | None:
        ending = find_status_end(reply.status)
        if ending is not None and ending.outcome is VisitOutcome.FAILED and reply.status == 503:
            parsed = parse_page(reply.body, content_type=reply.headers.get("content-type", ""))
            if _classify_parsed(parsed) is PageType.CHALLENGE:
                return find_page_end(PageType.CHALLENGE)
        if ending is None and reply.status != 304 and not _is_page(reply):
            return VisitEnd(VisitOutcome.THIN, "the home page is a file, not HTML")
        return ending

    async def _fetch(self, address: Url) -> FetchResult:
        return await self._fetcher.fetch(
            address,
            usage=self._usage,
            known=self._known,
            same_site=lambda host: get_site(host) == self._site,
            deadline=self._limits.request,
            most_bytes=self._limits.page_bytes,
        )

    def _record_page(self, fetched: FetchResult, kind: str) -> ParsedPage | PageType | None:
        """Record a response; return it parsed, or its type if it is no page for visitors."""
        reply = fetched.reply
        if reply is None:
            return None
        url, now = str(fetched.address), self._clock.now()
        before = self._known.get(url)
        if reply.status == 304:
            self._usage.not_modified += 1
            if before is not None:
                self._unchanged_count += 1
                self._usage.seen[url] = build_page_state(
                    url, reply, fingerprint=before.fingerprint, before=before, now=now
                )
            return None
        if reply.status not in (200, 203) or not _is_page(reply):
            self._usage.seen[url] = build_page_state(
                url, reply, fingerprint="", before=before, now=now
            )
            return None
        parsed = parse_page(reply.body, content_type=reply.headers.get("content-type", ""))
        if reply.truncated:
            self.limits_hit.add("bytes")
        fingerprint = compute_fingerprint(parsed.title, parsed.text)
        seen = build_page_state(url, reply, fingerprint=fingerprint, before=before, now=now)
        page_type = _classify_parsed(parsed)
        if page_type is not PageType.PAGE:
            missing = page_type is PageType.MISSING
            self._usage.seen[url] = replace(seen, status=404) if missing else seen
            return page_type
        self._usage.seen[url] = seen
        if fingerprint in self._fingerprints:
            return parsed  # the same page under another address
        self._fingerprints.add(fingerprint)
        self._changed_count += before is None or before.fingerprint != fingerprint
        page = Page(
            url=url,
            kind=kind,
            title=clean_text(parsed.title),
            text=clean_text(parsed.text),
            markup=parsed.markup.encode("utf-8", "replace"),
            seen=seen,
        )
        self._pages.append(page)
        self._add_facts(parsed, url, reply)
        return parsed

    def _add_facts(self, parsed: ParsedPage, url: str, reply: Response) -> None:
        for fact in (
            *find_contacts(parsed, url=url),
            *find_technology(parsed, url=url, headers=reply.headers),
        ):
            key = (fact.field, fact.value)
            known = self._facts.get(key)
            if known is None and len(self._facts) >= MAX_SITE_FACTS:
                return
            if known is None or known.confidence < fact.confidence:
                self._facts[key] = fact

    def _list_links(self, base: Url, parsed: ParsedPage) -> list[tuple[Url, str]]:
        if "nofollow" in parsed.meta_tags.robots or "none" in parsed.meta_tags.robots:
            return []
        targets = ((parse_page_url(base, link.href), link.text) for link in parsed.links)
        return [(at, text) for at, text in targets if at and get_site(at.host) == self._site]

    def _list_earlier_pages(self, home: Url) -> list[KeyPage]:
        """Return the pages that were read last time, in the order of their value."""
        read = []
        for seen in self._known.values():
            if seen.status == 200 and seen.fingerprint and not seen.url.endswith("/robots.txt"):
                address = _parse_url(seen.url)
                if address is not None and get_site(address.host) == self._site:
                    read.append((address, ""))
        homes = [str(home), str(self._start)]
        return choose_key_pages(read, most=self._limits.pages - 1, not_again=homes)

    async def _discover_pages(
        self, home: Url, links: list[tuple[Url, str]], sitemaps: Sequence[str]
    ) -> list[KeyPage]:
        """Return the pages worth a request, from the home page's links and, if few, sitemaps."""
        # More than we will read: some will be missing or forbidden.
        most = 3 * self._limits.pages
        homes = [str(home), str(self._start)]
        wanted = choose_key_pages(links, most=most, not_again=homes)
        if sum(page.kind != OTHER for page in wanted) >= self._limits.pages - 1:
            return wanted
        listed = await self._list_sitemap_pages(home, sitemaps)
        return choose_key_pages([*links, *listed], most=most, not_again=homes) if listed else wanted

    async def _list_sitemap_pages(
        self, home: Url, sitemaps: Sequence[str]
    ) -> list[tuple[Url, str]]:
        maps = deque(sitemaps or [f"{home.scheme}://{home.netloc}/sitemap.xml"])
        asked: set[str] = set()
        pages: list[tuple[Url, str]] = []
        while maps and len(asked) < MAX_SITEMAP_FILES and not self._is_limit_reached():
            address = _parse_url(maps.popleft())
            if address is None or str(address) in asked or get_site(address.host) != self._site:
                continue
            asked.add(str(address))
            fetched = await self._fetch(address)
            if fetched.reply is None or fetched.reply.status != 200:
                continue
            sitemap = parse_sitemap(fetched.reply.body)
            # The sitemap of pages comes before those of posts and products.
            maps.extend(sorted(sitemap.maps, key=lambda at: "page" not in at)[:MAX_SITEMAP_FILES])
            for text in sitemap.pages:
                at = parse_page_url(home, text)
                if at is not None and get_site(at.host) == self._site:
                    pages.append((at, ""))
        return pages

    async def _read_pages(self, wanted: Sequence[KeyPage], home: Url) -> None:
        for page in wanted:
            if self._is_limit_reached():
                return
            address = _parse_url(page.url)
            if address is None:
                continue
            fetched = await self._fetch(address)
            url = str(fetched.address)
            if url == str(home) or (url != page.url and url in self._usage.seen):
                continue  # a redirect to a page that was read
            kind = page.kind if page.kind != OTHER else get_page_kind(fetched.address.target)
            self._record_page(fetched, kind)
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


@cache
def _load_suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def get_site(host: str) -> str:
    """Return the registrable name of a host; a host without one is its own site."""
    return str(_load_suffixes().privatesuffix(host) or host)


def parse_site(url: str) -> str:
    """Return the site of a URL or host, the key its pages are stored under."""
    address = _parse_url(url if "://" in url[:12] else f"http://{url.strip()}")
    return url[:200] if address is None else get_site(address.host)


def _parse_url(url: str) -> Url | None:
    try:
        return parse_url(url)
    except PermanentError:
        return None


def _classify_parsed(parsed: ParsedPage) -> PageType:
    return classify_page(
        title=parsed.title,
        text=parsed.text,
        asks_for_password=parsed.asks_for_password,
        wants_script=parsed.needs_javascript,
    )


def _is_page(reply: Response) -> bool:
    content_type = reply.headers.get("content-type", "").lower()
    return not content_type or content_type.startswith(_PAGE_TYPES)
