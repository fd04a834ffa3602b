"""Build signals: from rows of tables, and from what a lookup found.

A row names an account and a time, and optionally strength, source and id. The same row twice is the
same signal, so a file may be imported again. A lookup's surface is the company's own site; the deep
level is everything else known about it, contacts included. A lookup teaches only what it saw: a
site that could not be read is as old as before, and a deep lookup that a cap or stop cut short has
not seen the deep level. An account's posture is the one a person gave, or its lead score, or a
fixed guess before it has one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from stoker.accounts.model import Bucket, CompanyId, CompanyRecord, EmailStatus, LeadScore
from stoker.base.errors import ConfigError, PermanentError
from stoker.base.types import Depth, Json, clean_text, to_utc
from stoker.crawl.model import SiteVisit, VisitOutcome
from stoker.heat.model import LookupObservation, Signal, SignalKind

SIGNAL_COLUMNS = ("account", "at", "strength", "source", "id")

REQUIRED_COLUMNS = ("account", "at")

MAX_TEXT = 200

_MAX_SHOWN = 40


def parse_signal(row: Mapping[str, Json], *, zone: ZoneInfo, now: datetime) -> Signal | str:
    """Return the signal a row tells of, or why it tells of none.

    A time without a zone is a wall clock's in `zone`. One that lies ahead of `now` is a mistake.
    """
    cells = {name: _to_text(row.get(name)) for name in SIGNAL_COLUMNS}
    for name in REQUIRED_COLUMNS:
        if not cells[name]:
            return f"it has no {name}"
    try:
        read = datetime.fromisoformat(cells["at"])
        at = to_utc(read if read.tzinfo is not None else read.replace(tzinfo=zone))
    except (ValueError, ConfigError):
        return f"its time {_shorten(cells['at'])} is none; write it like 2026-11-16T08:30:00Z"
    if at > now:
        return f"its time {_shorten(cells['at'])} has not come yet"
    try:
        strength = float(cells["strength"] or "1")
    except ValueError:
        return f"its strength {_shorten(cells['strength'])} is no number"
    account = cells["account"][:MAX_TEXT]
    name = cells["id"] or _compute_digest(
        account, at.isoformat(), cells["strength"], cells["source"]
    )
    try:
        return Signal(
            id=f"import/{name[:MAX_TEXT]}",
            account=CompanyId(account),
            kind=SignalKind.IMPORTED,
            at=at,
            strength=strength,
            source=cells["source"][:MAX_TEXT],
        )
    except PermanentError as error:
        return str(error)


def _to_text(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(clean_text(str(value)).split())


def _compute_digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _shorten(text: str) -> str:
    return repr(text[:_MAX_SHOWN])


MIN_POSTURE = 0.5  # of an account that was never scored, but is one the tenant looks for

SITE_STRENGTH = 0.5

SCORE_STRENGTH = 0.8

_BUCKET_RANKS = {Bucket.LOW: 0, Bucket.MEDIUM: 1, Bucket.HIGH: 2}


def compute_posture(score: LeadScore | None, *, given: float | None = None) -> float:
    """Return the posture, 0 to 1, of an account that matches: as a person gave it, or its score."""
    if given is not None:
        return given
    return MIN_POSTURE if score is None else score.value


def build_site_signal(account: CompanyId, *, look: str, site: str, at: datetime) -> Signal:
    """Return the signal that a lookup found changes on an account's site."""
    return Signal(
        id=f"site/{look}",
        account=account,
        kind=SignalKind.SITE_CHANGED,
        at=at,
        strength=SITE_STRENGTH,
        source=site[:200],
    )


def build_score_signal(
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
    if (
        before is None
        or after is None
        or _BUCKET_RANKS[after.bucket] <= _BUCKET_RANKS[before.bucket]
    ):
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
class Observation:
    """What one lookup shows: its observation and new signals."""

    observed: LookupObservation
    signals: tuple[Signal, ...] = ()


def observe_lookup(
    *,
    look: str,
    depth: Depth,
    visit: SiteVisit | None,
    before: CompanyRecord,
    after: CompanyRecord,
    at: datetime,
    cut_short: bool = False,
    unanswered: bool = False,
) -> Observation:
    """Return what a lookup shows; `look` names the lookup, and repeating it changes nothing.

    A first lookup, or the first lookup of a site, makes no signal. A lookup was `cut_short` if a
    cap or stop refused something that it was to ask, and `unanswered` if anything is to be asked
    again: then the site does not rest.
    """
    account = before.company.id
    first = before.looked_at is None or not before.company.website
    surface = _find_surface_change(visit)
    asked = depth is Depth.DEEP and not cut_short
    deep = _has_deep_changed(before, after) if asked else None
    # A search that leads to no site of its own is as good as a site that is gone.
    siteless = visit is None and asked and not after.company.website
    closed = visit is not None and visit.outcome in _CLOSED_OUTCOMES
    gone = (siteless or closed) and not unanswered
    failed = gone or (visit is not None and surface is None)
    signals: list[Signal] = []
    if surface and not first and visit is not None:
        signals.append(build_site_signal(account, look=look, site=visit.site, at=at))
    better = build_score_signal(account, look=look, before=before.score, after=after.score, at=at)
    if better is not None and not first:
        signals.append(better)
    return Observation(
        observed=LookupObservation(
            key=look,
            account=account,
            at=at,
            surface=surface,
            deep=deep,
            failed=failed,
            gone=gone,
            brought=_compute_yield(before, after) if (surface or deep) and not first else None,
        ),
        signals=tuple(signals),
    )


_SEEN_OUTCOMES = (VisitOutcome.READ, VisitOutcome.THIN, VisitOutcome.UNCHANGED)

_CLOSED_OUTCOMES = (VisitOutcome.BLOCKED, VisitOutcome.GONE)


def _find_surface_change(visit: SiteVisit | None) -> bool | None:
    """Return whether a visit found the site changed; None where it has not seen it."""
    if visit is None or visit.outcome not in _SEEN_OUTCOMES:
        return None
    if visit.outcome is VisitOutcome.UNCHANGED:
        return False
    return any(page.changed_at == page.seen_at for page in visit.seen)


def _compute_yield(before: CompanyRecord, after: CompanyRecord) -> float:
    """Return what a lookup brought: 1 for each new valid address, 1 for a better bucket."""
    known = {contact.email for contact in before.contacts}
    new = {
        contact.email
        for contact in after.contacts
        if contact.verdict is EmailStatus.VALID and contact.email not in known
    }
    better = (
        before.score is not None
        and after.score is not None
        and _BUCKET_RANKS[after.score.bucket] > _BUCKET_RANKS[before.score.bucket]
    )
    return float(len(new) + better)


def _has_deep_changed(before: CompanyRecord, after: CompanyRecord) -> bool:
    return _to_known_facts(before) != _to_known_facts(after)


def _to_known_facts(dossier: CompanyRecord) -> frozenset[tuple[str, str]]:
    """Return what is known of a company besides its site: facts by name, people by address."""
    facts = {(finding.field.value, finding.value) for finding in dossier.facts}
    return frozenset(facts | {("contact", contact.key) for contact in dossier.contacts})
