import re

from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.facts import Fact, FactField, Method, choose_best_by_field
from stoker.accounts.model import Company, CompanyId, CompanyRecord, Contact, EmailStatus
from stoker.base.types import TenantId
from stoker.crm.rows import (
    MAX_NOTE_LENGTH,
    build_rows,
    format_company_sources,
    format_contact_sources,
)

TENANT = TenantId("acme")
anything = st.text(st.characters(), max_size=400)
TAGS = re.compile(r"</?(?:p|ul|li)>")


def finding(field, value, *, source="https://acme.test/about", how=Method.TEXT, confidence=0.5):
    return Fact.build(field, value, source=source, how=how, confidence=confidence)


def dossier(*findings, **known):
    company = Company(id=CompanyId("200900001A"), **{"name": "Acme", **known})
    return CompanyRecord(company=company, facts=findings)


def test_every_value_says_where_it_came_from():
    said = format_company_sources(
        dossier(
            finding(FactField.EMPLOYEES, "20-50", how=Method.JSON_LD),
            finding(FactField.WEBSITE, "https://acme.test", source="https://acme.test/"),
            website="https://acme.test",
            postal_code="018956",
        )
    )

    assert "<li>name and number: the public register</li>" in said
    assert "<li>zip: the public register</li>" in said
    assert "<li>website: https://acme.test/, its text</li>" in said
    assert "<li>employees: 20-50 (https://acme.test/about, its linked data)</li>" in said


def test_the_surest_of_several_is_told():
    sure = finding(FactField.PHONE, "1", confidence=0.9)
    doubtful = finding(FactField.PHONE, "2", confidence=0.1)

    assert choose_best_by_field([doubtful, sure]) == {FactField.PHONE: sure}


def test_a_contact_says_who_named_it_and_what_a_verifier_said():
    mei = Contact(
        name="Mei", email="m@a.test", verdict=EmailStatus.CATCH_ALL, source="lusha", confidence=0.5
    )
    said = format_contact_sources(mei)

    assert "<li>name, email: lusha</li>" in said
    assert "<li>email checked: catch all</li>" in said
    assert "m@a.test" not in said


@given(st.sampled_from(FactField), anything, anything, anything)
def test_nothing_strangers_say_is_markup_and_every_note_can_be_sent(field, value, source, name):
    known = dossier(finding(field, value, source=source), website=source)
    person = Contact(name=name or "x", email=value, source=source, confidence=0.5)

    for said in (format_company_sources(known), format_contact_sources(person)):
        assert "<" not in TAGS.sub("", said)
    rows = build_rows(
        CompanyRecord(company=known.company, facts=known.facts, contacts=(person,)), tenant=TENANT
    )
    assert all(len(str(row.values.get("comment", ""))) <= MAX_NOTE_LENGTH for row in rows)


def test_the_same_knowledge_reads_the_same():
    known = dossier(finding(FactField.ABOUT, "We make things."), website="https://acme.test")
    assert format_company_sources(known) == format_company_sources(known)
