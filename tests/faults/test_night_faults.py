"""Nights that are killed and gone on with, nights that meet every cap: what is promised of them."""

import pytest

from faults.night_caps import LIMITS, TENANTS, capped
from faults.night_trials import killed, next_night
from faults.night_worker import PULLS

pytestmark = pytest.mark.faults


@pytest.mark.parametrize(("way", "kills"), [("", 5), (PULLS, 4)])
def test_a_run_killed_anywhere_goes_on_pays_nothing_twice_and_ends_as_if_undisturbed(
    rng, tmp_path, report, way, kills
):
    tally = killed(rng, kills, tmp_path, companies=4, way=way)
    report(f"{way or 'nights'} killed (acknowledged: outcomes unknown)", tally)

    assert tally.n >= kills
    assert tally.broken == []


def test_a_night_held_still_until_another_process_is_through_with_it_pays_nothing_more(
    rng, tmp_path, report
):
    tally = killed(rng, 2, tmp_path, companies=4, pauses=True)
    report("nights held still (acknowledged: outcomes unknown)", tally)

    assert tally.broken == []


def test_a_night_that_keeps_no_answers_pays_twice_and_is_caught(rng, tmp_path):
    tally = killed(rng, 30, tmp_path, companies=4, way="forgetful")  # until it is caught
    assert any("paid" in broken for broken in tally.broken)


def test_no_vendor_charges_more_than_a_cap_allows_when_three_tenants_meet_all_of_them_at_once(
    tmp_path, report
):
    tally = report("nights of tenants at every cap", capped(tmp_path, rounds=1))

    assert tally.acked == len(TENANTS) * len(LIMITS), "every cap must have refused a call"
    assert tally.broken == []


def test_checking_first_and_spending_then_goes_above_a_cap_and_is_caught(tmp_path):
    # On a busy machine the tenants' calls may happen to come one after another: it gets five tries.
    rooms = (tmp_path / str(nth) for nth in range(5))
    assert any(capped(room, rounds=1, hasty=True).broken for room in rooms)


def test_the_next_night_asks_hardly_anything_that_was_paid_for_when_nothing_changed(tmp_path):
    first, second, left = next_night(tmp_path, companies=4)
    verified = {asked for vendor, _, asked in second if vendor == "zerobounce"}
    asked_again = sum(times for (_, _, asked), times in second.items() if asked not in left)

    assert first.total() > 8
    assert verified == left, "the addresses of which the first night verified only the best"
    assert asked_again <= first.total() / 10
    assert not first & second, "nothing was paid for twice"
