import re

from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.facts import Field, Finding, How, surest_of_each
from stoker.accounts.model import Company, CompanyId, Contact, Dossier, Verdict
from stoker.base.types import TenantId
from stoker.crm.rows import LONGEST_NOTE, company_sources, contact_sources, rows_of

TENANT = TenantId("acme")
anything = st.text(st.characters(), max_size=400)
TAGS = re.compile(r"</?(?:p|ul|li)>")


def finding(field, value, *, source="https://acme.test/about", how=How.TEXT, confidence=0.5):
    return Finding.found(field, value, source=source, how=how, confidence=confidence)


def dossier(*findings, **known):
    company = Company(id=CompanyId("200900001A"), **{"name": "Acme", **known})
    return Dossier(company=company, findings=findings)


def test_every_value_says_where_it_came_from():
    said = company_sources(
        dossier(
            finding(Field.EMPLOYEES, "20-50", how=How.JSON_LD),
            finding(Field.WEBSITE, "https://acme.test", source="https://acme.test/"),
            website="https://acme.test",
            postal_code="018956",
        )
    )

    assert "<li>name and number: the public register</li>" in said
    assert "<li>zip: the public register</li>" in said
    assert "<li>website: https://acme.test/, its text</li>" in said
    assert "<li>employees: 20-50 (https://acme.test/about, its linked data)</li>" in said


def test_the_surest_of_several_is_told():
    sure = finding(Field.PHONE, "1", confidence=0.9)
    doubtful = finding(Field.PHONE, "2", confidence=0.1)

    assert surest_of_each([doubtful, sure]) == {Field.PHONE: sure}


def test_a_contact_says_who_named_it_and_what_a_verifier_said():
    mei = Contact(
        name="Mei", email="m@a.test", verdict=Verdict.CATCH_ALL, source="lusha", confidence=0.5
    )
    said = contact_sources(mei)

    assert "<li>name, email: lusha</li>" in said
    assert "<li>email checked: catch all</li>" in said
    assert "m@a.test" not in said


@given(st.sampled_from(Field), anything, anything, anything)
def test_nothing_strangers_say_is_markup_and_every_note_can_be_sent(field, value, source, name):
    known = dossier(finding(field, value, source=source), website=source)
    person = Contact(name=name or "x", email=value, source=source, confidence=0.5)

    for said in (company_sources(known), contact_sources(person)):
        assert "<" not in TAGS.sub("", said)
    rows = rows_of(
        Dossier(company=known.company, findings=known.findings, contacts=(person,)), tenant=TENANT
    )
    assert all(len(str(row.values.get("comment", ""))) <= LONGEST_NOTE for row in rows)


def test_the_same_knowledge_reads_the_same():
    known = dossier(finding(Field.ABOUT, "We make things."), website="https://acme.test")
    assert company_sources(known) == company_sources(known)
