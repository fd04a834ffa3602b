"""Who the tenants are, and one tenant's companies, in SQL.

Companies are written in the order of their ids, so that two who write the same ones never wait
for each other crosswise. How what is known about one is put together is said in `sql_dossiers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from stoker.accounts.company_store import (
    COMPANY,
    CONNECTION,
    PUT_COMPANY,
    RULE,
    company_of,
    company_row,
    connection_of,
    known_dossier,
    page_of_dossiers,
    rule_of,
    rule_values,
)
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Company,
    CompanyId,
    CrmConnection,
    Dossier,
    Standing,
    Tenant,
    Upserted,
    User,
    merged_company,
)
from stoker.accounts.row_checks import (
    kept_between,
    kept_company,
    kept_connection,
    kept_id,
    kept_rule,
    kept_run_name,
    kept_tenant,
    kept_user,
)
from stoker.base.types import TenantId, in_utc
from stoker.db.codec import kept_text
from stoker.db.database import (
    SqlDatabase,
    Transaction,
    Value,
    asked,
    moment,
    moment_text,
    optional_moment,
    optional_moment_text,
)
from stoker.db.values import kept_name

PUT_TENANT = """
INSERT INTO tenants (id, name, active) VALUES (:id, :name, :active)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, active = excluded.active
WHERE tenants.name <> excluded.name OR tenants.active <> excluded.active
"""

TENANTS = "SELECT id, name, active FROM tenants ORDER BY id"

PUT_USER = """
INSERT INTO tenant_users (tenant_id, id, name, role, active)
VALUES (:tenant, :id, :name, :role, :active)
ON CONFLICT (tenant_id, id) DO UPDATE SET
    name = excluded.name, role = excluded.role, active = excluded.active
"""

USERS = "SELECT id, name, role, active FROM tenant_users WHERE tenant_id = :tenant ORDER BY id"

PUT_ONBOARDED = """
INSERT INTO onboarding_status (tenant_id, step, done_at) VALUES (:tenant, :step, :at)
ON CONFLICT DO NOTHING
"""

ONBOARDING = "SELECT step, done_at FROM onboarding_status WHERE tenant_id = :tenant ORDER BY step"

PUT_RULE = f"""
INSERT INTO icp_rules (tenant_id, {RULE})
VALUES (:tenant, :name, :industries, :least_employees, :most_employees, :first_year, :last_year)
ON CONFLICT (tenant_id, name) DO UPDATE SET industries = excluded.industries,
    least_employees = excluded.least_employees, most_employees = excluded.most_employees,
    first_year = excluded.first_year, last_year = excluded.last_year
"""

RULE_OF = f"SELECT {RULE} FROM icp_rules WHERE tenant_id = :tenant AND name = :name"

PUT_CONNECTION = f"""
INSERT INTO odoo_connections (tenant_id, {CONNECTION})
VALUES (:tenant, :kind, :url, :database_name, :active, :key_expires_at)
ON CONFLICT (tenant_id) DO UPDATE SET kind = excluded.kind, url = excluded.url,
    database_name = excluded.database_name, active = excluded.active,
    key_expires_at = excluded.key_expires_at
"""

CONNECTION_OF = f"SELECT {CONNECTION} FROM odoo_connections WHERE tenant_id = :tenant"

MARK = "SELECT at FROM account_marks WHERE tenant_id = :tenant AND name = 'register'"

PUT_MARK = """
INSERT INTO account_marks (tenant_id, name, at) VALUES (:tenant, 'register', :at)
ON CONFLICT (tenant_id, name) DO UPDATE SET at = excluded.at
"""

KNOWN = f"""
SELECT c.{COMPANY.replace(", ", ", c.")}
FROM asked JOIN companies c ON c.tenant_id = :tenant AND c.id = asked.id
"""

COMPANIES = f"""
SELECT {COMPANY} FROM companies WHERE tenant_id = :tenant AND id > :after ORDER BY id LIMIT :limit
"""

# Holding this row still is having the candidates to oneself; it marks nothing.
DOOR = """
INSERT INTO account_marks (tenant_id, name, at) VALUES (:tenant, 'candidates', NULL)
ON CONFLICT (tenant_id, name) DO UPDATE SET at = account_marks.at
"""

FITTING = """
SELECT company_id FROM icp_candidate_companies
WHERE tenant_id = :tenant AND rule = :rule AND company_id > :after
"""

FITTING_UP_TO = f"{FITTING} AND company_id <= :upto"

NO_LONGER = """
DELETE FROM icp_candidate_companies WHERE tenant_id = ? AND rule = ? AND company_id = ?
"""

NEWLY = "INSERT INTO icp_candidate_companies (tenant_id, rule, company_id) VALUES (?, ?, ?)"

CANDIDATES = """
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

