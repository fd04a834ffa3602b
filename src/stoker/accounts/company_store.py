"""Write and read company records in SQL, and convert rows of rules, connections and companies.

All functions run inside the caller's transaction. An empty value replaces nothing; the row itself
decides that, so that two writers about one company lose neither's values. The company's row is
written first: its lock protects the other rows. Rows are read as either database's driver returns
them: times and JSON as text or decoded, booleans as 0 or False.
"""

from __future__ import annotations

from typing import Any

from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Bucket,
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    CrmConnection,
    EmailStatus,
    LeadScore,
)
from stoker.base.jsontools import compact_json
from stoker.base.types import TenantId
from stoker.db.database import (
    Transaction,
    Value,
    from_db_json,
    from_optional_db_time,
    split_into_batches,
    to_optional_db_time,
)

COMPANY_COLUMNS = "id, name, live, ssic, year, postal_code, website, employees, last_seen"

RULE_COLUMNS = "name, industries, least_employees, most_employees, first_year, last_year"

CONNECTION_COLUMNS = "kind, url, database_name, active, key_expires_at"

CONTACT_COLUMNS = "name, title, seniority, phone, source, confidence"


def to_rule_values(rule: IcpRule) -> dict[str, Value]:
    """Return a rule as the values of its row, in the order of `RULE_COLUMNS`."""
    return {
        "name": rule.name,
        "industries": compact_json(list(rule.industries)),
        "least_employees": rule.employees[0],
        "most_employees": rule.employees[1],
        "first_year": rule.years[0],
        "last_year": rule.years[1],
    }


def to_rule(row: tuple[Any, ...]) -> IcpRule:
    """Return the rule in a row of `RULE_COLUMNS`."""
    name, industries, least, most, first, last = row
    return IcpRule(
        name=name,
        industries=tuple(from_db_json(industries)),
        employees=(least, most),
        years=(first, last),
    )


def to_connection(row: tuple[Any, ...]) -> CrmConnection:
    """Return the CRM connection in a row of `CONNECTION_COLUMNS`."""
    kind, url, database, active, key_expires_at = row
    return CrmConnection(
        kind=kind,
        url=url,
        database=database,
        active=bool(active),
        key_expires_at=from_optional_db_time(key_expires_at),
    )


def to_company_row(company: Company) -> tuple[Value, ...]:
    """Return a company as its row, in the order of `COMPANY_COLUMNS`."""
    return (
        company.id,
        company.name,
        company.live,
        company.ssic,
        company.year,
        company.postal_code,
        company.website,
        company.employees,
        to_optional_db_time(company.last_seen_at),
    )


def to_company(row: tuple[Any, ...]) -> Company:
    """Return the company in a row of `COMPANY_COLUMNS`."""
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
        last_seen_at=from_optional_db_time(last_seen),
    )


def encode_facts(facts: tuple[Fact, ...]) -> str:
    """Return facts as the JSON of their column."""
    return compact_json(
        [
            [one.field, one.value, one.source, one.method, one.confidence, one.evidence]
            for one in facts
        ]
    )


def decode_facts(column: Any) -> tuple[Fact, ...]:
    """Return the facts in a column; none when the company was never looked up."""
    return tuple(
        Fact(
            field=FactField(field),
            value=value,
            source=source,
            method=Method(how),
            confidence=confidence,
            evidence=evidence,
        )
        for field, value, source, how, confidence, evidence in from_db_json(column) or ()
    )


def to_contact_row(contact: Contact) -> tuple[Value, ...]:
    """Return a contact as a row of `CONTACT_COLUMNS`; its address has its own row."""
    return (
        contact.name,
        contact.title,
        contact.seniority,
        contact.phone,
        contact.source,
        contact.confidence,
    )


def to_contact(row: tuple[Any, ...]) -> Contact:
    """Return the contact in a row of `CONTACT_COLUMNS`, email, verdict."""
    name, title, seniority, phone, source, confidence, email, verdict = row
    return Contact(
        name=name,
        title=title,
        seniority=seniority,
        phone=phone,
        source=source,
        confidence=confidence,
        email=email or "",
        verdict=EmailStatus.UNVERIFIED if verdict is None else EmailStatus(verdict),
    )


