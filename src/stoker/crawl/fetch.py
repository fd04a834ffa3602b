"""Asks a site for one address, politely: its robots.txt first, one request at a time, in its pace.

Follows redirects within the site only, a few. What a page says is not looked at; a failure comes
back as a sentence, never as an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from stoker.base.clock import Clock
from stoker.base.errors import PermanentError, TransientError, UncertainError
from stoker.base.retry import parse_retry_after
from stoker.base.types import clean_text
from stoker.crawl.model import HostPacer, PageState, VisitOutcome
from stoker.crawl.outcomes import VisitEnd
from stoker.crawl.robots import (
    CLOSED_ROBOTS,
    MAX_ROBOTS_BYTES,
    OPEN_ROBOTS,
    Access,
    Robots,
    get_product_token,
    parse_robots,
)
from stoker.http.client import MAX_REDIRECTS, REDIRECT_STATUSES, HttpClient, Request, Response
from stoker.http.url import Url, parse_url, resolve_link

MIN_DELAY = timedelta(seconds=0.5)  # between two requests to a host, unless it wants longer

ROBOTS_TTL = timedelta(hours=24)  # RFC 9309: not longer

DEFAULT_RETRY_DELAY = timedelta(seconds=60)  # for a host that says "later" without saying when

_MAX_CACHED_ROBOTS = (
    256  # of the sites asked last: a visit is soon over, and rules take some memory
)

MAX_CACHED_RULES = 16_000_000  # characters of all of them together

_MAX_VALIDATOR_LENGTH = 300

SameSite = Callable[[str], bool]
"""Says whether a host belongs to the site that is visited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """One address as it was answered, or why it was not."""

    address: Url  # where it ended
    reply: Response | None = None
    end: VisitEnd | None = None  # why there is no reply; a sentence


@dataclass(slots=True)
class CrawlUsage:
    """What a visit has taken so far."""

    requests: int = 0
    bytes: int = 0
    not_modified: int = 0
    seen: dict[str, PageState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _CachedRobots:
    robots: Robots
    at: timedelta


class PoliteFetcher:
    """Asks for pages for every visit of a process, so that hosts are paced and rules are shared."""

    def __init__(
        self,
        http: HttpClient,
        *,
        pacer: HostPacer,
        clock: Clock,
        user_agent: str,
        gap: timedelta = MIN_DELAY,
        most_rules: int = MAX_CACHED_RULES,
    ) -> None:
        self.gap = gap
        self._most_rules = most_rules
        self._http = http
        self._pacer = pacer
        self._clock = clock
        self._product = get_product_token(user_agent)
        self._robots: dict[str, _CachedRobots] = {}
        self._cached_rules = 0  # characters
        # One request at a time to a host, also when two tenants want its pages.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def fetch(
        self,
        address: Url,
        *,
        toll: CrawlUsage,
        known: dict[str, PageState],
        same_site: SameSite,
        deadline: timedelta,
        most_bytes: int,
    ) -> FetchResult:
        """Ask for one address; with what is known of it, only for what changed."""
        for _ in range(MAX_REDIRECTS + 1):
            robots = await self.get_robots(address, toll=toll, known=known, deadline=deadline)
            if not robots.allows(str(address)):
                return FetchResult(address=address, end=_get_refusal(robots))
            seen = known.get(str(address))
            try:
                reply = await self._send(
                    address,
                    _build_conditions(seen),
                    robots,
                    toll,
                    deadline=deadline,
                    most=most_bytes,
                )
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
                away = f"it sends visitors on to another site, {onward.netloc}"
                return FetchResult(address=address, end=VisitEnd(VisitOutcome.GONE, away))
            address = onward
        circle = f"it sends visitors on more than {MAX_REDIRECTS} times"
        return FetchResult(address=address, end=VisitEnd(VisitOutcome.FAILED, circle))

    async def get_robots(
        self,
        address: Url,
        *,
        toll: CrawlUsage,
        known: dict[str, PageState],
        deadline: timedelta,
    ) -> Robots:
        """Return what an address' host allows us; asked for once a day at most."""
        where = parse_url(f"{address.scheme}://{address.netloc}/robots.txt")
        kept = self._robots.get(str(where))
        now = self._clock.elapsed()
        if kept is not None and now - kept.at < ROBOTS_TTL:
            return kept.robots
        seen = known.get(str(where))
        earlier = OPEN_ROBOTS if _forbids_nothing(seen) else None
        try:
            ended, reply = await self._fetch_robots(where, known, toll, deadline=deadline)
        except PermanentError:
            # No such host, or a robots.txt that leads nowhere: as if there were none. If it is
            # the host that is missing, its home page will say so.
            return self._cache_robots(where, OPEN_ROBOTS, None, toll, known)
        except (TransientError, UncertainError) as error:
            unreachable = replace(CLOSED_ROBOTS, unreachable=str(error))
            return self._choose_fallback(seen, earlier, otherwise=unreachable)
        if reply.status == 304 and _forbids_nothing(known.get(str(ended))):
            toll.not_modified += 1
            found = OPEN_ROBOTS
        elif reply.status == 200:
            found = parse_robots(reply.body, product=self._product)
        elif 400 <= reply.status < 500 and reply.status != 429:
            found = OPEN_ROBOTS
        else:
            return self._choose_fallback(seen, earlier, otherwise=CLOSED_ROBOTS)
        if ended == where:
            return self._cache_robots(where, found, reply, toll, known)
        if ended.target == where.target:
            # Another host's own rules, read on the way to it.
            self._cache_robots(ended, found, reply, toll, known)
        # What its answer is known by there says nothing here.
        bare = replace(reply, headers={}, status=200)
        return self._cache_robots(where, found, bare, toll, known)

    async def _fetch_robots(
        self, where: Url, known: dict[str, PageState], toll: CrawlUsage, *, deadline: timedelta
    ) -> tuple[Url, Response]:
        """Return what a robots.txt's address leads to and where that is, each hop in its turn.

        Raises as `HttpClient.send`; also PermanentError when it leads nowhere.
        """
        at = where
        for _ in range(MAX_REDIRECTS + 1):
            seen = known.get(str(at))
            # A file that said nothing is known by its fingerprint; of others we need the words.
            conditions = _build_conditions(seen if _forbids_nothing(seen) else None)
            reply = await self._send(
                at, conditions, None, toll, deadline=deadline, most=MAX_ROBOTS_BYTES
            )
            to = reply.headers.get("location") if reply.status in REDIRECT_STATUSES else None
            if not to:
                return at, reply
            at = resolve_link(at, to)
        raise PermanentError(f"the robots.txt of {where.netloc} leads on and on")

    def _choose_fallback(
        self, seen: PageState | None, earlier: Robots | None, *, otherwise: Robots
    ) -> Robots:
        """Return what holds while a robots.txt cannot be read: what it said, if that was today."""
        if seen is None or earlier is None:
            return otherwise
        return earlier if self._clock.now() - seen.seen_at < ROBOTS_TTL else otherwise

    def _cache_robots(
        self,
        where: Url,
        robots: Robots,
        reply: Response | None,
        toll: CrawlUsage,
        known: dict[str, PageState],
    ) -> Robots:
        self._drop_cached(str(where))
        while self._robots and (
            len(self._robots) >= _MAX_CACHED_ROBOTS
            or self._cached_rules + len(robots.rules.text) > self._most_rules
        ):
            self._drop_cached(next(iter(self._robots)))
        self._robots[str(where)] = _CachedRobots(robots, self._clock.elapsed())
        self._cached_rules += len(robots.rules.text)
        if reply is not None:
            now, before = self._clock.now(), known.get(str(where))
            toll.seen[str(where)] = build_page_state(
                str(where), reply, fingerprint=robots.fingerprint, before=before, now=now
            )
        return robots

    def _drop_cached(self, where: str) -> None:
        if (kept := self._robots.pop(where, None)) is not None:
            self._cached_rules -= len(kept.robots.rules.text)

    async def _send(
        self,
        address: Url,
        conditions: dict[str, str],
        robots: Robots | None,
        toll: CrawlUsage,
        *,
        deadline: timedelta,
        most: int,
    ) -> Response:
        gap = self.gap if robots is None else robots.compute_delay(self.gap)
        line = self._locks.get(address.host)
        if line is None:
            line = self._locks[address.host] = asyncio.Lock()
        async with line:
            await self._pacer.acquire(address.host, gap=gap)
            toll.requests += 1
            reply = await self._http.send(
                Request(
                    method="GET",
                    url=str(address),
                    headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.5", **conditions},
                    deadline=deadline,
                    max_bytes=most,
                )
            )
        toll.bytes += reply.wire_bytes
        wait = robots.delay if robots is not None and robots.is_home_page_only else None
        if reply.status in (429, 503):
            wait = max(
                parse_retry_after(reply.headers) or DEFAULT_RETRY_DELAY, wait or DEFAULT_RETRY_DELAY
            )
        if wait is not None:
            await self._pacer.delay_until(address.host, until=self._clock.now() + wait)
        return reply


