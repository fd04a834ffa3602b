"""One tenant's signals, heats, beliefs and plans, in SQL.

Whoever moves a tenant's heats has them to itself until the transaction ends, and so has whoever
learns from looks: each reads rows, asks the core what becomes of them, and writes them back.

What every store can keep of signals, heats, looks and plans; the rest is refused.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Nothing was written when one of them refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from stoker.accounts.model import CompanyId
from stoker.accounts.row_checks import kept_id, kept_run_name
from stoker.base.errors import ConflictError, PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId, in_utc
from stoker.db.codec import kept_json, kept_text
from stoker.db.database import SqlDatabase, Transaction, asked, moment_text
from stoker.db.values import LONGEST_NAME, kept_name
from stoker.heat.beliefs import AccountBelief, BeliefRule, Observed, learned
from stoker.heat.columns import (
    BELIEF,
    HEAT,
    PLAN,
    SIGNAL,
    STANDS,
    belief_of,
    belief_row,
    columns_of,
    heat_of,
    heat_row,
    plan_of,
    signal_of,
    signal_row,
)
from stoker.heat.heat import AccountHeat, HeatRule, Signal, all_heated, arrived, unheard
from stoker.heat.model import AccountColumns, Added, PlanRecord
from stoker.heat.tiers import Tier, TierRule

LARGEST_PART = 64 * 2**20  # bytes


def kept_signals(signals: Iterable[Signal], *, now: datetime) -> dict[str, Signal]:
    """Return signals by id as a store gives them back; of two with one id the first counts."""
    now = in_utc(now)
    kept: dict[str, Signal] = {}
    for signal in signals:
        kept_name(signal.id, what="a signal's id")
        kept_id(signal.account)
        if len(kept_text(signal.source, what="a signal's source").encode()) > LONGEST_NAME:
            raise PermanentError(
                f"a signal's source is longer than {LONGEST_NAME} bytes; nothing was written"
            )
        kept.setdefault(signal.id, arrived(signal, now=now))
    return kept


def kept_postures(postures: Mapping[CompanyId, float]) -> dict[CompanyId, float]:
    """Return postures in the order of their accounts' ids."""
    for account, posture in postures.items():
        kept_id(account)
        _share(posture, what="a posture")
    return {account: float(postures[account]) for account in sorted(postures)}


def kept_heats(
    heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
) -> list[tuple[AccountHeat, AccountHeat]]:
    """Return heats with those they are put in place of, in the order of their accounts' ids."""
    accounts = [heat.account for heat in heats]
    if accounts != [heat.account for heat in expected] or len(set(accounts)) < len(accounts):
        raise PermanentError(
            "heats are put in place of those of the same accounts, each once; nothing was written"
        )
    # What is expected is compared and never written, so it may say anything.
    pairs = zip(map(_heat, heats), expected, strict=True)
    return sorted(pairs, key=lambda pair: pair[0].account)


def kept_looks(looks: Iterable[Observed]) -> dict[str, Observed]:
    """Return looks by their keys; of two with one key the first counts."""
    kept: dict[str, Observed] = {}
    for look in looks:
        kept_name(look.key, what="a look's key")
        kept_id(look.account)
        kept.setdefault(look.key, look)
    return kept


def kept_plan(plan: PlanRecord, parts: Sequence[bytes]) -> PlanRecord:
    """Return what was decided for a run as a store gives it back."""
    kept_run_name(plan.run)
    kept_name(plan.policy, what="a plan's policy")
    if any(len(part) > LARGEST_PART for part in parts):
        raise PermanentError(f"a part of a plan has at most {LARGEST_PART} bytes; make it smaller")
    at = in_utc(plan.at, what="when a plan was made")
    return replace(plan, at=at, header=kept_json(dict(plan.header), what="a plan's header"))


def another_plan(run: str) -> ConflictError:
    """Return what is raised when a run would decide twice."""
    return ConflictError(f"another plan of run {run} is kept already; nothing was written")


