"""Signals out of tables: each row a signal, or the reason why it is none."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.heat.model import Signal, SignalKind
from stoker.heat.signals import SIGNAL_COLUMNS, parse_signal

NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
ZONE = ZoneInfo("Asia/Singapore")
GOOD = {"account": "200012345K", "at": "2026-11-15T10:00:00Z"}


def read(**more):
    return parse_signal({**GOOD, **more}, zone=ZONE, now=NOW)


def test_a_row_with_account_and_time_is_a_signal_of_full_strength():
    told = read()
    assert told == Signal(
        id=told.id,
        account="200012345K",
        kind=SignalKind.IMPORTED,
        at=datetime(2026, 11, 15, 10, tzinfo=UTC),
        strength=1.0,
    )


def test_a_time_without_a_zone_is_the_tenants_own():
    assert read(at="2026-11-15 10:00").at == datetime(2026, 11, 15, 2, tzinfo=UTC)


def test_the_same_row_is_the_same_signal_and_another_is_another():
    assert read().id == read().id
    assert len({read().id, read(strength="0.5").id, read(source="x").id, read(id="7").id}) == 4


@pytest.mark.parametrize(
    ("wrong", "because"),
    [
        ({"account": " "}, "no account"),
        ({"at": ""}, "no at"),
        ({"at": "yesterday"}, "is none; write it like"),
        ({"at": "9999-12-31T23:59:59-23:00"}, "is none"),
        ({"at": (NOW + timedelta(seconds=1)).isoformat()}, "has not come yet"),
        ({"at": "1066-10-14T09:00:00Z"}, "in the years 1900"),
        ({"strength": "much"}, "is no number"),
        ({"strength": "nan"}, "strength is 0 to 1"),
        ({"strength": "1.1"}, "strength is 0 to 1"),
        ({"strength": "-1e-9"}, "strength is 0 to 1"),
    ],
)
def test_whatever_is_no_signal_is_told_in_a_sentence(wrong, because):
    told = read(**wrong)
    assert isinstance(told, str)
    assert because in told


values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30))


@given(st.dictionaries(st.sampled_from(SIGNAL_COLUMNS), values))
def test_no_row_breaks_it(row):
    assert isinstance(parse_signal(row, zone=ZONE, now=NOW), Signal | str)
    told = parse_signal({**GOOD, "source": row.get("source")}, zone=ZONE, now=NOW)
    assert isinstance(told, Signal)
