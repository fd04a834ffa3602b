from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.sandbox.faults import Fault, FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import Request, to_json_response
from stoker.sandbox.meter import Meter

CHARGED = {
    Fault.ERROR_CHARGED,
    Fault.HANG,
    Fault.CLOSE,
    Fault.RESET,
    Fault.TRUNCATED,
    Fault.CUT_JSON,
    Fault.GARBAGE,
    Fault.DRIP,
}


def vendor(**dials):
    """A vendor that charges one credit a call, and the three things around it."""
    turned = FaultSettingsTable(
        {f"acme.{name.replace('__', '.')}": value for name, value in dials.items()}
    )
    tallies = Meter()

    def answer(asked):
        tallies.charge("acme", 1, key="k")
        return to_json_response({"asked": asked.path})

    return wrap_with_faults("acme", answer, seed=1, dials=turned, meter=tallies), turned, tallies


def asked(path="/", body=b""):
    return Request(method="POST", host="acme.test", path=path, body=body)


def wrongly_billed(make):
    """Return the faults after which a vendor's bill does not say what happened."""
    wrong = []
    for fault in Fault:
        handler, dials, tallies = make()
        dials.set_value(f"acme.fault.{fault}", 1)
        if handler(asked()) == to_json_response({"asked": "/"}):
            wrong.append(fault)
        if tallies.get_charged("acme", key="k") != (1 if fault in CHARGED else 0):
            wrong.append(fault)
    return wrong


def test_a_charge_is_counted_exactly_when_the_fault_comes_after_it():
    assert wrongly_billed(vendor) == []


def test_a_vendor_that_bills_only_what_it_delivers_is_caught():
    def forgetful():
        handler, dials, tallies = vendor()

        def delivering(asked):
            told = handler(asked)
            if told != to_json_response({"asked": asked.path}):
                tallies.charge("acme", -tallies.get_charged("acme"), key="k")
            return told

        return delivering, dials, tallies

    assert set(wrongly_billed(forgetful)) == CHARGED


@given(st.lists(st.binary(max_size=8), max_size=30), st.randoms())
def test_what_goes_wrong_follows_from_the_request_and_not_from_the_order(bodies, chance):
    faults = {f"fault__{fault}": 0.08 for fault in Fault}
    once, again = vendor(**faults)[0], vendor(**faults)[0]
    shuffled = sorted(set(bodies))
    chance.shuffle(shuffled)

    met = {body: once(asked(body=body)) for body in set(bodies)}
    assert {body: again(asked(body=body)) for body in shuffled} == met


def test_a_request_that_failed_can_succeed_when_it_is_asked_again():
    handler, _, _ = vendor(fault__error=0.5)

    statuses = [handler(asked()).status for _ in range(20)]

    assert {200, 500} == set(statuses)


def test_faults_come_about_as_often_as_they_were_dialled():
    handler, _, _ = vendor(fault__error=0.1)

    failed = sum(handler(asked(f"/{nth}")).status == 500 for nth in range(5000))

    assert 400 < failed < 600


def test_latency_lies_between_its_ends_and_is_the_same_for_the_same_request():
    handler, _, _ = vendor(latency_low="100ms", latency_high="0.3s")
    waits = [handler(asked(f"/{nth}")).after for nth in range(200)]

    assert timedelta(milliseconds=100) <= min(waits) < max(waits) <= timedelta(milliseconds=300)
    assert vendor(latency_low="100ms", latency_high="0.3s")[0](asked("/0")).after == waits[0]


def test_a_rate_lets_so_many_through_and_says_when_to_come_back():
    handler, _, tallies = vendor(calls=3, window="3600s", retry_after="120")
    told = [handler(asked(f"/{nth}")) for nth in range(5)]

    assert [each.status for each in told] == [200, 200, 200, 429, 429]
    assert told[3].headers["retry-after"] == "120"
    assert tallies.get_charged("acme") == 3


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("tavily", 1, "is no dial"),
        (".calls", 1, "is no dial"),
        ("tavily.wings", 1, "is no dial; there are"),
        ("tavily.fault.sneeze", 1, "is no fault; there are"),
        ("tavily.fault.hang", "often", "is a number"),
        ("tavily.fault.hang", "nan", "from 0 to 1"),
        ("tavily.fault.hang", 1.5, "from 0 to 1"),
        ("tavily.latency", "-1s", "from 0 to 3600"),
        ("tavily.latency", "nan", "from 0 to 3600"),
        ("tavily.calls", "1.5", "whole number"),
        ("tavily.calls", "inf", "whole number"),
    ],
)
def test_a_dial_that_makes_no_sense_is_refused(name, value, sentence):
    with pytest.raises(ConfigError, match=sentence):
        FaultSettingsTable().set_value(name, value)


def test_dials_are_shown_as_they_would_be_typed():
    typed = {"a.latency_low": "0.1s", "a.calls": "5", "a.fault.hang": "0.25", "b.night": "7"}

    shown = FaultSettingsTable(typed).list_changed()

    assert {f"{v}.{name}": value for v, of in shown.items() for name, value in of.items()} == typed
