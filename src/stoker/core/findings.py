"""One thing somebody found out about a company: which field, which value, where, how, how sure.

Every source says what it found in these words, so that values can be weighed against each other
and traced back. Whether a value is good enough to use is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from stoker.core.model import Json, clean_text
from stoker.errors import PermanentError

GOOD_FOR, CUT_GOOD_FOR = timedelta(days=90), timedelta(days=7)
LONGEST_VALUE = 2_000  # characters; a longer description is cut, a longer anything else refused


class Field(StrEnum):
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


class How(StrEnum):
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
class Finding:
    """A value with its origin. Build it with `found`, which cleans its texts."""

    field: Field
    value: str
    source: str  # the page or vendor that said so
    how: How
    confidence: float  # 0 to 1
    evidence: str = ""  # the words it was taken from, where there are any

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise PermanentError(f"a confidence is between 0 and 1, not {self.confidence!r}")

    @staticmethod
    def found(
        field: Field, value: str, *, source: str, how: How, confidence: float, evidence: str = ""
    ) -> Finding:
        """Return a finding with texts every store can keep, of bounded length."""
        return Finding(
            field=field,
            value=clean_text(" ".join(value.split()))[:LONGEST_VALUE],
            source=clean_text(source)[:LONGEST_VALUE],
            how=how,
            confidence=confidence,
            evidence=clean_text(" ".join(evidence.split()))[:LONGEST_VALUE],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A value a source gave that was not taken, and why."""

    field: str
    value: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """What an extractor made of a company's pages. Deterministic and LLM extractors alike."""

    findings: tuple[Finding, ...]
    dropped: tuple[Dropped, ...] = ()
    note: str = ""  # a refusal, a cut-off answer: what a reader should know about it

    @property
    def good_for(self) -> timedelta:
        """The same pages say the same; an answer with a note is worth asking again sooner."""
        return CUT_GOOD_FOR if self.note else GOOD_FOR

    def best(self, field: Field) -> Finding | None:
        """Return the surest value of a field, the first among equals."""
        return best(self.findings, field)

    def as_json(self) -> Json:
        """Return it as it is kept."""
        return {
            "findings": [
                [each.field, each.value, each.source, each.how, each.confidence, each.evidence]
                for each in self.findings
            ],
            "dropped": [[each.field, each.value, each.because] for each in self.dropped],
            "note": self.note,
        }


def best(findings: Iterable[Finding], field: Field) -> Finding | None:
    """Return the surest finding of a field, the first among equals."""
    of_field = [finding for finding in findings if finding.field is field]
    return max(of_field, key=lambda finding: finding.confidence, default=None)
