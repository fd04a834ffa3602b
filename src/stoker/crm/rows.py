"""Companies, contacts and leads as Odoo rows with our external ids and a note on their sources.

`upsert` decides which columns are sent. All texts came from strangers: they are cleaned and
bounded, markup is escaped, and an address not to write to is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from html import escape

from stoker.accounts.contacts import (
    _NOT_SENDABLE,
    choose_best_contact,
    get_usable_email,
    list_own_contacts,
    to_sendable_text,
)
from stoker.accounts.facts import Fact, FactField, Method, choose_best_by_field
from stoker.accounts.model import Bucket, CompanyRecord, Contact
from stoker.accounts.websites import format_site
from stoker.base.types import TenantId, clean_text
from stoker.crm.model import LEAD, PARTNER, Cell, CrmRow

MAX_PART_LENGTH = 300  # characters of a value or of a place

REGISTER = "the public register"

_METHOD_TEXTS = {
    Method.REGISTRY: REGISTER,
    Method.VENDOR: "from a vendor",
    Method.JSON_LD: "its linked data",
    Method.MICRODATA: "its microdata",
    Method.META: "its meta tags",
    Method.LINK: "a link there",
    Method.TEXT: "its text",
    Method.LLM: "read by a model",
}

_LISTED_FIELDS = (  # no e-mail addresses: contacts say which of them are usable
    FactField.LEGAL_NAME,
    FactField.ABOUT,
    FactField.INDUSTRY,
    FactField.EMPLOYEES,
    FactField.FOUNDED,
    FactField.PHONE,
    FactField.ADDRESS,
    FactField.COUNTRY,
    FactField.SOCIAL,
)


def format_company_sources(record: CompanyRecord) -> str:
    """Return the sources of a company's values and its further facts, as markup."""
    facts = choose_best_by_field(record.facts)
    lines = [f"name and number: {REGISTER}"]
    if record.company.postal_code:
        lines.append(f"zip: {REGISTER}")
    if record.is_site_probable:
        return to_html_list(lines) + _format_probable(record)
    if record.company.website:
        lines.append(f"website: {_format_site_source(record, facts.get(FactField.WEBSITE))}")
    return to_html_list([*lines, *_format_facts(facts)])


def _format_facts(facts: Mapping[FactField, Fact]) -> list[str]:
    return [
        f"{field.replace('_', ' ')}: {_shorten_part(facts[field].value)} "
        f"({_format_source(facts[field])})"
        for field in _LISTED_FIELDS
        if field in facts
    ]


def _format_site_source(record: CompanyRecord, website: Fact | None) -> str:
    if record.site is not None:
        return format_site(record.site)
    return _format_source(website) if website else "known before, or found by a search for its name"


def _format_probable(record: CompanyRecord) -> str:
    """Return what may be about another company: marked, and in no field but this note."""
    found = [f"website: {_shorten_part(record.company.website) or 'none of its own'}"]
    found += _format_facts(choose_best_by_field(record.facts))
    for contact in record.contacts[:MAX_PROBABLE_CONTACTS]:
        known = (contact.name, contact.title, contact.email, contact.phone)
        text = _shorten_part(", ".join(part for part in known if part))
        found.append(f"contact: {text} ({_shorten_part(contact.source)})")
    why = format_site(record.site) if record.site else ""
    items = "".join(f"<li>probable {escape(line)}</li>" for line in found)
    return f"<p>Probable only, so in no other field: website {escape(why)}.</p><ul>{items}</ul>"


def format_contact_sources(contact: Contact) -> str:
    """Return a contact's source and the verdict on its address, as markup."""
    return to_html_list(format_contact_lines(contact))


def format_contact_lines(contact: Contact) -> list[str]:
    """Return the same as lines of plain text."""
    known = {
        "name": contact.name,
        "title": contact.title,
        "email": contact.email,
        "phone": contact.phone,
    }
    named = ", ".join(column for column, value in known.items() if value)
    lines = [f"{named}: {_shorten_part(contact.source) or 'source unknown'}"]
    if contact.email:
        lines.append(f"email checked: {contact.verdict.replace('_', ' ')}")
    return lines


