"""How fast a vendor may be called: one timestamp per key, and when the next call may go.

The generic cell rate algorithm. A refusal here means later, at a known moment; it has nothing to
do with caps, whose refusals mean not in this window. The timestamp is kept by whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil

from stoker.core.timekeeping import CLOCK_TOLERANCE
from stoker.errors import ConfigError

LONGEST_PUSH_BACK = timedelta(hours=1)  # then we ask again, however long a vendor wants us gone
_LONGEST = timedelta(days=36_500)  # beyond it, moments would leave the calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many calls in any stretch of time this long, of which `burst` may come at once.

    The promise holds for every stretch [t, t + per), not only for whole minutes; so a larger burst
    is paid for with a slower steady pace. `share` below one leaves the rest of a vendor's quota to
    others. `interval` is the steady pace, the time between calls once the burst is used up;
    `slack` is how far ahead of that pace a burst may run.
    """

    calls: int
    per: timedelta
    burst: int = 1
    share: float = 1.0
    interval: timedelta = field(init=False, repr=False, compare=False)
    slack: timedelta = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.calls < 1 or self.per <= timedelta(0):
            raise ConfigError(f"a rate is at least one call in some time, not {self!r}")
        if not 0 < self.share <= 1:
            raise ConfigError(f"a share of a rate is above 0 and at most 1, not {self.share}")
        ours = self.calls * Fraction(str(self.share))  # as it was written: 0.29 of 100 is 29
        most = max(1, int(ours))
        if not 1 <= self.burst <= most:
            raise ConfigError(f"a burst is 1 to {most} calls, not {self.burst}")
        # In any stretch of `per` come the burst and one call an interval after it; that sum is
        # what has to stay within the calls allowed, so parts of a call are given up. A share of
        # less than one call is one call in a longer stretch. Rounded up, never down.
        steady = min(ours, Fraction(most)) - self.burst + 1
        apart = ceil(self.per // timedelta.resolution / steady)
        if apart * self.burst > _LONGEST // timedelta.resolution:
            raise ConfigError(
                f"{self!r} would take more than {_LONGEST.days // 365} years to recover; "
                "use a smaller burst or a larger share"
            )
        interval = timedelta.resolution * apart
        # Worked out once, here: `turn` is asked hundreds of thousands of times a second.
        object.__setattr__(self, "interval", interval)
        object.__setattr__(self, "slack", interval * (self.burst - 1))


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether a call may go now, and if not, `at` says when; `next_at` is to be remembered."""

    allowed: bool
    at: datetime
    next_at: datetime


def turn(rate: Rate, next_at: datetime | None, *, now: datetime) -> Turn:
    """Decide about one call, given what was remembered for its key (None: never called).

    Calling it does not use anything up: the caller does, by keeping `next_at`, also of a call that
    may not go. What no clock that is about right can have left there is not believed: one that is
    a day ahead would otherwise make everybody wait for a day. Whoever finds such a moment waits
    as if the whole burst had gone just now.
    """
    if next_at is not None and next_at > _farthest(rate, now=now):
        next_at = rest(rate, until=now + rate.interval)
    due = max(next_at, now) if next_at else now
    opens_at = due - rate.slack
    if opens_at > now:
        return Turn(False, opens_at, due)
    return Turn(True, now, due + rate.interval)


def pushed_back(next_at: datetime | None, *, until: datetime) -> datetime:
    """Return the timestamp after a vendor asked us to wait; it only ever slows us down.

    For a rate with a burst, `until` is what `rest` says: otherwise the burst would come early.
    """
    return until if next_at is None else max(next_at, until)


def rest(rate: Rate, *, until: datetime) -> datetime:
    """Return how far to push a key back so that nothing goes under this rate before `until`.

    The first call may go at that moment, the others at the steady pace after it.
    """
    return until + rate.slack


def _farthest(rate: Rate, *, now: datetime) -> datetime:
    # A burst that has just gone, or the longest push back, as an honest clock may have told it.
    return rest(rate, until=now + LONGEST_PUSH_BACK + rate.interval) + CLOCK_TOLERANCE
