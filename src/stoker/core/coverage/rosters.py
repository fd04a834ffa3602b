"""Who may be touched, as columns: the active profiles in one order, and the day each was last done.

A plan does not depend on the order profiles come in, only on who they are. Days are the tenant's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from operator import attrgetter

import numpy as np

from stoker.core.coverage.chance import Floats, Ints
from stoker.core.coverage.picking import NEVER
from stoker.core.coverage.values import Profile, ProfileStatus
from stoker.core.model import in_utc
from stoker.core.wallclock import zone_named
from stoker.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """Active profiles by url, and the ordinal of the day each was last done, or NEVER."""

    profiles: Sequence[Profile]
    last_done: Ints
    appeal: Floats | None = None  # 0 to 1, where anything is known of it

    def places(self, urls: Iterable[str]) -> Ints:
        """Return where these stand, passing over those that are not there."""
        wanted = set(urls)
        if not wanted:
            return np.zeros(0, np.int64)
        found = [place for place, each in enumerate(self.profiles) if each.url in wanted]
        return np.array(found, np.int64)


def roster_of(
    profiles: Iterable[Profile], *, zone: str, appeals: Mapping[str, float] | None = None
) -> Roster:
    """Return the active ones of these profiles; `appeals` are by url, 0 where nothing is said.

    Raises ConfigError when one is listed twice, or an appeal is not from 0 to 1.
    """
    wall = zone_named(zone)
    active = [each for each in profiles if each.status is ProfileStatus.ACTIVE]
    active.sort(key=attrgetter("url"))
    for one, other in pairwise(active):
        if one.url == other.url:
            raise ConfigError(f"the profile {one.url[:200]!r} is listed twice; keep one of them")
    days = [
        NEVER
        if each.last_done_at is None
        else _aware(each.last_done_at).astimezone(wall).toordinal()
        for each in active
    ]
    return Roster(
        profiles=active, last_done=np.array(days, np.int64), appeal=_appeal(active, appeals or {})
    )


def _appeal(active: Sequence[Profile], appeals: Mapping[str, float]) -> Floats | None:
    if not appeals:
        return None
    for url, appeal in appeals.items():
        if not 0.0 <= appeal <= 1.0:
            raise ConfigError(f"the appeal of {url[:200]!r} is from 0 to 1, not {appeal!r}")
    return np.array([appeals.get(each.url, 0.0) for each in active], np.float64)


def _aware(last_done_at: datetime) -> datetime:
    # Asked a million times: only what is wrong takes the long way, to be told what it is.
    return last_done_at if last_done_at.tzinfo is not None else in_utc(last_done_at)
