"""Steps that a lookup skipped, the end state that follows, and the steps to retry later.

A cap, a stop or a failing vendor makes a lookup skip a step, with a reason; the other steps
continue.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from stoker.base.types import Step, clean_text
from stoker.enrichment.model import WorkState

RETRY_NOTE = "owed"  # the note that lists steps for a later run to retry

_LEADING_URL = re.compile(r"\Ahttps?://\S{1,2000}(?=\s)")

MAX_REASON_LENGTH = 300  # characters

MAX_REASONS = 12  # of one company

_DEPENDENT_STEPS = {  # what a step finds is taken further by these, however late it is found
    Step.EXTRACT: (Step.CONTACTS, Step.VERIFY),
    Step.CONTACTS: (Step.VERIFY,),
}


class SkipReason(StrEnum):
    """Why something was left out: what a later night may do about it."""

    REFUSED = "refused"  # a cap or a stop: as soon as there is room again
    LATER = "later"  # a vendor's bad day: another time
    OFF = "off"  # when a person has acted
    NEVER = "never"  # it will not work, so nothing is owed
    UNKNOWN = "unknown"  # it may have been paid for: another day, or after a person decided


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedStep:
    """One thing a company's night did without."""

    step: Step
    cause: SkipReason
    reason: str
    resets_at: datetime | None = None  # when there is room again, if a cap refused it

    @property
    def message(self) -> str:
        """Say it as it stands among an item's reasons."""
        return clean_text(f"{self.step}: {self.reason}")[:MAX_REASON_LENGTH]


def replace_url_with_vendor(because: str, *, vendor: str) -> str:
    """Return why a vendor gave no answer, the vendor named instead of where it was asked."""
    return _LEADING_URL.sub(vendor, because)


def choose_end_state(shortfalls: Iterable[SkippedStep]) -> WorkState:
    """Return how an item ended that did without these."""
    lacks = {each.cause for each in shortfalls}
    if SkipReason.UNKNOWN in lacks:
        return WorkState.UNKNOWN
    return WorkState.DEGRADED if lacks - {SkipReason.NEVER} else WorkState.DONE


def list_reasons(shortfalls: Iterable[SkippedStep]) -> tuple[str, ...]:
    """Return the sentences, each once."""
    return tuple(dict.fromkeys(each.message for each in shortfalls))[:MAX_REASONS]


def format_steps_to_retry(
    shortfalls: Iterable[SkippedStep], *, before: Collection[Step], steps: Collection[Step]
) -> str:
    """Return which steps a later night should make up for, as a note keeps it.

    `before` is what was owed already; of that, what tonight's `steps` do not include still is.
    """
    owed = {each.step for each in shortfalls if each.cause is not SkipReason.NEVER}
    owed |= {step for step in before if step not in steps}
    return ",".join(step for step in Step if step in owed)


def parse_steps_to_retry(notes: Mapping[str, str]) -> frozenset[Step]:
    """Return which steps an earlier night left to be made up for, with all that they feed."""
    known = {step.value for step in Step}
    noted = {Step(name) for name in notes.get(RETRY_NOTE, "").split(",") if name in known}
    return frozenset(noted.union(*(_DEPENDENT_STEPS.get(step, ()) for step in noted)))
