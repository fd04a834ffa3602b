"""One visit to one site, step by step: home page, key pages, what they say, why it ended.

Works through a list that only gets shorter, within limits on pages, bytes, time and depth. Which
pages matter and what a page is are decided in the core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache

from publicsuffixlist import PublicSuffixList

from stoker.accounts.facts import Field, Finding
from stoker.base.clock import Clock
from stoker.base.errors import PermanentError
from stoker.base.types import clean_text
from stoker.crawl.contacts import contacts
from stoker.crawl.fetch import Fetched, PageAsking, Toll, page_seen
from stoker.crawl.key_pages import HOME, OTHER, KeyPage, key_pages, page_address, page_kind
from stoker.crawl.model import Outcome, Page, PageSeen, SiteVisit
from stoker.crawl.outcomes import (
    Ending,
    Nature,
    ending_of,
    page_nature,
    status_ending,
    visit_ending,
)
from stoker.crawl.page import Reading, read_page
from stoker.crawl.page_text import fingerprint
from stoker.crawl.sitemaps import read_sitemap
from stoker.crawl.technology import technology
from stoker.http.client import Reply
from stoker.http.url import WebAddress, web_address

MOST_MAPS = 3  # sitemap files asked for in one visit

MOST_FINDINGS = 200

_PAGE_TYPES = ("text/html", "application/xhtml", "text/plain")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlLimits:
    """How much one visit may take."""

    pages: int = 6
    page_bytes: int = 2_000_000  # unpacked
    bytes: int = 10_000_000  # of all pages together, as sent
    request: timedelta = timedelta(seconds=15)
    site: timedelta = timedelta(seconds=120)


class Visiting:
    """A visit under way. `go` once, then `told`."""

    def __init__(
        self,
        asking: PageAsking,
        start: WebAddress,
        known: Sequence[PageSeen],
        *,
        limits: CrawlLimits,
        clock: Clock,
    ) -> None:
        self._asking = asking
        self._start = start
        self._known = {seen.url: seen for seen in known}
        self._limits = limits
        self._clock = clock
        self._site = site_of(start.host)
        self._toll = Toll()
        self._pages: list[Page] = []
        self._findings: dict[tuple[Field, str], Finding] = {}
        self._prints: set[str] = set()
        self._asked = 0
        self._changed = 0
        self._as_before = 0
        self._gap = asking.gap
        self._began = clock.elapsed()
        self._shell: Ending | None = None
        self.limits_hit: set[str] = set()
        self.answered = False

    async def go(self) -> Ending:
        """Make the visit, and return how it ended."""
        home = await self._fetch(self._start)
        if home.reply is None:
            return home.ending or Ending(Outcome.FAILED, "the site did not answer")
        self.answered = True
        before = self._changed
        links: list[tuple[WebAddress, str]] = []
        missing = home.reply.status in (404, 410)
        if not missing:
            if (end := self._home_ending(home.reply)) is not None:
                return end
            kept = self._kept(home, HOME)
            if isinstance(kept, Nature):
                end = ending_of(kept)
                # Only a home page that sits alone is the end; a shell may have a sitemap.
                if end is not None and kept is not Nature.SHELL:
                    return end
                self._shell = end
            elif kept is not None:
                links = self._links(home.address, kept)
        robots = await self._asking.robots(
            home.address, toll=self._toll, known=self._known, deadline=self._limits.request
        )
        self._gap = robots.gap(self._asking.gap)
        if robots.one_page_only:
            self.limits_hit.add("time")
            return self._ending()
        seen = self._known.get(str(home.address))
        if seen is not None and seen.fingerprint and self._changed == before:
            wanted = self._earlier(home.address)
        else:
            wanted = await self._discovered(home.address, links, robots.sitemaps)
        await self._read(wanted, home.address)
        if missing and not self._pages:
            return status_ending(home.reply.status) or self._ending()
        return self._ending()

    def cut_short(self) -> Ending:
        """Return how a visit ended that ran out of time."""
        if self._pages or self._as_before:
            return self._ending()
        seconds = self._limits.site.total_seconds()
        return Ending(Outcome.FAILED, f"nothing could be read within {seconds:g} seconds")

    def told(self, ending: Ending) -> SiteVisit:
        """Return the visit as the caller keeps it."""
        return SiteVisit(
            site=self._site,
            outcome=ending.outcome,
            reason=clean_text(ending.reason)[:500],
            pages=tuple(self._pages),
            seen=tuple(self._toll.seen.values()),
            findings=tuple(self._findings.values()),
            requests=self._toll.requests,
            bytes=self._toll.bytes,
            not_modified=self._toll.not_modified,
            limits_hit=tuple(sorted(self.limits_hit)),
            unwanted=ending.unwanted,
        )

    def _ending(self) -> Ending:
        if self._shell is not None and not self._pages:
            return self._shell
        return visit_ending(
            read=len(self._pages),
            changed=self._changed,
            not_modified=self._as_before,
            letters=sum(len(page.text) for page in self._pages),
        )

    def _home_ending(self, reply: Reply) -> Ending | None:
        ending = status_ending(reply.status)
        if ending is not None and ending.outcome is Outcome.FAILED and reply.status == 503:
            reading = read_page(reply.body, content_type=reply.headers.get("content-type", ""))
            if _nature(reading) is Nature.CHALLENGE:
                return ending_of(Nature.CHALLENGE)
        if ending is None and reply.status != 304 and not _is_page(reply):
            return Ending(Outcome.THIN, "the home page is a file, not a page")
        return ending

    async def _fetch(self, address: WebAddress) -> Fetched:
        return await self._asking.fetch(
            address,
            toll=self._toll,
            known=self._known,
            same_site=lambda host: site_of(host) == self._site,
            deadline=self._limits.request,
            most_bytes=self._limits.page_bytes,
        )

    def _kept(self, fetched: Fetched, kind: str) -> Reading | Nature | None:
        """Keep what an answer says; return it read, or what it is if it is no page for visitors."""
        reply = fetched.reply
        if reply is None:
            return None
        url, now = str(fetched.address), self._clock.now()
        before = self._known.get(url)
        if reply.status == 304:
            self._toll.not_modified += 1
            if before is not None:
                self._as_before += 1
                self._toll.seen[url] = page_seen(
                    url, reply, fingerprint=before.fingerprint, before=before, now=now
                )
            return None
        if reply.status not in (200, 203) or not _is_page(reply):
            self._toll.seen[url] = page_seen(url, reply, fingerprint="", before=before, now=now)
            return None
        reading = read_page(reply.body, content_type=reply.headers.get("content-type", ""))
        if reply.cut:
            self.limits_hit.add("bytes")
        said = fingerprint(reading.title, reading.text)
        seen = page_seen(url, reply, fingerprint=said, before=before, now=now)
        nature = _nature(reading)
        if nature is not Nature.PAGE:
            missing = nature is Nature.MISSING
            self._toll.seen[url] = replace(seen, status=404) if missing else seen
            return nature
        self._toll.seen[url] = seen
        if said in self._prints:
            return reading  # the same page under another address
        self._prints.add(said)
        self._changed += before is None or before.fingerprint != said
        page = Page(
            url=url,
            kind=kind,
            title=clean_text(reading.title),
            text=clean_text(reading.text),
            markup=reading.markup.encode("utf-8", "replace"),
            seen=seen,
        )
        self._pages.append(page)
        self._find(reading, url, reply)
        return reading

    def _find(self, reading: Reading, url: str, reply: Reply) -> None:
        for finding in (
            *contacts(reading, url=url),
            *technology(reading, url=url, headers=reply.headers),
        ):
            key = (finding.field, finding.value)
            known = self._findings.get(key)
            if known is None and len(self._findings) >= MOST_FINDINGS:
                return
            if known is None or known.confidence < finding.confidence:
                self._findings[key] = finding

    def _links(self, base: WebAddress, reading: Reading) -> list[tuple[WebAddress, str]]:
        if "nofollow" in reading.metas.robots or "none" in reading.metas.robots:
            return []
        found = ((page_address(base, link.href), link.text) for link in reading.links)
        return [(at, text) for at, text in found if at and site_of(at.host) == self._site]

    def _earlier(self, home: WebAddress) -> list[KeyPage]:
        """Return the pages that were read last time, in the order they are worth a request."""
        read = []
        for seen in self._known.values():
            if seen.status == 200 and seen.fingerprint and not seen.url.endswith("/robots.txt"):
                address = _address(seen.url)
                if address is not None and site_of(address.host) == self._site:
                    read.append((address, ""))
        homes = [str(home), str(self._start)]
        return key_pages(read, most=self._limits.pages - 1, not_again=homes)

    async def _discovered(
        self, home: WebAddress, links: list[tuple[WebAddress, str]], sitemaps: Sequence[str]
    ) -> list[KeyPage]:
        """Return the pages worth a request, from the home page's links and, if few, sitemaps."""
        # More than we will read: some will not be there, or not for us.
        most = 3 * self._limits.pages
        homes = [str(home), str(self._start)]
        wanted = key_pages(links, most=most, not_again=homes)
        if sum(page.kind != OTHER for page in wanted) >= self._limits.pages - 1:
            return wanted
        listed = await self._listed(home, sitemaps)
        return key_pages([*links, *listed], most=most, not_again=homes) if listed else wanted

    async def _listed(
        self, home: WebAddress, sitemaps: Sequence[str]
    ) -> list[tuple[WebAddress, str]]:
        maps = deque(sitemaps or [f"{home.scheme}://{home.netloc}/sitemap.xml"])
        asked: set[str] = set()
        found: list[tuple[WebAddress, str]] = []
        while maps and len(asked) < MOST_MAPS and not self._used_up():
            address = _address(maps.popleft())
            if address is None or str(address) in asked or site_of(address.host) != self._site:
                continue
            asked.add(str(address))
            fetched = await self._fetch(address)
            if fetched.reply is None or fetched.reply.status != 200:
                continue
            sitemap = read_sitemap(fetched.reply.body)
            # Of several maps, the one of pages comes before those of posts and products.
            maps.extend(sorted(sitemap.maps, key=lambda at: "page" not in at)[:MOST_MAPS])
            for text in sitemap.pages:
                at = page_address(home, text)
                if at is not None and site_of(at.host) == self._site:
                    found.append((at, ""))
        return found

    async def _read(self, wanted: Sequence[KeyPage], home: WebAddress) -> None:
        for page in wanted:
            if self._used_up():
                return
            address = _address(page.url)
            if address is None:
                continue
            fetched = await self._fetch(address)
            url = str(fetched.address)
            if url == str(home) or (url != page.url and url in self._toll.seen):
                continue  # led back to what we know
            kind = page.kind if page.kind != OTHER else page_kind(fetched.address.target)
            self._kept(fetched, kind)
            if fetched.reply is not None and fetched.reply.status in (429, 503):
                return

    def _used_up(self) -> bool:
        """Say whether the visit may ask for nothing more, and note why."""
        if len(self._pages) + self._as_before >= self._limits.pages:
            self.limits_hit.add("pages")
        elif self._toll.bytes >= self._limits.bytes:
            self.limits_hit.add("bytes")
        elif self._toll.requests >= 4 * self._limits.pages + 6:
            self.limits_hit.add("requests")
        elif self._clock.elapsed() - self._began + self._gap >= self._limits.site:
            self.limits_hit.add("time")
        else:
            return False
        return True


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def site_of(host: str) -> str:
    """Return the registrable name a host belongs to; a host without one is its own site."""
    return str(_suffixes().privatesuffix(host) or host)


def site_named(url: str) -> str:
    """Return the site an address or a host's name belongs to, as visits are remembered under."""
    address = _address(url if "://" in url[:12] else f"http://{url.strip()}")
    return url[:200] if address is None else site_of(address.host)


def _address(url: str) -> WebAddress | None:
    try:
        return web_address(url)
    except PermanentError:
        return None


def _nature(reading: Reading) -> Nature:
    return page_nature(
        title=reading.title,
        text=reading.text,
        asks_for_password=reading.asks_for_password,
        wants_script=reading.wants_script,
    )


def _is_page(reply: Reply) -> bool:
    said = reply.headers.get("content-type", "").lower()
    return not said or said.startswith(_PAGE_TYPES)
