"""What looks teach: never more than they saw, never twice, and in whatever order they are told."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import ConfigError, PermanentError
from stoker.heat.beliefs import learn_change_rates
from stoker.heat.model import AccountChangeRate, DataLevel, LookupObservation, Tier
from stoker.heat.settings import ChangeRateRule

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
        LookupObservation(key=f"k{n}", account=account, at=at, surface=surface, deep=deep)
        for n, (account, at, surface, deep) in enumerate(said)
    ]


def look(days, *, key="", account="A", surface=None, deep=None):
    at = NOW + days * DAY
    return LookupObservation(
        key=key or f"{days}", account=account, at=at, surface=surface, deep=deep
    )


def after(*some, known=(), tiers=None):
    before = {belief.account: belief for belief in known}
    return learn_change_rates(some, known=before, tiers=tiers or {}, rule=RULE)


def assert_close(one, other):
    assert one.keys() == other.keys()
    for account, belief in one.items():
        for facet, twin in zip(belief[1:], other[account][1:], strict=True):
            if facet.changes is None:
                assert twin == facet
            else:
                assert twin == (facet.seen_at, *map(pytest.approx, facet[1:]))


def test_a_first_look_teaches_when_a_facet_was_seen_and_no_more():
    found = after(look(0, surface=True))
    assert found == {"A": AccountChangeRate("A", DataLevel(NOW))}


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
        for facet in belief[1:]:
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


def believing_first_looks(some, *, known):
    """The naive twin: a first look is taken for one that found everything changed."""
    early = [
        LookupObservation(
            key=f"first {each.key}", account=each.account, at=each.at - DAY, surface=False
        )
        for each in some
        if each.account not in known
    ]
    return learn_change_rates([*early, *some], known=known, tiers={}, rule=RULE)


def test_a_first_look_taken_for_news_is_caught():
    some = [look(0, surface=True)]
    assert believing_first_looks(some, known={})["A"].surface.changes is not None
    assert after(*some)["A"].surface.changes is None


def test_a_look_without_a_key_an_account_or_a_time_zone_is_refused():
    for bad in ({"key": ""}, {"account": ""}):
        with pytest.raises(PermanentError, match="a key and an account"):
            LookupObservation(**{"key": "k", "account": "A", "at": NOW, **bad})
    with pytest.raises(ConfigError, match="no time zone"):
        LookupObservation(key="k", account="A", at=NOW.replace(tzinfo=None))
