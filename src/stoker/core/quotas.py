"""What a vendor says is left of its quota, read from its headers: numbers, durations, windows.

Headers are somebody else's text: what is no plain number, or speaks of no time, says nothing. How
much slower we go for it is decided where paces are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from stoker.core.waiting import LONGEST_WAIT

_WHOLE = re.compile(r"[0-9]{1,12}")
_MILLISECONDS = re.compile(r"([0-9]{1,9})ms")
_RESET = re.compile(r"(?:([0-9]{1,4})h)?(?:([0-9]{1,4})m(?!s))?(?:([0-9]{1,6}(?:\.[0-9]{1,6})?)s)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """So many calls are left, and have to last for so long; an hour at most."""

    left: int
    lasts: timedelta


def quota(left: str, *, lasts: timedelta) -> Quota | None:
    """Return what a header says is left; None for -1, nonsense, or when it is over already."""
    if not _WHOLE.fullmatch(left.strip()) or lasts <= timedelta(0):
        return None
    return Quota(left=int(left), lasts=min(lasts, LONGEST_WAIT))


def duration(text: str) -> timedelta:
    """Return a duration as headers have it: 6ms, 1.5s, 2m30s, 1h. Nonsense is no time at all."""
    text = text.strip()[:30]
    if short := _MILLISECONDS.fullmatch(text):
        return timedelta(milliseconds=int(short[1]))
    found = _RESET.fullmatch(text)
    if found is None:
        return timedelta(0)
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def scarce(left: str, *, limit: str) -> bool:
    """Say whether less than a quarter of a limit is left, or nobody knows of how much."""
    if not _WHOLE.fullmatch(left.strip()) or not _WHOLE.fullmatch(limit.strip()):
        return True
    return int(left) * 4 < int(limit)


def tightest(quotas: Iterable[Quota | None]) -> Quota | None:
    """Return the quota that leaves the longest time between calls."""
    told = [each for each in quotas if each is not None]
    return max(told, key=lambda each: each.lasts / (each.left + 1), default=None)
