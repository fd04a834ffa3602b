"""Say in one sentence why a company is a lead: whom to write to, size, trade, growth.

Names, titles and addresses came from strangers. A name or title that is not shaped like one is
left out, and a title has only words that titles are made of, so that no sentence becomes an order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.accounts.contacts import choose_best_contact, get_usable_email, is_person
from stoker.accounts.model import CompanyRecord, Contact, EmailStatus
from stoker.base.formats import format_count
from stoker.base.types import clean_text
from stoker.registry.ssic import find_industry_word

MAX_REASON_LENGTH = 300  # characters
HIRING_NOTE = "hiring"  # that the site has a page of openings
HIRING_PAGE_NOTE = "hiring_page"  # which page
OPENINGS_NOTE = "openings"  # how many openings that page lists
POSTINGS_NOTE = "postings"  # how many job postings are known
POSTINGS_SOURCE_NOTE = "postings_source"  # where the last of them is listed

_MAX_NAME_LENGTH, _MAX_EMAIL_LENGTH, _MAX_PLACE_LENGTH = 40, 60, 60

_VERDICT_WORDS = {
    EmailStatus.VALID: "verified",
    EmailStatus.CATCH_ALL: "catch-all",
    EmailStatus.UNKNOWN: "could not be verified",
    EmailStatus.UNVERIFIED: "not verified",
}

_NAME = re.compile(r"[^\W\d_](?:[^\W\d_]+\.?)?(?:['’.-][^\W\d_]+\.?)*")
_EMAIL = re.compile(r"[a-z0-9._%+'-]+@[a-z0-9.-]+")
_PLACE = re.compile(r"[A-Za-z0-9.:/_-]+")

# Words that are no part of a name, but of what a reader is asked to do.
_NO_NAME_WORDS = frozenset(
    (
        "all", "assistant", "bucket", "budget", "buy", "call", "cap", "click", "delete",
        "disregard", "email", "every", "export", "forget", "give", "ignore", "instruction",
        "instructions", "lead", "now", "obey", "pay", "please", "previous", "print", "prompt",
        "put", "reply", "report", "rules", "score", "send", "set", "system", "tell", "the", "this",
        "transfer", "update", "visit", "wire", "you", "your",
    )
)  # fmt: skip

_TITLE_WORDS = """
    account accountant accounting accounts admin administration administrative administrator
    adviser advisor affairs analyst and architect area asean asia assistant associate board
    brand business buyer care ceo cfo chain chair chairman chairperson chairwoman chief cio cmo
    co commercial communications compliance consultant consulting content coo coordinator
    corporate counsel country creative cto customer data deputy design designer developer
    development digital director division engineer engineering executive experience facilities
    field finance financial founder founding general global group growth head hr human in
    information infrastructure international it junior key lead leader legal logistics manager
    managing marketing member of officer operating operations owner partner partnerships people
    planning president principal procurement product production programme project projects
    property purchasing quality regional relations representative research resources retail
    revenue risk sales science scientist secretary security senior service services singapore
    site software solutions south southeast specialist staff strategy success supervisor supply
    support sustainability svp systems talent team technical technician technology the trade
    trading training treasurer vice vp
"""

_TITLES = frozenset(_TITLE_WORDS.split())

_ROLES = (
    "accountant", "administrator", "advis", "analyst", "architect", "assistant", "associate",
    "buyer", "ceo", "cfo", "chair", "chief", "cio", "cmo", "consultant", "coo", "coordinator",
    "counsel", "cto", "designer", "developer", "director", "engineer", "executive", "founder",
    "head", "lead", "manager", "member", "officer", "owner", "partner", "president", "principal",
    "representative", "scientist", "secretary", "specialist", "supervisor", "svp", "technician",
    "treasurer", "vice", "vp",
)  # fmt: skip


def build_reason(record: CompanyRecord, *, opening: str, against: str) -> str:
    """Return the reason of a lead's score, from its own facts, in at most 300 characters.

    `opening` names bucket and score, `against` what speaks most against the lead. Where there is
    too little room, what comes last is left out, and `against` stays.
    """
    tail = f"; but {against}." if against else "."
    said = opening
    for part in _list_parts(record):
        more = f"{said}; {part}" if said != opening else f"{said}{part}"
        if len(more) + len(tail) <= MAX_REASON_LENGTH:
            said = more
    return (said if said != opening else f"{opening}little is known") + tail


def _list_parts(record: CompanyRecord) -> list[str]:
    company, best = record.company, choose_best_contact(record)
    trade = find_industry_word(company.ssic)
    parts = [
        _format_person(best) if best else "",
        "" if company.employees is None else format_count(company.employees, "employee"),
        f"{trade} (SSIC {company.ssic})" if trade and company.ssic.isdigit() else "",
        *_list_growth(record),
        f"{company.website} found" if not best and _is_place(company.website) else "",
    ]
    return [part for part in parts if part]


def _format_person(contact: Contact) -> str:
    email = get_usable_email(contact)
    address = email if len(email) <= _MAX_EMAIL_LENGTH and _EMAIL.fullmatch(email) else ""
    verdict = _VERDICT_WORDS.get(contact.verdict, "fails verification")
    if not is_person(contact):
        return f"only a mailbox, {address} ({verdict})" if address else "only a mailbox"
    who = [to_safe_name(contact.name), to_safe_title(contact.title)]
    if address:
        who.append(f"{address} ({verdict})")
    elif contact.email:
        who.append("whose address fails verification" if not email else "")
    else:
        who.append("no address")
    return ", ".join(part for part in who if part)


def to_safe_name(name: str) -> str:
    """Return a person's name, or an empty text for what is not shaped like one."""
    words = clean_text(name).split()
    text = " ".join(words)
    if not 1 <= len(words) <= 6 or len(text) > _MAX_NAME_LENGTH:
        return ""
    has_shape = all(_NAME.fullmatch(word) and len(word) <= 25 for word in words)
    return text if has_shape and _NO_NAME_WORDS.isdisjoint(text.casefold().split()) else ""


def to_safe_title(title: str) -> str:
    """Return a title if all its words are those of titles; otherwise the words that are."""
    words: list[str] = re.findall(r"[A-Za-z&]+", title[:200])
    kept = [word for word in words if word == "&" or word.casefold() in _TITLES]
    small = ("&", "and", "of", "in", "the")
    while kept and kept[-1].casefold() in small:
        kept.pop()
    while kept and kept[0].casefold() in small:
        kept.pop(0)
    has_role = any(word.casefold().startswith(_ROLES) for word in kept)
    return " ".join(kept[:8]) if has_role else ""


def _list_growth(record: CompanyRecord) -> Sequence[str]:
    """Return what speaks of growth, and where it stands."""
    found = []
    count = get_count(record, POSTINGS_NOTE)
    if count:
        place = record.notes.get(POSTINGS_SOURCE_NOTE, "")
        where = f" at {place}" if _is_place(place) else ""
        found.append(f"{format_count(count, 'job posting')}{where}")
    if record.notes.get(HIRING_NOTE):
        page = record.notes.get(HIRING_PAGE_NOTE, "")
        openings = get_count(record, OPENINGS_NOTE)
        what = format_count(openings, "opening") if openings else "a page of openings"
        found.append(f"{what} on {page}" if _is_place(page) else what)
    return found


def get_count(record: CompanyRecord, note: str) -> int:
    """Return the number that a note holds, 0 without one."""
    text = record.notes.get(note, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 6 else 0


def _is_place(text: str) -> bool:
    return len(text) <= _MAX_PLACE_LENGTH and bool(_PLACE.fullmatch(text))
