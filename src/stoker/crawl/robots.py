"""Parse robots.txt within bounds (RFC 9309): which URLs, what delay, which sitemaps.

Only the rules for us or for all crawlers count. A file may have thousands of rules, and a run meets
thousands of files: rules are written one way and sorted once, and stored as one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from urllib.parse import quote

from protego import Protego

from stoker.base.types import clean_text
from stoker.crawl.model import compute_exact_fingerprint

_PATH = re.compile(r"[a-z]{1,20}://[^/?#]*([^#]*)", re.IGNORECASE)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_STARS = re.compile(r"\*+")
_LITERAL = re.compile(r"[A-Za-z0-9_.~/=*-]*\$?")  # written one way already
_INDEX = "/index.html"  # allowing it allows its folder
MAX_PATH_LENGTH = 2_000  # characters; a longer path is not compared with patterns, and forbidden


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """Lines such as "-/private" and "+/private/*.html$", the rule that decides first."""

    text: str

    def allows(self, url: str) -> bool:
        found = _PATH.match(url)
        path = _normalize(found[1] if found else url, kept="/%")
        if not path.startswith("/"):
            path = f"/{path}"
        is_long = len(path) > MAX_PATH_LENGTH
        for line in self.text.splitlines():
            sign, pattern = line[0], line[1:]
            is_special = line.endswith("$") or "*" in line
            if path.startswith(pattern) or (
                is_special and (sign == "-" if is_long else _matches(path, pattern))
            ):
                return sign == "+"
        return True


def _matches(path: str, pattern: str) -> bool:
    is_whole = pattern.endswith("$")
    first, *pieces = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    if not pieces:
        return path == first
    last, at = pieces.pop(), len(first)
    for piece in pieces:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    if is_whole:
        return len(path) - len(last) >= at and path.endswith(last)
    return path.find(last, at) >= 0


def _normalize(text: str, *, kept: str) -> str:
    """Return a path or a pattern with one spelling for each character.

    Escapes of what is in `kept` stay escapes; `%` is, so that none is escaped twice.
    """

    def unescape(escape: re.Match[bytes]) -> bytes:
        byte = bytes.fromhex(escape[1].decode())
        return escape[0].upper() if byte.decode("latin-1") in kept else byte

    plain = _ESCAPE.sub(unescape, text.encode("utf-8", "replace")).decode("utf-8", "replace")
    return quote(plain, safe=f"{kept}=")


def compile_rules(lines: Iterable[str]) -> RobotsRules:
    """Return lines such as "Disallow: /private" in the order in which they decide: longest first.

    Of two equally long ones the one that allows decides.
    """
    rules: set[str] = set()
    for line in lines:
        word, _, value = line.partition(":")
        sign = {"a": "+", "d": "-"}.get(word[:1].lower())
        if sign is None:
            continue
        value = value.strip()
        # A dollar sign at the end means the end, or itself.
        for pattern in (value, value.replace("$", "%24")) if "$" in value else (value,):
            rule = sign + _normalize_pattern(pattern)
            rules.add(rule)
            if sign == "+" and rule.endswith(_INDEX):
                rules.add(f"{rule.removesuffix(_INDEX)}/$")
    rules -= {"+", "-"}
    decisive = sorted(rules, key=lambda rule: (-len(rule), rule))
    return RobotsRules(_STARS.sub("*", "\n".join(decisive)))


def _normalize_pattern(pattern: str) -> str:
    if _LITERAL.fullmatch(pattern):
        return pattern
    if pattern.startswith(("https://", "http://")):
        pattern = f"/{pattern}"
    end = "$" if pattern.endswith("$") else ""
    return _normalize(pattern.removesuffix("$"), kept="/%*") + end


def find_delay(lines: Iterable[str]) -> timedelta | None:
    """Return the longest delay that rules ask for, at most a day."""
    asked = [line for line in lines if line[:1].lower() in ("c", "r")]
    rules = Protego.parse("\n".join(["User-agent: *", *asked]))
    waits = []
    if (delay := rules.crawl_delay("*")) is not None:
        waits.append(float(delay))
    if (rate := rules.request_rate("*")) is not None:
        waits.append(rate.seconds / rate.requests)
    return timedelta(seconds=min(max(waits), 86_400.0)) if waits else None


SMALL_ROBOTS_BYTES = 2_000  # read at once: a millisecond at most, whatever is in it
MAX_ROBOTS_BYTES = 500 * 1024  # RFC 9309: at least this much is read; more is not
MAX_RULES = 20_000  # a file with more for us forbids everything
MAX_PATTERNS = 4_000  # rules that take long to match; what is above is taken at its beginning
MAX_STARS = 20_000  # of all rules together; the same
MAX_SITEMAPS = 10
MAX_CRAWL_DELAY = timedelta(seconds=60)  # a site that wants longer gets one page at most
_MAX_LINE_LENGTH = 2_000
_LINE = re.compile("[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_TOKEN = re.compile(r"[a-z_-]{1,100}")
_AGENT = re.compile(r"\s{0,50}user[ -]?agent\s{0,50}(?::|\s)\s{0,50}(.{0,200})", re.IGNORECASE)
_MAPS = re.compile(r"\s{0,50}site-?maps?\s{0,50}:\s{0,50}(\S{1,2000})", re.IGNORECASE)

_ROBOTS_RULE = re.compile(
    r"\s{0,50}((?:dis+al+[oa]w|diasllow|allow|crawl[ -]delay|request[ -]rate)\s{0,50}:.{0,2000})",
    re.IGNORECASE,
)

_PLAIN = re.compile(r"[A-Za-z0-9_.~/=-]*(?<!index\.html)")


class Access(StrEnum):
    """What a robots.txt, or its absence, means for a whole site."""

    RULES = "rules"  # there is one; ask it
    OPEN = "open"  # there is none: everything is allowed
    CLOSED = "closed"  # it could not be read: nothing is allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Robots:
    access: Access
    delay: timedelta | None = None
    sitemaps: tuple[str, ...] = ()
    fingerprint: str = ""
    unreachable: str = ""  # why it could not be fetched, if that is why it is closed
    rules: RobotsRules = field(default=RobotsRules(""), compare=False, repr=False)

    def allows(self, url: str) -> bool:
        if self.access is not Access.RULES:
            return self.access is Access.OPEN
        return self.rules.allows(url)

    def compute_delay(self, least: timedelta) -> timedelta:
        """Return the delay before the next request: the site's, never less than ours.

        Where only one page is read, the delay comes after it.
        """
        if self.delay is None or self.is_home_page_only:
            return least
        return max(least, self.delay)

    @property
    def is_home_page_only(self) -> bool:
        """Whether the site asks for delays so long that we read only its home page."""
        return self.delay is not None and self.delay > MAX_CRAWL_DELAY


OPEN_ROBOTS = Robots(access=Access.OPEN, fingerprint=compute_exact_fingerprint([]))
CLOSED_ROBOTS = Robots(access=Access.CLOSED)


def get_product_token(user_agent: str) -> str:
    """Return the name of a user agent in robots.txt: its first word, without a version."""
    token = _TOKEN.match(user_agent.strip().lower())
    return token[0] if token else ""


def parse_robots(body: bytes, *, product: str) -> Robots:
    """Return what a robots.txt says to the product of this token. Never raises.

    Whatever is no robots.txt, such as a web page, says nothing and so allows everything.
    """
    text = (
        body[:MAX_ROBOTS_BYTES].decode("utf-8", "replace").removeprefix("\ufeff").replace("\0", "")
    )
    for_us, for_all, maps = _split_groups((line[0] for line in _LINE.finditer(text)), product)
    lines = for_all if for_us is None else for_us
    sitemaps = tuple(dict.fromkeys(clean_text(url) for url in maps))[:MAX_SITEMAPS]
    return Robots(
        access=Access.RULES,
        delay=find_delay(lines),
        sitemaps=sitemaps,
        # Without rules and sitemaps it equals the fingerprint of OPEN_ROBOTS.
        fingerprint=compute_exact_fingerprint([*lines, *sitemaps]),
        rules=compile_rules(lines),
    )


class _RuleGroup:
    """The rules of one group, each once, within bounds that only ever forbid more."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._patterns = self._stars = 0
        self._too_many = False

    def add(self, line: str) -> None:
        """Add a rule; one without a value means nothing."""
        word, _, value = line.partition(":")
        value = value.strip()
        if not value:
            return
        if len(self._lines) >= MAX_RULES:
            self._too_many = True
            return
        plain = _PLAIN.match(value)
        if plain is not None and plain.end() < len(value) and value[:1] in "/*$%":
            self._patterns += 1
            self._stars += value.count("*")
            if self._patterns > MAX_PATTERNS or self._stars > MAX_STARS:
                if word[:1] not in "Dd":
                    return
                value = plain[0] or "/"
        self._lines[f"{word}: {value}"] = None

    def to_lines(self) -> list[str]:
        return ["Disallow: /"] if self._too_many else list(self._lines)


def _split_groups(
    lines: Iterable[str], product: str
) -> tuple[list[str] | None, list[str], list[str]]:
    """Return the rules for us (None if there are none), those for all crawlers, the sitemaps."""
    for_us: _RuleGroup | None = None
    for_all = _RuleGroup()
    maps: list[str] = []
    ours = everybodys = ended = False
    for whole in lines:
        line = whole[:_MAX_LINE_LENGTH].partition("#")[0]
        if (rule := _ROBOTS_RULE.match(line)) is not None:
            ended = True
            text = rule[1].strip()
            if ours and for_us is not None:
                for_us.add(text)
            if everybodys:
                for_all.add(text)
        elif (agent := _AGENT.match(line)) is not None:
            if ended:
                ours = everybodys = ended = False
            named = agent[1].strip().lower()
            if named == "*":
                everybodys = True
            elif product and get_product_token(named) == product:
                ours = True
                for_us = for_us or _RuleGroup()
        elif len(maps) < MAX_SITEMAPS and (found := _MAPS.match(line)) is not None:
            maps.append(found[1])
    return (None if for_us is None else for_us.to_lines()), for_all.to_lines(), maps
