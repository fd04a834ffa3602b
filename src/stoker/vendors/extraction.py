"""Making facts of a company's pages: what is asked, and what an answer is kept as.

The question holds the very words to be read, so that the same words are read once. Who reads
them, and what may be believed, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.accounts.facts import ExtractedFacts, Fact, FactField, Method, RejectedFact
from stoker.base.errors import PermanentError
from stoker.base.jsontools import get_line, get_list, has_list
from stoker.base.types import Json, clean_text
from stoker.crawl.model import Excerpt
from stoker.crawl.page_text import PageText, choose_page_parts

MAX_EXCERPTS = 50

MAX_CHARACTERS = 200_000

MAX_CACHED_FACTS = 2_000

INVALID_CACHED_FACTS = "what is kept here are no findings; they are looked for anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionQuery:
    """Which facts do these words hold about this company. Build it with
    `build_extraction_query`.
    """

    domain: str  # the company's own; empty: nobody knows it yet
    excerpts: tuple[Excerpt, ...]

    def __post_init__(self) -> None:
        if not any(excerpt.text.strip() for excerpt in self.excerpts):
            raise PermanentError("there are no words to read; visit or search for pages first")
        if len(self.excerpts) > MAX_EXCERPTS:
            raise PermanentError(f"at most {MAX_EXCERPTS} pages are read together; pass fewer")
        if sum(len(excerpt.text) for excerpt in self.excerpts) > MAX_CHARACTERS:
            raise PermanentError(f"at most {MAX_CHARACTERS} characters are read; pass fewer")

    def as_json(self) -> Json:
        """Return what is asked."""
        return {
            "extract": self.domain,
            "from": [[excerpt.url, excerpt.text] for excerpt in self.excerpts],
        }

    def decode_answer(self, kept: Json) -> ExtractedFacts:
        """Return a kept answer."""
        return decode_extracted_facts(kept)


def build_extraction_query(pages: Iterable[PageText], *, domain: str, most: int) -> ExtractionQuery:
    """Return the question about these pages' words, each said once, at most so many characters.

    Raises PermanentError when they say nothing.
    """
    found = choose_page_parts(pages, most=min(most, MAX_CHARACTERS))[:MAX_EXCERPTS]
    return ExtractionQuery(
        domain=clean_text(domain.strip().lower().removeprefix("www."))[:253],
        excerpts=tuple(
            # Without its heading: our own words are no evidence of anything.
            Excerpt(
                url=clean_text(page.url), kind=page.kind, text=clean_text(text.partition("\n")[2])
            )
            for page, text in found
        ),
    )


def decode_extracted_facts(kept: Json) -> ExtractedFacts:
    """Return findings as they were kept. Raises PermanentError when they are none of ours."""
    if not has_list(kept, "findings") or not has_list(kept, "dropped"):
        raise PermanentError(INVALID_CACHED_FACTS)
    return ExtractedFacts(
        facts=tuple(_decode_fact(row) for row in get_list(kept, "findings", most=MAX_CACHED_FACTS)),
        rejected=tuple(
            _decode_rejected(row) for row in get_list(kept, "dropped", most=MAX_CACHED_FACTS)
        ),
        note=get_line(kept, "note", longest=500),
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
    field, value, because = (clean_text(str(part))[:300] for part in row)
    return RejectedFact(field=field, value=value, reason=because)
