"""The make-believe ZeroBounce over raw HTTP: the fixed table, batches, credits, the block."""

from collections import Counter

import pytest

from running_box import RunningBox

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


def test_people_of_the_world_are_mostly_valid_and_unknown_is_never_charged(box):
    emails = people(box, 500)
    seen = Counter()
    for at in range(0, 500, 100):
        told = batch(box, *emails[at : at + 100]).parse_json()
        seen.update(one["status"] for one in told["email_batch"])

    assert seen["valid"] > 400
    assert seen["unknown"]
    assert charged(box) == 500 - seen["unknown"]


def test_the_block_ends(box):
    box.faults.set_value("zerobounce.calls", 0)
    box.faults.set_value("zerobounce.window", "0s")  # every window is over at once

    assert [batch(box, "valid@example.com").status for _ in range(12)] == [200] * 12
