"""A sweep says of every account what asking about that account alone would say."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.heat.heat import compute_heat, compute_heats, new_account_heat, score_heat, score_heats
from stoker.heat.model import Signal, SignalKind
from stoker.heat.settings import HeatRule, TierRule

NOW = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
RULE, TIERS = HeatRule(), TierRule()

shares = st.floats(0.0, 1.0)
hours = st.floats(-1e5, 1e5).map(lambda hours: NOW + timedelta(hours=hours))


@st.composite
def heats(draw):
    said = draw(st.lists(st.tuples(shares, st.lists(st.tuples(shares, hours), max_size=4), hours)))
    return [
        compute_heat(
            new_account_heat(f"A{n}", now=NOW),
            [
                Signal(id=f"{k}", account=f"A{n}", kind=SignalKind.POSTING, at=at, strength=strong)
                for k, (strong, at) in enumerate(signals)
            ],
            posture=posture,
            now=now,
            rule=RULE,
            tiers=TIERS,
        )
        for n, (posture, signals, now) in enumerate(said)
    ]


@given(heats(), hours)
def test_a_sweep_says_what_asking_about_each_account_says(some, now):
    alone = [score_heat(heat, now=now, rule=RULE, tiers=TIERS) for heat in some]
    assert score_heats(some, now=now, rule=RULE, tiers=TIERS) == alone


@given(heats(), hours)
def test_sweeping_twice_at_one_moment_is_sweeping_once(some, now):
    once = score_heats(some, now=now, rule=RULE, tiers=TIERS)
    assert score_heats(once, now=now, rule=RULE, tiers=TIERS) == once


@given(heats(), st.lists(st.tuples(shares, hours), max_size=3), st.none() | shares, hours)
def test_many_accounts_are_heated_as_each_would_be_alone(some, said, posture, now):
    signals = {
        heat.account: [
            Signal(id=f"{n}", account=heat.account, kind=SignalKind.POSTING, at=at, strength=strong)
            for n, (strong, at) in enumerate(said)
        ]
        for heat in some[::2]
    }
    postures = {} if posture is None else {heat.account: posture for heat in some[1:]}
    alone = [
        compute_heat(
            heat,
            signals.get(heat.account, ()),
            posture=postures.get(heat.account),
            now=now,
            rule=RULE,
            tiers=TIERS,
        )
        for heat in some
    ]
    together = {"signals": signals, "postures": postures, "rule": RULE, "tiers": TIERS}
    assert compute_heats(some, now=now, **together) == alone


def test_nothing_to_sweep_is_swept():
    assert score_heats([], now=NOW, rule=RULE, tiers=TIERS) == []
