"""Store tenants and one tenant's companies in SQL.

Rows are written in the order of their keys, so that two writers never deadlock. `company_store`
writes and reads company records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from stoker.accounts.company_store import (
    COMPANY_COLUMNS,
    CONNECTION_COLUMNS,
    RULE_COLUMNS,
    UPSERT_COMPANY,
    find_company_record,
    list_company_records,
    to_company,
    to_company_row,
    to_connection,
    to_rule,
    to_rule_values,
)
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Candidate,
    Company,
    CompanyId,
    CompanyRecord,
    CrmConnection,
    Tenant,
    UpsertCount,
    merge_company,
)
from stoker.accounts.row_checks import (
    select_ids_between,
    validate_company,
    validate_company_id,
    validate_connection,
    validate_rule,
    validate_run_name,
    validate_tenant,
)
from stoker.base.types import TenantId, to_utc
from stoker.db.codec import validate_text
from stoker.db.database import (
    Database,
    Transaction,
    Value,
    from_db_time,
    from_optional_db_time,
    split_into_batches,
    to_db_time,
    to_optional_db_time,
)
from stoker.db.values import validate_key

UPSERT_TENANT = """
INSERT INTO tenants (id, name, active) VALUES (:id, :name, :active)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, active = excluded.active
WHERE tenants.name <> excluded.name OR tenants.active <> excluded.active
"""

SELECT_TENANTS = "SELECT id, name, active FROM tenants ORDER BY id"

INSERT_SETUP_STEP = """
INSERT INTO onboarding_status (tenant_id, step, done_at) VALUES (:tenant, :step, :at)
ON CONFLICT DO NOTHING
"""

SELECT_SETUP_STEPS = (
    "SELECT step, done_at FROM onboarding_status WHERE tenant_id = :tenant ORDER BY step"
)

UPSERT_RULE = f"""
INSERT INTO icp_rules (tenant_id, {RULE_COLUMNS})
VALUES (:tenant, :name, :industries, :least_employees, :most_employees, :first_year, :last_year)
ON CONFLICT (tenant_id, name) DO UPDATE SET industries = excluded.industries,
    least_employees = excluded.least_employees, most_employees = excluded.most_employees,
    first_year = excluded.first_year, last_year = excluded.last_year
"""

SELECT_RULE = f"SELECT {RULE_COLUMNS} FROM icp_rules WHERE tenant_id = :tenant AND name = :name"

UPSERT_CONNECTION = f"""
INSERT INTO odoo_connections (tenant_id, {CONNECTION_COLUMNS})
VALUES (:tenant, :kind, :url, :database_name, :active, :key_expires_at)
ON CONFLICT (tenant_id) DO UPDATE SET kind = excluded.kind, url = excluded.url,
    database_name = excluded.database_name, active = excluded.active,
    key_expires_at = excluded.key_expires_at
"""

SELECT_CONNECTION = f"SELECT {CONNECTION_COLUMNS} FROM odoo_connections WHERE tenant_id = :tenant"

SELECT_REGISTRY_CURSOR = (
    "SELECT at FROM account_marks WHERE tenant_id = :tenant AND name = 'register'"
)

UPSERT_REGISTRY_CURSOR = """
INSERT INTO account_marks (tenant_id, name, at) VALUES (:tenant, 'register', :at)
ON CONFLICT (tenant_id, name) DO UPDATE SET at = excluded.at
"""

SELECT_KNOWN_COMPANIES = f"""
SELECT c.{COMPANY_COLUMNS.replace(", ", ", c.")}
FROM asked JOIN companies c ON c.tenant_id = :tenant AND c.id = asked.id
"""

SELECT_COMPANIES = f"""
SELECT {COMPANY_COLUMNS} FROM companies WHERE tenant_id = :tenant AND id > :after ORDER BY id LIMIT
:limit
"""

# Locks the candidates; the row itself means nothing.
LOCK_CANDIDATES = """
INSERT INTO account_marks (tenant_id, name, at) VALUES (:tenant, 'candidates', NULL)
ON CONFLICT (tenant_id, name) DO UPDATE SET at = account_marks.at
"""

SELECT_CANDIDATE_IDS = """
SELECT company_id FROM icp_candidate_companies
WHERE tenant_id = :tenant AND rule = :rule AND company_id > :after
"""

SELECT_CANDIDATE_IDS_UP_TO = f"{SELECT_CANDIDATE_IDS} AND company_id <= :upto"

DELETE_CANDIDATE = """
DELETE FROM icp_candidate_companies WHERE tenant_id = ? AND rule = ? AND company_id = ?
"""

INSERT_CANDIDATE = (
    "INSERT INTO icp_candidate_companies (tenant_id, rule, company_id) VALUES (?, ?, ?)"
)

SELECT_CANDIDATES = """
SELECT c.id, s.company_id IS NOT NULL, (SELECT count(*) FROM contacts k
    WHERE k.tenant_id = c.tenant_id AND k.company_id = c.id), c.last_seen, f.looked_at,
    coalesce(h.score, 0.0)
