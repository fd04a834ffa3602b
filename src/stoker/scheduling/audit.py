"""What should have run against what did, with a name for every gap.

The instants a schedule had are `cadence`'s business, what became of them was written down as slots
and runs. Here the three are laid side by side. What is a matter for a monitor is said here too, so
that the command line and the nightly upkeep page for the same things.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from stoker.base.types import in_utc
from stoker.calendar.recurrence import Interval, Schedule, instants
from stoker.runs.model import GONE, Run, RunState, run_name
from stoker.scheduling.model import Slot, SlotState

_TICK = timedelta(microseconds=1)

GRACE = timedelta(minutes=15)  # an instant not decided for this long is a gap


class FindingKind(StrEnum):
    """What an audit can say of one instant."""

    RAN = "RAN"  # and ended, not FAILED
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    MISSED = "MISSED"
    OVERLAP = "OVERLAP"
    PENDING = "PENDING"  # to come, or so fresh that nobody can have failed yet
    GAP = "GAP"  # it passed and nobody wrote down why
    LOST = "LOST"  # a run was started of which there is no record
    UNEXPECTED = "UNEXPECTED"  # decided, but the schedule has no such instant


PROBLEMS = frozenset({FindingKind.GAP, FindingKind.LOST, FindingKind.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one instant, in a sentence."""

    instant: datetime
    kind: FindingKind
    sentence: str
    run: Run | None = None


def expected_instants(
    schedule: Schedule, slots: Sequence[Slot], *, since: datetime, until: datetime
) -> list[datetime]:
    """Return the instants a schedule should have had with since <= instant < until, in order.

    Before the first of the slots, which come oldest first, nothing was expected: nobody was
    there yet. An interval counts on from each decided instant.
    """
    if not slots:
        return []
    start, before = max(in_utc(since), in_utc(slots[0].instant)), in_utc(until) - _TICK
    if not isinstance(schedule, Interval):
        return list(instants(schedule, after=start - _TICK, until=before))
    decided = [in_utc(slot.instant) for slot in slots]
    expected = []
    for begins, ends in zip(decided, [*decided[1:], before + _TICK], strict=True):
        # A late run answers for the step it follows, so the last step before it is not expected.
        answered = 0 if ends > before else 1
        steps = (ends - begins) // schedule.every + 1 - answered
        expected += [begins + schedule.every * step for step in range(max(steps, 1))]
    return [instant for instant in expected if start <= instant <= before]


def audited(
    expected: Iterable[datetime],
    slots: Iterable[Slot],
    runs: Iterable[Run],
    *,
    now: datetime,
    grace: timedelta = GRACE,
    kept_for: timedelta | None = None,
    gone: Collection[datetime] = (),
) -> list[Finding]:
    """Return one finding for each expected instant and each decided one, oldest first.

    An instant the schedule does not have is UNEXPECTED, unless its run FAILED or is LOST: that a
    schedule was changed since must not hide what went wrong. A missing run that is older than
    `kept_for`, if that is given, is taken to have been pruned; otherwise it is LOST.
    A run that says RUNNING and is one of `gone`, by its timestamp, has no process any more: it
    FAILED, though nobody has written that down yet.
    """
    decided = {in_utc(slot.instant): slot for slot in slots}
    known = {run.at: run for run in runs}
    due = {in_utc(instant, what="an expected instant") for instant in expected}
    kept_since = None if kept_for is None else in_utc(now) - kept_for
    found = []
    for instant in sorted(due | decided.keys()):
        slot = decided.get(instant)
        if slot is None:
            found.append(_undecided(instant, now=in_utc(now), grace=grace))
            continue
        finding = _decided(instant, slot, known, kept_since=kept_since, gone=gone)
        if instant not in due and finding.kind not in PROBLEMS:
            finding = _unexpected(finding)
        found.append(finding)
    return found


def problems(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings for which somebody should be woken."""
    return [finding for finding in findings if finding.kind in PROBLEMS]


def _undecided(instant: datetime, *, now: datetime, grace: timedelta) -> Finding:
    if instant > now:
        return Finding(instant=instant, kind=FindingKind.PENDING, sentence="it is not due yet")
    if now - instant <= grace:
        sentence = "it is due and has not been started yet"
        return Finding(instant=instant, kind=FindingKind.PENDING, sentence=sentence)
    sentence = "nothing is recorded for it; was the scheduler running? see: stoker schedule run"
    return Finding(instant=instant, kind=FindingKind.GAP, sentence=sentence)


def _decided(
    instant: datetime,
    slot: Slot,
    runs: Mapping[datetime, Run],
    *,
    kept_since: datetime | None,
    gone: Collection[datetime],
) -> Finding:
    if slot.state is not SlotState.STARTED:
        kind = FindingKind(slot.state.value)
        sentence = slot.reason or "no reason was given"
        return Finding(instant=instant, kind=kind, sentence=sentence)
    if slot.run_at is None:
        sentence = "it was started, but the record does not say as which run"
        return Finding(instant=instant, kind=FindingKind.LOST, sentence=sentence)
    name = run_name(slot.run_at)
    run = runs.get(slot.run_at)
    if run is None:
        if kept_since is not None and slot.run_at < kept_since:
            sentence = f"run {name} was started; its record is older than what is kept"
            return Finding(instant=instant, kind=FindingKind.RAN, sentence=sentence)
        sentence = f"run {name} was started, but there is no record of it"
        return Finding(instant=instant, kind=FindingKind.LOST, sentence=sentence)
    because = f": {run.reason}" if run.reason else ""
    if run.state is RunState.RUNNING and run.at in gone:
        sentence = (
            f"run {name} is not going on: {GONE}; go on with: stoker schedule run, "
            "or only close it with: stoker upkeep"
        )
        return Finding(instant=instant, kind=FindingKind.FAILED, sentence=sentence, run=run)
    if run.state is RunState.RUNNING:
        sentence = f"run {name} is still going"
        return Finding(instant=instant, kind=FindingKind.RUNNING, sentence=sentence, run=run)
    kind = FindingKind.FAILED if run.state is RunState.FAILED else FindingKind.RAN
    after = _gone_on_with(run, runs.values()) if kind is FindingKind.FAILED else ""
    sentence = f"run {name} ended {run.state}{because}{after}"
    return Finding(instant=instant, kind=kind, sentence=sentence, run=run)


def _gone_on_with(run: Run, runs: Collection[Run]) -> str:
    """Say which run went on with one that died, and how that stands; there may be none."""
    after = (each for each in runs if each.at > run.at)
    later = next((each for each in after if each.manifest.goes_on_with == run.at), None)
    if later is None:
        return ""
    stands = "is still going" if later.state is RunState.RUNNING else f"ended {later.state}"
    return f"; run {later.name} went on with it and {stands}{_gone_on_with(later, runs)}"


def _unexpected(finding: Finding) -> Finding:
    return Finding(
        instant=finding.instant,
        kind=FindingKind.UNEXPECTED,
        sentence=f"the schedule as it is now has no such instant; {finding.sentence}",
        run=finding.run,
    )
