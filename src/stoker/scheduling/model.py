"""What the engine needs from the world, and nothing more.

Every verb on a store is written once per backend, so a verb earns its place: it says what the
product means, it is atomic, and it happens wholly or not at all. Stores are told the time; they
never ask for it. All moments are aware; what comes back is in UTC.

What became of each instant of a schedule.

An instant is decided once, by whoever writes its record first; the record carries a sentence
saying why. Which instants there are is `cadence`'s business.

Whether a run is begun at once for what a dead process left of a scheduled one.

An instant is started once, so what goes on with it is a run without an instant of its own. What
is left, and that it is not paid for twice, is the work's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from typing import Protocol

from stoker.base.types import to_utc
from stoker.db.codec import _to_optional_utc, validate_text
from stoker.ledger.chain import NewEntry
from stoker.runs.leases import Lease
from stoker.runs.model import PROCESS_DIED, Run, RunState, format_run_name


class OccurrenceState(StrEnum):
    """The three things that can become of an instant."""

    STARTED = "STARTED"
    MISSED = "MISSED"  # nobody was there in time, and a later instant ran instead
    OVERLAP = "OVERLAP"  # the run before it was still going


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceResult:
    """One instant of one schedule, decided."""

    schedule: str
    due_at: datetime
    state: OccurrenceState
    decided_at: datetime
    reason: str = ""
    run_at: datetime | None = None  # the run it started


def build_occurrence_entry(slot: OccurrenceResult, *, latest: datetime | None = None) -> NewEntry:
    """Return the line the ledger keeps of a decided instant, never earlier than its last one.

    A clock that is a little late would otherwise reopen, for money, a window that is over.
    """
    return NewEntry(
        at=slot.decided_at if latest is None else max(slot.decided_at, latest),
        kind=slot.state.value,
        subject=f"{slot.schedule}@{to_utc(slot.due_at).isoformat()}",
        reason=slot.reason,
        data={"run": format_run_name(slot.run_at)} if slot.run_at else {},
    )


class ScheduleStore(Protocol):
    """One tenant's record of what was due, and who acts on it."""

    async def find_lease(self, name: str) -> Lease | None:
        """Return the lease of this name as it is now."""
        ...

    async def swap_lease(self, seen: Lease | None, wanted: Lease) -> bool:
        """Replace the lease by `needs_verification` if it is still exactly `seen`; say whether it
        was.

        Atomic: of many callers that saw the same lease, one is told yes. `seen` None means that
        there was none.
        """
        ...

    async def record_result(self, slot: OccurrenceResult, *, fence: Lease | None) -> bool:
        """Write down what became of an instant, and a ledger entry saying so, if nobody has yet.

        Both are there afterwards, or neither. True to the one whose record stands, False to
        everybody else. With a fence, raises ConflictError and writes nothing unless the lease of
        that name still has the fence's owner and epoch.
        """
        ...

    async def list_results(
        self, schedule: str, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[OccurrenceResult]:
        """Return decided instants with since <= instant < until, oldest first."""
        ...

    async def find_last_result(
        self, schedule: str, *, until: datetime | None = None
    ) -> OccurrenceResult | None:
        """Return the latest decided instant, at or before `until` if that is given."""
        ...

    async def find_latest_entry_at(self) -> datetime | None:
        """Return the moment of the newest ledger entry: time has been this late before."""
        ...


def build_clock_accepted_entry(now: datetime, *, latest: datetime) -> NewEntry:
    """Return the entry with which a person vouches for the clock; time is counted from it again."""
    return NewEntry(
        at=now,
        kind="CLOCK_ACCEPTED",
        subject="clock",
        reason=f"an operator vouched for the clock; {latest.isoformat()} was recorded before",
    )


def validate_occurrence_result(slot: OccurrenceResult) -> OccurrenceResult:
    """Return the decided instant as a store gives it back."""
    validate_text(slot.schedule, what="a schedule's name")
    validate_text(slot.reason, what="a slot's reason")
    return replace(
        slot,
        due_at=to_utc(slot.due_at, what="a slot's instant"),
        decided_at=to_utc(slot.decided_at, what="a slot's decision"),
        run_at=_to_optional_utc(slot.run_at, what="a slot's run"),
    )


MAX_DEATHS = 3  # in a row; what killed so many processes would kill the next one too


def find_run_to_resume(newest_first: Sequence[Run], *, since: datetime) -> Run | None:
    """Return the latest of these runs of one kind if it is to be gone on with, or None.

    It is, when its process died and it, or the dead one it went on with, answered to an instant;
    what somebody began by hand is left to them. A run that began before `since`, the day's
    beginning, has left nothing: the next instant is about another day. After `MAX_DEATHS` in a
    row the next instant is waited for.
    """
    dead = list(takewhile(lambda run: _is_dead(run) and run.at >= since, newest_first))
    if len(dead) >= MAX_DEATHS or all(run.instant is None for run in dead):
        return None
    return dead[0]


def _is_dead(run: Run) -> bool:
    return run.state is RunState.FAILED and run.reason == PROCESS_DIED
