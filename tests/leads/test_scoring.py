"""Lead scores: bounded, monotone, explained."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.accounts.contacts import choose_best_contact
from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    EmailStatus,
    SiteOwner,
    SiteVerdict,
)
from stoker.base.errors import ConfigError
from stoker.base.types import TenantId
from stoker.crm.model import LEAD
from stoker.crm.rows import build_rows
from stoker.leads.scoring import score_lead
from stoker.leads.settings import ScoreRule

ICP = IcpRule()
FEATURES = tuple(ScoreRule().weights)

companies = st.builds(
    Company,
    id=st.just(CompanyId("c")),
    name=st.just("Acme"),
    ssic=st.sampled_from(["", "62011", "01111"]),
    website=st.sampled_from(["", "https://acme.test"]),
    employees=st.none() | st.integers(0, 500),
)
contacts = st.builds(
    Contact,
    name=st.sampled_from(["", "Tan Mei"]),
    title=st.sampled_from(["", "Chief Executive Officer", "Head of Sales", "Clerk"]),
    email=st.sampled_from(["a@acme.test", "b@acme.test"]),
    verdict=st.sampled_from(EmailStatus),
    source=st.just("site"),
    confidence=st.just(0.5),
)
findings = st.builds(
    Fact,
    field=st.sampled_from(FactField),
    value=st.text(max_size=5),
    source=st.just("https://acme.test"),
    method=st.sampled_from(Method),
    confidence=st.just(0.5),
)
dossiers = st.builds(
    CompanyRecord,
    company=companies,
    facts=st.lists(findings, max_size=6).map(tuple),
    contacts=st.lists(contacts, max_size=3).map(tuple),
    notes=st.sampled_from([{}, {"hiring": "3 openings"}]),
)
rules = st.builds(ScoreRule, **{f"{name}_weight": st.floats(0.01, 5) for name in FEATURES})


@given(dossiers, rules)
def test_scores_and_features_are_between_0_and_1_and_the_same_for_the_same_facts(dossier, rule):
    score = score_lead(dossier, ICP, rule)
    assert 0 <= score.value <= 1
    assert all(0 <= value <= 1 for value in score.features.values())
    assert score == score_lead(dossier, ICP, rule)


@given(dossiers, findings, rules)
def test_knowing_more_that_is_good_never_lowers_a_score(dossier, finding, rule):
    before = score_lead(dossier, ICP, rule).value
    more = replace(
        dossier,
        facts=(*dossier.facts, finding),
        company=replace(dossier.company, website="https://acme.test"),
        notes={**dossier.notes, "postings": "3"},
    )
    assert score_lead(more, ICP, rule).value >= before


@given(dossiers, rules)
def test_reachable_and_decides_are_features_of_the_person_the_lead_is_about(dossier, rule):
    score, best = score_lead(dossier, ICP, rule), choose_best_contact(dossier)
    alone = replace(dossier, contacts=(best,) if best else ())
    own = score_lead(alone, ICP, rule).features
    for name in ("reachable", "decision_maker"):
        assert score.features[name] == own[name]


@given(dossiers, rules)
def test_only_a_person_who_decides_at_a_verified_address_is_high(dossier, rule):
    if score_lead(dossier, ICP, rule).bucket is Bucket.HIGH:
        best = choose_best_contact(dossier)
        assert best.verdict is EmailStatus.VALID
        assert best.title in ("Chief Executive Officer", "Head of Sales")


@given(dossiers, rules)
def test_a_rationale_names_the_bucket_and_the_score_and_is_short(dossier, rule):
    score = score_lead(dossier, ICP, rule)
    assert score.rationale.startswith(f"{score.bucket} ({score.value:.2f}): ")
    assert score.rationale.endswith(".")
    assert len(score.rationale) <= 300


def test_job_postings_and_openings_speak_of_growth():
    known = CompanyRecord(company=Company(id=CompanyId("c"), name="Acme"))
    grows = [
        score_lead(replace(known, notes=notes), ICP).features["momentum"]
        for notes in (
            {},
            {"hiring": "yes"},
            {"hiring": "yes", "openings": "4"},
            {"hiring": "yes", "openings": "4", "postings": "2"},
            {"hiring": "yes", "openings": "4", "postings": "9"},
        )
    ]
    assert grows == sorted(set(grows))


def test_a_company_that_has_everything_is_high_and_one_without_anything_is_low():
    everything = CompanyRecord(
        company=Company(
            id=CompanyId("c"), name="Acme", ssic="62011", website="https://a.test", employees=20
        ),
        contacts=(
            Contact(
                name="Tan Mei",
                title="Founder",
                email="tan@a.test",
                verdict=EmailStatus.VALID,
                source="site",
                confidence=1,
            ),
        ),
        facts=tuple(
            Fact.build(field, "x", source="s", how=Method.TEXT, confidence=1) for field in FactField
        ),
        notes={"hiring": "yes", "hiring_page": "https://a.test/jobs", "openings": "4"},
    )
    best = score_lead(everything, ICP)
    assert best.bucket is Bucket.HIGH
    assert best.rationale == (
        f"High ({best.value:.2f}): Tan Mei, Founder, tan@a.test (verified); 20 employees; "
        "software (SSIC 62011); 4 openings on https://a.test/jobs."
    )
    nothing = CompanyRecord(
        company=Company(id=CompanyId("c"), name="Acme", ssic="01111", employees=999)
    )
    worst = score_lead(nothing, ICP)
    assert (worst.value, worst.bucket) == (0.0, Bucket.LOW)
    assert worst.rationale == (
        "Low (0.00): 999 employees; farming (SSIC 01111); but size outside the ICP, so not a lead."
    )


@given(dossiers, st.none() | st.integers(0, 10**9), rules, st.floats(0, 1))
def test_whoever_is_known_to_be_larger_or_smaller_than_wanted_is_no_lead_whatever_else_is_good(
    dossier, people, rule, least
):
    known = replace(dossier, company=replace(dossier.company, employees=people))
    score = score_lead(known, ICP, rule)
    outside = people is not None and not ICP.employees[0] <= people <= ICP.employees[1]
    assert (score.features["size"] == 0) is outside
    assert ("not a lead" in score.rationale) is outside
    if outside:
        rows = build_rows(replace(known, score=score), tenant=TenantId("acme"), least=least)
        assert (score.value, score.bucket) == (0.0, Bucket.LOW)
        assert LEAD not in {row.model for row in rows}


def test_a_size_nobody_knows_is_not_called_one_that_fits():
    known = CompanyRecord(company=Company(id=CompanyId("c"), name="Acme", ssic="62011"))
    assert "size" not in score_lead(known, ICP).rationale


def test_an_address_that_bounces_is_worth_nothing_and_one_nobody_checked_something():
    def reach(verdict):
        contact = Contact(name="Ann", email="a@a.test", verdict=verdict, source="s", confidence=1)
        company = Company(id=CompanyId("c"), name="Acme")
        return score_lead(CompanyRecord(company=company, contacts=(contact,)), ICP).features[
            "reachable"
        ]

    assert reach(EmailStatus.INVALID) == reach(EmailStatus.RISKY) == 0
    assert (
        0
        < reach(EmailStatus.UNVERIFIED)
        < reach(EmailStatus.CATCH_ALL)
        < reach(EmailStatus.VALID)
        == 1
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"size_weight": -1.0},
        {f"{name}_weight": 0.0 for name in FEATURES},
        {"size_weight": float("nan")},
        {"high_from": 0.2},
        {"high_from": 1.2},
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ConfigError):
        ScoreRule(**wrong)


def test_another_rule_gives_another_hash_so_no_old_rationale_is_reused():
    dossier = CompanyRecord(company=Company(id=CompanyId("c"), name="Acme"))
    hashes = {
        score_lead(dossier, ICP, ScoreRule(high_from=high)).feature_hash for high in (0.6, 0.7, 0.8)
    }
    assert len(hashes) == 3


@given(dossiers)
def test_what_a_probable_site_shows_counts_half(dossier):
    site = SiteVerdict(host="acme.test", owner=SiteOwner.PROBABLE)
    sure, unsure = score_lead(dossier, ICP), score_lead(replace(dossier, site=site), ICP)
    halved = {"reachable", "decision_maker", "presence", "momentum"}
    assert unsure.features == {
        name: value / 2 if name in halved else value for name, value in sure.features.items()
    }
    assert unsure.value <= sure.value
