"""Whom to write to at a company, by what its pages say; and what of that is worth verifying.

An address counts when it is the company's own, or when its own site gives it. What was once said
of an address stays with it. Whom a vendor names is `contacting`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stoker.core.companies import Contact, Verdict
from stoker.core.findings import Field, Finding
from stoker.core.verifying_emails import plain_address
from stoker.core.websites import host_of
from stoker.errors import PermanentError

MOST_CONTACTS = 20  # of one company
MOST_VERIFIED = 3  # addresses of one company that are paid for in one night


def contacts_found(findings: Iterable[Finding], *, website: str) -> tuple[Contact, ...]:
    """Return the mailboxes and people that a company's pages name, surest first."""
    own = host_of(website)
    found: list[Contact] = []
    for each in sorted(findings, key=lambda finding: -finding.confidence):
        if each.field is Field.EMAIL and (email := _usable(each, own)):
            found.append(Contact(email=email, source=each.source, confidence=each.confidence))
        elif each.field is Field.PERSON:
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
    return joined((), found)


def joined(known: Iterable[Contact], found: Iterable[Contact]) -> tuple[Contact, ...]:
    """Return contacts without doubles: a newer word replaces an older one, a verdict stays.

    Those with an address come first, so that they are the ones left when there are too many.
    """
    contacts: dict[str, Contact] = {contact.key: contact for contact in known}
    for contact in found:
        before = contacts.get(contact.key)
        if before is None:
            contacts[contact.key] = contact
        elif before.confidence <= contact.confidence:
            told = contact.verdict is Verdict.UNVERIFIED
            contacts[contact.key] = replace(
                contact,
                name=contact.name or before.name,
                title=contact.title or before.title,
                phone=contact.phone or before.phone,
                verdict=before.verdict if told else contact.verdict,
            )
    by_worth = sorted(contacts.values(), key=lambda each: (not each.email, -each.confidence))
    return tuple(by_worth[:MOST_CONTACTS])


def to_verify(contacts: Iterable[Contact]) -> tuple[str, ...]:
    """Return the addresses whose verdict is worth paying for, the most telling first.

    A verdict that was good once is asked for again by whoever remembers how long it is good.
    """
    worth = sorted(
        (contact for contact in contacts if contact.email),
        key=lambda each: (not each.title, -each.confidence),
    )
    return tuple(dict.fromkeys(contact.email for contact in worth[:MOST_VERIFIED]))


def verified(contacts: Iterable[Contact], verdicts: Mapping[str, Verdict]) -> tuple[Contact, ...]:
    """Return the contacts with what was said of their addresses."""
    return tuple(
        replace(contact, verdict=verdicts[contact.email]) if contact.email in verdicts else contact
        for contact in contacts
    )


def _usable(finding: Finding, own: str) -> str:
    try:
        email = plain_address(finding.value)
    except PermanentError:
        return ""
    domain = email.rpartition("@")[2]
    theirs = bool(own) and (
        domain == own or domain.endswith(f".{own}") or own.endswith(f".{domain}")
    )
    on_their_site = bool(own) and host_of(finding.source) == own
    return email if theirs or on_their_site else ""
