from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.clock import CLOCK_TOLERANCE
from stoker.base.errors import ConfigError
from stoker.budgets.caps import MAX_AMOUNT, Cap, CapChange, Scope
from stoker.budgets.charges import (
    Charge,
    Refusal,
    SpendRequest,
    Totals,
    cap_applies,
    compute_overlap,
    find_clock_refusal,
    find_refusal,
    get_reset_rule,
    list_charges,
)
from stoker.budgets.windows import BudgetWindow, ResetRule, WindowKind, compute_window

NOW = datetime(2026, 11, 16, 2, tzinfo=UTC)
RULE = ResetRule("Asia/Singapore", time(6, 30))
TICK = timedelta.resolution

OWN = Cap(
    scope=Scope.TENANT_CONNECTOR,
    connector="lusha",
    unit="credits",
    window=WindowKind.DAY,
    limit=10,
)
ALL = Cap(scope=Scope.TENANT, unit="money:USD", window=WindowKind.WEEK, limit=500)
SHARED = Cap(
    scope=Scope.CONNECTOR, connector="lusha", unit="credits", window=WindowKind.DAY, limit=90
)
PER_RUN = Cap(scope=Scope.TENANT, unit="credits", window=WindowKind.RUN, limit=7)
CAPS = [OWN, ALL, SHARED, PER_RUN]


def request(**said):
    return SpendRequest(**{"key": "k1", "connector": "lusha", "amounts": {"credits": 3}, **said})


def charged(asked, caps, changes=(), *, now=NOW, reset=RULE):
    return list_charges(asked, caps, {one.cap: one for one in changes}, reset=reset, now=now)


def charge(**said):
    return Charge(
        **{
            "cap": OWN.id,
            "shared": False,
            "window": "day 1",
            "amount": 3,
            "limit": 10,
            "ends_at": NOW + timedelta(hours=5),
            "reason": OWN.reason,
            **said,
        }
    )


def test_a_request_is_charged_to_every_cap_it_falls_under_shared_ones_first():
    wanted = charged(request(amounts={"credits": 3, "money:USD": 200}, run="r"), CAPS)

    assert [(one.cap, one.amount) for one in wanted] == [
        (SHARED.id, 3),
        (PER_RUN.id, 3),
        (ALL.id, 200),
        (OWN.id, 3),
    ]


@given(st.permutations(CAPS))
def test_everybody_charges_in_the_same_order(caps):
    asked = request(amounts={"credits": 1, "money:USD": 1}, run="r")

    assert charged(asked, caps) == charged(asked, CAPS)


def test_a_charge_carries_its_window_its_limit_and_the_code_of_its_refusal():
    [found] = charged(request(), [OWN])
    window = compute_window(WindowKind.DAY, NOW, reset=RULE)

    assert found == Charge(
        cap=OWN.id,
        shared=False,
        window=window.name,
        amount=3,
        limit=10,
        ends_at=window.end,
        reason="CAP_CONNECTOR_DAY",
    )


def test_a_shared_cap_begins_at_one_moment_for_tenants_of_all_zones():
    [here] = charged(request(), [SHARED], reset=RULE)
    [there] = charged(request(), [SHARED], reset=ResetRule("America/New_York"))

    assert here == there
    assert here.shared
    assert here.ends_at == NOW.replace(hour=0) + timedelta(days=1)
    assert (get_reset_rule(SHARED, RULE), get_reset_rule(OWN, RULE)) == (ResetRule(), RULE)


def test_a_cap_of_another_connector_or_unit_is_not_charged():
    other = replace(OWN, connector="apollo")
    tokens = replace(OWN, unit="tokens")

    assert [one.cap for one in charged(request(), [other, tokens, OWN])] == [OWN.id]


def test_what_was_said_about_a_cap_is_its_limit():
    said = [CapChange(cap=OWN.id, limit=4), CapChange(cap=SHARED.id, limit=5)]

    assert [one.limit for one in charged(request(), [OWN, SHARED], said)] == [5, 4]


@pytest.mark.parametrize("caps", [[], [replace(OWN, connector="apollo")], [ALL]])
def test_what_nobody_has_limited_may_not_be_spent(caps):
    with pytest.raises(
        ConfigError,
        match=r"^k1: no cap covers credits of lusha; set one with: "
        r"stoker caps set tenant_connector/lusha/credits/day LIMIT$",
    ):
        charged(request(), caps)


