"""Join a site's page texts into one bounded text, and fingerprint what pages say.

Menus and footers are on every page of a site; the joined text has them once. It is strangers' text,
never instructions. A fingerprint is equal when pages say the same, whatever their markup: tokens,
clock times and counters do not count; words, prices, names and other numbers do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Protocol

_MAX_LINE_LENGTH = 2_000


class PageText(Protocol):
    """A page with a URL and text, read by us or by a vendor."""

    @property
    def url(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def text(self) -> str: ...


def build_corpus_key(company: str) -> str:
    """Return the cache key of a company's corpus; no vendor query has such a key."""
    return f"corpus/{company}"


def build_corpus(pages: Iterable[PageText], *, most: int) -> str:
    """Return the pages' texts under their URLs, at most `most` characters.

    A line of an earlier page is not repeated. Every page gets a fair share.
    """
    return "\n".join(part for _, part in choose_page_parts(pages, most=most))[:most]


def choose_page_parts(pages: Iterable[PageText], *, most: int) -> list[tuple[PageText, str]]:
    """Return each page with its part of the corpus; pages without a part are left out.

    Use this to know which page says something: a page can forge headings.
    """
    blocks = [block for block in _split_blocks(pages) if block[2]]
    left, parts = most, []
    for place, (page, heading, lines) in enumerate(blocks):
        fair = left // (len(blocks) - place)
        part = _fit_lines(heading, lines, most=fair)
        # The line break between two pages counts too.
        left -= len(part) + 1
        if part:
            parts.append((page, part))
    return parts


def _split_blocks(pages: Iterable[PageText]) -> Iterable[tuple[PageText, str, list[str]]]:
    heard: set[str] = set()
    for page in pages:
        lines = []
        for line in page.text.split("\n"):
            same = " ".join(line.lower().split())
            if same and same not in heard:
                heard.add(same)
                lines.append(line.strip()[:_MAX_LINE_LENGTH])
        yield page, f"[{page.kind}] {page.url}", lines


def _fit_lines(heading: str, lines: list[str], *, most: int) -> str:
    if len(heading) >= most:
        return ""
    return "\n".join([heading, *lines])[:most]


_TOKENS = re.compile(r"\b(?=[0-9a-z-]{0,31}[0-9])[0-9a-f]{8}(?:-?[0-9a-f]{4}){2,8}[0-9a-f]{0,64}\b")

_TIMESTAMPS = re.compile(
    r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?:z|[+-][0-9]{2}:?[0-9]{2})?\b"
    r"|\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}\b"
    r"|(?:mon|tue|wed|thu|fri|sat|sun), [0-9]{1,2} [a-z]{3} [0-9]{4} [0-9:]{4,8}"
)

_COUNTERS = re.compile(
    r"\b[0-9][0-9,.]{0,15}k? (?:views?|visits?|visitors?|online|likes?|shares?|followers?|hits"
    r"|downloads?|reads?)\b"
    r"|\b(?:views|visits|visitors|hits|online now|page generated in|rendered in)"
    r":? [0-9][0-9,.]{0,15}(?: ?(?:ms|s|seconds))?\b"
)

_COPYRIGHT = re.compile(r"(?:©|\(c\)|copyright) ?[0-9]{4}(?: ?[-–] ?[0-9]{4})?")


def get_stable_text(text: str) -> str:
    """Return a page's text without what differs on every visit."""
    words = " ".join(text.lower().split())
    for noise in (_TOKENS, _TIMESTAMPS, _COUNTERS, _COPYRIGHT):
        words = noise.sub("", words)
    return " ".join(words.split())


def compute_fingerprint(*texts: str) -> str:
    """Return a short text that is equal for pages that say the same."""
    digest = blake2b(digest_size=16)
    for text in texts:
        digest.update(get_stable_text(text).encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()


def compute_exact_fingerprint(parts: Iterable[str]) -> str:
    """Return a short text that is equal for equal parts in the same order."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()
