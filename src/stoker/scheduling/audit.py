"""Compare what should have run with what did, with a name for every gap.

The command line and the maintenance run report the same problems.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from stoker.base.types import to_utc
from stoker.calendar.recurrence import Interval, Schedule, iter_occurrences
from stoker.runs.model import PROCESS_DIED, Run, RunState, format_run_name
from stoker.scheduling.model import OccurrenceResult, OccurrenceState

_TICK = timedelta(microseconds=1)

AUDIT_PERIOD = timedelta(days=7)  # unless another is asked for

GRACE_PERIOD = timedelta(minutes=15)  # an occurrence not decided for this long is a gap


class AuditStatus(StrEnum):
    """The result of an audit of one occurrence."""

    RAN = "RAN"  # and ended, not FAILED
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    MISSED = "MISSED"
    OVERLAP = "OVERLAP"
    PENDING = "PENDING"  # to come, or due only moments ago
    GAP = "GAP"  # it passed without a record
    LOST = "LOST"  # a run was started of which there is no record
    UNEXPECTED = "UNEXPECTED"  # decided, but the schedule has no such occurrence


PROBLEM_STATUSES = frozenset({AuditStatus.GAP, AuditStatus.LOST, AuditStatus.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """What became of one occurrence, in a sentence."""

    due_at: datetime
    status: AuditStatus
    message: str
    run: Run | None = None


def list_expected(
    schedule: Schedule, slots: Sequence[OccurrenceResult], *, since: datetime, until: datetime
) -> list[datetime]:
    """Return the occurrences a schedule should have had with since <= occurrence < until, in order.

    Nothing is expected before the first result (results come oldest first). An interval counts from
    each recorded occurrence.
    """
    if not slots:
        return []
    start, before = max(to_utc(since), to_utc(slots[0].due_at)), to_utc(until) - _TICK
    if not isinstance(schedule, Interval):
        return list(iter_occurrences(schedule, after=start - _TICK, until=before))
    decided = [to_utc(slot.due_at) for slot in slots]
    expected = []
    for begins, ends in zip(decided, [*decided[1:], before + _TICK], strict=True):
        # A late run answers for the step it follows, so the last step before it is not expected.
        answered = 0 if ends > before else 1
        steps = (ends - begins) // schedule.every + 1 - answered
        expected += [begins + schedule.every * step for step in range(max(steps, 1))]
    return [instant for instant in expected if start <= instant <= before]


def audit_occurrences(
    expected: Iterable[datetime],
    slots: Iterable[OccurrenceResult],
    runs: Iterable[Run],
    *,
    now: datetime,
    grace: timedelta = GRACE_PERIOD,
    kept_for: timedelta | None = None,
    gone: Collection[datetime] = (),
) -> list[AuditLine]:
    """Return one line for each expected occurrence and each recorded one, oldest first.

    An occurrence that the schedule does not have is UNEXPECTED, unless its run FAILED or is LOST: a
    changed schedule must not hide failures. A missing run older than `kept_for`, if given, counts
    as deleted by retention; otherwise it is LOST. A RUNNING run whose timestamp is in `gone` has no
    process any more: it FAILED, though this is not recorded yet.
    """
    decided = {to_utc(slot.due_at): slot for slot in slots}
    known = {run.at: run for run in runs}
    due = {to_utc(instant, what="an expected instant") for instant in expected}
    kept_since = None if kept_for is None else to_utc(now) - kept_for
    lines = []
    for instant in sorted(due | decided.keys()):
        slot, run = decided.get(instant), None
        if slot is None:
            status, message = _audit_undecided(instant, now=to_utc(now), grace=grace)
        elif slot.state is not OccurrenceState.STARTED:
            status = AuditStatus(slot.state.value)
            message = slot.reason or "no reason was given"
        else:
            run = known.get(slot.run_at) if slot.run_at else None
            if run is None:
                status, message = _audit_missing_run(slot.run_at, kept_since=kept_since)
            else:
                status, message = _audit_run(run, known.values(), is_dead=run.at in gone)
        if instant not in due and status not in PROBLEM_STATUSES:
            status = AuditStatus.UNEXPECTED
            message = f"the schedule has no such time now; {message}"
        lines.append(AuditLine(due_at=instant, status=status, message=message, run=run))
    return lines


def list_problems(findings: Sequence[AuditLine]) -> list[AuditLine]:
    """Return the lines that need a person's attention."""
    return [finding for finding in findings if finding.status in PROBLEM_STATUSES]


def _audit_undecided(
    instant: datetime, *, now: datetime, grace: timedelta
) -> tuple[AuditStatus, str]:
    if instant > now:
        return AuditStatus.PENDING, "it is not due yet"
    if now - instant <= grace:
        return AuditStatus.PENDING, "it is due and has not been started yet"
    message = "nothing is recorded for it; was the scheduler running? see: stoker schedule run"
    return AuditStatus.GAP, message


def _audit_missing_run(
    run_at: datetime | None, *, kept_since: datetime | None
) -> tuple[AuditStatus, str]:
    if run_at is None:
        return AuditStatus.LOST, "it was started, but its run is not recorded"
    name = format_run_name(run_at)
    if kept_since is not None and run_at < kept_since:
        return AuditStatus.RAN, f"run {name} was started; retention has deleted its record"
    return AuditStatus.LOST, f"run {name} was started, but there is no record of it"


def _audit_run(run: Run, runs: Collection[Run], *, is_dead: bool) -> tuple[AuditStatus, str]:
    if run.state is RunState.RUNNING and is_dead:
        return AuditStatus.FAILED, (
            f"run {run.name} is not running: {PROCESS_DIED}; resume it with: stoker schedule run, "
            "or only close it with: stoker db maintain"
        )
    if run.state is RunState.RUNNING:
        return AuditStatus.RUNNING, f"run {run.name} is still running"
    message = f"run {run.name} ended {run.state}" + (f": {run.reason}" if run.reason else "")
    if run.state is not RunState.FAILED:
        return AuditStatus.RAN, message
    return AuditStatus.FAILED, message + _format_resumed_by(run, runs)


def _format_resumed_by(run: Run, runs: Collection[Run]) -> str:
    """Return which run resumed a dead one, and its state; empty if there is none."""
    after = (each for each in runs if each.at > run.at)
    later = next((each for each in after if each.manifest.goes_on_with == run.at), None)
    if later is None:
        return ""
    stands = "is still running" if later.state is RunState.RUNNING else f"ended {later.state}"
    return f"; run {later.name} resumed it and {stands}{_format_resumed_by(later, runs)}"
