"""What fits under a cap, and how large a cap would have to be."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.pulls.columns import NO_CAP
from stoker.pulls.planner import OfferQueue, build_sort_keys, fill_cap, find_smallest_cap, get_ids

one = st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from([0, 0, 0, 61, 70, 90]))
queues = st.lists(one, min_size=1, max_size=14)
shares = st.sampled_from([0, 1, 200, 333, 500])


def queue_of(rows, share):
    cost = np.array([row[0] for row in rows], np.int64)
    return OfferQueue(
        cost=cost,
        size=cost + np.array([row[1] for row in rows]),
        waited=np.array([row[2] for row in rows], np.float32),
        share=share,
    )


def fits(queue, cap, place):
    return bool(fill_cap(queue, cap)[0][place])


@given(queues, shares, st.integers(0, 40))
def test_a_cap_is_never_exceeded_and_those_who_waited_take_no_more_than_their_share(
    rows, share, cap
):
    queue = queue_of(rows, share)
    inside, early = fill_cap(queue, cap)
    assert queue.cost[inside].sum() <= cap
    assert queue.cost[early].sum() <= cap * share // 1000
    assert (queue.size[inside] <= cap).all()
    assert (queue.waited[early] > 0).all()


@settings(max_examples=80)
@given(queues, shares, st.integers(0, 30), st.data())
def test_the_smallest_cap_lets_it_fit_and_no_smaller_one_does(rows, share, least, data):
    queue = queue_of(rows, share)
    place = data.draw(st.integers(0, len(rows) - 1))
    for first in (0, least):
        needed = find_smallest_cap(queue, place, least=first)
        assert first <= needed < NO_CAP
        assert fits(queue, needed, place)
        assert not any(fits(queue, cap, place) for cap in range(first, needed))


def test_a_twin_that_adds_up_whoever_stands_ahead_is_caught():
    queue = queue_of([(1, 0, 0), (1, 3, 0), (2, 0, 90), (1, 0, 0)], 500)
    assert queue.cost.sum() == 5
    assert find_smallest_cap(queue, 3) == 5
    assert find_smallest_cap(queue, 1) == 4  # and from 4 on the one who waited comes first
    assert queue.cost[:2].sum() == 2


@given(st.lists(st.floats(0, width=32, exclude_min=True, allow_nan=False), max_size=60))
def test_keys_sort_the_highest_score_first_and_ties_by_id(scores):
    column = np.array(scores, np.float32)
    order = get_ids(np.sort(build_sort_keys(column, np.arange(len(scores)))))
    assert order.tolist() == sorted(range(len(scores)), key=lambda place: (-scores[place], place))
