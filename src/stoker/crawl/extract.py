"""What a page's plain words give away about its company: numbers, years, sizes, names, people.

Line by line, by patterns whose time is bounded. How to reach a company is `contact_reading`'s
business. A value found only here is a good guess, and its confidence says so.

The extractor that needs no model: what pages say for programs, and what their words give away.

Free, quick, the same every time, and no network. Each value comes with its page, the means, the
words it was taken from and how sure we are; values that contradict each other all stay, and
`Extracted.best` chooses. Bounded for pages of any kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from selectolax.lexbor import LexborHTMLParser

from stoker.accounts.facts import Extracted, Field, Finding, How, surest
from stoker.accounts.identifiers import employee_range, founding_year, postal_code, uen_number
from stoker.crawl.contacts import contacts
from stoker.crawl.model import Excerpt, Page
from stoker.crawl.page import Metas, Reading, read_page
from stoker.crawl.structured_data import structured_findings

MOST_LINES = 4_000

LONGEST_LINE = 1_000

MOST_PEOPLE = 40

_UEN = re.compile(
    r"(?<![0-9A-Z])(?:[0-9]{8,9}[A-Z]|[TSR][0-9]{2}[A-Z]{2}[0-9]{4}[A-Z])(?![0-9A-Z])"
)

_SAYS_UEN = re.compile(r"(?i)\b(?:uen|co(?:mpany|\.)? ?reg|registration|reg\.? ?no|gst)")

_POSTAL = re.compile(r"(?i)\b(?:singapore|s\'?pore|s)[ ,]{0,2}\(?([0-9]{6})(?![0-9])")

_SINCE = re.compile(
    r"(?i)\b(?:since|founded in|established in|est\.?|incorporated in|began in|started in"
    r"|in business since|founded)[ :]{1,2}(?:[a-z]{3,9} )?((?:18|19|20)[0-9]{2})(?![0-9])"
)

_MANY = (
    r"(?i)(?<![0-9,.$])([0-9][0-9,]{0,8}(?: ?(?:-|–|to) ?[0-9][0-9,]{0,8})?)\+? "
    r"(?:(?:full[- ]time|dedicated|skilled|permanent|passionate|talented) )?"
)

_EMPLOYEES = re.compile(_MANY + r"(?:employees|staff|team members)\b")

# Of whom it is not said that they work there.
_PEOPLE = re.compile(_MANY + r"(?:people|persons|professionals|specialists)\b")

_TEAM_OF = re.compile(r"(?i)\b(?:team|staff|workforce) of (?:over |about |around )?([0-9]{1,6})\b")

_LEGAL = re.compile(
    r"((?:[A-Z0-9&(][\w&.,'()-]{0,30} ){1,7}?"
    r"(?:PTE\.? ?LTD\.?|Pte\.? ?Ltd\.?|PRIVATE LIMITED|Private Limited|LLP|PTE\.? LIMITED))(?!\w)"
)

_NAME = re.compile(
    r"[A-Z][\w'’.-]{0,25}(?: (?:bin|binte|de|van|s/o|d/o|[A-Z(][\w'’.()-]{0,25})){1,4}"
)

_ROLE = re.compile(
    r"(?i)\b(?:founder|chief|c[etfom]o|managing|director|manager|head of|officer|president|partner"
    r"|principal|lead|engineer|executive|chairman|chairwoman|consultant|architect|secretary|vp|svp"
    r"|owner|accountant|analyst|designer|developer|specialist|supervisor|advis[eo]r|counsel)\b"
)

_TITLE = re.compile(r"(?:(?:[A-Z&(][^\s]*|of|and|for|the|to|in)(?: |$)){1,10}")

_NO_NAMES = frozenset(
    [
        *(
            "about",
            "all",
            "api",
            "career",
            "careers",
            "company",
            "contact",
            "find",
            "follow",
            "for",
        ),
        *("get", "how", "join", "learn", "meet", "more", "new", "news", "open", "our", "privacy"),
        *("products", "read", "services", "solutions", "team", "terms", "the", "us", "we", "what"),
        *("why", "with", "work", "your"),
    ]
)

_SPLIT = re.compile(r", | – | — | - | \| |: ")

_WITH_PEOPLE = frozenset({"team", "about", "contact", "home"})


def word_findings(text: str, *, url: str, kind: str) -> Iterator[Finding]:
    """Return what a page's words give away, in the order they stand there."""
    lines = [line.strip()[:LONGEST_LINE] for line in text.split("\n", MOST_LINES)[:MOST_LINES]]
    for line in lines:
        for field, value, confidence, evidence in _of_line(line):
            yield _found(field, value, url, confidence, evidence)
    if kind in _WITH_PEOPLE:
        for value, evidence in _people(lines):
            yield _found(Field.PERSON, value, url, 0.75 if kind == "team" else 0.6, evidence)


def _found(field: Field, value: str, url: str, confidence: float, evidence: str) -> Finding:
    return Finding.found(
        field,
        value,
        source=url,
        how=How.TEXT,
        confidence=confidence,
        evidence=evidence[:300],
    )