FROM icp_candidate_companies i JOIN companies c ON c.tenant_id = i.tenant_id AND c.id = i.company_id
LEFT JOIN lead_scores s ON s.tenant_id = c.tenant_id AND s.company_id = c.id
LEFT JOIN company_findings f ON f.tenant_id = c.tenant_id AND f.company_id = c.id
LEFT JOIN account_heats h ON h.tenant_id = c.tenant_id AND h.account_id = c.id
WHERE i.tenant_id = :tenant AND i.rule = :rule AND i.company_id > :after
ORDER BY i.company_id LIMIT :limit
"""

COUNT_VISITED = """
SELECT count(*) FROM company_findings WHERE tenant_id = :tenant AND looked_at >= :since
"""


SELECT_VISITED = """
SELECT f.company_id FROM asked JOIN company_findings f
    ON f.tenant_id = :tenant AND f.company_id = asked.id
WHERE f.looked_at >= :since
"""


class SqlTenantDirectory:
    """The tenants in the table `tenants`, which belongs to no tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_tenant(self, tenant: Tenant) -> bool:
        validate_tenant(tenant)
        return bool(
            await self._database.write(
                lambda tx: tx.execute(
                    UPSERT_TENANT, id=tenant.id, name=tenant.name, active=tenant.active
                )
            )
        )

    async def list_tenants(self) -> list[Tenant]:
        rows = await self._database.read(lambda tx: tx.query(SELECT_TENANTS))
        return [Tenant(id=one, name=name, active=bool(active)) for one, name, active in rows]


