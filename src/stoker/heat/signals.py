"""What one look found out about change: which facets it saw, whether they differ, what is news.

The surface is what a company's own site says; the deep is what was found out about it otherwise,
people to write to included. A site that could not be read brought nothing new, and teaches the
same as one that has not changed: otherwise it would be first in line at every look.

Signals out of tables: one row is one signal, or the reason why it is none.

A row names an account and says when; how strong it was, what it is called and where it comes from
may be said too. The same row twice is the same signal, so a file may be read again.

How well an account fits, before anything happens there; and which findings of a look are news.

A lead's score is its posture once it has one; before that, fitting what a tenant looks for is a
fair guess. What signals do to an account is `heat`'s business.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from stoker.accounts.model import Bucket, CompanyId, Dossier, LeadScore
from stoker.base.errors import ConfigError, PermanentError
from stoker.base.types import Depth, Json, clean_text, in_utc
from stoker.crawl.model import Outcome, SiteVisit
from stoker.heat.beliefs import Observed
from stoker.heat.heat import Signal, SignalKind

COLUMNS = ("account", "at", "strength", "source", "id")

NEEDED = ("account", "at")

LONGEST = 200

_SHOWN = 40


def signal_in(row: Mapping[str, Json], *, zone: ZoneInfo, now: datetime) -> Signal | str:
    """Return the signal a row tells of, or why it tells of none.

    A time without a zone is a wall clock's in `zone`. One that lies ahead of `now` is a mistake.
    """
    said = {name: _text(row.get(name)) for name in COLUMNS}
    for name in NEEDED:
        if not said[name]:
            return f"it has no {name}"
    try:
        read = datetime.fromisoformat(said["at"])
        at = in_utc(read if read.tzinfo is not None else read.replace(tzinfo=zone))
    except (ValueError, ConfigError):
        return f"its time {_shown(said['at'])} is none; write it like 2026-11-16T08:30:00Z"
    if at > now:
        return f"its time {_shown(said['at'])} has not come yet"
    try:
        strength = float(said["strength"] or "1")
    except ValueError:
        return f"its strength {_shown(said['strength'])} is no number"
    account = said["account"][:LONGEST]
    name = said["id"] or _digest(account, at.isoformat(), said["strength"], said["source"])
    try:
        return Signal(
            id=f"import/{name[:LONGEST]}",
            account=CompanyId(account),
            kind=SignalKind.IMPORTED,
            at=at,
            strength=strength,
            source=said["source"][:LONGEST],
        )
    except PermanentError as error:
        return str(error)


def _text(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(clean_text(str(value)).split())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _shown(text: str) -> str:
    return repr(text[:_SHOWN])


FITS = 0.5  # of an account that was never scored, but is one the tenant looks for

SITE_STRENGTH = 0.5

SCORE_STRENGTH = 0.8

_BETTER = {Bucket.LOW: 0, Bucket.MEDIUM: 1, Bucket.HIGH: 2}


def posture(score: LeadScore | None) -> float:
    """Return the posture of an account a tenant looks for, 0 to 1."""
    return FITS if score is None else score.value


def site_signal(account: CompanyId, *, look: str, site: str, at: datetime) -> Signal:
    """Return the signal that an account's site says something new, as one look found."""
    return Signal(
        id=f"site/{look}",
        account=account,
        kind=SignalKind.SITE_CHANGED,
        at=at,
        strength=SITE_STRENGTH,
        source=site[:200],
    )


def score_signal(
    account: CompanyId,
    *,
    look: str,
    before: LeadScore | None,
    after: LeadScore | None,
    at: datetime,
) -> Signal | None:
    """Return the signal that a lead has become a better one; None when it has not.

    A first score is none: it is what we learned, not what happened there.
    """
    if before is None or after is None or _BETTER[after.bucket] <= _BETTER[before.bucket]:
        return None
    return Signal(
        id=f"score/{look}",
        account=account,
        kind=SignalKind.LEAD_SCORE,
        at=at,
        strength=SCORE_STRENGTH,
        source=f"{before.bucket} to {after.bucket}",
    )


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
