"""Who may act alone, and how everyone else can tell that they are gone.

A lease is taken over by comparing and swapping, so it has one holder whatever the clocks say.
`until` ends the waiting of those who only look once; watching the beat ends it sooner, and also
when clocks do not agree.
Being wrong about a holder's death is safe: the epoch rises, and the old holder's writes are
refused. Nothing here reads a clock or a store.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

SKEW = timedelta(minutes=1)  # a holder's clock may be this far behind before it is taken for dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to do one thing alone. It is never deleted, so its epoch never goes back."""

    name: str
    owner: str  # empty: nobody holds it
    epoch: int  # rises with every change of holder
    beat: int  # rises with every change at all
    until: datetime
    task: str = ""  # what it is held for, so that others can tell overlap from a double start


def taken(
    name: str, seen: Lease | None, *, owner: str, task: str, now: datetime, length: timedelta
) -> Lease:
    """Return the lease as it will be once this owner has it."""
    return Lease(
        name=name,
        owner=owner,
        epoch=(seen.epoch if seen else 0) + 1,
        beat=(seen.beat if seen else 0) + 1,
        until=now + length,
        task=task,
    )


def renewed(held: Lease, *, now: datetime, length: timedelta) -> Lease:
    """Return the lease after one more sign of life."""
    return replace(held, beat=held.beat + 1, until=now + length)


def released(held: Lease, *, now: datetime) -> Lease:
    """Return the lease given back: free at once, its epoch kept."""
    return replace(held, owner="", beat=held.beat + 1, until=now, task="")


def is_free(
    seen: Lease | None, *, now: datetime, unchanged_for: timedelta, length: timedelta
) -> bool:
    """Say whether a lease may be taken.

    `unchanged_for` is how long the asker has watched this very beat on a clock that only goes
    forward; a holder that misses a whole length is gone, whatever the wall clock claims.
    """
    if seen is None or not seen.owner:
        return True
    return is_over(seen, now=now) or unchanged_for >= length


def is_over(seen: Lease, *, now: datetime) -> bool:
    """Say whether a lease has ended by the wall clock, be it another machine's."""
    return now >= lapses_at(seen)


def lapses_at(seen: Lease) -> datetime:
    """Return when a lease is over by any clock, unless its holder shows another sign of life."""
    return seen.until + SKEW
