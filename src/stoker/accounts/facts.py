"""One thing somebody found out about a company: which field, which value, where, how, how sure.

Every source says what it found in these words, so that values can be weighed against each other
and traced back. Whether a value is good enough to use is not decided here.

Whose word stands when several sources speak of the same company.

Nothing is thrown away: what disagrees stays, with its own confidence. What a model read in a page
only fills gaps; it is never surer than what stands in the page for everybody to see.
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

MAX_VALUE_LENGTH = 2_000  # characters; a longer description is cut, a longer anything else refused


class FactField(StrEnum):
    """What can be found out about a company."""

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
    """By what means a value was found, surest first."""

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
    """A value with its origin. Build it with `build`, which cleans its texts."""

    field: FactField
    value: str
    source: str  # the page or vendor that said so
    method: Method
    confidence: float  # 0 to 1
    evidence: str = ""  # the words it was taken from, where there are any

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
        """Return a finding with texts every store can keep, of bounded length."""
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
    """A value a source gave that was not taken, and why."""

    field: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFacts:
    """What an extractor made of a company's pages. Deterministic and LLM extractors alike."""

    facts: tuple[Fact, ...]
    rejected: tuple[RejectedFact, ...] = ()
    note: str = ""  # a refusal, a cut-off answer: what a reader should know about it

    @property
    def ttl(self) -> timedelta:
        """The same pages say the same; an answer with a note is worth asking again sooner."""
        return TRUNCATED_FACTS_TTL if self.note else FACTS_TTL

    def find_best(self, field: FactField) -> Fact | None:
        """Return the surest value of a field, the first among equals."""
        return find_best_fact(self.facts, field)

    def as_json(self) -> Json:
        """Return it as it is kept."""
        return {
            "findings": [
                [each.field, each.value, each.source, each.method, each.confidence, each.evidence]
                for each in self.facts
            ],
            "dropped": [[each.field, each.value, each.reason] for each in self.rejected],
            "note": self.note,
        }


def find_best_fact(findings: Iterable[Fact], field: FactField) -> Fact | None:
    """Return the surest finding of a field, the first among equals."""
    of_field = [finding for finding in findings if finding.field is field]
    return max(of_field, key=lambda finding: finding.confidence, default=None)


def choose_best_by_field(findings: Iterable[Fact]) -> dict[FactField, Fact]:
    """Return the surest finding of every field anything was found for, in the fields' order."""
    known = tuple(findings)
    each = {field: find_best_fact(known, field) for field in FactField}
    return {field: finding for field, finding in each.items() if finding is not None}


# Of these a company has several, so another one is no contradiction.
MULTI_VALUE_FIELDS = frozenset(
    {FactField.EMAIL, FactField.PHONE, FactField.SOCIAL, FactField.TECHNOLOGY, FactField.PERSON}
)


def merge_extractions(plain: ExtractedFacts, model: ExtractedFacts) -> ExtractedFacts:
    """Return both as one: what was found without a model first, a model's word in its gaps.

    A value both found counts once, by its surest finding. Where a field has one value only and
    `plain` is as sure of another, the model's is dropped with that as its reason.
    """
    kept = list(plain.facts)
    known = {_get_value_key(finding) for finding in kept}
    dropped = [*plain.rejected, *model.rejected]
    for finding in model.facts:
        if _get_value_key(finding) in known:
            continue
        rival = plain.find_best(finding.field)
        alone = finding.field not in MULTI_VALUE_FIELDS
        if alone and rival is not None and rival.confidence >= finding.confidence:
            because = f"{rival.method} says otherwise: {rival.value[:100]}"
            dropped.append(
                RejectedFact(field=finding.field, value=finding.value[:200], reason=because)
            )
            continue
        known.add(_get_value_key(finding))
        kept.append(finding)
    note = "; ".join(dict.fromkeys(text for text in (plain.note, model.note) if text))
    return ExtractedFacts(facts=tuple(kept), rejected=tuple(dropped), note=note)


def dedupe_facts(findings: Iterable[Fact]) -> list[Fact]:
    """Return each value once, by its surest finding, in the order values were first found."""
    best: dict[tuple[FactField, str], Fact] = {}
    for finding in findings:
        same = _get_value_key(finding)
        if same not in best or finding.confidence > best[same].confidence:
            best[same] = finding
    return list(best.values())


def _get_value_key(finding: Fact) -> tuple[FactField, str]:
    return finding.field, normalize_text(finding.value)
