"""Store one tenant's signals, heats and change rates in SQL.

A transaction that updates a tenant's heats or change rates locks them until it ends: it reads rows,
computes new ones and writes them back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from math import fsum
from operator import attrgetter
from typing import Any

import numpy as np

from stoker.accounts.model import CompanyId
from stoker.base.errors import PermanentError
from stoker.base.types import to_utc
from stoker.db.codec import validate_text
from stoker.db.database import (
    Database,
    Transaction,
    from_db_time,
    split_into_batches,
    to_db_time,
)
from stoker.heat.beliefs import (
    RECOVERIES,
    Floats,
    Retry,
    choose_recovery,
    compute_retry_likelihoods,
    learn_change_rates,
)
from stoker.heat.heat import (
    clamp_signal_date,
    compute_heats,
    is_other_heat,
    new_account_heat,
    to_daily_heat,
)
from stoker.heat.model import (
    EPOCH,
    AccountChangeRate,
    AccountColumns,
    AccountHeat,
    AddedSignals,
    DailyHeat,
    LookupObservation,
    Signal,
    Tier,
)
from stoker.heat.schema import CHANGE_RATES, HEATS, HISTORY, LOOKUPS, SIGNALS
from stoker.heat.settings import ChangeRateRule, HeatSettings

_DAY = timedelta(days=1)

_RANKS = {tier.value: tier.rank for tier in Tier}

_NO_LEVELS = (None,) * 14  # as learned about an account


def validate_signals(signals: Iterable[Signal], *, now: datetime) -> dict[str, Signal]:
    """Return signals by id, dated no later than `now`; of two with one id the first counts."""
    now = to_utc(now)
    valid: dict[str, Signal] = {}
    for signal in signals:
        SIGNALS.to_row(signal)
        valid.setdefault(signal.id, clamp_signal_date(signal, now=now))
    return valid


def validate_lookups(lookups: Iterable[LookupObservation]) -> dict[str, LookupObservation]:
    """Return lookups by their keys; of two with one key the first counts."""
    valid: dict[str, LookupObservation] = {}
    for lookup in lookups:
        LOOKUPS.to_row(lookup)
        CHANGE_RATES.encode(account_id=lookup.account)
        valid.setdefault(lookup.key, lookup)
    return valid


# A transaction locks such a row to have the heats, or the change rates, to itself.
LOCK_MARK = """
INSERT INTO account_marks (tenant_id, name, at) VALUES (:tenant, :name, NULL)
ON CONFLICT (tenant_id, name) DO UPDATE SET at = account_marks.at
"""

_HEAT_NAMES = HEATS.names.split(", ")

_MAY_BE_MISSING = ("as_of", "below_since", "known_at")

UPDATE_HEAT_IF_UNCHANGED = f"""
UPDATE account_heats SET {", ".join(f"{name} = ?" for name in _HEAT_NAMES[1:])}
WHERE tenant_id = ? AND {
    " AND ".join(
        f"{name} {'IS NOT DISTINCT FROM' if name in _MAY_BE_MISSING else '='} ?"
        for name in _HEAT_NAMES
    )
}
"""

# Conditions that an index serves without sorting.
PAGE = "account_id > :after ORDER BY account_id LIMIT :limit"

HOTTEST = "tier = :tier ORDER BY score DESC, account_id LIMIT :limit"

NEWEST_SIGNALS = "account_id = :account_id ORDER BY at DESC, id LIMIT :limit"

# Three walks, put together here: a planner that has not counted the rows may join them so that
# each is compared with all others.
SELECT_STATES = f"""
SELECT account_id, score, posture, tier, tier_since, known_at FROM account_heats
WHERE tenant_id = :tenant AND {PAGE}
"""

_IN_PAGE = "WHERE tenant_id = :tenant AND account_id > :after AND account_id <= :last"

SELECT_PAGE_CHANGE_RATES = f"SELECT {CHANGE_RATES.names} FROM account_beliefs {_IN_PAGE}"

SELECT_PAGE_SIGNALS = f"SELECT account_id, at, strength FROM account_signals {_IN_PAGE}"

NEWEST_DAYS = "account_id = :account_id ORDER BY day DESC LIMIT :limit"

SELECT_LAST_DAYS = f"""
SELECT {HISTORY.names_of("d")} FROM asked JOIN account_heat_days d
    ON d.tenant_id = :tenant AND d.account_id = asked.id
WHERE d.day = (SELECT max(o.day) FROM account_heat_days o
    WHERE o.tenant_id = :tenant AND o.account_id = asked.id)
