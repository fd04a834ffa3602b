"""Vendors that charge and lose the answer, change prices, are asked again: caps and once hold."""

import pytest

from faults.vendor_trials import (
    ask_naively,
    batched,
    dearer,
    dials,
    lied_to,
    night,
    questions,
    replayed,
)

pytestmark = pytest.mark.faults

CALLS = 1_000
CAP = 700


def test_a_thousand_calls_to_a_lying_vendor_stay_within_cap_ledger_and_once(tmp_path, report):
    tally, ends = lied_to(tmp_path, calls=CALLS, cap=CAP)
    report(f"C2 asking a liar, {dict(ends)}", tally)
    assert tally.broken == []
    assert tally.n == CALLS
    assert ends["unknown"] > 100
    assert ends["Refusal"] > 0


async def test_a_naive_twin_pays_twice_goes_over_its_cap_and_does_not_know_the_price(tmp_path):
    async with night(tmp_path, dials("tavily", price_percent=300), limit=CAP) as (here, bill):
        counted = await ask_naively(here, questions(600), cap=250)
        charged = here.charged("tavily")
    assert charged > 250, "a vendor that never charges for lost answers shows nothing"
    assert charged > 3 * counted
    assert bill.twice()


def test_addresses_are_charged_once_however_their_batches_fail_and_meet(tmp_path, report):
    tally, ends = batched(tmp_path, count=1_000)
    report(f"C2 addresses in batches, {dict(ends)}", tally)
    assert tally.broken == []
    assert (
        min(ends["VendorAnswer"], ends["unknown"]) > 100
    )  # either would show little without the other


@pytest.mark.parametrize("percent", [150, 200, 700])
def test_a_dearer_vendor_is_seen_at_once_and_refused_the_next_time(tmp_path, percent, report):
    tally, charged = dearer(tmp_path, percent=percent)
    report(f"C5 a price of {percent} %, charged {charged} of 20", tally)
    assert tally.broken == []
    assert tally.n == 50


def test_a_key_asked_again_later_is_not_charged_again_and_with_other_words_refused(
    tmp_path, report
):
    tally = report("C6 replays", replayed(tmp_path, n=50))
    assert tally.broken == []
    assert (tally.n, tally.acked) == (150, 100)
