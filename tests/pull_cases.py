"""Random small days to plan, and a slow planner to hold the fast one against."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from stoker.heat.beliefs import ChangeRates
from stoker.pulls.columns import (
    Decision,
    PullRule,
    to_epoch_days,
    validate_accounts,
    validate_limits,
)
from stoker.pulls.offers import make_offers

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
TODAY = to_epoch_days(NOW)


SHORT_OF_DEPTH = (
    Decision.CAP_CONNECTOR_DAY,
    Decision.RATE_LIMIT,
    Decision.PAUSED,
    Decision.COOLING_DOWN,
)


def case(seed, *, most=40, tenants=3, connectors=2, domains=3, tight=None, deep_caps=False, **rule):
    """Return accounts, limits and a rule, drawn from the seed: caps tight, loose, none, absent."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, most + 1))
    tenants = int(rng.integers(1, tenants + 1))
    days = rng.gamma(2, 10, size) + 0.5
    surface = ChangeRates(changes=rng.gamma(1, 1, size) + 0.05, days=days)
    deep = ChangeRates(changes=rng.gamma(1, 0.5, size) + 0.05, days=days)
    costs = rng.integers(1, 4, size) if rng.random() < 0.3 else np.full(size, 1)
    accounts = validate_accounts(
        surface,
        deep=deep,
        tenant=np.sort(rng.integers(0, tenants, size)),
        connector=rng.integers(0, connectors, size),
        domain=rng.integers(-1, domains, size),
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
    budget = rng.integers(0, int(2 + scale * size), tenants)
    caps = rng.integers(-1, int(2 + scale * size / 2), (tenants, connectors))
    shared = rng.integers(-1, int(2 + scale * size / 2), domains)
    limits = validate_limits(
        budget,
        connector_cap=caps if rng.random() < 0.7 else None,
        domain_cap=shared if rng.random() < 0.6 else None,
    )
    if deep_caps:
        limits = short_of_depth(limits, seed, size)
    rule.setdefault("floor", timedelta(days=int(rng.choice([10, 60]))))
    return accounts, limits, PullRule(**rule)


def short_of_depth(limits, seed, size):
    """Return the limits with few deep looks for every tenant, and one reason or another."""
    rng = np.random.default_rng([seed, 1])
    deep = validate_limits(
        np.zeros(limits.tenants, np.int64),
        deep_cap=rng.choice([-1, 0, 1, 2, size // 4], limits.tenants),
        deep_why=rng.choice(SHORT_OF_DEPTH, limits.tenants),
    )
    return replace(limits, deep_cap=deep.deep_cap, deep_why=deep.deep_why)


def _with_depth(accounts, limits, offers, share):
    """Return who may be looked at deeply, one at a time: the best, and who waited in its share."""
    inside = set()
    for tenant, cap in enumerate(limits.deep_cap.tolist()):
        own = np.flatnonzero((offers.deeper > 0) & (accounts.tenant == tenant)).tolist()
        own.sort(key=lambda row: (-offers.deeper[row], row))
        ranked = {row: place for place, row in enumerate(own)}
        late = [
            row
            for row in own
            if offers.waited[row] > 0 and accounts.units[row] == accounts.deep_units[row]
        ]
        late.sort(key=lambda row: (-offers.waited[row], ranked[row]))
        early = late[: cap * share // 1000]
        rest = [row for row in own if row not in early]
        inside |= {*early, *rest[: cap - len(early)]}
    return inside


def slowly(accounts, limits, rule, reference):
    """Plan the same day one offer at a time; return each account's depth."""
    offers = make_offers(accounts, now=TODAY, rule=rule)
    if len(limits.deep_cap):
        deep = _with_depth(accounts, limits, offers, rule.share)
        for row in np.flatnonzero(offers.deeper > 0).tolist():
            if row not in deep:
                alike = accounts.units[row] == accounts.deep_units[row]
                offers.look[row] = 0 if alike else offers.shallow_only[row]
                offers.deeper[row] = 0
    line = []
    for row in range(len(accounts)):
        tenant, connector = accounts.tenant[row], accounts.connector[row]
        has_caps = limits.connector_cap.shape[1]
        if offers.look[row] <= 0 or limits.budget[tenant] <= 0:
            continue
        if has_caps and limits.connector_cap[tenant, connector] <= 0:
            continue
        units, deep = int(accounts.units[row]), int(accounts.deep_units[row])
        line.append((-offers.look[row], row, 0, units, units))
        if offers.deeper[row] > 0:
            line.append((-offers.deeper[row], row, 1, deep - units, deep))
    line.sort()
    waits = {row: float(offers.waited[row]) for row in range(len(accounts))}

    def fits(offers_in_order, cap, *, share, granted=None):
        """Return those that fit, and those of them that came out of turn."""
        small = [each for each in offers_in_order if each[4] <= cap]
        ranked = {each: place for place, each in enumerate(small)}
        late = [each for each in small if each[2] == 0 and waits[each[1]] > 0]
        if granted is not None:
            late = [each for each in late if each in granted]
        early, used = set(), 0
        for each in sorted(late, key=lambda one: (-waits[one[1]], ranked[one])):
            used += each[3]
            if used > cap * share // 1000:
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

    def measured(each):
        price = np.float32(max(reference[accounts.tenant[each[1]]], np.finfo(np.float32).tiny))
        with np.errstate(over="ignore"):
            ratio = np.clip(-each[0] / price, np.finfo(np.float32).tiny, np.finfo(np.float32).max)
        return max(ratio, 1) if each[2] == 0 and waits[each[1]] > 0 else ratio

    tenant_of = accounts.tenant
    if len(limits.domain_cap):
        kept = [each for each in line if accounts.domain[each[1]] < 0]
        for domain, cap in enumerate(limits.domain_cap.tolist()):
            there = [each for each in line if accounts.domain[each[1]] == domain]
            there.sort(key=lambda one: (-measured(one), tenant_of[one[1]], one))
            kept += fits(there, cap, share=0)[0]
        line = sorted(kept)
    depth = np.zeros(len(accounts), np.uint8)
    for tenant in range(limits.tenants):
        own = [each for each in line if tenant_of[each[1]] == tenant]
        granted = set(own)
        for connector, cap in enumerate(limits.connector_cap[tenant].tolist()):
            there = [each for each in own if accounts.connector[each[1]] == connector]
            passed, early = fits(there, cap, share=rule.share)
            own = [each for each in own if each not in there or each in passed]
            if cap < 10**15:
                granted -= set(there) - early
        for each in fits(own, int(limits.budget[tenant]), share=rule.share, granted=granted)[0]:
            depth[each[1]] += 1
    return depth
