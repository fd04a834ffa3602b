"""A lead as one row of a file: how good and why, whom to write to, and where each value came from.

Plain values for programs and spreadsheets; which leads go into a file, and how cells are kept from
being formulas, is decided elsewhere.
"""

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


def to_lead_row(tenant: str, dossier: CompanyRecord) -> dict[str, Json | datetime]:
    """Return everything a reader of leads wants to know about one, by column.

    An address nobody should write to is among the contacts with its verdict, and nowhere else.
    """
    company, score, best = dossier.company, dossier.score, choose_best_contact(dossier)
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
        "contacts": [_contact_to_json(contact) for contact in dossier.contacts],
        "features": dict(score.features) if score else {},
        "sources": {
            field.value: {
                "value": finding.value,
                "source": finding.source,
                "how": finding.method.value,
                "confidence": finding.confidence,
            }
            for field, finding in choose_best_by_field(dossier.facts).items()
        },
        "looked_at": dossier.looked_at or "",
        "run": dossier.run,
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