def test_one_unit_without_a_cap_is_enough_for_a_refusal():
    with pytest.raises(ConfigError, match="no cap covers tokens"):
        charged(request(amounts={"credits": 1, "tokens": 1}), [OWN])


def test_a_cap_given_twice_is_refused():
    with pytest.raises(ConfigError, match=f"{OWN.id} is set twice; keep one"):
        charged(request(), [OWN, replace(OWN, limit=99)])


def test_a_cap_per_run_wants_to_know_the_run():
    with pytest.raises(ConfigError, match="name the run"):
        charged(request(), [PER_RUN])


def test_a_request_for_nothing_of_a_unit_is_still_charged_to_its_caps():
    assert [one.amount for one in charged(request(amounts={"credits": 0}), [OWN])] == [0]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"key": ""}, "a key is 1 to 500 printable"),
        ({"key": "k" * 501}, "a key is 1 to 500 printable characters, not 'kkk"),
        ({"key": "two\nlines"}, "a key is 1 to 500 printable"),
        ({"key": "\ud800"}, "a key is 1 to 500 printable"),
        ({"connector": "no connector"}, "is no connector"),
        ({"amounts": {}}, "k1 requests nothing; give an amount and its unit"),
        ({"amounts": {"pounds": 1}}, "'pounds' is no unit"),
        ({"amounts": {"credits": -1}}, "k1: the amount of credits is -1"),
        ({"amounts": {"credits": MAX_AMOUNT + 1}}, "k1: the amount of credits"),
        ({"amounts": {"calls": 1, "credits": 1.5}}, "k1: the amount of credits is 1.5"),
        ({"run": "a\0"}, "its run or account"),
        ({"account": "\udfff"}, "its run or account"),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused(said, problem):
    with pytest.raises(ConfigError, match=problem):
        request(**said)


def test_a_long_key_is_good_and_a_bad_one_is_not_repeated_whole():
    assert [len(request(key="k" * length).key) for length in (1, 500)] == [1, 500]
    with pytest.raises(ConfigError) as refused:
        request(key="k" * 9000)
    assert len(str(refused.value)) < 200


SAID = [
    {},
    {"connector": "apollo"},
    {"amounts": {"credits": 4}},
    {"amounts": {"credits": 3, "calls": 0}},
    {"run": "r"},
    {"account": "r"},
    {"sends_at_once": False},
]


def test_other_inputs_have_another_fingerprint():
    prints = [request(**said).fingerprint for said in SAID]

    assert len(set(prints)) == len(SAID)
    assert {len(one) for one in prints} == {32}


def test_the_key_and_the_order_of_amounts_do_not_matter_to_a_fingerprint():
    orders = permutations([("credits", 1), ("calls", 2), ("money:USD", 3)])

    assert (
        len({request(key=f"k{n}", amounts=dict(o)).fingerprint for n, o in enumerate(orders)}) == 1
    )


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_request_fits_exactly_when_all_that_is_given_away_stays_within_the_limit(
    settled, reserved, amount, limit
):
    wanted = charge(amount=amount, limit=limit)
    used = {(wanted.cap, wanted.window): Totals(settled=settled, reserved=reserved)}

    refused = find_refusal([wanted], used)

    assert (refused is None) == (settled + reserved + amount <= limit)


def test_a_refusal_says_which_cap_how_full_it_is_and_when_it_resets():
    refused = find_refusal([charge()], {(OWN.id, "day 1"): Totals(settled=5, reserved=3)})

    assert refused.reason == "CAP_CONNECTOR_DAY"
    assert refused.message == "tenant_connector/lusha/credits/day has 2 of 10 left, 3 needed"
    assert (refused.cap, refused.used, refused.limit) == (OWN.id, 8, 10)
    assert refused.resets_at == NOW + timedelta(hours=5)


def test_a_cap_that_is_overrun_has_nothing_left_not_less():
    refused = find_refusal([charge()], {(OWN.id, "day 1"): Totals(settled=15)})

    assert "has 0 of 10 left" in refused.message
    assert refused.used == 15


def test_the_first_request_larger_than_the_cap_is_refused():
    assert "10 of 10 left, 11 needed" in find_refusal([charge(amount=11)], {}).message
    assert find_refusal([charge(amount=10)], {}) is None


def test_what_other_windows_and_caps_gave_away_does_not_matter():
    used = {(OWN.id, "day 0"): Totals(settled=10), (ALL.id, "day 1"): Totals(settled=10)}

    assert find_refusal([charge()], used) is None