def _of_line(line: str) -> Iterator[tuple[Field, str, float, str]]:
    named = bool(_SAYS_UEN.search(line))
    for match in _UEN.finditer(line):
        if (number := uen_number(match[0])) is not None:
            yield Field.UEN, number, 0.9 if named else 0.7, _around(line, match)
    for match in _POSTAL.finditer(line):
        if (code := postal_code(match[1])) is not None:
            yield Field.POSTAL_CODE, code, 0.8, _around(line, match)
            yield Field.COUNTRY, "SG", 0.7, match[0]
            if place := _place(line, match):
                yield Field.ADDRESS, place, 0.6, _around(line, match)
    for match in _SINCE.finditer(line):
        if (year := founding_year(match[1])) is not None:
            yield Field.FOUNDED, year, 0.6, _around(line, match)
    for pattern, confidence in ((_TEAM_OF, 0.65), (_EMPLOYEES, 0.6), (_PEOPLE, 0.45)):
        for match in pattern.finditer(line):
            if (employees := employee_range(match[1])) is not None:
                yield Field.EMPLOYEES, employees, confidence, _around(line, match)
    for match in _LEGAL.finditer(line):
        sure = 0.75 if named or "©" in line or "copyright" in line.lower() else 0.5
        yield Field.LEGAL_NAME, match[1].strip(" ,©("), sure, _around(line, match)


def _place(line: str, match: re.Match[str]) -> str:
    """Return the part of a line that is an address, when a number and a street lead to its code."""
    before = re.split(r"[·|•:©]| {3,}", line[: match.start()])[-1].strip(" ,(")
    has_number = re.search(r"[0-9]", before) is not None
    return f"{before}, Singapore {match[1]}" if has_number and 6 <= len(before) <= 150 else ""


def _people(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Return names with their roles: on one line, or a role on the line under a name."""
    many = 0
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if len(line) > 120 or many >= MOST_PEOPLE:
            continue
        parts = _SPLIT.split(line, maxsplit=1)
        name, role = (parts[0], parts[1]) if len(parts) == 2 else (line, after)
        evidence = line if len(parts) == 2 else f"{line} {after}"
        if _is_name(name) and _is_role(role):
            many += 1
            yield f"{name} | {role}", evidence


def _is_name(text: str) -> bool:
    if len(text) > 60 or _NAME.fullmatch(text) is None or _ROLE.search(text):
        return False
    return _NO_NAMES.isdisjoint(text.lower().split())


def _is_role(text: str) -> bool:
    return len(text) <= 80 and bool(_ROLE.search(text)) and _TITLE.fullmatch(text) is not None


def _around(line: str, match: re.Match[str]) -> str:
    return line[max(0, match.start() - 60) : match.end() + 60].strip()


MOST_FINDINGS = 300

SECOND_HAND = 0.6  # how much is left of our trust when another site speaks of the company

_SEPARATORS = ("|", " – ", " — ", " - ", "·", "»", ": ")

_LONGEST_NAME = 80


def plainly_extracted(pages: Iterable[Page], *, told: Iterable[Excerpt] = ()) -> Extracted:
    """Return what a company's own pages say, and what other pages tell of it, surest word each.

    `told` are words without markup, from pages a search led to. Never raises.
    """
    found: list[Finding] = []
    for page in pages:
        found += _of_page(page)
    for excerpt in told:
        found += _of_excerpt(excerpt)
    # Where a company says things of itself, its home page says them best; order keeps that.
    return Extracted(findings=tuple(surest(found)[:MOST_FINDINGS]))


def _of_page(page: Page) -> Iterator[Finding]:
    tree = LexborHTMLParser(page.markup.decode("utf-8", "replace"))
    yield from structured_findings(tree, url=page.url)
    reading = read_page(page.markup, content_type="text/html; charset=utf-8")
    yield from contacts(reading, url=page.url)
    yield from word_findings(page.text, url=page.url, kind=page.kind)
    if page.kind == "home" and (name := _named(page.title)):
        yield Finding.found(
            Field.NAME, name, source=page.url, how=How.META, confidence=0.4, evidence=page.title
        )


def _of_excerpt(excerpt: Excerpt) -> Iterator[Finding]:
    reading = Reading(
        title="",
        text=excerpt.text,
        links=(),
        metas=Metas(),
        markup="",
        hidden_emails=(),
        scripts=(),
        asks_for_password=False,
        wants_script=False,
    )
    found = [
        *contacts(reading, url=excerpt.url),
        *word_findings(excerpt.text, url=excerpt.url, kind=excerpt.kind),
    ]
    for finding in found:
        yield replace(finding, confidence=round(finding.confidence * SECOND_HAND, 3))


def _named(title: str) -> str:
    """Return what a home page's title calls the company, if it calls it anything."""
    name = title
    for separator in _SEPARATORS:
        name = name.partition(separator)[0]
    name = name.strip().removeprefix("Welcome to ").strip()
    generic = name.lower() in {"home", "homepage", "welcome", "index", "untitled", "main"}
    return "" if generic or not 2 <= len(name) <= _LONGEST_NAME else name
