"""What earlier nights took, and how much of it is believed."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.companies import CompanyId
from stoker.core.expectations import room
from stoker.core.experience import A_NIGHT_COUNTS, taken
from stoker.core.forecast import Expected, Room, learned, quote
from stoker.core.nights import Depth, Unit

DEEP, SHALLOW = Depth.DEEP, Depth.SHALLOW
NEED = Expected(connector="lusha", calls=0.6, cost={"calls": 1, "credits": 1})
BATCH = Expected(connector="zerobounce", calls=0.8, cost={"calls": 100}, per_call=100)


def night(looks, *, depth=DEEP, **cost):
    """So many looks, of which each took this much, as `connector_unit`."""
    named = {name.replace("_", "/"): amount for name, amount in cost.items()}
    return [
        Unit(company=CompanyId(f"c{place}"), place=place, depth=depth, cost=named)
        for place in range(looks)
    ]


def test_each_night_has_its_average_and_an_odd_one_changes_little():
    nights = [
        night(10, zerobounce_calls=2),
        night(500, zerobounce_calls=90),
        night(30, zerobounce_calls=3) + night(5, depth=SHALLOW, tavily_calls=7),
    ]
    of = taken(nights, "zerobounce")
    assert of[DEEP].per_look == {"calls": 3}
    assert (of[DEEP].nights, of[DEEP].evidence) == (3, 10 + A_NIGHT_COUNTS + 30)
    assert (of[SHALLOW].nights, of[SHALLOW].per_look) == (1, {})


def test_without_a_look_of_a_depth_nothing_is_told_of_it():
    assert taken([], "lusha") == {}
    assert list(taken([night(1, lusha_calls=1)], "lusha")) == [DEEP]


def needed(need, nights):
    rooms = {need.connector: Room(took=taken(nights, need.connector))}
    return learned({DEEP: [need]}, rooms)


def test_without_history_what_was_expected_stays():
    assert needed(NEED, []) == {DEEP: [NEED]}
    assert quote({DEEP: 10}, {DEEP: [NEED]}, {}, at_once=1).nights == 0


def test_one_night_is_believed_in_part_and_more_nights_more():
    seen = []
    for nights in range(6):
        [need] = needed(NEED, [night(60, lusha_calls=3, lusha_credits=6)] * nights)[DEEP]
        seen.append(need.calls)
    assert seen == sorted(seen)
    assert 0.6 < seen[1] < 0.9 * 3 < seen[5] < 3
    assert 1 < need.cost["credits"] < 2 * need.cost["calls"]


def test_what_looks_never_take_is_soon_hardly_expected():
    [need] = needed(NEED, [night(60)] * 3)[DEEP]
    assert 0 < need.calls < 0.1


def test_a_batch_is_learned_in_what_it_holds():
    [need] = needed(BATCH, [night(300, zerobounce_calls=2)] * 5)[DEEP]
    assert 1.9 < need.calls < 2
    assert need.cost == {"calls": 100}
    told = quote({DEEP: 50}, {DEEP: [need]}, {"zerobounce": Room(per_minute=5)}, at_once=8)
    assert 95 < told.calls["zerobounce"] <= told.cost["zerobounce/calls"] <= 100
    assert told.p50.total_seconds() < 60  # a hundred addresses are one call, not a hundred


def test_what_caps_refuse_of_a_batch_is_told_in_what_it_holds():
    rooms = {"zerobounce": Room(calls_left=0.3)}
    told = quote({DEEP: 100}, {DEEP: [BATCH]}, rooms, at_once=8)
    assert round(told.calls["zerobounce"], 6) == 30
    assert round(told.refused["zerobounce"], 6) == 50


def test_a_shallow_look_needs_what_earlier_ones_took_of_those_a_deep_one_asks():
    nights = [night(20, depth=SHALLOW, lusha_calls=1, tavily_calls=1)] * 2
    rooms = {"lusha": Room(took=taken(nights, "lusha"))}
    [need] = learned({SHALLOW: [], DEEP: [NEED]}, rooms)[SHALLOW]
    assert need.connector == "lusha"
    assert 0.5 < need.calls < 1


def test_room_is_reckoned_by_what_a_call_takes():
    nights = [night(60, openai_calls=1, openai_tokens=1000)] * 5
    rough = room("openai", free={"tokens": 60_000}, per_minute=60)
    known = room("openai", free={"tokens": 60_000}, per_minute=60, took=taken(nights, "openai"))
    assert rough.calls_left < known.calls_left < 60


nights_lists = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(list(Depth)), st.integers(0, 9)), max_size=6
)


@given(nights_lists, st.integers(0, 200), st.integers(0, 200))
def test_a_quote_lies_between_what_was_expected_and_what_nights_took(seen, deep, shallow):
    nights = [night(looks, depth=depth, lusha_calls=amount) for looks, depth, amount in seen]
    took = taken(nights, "lusha")
    rooms = {"lusha": Room(took=took)}
    needs = {SHALLOW: [], DEEP: [NEED]}
    told = quote({DEEP: deep, SHALLOW: shallow}, needs, rooms, at_once=1)
    low = high = 0.0
    for depth, looks, prior in ((DEEP, deep, 0.6), (SHALLOW, shallow, 0.0)):
        known = took[depth].per_look.get("calls", 0.0) if depth in took else prior
        low, high = low + looks * min(prior, known), high + looks * max(prior, known)
    assert low - 1e-6 <= told.calls.get("lusha", 0.0) <= high + 1e-6
    assert told == quote({DEEP: deep, SHALLOW: shallow}, needs, rooms, at_once=1)
    assert told.nights == max((each.nights for each in took.values()), default=0)
