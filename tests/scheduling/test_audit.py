from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.runs.model import Manifest, Run, RunKey, RunState
from stoker.scheduling.audit import GRACE_PERIOD, AuditStatus, audit_occurrences, list_problems
from stoker.scheduling.model import OccurrenceResult, OccurrenceState

NOW = datetime(2030, 3, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DUE = NOW - 24 * HOUR
STARTED_AT = DUE + timedelta(seconds=5)


def slot(state=OccurrenceState.STARTED, *, instant=DUE, reason="", run_at=STARTED_AT):
    run_at = run_at if state is OccurrenceState.STARTED else None
    return OccurrenceResult(
        schedule="upkeep",
        due_at=instant,
        state=state,
        decided_at=instant,
        reason=reason,
        run_at=run_at,
    )


def run_in(state, *, reason=""):
    return Run(key=RunKey(STARTED_AT, 1), kind="upkeep", state=state, reason=reason)


def only(expected, slots, runs, **options):
    [finding] = audit_occurrences(expected, slots, runs, now=NOW, **options)
    return finding


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (RunState.DONE, AuditStatus.RAN),
        (RunState.PARTIAL, AuditStatus.RAN),
        (RunState.CANCELLED, AuditStatus.RAN),
        (RunState.FAILED, AuditStatus.FAILED),
        (RunState.RUNNING, AuditStatus.RUNNING),
    ],
)
def test_a_started_instant_is_found_as_its_run_stands(state, kind):
    finding = only([DUE], [slot()], [run_in(state, reason="the cap was reached")])

    assert finding.status is kind
    assert finding.run.state is state
    assert "20300314_120005" in finding.message


def test_a_run_that_says_running_without_a_process_has_failed():
    running = run_in(RunState.RUNNING)

    finding = only([DUE], [slot()], [running], gone=[running.at])

    assert finding.status is AuditStatus.FAILED
    assert "stoker db maintain" in finding.message
    assert only([], [slot()], [running], gone=[running.at]).status is AuditStatus.FAILED


def test_a_run_that_died_is_told_with_what_went_on_with_it():
    def went_on(minutes, state, dead):
        key = RunKey(STARTED_AT + timedelta(minutes=minutes), 2)
        return Run(key=key, kind="upkeep", state=state, manifest=Manifest(goes_on_with=dead.at))

    died = run_in(RunState.FAILED, reason="it died")
    second = went_on(2, RunState.FAILED, died)
    third = went_on(4, RunState.RUNNING, second)

    finding = only([DUE], [slot()], [died, second, third])

    assert finding.status is AuditStatus.FAILED
    assert finding.message == (
        "run 20300314_120005 ended FAILED: it died; run 20300314_120205 resumed it and "
        "ended FAILED; run 20300314_120405 resumed it and is still running"
    )


def test_a_run_that_has_ended_is_found_as_it_ended_whatever_became_of_its_process():
    done = run_in(RunState.DONE)

    assert only([DUE], [slot()], [done], gone=[done.at]).status is AuditStatus.RAN


def test_the_runs_state_and_reason_are_in_the_sentence():
    finding = only([DUE], [slot()], [run_in(RunState.PARTIAL, reason="the cap was reached")])

    assert finding.message == "run 20300314_120005 ended PARTIAL: the cap was reached"


@pytest.mark.parametrize("state", [OccurrenceState.MISSED, OccurrenceState.OVERLAP])
def test_an_instant_passed_over_is_found_with_the_reason_it_was_given(state):
    finding = only([DUE], [slot(state, reason="nothing was running")], [])

    assert (finding.status.value, finding.message) == (state.value, "nothing was running")


def test_an_instant_nobody_wrote_down_is_a_gap():
    assert only([DUE], [], []).status is AuditStatus.GAP


@pytest.mark.parametrize(
    ("late", "kind"),
    [
        (-HOUR, AuditStatus.PENDING),
        (timedelta(0), AuditStatus.PENDING),
        (GRACE_PERIOD, AuditStatus.PENDING),
        (GRACE_PERIOD + timedelta(seconds=1), AuditStatus.GAP),
    ],
)
def test_an_instant_has_a_grace_before_it_is_a_gap(late, kind):
    assert only([NOW - late], [], []).status is kind


def test_a_started_run_without_a_record_is_lost():
    assert only([DUE], [slot()], []).status is AuditStatus.LOST
    assert only([DUE], [slot(run_at=None)], []).status is AuditStatus.LOST


def test_a_missing_run_older_than_what_is_kept_was_pruned_not_lost():
    assert only([DUE], [slot()], [], kept_for=23 * HOUR).status is AuditStatus.RAN
    assert only([DUE], [slot()], [], kept_for=25 * HOUR).status is AuditStatus.LOST


def test_a_slot_the_schedule_does_not_have_is_unexpected_but_its_failure_still_shows():
    done, failed = run_in(RunState.DONE), run_in(RunState.FAILED)

    assert only([], [slot()], [done]).status is AuditStatus.UNEXPECTED
    assert only([], [slot(OccurrenceState.MISSED)], []).status is AuditStatus.UNEXPECTED
    assert only([], [slot()], [failed]).status is AuditStatus.FAILED
    assert only([], [slot()], []).status is AuditStatus.LOST


def test_a_monitor_is_woken_for_gaps_losses_and_failures_only():
    woken = {
        kind: bool(list_problems([only([DUE], slots, runs)]))
        for kind, slots, runs in [
            ("gap", [], []),
            ("lost", [slot()], []),
            ("failed", [slot()], [run_in(RunState.FAILED)]),
            ("ran", [slot()], [run_in(RunState.DONE)]),
            ("running", [slot()], [run_in(RunState.RUNNING)]),
            ("missed", [slot(OccurrenceState.MISSED)], []),
            ("overlap", [slot(OccurrenceState.OVERLAP)], []),
        ]
    }

    assert [kind for kind, was in woken.items() if was] == ["gap", "lost", "failed"]


def test_a_moment_without_a_zone_is_refused():
    with pytest.raises(ConfigError, match=r"an expected instant .* has no time zone"):
        audit_occurrences([DUE.replace(tzinfo=None)], [], [], now=NOW)


hours = st.integers(-48, 48).map(lambda n: NOW + n * HOUR)
slots = st.lists(
    st.builds(
        lambda state, at: slot(state, instant=at, run_at=at),
        st.sampled_from(OccurrenceState),
        hours,
    ),
    unique_by=lambda slot: slot.due_at,
)
runs = st.lists(
    st.builds(
        lambda at, state: Run(key=RunKey(at, 1), kind="upkeep", state=state),
        hours,
        st.sampled_from(RunState),
    ),
    unique_by=lambda run: run.at,
)


@given(st.lists(hours), slots, runs)
def test_every_expected_and_every_decided_instant_has_one_finding_in_order(expected, slots, runs):
    findings = audit_occurrences(expected, slots, runs, now=NOW)

    instants = {*expected, *(slot.due_at for slot in slots)}
    assert [finding.due_at for finding in findings] == sorted(instants)
    assert all(finding.message for finding in findings)


@given(st.lists(hours), slots, runs)
def test_nothing_decided_is_a_gap_and_nothing_expected_is_unexpected(expected, slots, runs):
    decided = {slot.due_at for slot in slots}

    for finding in audit_occurrences(expected, slots, runs, now=NOW):
        is_open = finding.status in (AuditStatus.GAP, AuditStatus.PENDING)
        assert is_open == (finding.due_at not in decided)
        if finding.status is AuditStatus.UNEXPECTED:
            assert finding.due_at not in expected
