"""The extractor that needs no model: what pages say for programs, and what their words give away.

Free, quick, the same every time, and no network. Each value comes with its page, the means, the
words it was taken from and how sure we are; values that contradict each other all stay, and
`Extracted.best` chooses. Bounded for pages of any kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from selectolax.lexbor import LexborHTMLParser

from stoker.connectors.contact_reading import contacts
from stoker.connectors.page_reading import Metas, Reading, read_page
from stoker.connectors.structured_data import structured_findings
from stoker.connectors.word_reading import word_findings
from stoker.core.extracting import Excerpt
from stoker.core.findings import Extracted, Field, Finding, How
from stoker.core.pages import Page
from stoker.core.weighing import surest

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