def to_html_list(lines: Iterable[str]) -> str:
    """Return lines of plain text as an HTML list; markup in them is escaped."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<p>Where this is from:</p><ul>{items}</ul>" if items else ""


def _format_source(finding: Fact) -> str:
    if finding.method is Method.REGISTRY:
        return REGISTER
    return f"{_shorten_part(finding.source)}, {_METHOD_TEXTS[finding.method]}"


def _shorten_part(text: str) -> str:
    words = " ".join(clean_text(text).split())
    return words if len(words) <= MAX_PART_LENGTH else f"{words[: MAX_PART_LENGTH - 1]}…"


MAX_NOTE_LENGTH = 20_000

MAX_CONTACTS = 50  # of one company

MAX_PROBABLE_CONTACTS = 5  # in a note

_PLAIN_KEY = re.compile(r"[0-9A-Z]{2,40}")

_EXTERNAL_ID = re.compile(r"stoker\.[A-Za-z0-9_-]{1,200}")

_PRIORITIES = {Bucket.HIGH: "3", Bucket.MEDIUM: "2", Bucket.LOW: "1"}


def build_external_id(tenant: TenantId, kind: str, key: str) -> str:
    """Return the external id of a record: equal for the same thing, and for no other.

    A key that is not plain capitals and digits goes in as a digest, so an id is one word.
    """
    if not _PLAIN_KEY.fullmatch(key):
        named = clean_text(key).encode("utf-8", "replace")
        key = "h" + blake2b(named, digest_size=12).hexdigest()
    return f"stoker.{tenant}_{kind}_{key}"


def build_rows(
    record: CompanyRecord, *, tenant: TenantId, least: float | None = None
) -> list[CrmRow]:
    """Return the rows of one company, each after those it links to.

    The company and its contacts, and a lead when its score is `least` or more; no lead for None,
    nor for a score of 0. None at all for a company without a name or a number.
    """
    company = _build_company_row(record, tenant)
    if "name" not in company.values:
        return []
    rows = [company]
    seen: set[str] = set()
    for contact in list_own_contacts(record)[:MAX_CONTACTS]:
        row = _build_contact_row(contact, company, record, tenant)
        if row is not None and row.external_id not in seen:
            seen.add(row.external_id)
            rows.append(row)
    score = record.score
    if score is not None and least is not None and score.value >= least and score.value > 0:
        rows.append(_build_lead_row(record, company, tenant))
    return rows


def find_send_problem(row: CrmRow) -> str:
    """Return why a row must not be sent, or an empty text."""
    ids = (row.external_id, *row.links.values())
    if not all(_EXTERNAL_ID.fullmatch(each) for each in ids):
        return "an external id is not one plain word after `stoker.`"
    for column, value in {**row.values, **row.on_create}.items():
        if isinstance(value, str) and _NOT_SENDABLE.search(value):
            return f"{column} has characters no CRM can keep"
        if isinstance(value, str) and len(value) > MAX_NOTE_LENGTH:
            return f"{column} has more than {MAX_NOTE_LENGTH} characters"
    return ""


def _build_company_row(record: CompanyRecord, tenant: TenantId) -> CrmRow:
    company = record.company
    number = to_sendable_text(company.id)
    return CrmRow(
        model=PARTNER,
        external_id=build_external_id(tenant, "company", company.id),
        values=_drop_empty(
            name=to_sendable_text(company.name) or number,
            company_registry=number,
            website=_get_own_website(record),
            zip=to_sendable_text(company.postal_code),
            comment=_format_note(format_company_sources(record)),
        ),
        on_create={"is_company": True},
        match_by=("company_registry", number) if number else None,
        is_unique=True,
    )


def _build_contact_row(
    contact: Contact, company: CrmRow, record: CompanyRecord, tenant: TenantId
) -> CrmRow | None:
    email = get_usable_email(contact)
    phone = to_sendable_text(contact.phone)
    name = to_sendable_text(contact.name) or email or phone
    if not name:
        return None
    return CrmRow(
        model=PARTNER,
        external_id=build_external_id(tenant, "contact", f"{record.company.id}|{contact.key}"),
        values=_drop_empty(
            name=name,
            email=email,
            phone=phone,
            function=to_sendable_text(contact.title),
            comment=_format_note(format_contact_sources(contact)),
        ),
        on_create={"is_company": False},
        links={"parent_id": company.external_id},
        match_by=("email", email) if email else ("name", name),
    )


def _build_lead_row(record: CompanyRecord, company: CrmRow, tenant: TenantId) -> CrmRow:
    score = record.score
    named, number = str(company.values["name"]), to_sendable_text(record.company.id)
    best = choose_best_contact(record)
    return CrmRow(
        model=LEAD,
        external_id=build_external_id(tenant, "lead", record.company.id),
        values=_drop_empty(
            name=named,
            partner_name=named,
            contact_name=to_sendable_text(best.name) if best else "",
            function=to_sendable_text(best.title) if best else "",
            email_from=get_usable_email(best) if best else "",
            phone=to_sendable_text(best.phone) if best else "",
            website=_get_own_website(record),
            description=_format_description(record, best),
            priority=_PRIORITIES[score.bucket] if score else "",
        ),
        on_create={"type": "lead"},
        links={"partner_id": company.external_id},
        match_by=("partner_id.company_registry", number) if number else None,
    )


def _drop_empty(**cells: str) -> dict[str, Cell]:
    return {column: text for column, text in cells.items() if text}


def _get_own_website(record: CompanyRecord) -> str:
    # Shown as a link in the CRM: nothing but a web address may become one.
    text = "" if record.is_site_probable else to_sendable_text(record.company.website)
    return text if text.startswith(("http://", "https://")) and " " not in text else ""


def _format_description(record: CompanyRecord, best: Contact | None) -> str:
    """Say why this is a lead, and the source of its contact."""
    words = to_sendable_text(record.score.rationale, longest=2_000) if record.score else ""
    why = f"<p>{escape(words)}</p>" if words else ""
    if record.is_site_probable:
        return why + _format_note(_format_probable(record))
    return why + _format_note(to_html_list(format_contact_lines(best)) if best else "")


def _format_note(markup: str) -> str:
    # A note that is too long is left out: half of it would be broken markup.
    return (
        sendable if len(sendable := _NOT_SENDABLE.sub("", markup)) <= MAX_NOTE_LENGTH // 2 else ""
    )
