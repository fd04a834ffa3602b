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
    find_own_mailbox,
    get_usable_email,
    list_own_people,
    to_sendable_text,
)
from stoker.accounts.facts import Fact, FactField, Method, choose_best_by_field
from stoker.accounts.model import Bucket, CompanyRecord, Contact, EmailStatus
from stoker.accounts.websites import format_site
from stoker.base.types import TenantId, clean_text
from stoker.crm.company_fields import (
    build_company_names,
    build_company_values,
    choose_display_name,
    get_mapped_field,
)
from stoker.crm.matching import get_mail_domain, get_own_host
from stoker.crm.model import LEAD, PARTNER, Cell, CompanyIdentity, CrmRow
from stoker.vendors.table import OdooSettings

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
    legal = _shorten_part(record.company.name)
    is_other = choose_display_name(record) != to_sendable_text(record.company.name)
    lines = [f"legal name: {legal} ({REGISTER})"] if is_other else []
    lines.append(f"{'number' if is_other else 'name and number'}: {REGISTER}")
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


VERIFIED, NOT_VERIFIED = "email verified", "email not verified"  # tags of contacts

_VERDICTS_BY_RULE = {
    "valid": (EmailStatus.VALID,),
    "valid+catch_all": (EmailStatus.VALID, EmailStatus.CATCH_ALL),
}

_MIN_SCORE = 1e-9  # a company with a score of 0 does not fit


def build_external_id(tenant: TenantId, kind: str, key: str) -> str:
    """Return the external id of a record: equal for the same thing, and for no other.

    A key that is not plain capitals and digits goes in as a digest, so an id is one word.
    """
    if not _PLAIN_KEY.fullmatch(key):
        named = clean_text(key).encode("utf-8", "replace")
        key = "h" + blake2b(named, digest_size=12).hexdigest()
    return f"stoker.{tenant}_{kind}_{key}"


def build_rows(
    record: CompanyRecord,
    *,
    tenant: TenantId,
    least: float | None = None,
    rule: OdooSettings = OdooSettings(),  # noqa: B008 - it is frozen
) -> list[CrmRow]:
    """Return the rows of one company, each after those it links to.

    The company and its people, and a lead when its score is `least` or more; no lead for None, nor
    for a score of 0. None at all for a company that `rule.send` leaves out, or without a name or a
    number.
    """
    score = record.score
    is_lead = score is not None and least is not None and score.value >= max(least, _MIN_SCORE)
    is_fitting = score is None or score.value >= _MIN_SCORE
    if not is_lead and (rule.send == "leads" or (rule.send == "fitting" and not is_fitting)):
        return []
    company = _build_company_row(record, tenant, rule)
    if "name" not in company.values:
        return []
    rows = [company]
    people: dict[str, CrmRow] = {}
    for contact in list_own_people(record)[:MAX_CONTACTS]:
        row = _build_contact_row(contact, company, record, tenant, rule)
        if row is not None and contact.key not in people:
            people[contact.key] = row
    rows += people.values()
    if is_lead:
        best = choose_best_contact(record)
        person = people.get(best.key) if best is not None else None
        rows.append(_build_lead_row(record, company, person, tenant, rule))
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


def _build_company_row(record: CompanyRecord, tenant: TenantId, rule: OdooSettings) -> CrmRow:
    company = record.company
    number, website = to_sendable_text(company.id), _get_own_website(record)
    found = find_own_mailbox(record)
    mailbox = choose_email(found, rule) if found is not None else ""
    domains = {get_own_host(website), get_mail_domain(found.email if found else "")} - {""}
    return CrmRow(
        model=PARTNER,
        external_id=build_external_id(tenant, "company", company.id),
        values={
            **build_company_values(record, rule, mailbox=mailbox, website=website),
            **_drop_empty(comment=_format_note(format_company_sources(record))),
        },
        on_create={"is_company": True},
        names=build_company_names(record, rule),
        match_by=("company_registry", number) if number else None,
        company=CompanyIdentity(
            number=number, website=website, mail_domains=tuple(sorted(domains)), name=company.name
        ),
    )


def _build_contact_row(
    contact: Contact,
    company: CrmRow,
    record: CompanyRecord,
    tenant: TenantId,
    rule: OdooSettings,
) -> CrmRow | None:
    email = choose_email(contact, rule)
    phone = to_sendable_text(contact.phone)
    name = to_sendable_text(contact.name) or email or phone
    if not name:
        return None
    verdict_field = get_mapped_field(rule, "verdict")
    values = _drop_empty(
        name=name,
        email=email,
        phone=phone,
        function=to_sendable_text(contact.title),
        comment=_format_note(format_contact_sources(contact)),
    )
    if email and verdict_field:
        values[verdict_field] = contact.verdict.value
    tag = VERIFIED if contact.verdict is EmailStatus.VALID else NOT_VERIFIED
    return CrmRow(
        model=PARTNER,
        external_id=build_external_id(tenant, "contact", f"{record.company.id}|{contact.key}"),
        values=values,
        on_create={"is_company": False},
        names={"category_id": (tag,)} if email and not verdict_field else {},
        links={"parent_id": company.external_id},
        match_by=("email", email) if email else ("name", name),
        person_email=get_usable_email(contact).casefold(),
    )


def choose_email(contact: Contact, rule: OdooSettings) -> str:
    """Return a contact's address if its verdict is one that may go into the CRM."""
    allowed = _VERDICTS_BY_RULE.get(rule.emails)
    return get_usable_email(contact) if allowed is None or contact.verdict in allowed else ""


def _build_lead_row(
    record: CompanyRecord,
    company: CrmRow,
    person: CrmRow | None,
    tenant: TenantId,
    rule: OdooSettings,
) -> CrmRow:
    """Return the lead, about the person if there is one, else about the company.

    It has no address and no phone: Odoo takes them from the contact, and would write ours into it.
    """
    score, number = record.score, to_sendable_text(record.company.id)
    about = person or company
    named = {
        "type": (rule.lead_type,),
        "user_id": (rule.salesperson or "",),
        "team_id": (rule.team or "",),
        "tag_ids": rule.tags,
        "source_id": (rule.source,) if rule.source else (),
    }
    return CrmRow(
        model=LEAD,
        external_id=build_external_id(tenant, "lead", record.company.id),
        values=_drop_empty(
            name=str(company.values["name"]),
            website=_get_own_website(record),
            description=_format_description(record, choose_best_contact(record)),
            priority=_PRIORITIES[score.bucket] if score else "",
        ),
        names_on_create={column: names for column, names in named.items() if names},
        links={"partner_id": about.external_id},
        spare_links={"partner_id": company.external_id} if person is not None else {},
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
