"""What every store can keep of tenants, companies, units and CRM rows; the rest is refused.

Each function returns a value as a store gives it back, as `core.keeping` does for other values,
and raises what it raises. Nothing was written when one of them refuses.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from stoker.accounts.icp import IcpRule
from stoker.accounts.model import (
    Company,
    CompanyId,
    Contact,
    CrmConnection,
    Dossier,
    LeadScore,
    Tenant,
    User,
)
from stoker.base.errors import PermanentError
from stoker.base.types import in_utc, tenant_id
from stoker.db.codec import kept_json, kept_text
from stoker.db.values import kept_name, kept_texts, kept_whole


def kept_tenant(tenant: Tenant) -> Tenant:
    """Return a tenant as a store gives it back."""
    tenant_id(tenant.id)
    kept_text(tenant.name, what="a tenant's name")
    return tenant


def kept_user(user: User) -> User:
    """Return a person as a store gives them back."""
    kept_name(user.id, what="a person's id")
    kept_texts((user.name, user.role), what="a person")
    return user


def kept_rule(rule: IcpRule) -> IcpRule:
    """Return a rule as a store gives it back."""
    kept_name(rule.name, what="a rule's name")
    for number in rule.employees:
        kept_whole(number, what="a number of employees")
    return rule


def kept_connection(connection: CrmConnection) -> CrmConnection:
    """Return where results go, as a store gives it back."""
    kept_texts((connection.kind, connection.url, connection.database), what="a CRM connection")
    expires_at = _utc(connection.key_expires_at, what="when a key expires")
    return replace(connection, key_expires_at=expires_at)


def kept_id(company: CompanyId) -> CompanyId:
    """Return a company's id."""
    return CompanyId(kept_name(company, what="a company's id"))


def kept_between(ids: Collection[CompanyId], *, after: str, upto: str | None) -> set[CompanyId]:
    """Return the ids between two, the second among them; without it, all that come after."""
    kept_texts((after, upto or ""), what="a company's id")
    return {kept_id(one) for one in ids if one > after and (upto is None or one <= upto)}


def kept_run_name(run: str) -> str:
    """Return a run's name."""
    return kept_name(run, what="a run's name")


def kept_owner(owner: str) -> str:
    """Return who takes units; it has a name."""
    return kept_name(owner, what="an owner")


def kept_company(company: Company) -> Company:
    """Return a company as a store gives it back."""
    kept_id(company.id)
    kept_texts((company.name, company.ssic, company.postal_code, company.website), what="a company")
    for number in (company.year, company.employees):
        if number is not None:
            kept_whole(number, what="a number about a company")
    return replace(company, last_seen_at=_utc(company.last_seen_at, what="when it was last seen"))


def kept_dossier(dossier: Dossier) -> Dossier:
    """Return everything about a company as a store gives it back."""
    for finding in dossier.findings:
        kept_texts((finding.value, finding.source, finding.evidence), what="a finding")
    for contact in dossier.contacts:
        _contact(contact)
    kept_text(dossier.run, what="a run's name")
    if dossier.run:
        kept_run_name(dossier.run)
    kept_text(dossier.extracted_from, what="what findings were taken from")
    return replace(
        dossier,
        company=kept_company(dossier.company),
        score=dossier.score and _score(dossier.score),
        looked_at=_utc(dossier.looked_at, what="when it was looked at"),
        notes=kept_json(dict(dossier.notes), what="notes about a company"),
    )


def _contact(contact: Contact) -> None:
    kept_texts(
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


def _score(score: LeadScore) -> LeadScore:
    kept_texts((score.feature_hash, score.rationale), what="a score")
    return replace(score, features=kept_json(dict(score.features), what="a score's features"))


def _utc(moment: datetime | None, *, what: str) -> datetime | None:
    return None if moment is None else in_utc(moment, what=what)
