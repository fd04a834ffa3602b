from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.rate_limits.rate_limit import DeficitRoundRobin

costs = st.integers(0, 12)
backlogs = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(costs, min_size=1, max_size=12), min_size=1
)
weights = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 4))
quanta = st.integers(1, 15)


def waiting(backlog, **rules):
    """A round robin with this work in it: each piece says whose it is, its place and its cost."""
    turns = DeficitRoundRobin(**rules)
    longest = max(map(len, backlog.values()))
    for place in range(longest):
        for who, line in backlog.items():
            if place < len(line):
                turns.put(who, (who, place, line[place]), cost=line[place])
    return turns


def taken(turns, count=None):
    """What comes out, until nothing waits or this many came."""
    out = []
    while len(out) != count and (got := turns.take()) is not None:
        out.append(got)
    return out


def jain(shares):
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


def spent(out):
    total = Counter()
    for who, (_, _, cost) in out:
        total[who] += cost
    return total


@given(backlogs, quanta)
def test_while_any_work_waits_some_goes_and_its_number_is_known(backlog, quantum):
    turns = waiting(backlog, quantum=quantum)

    for left in range(len(turns), 0, -1):
        assert len(turns) == left
        assert turns.take() is not None
    assert len(turns) == 0
    assert turns.take() is None


@given(backlogs, quanta, weights, st.integers(0, 40))
def test_a_newcomer_waits_for_one_round_of_the_others_at_most(backlog, quantum, weights, before):
    """Each of them spends its round and what it had kept, which is less than a piece."""
    turns = waiting(backlog, quantum=quantum, weights=weights)
    taken(turns, before)
    turns.put("new", ("new", 0, quantum), cost=quantum)

    ahead = Counter()
    while (got := turns.take())[0] != "new":
        ahead[got[0]] += max(got[1][2], 1)

    for who, cost in ahead.items():
        largest = max(max(backlog[who]), 1)
        assert cost <= quantum * weights.get(who, 1) + largest - 1


@pytest.mark.parametrize("skew", [1, 10, 100])
def test_ten_tenants_of_very_different_demand_get_equal_shares_of_a_full_key(skew):
    """Jain's index by cost: 1 is the same for everybody, 1/n is all to one."""
    backlog = {f"t{n}": [1 + (n + place) % 3 for place in range(300)] for n in range(9)}
    backlog["greedy"] = [3] * 300 * skew
    turns = waiting(backlog, quantum=3)

    total = spent(taken(turns, 2000))

    assert len(total) == 10
    assert jain(list(total.values())) >= 0.99


def test_nothing_is_saved_up_while_nobody_waits():
    turns = DeficitRoundRobin(quantum=10)
    turns.put("a", 0, cost=1)
    assert turns.take() == ("a", 0)
    for place in range(20):
        turns.put("a", place, cost=1)
        turns.put("b", place, cost=1)

    assert "".join(who for who, _ in taken(turns, 21)) == "a" * 10 + "b" * 10 + "a"


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.lists(st.integers(0, 60), min_size=1, max_size=5), min_size=1
    ),
    st.integers(1, 3),
    weights,
)
def test_rounds_skipped_at_once_end_as_if_gone_through_one_by_one(backlog, quantum, weights):
    """Against the plainest round robin there is, which walks through every idle round."""
    lines = {who: deque(line) for who, line in backlog.items()}
    order, deficit, expected = list(lines), dict.fromkeys(lines, 0), []
    while any(lines.values()):
        for who in order:
            deficit[who] += quantum * weights.get(who, 1)
            while lines[who] and max(lines[who][0], 1) <= deficit[who]:
                deficit[who] -= max(lines[who].popleft(), 1)
                expected.append(who)
            if not lines[who]:
                deficit[who] = -(10**9)

    out = taken(waiting(backlog, quantum=quantum, weights=weights))

    assert [who for who, _ in out] == expected


def test_very_dear_work_goes_without_a_walk_through_all_its_rounds():
    turns = DeficitRoundRobin(quantum=1)
    turns.put("a", "x", cost=10**15)
    turns.put("b", "y", cost=10**15 - 1)

    assert taken(turns) == [("b", "y"), ("a", "x")]


def test_work_that_is_dropped_does_not_come_out():
    turns = DeficitRoundRobin(quantum=1)
    one, two, three = object(), object(), object()
    for what in (one, two, three):
        turns.put("a", what, cost=1)

    assert turns.drop("a", two) is True
    assert turns.drop("a", two) is False
    assert turns.drop("b", one) is False
    assert [what for _, what in taken(turns)] == [one, three]
    assert not turns.drop("a", one)


def test_only_the_very_piece_is_dropped_not_one_like_it():
    turns = DeficitRoundRobin(quantum=1)
    one, twin = [1], [1]
    turns.put("a", one, cost=1)
    turns.put("a", twin, cost=1)

    assert turns.drop("a", twin)
    assert turns.take()[1] is one


@pytest.mark.parametrize("who", ["a", "b"])
def test_a_tenant_whose_last_work_is_dropped_leaves_the_round(who):
    turns = DeficitRoundRobin(quantum=2)
    work = {name: [object() for _ in range(4)] for name in "abc"}
    for name, pieces in work.items():
        for what in pieces:
            turns.put(name, what, cost=1)
    assert turns.take()[0] == "a"  # which has one more to spend in this round

    for what in work[who]:
        turns.drop(who, what)

    left = "bbccbbcc" if who == "a" else "accaac" + "c"
    assert "".join(name for name, _ in taken(turns)) == left
    assert len(turns) == 0


def test_dropping_and_coming_back_gains_nothing():
    turns = DeficitRoundRobin(quantum=2)
    what = object()
    turns.put("a", what, cost=1)
    turns.put("a", "rest", cost=1)
    turns.put("b", 0, cost=1)
    turns.take()
    turns.drop("a", "rest")
    turns.put("a", "again", cost=1)

    assert [who for who, _ in taken(turns)] == ["b", "a"]


@pytest.mark.parametrize("quantum", [0, -1])
def test_a_round_gives_at_least_one(quantum):
    with pytest.raises(ConfigError, match=f"a quantum is at least 1, not {quantum}"):
        DeficitRoundRobin(quantum=quantum)
    assert len(DeficitRoundRobin(quantum=1)) == 0


@pytest.mark.parametrize("weight", [0, -1])
def test_a_tenant_weighs_at_least_one(weight):
    with pytest.raises(ConfigError, match="weight is at least 1"):
        DeficitRoundRobin(quantum=1, weights={"a": 1, "b": weight})


def test_work_never_costs_less_than_nothing():
    with pytest.raises(ConfigError, match="work costs 0 or more, not -1"):
        DeficitRoundRobin(quantum=1).put("a", "x", cost=-1)
