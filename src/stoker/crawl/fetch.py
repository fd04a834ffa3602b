"""Fetch one URL politely: robots.txt first, one request at a time, with the host's delay.

Follows a few redirects, within the site only. A failure is returned as a sentence, never raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from stoker.base.clock import Clock
from stoker.base.errors import PermanentError, TransientError, UncertainError
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.base.retry import parse_retry_after
from stoker.crawl.model import PageState, VisitEnd, VisitOutcome
from stoker.crawl.robots import (
    CLOSED_ROBOTS,
    MAX_ROBOTS_BYTES,
    OPEN_ROBOTS,
    SMALL_ROBOTS_BYTES,
    Access,
    Robots,
    get_product_token,
    parse_robots,
)
from stoker.crawl.settings import CrawlSettings
from stoker.http.client import (
    MAX_REDIRECTS,
    REDIRECT_STATUSES,
    HttpClient,
    Request,
    Response,
    build_conditions,
    get_validators,
)
from stoker.http.url import Url, parse_url, resolve_link
from stoker.rate_limits.host_delays import HostPacer

MIN_DELAY = timedelta(
    seconds=CrawlSettings.gap_s
)  # between two requests to a host, unless it asks for longer
ROBOTS_TTL = timedelta(hours=24)  # RFC 9309: not longer
DEFAULT_RETRY_DELAY = timedelta(seconds=60)  # for a 429 or 503 without Retry-After
_MAX_CACHED_ROBOTS = 256  # of the last sites: visits are short, and rules take memory
MAX_CACHED_RULES = 16_000_000  # characters of all of them together
SameSite = Callable[[str], bool]
"""Returns whether a host belongs to the site that is visited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    address: Url  # where it ended
    reply: Response | None = None
    end: VisitEnd | None = None  # why there is no reply; a sentence


@dataclass(slots=True)
class CrawlUsage:
    """What one visit may use of each request, knew before, has used and has seen."""

    deadline: timedelta  # of one request
    known: dict[str, PageState] = field(default_factory=dict)
    requests: int = 0
    bytes: int = 0
    not_modified: int = 0
    seen: dict[str, PageState] = field(default_factory=dict)

    def record_seen(
        self, url: str, reply: Response, *, fingerprint: str, now: datetime
    ) -> PageState:
        """Record and return the state to store for a response, given the earlier one."""
        before = self.known.get(url)
        etag, last_modified = get_validators(reply)
        if before is not None and reply.status == 304:
            etag, last_modified = etag or before.etag, last_modified or before.last_modified
        is_same = before is not None and before.fingerprint == fingerprint
        self.seen[url] = PageState(
            url=url,
            status=200 if reply.status == 304 else reply.status,
            etag=etag,
            last_modified=last_modified,
            fingerprint=fingerprint,
            seen_at=now,
            changed_at=before.changed_at if before is not None and is_same else now,
        )
        return self.seen[url]


@dataclass(frozen=True, slots=True)
class _CachedRobots:
    robots: Robots
    at: timedelta


