from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.budgets.caps import (
    MAX_AMOUNT,
    Cap,
    CapChange,
    Scope,
    compute_effective_limit,
    get_cap_unit,
    list_custom_limits,
    merge_changes,
    validate_amount,
    validate_connector,
    validate_unit,
)
from stoker.budgets.windows import WindowKind

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)
TICK = timedelta.resolution
UNITS = ["calls", "pull_units", "tokens", "credits", "money:USD", "money:SGD"]

amounts = st.integers(0, MAX_AMOUNT)
changes = st.builds(
    CapChange, cap=st.just("a cap"), limit=st.none() | st.integers(0, 9)
) | st.builds(
    CapChange,
    cap=st.just("a cap"),
    limit=st.none() | st.integers(0, 9),
    raised_to=st.integers(0, 9),
    raised_until=st.integers(-2, 2).map(lambda hours: NOW + hours * timedelta(hours=1)),
)


def cap(**said):
    return Cap(
        **{
            "scope": Scope.TENANT_CONNECTOR,
            "connector": "lusha",
            "unit": "credits",
            "window": WindowKind.DAY,
            "limit": 10,
            **said,
        }
    )


@pytest.mark.parametrize("text", UNITS)
def test_these_units_can_be_counted(text):
    assert validate_unit(text) == text


@pytest.mark.parametrize(
    "text", ["", "call", "Calls", "calls ", "money", "money:usd", "money:USDX"]
)
def test_another_unit_is_refused_with_those_there_are(text):
    with pytest.raises(ConfigError, match=r"is no unit; use calls, .* money:USD"):
        validate_unit(text)


@given(amounts)
def test_an_amount_is_a_whole_number_from_nothing_to_the_largest(number):
    assert validate_amount(number) == number


@pytest.mark.parametrize("number", [-1, MAX_AMOUNT + 1, 1.0, True, "1", None, float("nan")])
def test_an_amount_nobody_can_mean_is_refused_by_its_name(number):
    with pytest.raises(
        ConfigError, match=rf"^the price is .*whole numbers from 0 to {MAX_AMOUNT}$"
    ):
        validate_amount(number, what="the price")


def test_an_amount_without_a_name_is_called_an_amount():
    with pytest.raises(ConfigError, match=r"^an amount is -1"):
        validate_amount(-1)


@pytest.mark.parametrize("text", ["a", "lusha", "open-ai_2", "a" * 63])
def test_a_connector_has_a_plain_name(text):
    assert validate_connector(text) == text


@pytest.mark.parametrize("text", ["", "Lusha", "2nd", "-a", "a b", "a/b", "a" * 64, "a\n"])
def test_another_name_of_a_connector_is_refused(text):
    with pytest.raises(ConfigError, match="is no connector; names are 1 to 63"):
        validate_connector(text)


def test_a_cap_is_called_by_what_it_counts():
    assert cap().id == "tenant_connector/lusha/credits/day"
    assert cap(scope=Scope.TENANT, connector="", unit="money:USD").id == "tenant/*/money:USD/day"


@given(
    st.sampled_from(Scope),
    st.sampled_from(UNITS),
    st.sampled_from(WindowKind),
    st.sampled_from(["lusha", "apollo"]),
)
def test_caps_of_one_id_count_the_same_thing(scope, counted, window, connector):
    named = "" if scope is Scope.TENANT else connector
    one = cap(scope=scope, connector=named, unit=counted, window=window)

    assert one.id.split("/") == [scope.value, named or "*", counted, window.value]
    assert get_cap_unit(one.id) == counted
    assert one.shared == (scope is Scope.CONNECTOR)


@pytest.mark.parametrize(
    ("scope", "window", "code"),
    [
        (Scope.TENANT, WindowKind.DAY, "CAP_TENANT_DAY"),
        (Scope.TENANT, WindowKind.RUN, "CAP_TENANT_RUN"),
        (Scope.TENANT_CONNECTOR, WindowKind.HOUR, "CAP_CONNECTOR_HOUR"),
        (Scope.CONNECTOR, WindowKind.WEEK, "CAP_SHARED_WEEK"),
    ],
)
def test_a_refusal_by_a_cap_has_a_code_that_says_whose_and_how_long(scope, window, code):
    connector = "" if scope is Scope.TENANT else "lusha"

    assert cap(scope=scope, window=window, connector=connector).reason == code


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"unit": "pounds"}, "is no unit"),
        ({"limit": -1}, "the limit of credits is -1"),
        ({"limit": MAX_AMOUNT + 1}, "the limit of credits"),
        ({"connector": ""}, "is no connector"),
        ({"connector": "no/name"}, "is no connector"),
        ({"scope": Scope.CONNECTOR, "connector": ""}, "is no connector"),
        ({"scope": Scope.TENANT}, "leave out 'lusha' or use scope tenant_connector"),
    ],
)
def test_a_cap_that_makes_no_sense_is_refused(said, problem):
    with pytest.raises(ConfigError, match=problem):
        cap(**said)


@pytest.mark.parametrize("limit", [0, 3, 20])
def test_a_limit_that_was_set_counts_from_then_on(limit):
    assert compute_effective_limit(cap(limit=10), CapChange(cap="c", limit=limit), now=NOW) == limit


@pytest.mark.parametrize(
    ("limit", "raised_to", "allowed"), [(None, 15, 15), (None, 5, 10), (20, 25, 25), (20, 15, 20)]
)
def test_a_raise_counts_until_its_end_and_never_makes_it_less(limit, raised_to, allowed):
    until = NOW + timedelta(hours=1)
    change = CapChange(cap="c", limit=limit, raised_to=raised_to, raised_until=until)
    after = 10 if limit is None else limit

    assert compute_effective_limit(cap(limit=10), change, now=NOW) == allowed
    assert compute_effective_limit(cap(limit=10), change, now=until - TICK) == allowed
    assert compute_effective_limit(cap(limit=10), change, now=until) == after


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"limit": -1}, "the limit of c is -1"),
        ({"raised_to": 5}, "give both"),
        ({"raised_until": NOW}, "give both"),
        ({"raised_to": -5, "raised_until": NOW}, "the raised limit of c is -5"),
        (
            {"raised_to": 5, "raised_until": NOW.replace(tzinfo=None)},
            "raised_until .* no time zone",
        ),
    ],
)
def test_a_word_about_a_cap_that_makes_no_sense_is_refused(said, problem):
    with pytest.raises(ConfigError, match=problem):
        CapChange(cap="c", **said)


@given(changes, changes)
def test_of_two_words_the_later_stands_and_what_it_left_out_stays(first, second):
    both = merge_changes(first, second)

    assert merge_changes(None, first) == first
    assert both.limit == (first if second.limit is None else second).limit
    raised = first if second.raised_to is None else second
    assert (both.raised_to, both.raised_until) == (raised.raised_to, raised.raised_until)
    assert both.cap == "a cap"


def test_what_is_kept_in_ids_and_settings_keeps_its_name():
    assert [scope.value for scope in Scope] == ["tenant", "tenant_connector", "connector"]
    assert MAX_AMOUNT == 10**15


@given(changes)
def test_what_people_said_of_a_cap_is_what_is_in_force_where_nothing_else_was(change):
    nothing_else = cap(limit=0)
    said = list_custom_limits({"a cap": change}, now=NOW)
    assert said.get("a cap", 0) == compute_effective_limit(nothing_else, change, now=NOW)
    assert said or change.limit is None
