"""Yardsticks are exact: integrals agree with sums, chance and traces with what is expected."""

import gzip
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError
from stoker.simulation.world import (
    LEAD_DAYS,
    VALUE_HALF_LIFE_DAYS,
    CopySpan,
    RecordedChanges,
    SteadyChanges,
    build_population,
    compute_ein,
    integrate_ein,
    read_trace,
)

DAY = 86_400


def stretch(*, looked, since, now, value=1.0, ends_in_look=True):
    looked, since = (
        np.atleast_1d(np.asarray(looked, float)),
        np.atleast_1d(np.asarray(since, float)),
    )
    return CopySpan(
        accounts=np.arange(len(looked)),
        value=np.full(len(looked), value),
        looked_at=looked,
        since=since,
        now=now,
        ends_in_lookup=ends_in_look,
    )


def traced(*moments, days=100):
    return RecordedChanges(
        at=np.array([at for each in moments for at in each], float),
        first=np.concatenate([[0], np.cumsum([len(each) for each in moments])]).astype(np.int64),
        days=float(days),
    )


def test_a_population_is_spread_as_its_description_says():
    world = build_population(200_000, seed=3)
    value, rates = np.sort(world.surface.value)[::-1], world.surface.changes.rates
    assert value[:2_000].sum() / value.sum() == pytest.approx(0.15, abs=0.01)
    assert value[:20_000].sum() / value.sum() == pytest.approx(0.50, abs=0.01)
    assert np.quantile(rates, [0.5, 0.95, 0.99]) == pytest.approx([0.05, 0.58, 1.6], rel=0.03)
    together = np.corrcoef(np.log(world.surface.value), np.log(rates))[0, 1]
    assert together == pytest.approx(0.3, abs=0.01)
    assert 0 < world.posture.min() < world.posture.max() < 1
    assert np.corrcoef(world.posture, np.log(world.surface.value))[0, 1] > 0.7


@pytest.mark.parametrize("accounts", [0, -1, 10**9])
def test_a_population_of_nobody_or_of_too_many_is_refused(accounts):
    with pytest.raises(ConfigError, match="accounts"):
        build_population(accounts)


def summed_ein(x):
    """The same by its series of harmonic numbers: e^-x sum of x^n/n! H_n."""
    total, term, harmonic = 0.0, math.exp(-x), 0.0
    for n in range(1, 200):
        term *= x / n
        harmonic += 1 / n
        total += term * harmonic
    return total


@given(st.floats(0, 50))
def test_missed_changes_count_one_then_half_then_a_third(x):
    assert compute_ein(np.array([x]))[0] == pytest.approx(summed_ein(x), rel=1e-9, abs=1e-300)


@given(st.floats(0, 1e6), st.floats(0, 1e3))
def test_the_integral_of_missed_changes_grows_as_they_do(x, more):
    low, high = integrate_ein(np.array([x, x + more]))
    first, last = compute_ein(np.array([x, x + more]))
    wide = 1e-9 * (1 + high)
    assert first * more - wide <= high - low <= last * more + wide


rates = st.one_of(st.floats(0, 50), st.just(5e-324))
spans = st.floats(0, 400)


@given(rates, spans, spans, st.booleans())
def test_a_stretch_cut_in_two_adds_up(rate, before, after, ends_in_look):
    changes = SteadyChanges(rates=np.array([rate]))
    whole = changes.compute_tally(
        stretch(looked=0, since=0, now=before + after, ends_in_look=ends_in_look)
    )
    parts = changes.compute_tally(
        stretch(looked=0, since=0, now=before, ends_in_look=False)
    ) + changes.compute_tally(
        stretch(looked=0, since=before, now=before + after, ends_in_look=ends_in_look)
    )
    for name in ("days", "fresh", "missed", "changes", "captured", "waited"):
        near = pytest.approx(getattr(whole, name), rel=1e-9, abs=1e-9)
        assert getattr(parts, name) == near, name


@given(rates, st.floats(1e-3, 400))
def test_looks_evenly_spaced_keep_the_textbook_shares(rate, every):
    kept = SteadyChanges(rates=np.array([rate])).compute_tally(
        stretch(looked=0, since=0, now=every)
    )
    x = rate * every
    fresh = -math.expm1(-x) / x if x else 1.0
    assert kept.freshness == pytest.approx(fresh, rel=1e-9)
    assert kept.harmonic == pytest.approx(
        compute_ein(np.array([x]))[0] - 1 + fresh, rel=1e-6, abs=1e-12
    )
    if kept.changes > 1e-300:  # below, floats have too few digits to divide
        assert kept.delay == pytest.approx(every / 2, rel=1e-9)
        faded = -math.expm1(-every / VALUE_HALF_LIFE_DAYS) * VALUE_HALF_LIFE_DAYS / every
        assert kept.capture == pytest.approx(faded, rel=1e-9)


def counted(moments, *, looked, since, now):
    """The same by going from one moment to the next, with what the copy lacks in between."""
    edges = sorted({since, now, *(each for each in moments if since < each < now)})
    fresh = missed = waited = 0.0
    for begin, end in pairwise(edges):
        lacking = sum(looked < each <= begin for each in moments)
        fresh += (end - begin) * (lacking == 0)
        missed += (end - begin) * sum(1 / k for k in range(1, lacking + 1))
        waited += (end - begin) * lacking
    return fresh, missed, waited


def seconds(least, most):
    return st.integers(int(least * DAY), int(most * DAY)).map(lambda each: each / DAY)


