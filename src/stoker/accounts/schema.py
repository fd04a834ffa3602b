"""The tables of one tenant's companies.

A company's row is what every source says of it; what looking it up found stands beside it, in
`company_findings`, and is written whole each time.
"""

from __future__ import annotations

from typing import Any

from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyRecord,
    Contact,
    EmailStatus,
    SiteOwner,
    SiteVerdict,
)
from stoker.base.errors import PermanentError
from stoker.base.types import Json
from stoker.db.codec import validate_key
from stoker.db.table import (
    FLAG,
    INT,
    JSON_OBJECT,
    JSON_TEXTS,
    KEEP_IF_EMPTY,
    KEEP_IF_NULL,
    KEEP_LATER,
    KEEP_OLD,
    KEY,
    ORDERED_TEXT,
    REAL,
    TEXT,
    TIME,
    Column,
    Index,
    Table,
    enum,
    json_of,
)


def _build_rule(
    name: str,
    industries: tuple[str, ...],
    least_employees: int,
    most_employees: int,
    first_year: int,
    last_year: int,
) -> IcpRule:
    return IcpRule(
        name=name,
        industries=industries,
        employees=(least_employees, most_employees),
        years=(first_year, last_year),
    )


RULES = Table(
    "icp_rules",
    _build_rule,
    Column("name", KEY),
    Column("industries", JSON_TEXTS),
    Column("least_employees", INT, field="employees[0]"),
    Column("most_employees", INT, field="employees[1]"),
    Column("first_year", INT, field="years[0]"),
    Column("last_year", INT, field="years[1]"),
    key=["name"],
    since=6,
    what="the rule",
    grants="SELECT, INSERT, UPDATE",
)

# A moment to go on from; updating a row to itself locks what it is about.
MARKS: Table[Any] = Table(
    "account_marks",
    None,
    Column("name", ORDERED_TEXT),
    Column("at", TIME, null=True),
    key=["name"],
    since=6,
    grants="SELECT, INSERT, UPDATE",
)

COMPANIES = Table(
    "companies",
    Company,
    Column("id", KEY),
    Column("name", TEXT, merge=KEEP_IF_EMPTY),
    Column("live", FLAG),
    Column("ssic", TEXT, merge=KEEP_IF_EMPTY),
    Column("year", INT, null=True, merge=KEEP_IF_NULL),
    Column("postal_code", TEXT, merge=KEEP_IF_EMPTY),
    Column("website", TEXT, merge=KEEP_IF_EMPTY),
    Column("employees", INT, null=True, merge=KEEP_IF_NULL),
    Column("last_seen", TIME, field="last_seen_at", null=True, merge=KEEP_LATER),
    Column("company_id", ORDERED_TEXT, generated="id", since=18),
    Column("uen", TEXT, generated="id", since=18),
    Column("incorporation_year", INT, generated="year", since=18),
    Column("employees_est", INT, generated="employees", since=18),
    Column("given", FLAG, field="is_given", default="FALSE", merge=KEEP_OLD, since=19),
    Column("posture", REAL, null=True, merge=KEEP_OLD, since=19),
    key=["id"],
    indexes=[
        Index(
            "idx_companies_last_seen",
            "last_seen DESC NULLS LAST",
            renamed_from="companies_by_last_seen",
            renamed_in=18,
        )
    ],
    since=6,
    what="the company",
    grants="SELECT, INSERT, UPDATE",
)

CANDIDATES: Table[Any] = Table(
    "icp_candidate_companies",
    None,
    Column("rule", KEY),
    Column("company_id", KEY),
    key=["rule", "company_id"],
    since=6,
    grants="SELECT, INSERT, DELETE",
)


def _to_facts_json(facts: tuple[Fact, ...]) -> Json:
    return [
        [one.field, one.value, one.source, one.method, one.confidence, one.evidence]
        for one in facts
    ]


def _parse_facts(found: Any) -> tuple[Fact, ...]:
    return tuple(
        Fact(
            field=FactField(field),
            value=value,
            source=source,
            method=Method(method),
            confidence=confidence,
            evidence=evidence,
        )
        for field, value, source, method, confidence, evidence in found
    )


def _site_to_json(site: SiteVerdict) -> Json:
    return [site.host, site.owner.value, site.proof, site.source]


