from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.runs.model import Run, RunKey, RunState
from stoker.runs.retention import (
    compute_longest_window_start,
    decide_retention,
)
from stoker.runs.settings import RetentionRule

NOW = datetime(2030, 3, 15, 12, tzinfo=UTC)  # a Friday
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
UNNEEDED = "older than 30 days and not needed any more"

ages = st.integers(-5, 400).map(lambda hours: NOW - timedelta(hours=hours * 6))
runs_of_any_age = st.builds(
    lambda at, kind, state: Run(key=RunKey(at, 1), kind=kind, state=state),
    ages,
    st.sampled_from(["discovery", "upkeep"]),
    st.sampled_from(RunState),
)
histories = st.lists(runs_of_any_age, max_size=25, unique_by=lambda run: run.at)
rules = st.builds(RetentionRule, days=st.integers(0, 60), keep_latest=st.integers(1, 8))
moments = st.none() | ages


def run_of(days_ago, *, state=RunState.DONE, kind="discovery"):
    return Run(key=RunKey(NOW - days_ago * DAY, 1), kind=kind, state=state)


def gone(runs, rule, *, current=None, window_since=None):
    decided = decide_retention(runs, rule=rule, now=NOW, current=current, window_since=window_since)
    return [verdict.run for verdict in decided if verdict.is_deleted]


def why(runs, rule, *, now=NOW, current=None, window_since=None):
    decided = decide_retention(runs, rule=rule, now=now, current=current, window_since=window_since)
    return {verdict.run.at: verdict.reason for verdict in decided}


def test_a_run_goes_when_it_is_older_than_the_days_and_not_among_the_latest():
    runs = [run_of(days) for days in (1, 2, 40, 50, 60)]

    assert gone(runs, RetentionRule(days=30, keep_latest=3)) == [run_of(60), run_of(50)]


def test_the_latest_are_counted_for_each_kind_of_work_apart():
    rare = run_of(90, kind="upkeep", state=RunState.PARTIAL)
    runs = [run_of(days) for days in range(1, 60)]

    assert rare not in gone([*runs, rare], RetentionRule(days=30, keep_latest=1))


@pytest.mark.parametrize(
    ("days", "options", "state", "because"),
    [
        (90, {}, RunState.RUNNING, "it is still running"),
        (90, {"current": NOW - 90 * DAY}, RunState.FAILED, "it is the run that asks"),
        (90, {}, RunState.DONE, "it is the last discovery run that ended DONE"),
        (
            90,
            {"window_since": NOW - 90 * DAY},
            RunState.FAILED,
            "a budget window open since 2029-12-15 12:00 UTC still needs it",
        ),
        (90, {"window_since": NOW - 89 * DAY}, RunState.FAILED, UNNEEDED),
        (90, {}, RunState.FAILED, UNNEEDED),
        (30, {}, RunState.FAILED, "it is not older than 30 days"),
        (0, {"now": NOW + 31 * DAY}, RunState.FAILED, "it is among the latest 1 discovery runs"),
    ],
)
def test_every_run_is_told_why_it_stays_or_goes(days, options, state, because):
    runs = [run_of(days, state=state), run_of(1, state=RunState.FAILED)]

    assert why(runs, RetentionRule(days=30, keep_latest=1), **options)[runs[0].at] == because


@given(histories, rules, moments, moments)
def test_what_goes_is_older_than_the_days_and_not_among_the_latest_of_its_kind(
    runs, rule, current, window
):
    for run in gone(runs, rule, current=current, window_since=window):
        newer = [other for other in runs if other.kind == run.kind and other.at > run.at]
        assert NOW - run.at > timedelta(days=rule.days)
        assert len(newer) >= rule.keep_latest


@given(histories, rules, moments, moments)
def test_never_the_current_run_nor_a_running_one_nor_what_an_open_window_needs(
    runs, rule, current, window
):
    for run in gone(runs, rule, current=current, window_since=window):
        assert run.at != current
        assert run.state is not RunState.RUNNING
        assert window is None or run.at < window


