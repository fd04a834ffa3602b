"""Lead scores: bounded, monotone, explained."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(dossiers, contacts, findings, rules)
def test_knowing_more_that_is_good_never_lowers_a_score(dossier, contact, finding, rule):
    before = score_lead(dossier, ICP, rule).value
    more = replace(
        dossier,
        contacts=(*dossier.contacts, contact),
        facts=(*dossier.facts, finding),
        company=replace(dossier.company, website="https://acme.test"),
    )
    assert score_lead(more, ICP, rule).value >= before


@given(dossiers, rules)
def test_a_rationale_names_the_bucket_the_score_and_what_is_missing_most(dossier, rule):
    score = score_lead(dossier, ICP, rule)
    assert score.rationale.startswith(f"{score.bucket} ({score.value:.2f}): ")
    assert score.rationale.endswith(".")
    if all(value >= 0.5 for value in score.features.values()):
        assert "; but" not in score.rationale
    else:
        assert "; but" in score.rationale


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
        notes={"hiring": "yes"},
    )
    best = score_lead(everything, ICP)
    assert best.bucket is Bucket.HIGH
    assert best.rationale == (
        f"High ({best.value:.2f}): verified email; industry matches; decision maker known."
    )
    nothing = CompanyRecord(
        company=Company(id=CompanyId("c"), name="Acme", ssic="01111", employees=999)
    )
    worst = score_lead(nothing, ICP)
    assert (worst.value, worst.bucket) == (0.0, Bucket.LOW)
    assert worst.rationale == (
        "Low (0.00): little is known; but size outside the ICP, so not a lead."
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
        contact = Contact(email="a@a.test", verdict=verdict, source="s", confidence=1)
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
