"""The texts of a company's pages as one bounded text, each thing said once, best pages first.

Menus and footers stand on every page of a site; here they stand once. What the text means, and
who may read it, is not known here; it is somebody else's words, never instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

_LONGEST_LINE = 2_000


class Worded(Protocol):
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


def corpus_key(company: str) -> str:
    """Return what a company's kept corpus is found by; no question to a vendor has such a key."""
    return f"corpus/{company}"


def corpus(pages: Iterable[Worded], *, most: int) -> str:
    """Return the pages' texts under their addresses, at most so many characters.

    A line that stood on an earlier page is not said again. Every page gets a fair part of the room
    before any page gets more, so that one long page does not crowd the others out.
    """
    return "\n".join(part for _, part in parts(pages, most=most))[:most]


def parts(pages: Iterable[Worded], *, most: int) -> list[tuple[Worded, str]]:
    """Return what of each page is in the corpus, under its address; pages without a part are not.

    Whoever must know which page said something asks here: headings can be forged by a page.
    """
    blocks = [block for block in _blocks(pages) if block[2]]
    room, found = most, []
    for place, (page, heading, lines) in enumerate(blocks):
        fair = room // (len(blocks) - place)
        part = _fitting(heading, lines, most=fair)
        # The line break between two pages takes room as well.
        room -= len(part) + 1
        if part:
            found.append((page, part))
    return found


def _blocks(pages: Iterable[Worded]) -> Iterable[tuple[Worded, str, list[str]]]:
    heard: set[str] = set()
    for page in pages:
        lines = []
        for line in page.text.split("\n"):
            same = " ".join(line.lower().split())
            if same and same not in heard:
                heard.add(same)
                lines.append(line.strip()[:_LONGEST_LINE])
        yield page, f"[{page.kind}] {page.url}", lines


def _fitting(heading: str, lines: list[str], *, most: int) -> str:
    if len(heading) >= most:
        return ""
    return "\n".join([heading, *lines])[:most]
