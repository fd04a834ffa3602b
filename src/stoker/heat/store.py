"""Store one tenant's signals, heats, change rates and plans in SQL.

A transaction that updates a tenant's heats or change rates locks them until it ends: it reads rows,
computes new ones and writes them back. The `validate_` functions return a value as the store reads
it back, or raise before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from stoker.accounts.model import CompanyId
from stoker.accounts.row_checks import validate_company_id, validate_run_name
from stoker.base.errors import ConflictError, PermanentError
from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId, to_utc
from stoker.db.codec import validate_json, validate_text
from stoker.db.database import Database, Transaction, split_into_batches, to_db_time
from stoker.db.values import MAX_KEY_BYTES, validate_key
from stoker.heat.beliefs import AccountChangeRate, LookupObservation, learn_change_rates
from stoker.heat.columns import (
    CHANGE_RATE_FIELDS,
    HEAT_FIELDS,
    PLAN_FIELDS,
    SIGNAL_FIELDS,
    STATE_FIELDS,
    parse_change_rate_row,
    parse_heat_row,
    parse_plan_row,
    parse_signal_row,
    to_account_columns,
    to_change_rate_row,
    to_heat_row,
    to_signal_row,
)
from stoker.heat.heat import (
    AccountHeat,
    Signal,
    clamp_signal_date,
    compute_heats,
    new_account_heat,
)
from stoker.heat.model import AccountColumns, AddedSignals, PlanRecord
from stoker.heat.settings import ChangeRateRule, HeatRule, TierRule
from stoker.heat.tiers import Tier
from stoker.ledger.chain import NewEntry
from stoker.ledger.store import append_entries

MAX_PART_BYTES = 64 * 2**20  # bytes


def validate_signals(signals: Iterable[Signal], *, now: datetime) -> dict[str, Signal]:
    """Return signals by id as a store gives them back; of two with one id the first counts."""
    now = to_utc(now)
    valid: dict[str, Signal] = {}
    for signal in signals:
        validate_key(signal.id, what="a signal's id")
        validate_company_id(signal.account)
        if len(validate_text(signal.source, what="a signal's source").encode()) > MAX_KEY_BYTES:
            raise PermanentError(
                f"a signal's source is longer than {MAX_KEY_BYTES} bytes; nothing was written"
            )
        valid.setdefault(signal.id, clamp_signal_date(signal, now=now))
    return valid


def validate_postures(postures: Mapping[CompanyId, float]) -> dict[CompanyId, float]:
    """Return postures in the order of their accounts' ids."""
    for account, posture in postures.items():
        validate_company_id(account)
        _check_share(posture, what="a posture")
    return {account: float(postures[account]) for account in sorted(postures)}


def validate_heats(
    heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
) -> list[tuple[AccountHeat, AccountHeat]]:
    """Return heats with those they are put in place of, in the order of their accounts' ids."""
    accounts = [heat.account for heat in heats]
    if accounts != [heat.account for heat in expected] or len(set(accounts)) < len(accounts):
        raise PermanentError(
            "heats are put in place of those of the same accounts, each once; nothing was written"
        )
    # What is expected is compared and never written, so it may say anything.
    pairs = zip(map(_validate_heat, heats), expected, strict=True)
    return sorted(pairs, key=lambda pair: pair[0].account)


def validate_lookups(looks: Iterable[LookupObservation]) -> dict[str, LookupObservation]:
    """Return lookups by their keys; of two with one key the first counts."""
    valid: dict[str, LookupObservation] = {}
    for look in looks:
        validate_key(look.key, what="a look's key")
        validate_company_id(look.account)
        valid.setdefault(look.key, look)
    return valid


def validate_plan(plan: PlanRecord, parts: Sequence[bytes]) -> PlanRecord:
    """Return what was decided for a run as a store gives it back."""
    validate_run_name(plan.run)
    validate_key(plan.policy, what="a plan's policy")
    if any(len(part) > MAX_PART_BYTES for part in parts):
        raise PermanentError(
            f"a part of a plan has at most {MAX_PART_BYTES} bytes; make it smaller"
        )
    at = to_utc(plan.at, what="when a plan was made")
    return replace(plan, at=at, header=validate_json(dict(plan.header), what="a plan's header"))


def build_plan_conflict(run: str) -> ConflictError:
    """Return what is raised when a run would decide twice."""
    return ConflictError(f"another plan of run {run} is saved already; nothing was written")