LOOKED_AT = """
SELECT count(*) FROM company_findings WHERE tenant_id = :tenant AND looked_at >= :since
"""


class SqlDirectory:
    """A `Directory` in the table `tenants`, which belongs to no tenant."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def put_tenant(self, tenant: Tenant) -> bool:
        kept_tenant(tenant)
        return bool(
            await self._database.write(
                lambda tx: tx.change(
                    PUT_TENANT, id=tenant.id, name=tenant.name, active=tenant.active
                )
            )
        )

    async def tenants(self) -> list[Tenant]:
        rows = await self._database.read(lambda tx: tx.rows(TENANTS))
        return [Tenant(id=one, name=name, active=bool(active)) for one, name, active in rows]


class SqlAccounts:
    """An `AccountStore` in the tables of tenants, companies and leads."""

    def __init__(self, database: SqlDatabase, tenant: TenantId) -> None:
        self._database = database
        self._tenant = tenant

    async def put_user(self, user: User) -> None:
        kept_user(user)
        await self._database.write(
            lambda tx: tx.change(
                PUT_USER,
                tenant=self._tenant,
                id=user.id,
                name=user.name,
                role=user.role,
                active=user.active,
            )
        )

    async def users(self) -> list[User]:
        rows = await self._database.read(lambda tx: tx.rows(USERS, tenant=self._tenant))
        return [
            User(id=one, name=name, role=role, active=bool(active))
            for one, name, role, active in rows
        ]

    async def put_onboarded(self, step: str, *, at: datetime) -> None:
        values = {"step": kept_name(step, what="a step"), "at": moment_text(at)}
        await self._database.write(
            lambda tx: tx.change(PUT_ONBOARDED, tenant=self._tenant, **values)
        )

    async def onboarding(self) -> dict[str, datetime]:
        rows = await self._database.read(lambda tx: tx.rows(ONBOARDING, tenant=self._tenant))
        return {step: moment(done_at) for step, done_at in rows}

    async def put_rule(self, rule: IcpRule) -> None:
        values = rule_values(kept_rule(rule))
        await self._database.write(lambda tx: tx.change(PUT_RULE, tenant=self._tenant, **values))

    async def rule(self, name: str) -> IcpRule | None:
        kept_name(name, what="a rule's name")
        rows = await self._database.read(
            lambda tx: tx.rows(RULE_OF, tenant=self._tenant, name=name)
        )
        return rule_of(rows[0]) if rows else None

    async def put_connection(self, connection: CrmConnection) -> None:
        kept = kept_connection(connection)
        await self._database.write(
            lambda tx: tx.change(
                PUT_CONNECTION,
                tenant=self._tenant,
                kind=kept.kind,
                url=kept.url,
                database_name=kept.database,
                active=kept.active,
                key_expires_at=optional_moment_text(kept.key_expires_at),
            )
        )

    async def connection(self) -> CrmConnection | None:
        rows = await self._database.read(lambda tx: tx.rows(CONNECTION_OF, tenant=self._tenant))
        return connection_of(rows[0]) if rows else None

    async def upsert_companies(self, companies: Sequence[Company], *, now: datetime) -> Upserted:
        now, said = in_utc(now), [kept_company(company) for company in companies]
        return await self._database.write(lambda tx: self._upsert(tx, said, now=now))

    async def companies(self, *, after: str = "", limit: int = 1000) -> list[Company]:
        kept_text(after, what="a company's id")
        rows = await self._database.read(
            lambda tx: tx.rows(COMPANIES, tenant=self._tenant, after=after, limit=limit)
        )
        return [company_of(row) for row in rows]

    async def put_candidates(
        self, ids: Sequence[CompanyId], *, rule: str, after: str = "", upto: str | None = None
    ) -> None:
        fitting = kept_between([kept_id(one) for one in ids], after=after, upto=upto)
        values: dict[str, Value] = {"rule": kept_name(rule, what="a rule's name"), "after": after}
        if upto is not None:
            values["upto"] = upto
        asked_for = FITTING if upto is None else FITTING_UP_TO

        def put(tx: Transaction) -> None:
            tx.change(DOOR, tenant=self._tenant)
            before = {one for (one,) in tx.rows(asked_for, tenant=self._tenant, **values)}
            for query, some in ((NO_LONGER, before - fitting), (NEWLY, fitting - before)):
                if some:
                    tx.change_many(query, [(self._tenant, rule, one) for one in sorted(some)])

        await self._database.write(put)

    async def candidates(self, *, rule: str, after: str = "", limit: int = 1000) -> list[Standing]:
        values = {"rule": kept_name(rule, what="a rule's name"), "after": after}
        kept_text(after, what="a company's id")
        rows = await self._database.read(
            lambda tx: tx.rows(CANDIDATES, tenant=self._tenant, limit=limit, **values)
        )
        return [
            Standing(
                id=one,
                scored=bool(scored),
                contacts=contacts,
                last_seen_at=optional_moment(last_seen),
                last_looked_at=optional_moment(looked_at),
                heat=float(heat),
            )
            for one, scored, contacts, last_seen, looked_at, heat in rows
        ]

    async def looked_at_since(self, since: datetime) -> int:
        text = moment_text(since)
        rows = await self._database.read(
            lambda tx: tx.rows(LOOKED_AT, tenant=self._tenant, since=text)
        )
        return int(rows[0][0])

    async def dossier(self, company: CompanyId) -> Dossier | None:
        kept_id(company)
        return await self._database.read(lambda tx: known_dossier(tx, self._tenant, company))

    async def dossiers(
        self,
        *,
        after: str = "",
        limit: int = 100,
        run: str | None = None,
        least: float | None = None,
    ) -> list[Dossier]:
        kept_text(after, what="a company's id")
        if run is not None:
            kept_run_name(run)
        return await self._database.read(
            lambda tx: page_of_dossiers(
                tx, self._tenant, after=after, limit=limit, run=run, least=least
            )
        )

    async def mark(self) -> datetime | None:
        rows = await self._database.read(lambda tx: tx.rows(MARK, tenant=self._tenant))
        return optional_moment(rows[0][0]) if rows else None

    async def put_mark(self, at: datetime) -> None:
        text = moment_text(at)
        await self._database.write(lambda tx: tx.change(PUT_MARK, tenant=self._tenant, at=text))

    def _upsert(self, tx: Transaction, companies: Sequence[Company], *, now: datetime) -> Upserted:
        known: dict[str, Company] = {}
        for query, some in asked(KNOWN, sorted({company.id for company in companies})):
            for row in tx.rows(query, tenant=self._tenant, **some):
                known[row[0]] = company_of(row)
        new, differing = 0, list[Company]()
        for company in companies:
            was, dated = known.get(company.id), replace(company, last_seen_at=now)
            if was is not None:
                if merged_company(was, replace(company, last_seen_at=None)) == was:
                    continue
                known[company.id] = merged_company(was, dated)
            else:
                new += 1
                known[company.id] = dated
            differing.append(dated)
        if differing:
            # As said, not as merged: what another wrote meanwhile is not taken back by silence.
            differing.sort(key=lambda company: company.id)
            tx.change_many(PUT_COMPANY, [(self._tenant, *company_row(one)) for one in differing])
        changed = len(differing) - new
        return Upserted(new=new, changed=changed, same=len(companies) - len(differing))
