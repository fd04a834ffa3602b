"""A tenant with profiles, a clock to turn, and touches kept somewhere real."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from stoker.accounts.model import Bucket, Company, CompanyId, CompanyRecord, LeadScore
from stoker.backends.sqlite import MemoryBackend
from stoker.base.types import Depth, TenantId
from stoker.enrichment.model import WorkItem, WorkState
from stoker.testing import FakeClock
from stoker.touches.model import Profile
from stoker.touches.service import TouchService
from stoker.touches.settings import PlanRule

ACME = TenantId("acme")
ZONE = "Asia/Singapore"
MONDAY_AT_EIGHT = datetime(2026, 2, 9, 0, 0, tzinfo=UTC)  # in Singapore
HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(weeks=1)


def people(number):
    return [Profile(url=f"https://people.test/{n:04d}", name=f"Person {n}") for n in range(number)]


def memory():
    return MemoryBackend().tenant(ACME).touches


async def opened(store=None, *, number=100, at=MONDAY_AT_EIGHT, rule=None, zone=ZONE):
    """Return a tenant's touches, some profiles among them, and the clock they go by."""
    store, clock = store or memory(), FakeClock(at)
    await store.save_profiles(people(number))
    touching = TouchService(store, rule=rule or PlanRule(), zone=zone, clock=clock, tenant=ACME)
    return SimpleNamespace(touching=touching, store=store, clock=clock)


async def add_lead(store, number, value, *, now):
    """Let a company be looked up as a lead of this score."""
    company = Company(
        id=CompanyId(f"T{number}"), name=f"Lead {number}", website=f"https://l{number}.test/"
    )
    score = LeadScore(
        value=value, bucket=Bucket.HIGH, features={}, feature_hash="x", rationale="good"
    )
    run = f"r{number}"
    await store.accounts.upsert_companies([company], now=now)
    await store.work_items.insert_items(
        run, [WorkItem(company=company.id, rank=0, depth=Depth.DEEP)]
    )
    [unit] = await store.work_items.claim_items(
        run, owner="w", until=now + timedelta(hours=1), now=now, limit=1
    )
    done = replace(unit, state=WorkState.DONE, ended_at=now)
    found = CompanyRecord(company=company, score=score, looked_at=now, run=run)
    assert await store.work_items.finish_item(run, done, found)
