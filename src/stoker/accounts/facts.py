"""Facts about a company: field, value, source, method, confidence; and which source wins.

All sources report facts, so that values can be compared and traced. Merging drops nothing that
disagrees: it stays with its own confidence. A model only fills gaps; it is never more certain than
what the page itself shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from stoker.accounts.evidence import normalize_text
from stoker.base.errors import PermanentError
from stoker.base.types import Json, clean_text

FACTS_TTL, TRUNCATED_FACTS_TTL = timedelta(days=90), timedelta(days=7)
_MAX_NORMALIZED_LENGTH = 200  # characters
MAX_VALUE_LENGTH = 2_000  # characters; a longer description is cut, a longer anything else refused


class FactField(StrEnum):
    """What can be known about a company."""

    NAME = "name"
    LEGAL_NAME = "legal_name"
    UEN = "uen"
    ABOUT = "about"
    INDUSTRY = "industry"
    WEBSITE = "website"
    EMAIL = "email"
    PHONE = "phone"
    ADDRESS = "address"
    POSTAL_CODE = "postal_code"
    COUNTRY = "country"
    EMPLOYEES = "employees"  # a number, or two joined by a hyphen
    FOUNDED = "founded"  # a year
    SOCIAL = "social"  # an address at a social network
    TECHNOLOGY = "technology"
    PERSON = "person"  # a name, or "name | role"


class Method(StrEnum):
    """How a value was found, most reliable first."""

    REGISTRY = "registry"
    VENDOR = "vendor"
    JSON_LD = "json_ld"
    MICRODATA = "microdata"
    META = "meta"
    LINK = "link"
    TEXT = "text"
    LLM = "llm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A value with its source. `build` cleans its texts."""

    field: FactField
    value: str
    source: str  # the page or vendor
    method: Method
    confidence: float  # 0 to 1
    evidence: str = ""  # the words it was read in, if any

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise PermanentError(f"a confidence is between 0 and 1, not {self.confidence!r}")

    @staticmethod
    def build(
        field: FactField,
        value: str,
        *,
        source: str,
        how: Method,
        confidence: float,
        evidence: str = "",
    ) -> Fact:
        """Return a fact whose texts every store can save, of bounded length."""
        return Fact(
            field=field,
            value=clean_text(" ".join(value.split()))[:MAX_VALUE_LENGTH],
            source=clean_text(source)[:MAX_VALUE_LENGTH],
            method=how,
            confidence=confidence,
            evidence=clean_text(" ".join(evidence.split()))[:MAX_VALUE_LENGTH],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFact:
    """A value that a source gave and that was not accepted, and why."""

    field: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFacts:
    facts: tuple[Fact, ...]
    rejected: tuple[RejectedFact, ...] = ()
    note: str = ""  # a refusal, a cut-off answer: what a reader should know about it

    @property
    def ttl(self) -> timedelta:
        """An answer with a note is asked for again sooner."""
        return TRUNCATED_FACTS_TTL if self.note else FACTS_TTL

    def find_best(self, field: FactField) -> Fact | None:
        return find_best_fact(self.facts, field)

    def as_json(self) -> Json:
        return {
            "findings": [
                [each.field, each.value, each.source, each.method, each.confidence, each.evidence]
                for each in self.facts
            ],
            "dropped": [[each.field, each.value, each.reason] for each in self.rejected],
            "note": self.note,
        }


def find_best_fact(facts: Iterable[Fact], field: FactField) -> Fact | None:
    """Return the most confident fact of a field, the first among equals."""
    of_field = [fact for fact in facts if fact.field is field]
    return max(of_field, key=lambda fact: fact.confidence, default=None)


def choose_best_by_field(facts: Iterable[Fact]) -> dict[FactField, Fact]:
    """Return the most confident fact of every field, in the fields' order."""
    all_facts = tuple(facts)
    each = {field: find_best_fact(all_facts, field) for field in FactField}
    return {field: fact for field, fact in each.items() if fact is not None}


# A company has several of these, so another one is no contradiction.
MULTI_VALUE_FIELDS = frozenset(
    {FactField.EMAIL, FactField.PHONE, FactField.SOCIAL, FactField.TECHNOLOGY, FactField.PERSON}
)


def merge_extractions(plain: ExtractedFacts, model: ExtractedFacts) -> ExtractedFacts:
    """Merge two extractions: facts found by rules first, a model's facts in their gaps.

    A value found by both counts once, with the higher confidence. Where a field has one value only
    and `plain` is at least as certain of another, the model's fact is rejected with that as its
    reason.
    """
    facts = list(plain.facts)
    known = {_get_value_key(fact) for fact in facts}
    rejected = [*plain.rejected, *model.rejected]
    for fact in model.facts:
        if _get_value_key(fact) in known:
            continue
        rival = plain.find_best(fact.field)
        is_single = fact.field not in MULTI_VALUE_FIELDS
        if is_single and rival is not None and rival.confidence >= fact.confidence:
            reason = f"{rival.method} says otherwise: {rival.value[:100]}"
            rejected.append(RejectedFact(field=fact.field, value=fact.value[:200], reason=reason))
            continue
        known.add(_get_value_key(fact))
        facts.append(fact)
    note = "; ".join(dict.fromkeys(text for text in (plain.note, model.note) if text))
    return ExtractedFacts(facts=tuple(facts), rejected=tuple(rejected), note=note)


def dedupe_facts(facts: Iterable[Fact]) -> list[Fact]:
    """Return each value once, with its highest confidence, in the order first found."""
    best: dict[tuple[FactField, str], Fact] = {}
    for fact in facts:
        key = _get_value_key(fact)
        if key not in best or fact.confidence > best[key].confidence:
            best[key] = fact
    return list(best.values())


def _get_value_key(fact: Fact) -> tuple[FactField, str]:
    # A long value is compared as it stands: some letters are many when they are normalized.
    is_long = len(fact.value) > _MAX_NORMALIZED_LENGTH
    return fact.field, fact.value if is_long else normalize_text(fact.value)