def _validate_heat(heat: AccountHeat) -> AccountHeat:
    validate_company_id(heat.account)
    state, factors = heat.state, heat.factors
    for share in (factors.posture_score, factors.signal_recency, factors.signal_volume):
        _check_share(share, what="a factor")
    _check_share(heat.score, what="a score")
    moments = [heat.tier_since, heat.computed_at, heat.updated_at, *state.latest]
    moments += [moment for moment in (heat.below_since, state.as_of) if moment]
    if all(moment.tzinfo is UTC for moment in moments):  # as a store gave them, a million times
        return heat
    state = replace(
        state,
        as_of=_to_utc(state.as_of, what="the moment of a heat's state"),
        latest=tuple(to_utc(at, what="a signal's time") for at in state.latest),
    )
    return replace(
        heat,
        state=state,
        tier_since=to_utc(heat.tier_since, what="when a tier began"),
        below_since=_to_utc(heat.below_since, what="when a score fell"),
        computed_at=to_utc(heat.computed_at, what="when a heat was computed"),
        updated_at=to_utc(heat.updated_at, what="when a heat changed"),
    )


def _check_share(number: float, *, what: str) -> None:
    if not 0.0 <= number <= 1.0:
        raise PermanentError(f"{what} is 0 to 1, not {number!r}; nothing was written")


def _to_utc(moment: datetime | None, *, what: str) -> datetime | None:
    return None if moment is None else to_utc(moment, what=what)


# A transaction locks such a row to have the heats, or the change rates, to itself.
LOCK_MARK = """
INSERT INTO account_marks (tenant_id, name, at) VALUES (:tenant, :name, NULL)
ON CONFLICT (tenant_id, name) DO UPDATE SET at = account_marks.at
"""

_HEAT_NAMES, _CHANGE_RATE_NAMES = HEAT_FIELDS.split(", "), CHANGE_RATE_FIELDS.split(", ")

_SAME_OPERATORS = dict.fromkeys(
    ("as_of", "below_since"), "IS NOT DISTINCT FROM"
)  # they may be missing

SELECT_KNOWN_SIGNALS = """
SELECT s.id FROM asked JOIN account_signals s ON s.tenant_id = :tenant AND s.id = asked.id
"""

INSERT_SIGNAL = (
    f"INSERT INTO account_signals (tenant_id, {SIGNAL_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
)

SELECT_SIGNALS = f"""
SELECT {SIGNAL_FIELDS} FROM account_signals WHERE tenant_id = :tenant AND account_id = :account
ORDER BY at DESC, id LIMIT :limit
"""

DELETE_OLD_SIGNALS = """
DELETE FROM account_signals WHERE tenant_id = :tenant AND id IN (
    SELECT id FROM account_signals WHERE tenant_id = :tenant AND at < :before
    ORDER BY at, id LIMIT :limit)
"""

UPSERT_HEAT = f"""
INSERT INTO account_heats (tenant_id, {HEAT_FIELDS}) VALUES (?, {", ".join("?" * len(_HEAT_NAMES))})
ON CONFLICT (tenant_id, account_id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in _HEAT_NAMES[1:])}
"""

UPDATE_HEAT_IF_UNCHANGED = f"""
UPDATE account_heats SET {", ".join(f"{name} = ?" for name in _HEAT_NAMES[1:])}
WHERE tenant_id = ? AND {
    " AND ".join(f"{name} {_SAME_OPERATORS.get(name, '=')} ?" for name in _HEAT_NAMES)
}
"""

SELECT_HEATS_OF = f"""
SELECT h.{HEAT_FIELDS.replace(", ", ", h.")}
FROM asked JOIN account_heats h ON h.tenant_id = :tenant AND h.account_id = asked.id
"""

SELECT_HEATS = f"""
SELECT {HEAT_FIELDS} FROM account_heats WHERE tenant_id = :tenant AND account_id > :after
ORDER BY account_id LIMIT :limit
"""

SELECT_HOTTEST = f"""
SELECT {HEAT_FIELDS} FROM account_heats WHERE tenant_id = :tenant AND tier = :tier
ORDER BY score DESC, account_id LIMIT :limit
"""

SELECT_KNOWN_LOOKUPS = """
SELECT l.key FROM asked JOIN looks_learned l ON l.tenant_id = :tenant AND l.key = asked.id
"""

