"""Contacts of a company: built from facts, merged, verified, and which one to write to.

One contact a person, with the address that stood with the name or spells it. A contact keeps its
key, and so its record in a CRM, when its address becomes known or changes. An address counts when
it is the company's own or its own site gives it. A verdict stays with its address.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.model import CompanyRecord, Contact, EmailStatus, SiteOwner, SiteVerdict
from stoker.accounts.people import (
    DECIDES_FROM,
    PersonEntry,
    compute_seniority,
    is_mailbox,
    normalize_person_name,
    parse_person,
    spells_name,
)
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


def is_person(contact: Contact) -> bool:
    """Return whether a contact is a person's, known by name or not, and no mailbox."""
    return bool(contact.name) or not is_mailbox(contact.email)


def list_own_people(record: CompanyRecord) -> tuple[Contact, ...]:
    """Return the company's contacts that are persons, best first."""
    return tuple(each for each in rank_contacts(list_own_contacts(record)) if is_person(each))


def rank_contacts(contacts: Iterable[Contact]) -> list[Contact]:
    """Return contacts, the one that a lead is about first: persons, then mailboxes."""
    known = list(contacts)
    people = sorted(filter(is_person, known), key=_rank_person, reverse=True)
    mailboxes = [each for each in known if not is_person(each)]
    return [*people, *sorted(mailboxes, key=_rank_address, reverse=True)]


def find_own_mailbox(record: CompanyRecord) -> Contact | None:
    """Return the company's own mailbox that is best to write to, such as info@."""
    ranked = rank_contacts(list_own_contacts(record))
    return next((each for each in ranked if not is_person(each)), None)


def choose_best_contact(record: CompanyRecord) -> Contact | None:
    """Return the contact that a lead is about: a person; a mailbox only where none is known.

    A person who decides and can be written to first; then by seniority, verdict and confidence.
    """
    return next(iter(rank_contacts(list_own_contacts(record))), None)


def get_seniority(contact: Contact) -> float:
    """Return how much a contact decides, from 0 to 1."""
    return compute_seniority(contact.name, contact.title, contact.seniority)


_VERDICT_RANKS = {
    EmailStatus.VALID: 4,
    EmailStatus.CATCH_ALL: 3,
    EmailStatus.UNKNOWN: 2,
    EmailStatus.UNVERIFIED: 2,
}


def _rank_person(contact: Contact) -> tuple[bool, float, int, float, str]:
    decides = get_seniority(contact)
    can_write = bool(get_usable_email(contact))
    return (decides >= DECIDES_FROM and can_write, decides, *_rank_address(contact))


def _rank_address(contact: Contact) -> tuple[int, float, str]:
    verdict = _VERDICT_RANKS.get(contact.verdict, 0) if contact.email else 1
    return verdict, contact.confidence, contact.key


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
    """Return the people and mailboxes in a company's facts, each once, most confident first."""
    own = get_host(website)
    by_confidence = sorted(facts, key=lambda fact: -fact.confidence)
    people = _collect_people(by_confidence, own)
    addresses: dict[str, Contact] = {}
    for fact in by_confidence:
        if fact.field is FactField.EMAIL and (email := _get_usable_email(fact.value, fact, own)):
            contact = Contact(email=email, source=fact.source, confidence=fact.confidence)
            addresses.setdefault(email, contact)
    for person in people:
        addresses.pop(person.email, None)
    _join_spelled_addresses(people, addresses)
    return merge_contacts((), [*people, *addresses.values()])