def _heat(heat: AccountHeat) -> AccountHeat:
    kept_id(heat.account)
    state, factors = heat.state, heat.factors
    for share in (factors.posture_score, factors.signal_recency, factors.signal_volume):
        _share(share, what="a factor")
    _share(heat.score, what="a score")
    moments = [heat.tier_since, heat.computed_at, heat.updated_at, *state.latest]
    moments += [moment for moment in (heat.below_since, state.as_of) if moment]
    if all(moment.tzinfo is UTC for moment in moments):  # as a store gave them, a million times
        return heat
    state = replace(
        state,
        as_of=_utc(state.as_of, what="the moment of a heat's state"),
        latest=tuple(in_utc(at, what="a signal's time") for at in state.latest),
    )
    return replace(
        heat,
        state=state,
        tier_since=in_utc(heat.tier_since, what="when a tier began"),
        below_since=_utc(heat.below_since, what="when a score fell"),
        computed_at=in_utc(heat.computed_at, what="when a heat was reckoned"),
        updated_at=in_utc(heat.updated_at, what="when a heat changed"),
    )


def _share(number: float, *, what: str) -> None:
    if not 0.0 <= number <= 1.0:
        raise PermanentError(f"{what} is 0 to 1, not {number!r}; nothing was written")


def _utc(moment: datetime | None, *, what: str) -> datetime | None:
    return None if moment is None else in_utc(moment, what=what)


# Holding such a row still is having the heats, or the beliefs, to oneself; it marks nothing.
DOOR = """
INSERT INTO account_marks (tenant_id, name, at) VALUES (:tenant, :name, NULL)
ON CONFLICT (tenant_id, name) DO UPDATE SET at = account_marks.at
"""

_HEAT, _BELIEF = HEAT.split(", "), BELIEF.split(", ")

_SAME = dict.fromkeys(("as_of", "below_since"), "IS NOT DISTINCT FROM")  # they may be missing

KNOWN_SIGNALS = """
SELECT s.id FROM asked JOIN account_signals s ON s.tenant_id = :tenant AND s.id = asked.id
"""

ADD_SIGNAL = f"INSERT INTO account_signals (tenant_id, {SIGNAL}) VALUES (?, ?, ?, ?, ?, ?, ?)"

SIGNALS = f"""
SELECT {SIGNAL} FROM account_signals WHERE tenant_id = :tenant AND account_id = :account
ORDER BY at DESC, id LIMIT :limit
"""

PRUNE_SIGNALS = """
DELETE FROM account_signals WHERE tenant_id = :tenant AND id IN (
    SELECT id FROM account_signals WHERE tenant_id = :tenant AND at < :before
    ORDER BY at, id LIMIT :limit)
"""

PUT_HEAT = f"""
INSERT INTO account_heats (tenant_id, {HEAT}) VALUES (?, {", ".join("?" * len(_HEAT))})
ON CONFLICT (tenant_id, account_id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in _HEAT[1:])}
"""

SWAP_HEAT = f"""
UPDATE account_heats SET {", ".join(f"{name} = ?" for name in _HEAT[1:])}
WHERE tenant_id = ? AND {" AND ".join(f"{name} {_SAME.get(name, '=')} ?" for name in _HEAT)}
"""

SOME_HEATS = f"""
SELECT h.{HEAT.replace(", ", ", h.")}
FROM asked JOIN account_heats h ON h.tenant_id = :tenant AND h.account_id = asked.id
"""

HEATS = f"""
SELECT {HEAT} FROM account_heats WHERE tenant_id = :tenant AND account_id > :after
ORDER BY account_id LIMIT :limit
"""

HOTTEST = f"""
SELECT {HEAT} FROM account_heats WHERE tenant_id = :tenant AND tier = :tier
ORDER BY score DESC, account_id LIMIT :limit
"""

