"""What is known about a company after somebody said more.

The newer word replaces the older one, and silence replaces nothing: an empty text, None or an
empty list says that somebody did not find out, not that there is nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from stoker.core.companies import Company, Dossier


def merged_company(known: Company, said: Company) -> Company:
    """Return the company as known, with what was said of it now. It is never seen earlier."""
    return replace(
        said,
        name=said.name or known.name,
        ssic=said.ssic or known.ssic,
        year=known.year if said.year is None else said.year,
        postal_code=said.postal_code or known.postal_code,
        website=said.website or known.website,
        employees=known.employees if said.employees is None else said.employees,
        last_seen_at=_later(known.last_seen_at, said.last_seen_at),
    )


def merged_dossier(known: Dossier, said: Dossier) -> Dossier:
    """Return the dossier as known, with what was said in a newer one.

    Findings are replaced together, and so are contacts, notes and the score with its parts.
    """
    return Dossier(
        company=merged_company(known.company, said.company),
        findings=said.findings or known.findings,
        contacts=said.contacts or known.contacts,
        score=said.score or known.score,
        looked_at=said.looked_at or known.looked_at,
        run=said.run or known.run,
        extracted_from=said.extracted_from or known.extracted_from,
        notes=said.notes or known.notes,
    )


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (one, other) if moment is not None), default=None)