def to_company_record(row: tuple[Any, ...], contacts: tuple[Contact, ...]) -> CompanyRecord:
    """Return the record in a row of company columns, facts and score."""
    looked_at, run, extracted_from, findings, notes = row[9:14]
    score, bucket, rationale, features, feature_hash = row[14:]
    return CompanyRecord(
        company=to_company(row[:9]),
        facts=decode_facts(findings),
        contacts=contacts,
        score=None
        if score is None
        else LeadScore(
            value=score,
            bucket=Bucket(bucket),
            features=from_db_json(features),
            feature_hash=feature_hash,
            rationale=rationale,
        ),
        looked_at=from_optional_db_time(looked_at),
        run=run or "",
        extracted_from=extracted_from or "",
        notes=from_db_json(notes) or {},
    )


_KEEP_OLD_IF_EMPTY = ("name", "ssic", "postal_code", "website")

_KEEP_OLD_IF_NULL = ("year", "employees")

UPSERT_COMPANY = f"""
INSERT INTO companies (tenant_id, {COMPANY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, id) DO UPDATE SET live = excluded.live,
    {
    ", ".join(
        f"{n} = coalesce(nullif(excluded.{n}, ''), companies.{n})" for n in _KEEP_OLD_IF_EMPTY
    )
},
    {", ".join(f"{n} = coalesce(excluded.{n}, companies.{n})" for n in _KEEP_OLD_IF_NULL)},
    last_seen = CASE WHEN companies.last_seen IS NULL OR excluded.last_seen > companies.last_seen
        THEN excluded.last_seen ELSE companies.last_seen END
"""

