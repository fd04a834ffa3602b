from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.runs.compare import Difference, diff_runs
from stoker.runs.model import Manifest, Run, RunKey, RunState, StepTiming

AT = datetime(2030, 1, 1, tzinfo=UTC)


def run_with(*, at=AT, kind="discovery", state=RunState.DONE, reason="", seconds=60, **manifest):
    return Run(
        key=RunKey(at, 1),
        kind=kind,
        state=state,
        ended_at=at + timedelta(seconds=seconds),
        reason=reason,
        manifest=Manifest(**manifest),
    )


def lines(one, other):
    return [(d.what, d.one, d.other) for d in diff_runs(one, other)]


def test_a_run_that_went_the_same_way_at_another_time_does_not_differ():
    again = run_with(at=AT + timedelta(days=1))

    assert diff_runs(run_with(), again) == []


def test_state_kind_reason_and_duration_are_compared():
    other = run_with(kind="upkeep", state=RunState.PARTIAL, reason="cap reached", seconds=90.5)

    assert lines(run_with(), other) == [
        ("kind", "discovery", "upkeep"),
        ("reason", "–", "cap reached"),
        ("seconds", "60.000", "90.500"),
        ("state", "DONE", "PARTIAL"),
    ]


def test_changed_settings_are_named_by_their_dotted_keys_with_both_values():
    one = run_with(config={"retention": {"days": 30, "enabled": True}, "storage.backend": "json"})
    other = run_with(config={"retention": {"days": "30", "enabled": True}, "tenants": {}})

    assert lines(one, other) == [
        ("config.retention.days", "30", '"30"'),
        ("config.storage.backend", '"json"', "–"),
        ("config.tenants", "–", "{}"),
    ]


def test_counts_cost_and_caps_are_compared_one_by_one():
    one = run_with(counts={"jobs": 3}, cost={"eur": 100}, caps={"tokens": 5})
    other = run_with(counts={"jobs": 4, "new": 1}, cost={"eur": 100}, caps={"tokens": 6})

    assert lines(one, other) == [
        ("caps.tokens", "5", "6"),
        ("counts.jobs", "3", "4"),
        ("counts.new", "–", "1"),
    ]


def test_steps_and_sources_are_compared_by_seconds_and_items_and_goes_are_added_up():
    one = run_with(steps=(StepTiming(step="score", seconds=1.5, items=3),))
    other = run_with(
        steps=(
            StepTiming(step="score", seconds=1.0, items=2),
            StepTiming(step="score", seconds=0.50001, items=2),
        ),
        sources=(StepTiming(step="lever", seconds=2, items=9),),
    )

    assert lines(one, other) == [
        ("sources.lever.items", "–", "9"),
        ("sources.lever.seconds", "–", "2.000"),
        ("steps.score.items", "3", "4"),
    ]


def test_of_selected_ids_the_number_and_the_first_few_that_the_other_lacks_are_shown():
    one = run_with(selected=("a", "b"))
    other = run_with(selected=("b", *"uvwxyz"))

    assert lines(one, other) == [
        ("selected", "2, 1 only here: a", "7, 6 only here: u, v, w, x, y, …")
    ]


def test_the_same_ids_in_another_order_are_told_from_where_they_part():
    one, other = run_with(selected=tuple("abcdefg")), run_with(selected=tuple("abcdegf"))

    assert lines(one, other) == [
        ("selected", "7 in another order, from 6 on: f, g", "7 in another order, from 6 on: g, f")
    ]


texts = st.text("abc", max_size=2)
numbers = st.dictionaries(texts, st.integers(0, 3), max_size=3)
timings = st.lists(
    st.builds(StepTiming, step=texts, seconds=st.floats(0, 9), items=st.integers(0, 3)), max_size=3
).map(tuple)
manifests = st.builds(
    Manifest,
    config=st.dictionaries(texts, st.integers(0, 2) | numbers, max_size=3),
    selected=st.lists(texts, max_size=4).map(tuple),
    caps=numbers,
    counts=numbers,
    cost=numbers,
    steps=timings,
    reasons=st.lists(texts, max_size=3).map(tuple),
)
runs = st.builds(lambda manifest: replace(run_with(), manifest=manifest), manifests)


@given(runs)
def test_a_run_does_not_differ_from_itself(run):
    assert diff_runs(run, run) == []


@given(runs, runs)
def test_the_other_way_round_the_sides_are_changed_and_nothing_else(one, other):
    turned = [Difference(what=d.what, one=d.other, other=d.one) for d in diff_runs(other, one)]

    assert diff_runs(one, other) == turned


@given(runs, runs)
def test_differences_are_sorted_and_each_shows_two_sides_that_differ(one, other):
    found = diff_runs(one, other)

    assert [d.what for d in found] == sorted({d.what for d in found})
    assert all(d.one != d.other for d in found)


@given(runs, runs)
def test_runs_with_different_counts_or_selections_always_differ(one, other):
    named = {difference.what.split(".")[0] for difference in diff_runs(one, other)}

    assert ("counts" in named) == (one.manifest.counts != other.manifest.counts)
    assert ("selected" in named) == (one.manifest.selected != other.manifest.selected)
