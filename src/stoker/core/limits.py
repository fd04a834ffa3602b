"""How fast a vendor may be called: one timestamp per key, and when the next call may go.

The generic cell rate algorithm. A refusal here means later, at a known moment; it has nothing to
do with caps, whose refusals mean not in this window. The timestamp is kept by whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many calls in any stretch of time this long, of which `burst` may come at once.

    The promise holds for every stretch, not only for whole minutes; so a larger burst is paid for
    with a slower steady pace. `share` below one leaves the rest of a vendor's quota to others.
    """

    calls: int
    per: timedelta
    burst: int = 1
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.calls < 1 or self.per <= timedelta(0):
            raise ConfigError(f"a rate is at least one call in some time, not {self!r}")
        if not 0 < self.share <= 1:
            raise ConfigError(f"a share of a rate is above 0 and at most 1, not {self.share}")
        most = max(1, int(self.calls * self.share))
        if not 1 <= self.burst <= most:
            raise ConfigError(f"a burst is 1 to {most} calls, not {self.burst}")

    @property
    def interval(self) -> timedelta:
        """The steady pace: time between calls once the burst is used up."""
        # In any stretch of `per` come the burst and one call an interval after it; that sum is
        # what has to stay within the calls allowed. Rounded up, never down.
        steady = self.calls * self.share - self.burst + 1
        micros = self.per / timedelta(microseconds=1) / steady
        whole = int(micros)
        return timedelta(microseconds=whole if whole == micros else whole + 1)

    @property
    def slack(self) -> timedelta:
        """How far ahead of the steady pace a burst may run."""
        return self.interval * (self.burst - 1)


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether a call may go now. If not, `at` says when; if so, `next_at` is to be remembered."""

    allowed: bool
    at: datetime
    next_at: datetime


def turn(rate: Rate, next_at: datetime | None, *, now: datetime) -> Turn:
    """Decide about one call, given what was remembered for its key (None: never called).

    Calling it does not use anything up: the caller does, by keeping `next_at`.
    """
    due = max(next_at, now) if next_at else now
    opens_at = due - rate.slack
    if opens_at > now:
        return Turn(False, opens_at, due)
    return Turn(True, now, due + rate.interval)


def pushed_back(next_at: datetime | None, *, until: datetime) -> datetime:
    """Return the timestamp after a vendor asked us to wait; it only ever slows us down."""
    return until if next_at is None else max(next_at, until)
