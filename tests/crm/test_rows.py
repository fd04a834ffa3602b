from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.contacts import to_sendable_text
from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    EmailStatus,
    LeadScore,
    SiteOwner,
    SiteVerdict,
)
from stoker.base.types import TenantId
from stoker.crm.model import LEAD, PARTNER
from stoker.crm.rows import build_external_id, build_rows, find_send_problem

TENANT = TenantId("acme")
anything = st.text(st.characters(), max_size=60)
tenants = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True)


def scored(value=0.8, rationale="Fits."):
    return LeadScore(
        value=value, bucket=Bucket.HIGH, features={}, feature_hash="f", rationale=rationale
    )


def contact(**known):
    return Contact(source="site", confidence=known.pop("confidence", 0.5), **known)


def dossier(*contacts, score=None, **known):
    company = Company(id=CompanyId("200900001A"), **{"name": "Acme", **known})
    return CompanyRecord(company=company, contacts=contacts, score=score)


@given(anything, anything, anything, anything, anything, anything)
def test_whatever_was_found_becomes_rows_that_can_be_sent(id_, name, title, email, phone, words):
    person = contact(name=name or "x", title=title, email=email, phone=phone)
    company = Company(id=CompanyId(id_), name=name, website=email, postal_code=title)
    rows = build_rows(
        CompanyRecord(company=company, contacts=(person,), score=scored(rationale=words)),
        tenant=TENANT,
        least=0.5,
    )

    assert [find_send_problem(row) for row in rows] == [""] * len(rows)
    assert all(value != "" for row in rows for value in row.values.values())


@given(anything)
def test_a_text_made_sendable_stays_as_it_is(text):
    once = to_sendable_text(text)
    assert to_sendable_text(once) == once


@given(
    st.lists(
        st.tuples(tenants, st.sampled_from(["company", "contact", "lead"]), anything),
        unique=True,
        max_size=8,
    )
)
def test_two_things_never_share_an_id(things):
    cleaned = {(tenant, kind, key) for tenant, kind, key in things if "\0" not in key}
    printable = {each for each in cleaned if not any("\ud800" <= c <= "\udfff" for c in each[2])}
    assert len({build_external_id(*each) for each in printable}) == len(printable)


def test_a_company_comes_before_its_contacts_and_its_lead():
    people = (contact(name="Mei", email="mei@acme.test"), contact(email="info@acme.test"))
    people = tuple(replace(each, verdict=EmailStatus.VALID) for each in people)
    company, mei, lead = build_rows(
        dossier(*people, score=scored(), website="https://acme.test"), tenant=TENANT, least=0.5
    )

    assert company.external_id == "stoker.acme_company_200900001A"
    assert {**company.values, "comment": ""} == {
        "name": "Acme",
        "company_registry": "200900001A",
        "website": "https://acme.test",
        "email": "info@acme.test",  # a mailbox is the company's own, and no contact
        "comment": "",
    }
    assert all("Where this is from" in row.values["comment"] for row in (company, mei))
    assert "Where this is from" in lead.values["description"]
    assert mei.values["name"] == "Mei"
    assert mei.links == {"parent_id": company.external_id}
    assert lead.links == {"partner_id": mei.external_id}
    assert lead.spare_links == {"partner_id": company.external_id}
    assert (company.model, mei.model, lead.model) == (PARTNER, PARTNER, LEAD)


def test_a_lead_is_made_from_the_least_score_on():
    def kinds(value, least):
        rows = build_rows(dossier(score=scored(value)), tenant=TENANT, least=least)
        return [row.model for row in rows]

    assert kinds(0.5, 0.5) == [PARTNER, LEAD]
    assert kinds(0.49, 0.5) == kinds(1.0, None) == [PARTNER]


def test_an_address_nobody_should_write_to_is_left_out():
    bad = contact(name="Mei", email="mei@acme.test", verdict=EmailStatus.INVALID)
    trap = contact(email="trap@acme.test", verdict=EmailStatus.RISKY)
    rows = build_rows(dossier(bad, trap, score=scored()), tenant=TENANT, least=0)

    assert not [row for row in rows if {"email", "email_from"} & set(row.values)]
    assert len(rows) == 3  # the trap was nothing but its address


def test_markup_and_addresses_that_do_things_do_nothing_in_the_crm():
    words = '<script>alert(1)</script><img src=x onerror="a">'
    _, lead = build_rows(
        dossier(score=scored(rationale=words), website="javascript:alert(1)"),
        tenant=TENANT,
        least=0,
    )

    assert "<script" not in lead.values["description"]
    assert "<img" not in lead.values["description"]
    assert "website" not in lead.values


def test_the_same_person_twice_is_one_row():
    twice = (contact(email="Mei@acme.test"), contact(email="mei@acme.test", name="Mei"))
    assert len(build_rows(dossier(*twice), tenant=TENANT)) == 2


def test_what_a_probable_site_says_stands_in_notes_alone_and_is_marked():
    mallory = contact(name="Mallory <Quek>", title="Director", email="m@acme.test", phone="+651")
    record = dossier(mallory, score=scored(), website="https://acme.test", postal_code="068912")
    probable = SiteVerdict(host="acme.test", owner=SiteOwner.PROBABLE)
    company, lead = build_rows(replace(record, site=probable), tenant=TENANT, least=0.5)

    assert company.values.keys() == {"name", "company_registry", "zip", "comment"}
    assert lead.values.keys() == {"name", "description", "priority"}
    for note in (company.values["comment"], lead.values["description"]):
        assert "Probable only" in note
        assert "probable contact: Mallory &lt;Quek&gt;, Director, m@acme.test" in note


def test_a_note_says_what_ties_a_website_to_its_company():
    proof = {"proof": "its pages show the postal code", "source": "https://acme.test/contact"}
    site = SiteVerdict(host="acme.test", owner=SiteOwner.CONFIRMED, **proof)
    record = replace(dossier(website="https://acme.test"), site=site)
    [company] = build_rows(record, tenant=TENANT)
    assert "website: confirmed: its pages show the postal code" in company.values["comment"]
