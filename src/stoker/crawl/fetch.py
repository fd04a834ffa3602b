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
from stoker.base.retry import retry_after
from stoker.base.types import clean_text
from stoker.crawl.model import Outcome, Pacer, PageSeen
from stoker.crawl.outcomes import Ending
from stoker.crawl.robots import CLOSED, MOST_BYTES, OPEN, Access, Robots, product_token, read_robots
from stoker.http.client import MOST_HOPS, REDIRECTS, Call, Http, Reply
from stoker.http.url import WebAddress, joined, web_address

GAP = timedelta(seconds=0.5)  # between two requests to a host, unless it wants longer

ROBOTS_GOOD_FOR = timedelta(hours=24)  # RFC 9309: not longer

LATER = timedelta(seconds=60)  # for a host that says "later" without saying when

_MOST_ROBOTS = 256  # of the sites asked last: a visit is soon over, and rules take some memory

MOST_RULES = 16_000_000  # characters of all of them together

_LONGEST_VALIDATOR = 300

SameSite = Callable[[str], bool]
"""Says whether a host belongs to the site that is visited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One address as it was answered, or why it was not."""

    address: WebAddress  # where it ended
    reply: Reply | None = None
    ending: Ending | None = None  # why there is no reply; a sentence


@dataclass(slots=True)
class Toll:
    """What a visit has taken so far."""

    requests: int = 0
    bytes: int = 0
    not_modified: int = 0
    seen: dict[str, PageSeen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Kept:
    robots: Robots
    at: timedelta


class PageAsking:
    """Asks for pages for every visit of a process, so that hosts are paced and rules are shared."""

    def __init__(
        self,
        http: Http,
        *,
        pacer: Pacer,
        clock: Clock,
        user_agent: str,
        gap: timedelta = GAP,
        most_rules: int = MOST_RULES,
    ) -> None:
        self.gap = gap
        self._most_rules = most_rules
        self._http = http
        self._pacer = pacer
        self._clock = clock
        self._product = product_token(user_agent)
        self._robots: dict[str, _Kept] = {}
        self._rules_kept = 0  # characters
        # One request at a time to a host, also when two tenants want its pages.
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def fetch(
        self,
        address: WebAddress,
        *,
        toll: Toll,
        known: dict[str, PageSeen],
        same_site: SameSite,
        deadline: timedelta,
        most_bytes: int,
    ) -> Fetched:
        """Ask for one address; with what is known of it, only for what changed."""
        for _ in range(MOST_HOPS + 1):
            robots = await self.robots(address, toll=toll, known=known, deadline=deadline)
            if not robots.allows(str(address)):
                return Fetched(address=address, ending=_refused(robots))
            seen = known.get(str(address))
            try:
                reply = await self._send(
                    address, _conditions(seen), robots, toll, deadline=deadline, most=most_bytes
                )
            except PermanentError as error:
                return Fetched(address=address, ending=Ending(Outcome.GONE, str(error)))
            except (TransientError, UncertainError) as error:
                return Fetched(address=address, ending=Ending(Outcome.FAILED, str(error)))
            to = reply.headers.get("location") if reply.status in REDIRECTS else None
            if to is None:
                return Fetched(address=address, reply=reply)
            try:
                onward = joined(address, to)
            except PermanentError as error:
                return Fetched(address=address, ending=Ending(Outcome.GONE, str(error)))
            if not same_site(onward.host):
                away = f"it sends visitors on to another site, {onward.netloc}"
                return Fetched(address=address, ending=Ending(Outcome.GONE, away))
            address = onward
        circle = f"it sends visitors on more than {MOST_HOPS} times"
        return Fetched(address=address, ending=Ending(Outcome.FAILED, circle))

    async def robots(
        self,
        address: WebAddress,
        *,
        toll: Toll,
        known: dict[str, PageSeen],
        deadline: timedelta,
    ) -> Robots:
        """Return what an address' host allows us; asked for once a day at most."""
        where = web_address(f"{address.scheme}://{address.netloc}/robots.txt")
        kept = self._robots.get(str(where))
        now = self._clock.elapsed()
        if kept is not None and now - kept.at < ROBOTS_GOOD_FOR:
            return kept.robots
        seen = known.get(str(where))
        earlier = OPEN if _said_nothing(seen) else None
        try:
            ended, reply = await self._rules(where, known, toll, deadline=deadline)
        except PermanentError:
            # No such host, or a robots.txt that leads nowhere: as if there were none. If it is
            # the host that is missing, its home page will say so.
            return self._remembered(where, OPEN, None, toll, known)
        except (TransientError, UncertainError) as error:
            unreachable = replace(CLOSED, unreachable=str(error))
            return self._unread(seen, earlier, otherwise=unreachable)
        if reply.status == 304 and _said_nothing(known.get(str(ended))):
            toll.not_modified += 1
            found = OPEN
        elif reply.status == 200:
            found = read_robots(reply.body, product=self._product)
        elif 400 <= reply.status < 500 and reply.status != 429:
            found = OPEN
        else:
            return self._unread(seen, earlier, otherwise=CLOSED)
        if ended == where:
            return self._remembered(where, found, reply, toll, known)
        if ended.target == where.target:
            # Another host's own rules, read on the way to it.
            self._remembered(ended, found, reply, toll, known)
        # What its answer is known by there says nothing here.
        bare = replace(reply, headers={}, status=200)
        return self._remembered(where, found, bare, toll, known)

    async def _rules(
        self, where: WebAddress, known: dict[str, PageSeen], toll: Toll, *, deadline: timedelta
    ) -> tuple[WebAddress, Reply]:
        """Return what a robots.txt's address leads to and where that is, each hop in its turn.

        Raises as `Http.send`; also PermanentError when it leads nowhere.
        """
        at = where
        for _ in range(MOST_HOPS + 1):
            seen = known.get(str(at))
            # A file that said nothing is known by its fingerprint; of others we need the words.
            conditions = _conditions(seen if _said_nothing(seen) else None)
            reply = await self._send(at, conditions, None, toll, deadline=deadline, most=MOST_BYTES)
            to = reply.headers.get("location") if reply.status in REDIRECTS else None
            if not to:
                return at, reply
            at = joined(at, to)
        raise PermanentError(f"the robots.txt of {where.netloc} leads on and on")

    def _unread(
        self, seen: PageSeen | None, earlier: Robots | None, *, otherwise: Robots
    ) -> Robots:
        """Return what holds while a robots.txt cannot be read: what it said, if that was today."""
        if seen is None or earlier is None:
            return otherwise
        return earlier if self._clock.now() - seen.seen_at < ROBOTS_GOOD_FOR else otherwise

    def _remembered(
        self,
        where: WebAddress,
        robots: Robots,
        reply: Reply | None,
        toll: Toll,
        known: dict[str, PageSeen],
    ) -> Robots:
        self._let_go(str(where))
        while self._robots and (
            len(self._robots) >= _MOST_ROBOTS
            or self._rules_kept + len(robots.rules.text) > self._most_rules
        ):
            self._let_go(next(iter(self._robots)))
        self._robots[str(where)] = _Kept(robots, self._clock.elapsed())
        self._rules_kept += len(robots.rules.text)
        if reply is not None:
            now, before = self._clock.now(), known.get(str(where))
            toll.seen[str(where)] = page_seen(
                str(where), reply, fingerprint=robots.fingerprint, before=before, now=now
            )
        return robots

    def _let_go(self, where: str) -> None:
        if (kept := self._robots.pop(where, None)) is not None:
            self._rules_kept -= len(kept.robots.rules.text)

    async def _send(
        self,
        address: WebAddress,
        conditions: dict[str, str],
        robots: Robots | None,
        toll: Toll,
        *,
        deadline: timedelta,
        most: int,
    ) -> Reply:
        gap = self.gap if robots is None else robots.gap(self.gap)
        line = self._lines.get(address.host)
        if line is None:
            line = self._lines[address.host] = asyncio.Lock()
        async with line:
            await self._pacer.turn(address.host, gap=gap)
            toll.requests += 1
            reply = await self._http.send(
                Call(
                    method="GET",
                    url=str(address),
                    headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.5", **conditions},
                    deadline=deadline,
                    most_bytes=most,
                )
            )
        toll.bytes += reply.wire_bytes
        wait = robots.delay if robots is not None and robots.one_page_only else None
        if reply.status in (429, 503):
            wait = max(retry_after(reply.headers) or LATER, wait or LATER)
        if wait is not None:
            await self._pacer.push_back(address.host, until=self._clock.now() + wait)
        return reply


def _said_nothing(robots: PageSeen | None) -> bool:
    """Say whether a robots.txt is known to have forbidden nothing."""
    return robots is not None and robots.fingerprint == OPEN.fingerprint


def _refused(robots: Robots) -> Ending:
    """Return how a visit ends that robots.txt, or its silence, does not allow."""
    if robots.unreachable:
        return Ending(Outcome.FAILED, robots.unreachable)
    if robots.access is Access.CLOSED:
        why = "its robots.txt could not be read, so nothing is asked of it"
        return Ending(Outcome.BLOCKED, why, unwanted=True)
    return Ending(Outcome.BLOCKED, "its robots.txt asks us not to", unwanted=True)


def page_seen(
    url: str, reply: Reply, *, fingerprint: str, before: PageSeen | None, now: datetime
) -> PageSeen:
    """Return what to remember of an answer, given what was known of its address."""
    same = before is not None and before.fingerprint == fingerprint
    return PageSeen(
        url=url,
        status=200 if reply.status == 304 else reply.status,
        etag=_validator(reply, "etag") or (before.etag if before and reply.status == 304 else ""),
        last_modified=_validator(reply, "last-modified")
        or (before.last_modified if before and reply.status == 304 else ""),
        fingerprint=fingerprint,
        seen_at=now,
        changed_at=before.changed_at if before is not None and same else now,
    )


def _conditions(seen: PageSeen | None) -> dict[str, str]:
    """Return the headers that ask for a page only if it changed."""
    if seen is None or not seen.fingerprint:
        return {}
    if seen.etag:
        return {"if-none-match": seen.etag}
    return {"if-modified-since": seen.last_modified} if seen.last_modified else {}


def _validator(reply: Reply, name: str) -> str:
    """Return a validator that can be sent back as it came; anything odd is as good as none."""
    text = clean_text(reply.headers.get(name, ""))
    plain = all(" " <= letter <= "~" for letter in text)
    return text if plain and len(text) <= _LONGEST_VALIDATOR else ""
