import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.sandbox.http import Request
from stoker.sandbox.meter import MAX_LOGGED_REQUESTS, Meter

SECRET = "tvly-canary-0123456789"


def note(tallies, **asked):
    tallies.log_request(Request(method="GET", host="a.test", **asked), group="a.test", status=200)


def test_the_log_keeps_the_last_requests_and_counts_all():
    tallies = Meter()
    for nth in range(MAX_LOGGED_REQUESTS + 50):
        note(tallies, path=f"/{nth}", number=nth)

    assert len(tallies.log) == MAX_LOGGED_REQUESTS
    assert tallies.log[-1].target == f"/{MAX_LOGGED_REQUESTS + 49}"
    assert tallies.by_host["a.test"] == MAX_LOGGED_REQUESTS + 50


@pytest.mark.parametrize("name", ["api_key", "apikey", "key", "token", "API_KEY", "password"])
def test_a_key_in_an_address_is_not_remembered(name):
    tallies = Meter()
    note(tallies, path="/v2/validate", search=f"email=a%40b.test&{name}={SECRET}&ip=1")

    assert SECRET not in repr(tallies.log)
    assert "email=a%40b.test" in tallies.log[0].target


def test_a_key_is_told_apart_from_others_but_never_shown():
    tallies = Meter()
    tallies.charge("tavily", 3, key=SECRET)
    tallies.charge("tavily", 4, key="another")

    assert tallies.get_charged("tavily", key=SECRET) == 3
    assert tallies.get_charged("tavily") == 7
    assert SECRET not in repr(tallies.charges_by_key)
    assert len(tallies.charges_by_key["tavily"]) == 2


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(["x", "y"]),
            st.sampled_from("kl"),
            st.integers(0, 9),
        )
    )
)
def test_bills_add_up_however_they_are_split(charges):
    tallies = Meter()
    for vendor, unit, key, amount in charges:
        tallies.charge(vendor, amount, unit=unit, key=key)

    for vendor in "ab":
        for unit in ("x", "y"):
            total = sum(amount for v, u, _, amount in charges if (v, u) == (vendor, unit))
            assert tallies.get_charged(vendor, unit=unit) == total
            assert sum(tallies.get_charged(vendor, unit=unit, key=key) for key in "kl") == total


def test_the_same_content_is_counted_up():
    tallies = Meter()
    assert [tallies.count_request(7), tallies.count_request(8), tallies.count_request(7)] == [
        0,
        0,
        1,
    ]
