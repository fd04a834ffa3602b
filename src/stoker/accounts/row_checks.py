"""Check that tenants, companies and records can be stored; refuse the rest before writing.

Each function returns a value as a store returns it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Company,
    CompanyId,
    CompanyRecord,
    Contact,
    CrmConnection,
    LeadScore,
    Tenant,
)
from stoker.base.errors import PermanentError
from stoker.base.types import parse_tenant_id, to_utc
from stoker.db.codec import validate_json, validate_text
from stoker.db.values import validate_int64, validate_key, validate_texts


def validate_tenant(tenant: Tenant) -> Tenant:
    """Return a tenant as a store returns it."""
    parse_tenant_id(tenant.id)
    validate_text(tenant.name, what="a tenant's name")
    return tenant


def validate_rule(rule: IcpRule) -> IcpRule:
    """Return a rule as a store returns it."""
    validate_key(rule.name, what="a rule's name")
    for number in rule.employees:
        validate_int64(number, what="a number of employees")
    return rule


def validate_connection(connection: CrmConnection) -> CrmConnection:
    """Return a CRM connection as a store returns it."""
    validate_texts((connection.kind, connection.url, connection.database), what="a CRM connection")
    expires_at = _to_utc(connection.key_expires_at, what="when a key expires")
    return replace(connection, key_expires_at=expires_at)


def validate_company_id(company: CompanyId) -> CompanyId:
    """Return a company's id. Raises for one that cannot be stored."""
    return CompanyId(validate_key(company, what="a company's id"))


def select_ids_between(
    ids: Collection[CompanyId], *, after: str, upto: str | None
) -> set[CompanyId]:
    """Return the ids after one and up to another; without `upto`, all after the first."""
    validate_texts((after, upto or ""), what="a company's id")
    return {
        validate_company_id(one) for one in ids if one > after and (upto is None or one <= upto)
    }


def validate_run_name(run: str) -> str:
    """Return a run's name. Raises for one that cannot be stored."""
    return validate_key(run, what="a run's name")


def validate_owner(owner: str) -> str:
    """Return an owner's name. Raises for one that cannot be stored."""
    return validate_key(owner, what="an owner")


def validate_company(company: Company) -> Company:
    """Return a company as a store returns it."""
    validate_company_id(company.id)
    validate_texts(
        (company.name, company.ssic, company.postal_code, company.website), what="a company"
    )
    for number in (company.year, company.employees):
        if number is not None:
            validate_int64(number, what="a number about a company")
    return replace(
        company, last_seen_at=_to_utc(company.last_seen_at, what="when it was last seen")
    )


def validate_company_record(record: CompanyRecord) -> CompanyRecord:
    """Return a company record as a store returns it."""
    for fact in record.facts:
        validate_texts((fact.value, fact.source, fact.evidence), what="a fact")
    for contact in record.contacts:
        _validate_contact(contact)
    validate_text(record.run, what="a run's name")
    if record.run:
        validate_run_name(record.run)
    validate_text(record.extracted_from, what="the source of facts")
    return replace(
        record,
        company=validate_company(record.company),
        score=record.score and _validate_score(record.score),
        looked_at=_to_utc(record.looked_at, what="when it was looked at"),
        notes=validate_json(dict(record.notes), what="notes about a company"),
    )


def _validate_contact(contact: Contact) -> None:
    validate_texts(
        (
            contact.name,
            contact.title,
            contact.seniority,
            contact.email,
            contact.phone,
            contact.source,
        ),
        what="a contact",
    )
    if not 0.0 <= contact.confidence <= 1.0:
        raise PermanentError(
            f"a contact's confidence is between 0 and 1, not {contact.confidence!r}; "
            "nothing was written"
        )


def _validate_score(score: LeadScore) -> LeadScore:
    validate_texts((score.feature_hash, score.rationale), what="a score")
    return replace(score, features=validate_json(dict(score.features), what="a score's features"))


def _to_utc(moment: datetime | None, *, what: str) -> datetime | None:
    return None if moment is None else to_utc(moment, what=what)