class PoliteFetcher:
    """Fetches URLs for all visits of a process, so that delays and robots.txt are shared."""

    def __init__(
        self,
        http: HttpClient,
        *,
        pacer: HostPacer,
        clock: Clock,
        pool: ProcessPool,
        user_agent: str,
        gap: timedelta = MIN_DELAY,
        most_rules: int = MAX_CACHED_RULES,
    ) -> None:
        self.gap = gap
        self._most_rules = most_rules
        self._http = http
        self._pacer = pacer
        self._clock = clock
        self._pool = pool
        self._product = get_product_token(user_agent)
        self._robots: dict[str, _CachedRobots] = {}
        self._cached_rules = 0  # characters
        # One request at a time to a host, also when two tenants want its pages.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def fetch(
        self,
        address: Url,
        usage: CrawlUsage,
        *,
        same_site: SameSite,
        most_bytes: int,
    ) -> FetchResult:
        """Fetch one URL; a known page only if it changed."""
        for _ in range(MAX_REDIRECTS + 1):
            robots = await self.get_robots(address, usage)
            if not robots.allows(str(address)):
                return FetchResult(address=address, end=_get_refusal(robots))
            conditions = _build_conditions(usage.known.get(str(address)))
            try:
                reply = await self._send(address, conditions, robots, usage, most=most_bytes)
            except PermanentError as error:
                return FetchResult(address=address, end=VisitEnd(VisitOutcome.GONE, str(error)))
            except (TransientError, UncertainError) as error:
                return FetchResult(address=address, end=VisitEnd(VisitOutcome.FAILED, str(error)))
            to = reply.headers.get("location") if reply.status in REDIRECT_STATUSES else None
            if to is None:
                return FetchResult(address=address, reply=reply)
            try:
                onward = resolve_link(address, to)
            except PermanentError as error:
                return FetchResult(address=address, end=VisitEnd(VisitOutcome.GONE, str(error)))
            if not same_site(onward.host):
                away = f"it redirects to another site, {onward.netloc}"
                return FetchResult(address=address, end=VisitEnd(VisitOutcome.GONE, away))
            address = onward
        circle = f"it redirects more than {MAX_REDIRECTS} times"
        return FetchResult(address=address, end=VisitEnd(VisitOutcome.FAILED, circle))

    async def get_robots(self, address: Url, usage: CrawlUsage) -> Robots:
        """Return what the URL's host allows us; fetched once a day at most."""
        robots_url = parse_url(f"{address.scheme}://{address.netloc}/robots.txt")
        cached = self._robots.get(str(robots_url))
        now = self._clock.elapsed()
        if cached is not None and now - cached.at < ROBOTS_TTL:
            return cached.robots
        seen = usage.known.get(str(robots_url))
        try:
            final_url, reply = await self._fetch_robots(robots_url, usage)
        except PermanentError:
            # No such host, or endless redirects: as if there were none. If the host is missing,
            # its home page will fail too.
            return self._cache_robots(robots_url, OPEN_ROBOTS, None, usage)
        except (TransientError, UncertainError) as error:
            unreachable = replace(CLOSED_ROBOTS, unreachable=str(error))
            return self._choose_fallback(seen, otherwise=unreachable)
        if reply.status == 304 and _forbids_nothing(usage.known.get(str(final_url))):
            usage.not_modified += 1
            robots = OPEN_ROBOTS
        elif reply.status == 200:
            parsed = await self._parse_robots(reply.body)
            if isinstance(parsed, Aborted):
                return self._choose_fallback(seen, otherwise=CLOSED_ROBOTS)
            robots = parsed
        elif 400 <= reply.status < 500 and reply.status != 429:
            robots = OPEN_ROBOTS
        else:
            return self._choose_fallback(seen, otherwise=CLOSED_ROBOTS)
        if final_url == robots_url:
            return self._cache_robots(robots_url, robots, reply, usage)
        if final_url.target == robots_url.target:
            # Another host's own robots.txt, reached by a redirect.
            self._cache_robots(final_url, robots, reply, usage)
        # The other host's validators mean nothing here.
        bare = replace(reply, headers={}, status=200)
        return self._cache_robots(robots_url, robots, bare, usage)

    async def _parse_robots(self, body: bytes) -> Robots | Aborted:
        if len(body) <= SMALL_ROBOTS_BYTES:
            return parse_robots(body, product=self._product)
        return await self._pool.run(parse_robots, body, product=self._product)

    async def _fetch_robots(self, robots_url: Url, usage: CrawlUsage) -> tuple[Url, Response]:
        """Return the robots.txt and its URL after redirects.

        Raises as `HttpClient.send`; also PermanentError for endless redirects.
        """
        at = robots_url
        for _ in range(MAX_REDIRECTS + 1):
            seen = usage.known.get(str(at))
            # An empty file is known by its fingerprint; of others we need the text.
            conditions = _build_conditions(seen if _forbids_nothing(seen) else None)
            reply = await self._send(at, conditions, None, usage, most=MAX_ROBOTS_BYTES)
            to = reply.headers.get("location") if reply.status in REDIRECT_STATUSES else None
            if not to:
                return at, reply
            at = resolve_link(at, to)
        raise PermanentError(f"the robots.txt of {robots_url.netloc} redirects too often")

    def _choose_fallback(self, seen: PageState | None, *, otherwise: Robots) -> Robots:
        """Return the rules while robots.txt cannot be read: none, if it had none today."""
        if seen is None or not _forbids_nothing(seen):
            return otherwise
        return OPEN_ROBOTS if self._clock.now() - seen.seen_at < ROBOTS_TTL else otherwise

    def _cache_robots(
        self, robots_url: Url, robots: Robots, reply: Response | None, usage: CrawlUsage
    ) -> Robots:
        self._drop_cached(str(robots_url))
        while self._robots and (
            len(self._robots) >= _MAX_CACHED_ROBOTS
            or self._cached_rules + len(robots.rules.text) > self._most_rules
        ):
            self._drop_cached(next(iter(self._robots)))
        self._robots[str(robots_url)] = _CachedRobots(robots, self._clock.elapsed())
        self._cached_rules += len(robots.rules.text)
        if reply is not None:
            usage.record_seen(
                str(robots_url), reply, fingerprint=robots.fingerprint, now=self._clock.now()
            )
        return robots

    def _drop_cached(self, robots_url: str) -> None:
        if (cached := self._robots.pop(robots_url, None)) is not None:
            self._cached_rules -= len(cached.robots.rules.text)

    async def _send(
        self,
        address: Url,
        conditions: dict[str, str],
        robots: Robots | None,
        usage: CrawlUsage,
        *,
        most: int,
    ) -> Response:
        gap = self.gap if robots is None else robots.compute_delay(self.gap)
        line = self._locks.get(address.host)
        if line is None:
            line = self._locks[address.host] = asyncio.Lock()
        async with line:
            await self._pacer.acquire(address.host, gap=gap)
            usage.requests += 1
            reply = await self._http.send(
                Request(
                    method="GET",
                    url=str(address),
                    headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.5", **conditions},
                    deadline=usage.deadline,
                    max_bytes=most,
                )
            )
        usage.bytes += reply.wire_bytes
        wait = robots.delay if robots is not None and robots.is_home_page_only else None
        if reply.status in (429, 503):
            wait = max(
                parse_retry_after(reply.headers) or DEFAULT_RETRY_DELAY, wait or DEFAULT_RETRY_DELAY
            )
        if wait is not None:
            await self._pacer.delay_until(address.host, until=self._clock.now() + wait)
        return reply


def _forbids_nothing(robots: PageState | None) -> bool:
    return robots is not None and robots.fingerprint == OPEN_ROBOTS.fingerprint


def _get_refusal(robots: Robots) -> VisitEnd:
    """Return how a visit ends that robots.txt, or its absence, does not allow."""
    if robots.unreachable:
        return VisitEnd(VisitOutcome.FAILED, robots.unreachable)
    if robots.access is Access.CLOSED:
        why = "its robots.txt could not be read, so it is not crawled"
        return VisitEnd(VisitOutcome.BLOCKED, why, unwanted=True)
    return VisitEnd(VisitOutcome.BLOCKED, "its robots.txt disallows crawling", unwanted=True)


def _build_conditions(seen: PageState | None) -> dict[str, str]:
    """Return the headers that request a page only if it changed."""
    if seen is None or not seen.fingerprint:
        return {}
    return build_conditions(etag=seen.etag, last_modified=seen.last_modified)