def _forbids_nothing(robots: PageState | None) -> bool:
    """Say whether a robots.txt is known to have forbidden nothing."""
    return robots is not None and robots.fingerprint == OPEN_ROBOTS.fingerprint


def _get_refusal(robots: Robots) -> VisitEnd:
    """Return how a visit ends that robots.txt, or its silence, does not allow."""
    if robots.unreachable:
        return VisitEnd(VisitOutcome.FAILED, robots.unreachable)
    if robots.access is Access.CLOSED:
        why = "its robots.txt could not be read, so nothing is asked of it"
        return VisitEnd(VisitOutcome.BLOCKED, why, unwanted=True)
    return VisitEnd(VisitOutcome.BLOCKED, "its robots.txt asks us not to", unwanted=True)


def build_page_state(
    url: str, reply: Response, *, fingerprint: str, before: PageState | None, now: datetime
) -> PageState:
    """Return what to remember of an answer, given what was known of its address."""
    same = before is not None and before.fingerprint == fingerprint
    return PageState(
        url=url,
        status=200 if reply.status == 304 else reply.status,
        etag=_get_validator(reply, "etag")
        or (before.etag if before and reply.status == 304 else ""),
        last_modified=_get_validator(reply, "last-modified")
        or (before.last_modified if before and reply.status == 304 else ""),
        fingerprint=fingerprint,
        seen_at=now,
        changed_at=before.changed_at if before is not None and same else now,
    )


def _build_conditions(seen: PageState | None) -> dict[str, str]:
    """Return the headers that ask for a page only if it changed."""
    if seen is None or not seen.fingerprint:
        return {}
    if seen.etag:
        return {"if-none-match": seen.etag}
    return {"if-modified-since": seen.last_modified} if seen.last_modified else {}


def _get_validator(reply: Response, name: str) -> str:
    """Return a validator that can be sent back as it came; anything odd is as good as none."""
    text = clean_text(reply.headers.get(name, ""))
    plain = all(" " <= letter <= "~" for letter in text)
    return text if plain and len(text) <= _MAX_VALIDATOR_LENGTH else ""
