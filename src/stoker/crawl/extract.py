"""Read a page: its text, its links, and its facts, without a model.

Free, deterministic, and without network access; meant for a process of its own. Each fact carries
its page, method, evidence and confidence; contradictory values all stay, and
`ExtractedFacts.find_best` chooses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from selectolax.lexbor import LexborHTMLParser

from stoker.accounts.facts import ExtractedFacts, Fact, FactField, Method, dedupe_facts
from stoker.accounts.identifiers import (
    parse_employee_range,
    parse_founding_year,
    parse_postal_code,
    parse_uen,
)
from stoker.accounts.people import format_person
from stoker.base.types import clean_text
from stoker.crawl.contacts import find_contacts
from stoker.crawl.key_pages import HOME, list_site_pages
from stoker.crawl.model import Excerpt, PageReading, classify_page, compute_fingerprint
from stoker.crawl.page import ParsedPage, parse_page
from stoker.crawl.people import (
    PAGES_WITH_PEOPLE,
    find_people,
    find_people_in_blocks,
    get_confidence,
    leave_out_joined,
)
from stoker.crawl.structured_data import find_structured_facts
from stoker.http.url import parse_url

# Part of an address that a page loads → what it belongs to.
_BY_RESOURCE = {
    "wp-content/": "WordPress",
    "wp-includes/": "WordPress",
    "cdn.shopify.com": "Shopify",
    "static.wixstatic.com": "Wix",
    "parastorage.com": "Wix",
    "squarespace.com": "Squarespace",
    "squarespace-cdn.com": "Squarespace",
    "assets.website-files.com": "Webflow",
    "webflow.com": "Webflow",
    "/_next/": "Next.js",
    "/_nuxt/": "Nuxt",
    "googletagmanager.com": "Google Tag Manager",
    "google-analytics.com": "Google Analytics",
    "js.hs-scripts.com": "HubSpot",
    "hsforms.net": "HubSpot",
    "js.stripe.com": "Stripe",
    "widget.intercom.io": "Intercom",
    "static.zdassets.com": "Zendesk",
    "embed.tawk.to": "Tawk.to",
    "static.hotjar.com": "Hotjar",
    "connect.facebook.net": "Meta Pixel",
    "snap.licdn.com": "LinkedIn Insight",
    "recaptcha": "reCAPTCHA",
    "boards.greenhouse.io": "Greenhouse",
    "jobs.lever.co": "Lever",
    "jobs.ashbyhq.com": "Ashby",
    "/sites/default/files": "Drupal",
    "/media/jui/": "Joomla",
    "/static/version": "Magento",
    "web/assets/": "Odoo",
}

_GENERATORS = (
    "WordPress", "Drupal", "Joomla", "Wix", "Squarespace", "Shopify", "Webflow", "Ghost", "Hugo",
    "Jekyll", "Gatsby", "Next.js", "Odoo", "TYPO3", "PrestaShop", "Magento", "Weebly", "Elementor",
)  # fmt: skip

_SERVERS = {"cloudflare": "Cloudflare", "nginx": "nginx", "apache": "Apache", "iis": "IIS"}


def find_technology(page: ParsedPage, *, url: str, server: str) -> list[Fact]:
    """Return the technologies that a page reveals, each once, best hint first."""
    facts: dict[str, Fact] = {}
    for name, evidence, how, confidence in _iterate_hints(page, server):
        if name not in facts:
            facts[name] = Fact.build(
                FactField.TECHNOLOGY,
                name,
                source=url,
                how=how,
                confidence=confidence,
                evidence=evidence[:200],
            )
    return list(facts.values())


def _iterate_hints(page: ParsedPage, server: str) -> Iterable[tuple[str, str, Method, float]]:
    generator = page.generator.lower()
    for name in _GENERATORS:
        if name.lower() in generator:
            yield name, page.generator, Method.META, 0.9
    addresses = [*page.scripts, *(link.href for link in page.links)]
    for address in addresses:
        small = address.lower()
        for part, name in _BY_RESOURCE.items():
            if part in small:
                yield name, address, Method.LINK, 0.7
    for part, name in _SERVERS.items():
        if part in server.lower():
            yield name, server, Method.META, 0.6


MAX_LINES = 4_000
MAX_LINE_LENGTH = 1_000

_UEN = re.compile(
    r"(?<![0-9A-Z])(?:[0-9]{8,9}[A-Z]|[TSR][0-9]{2}[A-Z]{2}[0-9]{4}[A-Z])(?![0-9A-Z])"
)

_UEN_LABEL = re.compile(r"(?i)\b(?:uen|co(?:mpany|\.)? ?reg|registration|reg\.? ?no|gst)")
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

# Pages that do not say that a person works there.
_PEOPLE = re.compile(_MANY + r"(?:people|persons|professionals|specialists)\b")
_TEAM_OF = re.compile(r"(?i)\b(?:team|staff|workforce) of (?:over |about |around )?([0-9]{1,6})\b")

_LEGAL = re.compile(
    r"((?:[A-Z0-9&(][\w&.,'()-]{0,30} ){1,7}?"
    r"(?:PTE\.? ?LTD\.?|Pte\.? ?Ltd\.?|PRIVATE LIMITED|Private Limited|LLP|PTE\.? LIMITED))(?!\w)"
)


def find_text_facts(text: str, *, url: str, kind: str) -> Iterator[Fact]:
    lines = [line.strip()[:MAX_LINE_LENGTH] for line in text.split("\n", MAX_LINES)[:MAX_LINES]]
    for line in lines:
        for field, value, confidence, evidence in _scan_line(line):
            yield _build_text_fact(field, value, url, confidence, evidence)
    if kind in PAGES_WITH_PEOPLE:
        for person, evidence in find_people(lines):
            yield _build_text_fact(
                FactField.PERSON, format_person(person), url, get_confidence(kind), evidence
            )


def _build_text_fact(
    field: FactField, value: str, url: str, confidence: float, evidence: str
) -> Fact:
    return Fact.build(
        field,
        value,
        source=url,
        how=Method.TEXT,
        confidence=confidence,
        evidence=evidence[:300],
    )


def _scan_line(line: str) -> Iterator[tuple[FactField, str, float, str]]:
    named = bool(_UEN_LABEL.search(line))
    for match in _UEN.finditer(line):
        if (number := parse_uen(match[0])) is not None:
            yield FactField.UEN, number, 0.9 if named else 0.7, _get_context(line, match)
    for match in _POSTAL.finditer(line):
        if (code := parse_postal_code(match[1])) is not None:
            yield FactField.POSTAL_CODE, code, 0.8, _get_context(line, match)
            yield FactField.COUNTRY, "SG", 0.7, match[0]
            if place := _find_address(line, match):
                yield FactField.ADDRESS, place, 0.6, _get_context(line, match)
    for match in _SINCE.finditer(line):
        if (year := parse_founding_year(match[1])) is not None:
            yield FactField.FOUNDED, year, 0.6, _get_context(line, match)
    for pattern, confidence in ((_TEAM_OF, 0.65), (_EMPLOYEES, 0.6), (_PEOPLE, 0.45)):
        for match in pattern.finditer(line):
            if (employees := parse_employee_range(match[1])) is not None:
                yield FactField.EMPLOYEES, employees, confidence, _get_context(line, match)
    for match in _LEGAL.finditer(line):
        sure = 0.75 if named or "©" in line or "copyright" in line.lower() else 0.5
        yield FactField.LEGAL_NAME, match[1].strip(" ,©("), sure, _get_context(line, match)


def _find_address(line: str, match: re.Match[str]) -> str:
    """Return the part of a line that is an address, ending in its postal code."""
    before = re.split(r"[·|•:©]| {3,}", line[: match.start()])[-1].strip(" ,(")
    has_number = re.search(r"[0-9]", before) is not None
    return f"{before}, Singapore {match[1]}" if has_number and 6 <= len(before) <= 150 else ""


def _get_context(line: str, match: re.Match[str]) -> str:
    return line[max(0, match.start() - 60) : match.end() + 60].strip()


MAX_FACTS = 300
MAX_LINK_LENGTH = 300_000  # characters of all links of a page together
SECOND_HAND_FACTOR = 0.6  # confidence of what another site says of the company
_SEPARATORS = ("|", " – ", " — ", " - ", "·", "»", ": ")
_MAX_NAME_LENGTH = 80


def read_page(
    body: bytes, *, content_type: str, url: str, kind: str = HOME, server: str = ""
) -> PageReading:
    """Read a page that came from this URL, whose server calls itself `server`. Never raises."""
    page = parse_page(body, content_type=content_type)
    title, text = clean_text(page.title), clean_text(page.text)
    contacts = find_contacts(page, url=url)
    tree = LexborHTMLParser(page.markup)
    structured = find_structured_facts(tree, url=url)
    joined = find_people_in_blocks(tree, url=url, kind=kind)
    plain = leave_out_joined(find_text_facts(text, url=url, kind=kind), joined)
    facts = [*structured, *contacts, *joined, *plain]
    if kind == HOME and (name := _get_title_name(title)):
        facts.append(
            Fact.build(
                FactField.NAME, name, source=url, how=Method.META, confidence=0.4, evidence=title
            )
        )
    follows = kind == HOME and "nofollow" not in page.robots and "none" not in page.robots
    return PageReading(
        type=classify_page(
            title=page.title,
            text=page.text,
            asks_for_password=page.asks_for_password,
            wants_script=page.needs_javascript,
        ),
        title=title,
        text=text,
        fingerprint=compute_fingerprint(page.title, page.text),
        links=tuple(
            list_site_pages(parse_url(url), page.links if follows else (), room=MAX_LINK_LENGTH)
        ),
        contacts=(*contacts, *find_technology(page, url=url, server=server)),
        facts=tuple(dedupe_facts(facts)[:MAX_FACTS]),
    )


def extract_facts(
    own: Iterable[Sequence[Fact]], *, excerpts: Iterable[Excerpt] = ()
) -> ExtractedFacts:
    """Return the facts of a company's own pages and those in excerpts of other pages.

    `own` are the facts of each page, `excerpts` are of pages that a search found. Never raises.
    """
    facts = [fact for page in own for fact in page]
    for excerpt in excerpts:
        facts += _extract_excerpt(excerpt)
    # The home page comes first, so its values win among equals.
    return ExtractedFacts(facts=tuple(dedupe_facts(facts)[:MAX_FACTS]))


def _extract_excerpt(excerpt: Excerpt) -> Iterator[Fact]:
    facts = [
        *find_contacts(ParsedPage(text=excerpt.text), url=excerpt.url),
        *find_text_facts(excerpt.text, url=excerpt.url, kind=excerpt.kind),
    ]
    for fact in facts:
        yield replace(fact, confidence=round(fact.confidence * SECOND_HAND_FACTOR, 3))


def _get_title_name(title: str) -> str:
    """Return the company's name in a home page's title, or an empty text."""
    name = title
    for separator in _SEPARATORS:
        name = name.partition(separator)[0]
    name = name.strip().removeprefix("Welcome to ").strip()
    generic = name.lower() in {"home", "homepage", "welcome", "index", "untitled", "main"}
    return "" if generic or not 2 <= len(name) <= _MAX_NAME_LENGTH else name
