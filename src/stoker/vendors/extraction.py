"""Making facts of a company's pages: what is asked, and what an answer is kept as.

The question holds the very words to be read, so that the same words are read once. Who reads
them, and what may be believed, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.accounts.facts import Dropped, Extracted, Field, Finding, How
from stoker.base.errors import PermanentError
from stoker.base.jsontools import has_list, list_in, text_in
from stoker.base.types import Json, clean_text
from stoker.crawl.model import Excerpt
from stoker.crawl.page_text import Worded, parts

MOST_EXCERPTS = 50

MOST_CHARACTERS = 200_000

MOST_KEPT = 2_000

NOT_OURS = "what is kept here are no findings; they are looked for anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Which facts do these words hold about this company. Build it with `extraction`."""

    domain: str  # the company's own; empty: nobody knows it yet
    excerpts: tuple[Excerpt, ...]

    def __post_init__(self) -> None:
        if not any(excerpt.text.strip() for excerpt in self.excerpts):
            raise PermanentError("there are no words to read; visit or search for pages first")
        if len(self.excerpts) > MOST_EXCERPTS:
            raise PermanentError(f"at most {MOST_EXCERPTS} pages are read together; pass fewer")
        if sum(len(excerpt.text) for excerpt in self.excerpts) > MOST_CHARACTERS:
            raise PermanentError(f"at most {MOST_CHARACTERS} characters are read; pass fewer")

    def as_json(self) -> Json:
        """Return what is asked."""
        return {
            "extract": self.domain,
            "from": [[excerpt.url, excerpt.text] for excerpt in self.excerpts],
        }

    def answered(self, kept: Json) -> Extracted:
        """Return a kept answer."""
        return extracted_from(kept)


def extraction(pages: Iterable[Worded], *, domain: str, most: int) -> Extraction:
    """Return the question about these pages' words, each said once, at most so many characters.

    Raises PermanentError when they say nothing.
    """
    found = parts(pages, most=min(most, MOST_CHARACTERS))[:MOST_EXCERPTS]
    return Extraction(
        domain=clean_text(domain.strip().lower().removeprefix("www."))[:253],
        excerpts=tuple(
            # Without its heading: our own words are no evidence of anything.
            Excerpt(
                url=clean_text(page.url), kind=page.kind, text=clean_text(text.partition("\n")[2])
            )
            for page, text in found
        ),
    )


def extracted_from(kept: Json) -> Extracted:
    """Return findings as they were kept. Raises PermanentError when they are none of ours."""
    if not has_list(kept, "findings") or not has_list(kept, "dropped"):
        raise PermanentError(NOT_OURS)
    return Extracted(
        findings=tuple(_finding(row) for row in list_in(kept, "findings", most=MOST_KEPT)),
        dropped=tuple(_dropped(row) for row in list_in(kept, "dropped", most=MOST_KEPT)),
        note=text_in(kept, "note", longest=500),
    )


def _finding(row: Json) -> Finding:
    if not isinstance(row, list | tuple) or len(row) != 6:
        raise PermanentError(NOT_OURS)
    field, value, source, how, confidence, evidence = row
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise PermanentError(NOT_OURS)
    try:
        return Finding.found(
            Field(str(field)),
            str(value),
            source=str(source),
            how=How(str(how)),
            confidence=float(confidence),
            evidence=str(evidence),
        )
    except ValueError as error:
        raise PermanentError(NOT_OURS) from error


def _dropped(row: Json) -> Dropped:
    if not isinstance(row, list | tuple) or len(row) != 3:
        raise PermanentError(NOT_OURS)
    field, value, because = (clean_text(str(part))[:300] for part in row)
    return Dropped(field=field, value=value, because=because)
