"""What the gate says: in one order, with a reason, never by guessing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from stoker.base.errors import ConfigError, ConflictError, PermanentError
from stoker.budgets.caps import Cap, CapChange, Scope
from stoker.budgets.charges import (
    BudgetState,
    Refusal,
    SpendRequest,
    evaluate_request,
    find_stop_refusal,
)
from stoker.budgets.reservations import build_reservation, check_repeat
from stoker.budgets.schema import validate_change, validate_request, validate_stop
from stoker.budgets.windows import ResetRule, WindowKind
from stoker.db.codec import validate_name, validate_owner

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAILY = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.DAY, limit=100)
SHARED = "connector/lusha/credits/day"
WANTED = SpendRequest(key="k", connector="lusha", amounts={"credits": 10})


def asked(standing, *, request=WANTED, caps=(DAILY,), now=NOW):
    return evaluate_request(request, caps, standing, reset=ResetRule(), now=now)


def test_time_is_the_later_of_the_clock_and_the_ledger_and_always_in_utc():
    singapore = timezone(timedelta(hours=8))
    assert BudgetState().to_ledger_time(NOW.astimezone(singapore)) == NOW
    assert BudgetState().to_ledger_time(NOW.astimezone(singapore)).tzinfo is UTC
    assert BudgetState(latest=NOW).to_ledger_time(NOW - HOUR) == NOW
    assert BudgetState(latest=NOW).to_ledger_time(NOW + HOUR) == NOW + HOUR
    with pytest.raises(ConfigError, match="time zone"):
        BudgetState().to_ledger_time(NOW.replace(tzinfo=None))


def test_a_lease_is_as_long_as_was_asked_whatever_the_clock():
    until = NOW + HOUR
    assert BudgetState().compute_lease_end(until, now=NOW) == until
    assert BudgetState(latest=NOW - HOUR).compute_lease_end(until, now=NOW) == until
    assert BudgetState(latest=NOW + 3 * HOUR).compute_lease_end(until, now=NOW) == NOW + 4 * HOUR


def test_when_nothing_stands_in_the_way_the_answer_is_what_to_charge():
    [charge] = asked(BudgetState())
    assert (charge.cap, charge.amount, charge.limit) == (DAILY.id, 10, 100)


def test_changes_people_made_are_in_force():
    changes = {DAILY.id: CapChange(cap=DAILY.id, limit=7)}
    assert [charge.limit for charge in asked(BudgetState(changes=changes))] == [7]


def test_caps_people_added_are_charged_although_the_caller_does_not_know_them():
    own, other = "tenant_connector/lusha/credits/week", "tenant_connector/apollo/credits/week"
    changes = {cap: CapChange(cap=cap, limit=7) for cap in (own, SHARED, other)}
    found = asked(BudgetState(changes=changes))
    assert [(charge.cap, charge.limit) for charge in found] == [
        (SHARED, 7),
        (DAILY.id, 100),
        (own, 7),
    ]


def test_a_cap_a_person_added_covers_a_unit_that_had_none():
    changes = {SHARED: CapChange(cap=SHARED, limit=7)}
    assert [charge.cap for charge in asked(BudgetState(changes=changes), caps=[])] == [SHARED]


def test_windows_are_those_of_the_later_time():
    midnight = datetime(2026, 2, 8, tzinfo=UTC)
    standing = BudgetState(latest=midnight + timedelta(minutes=1))
    [charge] = asked(standing, now=midnight - timedelta(minutes=1))
    assert charge.ends_at == midnight + 24 * HOUR


def test_a_clock_that_went_back_is_refused_before_a_stop_is_mentioned():
    standing = BudgetState(latest=NOW + HOUR, stops={"": "all"})
    assert asked(standing).reason == "CLOCK_WENT_BACK"
    assert asked(replace(standing, latest=NOW)).reason == "STOPPED"


def test_a_unit_without_a_cap_is_an_error_whatever_else_stands():
    with pytest.raises(ConfigError, match="no cap covers credits"):
        asked(BudgetState(latest=NOW + HOUR, stops={"": "all"}), caps=[])


@pytest.mark.parametrize(
    ("stops", "sentence"),
    [
        ({}, None),
        ({"apollo": "other"}, None),
        ({"lusha": "a bill came"}, "lusha is stopped: a bill came"),
        ({"": "enough"}, "spending is stopped: enough"),
        ({"": "enough", "lusha": "a bill came"}, "spending is stopped: enough"),
        ({"lusha": ""}, "lusha is stopped: no reason was given"),
    ],
)
def test_a_stop_of_the_connector_or_of_all_refuses(stops, sentence):
    refused = find_stop_refusal("lusha", stops)
    assert refused == (sentence and Refusal(reason="STOPPED", message=sentence))


def test_a_key_comes_with_one_fingerprint_for_ever():
    hold = build_reservation(WANTED, (), owner="me", until=NOW, now=NOW)
    assert check_repeat(hold, WANTED) is hold
    with pytest.raises(ConflictError, match="k was used for another request"):
        check_repeat(hold, replace(WANTED, amounts={"credits": 11}))


def test_names_are_as_long_as_every_database_can_find_them_by():
    assert validate_name("x" * 500, what="a name") == "x" * 500
    assert validate_name("", what="a name") == ""
    with pytest.raises(PermanentError, match="a name is longer than 500"):
        validate_name("x" * 501, what="a name")
    with pytest.raises(PermanentError, match="a name cannot be kept"):
        validate_name("a\0b", what="a name")


def test_an_owner_is_somebody():
    assert validate_owner("me") == "me"
    with pytest.raises(ConfigError, match="needs an owner"):
        validate_owner("")
    with pytest.raises(PermanentError, match="an owner is longer"):
        validate_owner("x" * 501)


def test_a_request_is_kept_with_run_and_account_of_a_length_to_find_them_by():
    fits = replace(WANTED, run="x" * 500, account="x" * 500)
    assert validate_request(fits) is fits
    assert validate_request(WANTED) is WANTED
    with pytest.raises(PermanentError, match="a run's name is longer"):
        validate_request(replace(WANTED, run="x" * 501))
    with pytest.raises(PermanentError, match="an account is longer"):
        validate_request(replace(WANTED, account="x" * 501))


def test_each_kind_of_cap_is_changed_by_whoever_it_belongs_to():
    mine, shared = CapChange(cap=DAILY.id, limit=1), CapChange(cap=SHARED, limit=1)
    assert validate_change(mine, shared=False) == mine
    assert validate_change(shared, shared=True) == shared
    with pytest.raises(ConfigError, match=f"^{SHARED!r} can only be changed by an operator"):
        validate_change(shared, shared=False)
    with pytest.raises(ConfigError, match="can only be changed by its tenant"):
        validate_change(mine, shared=True)
    with pytest.raises(PermanentError, match="a cap is longer"):
        validate_change(CapChange(cap="x" * 501), shared=False)


def test_the_end_of_a_raise_is_kept_in_utc():
    until = NOW.astimezone(timezone(timedelta(hours=8)))
    change = CapChange(cap=DAILY.id, raised_to=5, raised_until=until)
    kept = validate_change(change, shared=False)
    assert kept.raised_until == NOW
    assert kept.raised_until.tzinfo is UTC
    noon = datetime(2026, 2, 7, 12)  # noqa: DTZ001 - a time without a zone is the point
    with pytest.raises(ConfigError, match=r"^raised_until 2026-02-07T12:00:00 has no time zone"):
        validate_change(CapChange(cap=DAILY.id, raised_to=5, raised_until=noon), shared=False)


def test_a_stop_names_a_connector_or_none():
    assert validate_stop("", reason="enough") == ""
    assert validate_stop("lusha") == "lusha"
    with pytest.raises(ConfigError):
        validate_stop("No such!")
    with pytest.raises(PermanentError, match="a reason cannot be kept"):
        validate_stop("lusha", reason="a\0b")
