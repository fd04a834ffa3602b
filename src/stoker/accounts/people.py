"""What tells people at a company apart: names, the addresses that spell them, and who decides.

A person fact is one text: a name, then the title, address and phone that stood with it, between
bars. Facts of before addresses were joined have a name and a title at most.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stoker.accounts.evidence import limit_marks, normalize_text

_BAR = " | "
_PHONE = re.compile(r"\+[0-9]{7,15}")
_EMAIL = re.compile(r"[^\s@|]{1,64}@[^\s@|]{3,253}")
_MAX_NAME_WORDS = 6
_MIN_JOINED_LENGTH = 6  # letters of a name without a sign between its words


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonEntry:
    """A person as one place lists it; what does not stand there is empty."""

    name: str
    title: str = ""
    email: str = ""
    phone: str = ""


def format_person(entry: PersonEntry) -> str:
    """Return a person as the value of a fact."""
    parts = (entry.name, entry.title, entry.email, entry.phone)
    return _BAR.join(part for part in parts if part)


def parse_person(value: str) -> PersonEntry:
    """Return the person in a fact's value; the name is empty when there is none."""
    name, *others = (part.strip() for part in value.split("|"))
    email = next((part for part in others if _EMAIL.fullmatch(part)), "")
    phone = next((part for part in others if _PHONE.fullmatch(part)), "")
    title = _BAR.join(part for part in others if part and part not in (email, phone))
    return PersonEntry(name=name, title=title, email=email, phone=phone)


def normalize_person_name(name: str) -> str:
    """Return what names of people are compared by."""
    return normalize_text(name)


_HONORIFICS = frozenset(["mr", "mrs", "ms", "mdm", "miss", "dr", "prof", "sir", "dato", "datuk"])


def spells_name(email: str, name: str) -> bool:
    """Return whether an address spells a name: first.last, f.last, last.first, with digits or not.

    Given names may be written together, and middle names be left out. An initial needs a sign
    after it: without one, stan@ could be Stan's or S. Tan's.
    """
    words = _fold_words(name)
    local = re.sub(r"[0-9]+", "", _fold(email.partition("@")[0]))
    parts = tuple(part for part in re.split(r"[._+-]+", local) if part)
    if not 2 <= len(words) <= _MAX_NAME_WORDS or not parts:
        return False
    forms = {tuple(words), tuple(words[::-1]), (*words[1:], words[0]), (words[-1], *words[:-1])}
    for first, last in _split_name(words):
        forms |= {(first, last), (last, first), (first[0], last), (last[0], first)}
    if parts in forms:
        return True
    whole = {"".join(form) for form in forms if all(len(part) > 1 for part in form)}
    return len(parts) == 1 and len(local) >= _MIN_JOINED_LENGTH and local in whole


def _split_name(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the ways to cut a name into a first and a last name."""
    cuts = [("".join(words[:at]), "".join(words[at:])) for at in range(1, len(words))]
    return [*cuts, (words[0], words[-1])]


def _fold_words(name: str) -> list[str]:
    words = re.findall(r"[a-z]+", re.sub(r"['’.]", "", _fold(name[:100])))
    return [word for word in words if word not in _HONORIFICS]


def _fold(text: str) -> str:
    plain = unicodedata.normalize("NFKD", limit_marks(text[:200].casefold()))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


# What the addresses of mailboxes are made of. All words of an address must be among them.
_MAILBOX_WORDS = """
    account accounting accounts admin administration administrator apac ap ar asia ask bd billing
    booking bookings business care career careers cares client clients commercial compliance
    contact contacts contactus corporate customer customercare customers customerservice cs data
    desk development dpo email enq enquire enquiries enquiry events export feedback finance
    frontdesk general global group hello help helpdesk hi hiring hotline hq hr human info
    information inquiries inquiry invoice invoices it job jobs kl legal logistics mail mailbox main
    marketing me media my news newsletter no noreply office online operations ops order orders
    partner partners partnership partnerships payment payments people postmaster pr press privacy
    procurement project projects purchase purchasing quotation quote quotes recruit recruiting
    recruitment reception relations reply resources request requests reservation reservations sale
    sales sea secretary security service services sg shop singapore store support team tech
    technical tender us webmaster welcome work you
"""

_MAILBOXES = frozenset(_MAILBOX_WORDS.split())


def is_mailbox(email: str) -> bool:
    """Return whether an address is a company's mailbox and no person's: info@, sales.sg@."""
    local, _, domain = email.casefold().partition("@")
    words = [word for word in re.split(r"[^a-z]+", local) if word]
    own = re.sub(r"[^a-z]", "", domain.partition(".")[0])
    if own and "".join(words) == own:
        return True
    return all(word in _MAILBOXES for word in words)


_SENIOR = ("chief", "ceo", "cto", "cfo", "coo", "founder", "owner", "director", "president")

_MANAGERS = ("head", "vp", "vice", "manager", "lead", "partner")

DECIDES_FROM = 0.7  # the seniority of a person who decides


def compute_seniority(name: str, title: str, seniority: str = "") -> float:
    """Return who decides most, from 0 to 1: directors and founders, then heads and managers."""
    words = f"{title} {seniority}".casefold().replace("-", " ").split()
    if any(word.startswith(_SENIOR) for word in words) and not _is_assistant(words):
        return 1.0
    if any(word.startswith(_MANAGERS) for word in words):
        return 0.7
    return 0.4 if name else 0.0


def _is_assistant(words: Sequence[str]) -> bool:
    """Return whether a title is that of a director's assistant: `Assistant to the Director`."""
    return any(
        one.startswith(("assistant", "secretary")) and to == "to" for one, to in pairwise(words)
    )
