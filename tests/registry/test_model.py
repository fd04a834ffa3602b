"""The register's parts, and how its changes are dated."""

import string
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.registry.model import PARTS, LoadCount, choose_change_time, is_whole_register

moments = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3650)).map(
    lambda since: datetime(2026, 2, 7, tzinfo=UTC) + since
)


@given(st.sets(st.sampled_from([*sorted(PARTS), "Q (sample)", "", "a"])))
def test_only_all_letters_and_the_others_are_the_whole_register(parts):
    assert is_whole_register(parts) == all(
        part in parts for part in (*string.ascii_uppercase, "Others")
    )


@given(st.lists(moments, min_size=1))
def test_every_change_is_dated_later_than_all_before_it(clock):
    dates = []
    for now in clock:
        dates.append(choose_change_time(now, latest=dates[-1] if dates else None))
    assert dates == sorted(set(dates))


@given(moments, st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=1)))
def test_a_change_is_dated_now_when_that_is_later(latest, wait):
    assert choose_change_time(latest + wait, latest=latest) == latest + wait
    assert choose_change_time(latest, latest=None) == latest


def test_rows_that_were_read_are_all_but_those_that_are_gone():
    assert LoadCount(new=1, changed=2, same=3, rejected=4, gone=5).rows_read == 10
