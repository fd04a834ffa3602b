"""Merge a site visit into what is known, and track pages that no deep lookup has read.

A fact goes only when its page was read again, has changed, and no longer states it. Facts from
other sources and from pages not read this time stay. A shallow lookup saves pages without
extracting from them, so a note makes the next deep lookup read them although unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stoker.accounts.evidence import normalize_text
from stoker.accounts.facts import Fact, dedupe_facts
from stoker.crawl.model import PageState, SiteVisit, VisitOutcome

MAX_FACTS = 300


def merge_visit(
    before: Iterable[Fact], found: Iterable[Fact], visit: SiteVisit | None
) -> tuple[Fact, ...]:
    """Return what is known now, each value once, what was found this time first."""
    says_now: dict[str, str] = {}
    if visit is not None and visit.outcome is VisitOutcome.READ:
        says_now = {
            page.url: normalize_text(f"{page.title}\n{page.text}")
            for page in visit.pages
            if page.seen.changed_at >= page.seen.seen_at
        }
    still = [each for each in before if _is_still_stated(each, says_now.get(each.source))]
    of_visit = visit.facts if visit is not None else ()
    return tuple(dedupe_facts([*found, *of_visit, *still])[:MAX_FACTS])


def _is_still_stated(finding: Fact, text: str | None) -> bool:
    """Return whether a page still states a fact; a page not read again (None) does."""
    return text is None or normalize_text(finding.evidence or finding.value) in text


def list_unchanged_pages(visit: SiteVisit) -> list[str]:
    """Return the URLs of the pages that this visit found as they were, read again or not."""
    if visit.outcome not in (VisitOutcome.READ, VisitOutcome.UNCHANGED):
        return []  # its robots.txt at most
    return [
        page.url
        for page in visit.seen
        if page.status in (200, 203) and page.fingerprint and page.changed_at < page.seen_at
    ]


UNREAD_NOTE = "unread"  # the note of a company whose pages wait for a deep lookup

_YES, _NO = "yes", "no"


def has_unread_pages(notes: Mapping[str, str]) -> bool:
    """Say whether a deep lookup must be given all pages again, changed or not."""
    return notes.get(UNREAD_NOTE) == _YES


def build_unread_note(visit: SiteVisit | None, *, read: bool) -> dict[str, str]:
    """Return the note after a lookup that read what it saw, or only saw it."""
    if visit is None or visit.outcome not in (VisitOutcome.READ, VisitOutcome.THIN):
        return {}
    return {UNREAD_NOTE: _NO if read else _YES}


def restore_change_dates(visit: SiteVisit, known: Iterable[PageState]) -> SiteVisit:
    """Return a visit that was given nothing known, with when its pages really changed."""
    before = {page.url: page for page in known}

    def since(page: PageState) -> PageState:
        then = before.get(page.url)
        same = then is not None and then.fingerprint == page.fingerprint
        return replace(page, changed_at=then.changed_at) if same and then else page

    return replace(
        visit,
        seen=tuple(since(page) for page in visit.seen),
        pages=tuple(replace(page, seen=since(page.seen)) for page in visit.pages),
    )
