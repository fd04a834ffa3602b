"""What a record in a tenant's CRM says about where each of its values came from.

Short lists in markup, for people who wonder. Everything in them came from strangers and is escaped
and bounded. No dates: what is known from the same places reads the same the night after.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from stoker.core.companies import Contact, Dossier
from stoker.core.findings import Field, Finding, How, best
from stoker.core.model import clean_text

LONGEST_PART = 300  # characters of a value or of a place
REGISTER = "the public register"
_HOW = {
    How.REGISTRY: REGISTER,
    How.VENDOR: "told by a vendor",
    How.JSON_LD: "its linked data",
    How.MICRODATA: "its microdata",
    How.META: "its meta tags",
    How.LINK: "a link there",
    How.TEXT: "its text",
    How.LLM: "read by a model",
}
_SHEET = (  # no addresses of mailboxes: which of them may be written to, contacts say
    Field.LEGAL_NAME,
    Field.ABOUT,
    Field.INDUSTRY,
    Field.EMPLOYEES,
    Field.FOUNDED,
    Field.PHONE,
    Field.ADDRESS,
    Field.COUNTRY,
    Field.SOCIAL,
)


def surest_of_each(findings: Iterable[Finding]) -> dict[Field, Finding]:
    """Return the surest finding of every field anything was found for, in the fields' order."""
    known = tuple(findings)
    each = {field: best(known, field) for field in Field}
    return {field: finding for field, finding in each.items() if finding is not None}


def company_sources(dossier: Dossier) -> str:
    """Return where a company's values came from, and what else its pages say, as markup."""
    found = surest_of_each(dossier.findings)
    lines = [f"name and number: {REGISTER}"]
    if dossier.company.postal_code:
        lines.append(f"zip: {REGISTER}")
    if dossier.company.website:
        said = found.get(Field.WEBSITE)
        place = _place(said) if said else "known before, or found by a search for its name"
        lines.append(f"website: {place}")
    lines += [
        f"{field.replace('_', ' ')}: {_part(found[field].value)} ({_place(found[field])})"
        for field in _SHEET
        if field in found
    ]
    return as_list(lines)


def contact_sources(contact: Contact) -> str:
    """Return where a contact came from, and what a verifier said of its address, as markup."""
    return as_list(contact_lines(contact))


def contact_lines(contact: Contact) -> list[str]:
    """Return the same in lines of plain text."""
    known = {
        "name": contact.name,
        "title": contact.title,
        "email": contact.email,
        "phone": contact.phone,
    }
    named = ", ".join(column for column, value in known.items() if value)
    lines = [f"{named}: {_part(contact.source) or 'nobody said where from'}"]
    if contact.email:
        lines.append(f"email checked: {contact.verdict.replace('_', ' ')}")
    return lines


def as_list(lines: Iterable[str]) -> str:
    """Return lines of plain text as a list in markup; nothing in them is markup."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<p>Where this is from:</p><ul>{items}</ul>" if items else ""


def _place(finding: Finding) -> str:
    if finding.how is How.REGISTRY:
        return REGISTER
    return f"{_part(finding.source)}, {_HOW[finding.how]}"


def _part(text: str) -> str:
    words = " ".join(clean_text(text).split())
    return words if len(words) <= LONGEST_PART else f"{words[: LONGEST_PART - 1]}…"
