"""What looks have taught about accounts, facet by facet.

The surface is what any look sees; the rest is seen by deep ones only. Of each is kept when it was
last seen and what is believed of how often it changes; how a belief moves is said in `beliefs`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from stoker.core.beliefs import BeliefRule, Beliefs, observed
from stoker.core.companies import CompanyId
from stoker.core.model import in_utc
from stoker.core.tiers import Tier
from stoker.errors import PermanentError

_DAY = timedelta(days=1)


class Facet(NamedTuple):
    """One facet of one account. A million of them are read for one plan, hence so plain."""

    seen_at: datetime
    changes: float | None = None  # as if so many changes had been counted …
    days: float | None = None  # … in so many days; None: seen once, so nothing is known yet


class AccountBelief(NamedTuple):
    """What looks have taught about one account; None is a facet nobody has seen yet."""

    account: CompanyId
    surface: Facet | None = None
    deep: Facet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What one look found: whether each facet had changed since it was last seen.

    None is a facet this look did not see. The key is the look's own, however often it is told.
    """

    key: str
    account: CompanyId
    at: datetime
    surface: bool | None = None
    deep: bool | None = None

    def __post_init__(self) -> None:
        if not self.key or not self.account:
            raise PermanentError("a look has a key and an account")
        object.__setattr__(self, "at", in_utc(self.at, what="when a look was made"))


def learned(
    looks: Iterable[Observed],
    *,
    known: Mapping[CompanyId, AccountBelief],
    tiers: Mapping[CompanyId, Tier],
    rule: BeliefRule,
) -> dict[CompanyId, AccountBelief]:
    """Return what is believed of every account that was looked at, after these looks.

    They are taken by their time, then by key. A first look has nothing to compare with: it teaches
    when the facet was seen, no more. One not made after the last teaches nothing. What is believed
    without history is that of the account's tier, COLD for one without.
    """
    after: dict[CompanyId, AccountBelief] = {}
    for some in _each_account_once(sorted(looks, key=lambda look: (look.at, look.key))):
        before = [
            after.get(look.account) or known.get(look.account) or AccountBelief(look.account)
            for look in some
        ]
        ranks = [tiers.get(look.account, Tier.COLD).rank for look in some]
        surfaces = _facets(
            [belief.surface for belief in before],
            [(look.surface, look.at) for look in some],
            ranks,
            rule=rule,
        )
        deeps = _facets(
            [belief.deep for belief in before],
            [(look.deep, look.at) for look in some],
            ranks,
            rule=rule,
        )
        for look, surface, deep in zip(some, surfaces, deeps, strict=True):
            after[look.account] = AccountBelief(look.account, surface, deep)
    return after


def _each_account_once(looks: Sequence[Observed]) -> list[list[Observed]]:
    """Split looks, in order, so that whole columns can be reckoned at once."""
    had: Counter[CompanyId] = Counter()
    rounds: defaultdict[int, list[Observed]] = defaultdict(list)
    for look in looks:
        rounds[had[look.account]].append(look)
        had[look.account] += 1
    return list(rounds.values())


def _facets(
    before: Sequence[Facet | None],
    seen: Sequence[tuple[bool | None, datetime]],
    ranks: Sequence[int],
    *,
    rule: BeliefRule,
) -> list[Facet | None]:
    after = [
        facet if facet or changed is None else Facet(at)
        for facet, (changed, at) in zip(before, seen, strict=True)
    ]
    compared = [
        (place, facet, changed, at)
        for place, (facet, (changed, at)) in enumerate(zip(after, seen, strict=True))
        if facet is not None and changed is not None and facet.seen_at < at
    ]
    if not compared:
        return after
    prior = rule.prior(np.array([ranks[place] for place, *_ in compared], np.int64))
    age = np.array([(at - facet.seen_at) / _DAY for _, facet, _, at in compared])
    changes = np.array([facet.changes for _, facet, _, _ in compared], np.float64)
    days = np.array([facet.days for _, facet, _, _ in compared], np.float64)
    nothing = np.isnan(changes)
    beliefs = observed(
        Beliefs(
            changes=np.where(nothing, prior.changes, changes),
            days=np.where(nothing, prior.days, days),
        ),
        np.array([changed for _, _, changed, _ in compared], np.bool_),
        age=age,
        elapsed=age,
        prior=prior,
        half_life=rule.half_life,
    )
    columns = zip(compared, beliefs.changes.tolist(), beliefs.days.tolist(), strict=True)
    for (place, _, _, at), many, long in columns:
        after[place] = Facet(at, many, long)
    return after
