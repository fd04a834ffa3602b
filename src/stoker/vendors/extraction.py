"""Extraction queries: which texts a model reads, and how its facts are cached.

The query holds the very texts to be read, so equal texts are read once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.accounts.facts import ExtractedFacts, Fact, FactField, Method, RejectedFact
from stoker.base.errors import PermanentError
from stoker.base.jsontools import get_line, get_list, has_list
from stoker.base.types import Json, clean_text
from stoker.crawl.model import Excerpt, PageText, choose_page_parts

MAX_EXCERPTS = 50

MAX_CHARACTERS = 200_000

MAX_CACHED_FACTS = 2_000

INVALID_CACHED_FACTS = "the cached answer holds no facts; it is asked for again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionQuery:
    """Which facts these texts hold about a company. See `build_extraction_query`."""

    domain: str  # the company's own; empty: not known yet
    excerpts: tuple[Excerpt, ...]

    def __post_init__(self) -> None:
        if not any(excerpt.text.strip() for excerpt in self.excerpts):
            raise PermanentError("there is no text to read; visit or search for pages first")
        if len(self.excerpts) > MAX_EXCERPTS:
            raise PermanentError(f"at most {MAX_EXCERPTS} pages are read together; pass fewer")
        if sum(len(excerpt.text) for excerpt in self.excerpts) > MAX_CHARACTERS:
            raise PermanentError(f"at most {MAX_CHARACTERS} characters are read; pass fewer")

    def as_json(self) -> Json:
        """Return the query as JSON."""
        return {
            "extract": self.domain,
            "from": [[excerpt.url, excerpt.text] for excerpt in self.excerpts],
        }

    def decode_answer(self, cached: Json) -> ExtractedFacts:
        """Decode a cached answer."""
        return decode_extracted_facts(cached)


def build_extraction_query(pages: Iterable[PageText], *, domain: str, most: int) -> ExtractionQuery:
    """Return the query about these pages' texts, each once, within `most` characters.

    Raises PermanentError when the pages have no text.
    """
    parts = choose_page_parts(pages, most=min(most, MAX_CHARACTERS))[:MAX_EXCERPTS]
    return ExtractionQuery(
        domain=clean_text(domain.strip().lower().removeprefix("www."))[:253],
        excerpts=tuple(
            # Without its heading: our own words are no evidence.
            Excerpt(
                url=clean_text(page.url), kind=page.kind, text=clean_text(text.partition("\n")[2])
            )
            for page, text in parts
        ),
    )


def decode_extracted_facts(cached: Json) -> ExtractedFacts:
    """Decode cached facts. Raises PermanentError when they have another form."""
    if not has_list(cached, "findings") or not has_list(cached, "dropped"):
        raise PermanentError(INVALID_CACHED_FACTS)
    return ExtractedFacts(
        facts=tuple(
            _decode_fact(row) for row in get_list(cached, "findings", most=MAX_CACHED_FACTS)
        ),
        rejected=tuple(
            _decode_rejected(row) for row in get_list(cached, "dropped", most=MAX_CACHED_FACTS)
        ),
        note=get_line(cached, "note", longest=500),
    )


def _decode_fact(row: Json) -> Fact:
    if not isinstance(row, list | tuple) or len(row) != 6:
        raise PermanentError(INVALID_CACHED_FACTS)
    field, value, source, how, confidence, evidence = row
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise PermanentError(INVALID_CACHED_FACTS)
    try:
        return Fact.build(
            FactField(str(field)),
            str(value),
            source=str(source),
            how=Method(str(how)),
            confidence=float(confidence),
            evidence=str(evidence),
        )
    except ValueError as error:
        raise PermanentError(INVALID_CACHED_FACTS) from error


def _decode_rejected(row: Json) -> RejectedFact:
    if not isinstance(row, list | tuple) or len(row) != 3:
        raise PermanentError(INVALID_CACHED_FACTS)
    field, value, reason = (clean_text(str(part))[:300] for part in row)
    return RejectedFact(field=field, value=value, reason=reason)