"""

DELETE_OLD_DAYS = """
DELETE FROM account_heat_days WHERE tenant_id = :tenant AND (account_id, day) IN (
    SELECT account_id, day FROM account_heat_days WHERE tenant_id = :tenant AND day < :before
    ORDER BY day, account_id LIMIT :limit)
"""

SELECT_RECOVERIES = "SELECT place, likelihood FROM lookup_recoveries WHERE tenant_id = :tenant"

ADD_RECOVERY = """
INSERT INTO lookup_recoveries (tenant_id, place, likelihood) VALUES (?, ?, ?)
ON CONFLICT (tenant_id, place)
DO UPDATE SET likelihood = lookup_recoveries.likelihood + excluded.likelihood
"""

DELETE_OLD = """
DELETE FROM {table} WHERE tenant_id = :tenant AND {key} IN (
    SELECT {key} FROM {table} WHERE tenant_id = :tenant AND at < :before
    ORDER BY at, {key} LIMIT :limit)
"""


class HeatStore:
    """One tenant's signals, heats and change rates. Every verb is atomic."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_signals(
        self, signals: Sequence[Signal], *, rule: HeatSettings, now: datetime
    ) -> AddedSignals:
        """Insert signals and update their accounts' heat as `compute_heats` does.

        A known id changes nothing, whatever else the signal contains. Signals may come in any
        order; one dated after `now` is stored with `now`.
        """
        now, valid = to_utc(now), validate_signals(signals, now=now)

        def add(tx: Transaction) -> AddedSignals:
            _lock(tx, "heats")
            known = {signal.id for signal in SIGNALS.find_in(tx, "id", sorted(valid))}
            new = [signal for one, signal in valid.items() if one not in known]
            account = attrgetter("account")
            by_account = {
                one: list(some) for one, some in groupby(sorted(new, key=account), key=account)
            }
            moving = _find_or_create_heats(tx, by_account, now)
            heats = compute_heats(moving, signals=by_account, now=now, rule=rule)
            SIGNALS.insert_new(tx, new)
            HEATS.save(tx, heats)
            return AddedSignals(new=len(new), known=len(signals) - len(new), heats=tuple(heats))

        return await self._database.write(add) if valid else AddedSignals()

    async def list_signals(self, account: CompanyId, *, limit: int = 100) -> list[Signal]:
        """Return an account's signals, newest first, then by id."""
        wanted = SIGNALS.encode(account_id=account)
        return await self._database.read(
            lambda tx: SIGNALS.find(tx, NEWEST_SIGNALS, limit=limit, **wanted)
        )

    async def delete_old_signals(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete up to `limit` of the oldest signals before then; return how many.

        Heat is not changed. A deleted signal that is imported again counts again, so `before`
        should be many half-lives ago.
        """
        return await self._delete_old("account_signals", "id", before, limit)

    async def update_postures(
        self,
        postures: Mapping[CompanyId, float],
        *,
        rule: HeatSettings,
        now: datetime,
    ) -> int:
        """Set these postures as `compute_heats` does; return how many changed.

        Adds accounts that have no heat yet. Leaves an account that already has its posture.
        """
        for account, posture in postures.items():
            HEATS.encode(account_id=account, posture_score=posture)
        now, valid = to_utc(now), {one: float(postures[one]) for one in sorted(postures)}

        def put(tx: Transaction) -> int:
            _lock(tx, "heats")
            known = {heat.account: heat for heat in HEATS.find_in(tx, "account_id", list(valid))}
            moving = [
                known.get(account) or new_account_heat(account, now=now)
                for account, posture in valid.items()
                if account not in known or known[account].state.posture != posture
            ]
            moved = compute_heats(moving, postures=valid, now=now, rule=rule)
            HEATS.save(tx, moved)
            return len(moved)

        return await self._database.write(put) if valid else 0

    async def update_heats(
        self, heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
    ) -> int:
        """Replace the expected heats, account by account; return how many were replaced.

        Leaves an account whose heat is not exactly as expected: it was changed since it was read.
        Both lists have the same accounts in the same order, each once.
        """
        accounts = [heat.account for heat in heats]
        if accounts != [heat.account for heat in expected] or len(set(accounts)) < len(accounts):
            raise PermanentError(
                "heats are put in place of those of the same accounts, each once; nothing was "
                "written"
            )
        pairs = sorted(zip(heats, expected, strict=True), key=lambda pair: pair[0].account)

        def put(tx: Transaction) -> int:
            _lock(tx, "heats")
            return tx.execute_many(
                UPDATE_HEAT_IF_UNCHANGED,
                [(*HEATS.to_row(heat)[1:], tx.tenant, *HEATS.to_row(seen)) for heat, seen in pairs],
            )

        return await self._database.write(put) if pairs else 0

    async def save_history(self, heats: Sequence[AccountHeat]) -> int:
        """Save the daily heat of these accounts, on the day each was computed; return how many.

        Leaves out an account that is as it was on the last day saved, to the hundredth.
        """

        def save(tx: Transaction) -> int:
            accounts = sorted(heat.account for heat in heats)
            last = {
                day.account: day
                for query, some in split_into_batches(SELECT_LAST_DAYS, accounts)
                for day in map(HISTORY.read, tx.query(query, **some))
            }
            days = [to_daily_heat(heat) for heat in heats]
            changed = [day for day in days if is_other_heat(day, last.get(day.account))]
            return HISTORY.save(tx, changed)

        return await self._database.write(save) if heats else 0

    async def list_history(self, account: CompanyId, *, limit: int = 100) -> list[DailyHeat]:
        """Return an account's daily heats, newest first; days without change are left out."""
        wanted = HISTORY.encode(account_id=account)
        return await self._database.read(
            lambda tx: HISTORY.find(tx, NEWEST_DAYS, limit=limit, **wanted)
        )

    async def delete_old_history(self, *, before: date, limit: int = 10_000) -> int:
        """Delete up to `limit` of the oldest daily heats before a day; return how many."""
        day = HISTORY.encode(day=before)["day"]
        return await self._database.write(
            lambda tx: tx.execute(DELETE_OLD_DAYS, before=day, limit=limit)
        )

    async def find_heat(self, account: CompanyId) -> AccountHeat | None:
        """Return an account's heat as last computed, or None."""
        wanted = HEATS.encode(account_id=account)
        heats = await self._database.read(
            lambda tx: HEATS.find(tx, "account_id = :account_id", **wanted)
        )
        return heats[0] if heats else None

    async def list_heats(self, *, after: str = "", limit: int = 1000) -> list[AccountHeat]:
        """Return one page of heats, in the order of their accounts' ids."""
        validate_text(after, what="an account's id")
        return await self._database.read(lambda tx: HEATS.find(tx, PAGE, after=after, limit=limit))

    async def list_hottest(self, *, limit: int = 20, tier: Tier | None = None) -> list[AccountHeat]:
        """Return the hottest accounts, of one tier or of all, by score, then by id."""

        def find(tx: Transaction) -> list[AccountHeat]:
            return [
                heat
                for one in ([tier] if tier else Tier)
                for heat in HEATS.find(tx, HOTTEST, tier=one.value, limit=limit)
            ]

        heats = await self._database.read(find)
        return sorted(heats, key=lambda heat: (-heat.score, heat.account))[:limit]

    async def record_lookups(
        self, lookups: Sequence[LookupObservation], *, rule: ChangeRateRule
    ) -> int:
        """Update change rates as `learn_change_rates` does; return how many lookups were new.

        A known key changes nothing. Lookups are applied by time, then by key, whatever their order.
        """
        valid = validate_lookups(lookups)

        def learn(tx: Transaction) -> int:
            _lock(tx, "beliefs")
            known = {row["key"] for row in LOOKUPS.find_in(tx, "key", sorted(valid))}
            new = [lookup for key, lookup in valid.items() if key not in known]
            accounts = sorted({lookup.account for lookup in new})
            heats = HEATS.find_in(tx, "account_id", accounts)
            tiers = {heat.account: heat.tier for heat in heats}
            rates = CHANGE_RATES.find_in(tx, "account_id", accounts)
            before = {rate.account: rate for rate in rates}
            retries: list[Retry] = []
            after = learn_change_rates(new, known=before, tiers=tiers, rule=rule, retries=retries)
            LOOKUPS.insert_new(tx, new)
            if retries:
                likelihoods = enumerate(compute_retry_likelihoods(retries).tolist())
                tx.execute_many(ADD_RECOVERY, [(tx.tenant, *each) for each in likelihoods])
            CHANGE_RATES.save(tx, after.values())
            return len(new)

        return await self._database.write(learn) if valid else 0

    async def list_change_rates(
        self, *, after: str = "", limit: int = 1000
    ) -> list[AccountChangeRate]:
        """Return one page of change rates, in the order of their accounts' ids."""
        validate_text(after, what="an account's id")
        return await self._database.read(
            lambda tx: CHANGE_RATES.find(tx, PAGE, after=after, limit=limit)
        )

    async def read_columns(self, *, after: str = "", limit: int = 65_536) -> AccountColumns:
        """Return one page of the accounts that have a heat, with their change rates.

        The same numbers as `list_heats` and `list_change_rates`, fast enough for a million
        accounts.
        """
        validate_text(after, what="an account's id")

        def read(tx: Transaction) -> AccountColumns:
            rows = tx.query(SELECT_STATES, after=after, limit=limit)
            page = {"after": after, "last": rows[-1][0] if rows else after}
            rates = tx.query(SELECT_PAGE_CHANGE_RATES, **page)
            signals = tx.query(SELECT_PAGE_SIGNALS, **page)
            return to_account_columns(rows, rates, signals, tx.query(SELECT_RECOVERIES))

        return await self._database.read(read)

    async def delete_old_lookups(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete the keys of up to `limit` of the oldest lookups before then; return how many.

        Change rates are not changed.
        """
        return await self._delete_old("looks_learned", "key", before, limit)

    async def _delete_old(self, table: str, key: str, before: datetime, limit: int) -> int:
        query, end = DELETE_OLD.format(table=table, key=key), to_db_time(before)
        return await self._database.write(lambda tx: tx.execute(query, before=end, limit=limit))


def _lock(tx: Transaction, name: str) -> None:
    tx.execute(LOCK_MARK, name=name)


def _find_or_create_heats(
    tx: Transaction, accounts: Iterable[CompanyId], now: datetime
) -> list[AccountHeat]:
    wanted = list(accounts)
    known = {heat.account: heat for heat in HEATS.find_in(tx, "account_id", wanted)}
    return [known.get(account) or new_account_heat(account, now=now) for account in wanted]


def to_account_columns(
    states: Sequence[tuple[Any, ...]],
    rates: Iterable[tuple[Any, ...]],
    signals: Iterable[tuple[Any, ...]],
    recoveries: Iterable[tuple[int, float]] = (),
) -> AccountColumns:
    """Return accounts in columns, from rows of heats, of change rates and of signals in any order.

    A state is an account's id, score, posture, tier, since when it is in it, and since when the
    account is known; a signal is its account, time and strength. Signals of other accounts are
    passed over.
    """
    levels = {account: rest for account, *rest in rates}
    since: defaultdict[str, list[float]] = defaultdict(list)
    for account, at, strength in signals:
        seen_at = levels[account][0] if account in levels else None
        if seen_at is None or at > seen_at:
            since[account].append(strength)
    accounts, score, posture, tier, tier_since, known_at = (
        zip(*states, strict=True) if states else ((),) * 6
    )
    learned = [levels.get(account, _NO_LEVELS) for account in accounts]
    (
        surface_at,
        changes,
        days,
        deep_at,
        deep_changes,
        deep_days,
        tried,
        good,
        failed_at,
        rest_days,
        looks,
        brought,
        squares,
        stated,
    ) = zip(*learned, strict=True) if learned else ((),) * len(_NO_LEVELS)
    return AccountColumns(
        accounts=list(accounts),
        heat=np.array(score, np.float64),
        posture=np.array(posture, np.float64),
        tier=np.array([_RANKS[one] for one in tier], np.int8),
        tier_since=np.array([_to_days(at) for at in tier_since], np.float64),
        surface_at=np.array([_to_days(at) for at in surface_at], np.float64),
        surface_changes=np.array(changes, np.float64),
        surface_days=np.array(days, np.float64),
        deep_at=np.array([_to_days(at) for at in deep_at], np.float64),
        deep_changes=np.array(deep_changes, np.float64),
        deep_days=np.array(deep_days, np.float64),
        tried=np.array(tried, np.float64),
        good=np.array(good, np.float64),
        failed_at=np.array([_to_days(at) for at in failed_at], np.float64),
        rest_days=np.array([days or 0.0 for days in rest_days], np.float64),
        yield_looks=np.array([each or 0.0 for each in looks], np.float64),
        yield_sum=np.array([each or 0.0 for each in brought], np.float64),
        yield_squares=np.array([each or 0.0 for each in squares], np.float64),
        stated_value=np.array(stated, np.float64),
        known_at=np.array(
            [_to_days(at or since) for at, since in zip(known_at, tier_since, strict=True)],
            np.float64,
        ),
        # Summed exactly, so that the order in which a database returns them makes no difference.
        signals=np.array([fsum(since.get(account, ())) for account in accounts], np.float64),
        recovery=choose_recovery(_to_likelihoods(recoveries)),
    )


def _to_likelihoods(rows: Iterable[tuple[int, float]]) -> Floats:
    likelihoods = np.zeros(len(RECOVERIES))
    for place, likelihood in rows:
        likelihoods[place] = likelihood
    return likelihoods


@lru_cache(maxsize=4096)
def _to_days(at: str | datetime | None) -> float:
    return -np.inf if at is None else (from_db_time(at) - EPOCH) / _DAY
