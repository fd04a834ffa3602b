"""Values for the suites about tenants, companies and nights."""

from contracts.knowledge import HOUR, NOW
from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyRecord,
    Contact,
    EmailStatus,
    LeadScore,
    SiteVerdict,
)
from stoker.base.types import Depth, Step
from stoker.crm.model import SentRow
from stoker.enrichment.model import SkippedStep, SkipReason, WorkItem, WorkState
from stoker.tenants.model import CrmConnection, Tenant

RUN, LATER_RUN = "20260207_013000", "20260208_013000"
UNTIL = NOW + HOUR


def tenant(who="acme", **changes):
    return Tenant(**{"id": who, "name": "Acme – ünï 🙂"} | changes)


def connection(**changes):
    plain = {"kind": "odoo", "url": "https://odoo.test", "database": "acme", "key_expires_at": NOW}
    return CrmConnection(**plain | changes)


def company(uen="T1", **changes):
    plain = {
        "id": uen,
        "name": f"{uen} PTE. LTD.",
        "live": True,
        "ssic": "62011",
        "year": 2015,
        "postal_code": "018956",
        "website": "https://t1.test",
        "employees": 12,
    }
    return Company(**plain | changes)


def bare(uen="T1", **changes):
    """A company of which nothing but its number is known."""
    return Company(**{"id": uen, "name": ""} | changes)


def finding(**changes):
    plain = {
        "field": FactField.EMPLOYEES,
        "value": "11-50",
        "source": "https://t1.test/about",
        "method": Method.JSON_LD,
        "confidence": 0.9,
        "evidence": "we are 11-50 – ünï 🙂",
    }
    return Fact(**plain | changes)


def contact(**changes):
    plain = {
        "name": "Ann Tan",
        "title": "CTO",
        "seniority": "c-level",
        "email": "ann@t1.test",
        "phone": "+65 6000 0000",
        "verdict": EmailStatus.VALID,
        "source": "lusha",
        "confidence": 0.75,
    }
    return Contact(**plain | changes)


def score(value=0.7, **changes):
    plain = {
        "value": value,
        "bucket": Bucket.HIGH,
        "features": {"fit": 1.0, "reach": 0.25},
        "feature_hash": "h" * 16,
        "rationale": "fits, and somebody can be written to",
    }
    return LeadScore(**plain | changes)


def site(owner, **changes):
    return SiteVerdict(host="t1.test", owner=owner, **changes)


def dossier(uen="T1", **changes):
    plain = {
        "company": company(uen, last_seen_at=NOW),
        "facts": (finding(), finding(field=FactField.WEBSITE, value="https://t1.test")),
        "contacts": (
            contact(),
            contact(name="", email="info@t1.test", verdict=EmailStatus.UNKNOWN),
        ),
        "score": score(),
        "looked_at": NOW,
        "run": RUN,
        "extracted_from": "f" * 32,
        "notes": {"site": "says nothing about people"},
    }
    return CompanyRecord(**plain | changes)


def unit(place=0, **changes):
    plain = {
        "company": f"T{place}",
        "rank": place,
        "depth": Depth.DEEP,
        "reason": "never scored",
        "is_first": True,
    }
    return WorkItem(**plain | changes)


def ended(one, **changes):
    plain = {
        "company": one.company,
        "rank": one.rank,
        "depth": Depth.SHALLOW,
        "state": WorkState.DONE,
        "owner": one.owner,
        "reason": one.reason,
        "is_first": one.is_first,
        "reasons": ("no credits were left – ünï 🙂",),
        "causes": ("no credits were left",),
        "skipped": (SkippedStep(step=Step.EXTRACT, cause=SkipReason.REFUSED, connector="tavily"),),
        "cost": {"tavily/calls": 1},
        "saved": {"lusha/credits": 2},
        "seconds": {"crawl": 0.25},
        "ended_at": NOW + HOUR,
    }
    return WorkItem(**plain | changes)


def sent(name="stoker.T1", **changes):
    plain = {
        "external_id": name,
        "model": "res.partner",
        "digest": "d" * 16,
        "values": {"name": "T1 – ünï 🙂", "city": None},
        "before": {"name": "T1", "city": "Singapore"},
        "run": RUN,
        "at": NOW,
    }
    return SentRow(**plain | changes)


async def planned(nights, count, *, run=RUN):
    units = [unit(n) for n in range(count)]
    assert await nights.insert_items(run, units) == count
    return units


async def taken(nights, *, owner="w1", limit=100, now=NOW, until=UNTIL, run=RUN):
    return await nights.claim_items(run, owner=owner, until=until, now=now, limit=limit)
