"""Compare what should have run with what did, with a name for every gap.

The command line and the maintenance run report the same problems.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    found = []
    for instant in sorted(due | decided.keys()):
        slot = decided.get(instant)
        if slot is None:
            found.append(_audit_undecided(instant, now=to_utc(now), grace=grace))
            continue
        finding = _audit_decided(instant, slot, known, kept_since=kept_since, gone=gone)
        if instant not in due and finding.status not in PROBLEM_STATUSES:
            finding = _mark_unexpected(finding)
        found.append(finding)
    return found


def list_problems(findings: Sequence[AuditLine]) -> list[AuditLine]:
    """Return the lines that need a person's attention."""
    return [finding for finding in findings if finding.status in PROBLEM_STATUSES]


def _audit_undecided(instant: datetime, *, now: datetime, grace: timedelta) -> AuditLine:
    if instant > now:
        return AuditLine(due_at=instant, status=AuditStatus.PENDING, message="it is not due yet")
    if now - instant <= grace:
        sentence = "it is due and has not been started yet"
        return AuditLine(due_at=instant, status=AuditStatus.PENDING, message=sentence)
    sentence = "nothing is recorded for it; was the scheduler running? see: stoker schedule run"
    return AuditLine(due_at=instant, status=AuditStatus.GAP, message=sentence)


def _audit_decided(
    instant: datetime,
    slot: OccurrenceResult,
    runs: Mapping[datetime, Run],
    *,
    kept_since: datetime | None,
    gone: Collection[datetime],
) -> AuditLine:
    if slot.state is not OccurrenceState.STARTED:
        kind = AuditStatus(slot.state.value)
        sentence = slot.reason or "no reason was given"
        return AuditLine(due_at=instant, status=kind, message=sentence)
    if slot.run_at is None:
        sentence = "it was started, but the record does not say as which run"
        return AuditLine(due_at=instant, status=AuditStatus.LOST, message=sentence)
    name = format_run_name(slot.run_at)
    run = runs.get(slot.run_at)
    if run is None:
        if kept_since is not None and slot.run_at < kept_since:
            sentence = f"run {name} was started; its record is older than what is kept"
            return AuditLine(due_at=instant, status=AuditStatus.RAN, message=sentence)
        sentence = f"run {name} was started, but there is no record of it"
        return AuditLine(due_at=instant, status=AuditStatus.LOST, message=sentence)
    because = f": {run.reason}" if run.reason else ""
    if run.state is RunState.RUNNING and run.at in gone:
        sentence = (
            f"run {name} is not going on: {PROCESS_DIED}; go on with: stoker schedule run, "
            "or only close it with: stoker upkeep"
        )
        return AuditLine(due_at=instant, status=AuditStatus.FAILED, message=sentence, run=run)
    if run.state is RunState.RUNNING:
        sentence = f"run {name} is still going"
        return AuditLine(due_at=instant, status=AuditStatus.RUNNING, message=sentence, run=run)
    kind = AuditStatus.FAILED if run.state is RunState.FAILED else AuditStatus.RAN
    after = _format_resumed_by(run, runs.values()) if kind is AuditStatus.FAILED else ""
    sentence = f"run {name} ended {run.state}{because}{after}"
    return AuditLine(due_at=instant, status=kind, message=sentence, run=run)


def _format_resumed_by(run: Run, runs: Collection[Run]) -> str:
    """Return which run resumed a dead one, and its state; empty if there is none."""
    after = (each for each in runs if each.at > run.at)
    later = next((each for each in after if each.manifest.goes_on_with == run.at), None)
    if later is None:
        return ""
    stands = "is still going" if later.state is RunState.RUNNING else f"ended {later.state}"
    return f"; run {later.name} went on with it and {stands}{_format_resumed_by(later, runs)}"


def _mark_unexpected(finding: AuditLine) -> AuditLine:
    return AuditLine(
        due_at=finding.due_at,
        status=AuditStatus.UNEXPECTED,
        message=f"the schedule as it is now has no such instant; {finding.message}",
        run=finding.run,
    )