INSERT_LOOKUP = "INSERT INTO looks_learned (tenant_id, key, at) VALUES (?, ?, ?)"

SELECT_TIERS = """
SELECT h.account_id, h.tier
FROM asked JOIN account_heats h ON h.tenant_id = :tenant AND h.account_id = asked.id
"""

SELECT_CHANGE_RATES_OF = f"""
SELECT b.{CHANGE_RATE_FIELDS.replace(", ", ", b.")}
FROM asked JOIN account_beliefs b ON b.tenant_id = :tenant AND b.account_id = asked.id
"""

UPSERT_CHANGE_RATE = f"""
INSERT INTO account_beliefs (tenant_id, {CHANGE_RATE_FIELDS}) VALUES (?, {
    ", ".join("?" * len(_CHANGE_RATE_NAMES))
})
ON CONFLICT (tenant_id, account_id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in _CHANGE_RATE_NAMES[1:])}
"""

SELECT_CHANGE_RATES = f"""
SELECT {CHANGE_RATE_FIELDS} FROM account_beliefs WHERE tenant_id = :tenant AND account_id > :after
ORDER BY account_id LIMIT :limit
"""

# Three walks, put together here: a planner that has not counted the rows may join them so that
# each is compared with all others.
SELECT_STATES = f"""
SELECT {STATE_FIELDS} FROM account_heats WHERE tenant_id = :tenant AND account_id > :after
ORDER BY account_id LIMIT :limit
"""

_IN_PAGE = "WHERE tenant_id = :tenant AND account_id > :after AND account_id <= :last"

SELECT_PAGE_CHANGE_RATES = f"SELECT {CHANGE_RATE_FIELDS} FROM account_beliefs {_IN_PAGE}"

SELECT_PAGE_SIGNALS = f"SELECT account_id, at, strength FROM account_signals {_IN_PAGE}"

DELETE_OLD_LOOKUPS = """
DELETE FROM looks_learned WHERE tenant_id = :tenant AND key IN (
    SELECT key FROM looks_learned WHERE tenant_id = :tenant AND at < :before
    ORDER BY at, key LIMIT :limit)
"""

INSERT_PLAN = f"""
INSERT INTO pull_plans (tenant_id, {PLAN_FIELDS}) VALUES (:tenant, :run, :at, :policy, :header)
ON CONFLICT DO NOTHING
"""

INSERT_PLAN_PART = "INSERT INTO pull_plan_parts (tenant_id, run, number, part) VALUES (?, ?, ?, ?)"

SELECT_PLAN = f"SELECT {PLAN_FIELDS} FROM pull_plans WHERE tenant_id = :tenant AND run = :run"

SELECT_PLAN_PARTS = """
SELECT part FROM pull_plan_parts WHERE tenant_id = :tenant AND run = :run ORDER BY number
"""

SELECT_PLAN_PART = """
SELECT part FROM pull_plan_parts WHERE tenant_id = :tenant AND run = :run AND number = :number
"""

SELECT_PLANS = (
    f"SELECT {PLAN_FIELDS} FROM pull_plans WHERE tenant_id = :tenant ORDER BY run DESC LIMIT :limit"
)

DELETE_PLAN_PARTS = "DELETE FROM pull_plan_parts WHERE tenant_id = ? AND run = ?"

DELETE_PLAN = "DELETE FROM pull_plans WHERE tenant_id = ? AND run = ?"


