"""What we want to stand in a tenant's CRM: companies, contacts and leads, as rows with ids of ours.

The columns are those of Odoo. Which of them are sent, given what is there already, is decided in
`upserts`; how they travel, the connector knows. Everything in a row came from strangers: texts are
cleaned and bounded, markup is escaped, and an address nobody should write to is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from html import escape

from stoker.core.companies import Bucket, Contact, Dossier, LeadScore, Verdict
from stoker.core.crm_sources import as_list, company_sources, contact_lines, contact_sources
from stoker.core.model import Json, TenantId, clean_text

PARTNER = "res.partner"
LEAD = "crm.lead"
LONGEST_LINE = 500  # characters
LONGEST_NOTE = 20_000
MOST_CONTACTS = 50  # of one company
_NOT_SENDABLE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
_PLAIN_KEY = re.compile(r"[0-9A-Z]{2,40}")
_EXTERNAL_ID = re.compile(r"stoker\.[A-Za-z0-9_-]{1,200}")
_PRIORITIES = {Bucket.HIGH: "3", Bucket.MEDIUM: "2", Bucket.LOW: "1"}
_NOT_TO_BE_WRITTEN_TO = (Verdict.INVALID, Verdict.RISKY)

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


def best_contact(dossier: Dossier) -> Contact | None:
    """Return whom to write to first: somebody with an address, the surest of them."""
    return max(
        dossier.contacts, key=lambda each: (bool(usable_email(each)), each.confidence), default=None
    )


def usable_email(contact: Contact) -> str:
    """Return the address to write to, or an empty text where nobody should."""
    return "" if contact.verdict in _NOT_TO_BE_WRITTEN_TO else sendable_text(contact.email)


def sendable_text(text: str, *, longest: int = LONGEST_LINE) -> str:
    """Return text that arrives letter for letter by every protocol: no control characters."""
    lines = clean_text(text).replace("\r\n", "\n").replace("\r", "\n")
    return _NOT_SENDABLE.sub("", lines)[:longest].strip()


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
