"""The nouns of heat: signals, heats, tiers and change rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from stoker.accounts.model import CompanyId
from stoker.base.errors import PermanentError
from stoker.base.types import to_utc

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MIN_DATE, _MAX_DATE = datetime(1900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


MAX_YIELD = 1e6  # that one lookup can bring


def to_ticks(moment: datetime) -> int:
    """Return the moment in whole microseconds since 1970, as columns have it."""
    return (moment - EPOCH) // timedelta.resolution


class Tier(StrEnum):
    """How much attention an account gets."""

    HOT = "HOT"
    WARM = "WARM"
    COLD = "COLD"

    @property
    def rank(self) -> int:
        """Return 0 for COLD up to 2 for HOT; columns hold tiers by this number."""
        return _RANKS[self]


BY_RANK = (Tier.COLD, Tier.WARM, Tier.HOT)

_RANKS = {tier: rank for rank, tier in enumerate(BY_RANK)}


class SignalKind(StrEnum):
    """What happened at an account."""

    SITE_CHANGED = "SITE_CHANGED"
    POSTING = "POSTING"
    LEAD_SCORE = "LEAD_SCORE"
    IMPORTED = "IMPORTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Something that happened at an account. A repeated id counts once."""

    id: str
    account: CompanyId
    kind: SignalKind
    at: datetime
    strength: float = 1.0  # 0 to 1
    source: str = ""

    def __post_init__(self) -> None:
        if not self.id or not self.account:
            raise PermanentError("a signal needs an id and an account")
        if not 0.0 <= self.strength <= 1.0:
            raise PermanentError(f"a signal's strength is 0 to 1, not {self.strength!r}")
        at = to_utc(self.at, what="a signal's time")
        if not _MIN_DATE <= at < _MAX_DATE:
            raise PermanentError(f"a signal's time is in the years 1900 to 8999, not {self.at}")
        object.__setattr__(self, "at", at)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatState:
    """An account's posture and signals, reduced to a few numbers as of one moment.

    That moment is the first whole number of half-lives since 1970 that is not before any signal.
    From one such moment to the next the numbers are halved, which rounds nothing, so the order in
    which signals arrive does not change the peak and hardly changes the mass.
    """

    posture: float = 0.0
    peak: float = 0.0  # the strongest signal, faded to `as_of`
    mass: float = 0.0  # all strengths together, each faded to `as_of`
    as_of: datetime | None = None  # None: no signal yet
    latest: tuple[datetime, ...] = ()  # times of the last few signals, newest first

    def __post_init__(self) -> None:
        if not 0.0 <= self.posture <= 1.0:
            raise PermanentError(f"a posture is 0 to 1, not {self.posture!r}")
        if not 0.0 <= self.peak <= 1.0 or not 0.0 <= self.mass < math.inf:
            raise PermanentError(f"no signals add up to {self.peak!r} and {self.mass!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """What a score is made of, each 0 to 1."""

    posture_score: float = 0.0
    signal_recency: float = 0.0
    signal_volume: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountHeat:
    """How hot one account is at `computed_at`, and when anything but time last changed it."""

    account: CompanyId
    score: float  # 0 to 1
    tier: Tier
    factors: Factors
    state: HeatState
    tier_since: datetime
    below_since: datetime | None = None
    computed_at: datetime
    updated_at: datetime  # of the last signal, posture or tier that changed something
    known_at: datetime | None = None  # None: before this was stored


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyHeat:
    """How hot an account was when its heat was last computed on one day (UTC)."""

    account: CompanyId
    on: date
    score: float
    tier: Tier
    factors: Factors
    computed_at: datetime


class DataLevel(NamedTuple):
    """One data level of one account. A tuple, because one plan reads a million of them."""

    seen_at: datetime | None = None  # None: no lookup has seen it yet
    changes: float | None = None  # as if so many changes had been counted …
    days: float | None = None  # … in so many days; None: seen once, so nothing is known yet


class LookupAttempts(NamedTuple):
    """How often one account's site could be seen, the last failure, and the rest after it."""

    tried: float | None = None  # attempts that are remembered; None: there was none yet
    good: float | None = None  # of them, those that saw the site
    failed_at: datetime | None = None  # None: the last attempt saw the site
    rest_days: float | None = None  # after `failed_at`, in which it is not tried again


class LookupYields(NamedTuple):
    """What lookups of one account that found a change brought: addresses, a better bucket."""

    looks: float | None = None  # None: none found a change yet
    total: float | None = None
    squares: float | None = None  # of what each brought, together


class AccountChangeRate(NamedTuple):
    """The estimates of one account."""

    account: CompanyId
    surface: DataLevel = DataLevel()
    deep: DataLevel = DataLevel()
    attempts: LookupAttempts = LookupAttempts()
    yields: LookupYields = LookupYields()
    stated_value: float | None = None  # by a person, in any unit


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupObservation:
    """What one lookup found: whether each level had changed since it was last seen.

    None is a level this lookup did not see. The key names the lookup: a repeated key adds nothing.
    A lookup that failed saw no surface; one that found the site gone or closed to us rests.
    """

    key: str
    account: CompanyId
    at: datetime
    surface: bool | None = None
    deep: bool | None = None
    failed: bool = False
    gone: bool = False  # failed, and in a way that a few days do not change
    brought: float | None = None  # 0 or more, by a lookup that found a change; None: it found none

    def __post_init__(self) -> None:
        if not self.key or not self.account:
            raise PermanentError("a lookup needs a key and an account")
        if (self.failed and self.surface is not None) or (self.gone and not self.failed):
            raise PermanentError("a lookup that failed has seen no surface")
        if self.brought is not None and not 0.0 <= self.brought <= MAX_YIELD:
            raise PermanentError(f"a lookup brings 0 to {MAX_YIELD:g}, not {self.brought!r}")
        object.__setattr__(self, "at", to_utc(self.at, what="the time of a lookup"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSignals:
    """How many signals were new or known, and the heats that the new ones changed."""

    new: int = 0
    known: int = 0
    heats: tuple[AccountHeat, ...] = ()  # of every account with a new one, in id order


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccountColumns:
    """Accounts as a plan reads them, one row each, in id order. Times are days since 1970."""

    accounts: list[CompanyId]
    heat: NDArray[np.float64]
    posture: NDArray[np.float64]
    tier: NDArray[np.int8]  # by rank
    tier_since: NDArray[np.float64]
    surface_at: NDArray[np.float64]  # when it was last seen; -inf: never
    surface_changes: NDArray[np.float64]  # as in DataLevel; nan: nothing is known yet
    surface_days: NDArray[np.float64]
    deep_at: NDArray[np.float64]
    deep_changes: NDArray[np.float64]
    deep_days: NDArray[np.float64]
    tried: NDArray[np.float64]  # as in LookupAttempts; nan: there was no attempt yet
    good: NDArray[np.float64]
    failed_at: NDArray[np.float64]  # -inf: the last attempt saw the site
    rest_days: NDArray[np.float64]  # 0: it may be tried at any time
    yield_looks: NDArray[np.float64]  # as in LookupYields; 0: there were none yet
    yield_sum: NDArray[np.float64]
    yield_squares: NDArray[np.float64]
    stated_value: NDArray[np.float64]  # nan: none was stated
    known_at: NDArray[np.float64]  # since when the account is known
    signals: NDArray[np.float64]  # strengths of those since the surface was last seen, together
    recovery: float  # a day, of sites that failed; learned from the tenant's retries
