"""What the make-believe model understands of a text: facts by kind, each with the words it is from.

A handful of patterns and no memory: the same text gives the same facts. How facts get into the
shape somebody asked for is `model_filling`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

LONGEST_READ = 100_000  # characters; what comes after is not looked at


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing a text says, the words that say it, and what else belongs to it."""

    value: str
    evidence: str
    role: str = ""


Facts = Mapping[str, tuple[Fact, ...]]

_LEGAL = re.compile(r"(?:PTE\.? LTD\.?|Pte\.? Ltd\.?|PRIVATE LIMITED|LIMITED|LLP)")
_BEFORE_LEGAL = re.compile(r"(?:[A-Z&(][\w&.'()-]{0,40},? ){1,12}$")
_DIGITS = re.compile(r"[+\d][\d -]{7,14}")
_PHONE = re.compile(r"(?:\+65[ -]?)?[3689]\d{3}[ -]?\d{4}")
_ROLE = (
    r"(?:Founder|Chief|Managing|Director|Manager|Head of|Officer|CEO|CTO|CFO|COO|VP|Engineer|"
    r"Executive|President|Partner)"
)
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("email", re.compile(r"([A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+)")),
    ("uen", re.compile(r"\b(\d{9}[A-Z]|[TS]\d{2}[A-Z]{2}\d{4}[A-Z])\b")),
    ("postal_code", re.compile(r"(?:Singapore|SINGAPORE|S)[ (]{1,2}(\d{6})\b")),
    (
        "founded",
        re.compile(r"(?i)(?:since|founded in|established in|incorporated in)[ :]{1,2}(\d{4})\b"),
    ),
    (
        "employees",
        re.compile(r"(?i)(\d[\d,]{0,6}(?: ?[-–] ?\d{1,6})?) (?:people|employees|staff|persons)\b"),
    ),
    (
        "social",
        re.compile(r"(https?://(?:[\w-]{1,30}\.)?(?:linkedin|facebook|instagram|x)\.\S{2,120})"),
    ),
    ("website", re.compile(r"(https?://[\w.-]{3,100}[\w/]*)")),
    ("industry", re.compile(r"(?i)\b(?:works in|specialis\w{1,4} in|we do) ([a-z][a-z ]{2,60})")),
    ("address", re.compile(r"(\d[^\n:]{5,120}\b(?:Singapore|SINGAPORE) \(?\d{6}\)?)")),
    (
        "technology",
        re.compile(r"\b(WordPress|Shopify|React|Kubernetes|Salesforce|HubSpot|AWS|Odoo)\b"),
    ),
    ("country", re.compile(r"\b(Singapore)\b")),
)
_PERSON = re.compile(
    rf"^[#*\- ]{{0,4}}([A-Z][\w'.]{{1,30}}(?: [A-Z][\w'.]{{1,30}}){{1,3}})(?:,| -| –| \|) "
    rf"([^\n]{{0,20}}{_ROLE}[^\n]{{0,40}})$",
    re.MULTILINE,
)
_HEADING = re.compile(r"^#{1,2} ([^\n|–]{2,60})", re.MULTILINE)


def facts_of(text: str) -> dict[str, tuple[Fact, ...]]:
    """Return what a text says, by kind, in the order it says it; each value once."""
    read = text[:LONGEST_READ]
    facts = {kind: _unique(_matches(pattern, read)) for kind, pattern in _PATTERNS}
    facts["phone"] = _unique(_phones(read))
    facts["legal_name"] = _unique(_legal_names(read))
    facts["person"] = _unique(
        Fact(match[1], match[0].strip(), match[2].strip()) for match in _PERSON.finditer(read)
    )
    facts["name"] = _unique(
        Fact(match[1].strip(), match[0].strip()) for match in _HEADING.finditer(read)
    )[:1] or tuple(facts["legal_name"][:1])
    sentences = [line.strip() for line in read.splitlines() if 40 <= len(line.strip()) <= 400]
    facts["about"] = tuple(Fact(line, line) for line in sentences[:1])
    return {kind: found for kind, found in facts.items() if found}


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[Fact]:
    for match in pattern.finditer(text):
        yield Fact(match[1].strip(" .,"), _line_around(text, match.start(), match.end()))


def _phones(text: str) -> Iterator[Fact]:
    for match in _DIGITS.finditer(text):
        number = match[0].strip(" -")
        if _PHONE.fullmatch(number):
            yield Fact(number, _line_around(text, match.start(), match.end()))


def _legal_names(text: str) -> Iterator[Fact]:
    # From the ending backwards: names have one, most words have not.
    for match in _LEGAL.finditer(text):
        before = text[max(0, match.start() - 80) : match.start()].rpartition("\n")[2]
        words = _BEFORE_LEGAL.search(before)
        if words:
            name = f"{words[0]}{match[0]}"
            yield Fact(name, _line_around(text, match.start(), match.end()))


def _line_around(text: str, start: int, end: int) -> str:
    first = text.rfind("\n", max(0, start - 100), start) + 1 or max(0, start - 100)
    last = text.find("\n", end, end + 100)
    return text[first : last if last >= 0 else end + 100].strip()


def _unique(facts: Iterator[Fact]) -> tuple[Fact, ...]:
    seen: dict[str, Fact] = {}
    for fact in facts:
        seen.setdefault(fact.value, fact)
        if len(seen) >= 50:
            break
    return tuple(seen.values())