@given(histories, rules)
def test_the_last_run_that_ended_well_never_goes(runs, rule):
    left = [run for run in runs if run not in gone(runs, rule)]

    for kind in {run.kind for run in runs if run.state is RunState.DONE}:
        done = [run for run in runs if (run.kind, run.state) == (kind, RunState.DONE)]
        assert max(done, key=lambda run: run.at) in left


@given(histories, rules, moments, moments, st.randoms(use_true_random=False))
def test_the_order_of_the_runs_does_not_matter_and_the_oldest_go_first(
    runs, rule, current, window, rng
):
    going = gone(runs, rule, current=current, window_since=window)

    shuffled = rng.sample(runs, len(runs))
    assert gone(shuffled, rule, current=current, window_since=window) == going
    assert going == sorted(going, key=lambda run: run.at)


@given(histories, rules, moments, moments)
def test_pruning_twice_at_the_same_time_removes_nothing_more(runs, rule, current, window):
    going = gone(runs, rule, current=current, window_since=window)
    left = [run for run in runs if run not in going]

    assert gone(left, rule, current=current, window_since=window) == []


@given(histories, rules, moments, moments)
def test_every_run_has_one_verdict_with_a_sentence(runs, rule, current, window):
    decided = decide_retention(runs, rule=rule, now=NOW, current=current, window_since=window)

    assert sorted(run.at for run in runs) == [verdict.run.at for verdict in decided]
    assert all(verdict.reason for verdict in decided)
    assert [verdict.run for verdict in decided if verdict.is_deleted] == gone(
        runs, rule, current=current, window_since=window
    )


@given(histories, rules, st.integers(1, 30))
def test_keeping_more_never_lets_more_go(runs, rule, more):
    for wider in (
        replace(rule, days=rule.days + more),
        replace(rule, keep_latest=rule.keep_latest + more),
    ):
        assert {run.at for run in gone(runs, wider)} <= {run.at for run in gone(runs, rule)}


@pytest.mark.parametrize("bad", [{"days": -1}, {"keep_latest": 0}, {"days": 10**9}])
def test_a_rule_that_cannot_be_meant_is_refused(bad):
    with pytest.raises(ConfigError, match="allowed: "):
        RetentionRule(**{"days": 1, "keep_latest": 1, **bad})


def test_the_longest_window_began_on_monday_at_local_midnight():
    assert compute_longest_window_start(NOW, "UTC") == datetime(2030, 3, 11, tzinfo=UTC)
    assert compute_longest_window_start(NOW, "Asia/Singapore") == datetime(
        2030, 3, 10, 16, tzinfo=UTC
    )


def test_in_another_zone_it_may_already_be_next_week():
    sunday_evening = datetime(2030, 3, 17, 20, tzinfo=UTC)

    assert compute_longest_window_start(sunday_evening, "UTC") == datetime(2030, 3, 11, tzinfo=UTC)
    assert compute_longest_window_start(sunday_evening, "Asia/Singapore") == datetime(
        2030, 3, 17, 16, tzinfo=UTC
    )


@given(
    st.integers(0, 40 * 366 * 24 * 60).map(lambda n: datetime(2000, 1, 5, tzinfo=UTC) + n * MINUTE),
    st.sampled_from(["UTC", "America/Havana", "Asia/Beirut", "Pacific/Apia", "America/New_York"]),
)
def test_the_window_has_begun_and_is_not_much_longer_than_a_week(now, zone):
    since = compute_longest_window_start(now, zone)

    assert since <= now
    assert now - since < 8 * DAY + timedelta(hours=2)
    assert since.astimezone(ZoneInfo(zone)).weekday() == 0


def test_a_moment_without_a_zone_is_refused():
    with pytest.raises(ConfigError, match="no time zone"):
        compute_longest_window_start(NOW.replace(tzinfo=None), "UTC")
