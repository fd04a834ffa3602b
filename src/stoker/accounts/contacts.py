"""Contacts of a company: built from facts, merged, verified, and which one to write to.

An address counts when it is the company's own or its own site gives it. A verdict stays with its
address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from stoker.accounts.facts import Fact, FactField
from stoker.accounts.model import CompanyRecord, Contact, EmailStatus, SiteOwner, SiteVerdict
from stoker.accounts.websites import get_host, is_on_site
from stoker.base.errors import PermanentError
from stoker.base.types import clean_text

MAX_LINE_LENGTH = 500  # characters
_NOT_SENDABLE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
_UNUSABLE_STATUSES = (EmailStatus.INVALID, EmailStatus.RISKY)


def list_own_contacts(record: CompanyRecord) -> tuple[Contact, ...]:
    """Return the contacts that are the company's: none while its website is only probable.

    Of those on web pages, only the ones on its own site count. A record of before verdicts were
    stored has all of them.
    """
    return tuple(each for each in record.contacts if _is_own(each.source, record.site))


def list_own_facts(record: CompanyRecord) -> list[Fact]:
    """Return the facts that are known to be the company's, as its contacts are."""
    return [each for each in record.facts if _is_own(each.source, record.site)]


def _is_own(source: str, site: SiteVerdict | None) -> bool:
    if site is None or site.owner is SiteOwner.PROBABLE:
        return site is None
    return "://" not in source[:12] or is_on_site(source, site.host)


def choose_best_contact(record: CompanyRecord) -> Contact | None:
    """Return the company's contact to write to first: with a usable address, most confident."""
    return max(
        list_own_contacts(record),
        key=lambda each: (bool(get_usable_email(each)), each.confidence),
        default=None,
    )


def get_usable_email(contact: Contact) -> str:
    """Return the address to write to, or an empty text where none is usable."""
    return "" if contact.verdict in _UNUSABLE_STATUSES else to_sendable_text(contact.email)


def to_sendable_text(text: str, *, longest: int = MAX_LINE_LENGTH) -> str:
    """Return text that every CRM protocol carries unchanged: no control characters."""
    lines = clean_text(text).replace("\r\n", "\n").replace("\r", "\n")
    return _NOT_SENDABLE.sub("", lines)[:longest].strip()


MAX_ADDRESS_LENGTH = 254
_ACCOUNT = re.compile(r"[^\s@\x00-\x1f\x7f\"(),:;<>\[\]\\]{1,64}")
_DOMAIN = re.compile(r"(?=.{3,253}$)(?:[^\s@.\x00-\x1f\x7f]{1,63}\.)+[^\s@.\x00-\x1f\x7f]{2,63}")


def normalize_email(text: str) -> str:
    """Return an address in its normal form. Raises PermanentError when it is not one."""
    email = text.strip().lower()
    account, at, domain = email.rpartition("@")
    if (
        not at
        or len(email) > MAX_ADDRESS_LENGTH
        or not _ACCOUNT.fullmatch(account)
        or not _DOMAIN.fullmatch(domain)
        or any("\ud800" <= letter <= "\udfff" for letter in email)
    ):
        raise PermanentError("this is no email address; it is not verified")
    return email


MAX_CONTACTS = 20  # of one company
MAX_VERIFIED = 3  # addresses of one company that are paid for in one night


def build_contacts_from_facts(facts: Iterable[Fact], *, website: str) -> tuple[Contact, ...]:
    """Return the mailboxes and people in a company's facts, most confident first."""
    own = get_host(website)
    contacts: list[Contact] = []
    for each in sorted(facts, key=lambda fact: -fact.confidence):
        if each.field is FactField.EMAIL and (email := _get_usable_value(each, own)):
            contacts.append(Contact(email=email, source=each.source, confidence=each.confidence))
        elif each.field is FactField.PERSON:
            name, _, role = each.value.partition("|")
            if name.strip():
                contacts.append(
                    Contact(
                        name=name.strip(),
                        title=role.strip(),
                        source=each.source,
                        confidence=each.confidence,
                    )
                )
    return merge_contacts((), contacts)


def merge_contacts(known: Iterable[Contact], found: Iterable[Contact]) -> tuple[Contact, ...]:
    """Return contacts without duplicates: newer values win, a verdict stays.

    Those with an address come first, so that they remain when there are too many.
    """
    contacts: dict[str, Contact] = {contact.key: contact for contact in known}
    for contact in found:
        before = contacts.get(contact.key)
        if before is None:
            contacts[contact.key] = contact
        elif before.confidence <= contact.confidence:
            is_unverified = contact.verdict is EmailStatus.UNVERIFIED
            contacts[contact.key] = replace(
                contact,
                name=contact.name or before.name,
                title=contact.title or before.title,
                phone=contact.phone or before.phone,
                verdict=before.verdict if is_unverified else contact.verdict,
            )
    by_value = sorted(contacts.values(), key=lambda each: (not each.email, -each.confidence))
    return tuple(by_value[:MAX_CONTACTS])


def choose_emails_to_verify(contacts: Iterable[Contact]) -> tuple[str, ...]:
    """Return the addresses whose verdict is worth its price, best first.

    The cache decides whether an earlier verdict is still good.
    """
    by_value = sorted(
        (contact for contact in contacts if contact.email),
        key=lambda each: (not each.title, -each.confidence),
    )
    return tuple(dict.fromkeys(contact.email for contact in by_value[:MAX_VERIFIED]))


def apply_verdicts(
    contacts: Iterable[Contact], verdicts: Mapping[str, EmailStatus]
) -> tuple[Contact, ...]:
    """Return the contacts with the verdicts on their addresses."""
    return tuple(
        replace(contact, verdict=verdicts[contact.email]) if contact.email in verdicts else contact
        for contact in contacts
    )


def _get_usable_value(fact: Fact, own: str) -> str:
    try:
        email = normalize_email(fact.value)
    except PermanentError:
        return ""
    domain = email.rpartition("@")[2]
    is_own = bool(own) and (
        domain == own or domain.endswith(f".{own}") or own.endswith(f".{domain}")
    )
    is_on_own_site = bool(own) and get_host(fact.source) == own
    return email if is_own or is_on_own_site else ""
