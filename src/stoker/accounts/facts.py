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

from stoker.accounts.evidence import folded
from stoker.base.errors import PermanentError
from stoker.base.types import Json, clean_text

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


def surest_of_each(findings: Iterable[Finding]) -> dict[Field, Finding]:
    """Return the surest finding of every field anything was found for, in the fields' order."""
    known = tuple(findings)
    each = {field: best(known, field) for field in Field}
    return {field: finding for field, finding in each.items() if finding is not None}


# Of these a company has several, so another one is no contradiction.
SEVERAL = frozenset({Field.EMAIL, Field.PHONE, Field.SOCIAL, Field.TECHNOLOGY, Field.PERSON})


def merged(plain: Extracted, model: Extracted) -> Extracted:
    """Return both as one: what was found without a model first, a model's word in its gaps.

    A value both found counts once, by its surest finding. Where a field has one value only and
    `plain` is as sure of another, the model's is dropped with that as its reason.
    """
    kept = list(plain.findings)
    known = {_same(finding) for finding in kept}
    dropped = [*plain.dropped, *model.dropped]
    for finding in model.findings:
        if _same(finding) in known:
            continue
        rival = plain.best(finding.field)
        alone = finding.field not in SEVERAL
        if alone and rival is not None and rival.confidence >= finding.confidence:
            because = f"{rival.how} says otherwise: {rival.value[:100]}"
            dropped.append(Dropped(field=finding.field, value=finding.value[:200], because=because))
            continue
        known.add(_same(finding))
        kept.append(finding)
    note = "; ".join(dict.fromkeys(text for text in (plain.note, model.note) if text))
    return Extracted(findings=tuple(kept), dropped=tuple(dropped), note=note)


def surest(findings: Iterable[Finding]) -> list[Finding]:
    """Return each value once, by its surest finding, in the order values were first found."""
    best: dict[tuple[Field, str], Finding] = {}
    for finding in findings:
        same = _same(finding)
        if same not in best or finding.confidence > best[same].confidence:
            best[same] = finding
    return list(best.values())


def _same(finding: Finding) -> tuple[Field, str]:
    return finding.field, folded(finding.value)
