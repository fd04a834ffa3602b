"""The texts of a company's pages as one bounded text, each thing said once, best pages first.

Menus and footers stand on every page of a site; here they stand once. What the text means, and
who may read it, is not known here; it is somebody else's words, never instructions.

What a page says, as one short text: equal when the page says the same, whatever its markup.

Tokens, clock times and counters come and go with every request and say nothing; they do not count.
Words, prices, names and numbers of all other kinds do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Protocol

_MAX_LINE_LENGTH = 2_000


class PageText(Protocol):
    """What has words and an address: a page we read, or one that was read for us."""

    @property
    def url(self) -> str:
        """Where it is."""
        ...

    @property
    def kind(self) -> str:
        """What it is about: home, contact, team, …"""
        ...

    @property
    def text(self) -> str:
        """What it says."""
        ...


def build_corpus_key(company: str) -> str:
    """Return what a company's kept corpus is found by; no question to a vendor has such a key."""
    return f"corpus/{company}"


def build_corpus(pages: Iterable[PageText], *, most: int) -> str:
    """Return the pages' texts under their addresses, at most so many characters.

    A line that stood on an earlier page is not said again. Every page gets a fair part of the room
    before any page gets more, so that one long page does not crowd the others out.
    """
    return "\n".join(part for _, part in choose_page_parts(pages, most=most))[:most]


def choose_page_parts(pages: Iterable[PageText], *, most: int) -> list[tuple[PageText, str]]:
    """Return what of each page is in the corpus, under its address; pages without a part are not.

    Whoever must know which page said something asks here: headings can be forged by a page.
    """
    blocks = [block for block in _split_blocks(pages) if block[2]]
    room, found = most, []
    for place, (page, heading, lines) in enumerate(blocks):
        fair = room // (len(blocks) - place)
        part = _fit_lines(heading, lines, most=fair)
        # The line break between two pages takes room as well.
        room -= len(part) + 1
        if part:
            found.append((page, part))
    return found


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
    """Return the words of a page without what differs on every visit."""
    words = " ".join(text.lower().split())
    for noise in (_TOKENS, _TIMESTAMPS, _COUNTERS, _COPYRIGHT):
        words = noise.sub("", words)
    return " ".join(words.split())


def compute_fingerprint(*texts: str) -> str:
    """Return a short text that is the same for pages that say the same."""
    digest = blake2b(digest_size=16)
    for text in texts:
        digest.update(get_stable_text(text).encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()


def compute_exact_fingerprint(parts: Iterable[str]) -> str:
    """Return a short text that is the same for equal parts in the same order, letter by letter."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()
