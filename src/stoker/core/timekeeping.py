"""How far clocks are believed, and what is said when one cannot be.

A clock that is earlier than what is already written down would start things a second time or open
yesterday's budget again. A person can say that it is right all the same, and that is an entry too.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from stoker.core.ledger import Note

CLOCK_TOLERANCE = timedelta(minutes=5)  # clocks of honest machines differ by less


def went_back(now: datetime, *, latest: datetime | None) -> bool:
    """Say whether the clock is earlier than the newest ledger entry by more than it may be."""
    return latest is not None and now < latest - CLOCK_TOLERANCE


def accepted_note(now: datetime, *, latest: datetime) -> Note:
    """Return the entry with which a person vouches for the clock; time is counted from it again."""
    return Note(
        at=now,
        kind="CLOCK_ACCEPTED",
        subject="clock",
        reason=f"an operator vouched for the clock; {latest.isoformat()} was recorded before",
    )
