"""A tenant's accounts as a plan weighs them, out of what is remembered of each.

What is believed of their changes by now, what they are worth, and what a look at each costs: where
nothing is known yet, not even the site, a shallow look would read nothing, so the first is deep.
"""

from __future__ import annotations

import numpy as np

from stoker.core.beliefs import BeliefRule, Beliefs, Floats, believed
from stoker.core.pull_columns import Accounts, Column, PullRule, Why, accounts_of
from stoker.core.valuing import account_values


def known_accounts(
    *,
    heat: Column,
    posture: Column,
    tier: Column,
    tier_since: Floats,
    surface_at: Floats,
    surface_changes: Floats,
    surface_days: Floats,
    deep_at: Floats,
    deep_changes: Floats,
    deep_days: Floats,
    signals: Column,
    now: float,
    units: int,
    deep_units: int,
    barred: Why,
    rule: PullRule,
    beliefs: BeliefRule,
) -> Accounts:
    """Return one tenant's accounts; moments are days since 1970, -inf for never.

    `units` are those of a shallow and a deep look, `barred` holds for all of them alike.
    """
    prior = beliefs.prior(tier.astype(np.int64))
    quiet = np.maximum(now - tier_since, 0.0)
    shallow = np.full(len(tier), units, np.int32)
    deep = np.full(len(tier), max(deep_units, units), np.int32)
    value, deep_value = account_values(
        tier=tier,
        heat=heat,
        quiet=quiet,
        posture=posture,
        units=shallow,
        deep_units=deep,
        rule=rule,
        beliefs=beliefs,
    )

    def today(changes: Floats, days: Floats, seen: Floats) -> Beliefs:
        age = np.maximum(now - seen, 0.0)
        return believed(changes, days, age, prior=prior, half_life=beliefs.half_life)

    return accounts_of(
        today(surface_changes, surface_days, surface_at),
        deep=today(deep_changes, deep_days, deep_at),
        looked=surface_at,
        deep_looked=deep_at,
        value=value,
        deep_value=deep_value,
        signals=signals,
        units=np.where(np.isfinite(deep_at), shallow, deep),
        deep_units=deep,
        tier=tier,
        heat=heat,
        quiet=quiet,
        posture=posture,
        barred=barred,
    )
