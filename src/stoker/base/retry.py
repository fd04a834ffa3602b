"""Retry work, and how long to wait before: Retry-After, backoff with jitter, and quota headers.

Every wait is bounded and randomness is passed in. A header that is not a plain number or
duration is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TypeVar

from stoker.base.errors import TransientError, UncertainError

MAX_WAIT = timedelta(hours=1)  # then we ask again, however long a server wants us to wait

MIN_REPORTED_WAIT = timedelta(seconds=5)  # people need not know of shorter waits

SAME_WAIT_TOLERANCE = timedelta(minutes=1)  # between answers to calls that were under way together

_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")

_HTTP_DATE = re.compile(r"[A-Za-z]{3,9},? [0-9A-Za-z :+-]{10,40}")


Result = TypeVar("Result")


async def retry(
    work: Callable[[], Awaitable[Result]],
    *,
    delays: Iterable[timedelta],
    sleep: Callable[[timedelta], Awaitable[None]],
    on: tuple[type[Exception], ...] = (TransientError, UncertainError),
    max_wait: timedelta = MAX_WAIT,
) -> Result:
    """Do work that may be repeated, once more after each delay while it raises one of these errors.

    Waits at least as long as a server's Retry-After; one above `max_wait` ends the retries. The
    last error is raised.
    """
    for delay in delays:
        try:
            return await work()
        except on as error:
            wait = max(delay, getattr(error, "retry_after", None) or delay)
            if wait > max_wait:
                raise
        await sleep(wait)
    return await work()


def parse_retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return how long a server asks us to wait, at most an hour; None if it sends nothing usable.

    Milliseconds where a vendor gives them, seconds, or a date. A date counts from the server's own
    clock, its Date header; without one it is ignored, and so is a time that is over already.
    """
    wait = _parse_number(headers.get("retry-after-ms", ""), unit=timedelta(milliseconds=1))
    if wait is None:
        asked = headers.get("retry-after", "")
        wait = _parse_number(asked, unit=timedelta(seconds=1))
        if wait is None:
            until, sent_at = _parse_http_date(asked), _parse_http_date(headers.get("date", ""))
            wait = until - sent_at if until is not None and sent_at is not None else None
    return min(wait, MAX_WAIT) if wait is not None and wait > timedelta(0) else None


def compute_backoff(
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


def is_worth_reporting(until: datetime, *, now: datetime, reported: datetime | None) -> bool:
    """Return whether people should read that a vendor asked us to back off until then.

    Once for each back-off: `reported` is the end of the last one reported, and answers to calls
    that were under way with it belong to it. Waits of a few seconds are not reported.
    """
    if until - now <= MIN_REPORTED_WAIT:
        return False
    return reported is None or reported <= now or until - reported > SAME_WAIT_TOLERANCE


def _parse_number(text: str, *, unit: timedelta) -> timedelta | None:
    if not _NUMBER.fullmatch(text.strip()):
        return None
    return unit * min(float(text), MAX_WAIT / unit)


def _parse_http_date(text: str) -> datetime | None:
    if not _HTTP_DATE.fullmatch(text.strip()):
        return None
    try:
        moment = parsedate_to_datetime(text.strip())
        # Without a zone it means Greenwich, as every HTTP date does.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


_WHOLE = re.compile(r"[0-9]{1,12}")

_MILLISECONDS = re.compile(r"([0-9]{1,9})ms")

_RESET = re.compile(r"(?:([0-9]{1,4})h)?(?:([0-9]{1,4})m(?!s))?(?:([0-9]{1,6}(?:\.[0-9]{1,6})?)s)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """So many calls are left, and have to last for so long; an hour at most."""

    left: int
    window: timedelta


def parse_quota(left: str, *, lasts: timedelta) -> Quota | None:
    """Return the quota in a header; None for -1, nonsense, or when it is over already."""
    if not _WHOLE.fullmatch(left.strip()) or lasts <= timedelta(0):
        return None
    return Quota(left=int(left), window=min(lasts, MAX_WAIT))


def parse_duration(text: str) -> timedelta:
    """Return a duration as headers have it: 6ms, 1.5s, 2m30s, 1h. Nonsense is no time at all."""
    text = text.strip()[:30]
    if short := _MILLISECONDS.fullmatch(text):
        return timedelta(milliseconds=int(short[1]))
    found = _RESET.fullmatch(text)
    if found is None:
        return timedelta(0)
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def is_scarce(left: str, *, limit: str) -> bool:
    """Return whether less than a quarter of a limit is left, or the limit is unknown."""
    if not _WHOLE.fullmatch(left.strip()) or not _WHOLE.fullmatch(limit.strip()):
        return True
    return int(left) * 4 < int(limit)


def choose_tightest_quota(quotas: Iterable[Quota | None]) -> Quota | None:
    """Return the quota that leaves the longest time between calls."""
    known = [each for each in quotas if each is not None]
    return max(known, key=lambda each: each.window / (each.left + 1), default=None)
