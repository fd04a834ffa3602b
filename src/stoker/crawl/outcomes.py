"""Classify pages that are not what was requested, and say how a visit ended.

Challenges, logins, parked domains, empty shells and error pages are recognized by a few words and
by how little else they contain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from stoker.crawl.model import VisitOutcome

MIN_TEXT_LENGTH = 200  # characters; a site with less text in all is thin
_MAX_WALL_LENGTH = 1_500  # characters; a longer page is no mere wall

_CHALLENGE = re.compile(
    r"just a moment|checking your browser|verify (?:that )?you are (?:a )?human|are you a robot"
    r"|enable javascript and cookies|attention required|access denied|captcha|ddos protection"
    r"|request blocked|unusual traffic"
)

_COOKIES = re.compile(
    r"(?:accept|agree|consent).{0,40}cookies|cookies.{0,40}(?:accept|agree|to continue|to go on)"
)

_PARKED = re.compile(
    r"domain (?:name )?(?:is |may be )?for sale|buy this domain|this domain is parked"
    r"|domain parking|parked free|domain has expired"
)

_MISSING = re.compile(
    r"\b404\b|not found|cannot find (?:that|the|this) page|page (?:does not|doesn.t) exist"
    r"|no longer (?:exists|available)|page you (?:requested|are looking for)"
)


class PageType(StrEnum):
    PAGE = "page"
    CHALLENGE = "challenge"
    LOGIN = "login"
    COOKIE_WALL = "cookie_wall"
    PARKED = "parked"
    SHELL = "shell"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class VisitEnd:
    """How a visit ended, with a sentence for the tenant."""

    outcome: VisitOutcome
    reason: str
    unwanted: bool = False  # we were asked to stay away


_VISIT_ENDS = {
    PageType.CHALLENGE: VisitEnd(
        VisitOutcome.BLOCKED, "the site asks visitors to prove they are human"
    ),
    PageType.LOGIN: VisitEnd(VisitOutcome.BLOCKED, "the site shows nothing before one logs in"),
    PageType.COOKIE_WALL: VisitEnd(
        VisitOutcome.BLOCKED, "the site shows nothing before one agrees to cookies"
    ),
    PageType.PARKED: VisitEnd(
        VisitOutcome.GONE, "the domain is parked or for sale; no company is there"
    ),
    PageType.MISSING: VisitEnd(VisitOutcome.GONE, "the site says that there is no such page"),
    PageType.SHELL: VisitEnd(
        VisitOutcome.THIN,
        "the site is an empty shell that only a browser running scripts would fill",
    ),
}


def classify_page(
    *, title: str, text: str, asks_for_password: bool, wants_script: bool
) -> PageType:
    if len(text) > _MAX_WALL_LENGTH:
        return PageType.PAGE
    words = f"{title}\n{text}".lower()
    if _CHALLENGE.search(words):
        return PageType.CHALLENGE
    if _PARKED.search(words):
        return PageType.PARKED
    if len(text) > _MAX_WALL_LENGTH // 2:
        return PageType.PAGE
    if asks_for_password:
        return PageType.LOGIN
    if _MISSING.search(words) and len(text) < _MAX_WALL_LENGTH // 3:
        return PageType.MISSING
    if _COOKIES.search(words):
        return PageType.COOKIE_WALL
    return PageType.SHELL if wants_script and len(text) < MIN_TEXT_LENGTH else PageType.PAGE


def find_page_end(nature: PageType) -> VisitEnd | None:
    """Return how a visit with such a home page ends, or None if it goes on."""
    return _VISIT_ENDS.get(nature)


def find_status_end(status: int) -> VisitEnd | None:
    """Return how a visit with this status of the home page ends, or None if it goes on."""
    if status in (200, 203, 304):
        return None
    if status in (401, 402, 403, 407, 451):
        return VisitEnd(VisitOutcome.BLOCKED, f"the site does not let us in (status {status})")
    if status in (404, 410):
        return VisitEnd(VisitOutcome.GONE, f"there is no home page (status {status})")
    if status in (429, 503):
        return VisitEnd(VisitOutcome.FAILED, f"the site asked us to come later (status {status})")
    return VisitEnd(VisitOutcome.FAILED, f"the site answered with status {status}")


def get_visit_end(*, read: int, changed: int, not_modified: int, letters: int) -> VisitEnd:
    """Return how a visit ended that got past the home page.

    `read` pages came whole, `changed` of them say something new, `not_modified` are as they were;
    `letters` is how much all pages read say together.
    """
    if not changed and read + not_modified:
        plural = "page says" if read + not_modified == 1 else "pages say"
        return VisitEnd(
            VisitOutcome.UNCHANGED, f"{read + not_modified} {plural} what was said last time"
        )
    if letters < MIN_TEXT_LENGTH and not not_modified:
        return VisitEnd(VisitOutcome.THIN, f"the site says next to nothing ({letters} characters)")
    if not read:
        return VisitEnd(VisitOutcome.THIN, "no page of the site could be read")
    return VisitEnd(VisitOutcome.READ, f"{read} pages were read, {changed} of them new or changed")