class SqlPullStore:
    """An `AttentionStore` in the tables of heat and pulls."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def add_signals(
        self, signals: Sequence[Signal], *, rule: HeatRule, tiers: TierRule, now: datetime
    ) -> AddedSignals:
        now, valid = to_utc(now), validate_signals(signals, now=now)

        def add(tx: Transaction) -> AddedSignals:
            self._lock(tx, "heats")
            known = {one for (one,) in self._select_some(tx, SELECT_KNOWN_SIGNALS, sorted(valid))}
            new = [signal for one, signal in valid.items() if one not in known]
            by_account = {
                account: list(some)
                for account, some in groupby(
                    sorted(new, key=lambda signal: signal.account),
                    key=lambda signal: signal.account,
                )
            }
            before = self._select_heats(tx, by_account)
            moving = [
                before.get(account) or new_account_heat(account, now=now) for account in by_account
            ]
            heats = compute_heats(moving, signals=by_account, now=now, rule=rule, tiers=tiers)
            in_order = sorted(new, key=lambda signal: signal.id)
            tx.execute_many(
                INSERT_SIGNAL, [(self._tenant, *to_signal_row(one)) for one in in_order]
            )
            self._upsert_heats(tx, heats)
            return AddedSignals(new=len(new), known=len(signals) - len(new), heats=tuple(heats))

        return await self._database.write(add) if valid else AddedSignals()

    async def list_signals(self, account: CompanyId, *, limit: int = 100) -> list[Signal]:
        validate_company_id(account)
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_SIGNALS, tenant=self._tenant, account=account, limit=limit)
        )
        return [parse_signal_row(row) for row in rows]

    async def delete_old_signals(self, *, before: datetime, limit: int = 10_000) -> int:
        return await self._delete_old(DELETE_OLD_SIGNALS, before, limit)

    async def update_postures(
        self,
        postures: Mapping[CompanyId, float],
        *,
        rule: HeatRule,
        tiers: TierRule,
        now: datetime,
    ) -> int:
        now, valid = to_utc(now), validate_postures(postures)

        def put(tx: Transaction) -> int:
            self._lock(tx, "heats")
            before = self._select_heats(tx, valid)
            moving = [
                before.get(account) or new_account_heat(account, now=now)
                for account, posture in valid.items()
                if account not in before or before[account].state.posture != posture
            ]
            moved = compute_heats(moving, postures=valid, now=now, rule=rule, tiers=tiers)
            self._upsert_heats(tx, moved)
            return len(moved)

        return await self._database.write(put) if valid else 0

    async def update_heats(
        self, heats: Sequence[AccountHeat], *, expected: Sequence[AccountHeat]
    ) -> int:
        rows = [
            (*to_heat_row(heat)[1:], self._tenant, *to_heat_row(seen))
            for heat, seen in validate_heats(heats, expected=expected)
        ]

        def put(tx: Transaction) -> int:
            self._lock(tx, "heats")
            return tx.execute_many(UPDATE_HEAT_IF_UNCHANGED, rows)

        return await self._database.write(put) if rows else 0

    async def find_heat(self, account: CompanyId) -> AccountHeat | None:
        validate_company_id(account)
        heats = await self._database.read(lambda tx: self._select_heats(tx, [account]))
        return heats.get(account)

    async def list_heats(self, *, after: str = "", limit: int = 1000) -> list[AccountHeat]:
        return [parse_heat_row(row) for row in await self._select_page(SELECT_HEATS, after, limit)]

    async def list_hottest(self, *, limit: int = 20, tier: Tier | None = None) -> list[AccountHeat]:
        wanted = [tier] if tier else list(Tier)

        def find(tx: Transaction) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = []
            for one in wanted:
                rows += tx.query(SELECT_HOTTEST, tenant=self._tenant, tier=one.value, limit=limit)
            return rows

        heats = [parse_heat_row(row) for row in await self._database.read(find)]
        return sorted(heats, key=lambda heat: (-heat.score, heat.account))[:limit]

    async def record_lookups(
        self, looks: Sequence[LookupObservation], *, rule: ChangeRateRule
    ) -> int:
        valid = validate_lookups(looks)

        def learn(tx: Transaction) -> int:
            self._lock(tx, "beliefs")
            known = {key for (key,) in self._select_some(tx, SELECT_KNOWN_LOOKUPS, sorted(valid))}
            new = {key: valid[key] for key in sorted(valid) if key not in known}
            accounts = sorted({look.account for look in new.values()})
            tiers = {one: Tier(tier) for one, tier in self._select_some(tx, SELECT_TIERS, accounts)}
            before = {
                row[0]: parse_change_rate_row(row)
                for row in self._select_some(tx, SELECT_CHANGE_RATES_OF, accounts)
            }
            after = learn_change_rates(new.values(), known=before, tiers=tiers, rule=rule)
            rows = [(self._tenant, key, to_db_time(look.at)) for key, look in new.items()]
            tx.execute_many(INSERT_LOOKUP, rows)
            moved = [(self._tenant, *to_change_rate_row(after[one])) for one in accounts]
            tx.execute_many(UPSERT_CHANGE_RATE, moved)
            return len(new)

        return await self._database.write(learn) if valid else 0

    async def list_change_rates(
        self, *, after: str = "", limit: int = 1000
    ) -> list[AccountChangeRate]:
        return [
            parse_change_rate_row(row)
            for row in await self._select_page(SELECT_CHANGE_RATES, after, limit)
        ]

    async def read_columns(self, *, after: str = "", limit: int = 65_536) -> AccountColumns:
        validate_text(after, what="an account's id")

        def look(tx: Transaction) -> AccountColumns:
            rows = tx.query(SELECT_STATES, tenant=self._tenant, after=after, limit=limit)
            these = {"after": after, "last": rows[-1][0] if rows else after}
            beliefs = tx.query(SELECT_PAGE_CHANGE_RATES, tenant=self._tenant, **these)
            return to_account_columns(
                rows, beliefs, tx.query(SELECT_PAGE_SIGNALS, tenant=self._tenant, **these)
            )

        return await self._database.read(look)

    async def delete_old_lookups(self, *, before: datetime, limit: int = 10_000) -> int:
        return await self._delete_old(DELETE_OLD_LOOKUPS, before, limit)

    async def insert_plan(
        self, plan: PlanRecord, parts: Sequence[bytes], *, entry: NewEntry | None = None
    ) -> bool:
        record, parts = validate_plan(plan, parts), list(map(bytes, parts))
        header = compact_json(record.header)

        def insert(tx: Transaction) -> bool:
            key = {"tenant": self._tenant, "run": record.run}
            if tx.execute(
                INSERT_PLAN, **key, at=to_db_time(record.at), policy=record.policy, header=header
            ):
                rows = [
                    (self._tenant, record.run, number, part) for number, part in enumerate(parts)
                ]
                tx.execute_many(INSERT_PLAN_PART, rows)
                append_entries(tx, [entry] if entry else [])
                return True
            known = [parse_plan_row(row) for row in tx.query(SELECT_PLAN, **key)]
            known_parts = [part for (part,) in tx.query(SELECT_PLAN_PARTS, **key)]
            if known != [record] or known_parts != parts:
                raise build_plan_conflict(record.run)
            return False

        return await self._database.write(insert)

    async def find_plan(self, run: str) -> PlanRecord | None:
        validate_run_name(run)
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_PLAN, tenant=self._tenant, run=run)
        )
        return parse_plan_row(rows[0]) if rows else None

    async def find_plan_part(self, run: str, number: int) -> bytes | None:
        validate_run_name(run)
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_PLAN_PART, tenant=self._tenant, run=run, number=number)
        )
        return rows[0][0] if rows else None

    async def list_plans(self, *, limit: int = 100) -> list[PlanRecord]:
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_PLANS, tenant=self._tenant, limit=limit)
        )
        return [parse_plan_row(row) for row in rows]

    async def delete_plans(self, runs: Sequence[str]) -> int:
        rows = [(self._tenant, run) for run in sorted(set(map(validate_run_name, runs)))]

        def drop(tx: Transaction) -> int:
            tx.execute_many(DELETE_PLAN_PARTS, rows)
            return tx.execute_many(DELETE_PLAN, rows)

        return await self._database.write(drop) if rows else 0

    def _lock(self, tx: Transaction, name: str) -> None:
        tx.execute(LOCK_MARK, tenant=self._tenant, name=name)

    def _select_some(
        self, tx: Transaction, query: str, ids: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for question, some in split_into_batches(query, ids):
            rows += tx.query(question, tenant=self._tenant, **some)
        return rows

    def _select_heats(
        self, tx: Transaction, accounts: Iterable[CompanyId]
    ) -> dict[CompanyId, AccountHeat]:
        heats = map(parse_heat_row, self._select_some(tx, SELECT_HEATS_OF, list(accounts)))
        return {heat.account: heat for heat in heats}

    def _upsert_heats(self, tx: Transaction, heats: Sequence[AccountHeat]) -> None:
        tx.execute_many(UPSERT_HEAT, [(self._tenant, *to_heat_row(heat)) for heat in heats])

    async def _select_page(self, query: str, after: str, limit: int) -> list[tuple[Any, ...]]:
        validate_text(after, what="an account's id")
        return await self._database.read(
            lambda tx: tx.query(query, tenant=self._tenant, after=after, limit=limit)
        )

    async def _delete_old(self, query: str, before: datetime, limit: int) -> int:
        end = to_db_time(before)
        return await self._database.write(
            lambda tx: tx.execute(query, tenant=self._tenant, before=end, limit=limit)
        )