def _collect_people(facts: Iterable[Fact], own: str) -> list[Contact]:
    """Return the people that facts name, each once.

    A page lists a person once: two entries of one name there, with other titles or addresses, are
    two people. Entries on different pages are one person, unless title and address both differ.
    """
    groups: dict[str, list[_PersonGroup]] = {}
    for fact in facts:
        if fact.field is not FactField.PERSON:
            continue
        entry = parse_person(fact.value)
        if not entry.name:
            continue
        # What a model says is checked word by word, but not who an address belongs to.
        is_joined = bool(entry.email) and fact.method is not Method.LLM
        email = _get_usable_email(entry.email, fact, own) if is_joined else ""
        entry = replace(entry, email="" if is_mailbox(email) else email)
        same_name = groups.setdefault(normalize_person_name(entry.name), [])
        group = next((each for each in same_name if each.is_same(entry, fact)), None)
        if group is None:
            same_name.append(group := _PersonGroup())
        group.entries.append((entry, fact))
    people = [group.build_contact() for same_name in groups.values() for group in same_name]
    shared = _list_shared(person.email for person in people)
    phones = _list_shared(person.phone for person in people)
    return [
        replace(
            person,
            email="" if person.email in shared else person.email,
            phone="" if person.phone in phones else person.phone,
        )
        for person in people
    ]


def _list_shared(values: Iterable[str]) -> set[str]:
    return {value for value, count in Counter(filter(None, values)).items() if count > 1}


@dataclass(slots=True)
class _PersonGroup:
    """Entries of one person, most confident first."""

    entries: list[tuple[PersonEntry, Fact]] = field(default_factory=list)

    def is_same(self, entry: PersonEntry, fact: Fact) -> bool:
        return all(_is_same_person(entry, fact, *known) for known in self.entries)

    def build_contact(self) -> Contact:
        first, fact = self.entries[0]

        def choose(values: Iterable[str]) -> str:
            return next(filter(None, values), "")

        return Contact(
            name=first.name,
            title=choose(entry.title for entry, _ in self.entries),
            email=choose(entry.email for entry, _ in self.entries),
            phone=choose(entry.phone for entry, _ in self.entries),
            source=choose(each.source for entry, each in self.entries if entry.email)
            or fact.source,
            confidence=fact.confidence,
        )


def _is_same_person(one: PersonEntry, one_fact: Fact, other: PersonEntry, other_fact: Fact) -> bool:
    titles = bool(one.title and other.title) and (
        normalize_person_name(one.title) != normalize_person_name(other.title)
    )
    emails = bool(one.email and other.email) and one.email != other.email
    is_one_list = (one_fact.source, one_fact.method) == (other_fact.source, other_fact.method)
    return not (titles or emails) if is_one_list else not (titles and emails)


def _join_spelled_addresses(people: list[Contact], addresses: dict[str, Contact]) -> None:
    """Give people the addresses that spell their names and no other's."""
    personal = [email for email in addresses if not is_mailbox(email)]
    spelled = {
        email: [at for at, person in enumerate(people) if spells_name(email, person.name)]
        for email in personal
    }
    times = Counter(at for places in spelled.values() for at in places)
    for email, places in spelled.items():
        if len(places) == 1 and times[places[0]] == 1 and not people[places[0]].email:
            people[places[0]] = replace(people[places[0]], email=email)
            del addresses[email]


def merge_contacts(known: Iterable[Contact], found: Iterable[Contact]) -> tuple[Contact, ...]:
    """Return contacts without duplicates: newer values win, a verdict stays with its address.

    A contact is the same when its address is, or when one known and one found person have its
    name. It keeps its key whatever else changes. Those with an address come first, so that they
    remain when there are too many.
    """
    contacts, newer = _drop_duplicates(known), _drop_duplicates(found)
    claimed = {contact.email for contact in newer if contact.email}
    for contact in newer:
        same = _find_same(contacts, contact, newer, claimed)
        if not same:
            contacts.append(contact)
            continue
        # A name and an address that were two contacts are one now: the person's record stays.
        person, *others = sorted(same, key=lambda each: not each.name)
        merged = person
        for other in (*others, contact):
            merged = _merge_contact(merged, other, key=person.key)
        contacts = [each for each in contacts if each not in others]
        contacts[contacts.index(person)] = merged
    by_value = sorted(contacts, key=lambda each: (not each.email, -each.confidence))
    return tuple(_keep_keys_apart(by_value[:MAX_CONTACTS]))