KNOWN_LOOKS = """
SELECT l.key FROM asked JOIN looks_learned l ON l.tenant_id = :tenant AND l.key = asked.id
"""

ADD_LOOK = "INSERT INTO looks_learned (tenant_id, key, at) VALUES (?, ?, ?)"

TIERS = """
SELECT h.account_id, h.tier
FROM asked JOIN account_heats h ON h.tenant_id = :tenant AND h.account_id = asked.id
"""

SOME_BELIEFS = f"""
SELECT b.{BELIEF.replace(", ", ", b.")}
FROM asked JOIN account_beliefs b ON b.tenant_id = :tenant AND b.account_id = asked.id
"""

PUT_BELIEF = f"""
INSERT INTO account_beliefs (tenant_id, {BELIEF}) VALUES (?, {", ".join("?" * len(_BELIEF))})
ON CONFLICT (tenant_id, account_id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in _BELIEF[1:])}
"""

BELIEFS = f"""
SELECT {BELIEF} FROM account_beliefs WHERE tenant_id = :tenant AND account_id > :after
ORDER BY account_id LIMIT :limit
"""

# Three walks, put together here: a planner that has not counted the rows may join them so that
# each is compared with all others.
STANDING = f"""
SELECT {STANDS} FROM account_heats WHERE tenant_id = :tenant AND account_id > :after
ORDER BY account_id LIMIT :limit
"""

_THESE = "WHERE tenant_id = :tenant AND account_id > :after AND account_id <= :last"

BELIEFS_OF = f"SELECT {BELIEF} FROM account_beliefs {_THESE}"

STRENGTHS = f"SELECT account_id, at, strength FROM account_signals {_THESE}"

PRUNE_LOOKS = """
DELETE FROM looks_learned WHERE tenant_id = :tenant AND key IN (
    SELECT key FROM looks_learned WHERE tenant_id = :tenant AND at < :before
    ORDER BY at, key LIMIT :limit)
"""

ADD_PLAN = f"""
INSERT INTO pull_plans (tenant_id, {PLAN}) VALUES (:tenant, :run, :at, :policy, :header)
ON CONFLICT DO NOTHING
"""

ADD_PART = "INSERT INTO pull_plan_parts (tenant_id, run, number, part) VALUES (?, ?, ?, ?)"

PLAN_OF = f"SELECT {PLAN} FROM pull_plans WHERE tenant_id = :tenant AND run = :run"

PARTS = """
SELECT part FROM pull_plan_parts WHERE tenant_id = :tenant AND run = :run ORDER BY number
"""

PART = """
SELECT part FROM pull_plan_parts WHERE tenant_id = :tenant AND run = :run AND number = :number
"""

PLANS = f"SELECT {PLAN} FROM pull_plans WHERE tenant_id = :tenant ORDER BY run DESC LIMIT :limit"

DROP_PARTS = "DELETE FROM pull_plan_parts WHERE tenant_id = ? AND run = ?"

DROP_PLAN = "DELETE FROM pull_plans WHERE tenant_id = ? AND run = ?"


