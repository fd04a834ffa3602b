"""What is known about companies, in SQL: how it is put in place of what was known, and read.

Everything here is part of somebody's transaction. What is empty replaces nothing, and that is
decided in the row itself, so that two who write about one company lose neither's word. The
company's row comes first: whoever holds it is the only one to write the rest.

How rules, connections, companies and what is known about them stand in rows.

Rows that come out are read as either database's driver gives them: moments and JSON as text or
decoded, 0 or False.
"""

from __future__ import annotations

from typing import Any

from stoker.accounts.facts import Field, Finding, How
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    Contact,
    CrmConnection,
    Dossier,
    LeadScore,
    Verdict,
)
from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId
from stoker.db.database import (
    Transaction,
    Value,
    asked,
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


_KEPT_IF_EMPTY = ("name", "ssic", "postal_code", "website")

_KEPT_IF_NULL = ("year", "employees")

PUT_COMPANY = f"""
INSERT INTO companies (tenant_id, {COMPANY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, id) DO UPDATE SET live = excluded.live,
    {", ".join(f"{n} = coalesce(nullif(excluded.{n}, ''), companies.{n})" for n in _KEPT_IF_EMPTY)},
    {", ".join(f"{n} = coalesce(excluded.{n}, companies.{n})" for n in _KEPT_IF_NULL)},
    last_seen = CASE WHEN companies.last_seen IS NULL OR excluded.last_seen > companies.last_seen
        THEN excluded.last_seen ELSE companies.last_seen END
"""

PUT_FINDINGS = """
INSERT INTO company_findings (tenant_id, company_id, looked_at, run, extracted_from, findings,
                              notes)
VALUES (:tenant, :company, :looked_at, :run, :extracted_from, :findings, :notes)
ON CONFLICT (tenant_id, company_id) DO UPDATE SET
    looked_at = coalesce(excluded.looked_at, company_findings.looked_at),
    run = coalesce(nullif(excluded.run, ''), company_findings.run),
    extracted_from = coalesce(nullif(excluded.extracted_from, ''), company_findings.extracted_from),
    findings = CASE WHEN cast(excluded.findings AS text) = '[]' THEN company_findings.findings
        ELSE excluded.findings END,
    notes = CASE WHEN cast(excluded.notes AS text) = '{}' THEN company_findings.notes
        ELSE excluded.notes END
"""

FORGET_CONTACTS = "DELETE FROM contacts WHERE tenant_id = :tenant AND company_id = :company"

FORGET_EMAILS = "DELETE FROM lead_emails WHERE tenant_id = :tenant AND company_id = :company"

ADD_CONTACT = f"""
INSERT INTO contacts (tenant_id, company_id, place, {CONTACT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

ADD_EMAIL = """
INSERT INTO lead_emails (tenant_id, company_id, place, email, verdict) VALUES (?, ?, ?, ?, ?)
"""

PUT_SCORE = """
INSERT INTO lead_scores (tenant_id, company_id, score, bucket, rationale)
VALUES (:tenant, :company, :score, :bucket, :rationale)
ON CONFLICT (tenant_id, company_id) DO UPDATE SET
    score = excluded.score, bucket = excluded.bucket, rationale = excluded.rationale
"""

PUT_FEATURES = """
INSERT INTO lead_features (tenant_id, company_id, features, feature_hash)
VALUES (:tenant, :company, :features, :feature_hash)
ON CONFLICT (tenant_id, company_id) DO UPDATE SET
    features = excluded.features, feature_hash = excluded.feature_hash
"""

_KNOWN = f"""
SELECT c.{COMPANY.replace(", ", ", c.")}, f.looked_at, f.run, f.extracted_from, f.findings, f.notes,
    s.score, s.bucket, s.rationale, x.features, x.feature_hash
"""

_WITH_SCORE = """
LEFT JOIN lead_scores s ON s.tenant_id = c.tenant_id AND s.company_id = c.id
LEFT JOIN lead_features x ON x.tenant_id = c.tenant_id AND x.company_id = c.id
"""

DOSSIER = f"""{_KNOWN} FROM companies c
LEFT JOIN company_findings f ON f.tenant_id = c.tenant_id AND f.company_id = c.id {_WITH_SCORE}
WHERE c.tenant_id = :tenant AND c.id = :company
"""

DOSSIERS = f"""{_KNOWN} FROM company_findings f
JOIN companies c ON c.tenant_id = f.tenant_id AND c.id = f.company_id {_WITH_SCORE}
WHERE f.tenant_id = :tenant AND f.company_id > :after
"""

OF_RUN = " AND f.run = :run"

AT_LEAST = " AND s.score >= :least"

IN_ORDER = " ORDER BY f.company_id LIMIT :limit"

CONTACTS = f"""
SELECT k.company_id, k.place, k.{CONTACT.replace(", ", ", k.")}, e.email, e.verdict
FROM asked JOIN contacts k ON k.tenant_id = :tenant AND k.company_id = asked.id
LEFT JOIN lead_emails e
    ON e.tenant_id = k.tenant_id AND e.company_id = k.company_id AND e.place = k.place
"""


def put_dossier(tx: Transaction, tenant: TenantId, dossier: Dossier) -> None:
    """Put what was found out in place of what was known; as `NightStore.finish_unit` promises."""
    place: dict[str, Value] = {"tenant": tenant, "company": dossier.company.id}
    tx.change_many(PUT_COMPANY, [(tenant, *company_row(dossier.company))])
    tx.change(
        PUT_FINDINGS,
        **place,
        looked_at=optional_moment_text(dossier.looked_at),
        run=dossier.run,
        extracted_from=dossier.extracted_from,
        findings=findings_text(dossier.findings),
        notes=compact_json(dossier.notes),
    )
    if dossier.contacts:
        tx.change(FORGET_CONTACTS, **place)
        tx.change(FORGET_EMAILS, **place)
        _add_contacts(tx, tenant, dossier)
    if dossier.score is not None:
        score = dossier.score
        features = compact_json(score.features)
        tx.change(
            PUT_SCORE, **place, score=score.value, bucket=score.bucket, rationale=score.rationale
        )
        tx.change(PUT_FEATURES, **place, features=features, feature_hash=score.feature_hash)


def known_dossier(tx: Transaction, tenant: TenantId, company: CompanyId) -> Dossier | None:
    """Return everything known about a company."""
    found = _dossiers(tx, tenant, tx.rows(DOSSIER, tenant=tenant, company=company))
    return found[0] if found else None


def page_of_dossiers(
    tx: Transaction,
    tenant: TenantId,
    *,
    after: str,
    limit: int,
    run: str | None,
    least: float | None,
) -> list[Dossier]:
    """Return one page of dossiers; as `AccountStore.dossiers` promises."""
    query, values = DOSSIERS, dict[str, Value](tenant=tenant, after=after, limit=limit)
    if run is not None:
        query, values = query + OF_RUN, values | {"run": run}
    if least is not None:
        query, values = query + AT_LEAST, values | {"least": least}
    return _dossiers(tx, tenant, tx.rows(query + IN_ORDER, **values))


def _add_contacts(tx: Transaction, tenant: TenantId, dossier: Dossier) -> None:
    place = (tenant, dossier.company.id)
    numbered = list(enumerate(dossier.contacts))
    tx.change_many(ADD_CONTACT, [(*place, n, *contact_row(one)) for n, one in numbered])
    emails = [
        (*place, n, one.email, one.verdict)
        for n, one in numbered
        if one.email or one.verdict is not Verdict.UNVERIFIED
    ]
    if emails:
        tx.change_many(ADD_EMAIL, emails)


def _dossiers(tx: Transaction, tenant: TenantId, rows: list[tuple[Any, ...]]) -> list[Dossier]:
    contacts: dict[str, dict[int, Contact]] = {row[0]: {} for row in rows}
    for query, some in asked(CONTACTS, list(contacts)):
        for company, place, *contact in tx.rows(query, tenant=tenant, **some):
            contacts[company][place] = contact_of(tuple(contact))
    in_order = {
        company: [found[place] for place in sorted(found)] for company, found in contacts.items()
    }
    return [dossier_of(row, tuple(in_order[row[0]])) for row in rows]
