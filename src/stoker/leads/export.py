"""Write a lead as one row of a file: score, reason, contacts, and the source of each value."""

from __future__ import annotations

from datetime import datetime

from stoker.accounts.contacts import choose_best_contact, get_usable_email
from stoker.accounts.facts import choose_best_by_field
from stoker.accounts.model import CompanyRecord, Contact
from stoker.base.types import Json

LEAD_COLUMNS: dict[str, type] = {
    "tenant": str,
    "company": str,
    "name": str,
    "website": str,
    "score": float,
    "bucket": str,
    "rationale": str,
    "contact_name": str,
    "contact_title": str,
    "contact_email": str,
    "contact_verdict": str,
    "contact_phone": str,
    "contact_source": str,
    "contacts": list,
    "features": dict,
    "sources": dict,
    "looked_at": datetime,
    "run": str,
}


def to_lead_row(tenant: str, record: CompanyRecord) -> dict[str, Json | datetime]:
    """Return the values of a lead by column.

    An address that failed verification is only among the contacts, with its verdict.
    """
    company, score, best = record.company, record.score, choose_best_contact(record)
    return {
        "tenant": tenant,
        "company": company.id,
        "name": company.name,
        "website": company.website,
        "score": score.value if score else None,
        "bucket": score.bucket.value if score else "",
        "rationale": score.rationale if score else "",
        "contact_name": best.name if best else "",
        "contact_title": best.title if best else "",
        "contact_email": get_usable_email(best) if best else "",
        "contact_verdict": best.verdict.value if best and best.email else "",
        "contact_phone": best.phone if best else "",
        "contact_source": best.source if best else "",
        "contacts": [_contact_to_json(contact) for contact in record.contacts],
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
