"""Find people on a page: their names and titles, and the address and phone that stand with them.

An address belongs to a person when the smallest part of the page that has the address and a
person has one person and one address: a card, a row, a line. What is hidden from visitors does
not count. The work is bounded: few addresses, few levels up, short blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from urllib.parse import unquote

from selectolax.lexbor import LexborHTMLParser, LexborNode

from stoker.accounts.facts import Fact, FactField, Method
from stoker.accounts.people import (
    PersonEntry,
    format_person,
    is_mailbox,
    parse_person,
    spells_name,
)
from stoker.base.types import clean_text
from stoker.crawl.contacts import (
    BoundedParser,
    decode_protected_email,
    find_emails_in_text,
    find_phones_in_text,
    parse_email,
    parse_phone,
)
from stoker.crawl.page import BLOCK_TAGS, HIDDEN_PARTS

MAX_PEOPLE = 40
MAX_ANCHORS = 60  # addresses and phones of a page whose surroundings are read
MAX_LEVELS = 6  # up from an address
MAX_BLOCK_LENGTH = 500  # characters; a longer part of a page is no block of one person's
MAX_BLOCK_LINES = 10
MAX_BLOCK_NODES = 120

PAGES_WITH_PEOPLE = frozenset({"team", "about", "contact", "home"})

_NAME = re.compile(
    r"[A-Z][\w'’.-]{0,25}(?: (?:bin|binte|de|van|s/o|d/o|[A-Z(][\w'’.()-]{0,25})){1,4}"
)

_ROLE = re.compile(
    r"(?i)\b(?:founder|chief|c[etfom]o|managing|director|manager|head of|officer|president|partner"
    r"|principal|lead|engineer|executive|chairman|chairwoman|consultant|architect|secretary|vp|svp"
    r"|owner|accountant|analyst|designer|developer|specialist|supervisor|advis[eo]r|counsel|technician|inspector)\b"
)

_TITLE = re.compile(r"(?:(?:[A-Z&(][^\s]*|of|and|for|the|to|in)(?: |$)){1,10}")

_NO_NAMES = frozenset(
    (
        "about", "all", "api", "career", "careers", "company", "contact", "find", "follow", "for",
        "get", "how", "join", "learn", "meet", "more", "new", "news", "open", "our", "privacy",
        "products", "read", "services", "solutions", "team", "terms", "the", "us", "we", "what",
        "why", "with", "work", "your",
    )
)  # fmt: skip

_SPLIT = re.compile(r", | – | — | - | \| |: ")


def find_people(lines: Sequence[str]) -> Iterator[tuple[PersonEntry, str]]:
    """Yield names with their roles: on one line, or a role on the line under a name."""
    many = 0
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        if len(line) > 120 or many >= MAX_PEOPLE:
            continue
        parts = _SPLIT.split(line, maxsplit=1)
        name, role = (parts[0], parts[1]) if len(parts) == 2 else (line, after)
        evidence = line if len(parts) == 2 else f"{line} {after}"
        if is_name(name) and _is_role(role):
            many += 1
            yield PersonEntry(name=name, title=role), evidence


def is_name(text: str) -> bool:
    """Return whether a text looks like a person's name."""
    if len(text) > 60 or _NAME.fullmatch(text) is None or _ROLE.search(text):
        return False
    return _NO_NAMES.isdisjoint(text.lower().split())


MAX_OPENING_LINES = 300  # of a page of openings


def count_openings(text: str) -> int:
    """Return how many jobs a page of openings lists, by its lines that are titles."""
    lines = text.split("\n", MAX_OPENING_LINES)[:MAX_OPENING_LINES]
    return sum(_is_role(_SPLIT.split(line, maxsplit=1)[0]) for line in lines if len(line) <= 100)


def _is_role(text: str) -> bool:
    return len(text) <= 80 and bool(_ROLE.search(text)) and _TITLE.fullmatch(text) is not None


# Parts of a page that hold many blocks; whatever stands alone in one is no block of it.
_CONTAINERS = frozenset(
    ("html", "body", "main", "nav", "ul", "ol", "table", "tbody", "footer", "header", "form")
)

_LABELS = re.compile(
    r"(?i)\b(?:e-?mail|mail|telephone|tel|phone|mobile|direct line|direct|fax|hp|call|write to)"
    r"(?: (?:address|number|no\.?))?(?: ?[:.]|$)"
)
_EDGES = " \t,;:|()<>[]·•–—-"


def get_confidence(kind: str) -> float:
    """Return how sure it is that a page of this kind lists the company's own people."""
    return 0.75 if kind == "team" else 0.6


def find_people_in_blocks(tree: LexborHTMLParser, *, url: str, kind: str) -> list[Fact]:
    """Return the people of a page with the address or phone that stands with each.

    Takes hidden parts out of the tree.
    """
    if kind not in PAGES_WITH_PEOPLE or tree.body is None:
        return []
    for node in tree.css(HIDDEN_PARTS):
        node.decompose()
    emails = BoundedParser(partial(parse_email, page=url))
    phones = BoundedParser(parse_phone)
    found: dict[PersonEntry, str] = {}
    for anchor in islice(_iterate_anchors(tree), MAX_ANCHORS):
        joined = _read_block(anchor, emails, phones)
        if joined is not None:
            found.setdefault(*joined)
    return [
        Fact.build(
            FactField.PERSON,
            format_person(person),
            source=url,
            how=Method.TEXT,
            confidence=get_confidence(kind) + 0.05,
            evidence=evidence[:300],
        )
        for person, evidence in _drop_shared(found).items()
    ]