@given(
    st.lists(seconds(-LEAD_DAYS, 100), unique=True, max_size=6),
    st.lists(seconds(-LEAD_DAYS, 100), min_size=3, max_size=3).map(sorted),
)
def test_what_a_trace_says_is_what_counting_says(moments, times):
    looked, since, now = times
    kept = traced([], sorted(moments), [3.0]).compute_tally(
        CopySpan(
            accounts=np.array([1]),
            value=np.ones(1),
            looked_at=np.array([looked]),
            since=np.array([since]),
            now=now,
            ends_in_lookup=True,
        )
    )
    fresh, missed, waited = counted(moments, looked=looked, since=since, now=now)
    assert kept.fresh == pytest.approx(fresh, abs=1e-9)
    assert kept.missed == pytest.approx(missed, abs=1e-9)
    assert kept.waited == pytest.approx(waited, abs=1e-9)
    assert kept.changes == sum(since < each <= now for each in moments)
    lacked = [each for each in moments if looked < each <= now]
    assert kept.captured == pytest.approx(
        sum(math.exp((each - now) / VALUE_HALF_LIFE_DAYS) for each in lacked)
    )


def test_a_trace_drawn_by_chance_is_as_a_steady_population_expects():
    luck, rate, days = np.random.default_rng(5), 0.2, 50
    at = [np.sort(luck.random(n) * days) for n in luck.poisson(rate * days, 4_000)]
    ages = luck.random(4_000) * 20
    seen = stretch(looked=days - ages, since=days - ages / 2, now=float(days))
    recorded_, expected = (
        traced(*at, days=days).compute_tally(seen),
        SteadyChanges(rates=np.full(4_000, rate)).compute_tally(seen),
    )
    for name in ("freshness", "harmonic", "capture", "delay"):
        assert getattr(recorded_, name) == pytest.approx(getattr(expected, name), rel=0.06), name


def test_an_account_has_changed_if_anything_is_after_the_look_up_to_now():
    changes = traced([5.0], [], [-3.0, 90.0])
    luck = np.random.default_rng(0)

    def found(account, looked, now):
        return bool(
            changes.find_changed(
                np.array([account]), looked=np.array([looked]), now=now, luck=luck
            )[0]
        )

    assert [found(0, 4.0, 5.0), found(0, 5.0, 6.0), found(0, 4.0, 4.5)] == [True, False, False]
    assert [found(1, -LEAD_DAYS, 100.0), found(2, -LEAD_DAYS, 0.0), found(2, 0.0, 89.0)] == [
        False,
        True,
        False,
    ]


def test_chance_finds_changes_as_often_as_rates_say():
    found = SteadyChanges(rates=np.full(40_000, 0.1)).find_changed(
        np.arange(40_000), looked=np.zeros(40_000), now=5.0, luck=np.random.default_rng(1)
    )
    assert found.mean() == pytest.approx(1 - math.exp(-0.5), abs=0.01)


def written(path, *rows, pack=False):
    data = "\n".join(rows).encode()
    path.write_bytes(gzip.compress(data) if pack else data)
    return path


@pytest.mark.parametrize("pack", [False, True])
def test_a_trace_is_its_last_days_and_a_little_before_them(tmp_path, pack):
    end = 1_700_000_000
    trace = written(
        tmp_path / "trace.csv",
        "item,unix_time",
        f"b,{end}",
        f"a,{end - 3 * DAY}",
        f"a,{end - 3 * DAY}",
        f"a,{end - 9 * DAY}",
        f"old,{end - 4000 * DAY}",
        pack=pack,
    )
    changes = read_trace(trace, days=10).surface.changes
    assert len(changes.rates) == 3
    assert changes.at.tolist() == [1.0, 7.0, 10.0]  # what is said twice happened once
    assert changes.first.tolist() == [0, 2, 3, 3]


def test_importance_is_value_and_who_has_none_has_the_least(tmp_path):
    trace = written(tmp_path / "trace.csv", "item,unix_time", "a,9", "b,9", "c,9", "d,9")
    names = written(tmp_path / "names.csv", "item,uses", "a,30", "b,10", "d,0", "else,1000")
    value = read_trace(trace, days=5, importance=names).surface.value
    assert (value / value.min()).tolist() == [3.0, 1.0, 1.0, 1.0]
    assert value.mean() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ((), "has no changes"),
        (("item,unix_time",), "has no changes"),
        (("item,unix_time", "a,soon"), "no CSV file of items and numbers"),
        (("item,unix_time", "a"), "no CSV file of items and numbers"),
        (("item,unix_time", "a,nan"), "line 2: nan is no unix time"),
        (("item,unix_time", "a,-5"), "line 2: -5 is no unix time"),
        (("item,unix_time", "a,1e300"), "is no unix time"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_in_a_sentence(tmp_path, rows, told):
    with pytest.raises(ConfigError, match=told):
        read_trace(written(tmp_path / "trace.csv", *rows), days=5)


def test_a_trace_that_is_not_there_or_torn_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.csv cannot be read"):
        read_trace(tmp_path / "gone.csv", days=5)
    torn = tmp_path / "torn.csv.gz"
    torn.write_bytes(gzip.compress(b"item,unix_time\n" + bytes(range(48, 58)) * 99)[:-20])
    with pytest.raises(ConfigError, match=r"torn\.csv\.gz cannot be read"):
        read_trace(torn, days=5)
    nobody = written(tmp_path / "names.csv", "item,uses", "x,5")
    with pytest.raises(ConfigError, match="none of the trace's items"):
        read_trace(written(tmp_path / "trace.csv", "i,t", "a,9"), days=5, importance=nobody)