def _drop_duplicates(contacts: Iterable[Contact]) -> list[Contact]:
    kept: dict[tuple[str, str], Contact] = {}
    for contact in contacts:
        mark = (contact.email, "") if contact.email else (contact.key, contact.title)
        before = kept.get(mark)
        kept[mark] = contact if before is None else _merge_contact(before, contact, key=before.key)
    return list(kept.values())


def _find_same(
    contacts: Sequence[Contact], contact: Contact, newer: Sequence[Contact], claimed: set[str]
) -> list[Contact]:
    """Return the known contact that a found one is; two where its address stood alone."""
    by_email = [each for each in contacts if contact.email and each.email == contact.email]
    if not contact.name:
        alone = [each for each in contacts if not contact.email and each.key == contact.key]
        return by_email or alone[:1]
    if by_email and by_email[0].name:
        return by_email
    name = normalize_person_name(contact.name)
    named = [
        each
        for each in contacts
        if normalize_person_name(each.name) == name and each.email not in claimed - {""}
    ]
    is_only_one = sum(normalize_person_name(each.name) == name for each in newer) == 1
    if len(named) > 1 or not is_only_one:
        named = [each for each in named if each.title == contact.title]
    return [*by_email, *(named if len(named) == 1 else [])]


def _merge_contact(before: Contact, newer: Contact, *, key: str) -> Contact:
    is_newer = before.confidence <= newer.confidence
    best, other = (newer, before) if is_newer else (before, newer)
    verdict = best.verdict
    if not best.email or (best.email == other.email and verdict is EmailStatus.UNVERIFIED):
        verdict = other.verdict
    merged = replace(
        best,
        name=best.name or other.name,
        title=best.title or other.title,
        seniority=best.seniority or other.seniority,
        email=best.email or other.email,
        phone=best.phone or other.phone,
        verdict=verdict,
        identity="",
    )
    return merged if merged.key == key else replace(merged, identity=key)


def _keep_keys_apart(contacts: Iterable[Contact]) -> list[Contact]:
    """Return contacts that no two records in a CRM are confused with, though names are equal."""
    apart: dict[str, Contact] = {}
    for contact in contacts:
        key, more = contact.key, 1
        while key in apart:
            more += 1
            key = f"{contact.key}|{more}"
        apart[key] = contact if key == contact.key else replace(contact, identity=key)
    return list(apart.values())


def has_reachable_person(contacts: Iterable[Contact]) -> bool:
    """Return whether a person, and not only a mailbox, has an address to write to."""
    return any(is_person(each) and get_usable_email(each) for each in contacts)


def has_unverified_email(contacts: Iterable[Contact], *, besides: Iterable[str] = ()) -> bool:
    """Return whether an address has no verdict yet, besides these."""
    known = {*besides, ""}
    return any(
        each.verdict is EmailStatus.UNVERIFIED and each.email not in known for each in contacts
    )


def choose_emails_to_verify(contacts: Iterable[Contact]) -> tuple[str, ...]:
    """Return the addresses whose verdict is worth its price: those of people who decide first.

    Those without a verdict come before those with one, so that later nights verify the rest. The
    cache decides whether an earlier verdict is still good.
    """
    by_value = sorted(
        (contact for contact in contacts if contact.email),
        key=lambda each: (
            each.verdict is not EmailStatus.UNVERIFIED,
            not is_person(each),
            -get_seniority(each),
            -each.confidence,
        ),
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


def _get_usable_email(text: str, fact: Fact, own: str) -> str:
    try:
        email = normalize_email(text)
    except PermanentError:
        return ""
    domain = email.rpartition("@")[2]
    is_own = bool(own) and (
        domain == own or domain.endswith(f".{own}") or own.endswith(f".{domain}")
    )
    is_on_own_site = bool(own) and get_host(fact.source) == own
    return email if is_own or is_on_own_site else ""
