"""The make-believe ZeroBounce over raw HTTP: the fixed table, batches, credits, the block."""

from collections import Counter

import pytest

from running_box import RunningBox
from stoker.sandbox.vendors.zerobounce import TEST_TABLE, find_verdict

KEY = "zb-key-12345"


@pytest.fixture
def box():
    with RunningBox(companies=300, dials={"zerobounce.calls": -1}) as running:
        yield running


def batch(box, *emails, **more):
    body = {
        "api_key": KEY,
        "email_batch": [{"email_address": email, "ip_address": ""} for email in emails],
        **more,
    }
    return box.ask("zerobounce.test", "POST", "/v2/validatebatch", body)


def charged(box):
    return box.box.charges.get("zerobounce", {}).get("credits", 0)


def people(box, many):
    return [person.email for at in range(300) for person in box.world.get_company(at).people][:many]


def test_the_fixed_addresses_are_answered_from_the_vendors_table_for_nothing(box):
    told = batch(box, *(f"{name}@example.com" for name in TEST_TABLE)).parse_json()
    by_name = {one["account"]: one for one in told["email_batch"]}

    assert len(TEST_TABLE) == 33
    assert by_name["valid"]["status"] == "valid"
    assert by_name["invalid"]["status"] == "invalid"
    assert by_name["catch_all"]["status"] == "catch-all"
    assert by_name["spamtrap"]["status"] == "spamtrap"
    assert by_name["abuse"]["status"] == "abuse"
    assert by_name["unknown"]["status"] == "unknown"
    assert by_name["donotmail"]["status"] == "do_not_mail"
    assert (by_name["disposable"]["status"], by_name["disposable"]["sub_status"]) == (
        "do_not_mail",
        "disposable",
    )
    assert by_name["greylisted"]["sub_status"] == "greylisted"
    assert by_name["timeout_exceeded"]["sub_status"] == "timeout_exceeded"
    assert charged(box) == 0


def test_people_of_the_world_are_mostly_valid_and_unknown_is_never_charged(box):
    emails = people(box, 500)
    seen = Counter()
    for at in range(0, 500, 100):
        told = batch(box, *emails[at : at + 100]).parse_json()
        seen.update(one["status"] for one in told["email_batch"])

    assert seen["valid"] > 400
    assert seen["unknown"]
    assert charged(box) == 500 - seen["unknown"]


def test_letters_in_upper_case_make_no_difference(box):
    email = people(box, 1)[0]
    (verdict,) = batch(box, email).parse_json()["email_batch"]

    assert verdict["status"] == find_verdict(box.world, email.upper()).status
    assert find_verdict(box.world, "nobody@nowhere.test").sub_status == "no_dns_entries"
    assert find_verdict(box.world, "no address").sub_status == "failed_syntax_check"


def test_a_timeout_that_is_a_number_is_answered_as_a_wrong_key(box):
    wrong = batch(box, "a@b.test", timeout=10)
    right = batch(box, "valid@example.com", timeout="10")

    assert wrong.status == 200
    assert wrong.parse_json()["email_batch"] == []
    assert "Invalid API" in wrong.parse_json()["errors"][0]["error"]
    assert right.parse_json()["errors"] == []


def test_more_than_a_hundred_at_once_are_refused_whole(box):
    told = batch(box, *["valid@example.com"] * 101).parse_json()

    assert told["email_batch"] == []
    assert told["errors"][0]["email_address"] == "all"


def test_an_item_that_is_no_address_is_an_error_beside_the_others(box):
    body = {"api_key": KEY, "email_batch": [{"email_address": "valid@example.com"}, {"x": 1}, 5]}
    told = box.ask("zerobounce.test", "POST", "/v2/validatebatch", body).parse_json()

    assert len(told["email_batch"]) == 1
    assert len(told["errors"]) == 2


def test_credits_are_told_and_a_wrong_key_has_minus_one():
    with RunningBox(companies=300, dials={"zerobounce.credits": 10}) as box:
        asked = box.ask("zerobounce.test", "GET", f"/v2/getcredits?api_key={KEY}")
        wrong = box.ask("zerobounce.test", "GET", "/v2/getcredits?api_key=zb-wrong")
        too_many = batch(box, *people(box, 11))

        assert asked.parse_json() == {"Credits": "10"}
        assert wrong.parse_json() == {"Credits": "-1"}
        assert too_many.parse_json()["email_batch"] == []
        assert charged(box) == 0


def test_the_sixth_batch_in_a_window_is_blocked_and_so_is_everything_for_ten_windows():
    with RunningBox(companies=1, dials={"zerobounce.window": "600s"}) as box:
        told = [batch(box, "valid@example.com").status for _ in range(8)]
        credits_left = box.ask("zerobounce.test", "GET", f"/v2/getcredits?api_key={KEY}")

    assert told == [200] * 5 + [429] * 3
    assert credits_left.status == 200


def test_the_block_ends(box):
    box.faults.set_value("zerobounce.calls", 0)
    box.faults.set_value("zerobounce.window", "0s")  # every window is over at once

    assert [batch(box, "valid@example.com").status for _ in range(12)] == [200] * 12
