import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError, ConflictError
from stoker.base.jsontools import compact_json
from stoker.runs.model import (
    Manifest,
    Run,
    RunKey,
    RunState,
    choose_run_time,
    compute_config_hash,
    format_run_name,
    parse_run_name,
)

AT = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RUN = Run(key=RunKey(AT, 1), kind="discovery")
ENDS = [state for state in RunState if state is not RunState.RUNNING]

seconds = st.integers(-62_135_596_800, 253_402_300_799).map(
    lambda n: datetime(1970, 1, 1, tzinfo=UTC) + n * SECOND
)
moments = st.integers(0, 4_000_000_000_000).map(
    lambda n: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=n)
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_run_is_named_by_its_utc_second():
    assert RUN.name == format_run_name(AT) == "20260207_013000"
    assert format_run_name(AT.astimezone(timezone(timedelta(hours=8)))) == "20260207_013000"


@given(seconds)
def test_a_name_leads_back_to_its_second(second):
    assert parse_run_name(format_run_name(second)) == second


@given(seconds, seconds)
def test_names_sort_as_the_seconds_do(one, other):
    assert (format_run_name(one) < format_run_name(other)) == (one < other)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "20260207",
        "20260207_0130",
        "20260230_013000",
        "20260207_013060",
        "00000101_000000",
        "20260207_013000\n",
        "２０２６0207_013000",
        "20260207-013000",
        "../20260207_013000",
        "latest",
    ],
)
def test_what_does_not_name_a_run_is_refused_and_shown_what_a_name_looks_like(name):
    with pytest.raises(ConfigError, match="names look like 20260207_013000"):
        parse_run_name(name)


def test_a_fraction_of_a_second_or_a_missing_zone_names_no_run():
    with pytest.raises(ConfigError, match="whole second"):
        RunKey(AT + timedelta(microseconds=1), 1)
    with pytest.raises(ConfigError, match="no time zone"):
        RunKey(AT.replace(tzinfo=None), 1)


def test_a_key_is_the_same_in_every_zone_even_in_an_hour_that_comes_twice():
    moment = datetime(2026, 11, 1, 6, 30, tzinfo=UTC)  # 01:30 in New York, for the second time
    abroad = moment.astimezone(ZoneInfo("America/New_York"))

    assert RunKey(abroad, 1) == RunKey(moment, 1)
    assert RunKey(abroad, 1).at.tzinfo is UTC


@pytest.mark.parametrize("state", ENDS)
def test_a_running_run_can_end_in_every_way_once(state):
    end = RUN.end(state, at=AT + SECOND, reason="why")

    assert (end.state, end.ended_at, end.reason, end.key) == (state, AT + SECOND, "why", RUN.key)
    with pytest.raises(ConflictError, match=f"already ended as {state}"):
        end.end(RunState.DONE, at=AT)


def test_a_run_never_ends_before_it_starts():
    assert RUN.end(RunState.DONE, at=AT - SECOND).ended_at == RUN.at
    with pytest.raises(ConfigError, match="no time zone"):
        RUN.end(RunState.DONE, at=AT.replace(tzinfo=None))


def test_running_is_not_an_end():
    with pytest.raises(ConflictError, match="cannot end as RUNNING"):
        RUN.end(RunState.RUNNING, at=AT)


def test_an_end_keeps_the_manifest_unless_it_brings_its_own():
    planned, final = Manifest(selected=("a",)), Manifest(counts={"jobs": 1})
    run = replace(RUN, manifest=planned)

    assert run.end(RunState.DONE, at=AT).manifest == planned
    assert run.end(RunState.DONE, at=AT, manifest=final).manifest == final


def test_a_run_starting_now_is_named_by_this_second():
    assert choose_run_time(AT + timedelta(milliseconds=900), taken=None) == AT
    assert choose_run_time(AT, taken=AT - SECOND) == AT


def test_a_taken_second_or_a_clock_that_went_back_moves_a_run_past_the_latest_one():
    assert choose_run_time(AT, taken=AT) == AT + SECOND
    assert choose_run_time(AT, taken=AT + 3600 * SECOND) == AT + 3601 * SECOND


@given(moments, st.none() | moments.map(lambda at: at.replace(microsecond=0)))
def test_the_second_is_whole_free_and_never_before_now(now, taken):
    second = choose_run_time(now, taken=taken)

    assert second.microsecond == 0
    assert second > now - SECOND
    assert taken is None or second > taken


@given(values)
def test_json_is_written_one_way_and_reads_back_the_same(value):
    text = compact_json(value)

    assert json.loads(text) == value
    assert compact_json(json.loads(text)) == text
    assert text.isascii()
    assert "\n" not in text


def test_the_order_of_settings_does_not_change_their_digest_and_a_value_does():
    one = compute_config_hash({"a": 1, "b": {"c": 2, "d": 3}})

    assert one == compute_config_hash({"b": {"d": 3, "c": 2}, "a": 1})
    assert one != compute_config_hash({"a": 1, "b": {"c": 2, "d": 4}})
    assert one != compute_config_hash({"a": "1", "b": {"c": 2, "d": 3}})
