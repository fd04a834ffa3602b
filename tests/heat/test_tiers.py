"""Tiers: up at once, down slowly, never flapping; what each is promised."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.heat.heat import (
    TierState,
    choose_tier_ranks,
    compute_intervals,
    to_latest_column,
    update_tier,
)
from stoker.heat.model import BY_RANK, Tier
from stoker.heat.settings import TierRule

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RULE = TierRule(cold_every=timedelta(days=4))
scores = st.floats(0, 1)
ages = st.lists(st.integers(-3, 60).map(lambda quarters: NOW - quarters * HOUR / 4), max_size=8)
standings = st.builds(
    TierState,
    tier=st.sampled_from(BY_RANK),
    since=st.integers(0, 100).map(lambda hours: NOW - hours * HOUR),
    below_since=st.none() | st.integers(0, 60).map(lambda hours: NOW - hours * HOUR),
)


def interval(tier, score, hours):
    columns = np.array([tier.rank]), np.array([score]), np.array([hours / 24])
    return timedelta(days=float(compute_intervals(*columns, rule=RULE)[0]))


def choose_tier(score, latest, *, now, rule):
    [rank] = choose_tier_ranks(np.array([score]), to_latest_column([latest]), now=now, rule=rule)
    return BY_RANK[rank]


def after(standing, *, score=0.0, latest=(), now=NOW, rule=RULE):
    return update_tier(standing, score=score, latest=latest, now=now, rule=rule)


def swept(standing, *, score, hours, rule=RULE):
    """Ask every hour; return the tiers seen."""
    seen = []
    for hour in range(hours + 1):
        standing = after(standing, score=score, now=NOW + hour * HOUR, rule=rule)
        seen.append(standing.tier)
    return seen


@pytest.mark.parametrize(
    ("score", "minutes_ago", "tier"),
    [
        (0.0, [], Tier.COLD),
        (0.39, [], Tier.COLD),
        (0.4, [], Tier.WARM),
        (0.7, [], Tier.HOT),
        (0.0, [360], Tier.WARM),
        (0.0, [361], Tier.COLD),
        (0.0, [0, 60], Tier.HOT),
        (0.0, [0, 61], Tier.WARM),
        (0.0, [-1, 0], Tier.WARM),  # what is dated ahead counts when its time has come
    ],
)
def test_a_tier_is_deserved_by_score_or_by_signals_close_together(score, minutes_ago, tier):
    latest = [NOW - timedelta(minutes=each) for each in minutes_ago]
    assert choose_tier(score, latest, now=NOW, rule=RULE) is tier


@given(standings, scores, ages)
def test_nobody_is_below_what_it_deserves_and_promotion_is_at_once(standing, score, latest):
    found = after(standing, score=score, latest=latest)
    wanted = choose_tier(score, latest, now=NOW, rule=RULE)
    assert found.tier.rank >= wanted.rank
    if wanted.rank > standing.tier.rank:
        assert found == TierState(tier=wanted, since=NOW)


@given(standings, scores, ages)
def test_asking_twice_at_one_moment_changes_nothing_more(standing, score, latest):
    for rule in (RULE, replace(RULE, hot_cooldown=timedelta(0), warm_cooldown=timedelta(0))):
        once = after(standing, score=score, latest=latest, rule=rule)
        assert after(once, score=score, latest=latest, rule=rule) == once


@given(standings, scores, ages, st.integers(0, 60))
def test_one_more_signal_never_lowers_a_tier(standing, score, latest, quarters):
    more = [*latest, NOW - quarters * HOUR / 4]
    few, many = (
        after(standing, score=score, latest=latest),
        after(standing, score=score, latest=more),
    )
    assert many.tier.rank >= few.tier.rank


def test_a_hot_account_gone_quiet_is_warm_after_four_hours_and_cold_a_day_later():
    seen = swept(TierState(tier=Tier.HOT, since=NOW - HOUR), score=0.1, hours=40)
    assert [seen.count(tier) for tier in (Tier.HOT, Tier.WARM)] == [4, 24]
    assert seen[-1] is Tier.COLD


@given(st.lists(scores, min_size=2, max_size=60))
def test_an_account_leaves_a_tier_at_most_once_per_cooldown_however_its_score_jumps(jumps):
    standing = TierState(tier=Tier.HOT, since=NOW - 100 * HOUR)
    left = []
    for nth, score in enumerate(jumps):
        now = NOW + nth * HOUR / 2
        moved = after(standing, score=score, now=now)
        if moved.tier.rank < standing.tier.rank:
            assert moved.tier.rank == standing.tier.rank - 1
            left.append(now)
        standing = moved
    assert all(later - earlier >= RULE.hot_cooldown for earlier, later in pairwise(left))


@pytest.mark.parametrize(
    ("tier", "score", "quiet", "every"),
    [
        (Tier.HOT, 0.9, 0, timedelta(hours=24)),
        (Tier.WARM, 0.5, 0, timedelta(hours=72)),
        (Tier.COLD, 0.0, 47, timedelta(days=4)),
        (Tier.COLD, 0.0, 48, timedelta(days=7)),
        (Tier.COLD, 0.4, 48, timedelta(days=4)),
    ],
)
def test_each_tier_has_its_interval(tier, score, quiet, every):
    assert interval(tier, score, quiet) == every


def test_by_default_tiers_are_looked_up_every_day_three_days_and_seven_days():
    usual = TierRule()
    every = (usual.hot_every, usual.warm_every, usual.cold_every, usual.coldest_every)
    assert every == tuple(timedelta(days=days) for days in (1, 3, 7, 7))


@given(scores, scores, st.integers(0, 100))
def test_a_cold_account_is_looked_at_between_its_two_intervals_and_never_rarer_for_more_heat(
    one, other, hours
):
    cooler, hotter = sorted([one, other])
    rare, often = (interval(Tier.COLD, score, hours) for score in (cooler, hotter))
    assert RULE.cold_every <= often <= rare <= RULE.coldest_every


@pytest.mark.parametrize(
    "wrong",
    [
        {"hot_from": 0.3},
        {"warm_every": timedelta(days=8)},
    ],
)
def test_rules_that_contradict_themselves_are_refused(wrong):
    with pytest.raises(ConfigError):
        TierRule(**wrong)
