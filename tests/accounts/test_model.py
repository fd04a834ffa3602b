"""What is known after somebody said more: the newer word, and never silence in place of a word."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    LeadScore,
    merge_company,
    merge_company_record,
)

moments = st.none() | st.integers(0, 3).map(
    lambda days: datetime(2026, 2, 7, tzinfo=UTC) + timedelta(days=days)
)
words = st.sampled_from(["", "a", "b"])
numbers = st.none() | st.integers(0, 2)
companies = st.builds(
    Company,
    id=st.just(CompanyId("T1")),
    name=words,
    live=st.booleans(),
    ssic=words,
    year=numbers,
    postal_code=words,
    website=words,
    employees=numbers,
    last_seen_at=moments,
)
findings = st.builds(
    Fact,
    field=st.just(FactField.ABOUT),
    value=words,
    source=words,
    method=st.sampled_from(Method),
    confidence=st.just(0.5),
)
contacts = st.builds(Contact, name=st.just("Ann"), source=words, confidence=st.just(0.5))
scores = st.builds(
    LeadScore,
    value=st.sampled_from([0.0, 0.5]),
    bucket=st.sampled_from(Bucket),
    features=st.just({}),
    feature_hash=words,
    rationale=words,
)
dossiers = st.builds(
    CompanyRecord,
    company=companies,
    facts=st.lists(findings, max_size=2).map(tuple),
    contacts=st.lists(contacts, max_size=2).map(tuple),
    score=st.none() | scores,
    looked_at=moments,
    run=words,
    extracted_from=words,
    notes=st.dictionaries(words, words, max_size=2),
)
EMPTY = (None, "", (), {})


@given(companies, companies)
def test_every_part_of_a_company_is_the_newer_word_or_the_older_where_there_is_none(known, said):
    merged = merge_company(known, said)
    for name in (each.name for each in fields(Company)):
        if name == "last_seen_at":
            continue
        older, newer = getattr(known, name), getattr(said, name)
        assert getattr(merged, name) == (older if newer in EMPTY and newer is not False else newer)


@given(companies, companies)
def test_a_company_is_never_last_seen_earlier_than_before(known, said):
    seen = [one.last_seen_at for one in (known, said) if one.last_seen_at]
    assert merge_company(known, said).last_seen_at == (max(seen) if seen else None)


@given(dossiers, dossiers)
def test_every_part_of_a_dossier_is_the_newer_or_the_older_where_there_is_none(known, said):
    merged = merge_company_record(known, said)
    assert merged.company == merge_company(known.company, said.company)
    for name in (each.name for each in fields(CompanyRecord) if each.name != "company"):
        older, newer = getattr(known, name), getattr(said, name)
        assert getattr(merged, name) == (older if newer in EMPTY else newer)


@given(dossiers)
def test_saying_nothing_or_the_same_again_changes_nothing(known):
    nothing = Company(id=known.company.id, name="", live=known.company.live)
    assert merge_company_record(known, CompanyRecord(company=nothing)) == known
    assert merge_company_record(known, known) == known


@given(dossiers, dossiers)
def test_saying_it_twice_is_saying_it_once(known, said):
    once = merge_company_record(known, said)
    assert merge_company_record(once, said) == once


@given(companies, companies)
def test_what_is_0_or_dead_is_a_word_too(known, said):
    merged = merge_company(known, replace(said, employees=0, year=0, live=False))
    assert (merged.employees, merged.year, merged.live) == (0, 0, False)
