"""What we want to stand in a tenant's CRM: companies, contacts and leads, as rows with ids of ours.

The columns are those of Odoo. Which of them are sent, given what is there already, is decided in
`upserts`; how they travel, the connector knows. Everything in a row came from strangers: texts are
cleaned and bounded, markup is escaped, and an address nobody should write to is left out.

What a record in a tenant's CRM says about where each of its values came from.

Short lists in markup, for people who wonder. Everything in them came from strangers and is escaped
and bounded. No dates: what is known from the same places reads the same the night after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from html import escape

from stoker.accounts.contacts import _NOT_SENDABLE, best_contact, sendable_text, usable_email
from stoker.accounts.facts import Field, Finding, How, surest_of_each
from stoker.accounts.model import Bucket, Contact, Dossier, LeadScore
from stoker.base.types import Json, TenantId, clean_text

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


PARTNER = "res.partner"

LEAD = "crm.lead"

LONGEST_NOTE = 20_000

MOST_CONTACTS = 50  # of one company

_PLAIN_KEY = re.compile(r"[0-9A-Z]{2,40}")

_EXTERNAL_ID = re.compile(r"stoker\.[A-Za-z0-9_-]{1,200}")

_PRIORITIES = {Bucket.HIGH: "3", Bucket.MEDIUM: "2", Bucket.LOW: "1"}

Cell = str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmRow:
    """One record as we want it. What is empty is not in it: nothing never replaces something.

    `values` are kept up to date as long as nobody else changes them; `once` and `links` are set
    when the record is made and are people's from then on.
    """

    model: str
    external_id: str
    values: Mapping[str, Cell]
    once: Mapping[str, Cell] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)  # column: external id of another row
    look: tuple[str, str] | None = None  # column and value to find it by when its id is not known
    alone: bool = False  # there may be one such record only, whoever made it


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmField:
    """One field of a model, as the CRM describes it."""

    kind: str
    readonly: bool = False
    choices: tuple[str, ...] = ()  # empty: any


@dataclass(frozen=True, slots=True, kw_only=True)
class CrmRecord:
    """A record as it stands in the CRM."""

    id: int
    external_id: str  # empty, or somebody else's, for a record that is not ours
    values: Mapping[str, Json]


def external_id(tenant: TenantId, kind: str, key: str) -> str:
    """Return the id a record goes by: the same thing has the same id, two things never share one.

    A key that is not plain capitals and digits goes in as a digest, so an id is one word.
    """
    if not _PLAIN_KEY.fullmatch(key):
        named = clean_text(key).encode("utf-8", "replace")
        key = "h" + blake2b(named, digest_size=12).hexdigest()
    return f"stoker.{tenant}_{kind}_{key}"


def rows_of(dossier: Dossier, *, tenant: TenantId, least: float | None = None) -> list[CrmRow]:
    """Return the rows of one company, each after those it links to.

    The company and its contacts, and a lead when its score is `least` or more; no lead for None,
    nor for a score of 0. None at all for a company without a name or a number.
    """
    company = _company(dossier, tenant)
    if "name" not in company.values:
        return []
    rows = [company]
    seen: set[str] = set()
    for contact in dossier.contacts[:MOST_CONTACTS]:
        row = _contact(contact, company, dossier, tenant)
        if row is not None and row.external_id not in seen:
            seen.add(row.external_id)
            rows.append(row)
    score = dossier.score
    if score is not None and least is not None and score.value >= least and score.value > 0:
        rows.append(_lead(dossier, company, tenant))
    return rows


def why_not_sendable(row: CrmRow) -> str:
    """Return why a row must not be sent as it is, or an empty text."""
    ids = (row.external_id, *row.links.values())
    if not all(_EXTERNAL_ID.fullmatch(each) for each in ids):
        return "an external id is not one plain word after `stoker.`"
    for column, value in {**row.values, **row.once}.items():
        if isinstance(value, str) and _NOT_SENDABLE.search(value):
            return f"{column} has characters no CRM can keep"
        if isinstance(value, str) and len(value) > LONGEST_NOTE:
            return f"{column} has more than {LONGEST_NOTE} characters"
    return ""


def _company(dossier: Dossier, tenant: TenantId) -> CrmRow:
    company = dossier.company
    number = sendable_text(company.id)
    return CrmRow(
        model=PARTNER,
        external_id=external_id(tenant, "company", company.id),
        values=_filled(
            name=sendable_text(company.name) or number,
            company_registry=number,
            website=_address(company.website),
            zip=sendable_text(company.postal_code),
            comment=_note(company_sources(dossier)),
        ),
        once={"is_company": True},
        look=("company_registry", number) if number else None,
        alone=True,
    )


def _contact(
    contact: Contact, company: CrmRow, dossier: Dossier, tenant: TenantId
) -> CrmRow | None:
    email = usable_email(contact)
    phone = sendable_text(contact.phone)
    name = sendable_text(contact.name) or email or phone
    if not name:
        return None
    return CrmRow(
        model=PARTNER,
        external_id=external_id(tenant, "contact", f"{dossier.company.id}|{contact.key}"),
        values=_filled(
            name=name,
            email=email,
            phone=phone,
            function=sendable_text(contact.title),
            comment=_note(contact_sources(contact)),
        ),
        once={"is_company": False},
        links={"parent_id": company.external_id},
        look=("email", email) if email else ("name", name),
    )


def _lead(dossier: Dossier, company: CrmRow, tenant: TenantId) -> CrmRow:
    score = dossier.score
    named, number = str(company.values["name"]), sendable_text(dossier.company.id)
    best = best_contact(dossier)
    return CrmRow(
        model=LEAD,
        external_id=external_id(tenant, "lead", dossier.company.id),
        values=_filled(
            name=named,
            partner_name=named,
            contact_name=sendable_text(best.name) if best else "",
            function=sendable_text(best.title) if best else "",
            email_from=usable_email(best) if best else "",
            phone=sendable_text(best.phone) if best else "",
            website=_address(dossier.company.website),
            description=_described(score, best),
            priority=_PRIORITIES[score.bucket] if score else "",
        ),
        once={"type": "lead"},
        links={"partner_id": company.external_id},
        look=("partner_id.company_registry", number) if number else None,
    )


def _filled(**cells: str) -> dict[str, Cell]:
    return {column: text for column, text in cells.items() if text}


def _address(website: str) -> str:
    # Shown as a link in the CRM: nothing but a web address may become one.
    text = sendable_text(website)
    return text if text.startswith(("http://", "https://")) and " " not in text else ""


def _described(score: LeadScore | None, best: Contact | None) -> str:
    """Say why this is a lead, and where whom to write to is known from."""
    words = sendable_text(score.rationale, longest=2_000) if score else ""
    why = f"<p>{escape(words)}</p>" if words else ""
    return why + _note(as_list(contact_lines(best)) if best else "")


def _note(markup: str) -> str:
    # One that is too long is left out: half of it would be broken markup.
    return sendable if len(sendable := _NOT_SENDABLE.sub("", markup)) <= LONGEST_NOTE // 2 else ""
