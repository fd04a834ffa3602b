"""Random small days to plan, and a slow planner to hold the fast one against."""

from datetime import UTC, datetime, timedelta

import numpy as np

from stoker.heat.beliefs import ChangeRates
from stoker.pulls.columns import NO_CAP, Decision, PullLimits, to_epoch_days, validate_accounts
from stoker.pulls.settings import PullRule
from stoker.pulls.worth import make_offers

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
TODAY = to_epoch_days(NOW)


SHORT_OF_DEPTH = (
    Decision.CAP_CONNECTOR_DAY,
    Decision.RATE_LIMIT,
    Decision.PAUSED,
    Decision.COOLING_DOWN,
)


def case(seed, *, most=40, tight=None, deep_caps=False, **rule):
    """Return accounts, limits and a rule, drawn from the seed: caps tight, loose, none."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, most + 1))
    days = rng.gamma(2, 10, size) + 0.5
    surface = ChangeRates(changes=rng.gamma(1, 1, size) + 0.05, days=days)
    deep = ChangeRates(changes=rng.gamma(1, 0.5, size) + 0.05, days=days)
    costs = rng.integers(1, 4, size) if rng.random() < 0.3 else np.full(size, 1)
    accounts = validate_accounts(
        surface,
        deep=deep,
        value=np.exp(rng.normal(0, 1.2, size)) * (rng.random(size) > 0.05),
        deep_value=np.exp(rng.normal(-0.5, 1.2, size)) * (rng.random(size) > 0.3),
        looked=TODAY - np.where(rng.random(size) < 0.1, 0.1, rng.exponential(30, size)),
        deep_looked=TODAY - rng.exponential(60, size),
        signals=rng.random(size) * (rng.random(size) < 0.2),
        units=costs,
        deep_units=costs + rng.integers(0, 4, size),
        tier=rng.integers(0, 3, size),
        heat=rng.random(size),
        quiet=rng.exponential(3, size),
        posture=rng.random(size),
        barred=np.where(rng.random(size) < 0.05, int(Decision.PAUSED), 0),
    )
    scale = tight if tight is not None else rng.choice([0.1, 0.5, 2.0])
    limits = {"budget": int(rng.integers(0, int(2 + scale * size)))}
    if rng.random() < 0.7:
        limits["connector_cap"] = int(rng.integers(0, int(2 + scale * size)))
    if deep_caps:
        limits["deep_cap"] = int(rng.choice([NO_CAP, 0, 1, 2, size // 4]))
        limits["deep_why"] = Decision(int(rng.choice(SHORT_OF_DEPTH)))
    rule.setdefault("floor", timedelta(days=int(rng.choice([10, 60]))))
    return accounts, PullLimits(**limits), PullRule(**rule)


def _with_depth(accounts, limits, offers, share):
    """Return who may be looked at deeply, one at a time: the best, and who waited in its share."""
    own = np.flatnonzero(offers.deeper > 0).tolist()
    own.sort(key=lambda row: (-offers.deeper[row], row))
    ranked = {row: place for place, row in enumerate(own)}
    late = [
        row
        for row in own
        if offers.waited[row] > 0 and accounts.units[row] == accounts.deep_units[row]
    ]
    late.sort(key=lambda row: (-offers.waited[row], ranked[row]))
    early = late[: limits.deep_cap * share // 1000]
    rest = [row for row in own if row not in early]
    return {*early, *rest[: limits.deep_cap - len(early)]}


def slowly(accounts, limits, rule):
    """Plan the same day one offer at a time; return each account's depth."""
    depth = np.zeros(len(accounts), np.uint8)
    offers = make_offers(accounts, now=TODAY, rule=rule)
    if limits.budget <= 0 or limits.connector_cap <= 0:
        return depth
    if limits.deep_cap is not None:
        deep = _with_depth(accounts, limits, offers, rule.share)
        for row in np.flatnonzero(offers.deeper > 0).tolist():
            if row not in deep:
                alike = accounts.units[row] == accounts.deep_units[row]
                offers.look[row] = 0 if alike else offers.shallow_only[row]
                offers.deeper[row] = 0
    line = []
    for row in np.flatnonzero(offers.look > 0).tolist():
        units, deep = int(accounts.units[row]), int(accounts.deep_units[row])
        line.append((-offers.look[row], row, 0, units, units))
        if offers.deeper[row] > 0:
            line.append((-offers.deeper[row], row, 1, deep - units, deep))
    line.sort()
    waits = {row: float(offers.waited[row]) for row in range(len(accounts))}

    def fits(offers_in_order, cap, granted):
        """Return those that fit, and those of them that came out of turn."""
        small = [each for each in offers_in_order if each[4] <= cap]
        ranked = {each: place for place, each in enumerate(small)}
        late = [each for each in small if each[2] == 0 and waits[each[1]] > 0 and each in granted]
        early, used = set(), 0
        for each in sorted(late, key=lambda one: (-waits[one[1]], ranked[one])):
            used += each[3]
            if used > cap * rule.share // 1000:
                break
            early.add(each)
        inside, spent = set(early), sum(each[3] for each in early)
        for each in small:
            if each in early:
                continue
            spent += each[3]
            if spent > cap:
                break
            inside.add(each)
        return inside, early

    granted = set(line)
    if limits.connector_cap < NO_CAP:
        passed, granted = fits(line, limits.connector_cap, granted)
        line = [each for each in line if each in passed]
    for each in fits(line, limits.budget, granted)[0]:
        depth[each[1]] += 1
    return depth