def leave_out_joined(facts: Iterable[Fact], joined: Sequence[Fact]) -> Iterator[Fact]:
    """Yield facts without the people that are known with an address or phone already."""
    known = {_to_bare(fact) for fact in joined}
    return (
        fact for fact in facts if fact.field is not FactField.PERSON or _to_bare(fact) not in known
    )


def _to_bare(fact: Fact) -> tuple[str, str]:
    entry = parse_person(fact.value)
    return entry.name, entry.title


def _iterate_anchors(tree: LexborHTMLParser) -> Iterator[LexborNode]:
    """Yield the elements of a page that have an address or a phone."""
    if tree.body is None:
        return
    for node in tree.body.traverse(include_text=True):
        if node.tag == "-text":
            words = node.text_content or ""
            is_contact = "@" in words or " at " in words.lower() or "(at)" in words.lower()
            digits = sum(map(str.isdigit, words[:200])) if len(words) < 2_000 else 0
            if (is_contact or digits >= 7) and node.parent is not None:
                yield node.parent
        elif node.tag == "a":
            href = (node.attributes.get("href") or "")[:7].lower()
            if href.startswith(("mailto:", "tel:")) or "data-cfemail" in node.attributes:
                yield node
        elif "data-cfemail" in node.attributes:
            yield node


def _read_block(
    anchor: LexborNode, emails: BoundedParser, phones: BoundedParser
) -> tuple[PersonEntry, str] | None:
    """Return the person in the smallest block around a contact, with the block's words."""
    block: LexborNode | None = anchor
    for _ in range(MAX_LEVELS):
        if block is None or block.tag in _CONTAINERS:
            return None
        lines, hrefs = _read_lines(block)
        if len(lines) > MAX_BLOCK_LINES or sum(map(len, lines)) > MAX_BLOCK_LENGTH:
            return None
        text = "\n".join(lines)
        own_emails = _parse_all(
            emails, [*_list_linked(hrefs, "mailto:"), *find_emails_in_text(text)]
        )
        own_phones = _parse_all(phones, [*_list_linked(hrefs, "tel:"), *find_phones_in_text(text)])
        people = _list_people(lines, own_emails)
        if len(people) > 1 or len(own_emails) > 1:
            return None
        if people:
            email = "".join(each for each in own_emails if not is_mailbox(each))
            phone = own_phones[0] if len(own_phones) == 1 else ""
            if not email and not phone:
                return None
            return replace(people[0], email=email, phone=phone), " ".join(lines)
        block = block.parent
    return None


def _read_lines(block: LexborNode) -> tuple[list[str], list[str]]:
    """Return the lines of a block and what its links lead to; a long block has too many lines."""
    parts: list[str] = []
    hrefs: list[str] = []
    length = 0
    for count, node in enumerate(block.traverse(include_text=True)):
        if count > MAX_BLOCK_NODES or length > 2 * MAX_BLOCK_LENGTH:
            return ["…"] * (MAX_BLOCK_LINES + 1), []
        if node.tag == "-text":
            parts.append((node.text_content or "")[: 3 * MAX_BLOCK_LENGTH])
            length += len(parts[-1].strip())
        elif node.tag in BLOCK_TAGS:
            parts.append("\n")
        if node.tag == "a" and (href := node.attributes.get("href")):
            hrefs.append(href[:500])
        if code := (node.attributes or {}).get("data-cfemail"):
            hrefs.append(f"mailto:{decode_protected_email(code) or ''}")
    lines = (" ".join(clean_text(line).split()) for line in "".join(parts).splitlines())
    return [line for line in lines if line], hrefs


def _list_linked(hrefs: Iterable[str], scheme: str) -> list[str]:
    return [
        unquote(href[len(scheme) :]).partition("?")[0].strip()
        for href in hrefs
        if href[: len(scheme)].lower() == scheme
    ]


def _parse_all(parse: BoundedParser, texts: Iterable[str]) -> list[str]:
    values = (parse(text) for text in texts)
    return list(dict.fromkeys(value for value in values if value is not None))


def _list_people(lines: Sequence[str], emails: Sequence[str]) -> list[PersonEntry]:
    """Return the people that a block's lines name; by name alone where an address spells it."""
    bare = [line for line in map(_strip_contacts, lines) if line]
    people = [person for person, _ in find_people(bare)]
    if people:
        return people
    return [
        PersonEntry(name=line)
        for line in bare
        if is_name(line) and any(spells_name(email, line) for email in emails)
    ]


def _strip_contacts(line: str) -> str:
    for text in (*find_emails_in_text(line, as_written=True), *find_phones_in_text(line)):
        line = line.replace(text, " ")
    return " ".join(_LABELS.sub(" ", line).split()).strip(_EDGES)


def _drop_shared(found: dict[PersonEntry, str]) -> dict[PersonEntry, str]:
    """Return people without the phones and addresses that stand with several of them."""
    mails = [person.email for person in found]
    phones = [person.phone for person in found]
    own = {
        replace(
            person,
            email=person.email if mails.count(person.email) == 1 else "",
            phone=person.phone if phones.count(person.phone) == 1 else "",
        ): words
        for person, words in found.items()
    }
    return {person: words for person, words in own.items() if person.email or person.phone}