def test_every_cap_is_asked_and_the_first_without_room_answers():
    full = {(cap, "day 1"): Totals(settled=10) for cap in ("b", "c")}
    wanted = [charge(cap=cap) for cap in ("a", "b", "c")]

    assert find_refusal(wanted, full).cap == "b"
    assert find_refusal([], full) is None


def test_a_shared_cap_tells_no_numbers_of_the_others():
    shared = charge(cap=SHARED.id, shared=True, reason=SHARED.reason, limit=7777)
    refused = find_refusal([shared], {(SHARED.id, "day 1"): Totals(settled=5555, reserved=2222)})

    assert refused.message == "connector/lusha/credits/day has not enough left, 3 needed"
    assert (refused.used, refused.limit) == (0, 0)
    assert refused.reason == "CAP_SHARED_DAY"
    assert refused.resets_at == shared.ends_at


def hours(start, end):
    first, hour = datetime(2026, 11, 16, tzinfo=UTC), timedelta(hours=1)
    return BudgetWindow(f"{start}-{end}", first + start * hour, first + end * hour)


def test_what_overlapping_windows_gave_by_themselves_is_carried_over():
    own = Totals(settled=1, reserved=2)
    others = [
        (hours(0, 4), Totals(settled=5, reserved=2)),
        (hours(4, 8), Totals(settled=1, reserved=9)),
    ]

    assert compute_overlap(own, []) == Totals()
    assert compute_overlap(own, others[:1]) == Totals(settled=4)
    assert compute_overlap(own, others) == Totals(settled=4, reserved=7)
    assert compute_overlap(own, others[::-1]) == Totals(settled=4, reserved=7)


def test_of_windows_that_overlap_each_other_the_fullest_is_carried_over():
    together = [
        (hours(0, 4), Totals(settled=3)),
        (hours(3, 6), Totals(settled=4)),
        (hours(4, 8), Totals(reserved=2)),
    ]

    assert compute_overlap(Totals(), together[:2]) == Totals(settled=4)
    assert compute_overlap(Totals(), together) == Totals(settled=3, reserved=2)


def test_what_is_charged_here_counts_once_though_it_is_in_the_others_too():
    own = Totals(settled=4, reserved=4)

    assert compute_overlap(own, [(hours(0, 4), Totals(settled=1, reserved=9))]) == Totals(
        reserved=5
    )
    assert compute_overlap(own, [(hours(0, 4), own), (hours(4, 6), own)]) == Totals()


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(0, 9)), max_size=7),
    st.integers(0, 5),
)
def test_the_most_that_windows_apart_add_up_to_is_carried_over(found, here):
    others = [(hours(start, start + length), Totals(settled=used)) for start, length, used in found]
    sums = [
        sum(max(used.settled - here, 0) for _, used in some)
        for count in range(len(others) + 1)
        for some in combinations(others, count)
        if not any(one.overlaps(other) for (one, _), (other, _) in combinations(some, 2))
    ]

    assert compute_overlap(Totals(settled=here), others).total == max(sums)


NEW = ResetRule("Asia/Singapore", time(12, 0))


def test_a_request_is_charged_to_every_window_that_overlaps_and_what_they_gave_counts():
    [here] = charged(request(), [OWN])
    there = compute_window(WindowKind.DAY, NOW, reset=NEW)
    opened = {(OWN.id, here.window): Totals(settled=4, reserved=3), (ALL.id, there.name): Totals()}
    wanted = list_charges(request(), [OWN], {}, reset=NEW, now=NOW, opened=opened)

    assert [(one.window, one.overlap_amount, one.ends_at) for one in wanted] == [
        (there.name, 7, there.end),
        (here.window, 0, there.end),
    ]
    refused = find_refusal([replace(one, amount=4) for one in wanted], opened)
    assert (refused.used, refused.limit) == (7, 10)
    assert "3 of 10 left" in refused.message
    assert find_refusal(wanted, opened) is None


def test_windows_before_and_after_are_not_charged():
    window = compute_window(WindowKind.DAY, NOW, reset=RULE)
    around = [
        compute_window(WindowKind.DAY, at, reset=RULE).name
        for at in (window.start - TICK, window.end)
    ]
    opened = {(OWN.id, name): Totals(settled=10) for name in (*around, window.name)}

    [only] = list_charges(request(), [OWN], {}, reset=RULE, now=NOW, opened=opened)
    assert (only.window, only.overlap_amount) == (window.name, 0)


