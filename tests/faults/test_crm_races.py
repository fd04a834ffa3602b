"""No record twice, none lost, however many write it at once and whatever goes wrong on the way."""

import pytest

from faults import crm_trials
from faults.crm_trials import OWNED
from faults.poison import POISON, made_up
from stoker.accounts.contacts import to_sendable_text
from stoker.accounts.model import Bucket, Company, CompanyId, CompanyRecord, Contact, LeadScore
from stoker.base.types import TenantId
from stoker.crm.model import LEAD, PARTNER
from stoker.crm.odoo import Odoo
from stoker.crm.rows import build_rows
from stoker.crm.upsert import plan_upserts
from stoker.http.client import HttpClient
from stoker.sandbox.server import Sandbox

pytestmark = pytest.mark.faults

TENANT = TenantId("acme")


def test_writers_who_meet_leave_one_record_each_and_lose_none(report, rng):
    tally = report("C7 writers meeting in a CRM", crm_trials.racing(rng, 200))
    assert not tally.broken
    assert (tally.n, tally.acked > 1000) == (200, True)


def test_looking_first_and_making_then_is_caught(rng):
    way = crm_trials.by_search_then_create
    assert crm_trials.racing(rng, 20, way=way, faults=0, bad=False).broken


@pytest.mark.parametrize("protocol", ["json2", "xmlrpc"])
def test_every_poison_in_every_field_comes_back_as_it_was_or_is_refused(report, protocol):
    tally = crm_trials.poisoned(protocol, POISON)
    report(f"C8 poison in every field of a CRM, by {protocol}", tally)
    assert not tally.broken
    assert tally.n == len(POISON) * sum(len(columns) for columns in OWNED.values()) == 15 * 15
    assert 0 < tally.acked < tally.n


def test_poison_that_is_made_up_comes_back_as_it_was_or_is_refused(report, rng):
    texts = {f"made up {nth}": made_up(rng) for nth in range(20)}
    tally = report("C8 poison that is made up", crm_trials.poisoned("json2", texts))
    assert not tally.broken
    assert 0 < tally.acked < tally.n == 20 * 15


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
async def test_a_poisoned_dossier_still_goes_in_whole(poison):
    person = Contact(
        name=poison, title=poison, email=poison, phone=poison, source=poison, confidence=0.5
    )
    score = LeadScore(
        value=0.9, bucket=Bucket.HIGH, features={}, feature_hash="f", rationale=poison
    )
    company = Company(id=CompanyId("200900001A"), name=poison, website=poison, postal_code=poison)
    rows = build_rows(
        CompanyRecord(company=company, contacts=(person,), score=score), tenant=TENANT, least=0.5
    )

    async with Sandbox(companies=5) as box:
        http = HttpClient(user_agent="Stoker test", sandbox=box.address)
        crm = Odoo(http, url="http://odoo.test", database="acme", key="odoo-acme-ours")
        try:
            fields = {model: await crm.fields(model) for model in (PARTNER, LEAD)}
            plan = plan_upserts(rows, sent={}, there={}, fields=fields)
            told = await crm.upsert(plan.writes)
            known = {id_: each.id for id_, each in told.items()}
            plan, found = plan, await crm.find_records(rows, known=known)
        finally:
            await http.close()

    assert not plan.skipped
    assert len(found) == len(rows) == 3
    assert found[rows[0].external_id].values["name"] == to_sendable_text(poison)
