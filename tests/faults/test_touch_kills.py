"""Hand-overs that are killed, or go on side by side: no touch leaves twice and none is lost."""

import pytest

from faults.touch_kills import killed, side_by_side

pytestmark = pytest.mark.faults
STATES = ["store", "file"]


@pytest.mark.parametrize("state", STATES)
def test_a_hand_over_killed_anywhere_goes_on_and_no_touch_leaves_twice_or_is_lost(
    rng, tmp_path, report, state
):
    tally = killed(rng, 6, tmp_path, state=state)
    report(f"hand-overs killed, touches in a {state} (acknowledged: lines)", tally)

    assert tally.n >= 6
    assert tally.broken == []


@pytest.mark.parametrize("state", STATES)
def test_of_hand_overs_side_by_side_one_works_and_the_others_say_so(tmp_path, report, state):
    tally = side_by_side(tmp_path, state=state, rounds=1)
    report(f"hand-overs side by side, touches in a {state} (acknowledged: lines)", tally)

    assert tally.broken == []


@pytest.mark.parametrize(("twin", "says"), [("written first", "was lost"), ("blind", " times")])
def test_who_writes_down_first_or_does_not_look_back_is_caught(rng, tmp_path, twin, says):
    broken = []
    for nth in range(5):  # on a busy machine a kill may miss the moment
        (tmp_path / str(nth)).mkdir()
        broken += killed(rng, 2, tmp_path / str(nth), state="store", twin=twin).broken
        if any(says in each for each in broken):
            break
    assert any(says in each for each in broken)