class SqlAttention:
    """An `AttentionStore` in the tables of heat and pulls."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def add_signals(
        self, signals: Sequence[Signal], *, rule: HeatRule, tiers: TierRule, now: datetime
    ) -> Added:
        now, said = in_utc(now), kept_signals(signals, now=now)

        def add(tx: Transaction) -> Added:
            self._enter(tx, "heats")
            known = {one for (one,) in self._some(tx, KNOWN_SIGNALS, sorted(said))}
            new = [signal for one, signal in said.items() if one not in known]
            by_account = {
                account: list(some)
                for account, some in groupby(
                    sorted(new, key=lambda signal: signal.account),
                    key=lambda signal: signal.account,
                )
            }
            before = self._heats(tx, by_account)
            moving = [before.get(account) or unheard(account, now=now) for account in by_account]
            heats = all_heated(moving, signals=by_account, now=now, rule=rule, tiers=tiers)
            in_order = sorted(new, key=lambda signal: signal.id)
            tx.change_many(ADD_SIGNAL, [(self._tenant, *signal_row(one)) for one in in_order])
            self._put(tx, heats)
            return Added(new=len(new), known=len(signals) - len(new), heats=tuple(heats))

        return await self._database.write(add) if said else Added()

    async def signals(self, account: CompanyId, *, limit: int = 100) -> list[Signal]:
        kept_id(account)
        rows = await self._database.read(
            lambda tx: tx.rows(SIGNALS, tenant=self._tenant, account=account, limit=limit)
        )
        return [signal_of(row) for row in rows]

    async def prune_signals(self, *, before: datetime, limit: int = 10_000) -> int:
        return await self._prune(PRUNE_SIGNALS, before, limit)

    async def put_postures(
        self,
        postures: Mapping[CompanyId, float],
        *,
        rule: HeatRule,
        tiers: TierRule,
        now: datetime,
    ) -> int:
        now, said = in_utc(now), kept_postures(postures)

        def put(tx: Transaction) -> int:
            self._enter(tx, "heats")
            before = self._heats(tx, said)
            moving = [
                before.get(account) or unheard(account, now=now)
                for account, posture in said.items()
                if account not in before or before[account].state.posture != posture
            ]
            moved = all_heated(moving, postures=said, now=now, rule=rule, tiers=tiers)
            self._put(tx, moved)
            return len(moved)

        return await self._database.write(put) if said else 0

    async def put_heats(
        self, heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
    ) -> int:
        rows = [
            (*heat_row(heat)[1:], self._tenant, *heat_row(seen))
            for heat, seen in kept_heats(heats, expected=expected)
        ]

        def put(tx: Transaction) -> int:
            self._enter(tx, "heats")
            return tx.change_many(SWAP_HEAT, rows)

        return await self._database.write(put) if rows else 0

    async def heat(self, account: CompanyId) -> AccountHeat | None:
        kept_id(account)
        found = await self._database.read(lambda tx: self._heats(tx, [account]))
        return found.get(account)

    async def heats(self, *, after: str = "", limit: int = 1000) -> list[AccountHeat]:
        return [heat_of(row) for row in await self._page(HEATS, after, limit)]

    async def hottest(self, *, limit: int = 20, tier: Tier | None = None) -> list[AccountHeat]:
        wanted = [tier] if tier else list(Tier)

        def find(tx: Transaction) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = []
            for one in wanted:
                found += tx.rows(HOTTEST, tenant=self._tenant, tier=one.value, limit=limit)
            return found

        heats = [heat_of(row) for row in await self._database.read(find)]
        return sorted(heats, key=lambda heat: (-heat.score, heat.account))[:limit]

    async def observe(self, looks: Sequence[Observed], *, rule: BeliefRule) -> int:
        said = kept_looks(looks)

        def learn(tx: Transaction) -> int:
            self._enter(tx, "beliefs")
            known = {key for (key,) in self._some(tx, KNOWN_LOOKS, sorted(said))}
            new = {key: said[key] for key in sorted(said) if key not in known}
            accounts = sorted({look.account for look in new.values()})
            tiers = {one: Tier(tier) for one, tier in self._some(tx, TIERS, accounts)}
            before = {row[0]: belief_of(row) for row in self._some(tx, SOME_BELIEFS, accounts)}
            after = learned(new.values(), known=before, tiers=tiers, rule=rule)
            told = [(self._tenant, key, moment_text(look.at)) for key, look in new.items()]
            tx.change_many(ADD_LOOK, told)
            moved = [(self._tenant, *belief_row(after[one])) for one in accounts]
            tx.change_many(PUT_BELIEF, moved)
            return len(new)

        return await self._database.write(learn) if said else 0

    async def beliefs(self, *, after: str = "", limit: int = 1000) -> list[AccountBelief]:
        return [belief_of(row) for row in await self._page(BELIEFS, after, limit)]

    async def columns(self, *, after: str = "", limit: int = 65_536) -> AccountColumns:
        kept_text(after, what="an account's id")

        def look(tx: Transaction) -> AccountColumns:
            rows = tx.rows(STANDING, tenant=self._tenant, after=after, limit=limit)
            these = {"after": after, "last": rows[-1][0] if rows else after}
            beliefs = tx.rows(BELIEFS_OF, tenant=self._tenant, **these)
            return columns_of(rows, beliefs, tx.rows(STRENGTHS, tenant=self._tenant, **these))

        return await self._database.read(look)

    async def prune_looks(self, *, before: datetime, limit: int = 10_000) -> int:
        return await self._prune(PRUNE_LOOKS, before, limit)

    async def keep_plan(self, plan: PlanRecord, parts: Sequence[bytes]) -> bool:
        kept, parts = kept_plan(plan, parts), list(map(bytes, parts))
        header = compact_json(kept.header)

        def keep(tx: Transaction) -> bool:
            place = {"tenant": self._tenant, "run": kept.run}
            if tx.change(
                ADD_PLAN, **place, at=moment_text(kept.at), policy=kept.policy, header=header
            ):
                numbered = enumerate(parts)
                tx.change_many(ADD_PART, [(*place.values(), n, part) for n, part in numbered])
                return True
            known = [plan_of(row) for row in tx.rows(PLAN_OF, **place)]
            if known != [kept] or [part for (part,) in tx.rows(PARTS, **place)] != parts:
                raise another_plan(kept.run)
            return False

        return await self._database.write(keep)

    async def plan(self, run: str) -> PlanRecord | None:
        kept_run_name(run)
        rows = await self._database.read(lambda tx: tx.rows(PLAN_OF, tenant=self._tenant, run=run))
        return plan_of(rows[0]) if rows else None

    async def plan_part(self, run: str, number: int) -> bytes | None:
        kept_run_name(run)
        rows = await self._database.read(
            lambda tx: tx.rows(PART, tenant=self._tenant, run=run, number=number)
        )
        return rows[0][0] if rows else None

    async def plans(self, *, limit: int = 100) -> list[PlanRecord]:
        rows = await self._database.read(
            lambda tx: tx.rows(PLANS, tenant=self._tenant, limit=limit)
        )
        return [plan_of(row) for row in rows]

    async def drop_plans(self, runs: Sequence[str]) -> int:
        rows = [(self._tenant, run) for run in sorted(set(map(kept_run_name, runs)))]

        def drop(tx: Transaction) -> int:
            tx.change_many(DROP_PARTS, rows)
            return tx.change_many(DROP_PLAN, rows)

        return await self._database.write(drop) if rows else 0

    def _enter(self, tx: Transaction, name: str) -> None:
        tx.change(DOOR, tenant=self._tenant, name=name)

    def _some(self, tx: Transaction, query: str, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for question, some in asked(query, ids):
            found += tx.rows(question, tenant=self._tenant, **some)
        return found

    def _heats(
        self, tx: Transaction, accounts: Iterable[CompanyId]
    ) -> dict[CompanyId, AccountHeat]:
        found = map(heat_of, self._some(tx, SOME_HEATS, list(accounts)))
        return {heat.account: heat for heat in found}

    def _put(self, tx: Transaction, heats: Sequence[AccountHeat]) -> None:
        tx.change_many(PUT_HEAT, [(self._tenant, *heat_row(heat)) for heat in heats])

    async def _page(self, query: str, after: str, limit: int) -> list[tuple[Any, ...]]:
        kept_text(after, what="an account's id")
        return await self._database.read(
            lambda tx: tx.rows(query, tenant=self._tenant, after=after, limit=limit)
        )

    async def _prune(self, query: str, before: datetime, limit: int) -> int:
        end = moment_text(before)
        return await self._database.write(
            lambda tx: tx.change(query, tenant=self._tenant, before=end, limit=limit)
        )
