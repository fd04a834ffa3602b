"""What we want to stand in a tenant's CRM: companies, contacts and leads, as rows with ids of ours.

The columns are those of Odoo. Which of them are sent, given what is there already, is decided in
`upserts`; how they travel, the connector knows. Everything in a row came from strangers: texts are
cleaned and bounded, markup is escaped, and an address nobody should write to is left out.

Whom to write to at a company, by what its pages say; and what of that is worth verifying.

An address counts when it is the company's own, or when its own site gives it. What was once said
of an address stays with it. Whom a vendor names is `contacting`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from stoker.accounts.facts import Fact, FactField
from stoker.accounts.model import CompanyRecord, Contact, EmailStatus
from stoker.accounts.websites import get_host
from stoker.base.errors import PermanentError
from stoker.base.types import clean_text

MAX_LINE_LENGTH = 500  # characters

_NOT_SENDABLE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")

_UNUSABLE_STATUSES = (EmailStatus.INVALID, EmailStatus.RISKY)


def choose_best_contact(dossier: CompanyRecord) -> Contact | None:
    """Return whom to write to first: somebody with an address, the surest of them."""
    return max(
        dossier.contacts,
        key=lambda each: (bool(get_usable_email(each)), each.confidence),
        default=None,
    )


def get_usable_email(contact: Contact) -> str:
    """Return the address to write to, or an empty text where nobody should."""
    return "" if contact.verdict in _UNUSABLE_STATUSES else to_sendable_text(contact.email)


def to_sendable_text(text: str, *, longest: int = MAX_LINE_LENGTH) -> str:
    """Return text that arrives letter for letter by every protocol: no control characters."""
    lines = clean_text(text).replace("\r\n", "\n").replace("\r", "\n")
    return _NOT_SENDABLE.sub("", lines)[:longest].strip()


MAX_ADDRESS_LENGTH = 254

_ACCOUNT = re.compile(r"[^\s@\x00-\x1f\x7f\"(),:;<>\[\]\\]{1,64}")

_DOMAIN = re.compile(r"(?=.{3,253}$)(?:[^\s@.\x00-\x1f\x7f]{1,63}\.)+[^\s@.\x00-\x1f\x7f]{2,63}")


def normalize_email(text: str) -> str:
    """Return an address as it is kept. Raises PermanentError when it cannot be one."""
    email = text.strip().lower()
    account, at, domain = email.rpartition("@")
    if (
        not at
        or len(email) > MAX_ADDRESS_LENGTH
        or not _ACCOUNT.fullmatch(account)
        or not _DOMAIN.fullmatch(domain)
        or any("\ud800" <= letter <= "\udfff" for letter in email)
    ):
        raise PermanentError("this is no email address; nobody has to be asked about it")
    return email


MAX_CONTACTS = 20  # of one company

MAX_VERIFIED = 3  # addresses of one company that are paid for in one night


def build_contacts_from_facts(findings: Iterable[Fact], *, website: str) -> tuple[Contact, ...]:
    """Return the mailboxes and people that a company's pages name, surest first."""
    own = get_host(website)
    found: list[Contact] = []
    for each in sorted(findings, key=lambda finding: -finding.confidence):
        if each.field is FactField.EMAIL and (email := _get_usable_value(each, own)):
            found.append(Contact(email=email, source=each.source, confidence=each.confidence))
        elif each.field is FactField.PERSON:
            name, _, role = each.value.partition("|")
            if name.strip():
                found.append(
                    Contact(
                        name=name.strip(),
                        title=role.strip(),
                        source=each.source,
                        confidence=each.confidence,
                    )
                )
    return merge_contacts((), found)


def merge_contacts(known: Iterable[Contact], found: Iterable[Contact]) -> tuple[Contact, ...]:
    """Return contacts without doubles: a newer word replaces an older one, a verdict stays.

    Those with an address come first, so that they are the ones left when there are too many.
    """
    contacts: dict[str, Contact] = {contact.key: contact for contact in known}
    for contact in found:
        before = contacts.get(contact.key)
        if before is None:
            contacts[contact.key] = contact
        elif before.confidence <= contact.confidence:
            told = contact.verdict is EmailStatus.UNVERIFIED
            contacts[contact.key] = replace(
                contact,
                name=contact.name or before.name,
                title=contact.title or before.title,
                phone=contact.phone or before.phone,
                verdict=before.verdict if told else contact.verdict,
            )
    by_worth = sorted(contacts.values(), key=lambda each: (not each.email, -each.confidence))
    return tuple(by_worth[:MAX_CONTACTS])


def choose_emails_to_verify(contacts: Iterable[Contact]) -> tuple[str, ...]:
    """Return the addresses whose verdict is worth paying for, the most telling first.

    A verdict that was good once is asked for again by whoever remembers how long it is good.
    """
    worth = sorted(
        (contact for contact in contacts if contact.email),
        key=lambda each: (not each.title, -each.confidence),
    )
    return tuple(dict.fromkeys(contact.email for contact in worth[:MAX_VERIFIED]))


def apply_verdicts(
    contacts: Iterable[Contact], verdicts: Mapping[str, EmailStatus]
) -> tuple[Contact, ...]:
    """Return the contacts with what was said of their addresses."""
    return tuple(
        replace(contact, verdict=verdicts[contact.email]) if contact.email in verdicts else contact
        for contact in contacts
    )


def _get_usable_value(finding: Fact, own: str) -> str:
    try:
        email = normalize_email(finding.value)
    except PermanentError:
        return ""
    domain = email.rpartition("@")[2]
    theirs = bool(own) and (
        domain == own or domain.endswith(f".{own}") or own.endswith(f".{domain}")
    )
    on_their_site = bool(own) and get_host(finding.source) == own
    return email if theirs or on_their_site else ""
