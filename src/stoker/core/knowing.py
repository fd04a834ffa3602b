"""What is known about a company after a visit to its site: what it says now, what still holds.

A value goes only when the page that gave it was read again, has changed, and no longer says it.
What others said, and what pages say that nobody read this time, stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.core.evidence import folded
from stoker.core.findings import Finding
from stoker.core.pages import Outcome, SiteVisit
from stoker.core.weighing import surest

MOST_FINDINGS = 300


def known_after(
    before: Iterable[Finding], found: Iterable[Finding], visit: SiteVisit | None
) -> tuple[Finding, ...]:
    """Return what is known now, each value once, what was found this time first."""
    says_now: dict[str, str] = {}
    if visit is not None and visit.outcome is Outcome.READ:
        says_now = {
            page.url: folded(f"{page.title}\n{page.text}")
            for page in visit.pages
            if page.seen.changed_at >= page.seen.seen_at
        }
    still = [each for each in before if _holds(each, says_now.get(each.source))]
    of_visit = visit.findings if visit is not None else ()
    return tuple(surest([*found, *of_visit, *still])[:MOST_FINDINGS])


def _holds(finding: Finding, text: str | None) -> bool:
    """Say whether a value stands, given what its page says now; None: it was not read anew."""
    return text is None or folded(finding.evidence or finding.value) in text
