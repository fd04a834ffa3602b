from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.runs.leases import MAX_CLOCK_SKEW, acquire_lease, is_free, release_lease, renew_lease

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LENGTH = timedelta(seconds=30)
NONE = timedelta(0)


def held(now=NOW, seen=None, owner="one"):
    return acquire_lease("upkeep", seen, owner=owner, task="a run", now=now, length=LENGTH)


def free(seen, *, now=NOW, unchanged_for=NONE):
    return is_free(seen, now=now, unchanged_for=unchanged_for, length=LENGTH)


def test_a_lease_nobody_ever_took_is_free():
    assert free(None)


def test_a_lease_given_back_is_free_at_once_and_says_nothing_of_its_last_holder():
    back = release_lease(held(), now=NOW)

    assert free(back)
    assert (back.owner, back.task, back.fencing_token) == ("", "", 1)


@pytest.mark.parametrize(
    ("after", "is_it"),
    [
        (NONE, False),
        (LENGTH, False),
        (LENGTH + MAX_CLOCK_SKEW, True),
        (2 * LENGTH + MAX_CLOCK_SKEW, True),
    ],
)
def test_a_held_lease_is_free_once_its_time_has_come_on_every_honest_clock(after, is_it):
    assert free(held(), now=NOW + after) is is_it


def test_a_holder_that_shows_no_sign_of_life_for_a_whole_length_is_gone_whatever_the_clock_says():
    went_back = NOW - timedelta(hours=1)

    assert not free(held(), now=went_back, unchanged_for=LENGTH - timedelta(milliseconds=1))
    assert free(held(), now=went_back, unchanged_for=LENGTH)


def test_a_sign_of_life_prolongs_the_lease_and_keeps_its_holder_and_epoch():
    lease = renew_lease(held(), now=NOW + LENGTH / 2, length=LENGTH)

    assert not free(lease, now=NOW + LENGTH)
    assert (lease.owner, lease.fencing_token, lease.task) == ("one", 1, "a run")


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
            assert lease.fencing_token == before.fencing_token + 1
        elif step == "renew":
            lease = renew_lease(lease, now=now, length=LENGTH)
            assert (lease.fencing_token, lease.owner) == (before.fencing_token, before.owner)
        else:
            lease = release_lease(lease, now=now)
            assert lease.fencing_token == before.fencing_token
        assert lease.heartbeat == before.heartbeat + 1
        assert lease != before, "two states of a lease must never be mistaken for one another"