def test_shared_caps_and_caps_per_run_have_no_windows_that_overlap():
    names = [
        compute_window(WindowKind.DAY, NOW, reset=rule).name for rule in (RULE, NEW, ResetRule())
    ]
    opened = {(cap.id, name): Totals(settled=1) for cap in (SHARED, PER_RUN) for name in names}

    wanted = list_charges(
        request(run="r"), [SHARED, PER_RUN], {}, reset=RULE, now=NOW, opened=opened
    )
    assert [(one.cap, one.overlap_amount) for one in wanted] == [(SHARED.id, 0), (PER_RUN.id, 0)]


def test_what_was_carried_over_does_not_make_it_another_charge():
    assert charge(overlap_amount=3) == charge()


def test_a_cap_counts_for_its_unit_and_its_connector_or_all():
    assert cap_applies(OWN, request())
    assert cap_applies(PER_RUN, request(connector="apollo"))
    assert not cap_applies(OWN, request(connector="apollo"))
    assert not cap_applies(ALL, request())


@given(st.data())
def test_however_the_rule_changes_two_windows_that_overlap_give_no_more_than_the_limit(data):
    now, kept, given_in = NOW, {}, []
    rules = [RULE, NEW, ResetRule(), ResetRule("America/New_York", time(17, 45))]
    for number in range(data.draw(st.integers(1, 12))):
        now += data.draw(st.timedeltas(timedelta(0), timedelta(hours=9)))
        rule = data.draw(st.sampled_from(rules))
        asked = request(key=f"k{number}", amounts={"credits": data.draw(st.integers(0, 10))})
        wanted = list_charges(asked, [OWN], {}, reset=rule, now=now, opened=kept)
        if find_refusal(wanted, kept) is None:
            for one in wanted:
                there = kept.get((one.cap, one.window), Totals())
                kept[one.cap, one.window] = Totals(reserved=there.reserved + one.amount)
            window = compute_window(WindowKind.DAY, now, reset=rule)
            given_in.append((window, asked.amounts["credits"]))
        for one, _ in given_in:
            for other, _ in given_in:
                both = [amount for window, amount in given_in if window in (one, other)]
                assert not one.overlaps(other) or sum(both) <= OWN.limit


@given(
    st.integers(0, 10), st.integers(0, 10), st.integers(0, 10), st.sampled_from([NEW, ResetRule()])
)
def test_after_a_change_all_that_was_given_away_in_windows_that_overlap_counts(
    yesterday, today, more, rule
):
    window = compute_window(WindowKind.DAY, NOW, reset=rule)
    before = [
        compute_window(WindowKind.DAY, at, reset=RULE) for at in (window.start, window.end - TICK)
    ]
    opened = {
        (OWN.id, one.name): Totals(settled=amount)
        for one, amount in zip(before, (yesterday, today), strict=True)
    }
    wanted = list_charges(
        request(amounts={"credits": more}), [OWN], {}, reset=rule, now=NOW, opened=opened
    )

    assert (find_refusal(wanted, opened) is None) == (yesterday + today + more <= OWN.limit)


def test_a_refusal_that_is_no_caps_doing_tells_of_none():
    refused = Refusal(reason="STOPPED", message="stopped")

    assert (refused.cap, refused.used, refused.limit, refused.resets_at) == ("", 0, 0, None)


def test_what_is_used_is_spent_and_promised_together():
    assert Totals(settled=3, reserved=4).total == 7
    assert Totals().total == 0


def test_a_clock_that_went_back_is_refused_until_it_catches_up():
    latest = NOW
    behind = latest - CLOCK_TOLERANCE - TICK

    refused = find_clock_refusal(behind, latest=latest)

    assert refused.reason == "CLOCK_WENT_BACK"
    assert refused.resets_at == latest
    assert refused.message == (
        "the clock says 2026-11-16 01:54:59 UTC, but 2026-11-16 02:00:00 was already recorded; "
        "set the clock, then try again"
    )


@pytest.mark.parametrize(
    "now", [NOW - CLOCK_TOLERANCE, NOW - TICK, NOW, NOW + TICK, NOW + timedelta(days=1)]
)
def test_a_difference_that_honest_clocks_have_is_let_pass(now):
    assert find_clock_refusal(now, latest=NOW) is None


def test_honest_clocks_differ_by_at_most_five_minutes():
    assert timedelta(minutes=5) == CLOCK_TOLERANCE


def test_with_nothing_written_down_every_clock_is_right():
    assert find_clock_refusal(NOW, latest=None) is None
