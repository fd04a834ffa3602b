"""Define the result of each due time of a schedule, which dead run is resumed, and the store.

An occurrence is recorded once, by the first process that writes it, with a reason. A run that
resumes a dead one has no occurrence of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import takewhile

from stoker.base.types import to_utc
from stoker.ledger.chain import NewEntry
from stoker.runs.model import PROCESS_DIED, Run, RunState, format_run_name


class OccurrenceState(StrEnum):
    """The three things that can become of an occurrence."""

    STARTED = "STARTED"
    MISSED = "MISSED"  # no scheduler was running, and a later occurrence ran instead
    OVERLAP = "OVERLAP"  # the run before it was still running


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceResult:
    """One occurrence of one schedule, decided."""

    schedule: str
    due_at: datetime
    state: OccurrenceState
    decided_at: datetime
    reason: str = ""
    run_at: datetime | None = None  # the run it started


def build_occurrence_entry(slot: OccurrenceResult, *, latest: datetime | None = None) -> NewEntry:
    """Build the ledger entry of a recorded occurrence, never earlier than the last entry.

    A clock that is slightly late would otherwise reopen a budget window that is over.
    """
    return NewEntry(
        at=slot.decided_at if latest is None else max(slot.decided_at, latest),
        kind=slot.state.value,
        subject=f"{slot.schedule}@{to_utc(slot.due_at).isoformat()}",
        reason=slot.reason,
        data={"run": format_run_name(slot.run_at)} if slot.run_at else {},
    )


def build_clock_accepted_entry(now: datetime, *, latest: datetime) -> NewEntry:
    """Build the entry with which a person accepts the clock; time counts from it again."""
    return NewEntry(
        at=now,
        kind="CLOCK_ACCEPTED",
        subject="clock",
        reason=f"an operator accepted the clock; {latest.isoformat()} was recorded before",
    )


MAX_DEATHS = 3  # in a row; what killed so many processes would kill the next one too


def find_run_to_resume(newest_first: Sequence[Run], *, since: datetime) -> Run | None:
    """Return the latest of these runs of one kind if it is to be resumed, or None.

    It is, when its process died and it, or the dead one it resumed, had an occurrence; a run
    started by hand is not resumed. A run from before `since`, the start of the day, has nothing
    left: the next occurrence covers another day. After `MAX_DEATHS` in a row the next occurrence is
    waited for.
    """
    dead = list(takewhile(lambda run: _is_dead(run) and run.at >= since, newest_first))
    if len(dead) >= MAX_DEATHS or all(run.instant is None for run in dead):
        return None
    return dead[0]


def _is_dead(run: Run) -> bool:
    return run.state is RunState.FAILED and run.reason == PROCESS_DIED
