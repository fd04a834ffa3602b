"""Whether a site says something that no deep look has read yet.

A shallow look remembers pages without giving them to anybody who reads; were that all that is
remembered, the next deep look would find them unchanged and read nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stoker.core.pages import Outcome, PageSeen, SiteVisit

UNREAD = "unread"  # the note of a company whose pages wait for a deep look
_YES, _NO = "yes", "no"


def waits_for_reading(notes: Mapping[str, str]) -> bool:
    """Say whether a deep look must be given all pages again, changed or not."""
    return notes.get(UNREAD) == _YES


def noted_reading(visit: SiteVisit | None, *, read: bool) -> dict[str, str]:
    """Return the note after a look that read what it saw, or only saw it."""
    if visit is None or visit.outcome not in (Outcome.READ, Outcome.THIN):
        return {}
    return {UNREAD: _NO if read else _YES}


def as_remembered(visit: SiteVisit, known: Iterable[PageSeen]) -> SiteVisit:
    """Return a visit that was given nothing known, with when its pages really changed."""
    before = {page.url: page for page in known}

    def since(page: PageSeen) -> PageSeen:
        then = before.get(page.url)
        same = then is not None and then.fingerprint == page.fingerprint
        return replace(page, changed_at=then.changed_at) if same and then else page

    return replace(
        visit,
        seen=tuple(since(page) for page in visit.seen),
        pages=tuple(replace(page, seen=since(page.seen)) for page in visit.pages),
    )
