"""List a tenant's leads; write each as one row: score, reason, contacts, sources of values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from stoker.accounts.contacts import (
    choose_best_contact,
    find_own_mailbox,
    get_usable_email,
    is_person,
)
from stoker.accounts.facts import choose_best_by_field
from stoker.accounts.model import CompanyRecord, Contact
from stoker.accounts.websites import format_site
from stoker.base.types import Json, TenantId
from stoker.leads.scoring import find_weakest_feature

if TYPE_CHECKING:
    from stoker.context import Context
    from stoker.files.export import ExportWriter

PAGE_SIZE = 200

Lead = tuple[TenantId, CompanyRecord]

LEAD_COLUMNS: dict[str, type] = {
    "tenant": str,
    "company": str,
    "name": str,
    "website": str,
    "website_owner": str,
    "website_proof": str,
    "score": float,
    "bucket": str,
    "weakest": str,
    "rationale": str,
    "contact_name": str,
    "contact_title": str,
    "contact_email": str,
    "contact_verdict": str,
    "contact_phone": str,
    "contact_source": str,
    "company_email": str,
    "company_email_verdict": str,
    "contacts": list,
    "features": dict,
    "sources": dict,
    "looked_at": datetime,
    "run": str,
}


async def iterate_leads(
    app: Context, tenant: TenantId, *, least: float | None = None, run: str | None = None
) -> AsyncIterator[list[CompanyRecord]]:
    """Yield pages of the companies scored at least so much, by default what becomes a lead."""
    if least is None:
        least = app.settings.for_tenant(tenant).score.min_export
    accounts, after = app.backend.tenant(tenant).accounts, ""
    while page := await accounts.list_company_records(
        after=after, limit=PAGE_SIZE, run=run, least=least
    ):
        after = page[-1].company.id
        yield page


async def list_best_leads(
    app: Context, tenants: Iterable[TenantId], *, least: float | None, limit: int | None
) -> list[Lead]:
    """Return the leads of all tenants together, best first."""
    best: list[Lead] = []
    for tenant in tenants:
        async for page in iterate_leads(app, tenant, least=least):
            leads = [*best, *((tenant, record) for record in page)]
            best = sorted(leads, key=_get_sort_key)[:limit]
    return best


async def write_leads(
    app: Context,
    tenants: Iterable[TenantId],
    file: ExportWriter,
    *,
    least: float | None,
    run: str | None,
) -> int:
    """Write leads to a file, tenant by tenant; return how many there were."""
    count = 0
    for tenant in tenants:
        async for page in iterate_leads(app, tenant, least=least, run=run):
            file.add([to_lead_row(tenant, record) for record in page])
            count += len(page)
    return count


def _get_sort_key(lead: Lead) -> tuple[float | str, ...]:
    """Best score first; among equal ones who can be reached, who decides, who grows."""
    tenant, record = lead
    if record.score is None:
        return (0.0, 0.0, 0.0, 0.0, 0.0, tenant, record.company.id)
    names = ("reachable", "decision_maker", "momentum", "presence")
    features = [-record.score.features.get(name, 0.0) for name in names]
    return (-record.score.value, *features, tenant, record.company.id)


def to_lead_row(tenant: str, record: CompanyRecord) -> dict[str, Json | datetime]:
    """Return the values of a lead by column.

    An address that failed verification is only among the contacts, with its verdict.
    """
    company, score, best = record.company, record.score, choose_best_contact(record)
    mailbox = find_own_mailbox(record)
    return {
        "tenant": tenant,
        "company": company.id,
        "name": company.name,
        "website": company.website,
        "website_owner": record.site.owner.value if record.site else "",
        "website_proof": format_site(record.site) if record.site else "",
        "score": score.value if score else None,
        "bucket": score.bucket.value if score else "",
        "weakest": find_weakest_feature(score.features) if score else "",
        "rationale": score.rationale if score else "",
        "contact_name": best.name if best else "",
        "contact_title": best.title if best else "",
        "contact_email": get_usable_email(best) if best else "",
        "contact_verdict": best.verdict.value if best and best.email else "",
        "contact_phone": best.phone if best else "",
        "contact_source": best.source if best else "",
        "company_email": get_usable_email(mailbox) if mailbox else "",
        "company_email_verdict": mailbox.verdict.value if mailbox else "",
        "contacts": [_contact_to_json(each) for each in record.contacts if is_person(each)],
        "features": dict(score.features) if score else {},
        "sources": {
            field.value: {
                "value": fact.value,
                "source": fact.source,
                "how": fact.method.value,
                "confidence": fact.confidence,
            }
            for field, fact in choose_best_by_field(record.facts).items()
        },
        "looked_at": record.looked_at or "",
        "run": record.run,
    }


def _contact_to_json(contact: Contact) -> Json:
    return {
        "name": contact.name,
        "title": contact.title,
        "email": contact.email,
        "verdict": contact.verdict.value,
        "phone": contact.phone,
        "source": contact.source,
        "confidence": contact.confidence,
    }