class SqlAccounts:
    """One tenant's companies, rules and connection in SQL."""

    def __init__(self, database: Database, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def complete_setup_step(self, step: str, *, at: datetime) -> None:
        values = {"step": validate_key(step, what="a step"), "at": to_db_time(at)}
        await self._database.write(
            lambda tx: tx.execute(INSERT_SETUP_STEP, tenant=self._tenant, **values)
        )

    async def list_setup_steps(self) -> dict[str, datetime]:
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_SETUP_STEPS, tenant=self._tenant)
        )
        return {step: from_db_time(done_at) for step, done_at in rows}

    async def save_rule(self, rule: IcpRule) -> None:
        values = to_rule_values(validate_rule(rule))
        await self._database.write(
            lambda tx: tx.execute(UPSERT_RULE, tenant=self._tenant, **values)
        )

    async def find_rule(self, name: str) -> IcpRule | None:
        validate_key(name, what="a rule's name")
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_RULE, tenant=self._tenant, name=name)
        )
        return to_rule(rows[0]) if rows else None

    async def save_connection(self, connection: CrmConnection) -> None:
        valid = validate_connection(connection)
        await self._database.write(
            lambda tx: tx.execute(
                UPSERT_CONNECTION,
                tenant=self._tenant,
                kind=valid.kind,
                url=valid.url,
                database_name=valid.database,
                active=valid.active,
                key_expires_at=to_optional_db_time(valid.key_expires_at),
            )
        )

    async def find_connection(self) -> CrmConnection | None:
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_CONNECTION, tenant=self._tenant)
        )
        return to_connection(rows[0]) if rows else None

    async def upsert_companies(self, companies: Sequence[Company], *, now: datetime) -> UpsertCount:
        now, valid = to_utc(now), [validate_company(company) for company in companies]
        return await self._database.write(lambda tx: self._upsert_companies(tx, valid, now=now))

    async def list_companies(self, *, after: str = "", limit: int = 1000) -> list[Company]:
        validate_text(after, what="a company's id")
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_COMPANIES, tenant=self._tenant, after=after, limit=limit)
        )
        return [to_company(row) for row in rows]

    async def save_candidates(
        self, ids: Sequence[CompanyId], *, rule: str, after: str = "", upto: str | None = None
    ) -> None:
        fitting = select_ids_between(
            [validate_company_id(one) for one in ids], after=after, upto=upto
        )
        values: dict[str, Value] = {
            "rule": validate_key(rule, what="a rule's name"),
            "after": after,
        }
        if upto is not None:
            values["upto"] = upto
        select_ids = SELECT_CANDIDATE_IDS if upto is None else SELECT_CANDIDATE_IDS_UP_TO

        def replace_candidates(tx: Transaction) -> None:
            tx.execute(LOCK_CANDIDATES, tenant=self._tenant)
            before = {one for (one,) in tx.query(select_ids, tenant=self._tenant, **values)}
            for query, some in (
                (DELETE_CANDIDATE, before - fitting),
                (INSERT_CANDIDATE, fitting - before),
            ):
                if some:
                    tx.execute_many(query, [(self._tenant, rule, one) for one in sorted(some)])

        await self._database.write(replace_candidates)

    async def list_candidates(
        self, *, rule: str, after: str = "", limit: int = 1000
    ) -> list[Candidate]:
        values = {"rule": validate_key(rule, what="a rule's name"), "after": after}
        validate_text(after, what="a company's id")
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_CANDIDATES, tenant=self._tenant, limit=limit, **values)
        )
        return [
            Candidate(
                id=one,
                scored=bool(scored),
                contacts=contacts,
                last_seen_at=from_optional_db_time(last_seen),
                last_looked_at=from_optional_db_time(looked_at),
                heat=float(heat),
            )
            for one, scored, contacts, last_seen, looked_at, heat in rows
        ]

    async def count_visited_since(self, since: datetime) -> int:
        text = to_db_time(since)
        rows = await self._database.read(
            lambda tx: tx.query(COUNT_VISITED, tenant=self._tenant, since=text)
        )
        return int(rows[0][0])

    async def list_visited_since(
        self, companies: Sequence[CompanyId], since: datetime
    ) -> set[CompanyId]:
        ids, text = sorted({validate_company_id(each) for each in companies}), to_db_time(since)

        def find(tx: Transaction) -> set[CompanyId]:
            visited: set[CompanyId] = set()
            for query, some in split_into_batches(SELECT_VISITED, ids):
                rows = tx.query(query, tenant=self._tenant, since=text, **some)
                visited.update(CompanyId(row[0]) for row in rows)
            return visited

        return await self._database.read(find) if ids else set()

    async def find_company_record(self, company: CompanyId) -> CompanyRecord | None:
        validate_company_id(company)
        return await self._database.read(lambda tx: find_company_record(tx, self._tenant, company))

    async def list_company_records(
        self,
        *,
        after: str = "",
        limit: int = 100,
        run: str | None = None,
        least: float | None = None,
    ) -> list[CompanyRecord]:
        validate_text(after, what="a company's id")
        if run is not None:
            validate_run_name(run)
        return await self._database.read(
            lambda tx: list_company_records(
                tx, self._tenant, after=after, limit=limit, run=run, least=least
            )
        )

    async def find_registry_cursor(self) -> datetime | None:
        rows = await self._database.read(
            lambda tx: tx.query(SELECT_REGISTRY_CURSOR, tenant=self._tenant)
        )
        return from_optional_db_time(rows[0][0]) if rows else None

    async def set_registry_cursor(self, at: datetime) -> None:
        text = to_db_time(at)
        await self._database.write(
            lambda tx: tx.execute(UPSERT_REGISTRY_CURSOR, tenant=self._tenant, at=text)
        )

    def _upsert_companies(
        self, tx: Transaction, companies: Sequence[Company], *, now: datetime
    ) -> UpsertCount:
        known: dict[str, Company] = {}
        for query, some in split_into_batches(
            SELECT_KNOWN_COMPANIES, sorted({company.id for company in companies})
        ):
            for row in tx.query(query, tenant=self._tenant, **some):
                known[row[0]] = to_company(row)
        new, differing = 0, list[Company]()
        for company in companies:
            was, dated = known.get(company.id), replace(company, last_seen_at=now)
            if was is not None:
                if merge_company(was, replace(company, last_seen_at=None)) == was:
                    continue
                known[company.id] = merge_company(was, dated)
            else:
                new += 1
                known[company.id] = dated
            differing.append(dated)
        if differing:
            # As given, not merged: an empty value must not undo what another writer stored.
            differing.sort(key=lambda company: company.id)
            tx.execute_many(
                UPSERT_COMPANY, [(self._tenant, *to_company_row(one)) for one in differing]
            )
        changed = len(differing) - new
        return UpsertCount(new=new, changed=changed, same=len(companies) - len(differing))
