"""A rationale in a model's words: what the model is told, and which of its answers may stand.

It is told numbers and our own words, nothing that stood on a page and no name: nobody can slip an
order in, and companies with the same features share one answer. The opening with the bucket and the
score stays ours. Who is asked, and what that costs, is not known here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from stoker.core.companies import Bucket, LeadScore
from stoker.core.model import Json
from stoker.core.picking import object_in, text_in
from stoker.core.scoring import ScoreRule
from stoker.errors import PermanentError

LONGEST, SHORTEST = 400, 20  # characters
LONGEST_READ = 2_000
MOST_SENTENCES = 2
# Long, because the same features say the same; what could not stand is worth another try sooner.
GOOD_FOR, UNUSABLE_GOOD_FOR = timedelta(days=365), timedelta(days=30)
# No markup, links, addresses, percentages or letters of other scripts: what no table, page or CRM
# takes for anything but words.
_PLAIN = re.compile(r"[A-Za-z0-9 .,;:!?'\"()’“”–—-]+")
_HOST = re.compile(r"[A-Za-z0-9]\.[A-Za-z]{2}")
_NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")
_ODD_NUMBER = re.compile(r"[A-Za-z]\d|\d[A-Za-z]|(?<!\d)\.\d|[-–—]\d")
_SPELLED = re.compile(
    r"(?i)\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|"
    r"forty|fifty|sixty|seventy|eighty|ninety|dozens?|hundreds?|thousands?|millions?|billions?|"
    r"percent|twice|double|half)\b"
)
_SENTENCE_ENDS = re.compile(r"[.!?]['\"’”)]*(?: |$)")
_CALLED = re.compile(r"(?i)\b(high|medium|low)[ -](?:lead|scor|bucket|priorit|prospect)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewording:
    """Say in other words why a lead has its score. Build it with `rewording`."""

    feature_hash: str
    bucket: Bucket
    told: str  # all that whoever words it is told
    plain: str  # the rationale as it stands without anybody's help

    def as_json(self) -> Json:
        """Return what is asked: one question for all companies with the same features."""
        return {"rationale": self.feature_hash, "plain": self.plain}

    def answered(self, kept: Json) -> Reworded:
        """Return a kept answer, as far as it may stand by today's rules."""
        if not isinstance(object_in(kept).get("text"), str):
            raise PermanentError("what is kept here is no rationale; it is asked for anew")
        text, note = text_in(kept, "text", longest=LONGEST_READ), text_in(kept, "note")
        return reworded(text, self) if text else Reworded(note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reworded:
    """A rationale in a model's words, or why there is none that may stand."""

    text: str = ""
    note: str = ""

    @property
    def good_for(self) -> timedelta:
        """The same features say the same for long."""
        return GOOD_FOR if self.text else UNUSABLE_GOOD_FOR

    def as_json(self) -> Json:
        """Return it as it is kept."""
        return {"text": self.text, "note": self.note}


def rewording(score: LeadScore, rule: ScoreRule) -> Rewording:
    """Return the question how to word a score's rationale; the same for the same features."""
    features = "\n".join(
        f"{name.replace('_', ' ')}: {value:.2f}, weight {rule.weights.get(name, 0.0):.2f}"
        for name, value in sorted(score.features.items())
    )
    _, said = _parted(score.rationale)
    return Rewording(
        feature_hash=score.feature_hash,
        bucket=score.bucket,
        told=f"Score: {score.value:.2f}, called {score.bucket}\n{features}\nOur sentence: {said}",
        plain=score.rationale,
    )


def reworded(text: str, question: Rewording) -> Reworded:
    """Return an answer as it may stand: its text, or a note why it may not. Never raises.

    One or two sentences of plain words, no number that was not told, no other bucket.
    """
    opening, _ = _parted(question.plain)
    said = " ".join(text[:LONGEST_READ].split()).removeprefix(opening)
    because = _unusable(said, question)
    return Reworded(note=because) if because else Reworded(text=said)


def rationale_of(answer: Reworded, plain: str) -> str:
    """Return the rationale: the opening that is ours, then the model's words, if any may stand."""
    opening, _ = _parted(plain)
    return f"{opening}{answer.text}" if answer.text else plain


def _parted(plain: str) -> tuple[str, str]:
    opening, between, said = plain.partition(": ")
    return f"{opening}{between}", said


def _unusable(said: str, question: Rewording) -> str:
    if not SHORTEST <= len(said) <= LONGEST:
        return f"the model's rationale has {len(said)} characters, not {SHORTEST} to {LONGEST}"
    if not _PLAIN.fullmatch(said) or _HOST.search(said):
        return "the model's rationale is not only plain words"
    ends = list(_SENTENCE_ENDS.finditer(said))
    if not ends or ends[-1].end() != len(said) or len(ends) > MOST_SENTENCES:
        return "the model's rationale is not one or two sentences"
    if _ODD_NUMBER.search(said) or _SPELLED.search(said) or not _only_told(said, question):
        return "the model's rationale has a number that it was not told"
    if any(name.lower() != question.bucket.lower() for name in _CALLED.findall(said)):
        return "the model's rationale calls the lead something else"
    return ""


def _only_told(said: str, question: Rewording) -> bool:
    told = {Decimal(number) for number in _NUMBER.findall(question.told)}
    numbers = _NUMBER.findall(said)
    return all(number.count(".") < 2 and "," not in number for number in numbers) and told >= {
        Decimal(number) for number in numbers
    }
