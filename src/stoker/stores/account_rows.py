"""How rules, connections, companies and what is known about them stand in rows.

Rows that come out are read as either database's driver gives them: moments and JSON as text or
decoded, 0 or False.
"""

from __future__ import annotations

from typing import Any

from stoker.accounts import CrmConnection
from stoker.core.companies import Bucket, Company, Contact, Dossier, LeadScore, Verdict
from stoker.core.findings import Field, Finding, How
from stoker.core.icp import IcpRule
from stoker.core.runs import compact_json
from stoker.stores.sql import (
    Value,
    json_value,
    optional_moment,
    optional_moment_text,
)

COMPANY = "id, name, live, ssic, year, postal_code, website, employees, last_seen"
RULE = "name, industries, least_employees, most_employees, first_year, last_year"
CONNECTION = "kind, url, database_name, active, key_expires_at"
CONTACT = "name, title, seniority, phone, source, confidence"


def rule_values(rule: IcpRule) -> dict[str, Value]:
    """Return a rule as the values of its row, in the order of `RULE`."""
    return {
        "name": rule.name,
        "industries": compact_json(list(rule.industries)),
        "least_employees": rule.employees[0],
        "most_employees": rule.employees[1],
        "first_year": rule.years[0],
        "last_year": rule.years[1],
    }


def rule_of(row: tuple[Any, ...]) -> IcpRule:
    """Return the rule in a row of `RULE`."""
    name, industries, least, most, first, last = row
    return IcpRule(
        name=name,
        industries=tuple(json_value(industries)),
        employees=(least, most),
        years=(first, last),
    )


def connection_of(row: tuple[Any, ...]) -> CrmConnection:
    """Return where results go, from a row of `CONNECTION`."""
    kind, url, database, active, key_expires_at = row
    return CrmConnection(
        kind=kind,
        url=url,
        database=database,
        active=bool(active),
        key_expires_at=optional_moment(key_expires_at),
    )


def company_row(company: Company) -> tuple[Value, ...]:
    """Return a company as its row, in the order of `COMPANY`."""
    return (
        company.id,
        company.name,
        company.live,
        company.ssic,
        company.year,
        company.postal_code,
        company.website,
        company.employees,
        optional_moment_text(company.last_seen_at),
    )


def company_of(row: tuple[Any, ...]) -> Company:
    """Return the company in a row of `COMPANY`."""
    company, name, live, ssic, year, postal_code, website, employees, last_seen = row
    return Company(
        id=company,
        name=name,
        live=bool(live),
        ssic=ssic,
        year=year,
        postal_code=postal_code,
        website=website,
        employees=employees,
        last_seen_at=optional_moment(last_seen),
    )


def findings_text(findings: tuple[Finding, ...]) -> str:
    """Return findings as the JSON of their column."""
    return compact_json(
        [
            [one.field, one.value, one.source, one.how, one.confidence, one.evidence]
            for one in findings
        ]
    )


def findings_of(column: Any) -> tuple[Finding, ...]:
    """Return the findings in a column; None when the company was never looked at."""
    return tuple(
        Finding(
            field=Field(field),
            value=value,
            source=source,
            how=How(how),
            confidence=confidence,
            evidence=evidence,
        )
        for field, value, source, how, confidence, evidence in json_value(column) or ()
    )


def contact_row(contact: Contact) -> tuple[Value, ...]:
    """Return a contact as its row, in the order of `CONTACT`; its address has a row of its own."""
    return (
        contact.name,
        contact.title,
        contact.seniority,
        contact.phone,
        contact.source,
        contact.confidence,
    )


def contact_of(row: tuple[Any, ...]) -> Contact:
    """Return the contact in a row of `CONTACT`, email, verdict."""
    name, title, seniority, phone, source, confidence, email, verdict = row
    return Contact(
        name=name,
        title=title,
        seniority=seniority,
        phone=phone,
        source=source,
        confidence=confidence,
        email=email or "",
        verdict=Verdict.UNVERIFIED if verdict is None else Verdict(verdict),
    )


def dossier_of(row: tuple[Any, ...], contacts: tuple[Contact, ...]) -> Dossier:
    """Return the dossier in a row of `COMPANY`, then what was found out, then the score."""
    looked_at, run, extracted_from, findings, notes = row[9:14]
    score, bucket, rationale, features, feature_hash = row[14:]
    return Dossier(
        company=company_of(row[:9]),
        findings=findings_of(findings),
        contacts=contacts,
        score=None
        if score is None
        else LeadScore(
            value=score,
            bucket=Bucket(bucket),
            features=json_value(features),
            feature_hash=feature_hash,
            rationale=rationale,
        ),
        looked_at=optional_moment(looked_at),
        run=run or "",
        extracted_from=extracted_from or "",
        notes=json_value(notes) or {},
    )
