"""SQL that nightly users have runs on Postgres as they wrote it, for one tenant at a time."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from pg import fresh_database
from stoker.accounts.model import Bucket, Company, CompanyId, CompanyRecord, Contact, LeadScore
from stoker.backends.postgres import PostgresBackend
from stoker.backends.schema import SCHEMA
from stoker.base.types import Depth, TenantId
from stoker.db.row_security import find_role_problems, find_table_problems
from stoker.enrichment.model import WorkItem, WorkState
from stoker.runs.model import Run, RunKey
from stoker.tenants.model import CrmConnection, Tenant
from stoker.vendors.model import CachedAnswer

AT = datetime(2026, 2, 7, 1, 30, tzinfo=UTC)
RUN = "20260207_013000"

LIST_TENANTS = "SELECT tenant_id FROM tenants WHERE status = 'active' ORDER BY tenant_id"

LIST_CONNECTED_TENANTS = """
SELECT t.tenant_id
FROM tenants t
JOIN odoo_connections oc ON oc.tenant_id = t.tenant_id AND oc.active = TRUE
WHERE t.status = 'active'
ORDER BY t.tenant_id;
"""

SELECT_TARGETS = """
SELECT c.company_id
FROM companies c
LEFT JOIN lead_scores s ON s.company_id = c.company_id
LEFT JOIN contacts k ON k.company_id = c.company_id
WHERE c.company_id = ANY(%s)
ORDER BY (s.company_id IS NULL) DESC,
         (k.company_id IS NULL) DESC,
         c.last_seen DESC NULLS LAST
LIMIT %s;
"""

SELECT_COMPANIES = """
SELECT company_id, name, uen, employees_est, incorporation_year
FROM companies WHERE company_id = ANY(%s) ORDER BY company_id
"""

SELECT_ITEMS = """
SELECT r.run_id, r.status, r.started_at, c.company_id
FROM enrichment_runs r JOIN company_enrichment_runs c ON c.run_id = r.run_id
"""

SELECT_VERDICTS = "SELECT email, status, checked_at FROM email_verification_cache"

INDEXES = ("idx_companies_last_seen", "idx_contacts_company", "idx_lead_scores_score")


async def fill_tenant(backend, tenant, name):
    await backend.directory().save_tenant(Tenant(id=tenant))
    store = backend.tenant(tenant)
    await store.setup.save_connection(CrmConnection(kind="odoo", url="https://o", database="o"))
    companies = [
        Company(
            id=CompanyId(f"C{n}"),
            name=f"{name} {n}",
            employees=20 + n,
            year=2010 + n,
        )
        for n in range(4)
    ]
    for n, company in enumerate(companies):
        await store.accounts.upsert_companies([company], now=AT + timedelta(days=n))
    scored = CompanyRecord(
        company=companies[0],
        score=LeadScore(
            value=0.9, bucket=Bucket.HIGH, rationale="fits", features={}, feature_hash="h"
        ),
        contacts=(Contact(name="Tan", email="t@c0.example", source="site", confidence=1),),
    )
    await store.runs.insert_run(Run(key=RunKey(AT, 1), kind="nightly"))
    item = WorkItem(company=companies[0].id, rank=0, depth=Depth.DEEP)
    await store.work_items.insert_items(RUN, [item])
    [claimed] = await store.work_items.claim_items(
        RUN, owner="me", until=AT + timedelta(hours=1), limit=1, now=AT
    )
    await store.work_items.finish_item(
        RUN, replace(claimed, state=WorkState.DONE, ended_at=AT), scored
    )
    verdict = {"email": f"tan@{tenant}.example", "verdict": "valid", "because": ""}
    await store.answers.save_answers(
        [
            CachedAnswer(
                key="v",
                connector="zerobounce",
                answer=verdict,
                cost={},
                at=AT,
                expires_at=AT + timedelta(days=30),
            )
        ]
    )


@pytest.fixture(scope="module")
def app_url(postgres):
    """Two tenants called by numbers, each with companies of the same ids."""
    _, url = fresh_database(postgres)

    async def fill():
        backend = PostgresBackend(url)
        await fill_tenant(backend, TenantId("1"), "One")
        await fill_tenant(backend, TenantId("2"), "Two")
        await backend.directory().save_tenant(Tenant(id=TenantId("3"), active=False))
        await backend.close()

    asyncio.run(fill())
    return url


def ask(url, tenant, query, *values):
    """Ask as the restricted role does that `db setup` made, with nothing set but the tenant."""
    with psycopg.connect(url) as app:
        if tenant:
            app.execute("SELECT set_config('request.tenant_id', %s, true)", [tenant])
        return app.execute(query, values).fetchall()


def test_known_queries_run_and_show_the_tenants_own_rows_only(app_url):
    everything = [f"C{n}" for n in range(4)]
    assert ask(app_url, None, LIST_TENANTS) == [("1",), ("2",)]
    assert ask(app_url, "2", LIST_CONNECTED_TENANTS) == [("2",)]
    # Never scored first, then the newest; the one that is scored comes last.
    targets = ask(app_url, "2", SELECT_TARGETS, everything, 1000)
    assert targets == [("C3",), ("C2",), ("C1",), ("C0",)]
    assert ask(app_url, "2", SELECT_COMPANIES, ["C1"]) == [("C1", "Two 1", "C1", 21, 2011)]
    assert ask(app_url, "2", SELECT_ITEMS) == [(RUN, "RUNNING", AT, "C0")]
    assert ask(app_url, "1", SELECT_VERDICTS) == [("tan@1.example", "valid", AT)]


@pytest.mark.parametrize(
    "query", [LIST_CONNECTED_TENANTS, SELECT_COMPANIES, SELECT_ITEMS, SELECT_VERDICTS]
)
def test_known_queries_without_a_tenant_are_refused(app_url, query):
    values = [["C1"]] if "ANY" in query else []
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=r"request\.tenant_id"):
        ask(app_url, None, query, *values)


def test_a_tenant_cannot_be_moved_by_its_known_name(app_url):
    with pytest.raises(psycopg.errors.Error, match="generated column"):
        ask(app_url, "2", "UPDATE companies SET company_id = 'x' RETURNING id")


def test_the_known_indexes_are_there(app_url):
    found = ask(app_url, None, "SELECT indexname FROM pg_indexes WHERE schemaname = 'stoker'")
    assert {name for (name,) in found} >= set(INDEXES)


def test_row_security_knows_the_known_names(app_url):
    with psycopg.connect(app_url) as app:
        assert find_role_problems(app) == []
        app.rollback()
        assert find_table_problems(app, SCHEMA) == []


def test_a_tenant_id_of_its_own_in_a_shared_table_is_still_found(postgres):
    admin_url, _ = fresh_database(postgres)
    with psycopg.connect(admin_url) as admin:
        admin.execute("ALTER TABLE stoker.ssic_ref ADD COLUMN tenant_id text")
        admin.execute(
            "ALTER TABLE stoker.rates ADD COLUMN tenant_id text GENERATED ALWAYS AS ('x') STORED"
        )
        assert [str(each) for each in find_table_problems(admin, SCHEMA)] == [
            "shared table with a tenant_id (rates)",
            "shared table with a tenant_id (ssic_ref)",
        ]