def _parse_site(found: Any) -> SiteVerdict:
    host, owner, proof, source = found
    return SiteVerdict(host=host, owner=SiteOwner(owner), proof=proof, source=source)


_KEEP_IF_EMPTY_LIST = "CASE WHEN cast({new} AS text) = '[]' THEN {old} ELSE {new} END"

_KEEP_IF_EMPTY_OBJECT = "CASE WHEN cast({new} AS text) = '{{}}' THEN {old} ELSE {new} END"


def _check_run(record: CompanyRecord) -> None:
    if record.run:
        validate_key(record.run, what="a run's name")  # there is an index of it


# Part of a `CompanyRecord`, as are the tables below of contacts and scores.
FACTS: Table[Any] = Table(
    "company_findings",
    dict,
    Column("company_id", KEY, parent=True),
    Column("looked_at", TIME, null=True, merge=KEEP_IF_NULL),
    Column("run", ORDERED_TEXT, merge=KEEP_IF_EMPTY),
    Column("extracted_from", TEXT, merge=KEEP_IF_EMPTY),
    Column(
        "findings",
        json_of(_to_facts_json, _parse_facts),
        field="facts",
        merge=_KEEP_IF_EMPTY_LIST,
    ),
    Column("notes", JSON_OBJECT, merge=_KEEP_IF_EMPTY_OBJECT),
    Column("site", json_of(_site_to_json, _parse_site), null=True, merge=KEEP_IF_NULL, since=14),
    key=["company_id"],
    check=_check_run,
    indexes=[Index("findings_by_run", "run, company_id")],
    since=6,
    what="the facts of a company looked up at",
    grants="SELECT, INSERT, UPDATE",
    wide=True,
)


def _check_confidence(contact: Contact) -> None:
    if not 0.0 <= contact.confidence <= 1.0:
        raise PermanentError(
            f"a contact's confidence is between 0 and 1, not {contact.confidence!r}; "
            "nothing was written"
        )


CONTACTS: Table[Any] = Table(
    "contacts",
    dict,
    Column("company_id", KEY, parent=True),
    Column("place", INT, parent=True),
    Column("name", TEXT),
    Column("title", TEXT),
    Column("seniority", TEXT),
    Column("phone", TEXT),
    Column("source", TEXT),
    Column("confidence", REAL),
    Column("identity", TEXT, since=21, default="''"),
    key=["company_id", "place"],
    indexes=[Index("idx_contacts_company", "company_id", since=18)],
    check=_check_confidence,
    since=6,
    what="the contact",
    grants="SELECT, INSERT, DELETE",
)

EMAILS: Table[Any] = Table(
    "lead_emails",
    dict,
    Column("company_id", KEY, parent=True),
    Column("place", INT, parent=True),
    Column("email", TEXT),
    Column("verdict", enum(EmailStatus)),
    key=["company_id", "place"],
    since=6,
    what="the email address",
    grants="SELECT, INSERT, DELETE",
)

FEATURES: Table[Any] = Table(
    "lead_features",
    dict,
    Column("company_id", KEY, parent=True),
    Column("features", JSON_OBJECT),
    Column("feature_hash", TEXT),
    key=["company_id"],
    since=6,
    what="the features of a lead",
    grants="SELECT, INSERT, UPDATE",
)

SCORES: Table[Any] = Table(
    "lead_scores",
    dict,
    Column("company_id", KEY, parent=True),
    Column("score", REAL, field="value"),
    Column("bucket", enum(Bucket)),
    Column("rationale", TEXT),
    key=["company_id"],
    indexes=[
        Index(
            "idx_lead_scores_score",
            "score DESC NULLS LAST",
            renamed_from="scores_by_value",
            renamed_in=18,
        )
    ],
    since=6,
    what="the score of a lead",
    grants="SELECT, INSERT, UPDATE",
)

# Keyed hashes of erased persons, and under the name `key` the tenant's key of these hashes.
SUPPRESSIONS: Table[Any] = Table(
    "contact_suppressions",
    dict,
    Column("name", KEY),
    Column("value", TEXT),
    Column("at", TIME),
    key=["name"],
    since=16,
    what="the suppression",
    grants="SELECT, INSERT",
)

TABLES = (
    RULES,
    MARKS,
    COMPANIES,
    CANDIDATES,
    FACTS,
    CONTACTS,
    EMAILS,
    FEATURES,
    SCORES,
    SUPPRESSIONS,
)
