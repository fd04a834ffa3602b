"""Whose word stands when several sources speak of the same company.

Nothing is thrown away: what disagrees stays, with its own confidence. What a model read in a page
only fills gaps; it is never surer than what stands in the page for everybody to see.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.core.evidence import folded
from stoker.core.findings import Dropped, Extracted, Field, Finding

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