UPSERT_FACTS = """
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

DELETE_CONTACTS = "DELETE FROM contacts WHERE tenant_id = :tenant AND company_id = :company"

DELETE_EMAILS = "DELETE FROM lead_emails WHERE tenant_id = :tenant AND company_id = :company"

INSERT_CONTACT = f"""
INSERT INTO contacts (tenant_id, company_id, place, {CONTACT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?,
?, ?)
"""

INSERT_EMAIL = """
INSERT INTO lead_emails (tenant_id, company_id, place, email, verdict) VALUES (?, ?, ?, ?, ?)
"""

UPSERT_SCORE = """
INSERT INTO lead_scores (tenant_id, company_id, score, bucket, rationale)
VALUES (:tenant, :company, :score, :bucket, :rationale)
ON CONFLICT (tenant_id, company_id) DO UPDATE SET
    score = excluded.score, bucket = excluded.bucket, rationale = excluded.rationale
"""

UPSERT_FEATURES = """
INSERT INTO lead_features (tenant_id, company_id, features, feature_hash)
VALUES (:tenant, :company, :features, :feature_hash)
ON CONFLICT (tenant_id, company_id) DO UPDATE SET
    features = excluded.features, feature_hash = excluded.feature_hash
"""

_RECORD_COLUMNS = f"""
SELECT c.{COMPANY_COLUMNS.replace(", ", ", c.")}, f.looked_at, f.run, f.extracted_from, f.findings,
f.notes,
    s.score, s.bucket, s.rationale, x.features, x.feature_hash
"""

_JOIN_SCORE = """
LEFT JOIN lead_scores s ON s.tenant_id = c.tenant_id AND s.company_id = c.id
LEFT JOIN lead_features x ON x.tenant_id = c.tenant_id AND x.company_id = c.id
"""

SELECT_RECORD = f"""{_RECORD_COLUMNS} FROM companies c
LEFT JOIN company_findings f ON f.tenant_id = c.tenant_id AND f.company_id = c.id {_JOIN_SCORE}
WHERE c.tenant_id = :tenant AND c.id = :company
"""

SELECT_RECORDS = f"""{_RECORD_COLUMNS} FROM company_findings f
JOIN companies c ON c.tenant_id = f.tenant_id AND c.id = f.company_id {_JOIN_SCORE}
WHERE f.tenant_id = :tenant AND f.company_id > :after
"""

WHERE_RUN = " AND f.run = :run"

WHERE_MIN_SCORE = " AND s.score >= :least"

ORDER_AND_LIMIT = " ORDER BY f.company_id LIMIT :limit"

SELECT_CONTACTS = f"""
SELECT k.company_id, k.place, k.{CONTACT_COLUMNS.replace(", ", ", k.")}, e.email, e.verdict
FROM asked JOIN contacts k ON k.tenant_id = :tenant AND k.company_id = asked.id
LEFT JOIN lead_emails e
    ON e.tenant_id = k.tenant_id AND e.company_id = k.company_id AND e.place = k.place
"""


def save_company_record(tx: Transaction, tenant: TenantId, record: CompanyRecord) -> None:
    """Replace what is stored about a company by a newer record, merging empty values."""
    place: dict[str, Value] = {"tenant": tenant, "company": record.company.id}
    tx.execute_many(UPSERT_COMPANY, [(tenant, *to_company_row(record.company))])
    tx.execute(
        UPSERT_FACTS,
        **place,
        looked_at=to_optional_db_time(record.looked_at),
        run=record.run,
        extracted_from=record.extracted_from,
        findings=encode_facts(record.facts),
        notes=compact_json(record.notes),
    )
    if record.contacts:
        tx.execute(DELETE_CONTACTS, **place)
        tx.execute(DELETE_EMAILS, **place)
        _insert_contacts(tx, tenant, record)
    if record.score is not None:
        score = record.score
        features = compact_json(score.features)
        tx.execute(
            UPSERT_SCORE, **place, score=score.value, bucket=score.bucket, rationale=score.rationale
        )
        tx.execute(UPSERT_FEATURES, **place, features=features, feature_hash=score.feature_hash)


def find_company_record(
    tx: Transaction, tenant: TenantId, company: CompanyId
) -> CompanyRecord | None:
    """Return everything known about a company, or None."""
    records = _build_records(tx, tenant, tx.query(SELECT_RECORD, tenant=tenant, company=company))
    return records[0] if records else None


def list_company_records(
    tx: Transaction,
    tenant: TenantId,
    *,
    after: str,
    limit: int,
    run: str | None,
    least: float | None,
) -> list[CompanyRecord]:
    """Return one page of company records."""
    query, values = SELECT_RECORDS, dict[str, Value](tenant=tenant, after=after, limit=limit)
    if run is not None:
        query, values = query + WHERE_RUN, values | {"run": run}
    if least is not None:
        query, values = query + WHERE_MIN_SCORE, values | {"least": least}
    return _build_records(tx, tenant, tx.query(query + ORDER_AND_LIMIT, **values))


def _insert_contacts(tx: Transaction, tenant: TenantId, record: CompanyRecord) -> None:
    place = (tenant, record.company.id)
    numbered = list(enumerate(record.contacts))
    tx.execute_many(INSERT_CONTACT, [(*place, n, *to_contact_row(one)) for n, one in numbered])
    emails = [
        (*place, n, one.email, one.verdict)
        for n, one in numbered
        if one.email or one.verdict is not EmailStatus.UNVERIFIED
    ]
    if emails:
        tx.execute_many(INSERT_EMAIL, emails)


def _build_records(
    tx: Transaction, tenant: TenantId, rows: list[tuple[Any, ...]]
) -> list[CompanyRecord]:
    contacts: dict[str, dict[int, Contact]] = {row[0]: {} for row in rows}
    for query, some in split_into_batches(SELECT_CONTACTS, list(contacts)):
        for company, place, *contact in tx.query(query, tenant=tenant, **some):
            contacts[company][place] = to_contact(tuple(contact))
    in_order = {
        company: [found[place] for place in sorted(found)] for company, found in contacts.items()
    }
    return [to_company_record(row, tuple(in_order[row[0]])) for row in rows]
