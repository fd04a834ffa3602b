"""A run written down as JSON reads back the same; what is not a run's record is refused."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.runs.model import (
    Manifest,
    Run,
    RunKey,
    RunState,
    StepTiming,
    parse_manifest,
    parse_run,
    to_manifest_json,
    to_run_json,
)

AT = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
RUN = Run(key=RunKey(AT, 1), kind="discover")

texts = st.text(max_size=8)
wholes = st.dictionaries(texts, st.integers(), max_size=3)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
moments = st.datetimes(
    min_value=datetime(1970, 1, 2),  # noqa: DTZ001 – the strategy adds the zone itself
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=8))]),
)
timings = st.builds(
    StepTiming, step=texts, seconds=st.floats(0, 1e9), items=st.integers(min_value=0)
)
manifests = st.builds(
    Manifest,
    config_hash=texts,
    config=st.dictionaries(texts, plain, max_size=3),
    selected=st.lists(texts).map(tuple),
    caps=wholes,
    counts=wholes,
    cost=wholes,
    steps=st.lists(timings, max_size=2).map(tuple),
    sources=st.lists(timings, max_size=2).map(tuple),
    reasons=st.lists(texts).map(tuple),
    remaining=st.lists(texts).map(tuple),
    resume_at=st.none() | moments,
    goes_on_with=st.none() | moments,
)
seconds = moments.map(lambda moment: moment.replace(microsecond=0))
runs = st.builds(
    Run,
    key=st.builds(RunKey, seconds, st.integers()),
    kind=texts,
    state=st.sampled_from(RunState),
    instant=st.none() | moments,
    ended_at=st.none() | moments,
    reason=texts,
    manifest=manifests,
)


@given(runs)
def test_a_run_reads_back_as_it_was_written(run):
    assert parse_run(json.loads(json.dumps(to_run_json(run)))) == run


@given(manifests)
def test_a_manifest_reads_back_as_it_was_written(manifest):
    assert parse_manifest(json.loads(json.dumps(to_manifest_json(manifest)))) == manifest


@given(runs)
def test_moments_are_written_in_utc(run):
    written = to_run_json(run)
    for key in ("at", "instant", "ended_at"):
        assert written[key] is None or written[key].endswith("+00:00")


def test_what_was_written_before_a_key_existed_has_its_default():
    assert parse_manifest({}) == Manifest()
    assert parse_run({"at": AT.isoformat(), "epoch": 1, "kind": "discover"}) == RUN


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"colour": "red"}, "colour"),
        ({"state": "ASLEEP"}, "state"),
        ({"epoch": "1"}, "epoch"),
        ({"epoch": True}, "epoch"),
        ({"epoch": None}, "epoch"),
        ({"kind": 7}, "kind"),
        ({"at": "yesterday"}, "at"),
        ({"at": None}, "at"),
        ({"at": "2026-02-07T01:30:00"}, "time zone"),
        ({"at": "2026-02-07T01:30:00.5+00:00"}, "whole second"),
        ({"instant": 12}, "instant"),
        ({"manifest": []}, "manifest"),
        ({"manifest": {"colour": 1}}, "colour"),
        ({"manifest": {"caps": {"pages": "many"}}}, "caps"),
        ({"manifest": {"selected": "abc"}}, "selected"),
        ({"manifest": {"steps": [{"step": "a", "seconds": "b"}]}}, "seconds"),
        ({"manifest": {"steps": [{"seconds": 1}]}}, "steps"),
    ],
)
def test_what_is_not_a_runs_record_is_refused_by_name(change, word):
    with pytest.raises(ConfigError, match=word) as caught:
        parse_run(to_run_json(RUN) | change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [None, [], "run", 3])
def test_only_an_object_can_be_a_run(data):
    with pytest.raises(ConfigError, match="JSON object"):
        parse_run(data)
