from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.runs.leases import SKEW, is_free, released, renewed, taken

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LENGTH = timedelta(seconds=30)
NONE = timedelta(0)


def held(now=NOW, seen=None, owner="one"):
    return taken("upkeep", seen, owner=owner, task="a run", now=now, length=LENGTH)


def free(seen, *, now=NOW, unchanged_for=NONE):
    return is_free(seen, now=now, unchanged_for=unchanged_for, length=LENGTH)


def test_a_lease_nobody_ever_took_is_free():
    assert free(None)


def test_a_lease_given_back_is_free_at_once_and_says_nothing_of_its_last_holder():
    back = released(held(), now=NOW)

    assert free(back)
    assert (back.owner, back.task, back.epoch) == ("", "", 1)


@pytest.mark.parametrize(
    ("after", "is_it"),
    [(NONE, False), (LENGTH, False), (LENGTH + SKEW, True), (2 * LENGTH + SKEW, True)],
)
def test_a_held_lease_is_free_once_its_time_has_come_on_every_honest_clock(after, is_it):
    assert free(held(), now=NOW + after) is is_it


def test_a_holder_that_shows_no_sign_of_life_for_a_whole_length_is_gone_whatever_the_clock_says():
    went_back = NOW - timedelta(hours=1)

    assert not free(held(), now=went_back, unchanged_for=LENGTH - timedelta(milliseconds=1))
    assert free(held(), now=went_back, unchanged_for=LENGTH)


def test_a_sign_of_life_prolongs_the_lease_and_keeps_its_holder_and_epoch():
    lease = renewed(held(), now=NOW + LENGTH / 2, length=LENGTH)

    assert not free(lease, now=NOW + LENGTH)
    assert (lease.owner, lease.epoch, lease.task) == ("one", 1, "a run")


changes = st.lists(st.sampled_from(["take", "renew", "release"]), max_size=20)
drifts = st.integers(-7200, 7200).map(lambda n: timedelta(seconds=n))


@given(changes, st.data())
def test_epochs_rise_with_every_holder_and_beats_with_every_change_however_clocks_jump(steps, data):
    lease = held()
    for step in steps:
        now = NOW + data.draw(drifts)
        before = lease
        if step == "take":
            lease = held(now, seen=lease, owner=data.draw(st.sampled_from(["one", "two"])))
            assert lease.epoch == before.epoch + 1
        elif step == "renew":
            lease = renewed(lease, now=now, length=LENGTH)
            assert (lease.epoch, lease.owner) == (before.epoch, before.owner)
        else:
            lease = released(lease, now=now)
            assert lease.epoch == before.epoch
        assert lease.beat == before.beat + 1
        assert lease != before, "two states of a lease must never be mistaken for one another"
