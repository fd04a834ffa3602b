"""Touches put together: the appeal of a tenant's leads, read off its store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from stoker.accounts.model import Bucket, Company, CompanyId, CompanyRecord, LeadScore
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import Depth, TenantId
from stoker.enrichment.model import WorkItem, WorkState
from stoker.heat.settings import HeatRule, TierRule
from stoker.touches.setup import read_lead_appeals

NOW = datetime(2026, 2, 9, 1, 30, tzinfo=UTC)


async def looked_at(store, number, value):
    company = Company(
        id=CompanyId(f"T{number}"), name=f"Lead {number}", website=f"https://l{number}.test/"
    )
    score = LeadScore(
        value=value, bucket=Bucket.HIGH, features={}, feature_hash="x", rationale="good"
    )
    run = f"r{number}"
    await store.accounts.upsert_companies([company], now=NOW)
    await store.nights.insert_items(run, [WorkItem(company=company.id, rank=0, depth=Depth.DEEP)])
    [unit] = await store.nights.claim_items(
        run, owner="w", until=NOW + timedelta(hours=1), now=NOW, limit=1
    )
    done = replace(unit, state=WorkState.DONE, ended_at=NOW)
    found = CompanyRecord(company=company, score=score, looked_at=NOW, run=run)
    assert await store.nights.finish_item(run, done, found)


async def test_leads_appeal_by_what_the_store_knows_of_them_and_others_not_at_all():
    store = MemoryBackend().tenant(TenantId("acme"))
    for number, value in ((1, 0.9), (2, 0.5), (3, 0.1)):
        await looked_at(store, number, value)
    await store.attention.update_postures(
        {CompanyId("T2"): 1.0},
        rule=HeatRule(posture_weight=1.0, recency_weight=0.0, volume_weight=0.0),
        tiers=TierRule(),
        now=NOW,
    )
    assert await read_lead_appeals(store, least=0.4) == {
        "https://l1.test/": 0.9,
        "https://l2.test/": 1.0,
    }
