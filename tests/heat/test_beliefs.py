"""How often accounts change, as far as looks have shown."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError, PermanentError
from stoker.heat.beliefs import (
    ChangeRates,
    build_prior,
    compute_missed_changes,
    compute_stale_chance,
    decay_to_prior,
    learn_change_rates,
    update_rates,
)
from stoker.heat.model import AccountChangeRate, DataLevel, LookupObservation, Tier
from stoker.heat.settings import ChangeRateRule

QUARTER = timedelta(days=90)
PRIOR = ChangeRates(changes=np.array([1.0]), days=np.array([20.0]))
numbers = st.floats(0, allow_nan=False, allow_infinity=False, exclude_min=True)
sound = st.floats(1e-3, 1e6)
ages = st.floats(0, allow_nan=False)


def belief(changes, days):
    return ChangeRates(changes=np.array([changes]), days=np.array([days]))


def looked(before, changed, age, *, elapsed=0.0, prior=PRIOR):
    return update_rates(
        before,
        np.array([changed]),
        age=np.array([age]),
        elapsed=np.array([elapsed]),
        prior=prior,
        half_life=QUARTER,
    )


def rate(beliefs):
    return float(1 / beliefs.days_between[0])


@given(numbers, numbers, ages, ages, st.booleans())
@example(5e-324, 1e308, 0.0, 5e-324, True)
@example(1e308, 5e-324, float("inf"), float("inf"), True)
def test_whatever_a_look_shows_what_is_believed_stays_a_belief(changes, days, age, elapsed, found):
    after = looked(belief(changes, days), found, age, elapsed=elapsed)
    for column in (after.changes, after.days, after.days_between):
        assert np.isfinite(column).all()
        assert (column > 0).all()
    assert 0 <= compute_stale_chance(after, [age])[0] <= 1
    assert 0 <= compute_missed_changes(after, [age])[0] < np.inf


@given(sound, sound, st.floats(0, 1e6))
def test_a_change_is_a_reason_to_believe_in_more_and_a_quiet_look_in_fewer(changes, days, age):
    before = belief(changes, days)
    assert rate(looked(before, True, age)) >= rate(before) * (1 - 1e-12)
    quiet = looked(before, False, age)
    assert quiet.changes[0] == before.changes[0]
    assert quiet.days[0] == before.days[0] + age


def exact_moments(a, b, t):
    """Mean and variance of the rate after a change within t: a difference of two Gammas."""
    with localcontext() as context:
        context.prec = 80
        a, b, t = Decimal(a), Decimal(b), Decimal(t)
        u = b / (b + t)
        p = (a * u.ln()).exp()
        first = a / b * (1 - p * u) / (1 - p)
        second = a * (a + 1) / b**2 * (1 - p * u * u) / (1 - p)
        return float(first), float(second - first**2)


@pytest.mark.parametrize("a", [1e-4, 0.3, 1.0, 7.5, 1e5])
@pytest.mark.parametrize("b", [1e-3, 12.0, 1e5])
@pytest.mark.parametrize("share", [1e-9, 1e-3, 0.4, 1.0, 30.0, 1e6])
def test_after_a_change_mean_and_spread_are_those_of_the_exact_answer(a, b, share):
    age = min(b * share, 1e9)
    after = looked(belief(a, b), True, age)
    mean, variance = exact_moments(a, b, age)
    assert after.changes[0] / after.days[0] == pytest.approx(mean, rel=1e-9)
    assert after.changes[0] / after.days[0] ** 2 == pytest.approx(variance, rel=1e-6)


def test_sixty_looks_are_as_good_as_remembering_all_of_them():
    chance = np.random.default_rng(7)
    spans = chance.uniform(1, 14, 60)
    found = chance.random(60) < 1 - np.exp(-0.09 * spans)
    grid = np.linspace(1e-5, 1.5, 300_001)
    logs = -20.0 * grid  # the prior: as if one change had been counted in twenty days
    seen = PRIOR
    for span, changed in zip(spans, found, strict=True):
        seen = looked(seen, bool(changed), span)
        logs += np.log(-np.expm1(-grid * span)) if changed else -grid * span
    likely = np.exp(logs - logs.max())
    mean = (likely * grid).sum() / likely.sum()
    spread = np.sqrt((likely * (grid - mean) ** 2).sum() / likely.sum())
    assert rate(seen) == pytest.approx(mean, rel=5e-3)
    assert np.sqrt(seen.changes[0]) / seen.days[0] == pytest.approx(spread, rel=5e-3)


@given(sound, sound, st.floats(0, 1e5))
def test_without_news_a_belief_goes_back_to_where_it_came_from(changes, days, elapsed):
    before = belief(changes, days)
    after = decay_to_prior(before, [elapsed], prior=PRIOR, half_life=QUARTER)
    for name in ("changes", "days"):
        old, new, home = (float(getattr(each, name)[0]) for each in (before, after, PRIOR))
        slack = 1e-12 * max(old, home)
        assert min(old, home) - slack <= new <= max(old, home) + slack
    gone = decay_to_prior(before, [1e6], prior=PRIOR, half_life=QUARTER)
    assert gone.changes[0] == pytest.approx(1.0)
    assert gone.days[0] == pytest.approx(20.0)


def test_half_of_what_was_learned_is_left_after_a_half_life():
    after = decay_to_prior(belief(9.0, 100.0), [90.0], prior=PRIOR, half_life=QUARTER)
    assert after.changes[0] == pytest.approx(5.0)
    assert after.days[0] == pytest.approx(60.0)


def test_a_quiet_year_silences_no_account_for_good():
    seen = PRIOR
    for _ in range(1000):
        seen = looked(seen, False, 7.0, elapsed=7.0)
    assert 1e-3 < rate(seen) < rate(PRIOR)
    assert rate(looked(seen, True, 7.0, elapsed=7.0)) > 2 * rate(seen)


def test_the_chance_that_a_copy_is_out_of_date_is_the_share_that_changed_when_rates_are_drawn():
    drawn = np.random.default_rng(3).gamma(2.0, 1 / 30.0, 200_000)
    seen = -np.expm1(-drawn * 12.0)
    assert compute_stale_chance(belief(2.0, 30.0), [12.0])[0] == pytest.approx(
        seen.mean(), rel=5e-3
    )
    assert compute_missed_changes(belief(2.0, 30.0), [12.0])[0] == pytest.approx(0.8)


def test_before_history_a_hot_account_changes_most_and_a_cold_one_least():
    ranks = np.array([Tier.HOT.rank, Tier.WARM.rank, Tier.COLD.rank])
    prior = build_prior(ChangeRateRule(weight=2.0), ranks)
    assert prior.days_between.tolist() == [2.0, 7.0, 20.0]
    assert prior.changes.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("bad", [float("nan"), -1.0, -float("inf")])
def test_what_is_no_age_or_belief_is_refused_in_one_line(bad):
    with pytest.raises(ConfigError, match="an age in days is a number from 0"):
        compute_stale_chance(PRIOR, [1.0, bad])
    with pytest.raises(ConfigError, match="a belief's days"):
        belief(1.0, bad)


def test_a_belief_in_no_changes_at_all_is_refused():
    with pytest.raises(ConfigError, match="more than 0"):
        belief(0.0, 1.0)


NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
DAY = timedelta(days=1)
RULE = ChangeRateRule(weight=1.0)

moments = st.datetimes(timezones=st.just(UTC))
seen = st.sampled_from([None, False, True])
accounts = st.sampled_from(["A", "B", "C"])


@st.composite
def looks(draw, max_size=8):
    said = draw(st.lists(st.tuples(accounts, moments, seen, seen), max_size=max_size))
    return [
        LookupObservation(
            key=f"k{n}", account=account, at=at, surface=surface, deep=deep, failed=surface is None
        )
        for n, (account, at, surface, deep) in enumerate(said)
    ]


def look(days, *, key="", account="A", **seen):
    return LookupObservation(key=key or f"{days}", account=account, at=NOW + days * DAY, **seen)


def after(*some, known=(), tiers=None):
    before = {belief.account: belief for belief in known}
    return learn_change_rates(some, known=before, tiers=tiers or {}, rule=RULE)


def assert_close(one, other):
    assert one.keys() == other.keys()
    for account, belief in one.items():
        assert other[account].attempts[2:] == belief.attempts[2:]
        for facet, twin in zip(belief[1:3], other[account][1:3], strict=True):
            if facet.changes is None:
                assert twin == facet
            else:
                assert twin == (facet.seen_at, *map(pytest.approx, facet[1:]))


def test_a_first_look_teaches_when_a_facet_was_seen_and_no_more():
    found = after(look(0, surface=True))
    assert found["A"][:3] == ("A", DataLevel(NOW), DataLevel())


def test_an_unchanged_facet_adds_its_days_to_what_is_believed_of_its_tier():
    first = after(look(0, surface=False, deep=True))["A"]
    known = after(look(3, surface=False), known=[first], tiers={"A": Tier.WARM})["A"]
    assert known.surface == DataLevel(NOW + 3 * DAY, 1.0, pytest.approx(7.0 + 3.0))
    assert known.deep == first.deep


def test_an_account_without_a_tier_is_believed_to_be_cold():
    twice = (look(0, surface=False), look(3, surface=False))
    assert after(*twice) == after(*twice, tiers={"A": Tier.COLD})
    assert after(*twice) != after(*twice, tiers={"A": Tier.HOT})


def test_a_look_not_made_after_the_last_teaches_nothing():
    known = after(look(0, surface=False), look(3, surface=True))["A"]
    for late in (look(3, key="x", surface=True), look(1, surface=True), look(-9, surface=False)):
        assert after(late, known=[known]) == {"A": known}


def test_a_look_that_saw_nothing_changes_nothing():
    known = after(look(0, surface=False), look(3, surface=True))["A"]
    assert after(look(5), known=[known]) == {"A": known}
    assert after(look(5)) == {"A": AccountChangeRate("A")}


def test_a_failed_look_leaves_what_was_seen_and_its_age():
    known = after(look(0, surface=False, deep=False), look(3, surface=True))["A"]
    failed = after(look(9, failed=True), known=[known])["A"]
    assert failed[:3] == known[:3]
    assert failed.attempts == (4.0, pytest.approx(2.9), NOW + 9 * DAY, None)
    seen = after(look(10, surface=False), known=[failed])["A"]
    assert seen.attempts == (5.0, pytest.approx(3.9), None, None)
    assert seen.surface.seen_at == NOW + 10 * DAY


def test_a_site_that_is_gone_rests_for_thirty_days_then_twice_as_long_up_to_240():
    belief, rests = AccountChangeRate("A"), []
    for days in (0, 40, 110, 240, 500):
        belief = after(look(days, failed=True, gone=True), known=[belief])["A"]
        rests.append(belief.attempts.rest_days)
    assert rests == [30.0, 60.0, 120.0, 240.0, 240.0]
    assert after(look(800, surface=False), known=[belief])["A"].attempts.rest_days is None


def test_twenty_attempts_are_remembered():
    belief = AccountChangeRate("A")
    for days in range(100):
        belief = after(look(days, surface=False), known=[belief])["A"]
    assert belief.attempts.tried == pytest.approx(20.0)
    assert 0.99 < belief.attempts.good / belief.attempts.tried <= 1.0


def test_a_look_that_failed_has_seen_nothing():
    for bad in ({"failed": True, "surface": False}, {"gone": True}):
        with pytest.raises(PermanentError, match="has seen no surface"):
            look(0, **bad)


@given(looks(), st.randoms(use_true_random=False))
def test_the_order_in_which_looks_are_told_makes_no_difference(some, rng):
    mixed = rng.sample(some, len(some))
    assert after(*mixed) == after(*some)


@given(looks(), st.integers(0, 8))
def test_looks_told_in_two_goes_teach_what_they_teach_at_once(some, place):
    in_time = sorted(some, key=lambda each: (each.at, each.key))
    first = after(*in_time[:place])
    assert_close(first | after(*in_time[place:], known=first.values()), after(*some))


@given(looks())
def test_what_is_believed_is_always_a_belief(some):
    for belief in after(*some).values():
        for facet in belief[1:3]:
            assert (facet.changes is None) == (facet.days is None)
            if facet.changes is not None:
                assert 0.0 < facet.changes < float("inf")
                assert 0.0 < facet.days < float("inf")


@given(st.lists(st.tuples(moments, st.booleans()), min_size=2, max_size=6), moments)
def test_a_change_never_makes_an_account_look_quieter_than_no_change(some, at):
    before = after(
        *(
            LookupObservation(key=f"{n}", account="A", at=when, surface=changed)
            for n, (when, changed) in enumerate(some)
        )
    ).values()
    rates = []
    for changed in (False, True):
        last = LookupObservation(key="x", account="A", at=at, surface=changed)
        facet = after(last, known=before)["A"].surface
        rates.append(facet.changes / facet.days if facet.changes else None)
    assert rates[0] == rates[1] or rates[0] < rates[1]


def test_a_look_without_a_key_an_account_or_a_time_zone_is_refused():
    for bad in ({"key": ""}, {"account": ""}):
        with pytest.raises(PermanentError, match="a key and an account"):
            LookupObservation(**{"key": "k", "account": "A", "at": NOW, **bad})
    with pytest.raises(ConfigError, match="no time zone"):
        LookupObservation(key="k", account="A", at=NOW.replace(tzinfo=None))
