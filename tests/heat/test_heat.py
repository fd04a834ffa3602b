"""Heat: more is never less, time cools; the order of signals and the way of asking say nothing."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heat_cases import compute_heat
from stoker.accounts.model import CompanyId
from stoker.base.errors import ConfigError, PermanentError
from stoker.heat.heat import (
    add_signal,
    clamp_signal_date,
    compute_heats,
    new_account_heat,
    score_heat,
    score_heats,
    set_posture,
)
from stoker.heat.model import HeatState, Signal, SignalKind, Tier
from stoker.heat.settings import MAX_SIGNALS, HeatSettings

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
RULE = HeatSettings()
ACME = CompanyId("acme")
shares = st.floats(0, 1)
moments = st.integers(0, 10**13).map(lambda ticks: NOW - timedelta(microseconds=ticks))
rules = st.builds(
    HeatSettings,
    posture_weight=st.floats(0, 10),
    recency_weight=st.floats(0.001, 10),
    volume_weight=st.floats(0, 10),
    half_life=st.timedeltas(timedelta(minutes=6), timedelta(days=3000)),
    volume_scale=st.floats(1e-3, 1e6),
)


def signal(at=NOW, strength=1.0, name="s"):
    return Signal(id=name, account=ACME, kind=SignalKind.POSTING, at=at, strength=strength)


signal_lists = st.lists(st.builds(signal, at=moments, strength=shares), max_size=12)


def hot(signals=(), *, posture=0.5, now=NOW, rule=RULE):
    start = new_account_heat(ACME, now=NOW - timedelta(days=400))
    return compute_heat(start, signals, posture=posture, now=now, rule=rule)


@given(signal_lists, st.builds(signal, at=moments, strength=shares), shares, rules)
@example([signal(NOW - timedelta(days=90), 5e-324)], signal(NOW, 5e-324), 0.0, RULE)
@example([signal(NOW - timedelta(days=9000), 1.0)], signal(NOW, 5e-324), 0.0, RULE)
def test_one_more_signal_never_lowers_heat(signals, one, posture, rule):
    before, after = (
        hot(signals, posture=posture, rule=rule),
        hot([*signals, one], posture=posture, rule=rule),
    )
    assert after.score >= before.score
    assert after.tier.rank >= before.tier.rank
    assert after.factors.signal_recency >= before.factors.signal_recency
    assert after.factors.signal_volume >= before.factors.signal_volume


@given(signal_lists, shares, st.data())
def test_a_newer_signal_in_place_of_an_older_never_lowers_heat(signals, strength, data):
    old, new = sorted([data.draw(moments), data.draw(moments)])
    before = hot([*signals, signal(old, strength)])
    after = hot([*signals, signal(new, strength)])
    assert after.score >= before.score or math.isclose(after.score, before.score, rel_tol=1e-12)


@given(signal_lists, shares, shares, rules)
def test_a_higher_posture_never_lowers_heat(signals, one, other, rule):
    low, high = sorted([one, other])
    assert hot(signals, posture=high, rule=rule).score >= hot(signals, posture=low, rule=rule).score


@given(signal_lists, shares, rules, st.integers(0, 10**13))
def test_every_factor_and_the_score_lie_between_0_and_1_and_time_alone_never_heats(
    signals, posture, rule, later
):
    first = hot(signals, posture=posture, rule=rule)
    then = score_heat(first, now=NOW + timedelta(microseconds=later), rule=rule)
    for heat in (first, then):
        factors = heat.factors
        parts = (factors.posture_score, factors.signal_recency, factors.signal_volume)
        assert all(0.0 <= part <= 1.0 for part in (*parts, heat.score))
    assert then.score <= first.score * (1 + 1e-12)


@given(signal_lists, st.randoms())
def test_the_order_in_which_signals_come_makes_no_difference(signals, shuffler):
    shuffled = signals[:]
    shuffler.shuffle(shuffled)
    one, other = hot(signals).state, hot(shuffled).state
    assert (one.peak, one.as_of, one.latest) == (other.peak, other.as_of, other.latest)
    assert one.mass == pytest.approx(other.mass, rel=1e-12, abs=1e-300)


@given(signal_lists, st.lists(st.integers(0, 12), max_size=4))
def test_a_sweep_gives_the_number_that_signals_gave_however_often_it_came_by(signals, sweeps):
    ordered = sorted(signals, key=lambda each: each.at)
    heat = new_account_heat(ACME, now=NOW - timedelta(days=400))
    for nth, each in enumerate(ordered):
        heat = compute_heat(heat, [each], now=max(each.at, NOW), rule=RULE)
        if nth in sweeps:
            heat = score_heat(heat, now=NOW, rule=RULE)
    at_once = compute_heat(
        new_account_heat(ACME, now=NOW - timedelta(days=400)),
        ordered,
        now=NOW,
        rule=RULE,
    )
    assert (heat.score, heat.factors, heat.state) == (at_once.score, at_once.factors, at_once.state)


@given(signal_lists)
def test_what_is_kept_gives_what_reading_every_signal_again_would(signals):
    half_life = RULE.half_life
    faded = [each.strength * 0.5 ** ((NOW - each.at) / half_life) for each in signals]
    found = hot(signals).factors
    assert found.signal_recency == pytest.approx(max(faded, default=0.0), rel=1e-9, abs=1e-11)
    mass = sum(faded)
    assert found.signal_volume == pytest.approx(mass / (mass + RULE.volume_scale), abs=1e-11)
    assert len(hot(signals).state.latest) <= MAX_SIGNALS


def test_a_half_life_halves_recency_and_two_signals_within_an_hour_are_hot():
    weak = signal(NOW - timedelta(days=7), 0.8)
    assert hot([weak], posture=0.0).factors.signal_recency == pytest.approx(0.4)
    close = [signal(NOW - timedelta(minutes=50), 0.01), signal(NOW, 0.01)]
    assert hot(close, posture=0.0).tier is Tier.HOT
    assert hot(close[:1], posture=0.0).tier is Tier.WARM


def test_a_signal_dated_ahead_happened_on_arrival_and_one_without_strength_says_nothing():
    ahead = signal(NOW + timedelta(days=30))
    assert clamp_signal_date(ahead, now=NOW).at == NOW
    assert hot([ahead]).state == hot([signal(NOW)]).state
    assert hot([signal(NOW, 0.0)]).state == hot().state


def test_it_is_said_when_anything_but_time_changed_something():
    first = hot([signal(NOW - timedelta(days=2))])
    later = NOW + timedelta(minutes=1)
    swept = score_heat(first, now=later, rule=RULE)
    assert (swept.updated_at, swept.computed_at) == (NOW, later)
    again = compute_heat(swept, posture=0.6, now=later, rule=RULE)
    assert again.updated_at == later


def test_a_changed_half_life_goes_on_from_what_was_kept():
    slow = replace(RULE, half_life=timedelta(days=30))
    heat = add_signal(hot([signal(NOW - timedelta(days=5))]), signal(NOW, 0.2), rule=slow)
    found = score_heat(heat, now=NOW, rule=slow)
    assert 0.2 <= found.factors.signal_recency <= 1.0


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_strength_or_posture_outside_0_to_1_is_refused(strength):
    with pytest.raises(PermanentError, match="0 to 1"):
        signal(strength=strength)
    with pytest.raises(PermanentError, match="0 to 1"):
        set_posture(hot(), strength)


def test_weights_that_are_all_nothing_are_refused():
    with pytest.raises(ConfigError, match="not all of them 0"):
        HeatSettings(posture_weight=0.0, recency_weight=0.0, volume_weight=0.0)


@pytest.mark.parametrize("wrong", [{"peak": 1.5}, {"mass": -1.0}, {"mass": float("nan")}])
def test_a_state_no_signals_add_up_to_is_refused(wrong):
    with pytest.raises(PermanentError):
        HeatState(**wrong)


def test_a_signal_needs_an_id_an_account_and_a_time_within_reason():
    with pytest.raises(PermanentError, match="id and an account"):
        signal(name="")
    with pytest.raises(PermanentError, match="years"):
        signal(at=datetime(9999, 1, 1, tzinfo=UTC))
    with pytest.raises(ConfigError, match="time zone"):
        signal(at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is what is refused


@given(st.lists(st.tuples(signal_lists, shares), max_size=5))
def test_many_accounts_are_computed_as_each_would_be_alone(accounts):
    heats = [new_account_heat(CompanyId(f"A{n}"), now=NOW) for n in range(len(accounts))]
    signals = {heat.account: some for heat, (some, _) in zip(heats, accounts, strict=True)}
    postures = {heat.account: posture for heat, (_, posture) in zip(heats, accounts, strict=True)}
    together = compute_heats(heats, signals=signals, postures=postures, now=NOW, rule=RULE)
    alone = [
        compute_heat(heat, some, posture=posture, now=NOW, rule=RULE)
        for heat, (some, posture) in zip(heats, accounts, strict=True)
    ]
    assert together == alone
    assert score_heats(together, now=NOW, rule=RULE) == together
