"""How well an account fits, before anything happens there; and which findings of a look are news.

A lead's score is its posture once it has one; before that, fitting what a tenant looks for is a
fair guess. What signals do to an account is `heat`'s business.
"""

from __future__ import annotations

from datetime import datetime

from stoker.core.companies import Bucket, CompanyId, LeadScore
from stoker.core.heat import Signal, SignalKind

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
