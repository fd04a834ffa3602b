"""What one look found out about change: which facets it saw, whether they differ, what is news.

The surface is what a company's own site says; the deep is what was found out about it otherwise,
people to write to included. A site that could not be read brought nothing new, and teaches the
same as one that has not changed: otherwise it would be first in line at every look.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stoker.core.companies import Dossier
from stoker.core.facets import Observed
from stoker.core.heat import Signal
from stoker.core.nights import Depth
from stoker.core.pages import Outcome, SiteVisit
from stoker.core.posture import score_signal, site_signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What a look teaches."""

    observed: Observed
    signals: tuple[Signal, ...] = ()


def lesson(
    *,
    look: str,
    depth: Depth,
    visit: SiteVisit | None,
    before: Dossier,
    after: Dossier,
    at: datetime,
) -> Lesson:
    """Return what a look teaches; `look` is its own name, however often it is told.

    Nothing a first look finds is news, nor what the first look at its site does.
    """
    account = before.company.id
    first = before.looked_at is None or not before.company.website
    surface = _surface(visit)
    deep = _deep(before, after) if depth is Depth.DEEP else None
    signals: list[Signal] = []
    if surface and not first and visit is not None:
        signals.append(site_signal(account, look=look, site=visit.site, at=at))
    better = score_signal(account, look=look, before=before.score, after=after.score, at=at)
    if better is not None and not first:
        signals.append(better)
    return Lesson(
        observed=Observed(key=look, account=account, at=at, surface=surface, deep=deep),
        signals=tuple(signals),
    )


def _surface(visit: SiteVisit | None) -> bool:
    if visit is None or visit.outcome not in (Outcome.READ, Outcome.THIN):
        return False
    return any(page.changed_at == page.seen_at for page in visit.seen)


def _deep(before: Dossier, after: Dossier) -> bool:
    return _known(before) != _known(after)


def _known(dossier: Dossier) -> frozenset[tuple[str, str]]:
    """Return what is known of a company besides its site: facts by name, people by address."""
    facts = {(finding.field.value, finding.value) for finding in dossier.findings}
    return frozenset(facts | {("contact", contact.key) for contact in dossier.contacts})
