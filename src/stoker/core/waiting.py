"""How long to wait before trying again: what a server asked for, and what we would wait anyway.

Both are bounded. Chance is passed in. Whether to try again at all is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST_WAIT = timedelta(hours=1)  # then we ask again, however long somebody wants us gone
WORTH_TELLING = timedelta(seconds=5)  # people need not know of shorter waits
SAME_WISH = timedelta(minutes=1)  # between answers to calls that were under way together
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_HTTP_DATE = re.compile(r"[A-Za-z]{3,9},? [0-9A-Za-z :+-]{10,40}")


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return how long a server asks us to wait, at most an hour; None if it says nothing usable.

    Milliseconds where a vendor gives them, seconds, or a date. A date counts from the server's own
    clock, its Date header; without one it says nothing. What is over already says nothing either.
    """
    wait = _number(headers.get("retry-after-ms", ""), unit=timedelta(milliseconds=1))
    if wait is None:
        asked = headers.get("retry-after", "")
        wait = _number(asked, unit=timedelta(seconds=1))
        if wait is None:
            until, sent_at = _http_date(asked), _http_date(headers.get("date", ""))
            wait = until - sent_at if until is not None and sent_at is not None else None
    return min(wait, LONGEST_WAIT) if wait is not None and wait > timedelta(0) else None


def backoff(
    attempt: int,
    *,
    chance: float,
    first: timedelta = timedelta(seconds=1),
    most: timedelta = timedelta(minutes=1),
) -> timedelta:
    """Return the wait before trying again after so many failed attempts, the first being 1.

    Full jitter: anything from nothing to twice the wait before, so that those who failed together
    do not come back together. `chance` is 0 to 1.
    """
    doublings = min(max(attempt, 1) - 1, 30)  # more would leave the calendar, and `most` anyway
    longest = min(first * int(2**doublings), most)
    return longest * min(max(chance, 0.0), 1.0)


def is_news(until: datetime, *, now: datetime, told: datetime | None) -> bool:
    """Say whether people should hear that somebody wants to be left alone until then.

    Once for each such wish: `told` is until when they last heard, and what others hear who had
    asked before that is the same wish. Waits of a few seconds are not worth it.
    """
    if until - now <= WORTH_TELLING:
        return False
    return told is None or told <= now or until - told > SAME_WISH


def _number(text: str, *, unit: timedelta) -> timedelta | None:
    if not _NUMBER.fullmatch(text.strip()):
        return None
    return unit * min(float(text), LONGEST_WAIT / unit)


def _http_date(text: str) -> datetime | None:
    if not _HTTP_DATE.fullmatch(text.strip()):
        return None
    try:
        moment = parsedate_to_datetime(text.strip())
        # Without a zone it means Greenwich, as every HTTP date does.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
