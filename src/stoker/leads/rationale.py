"""Reword a lead's rationale by a model, and check its answer.

The model gets numbers and our own words, no page text and no names: no page can give it orders, and
companies with equal features share one answer. Its words come after ours, which name the facts. A
reservation is much smaller than a page's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from stoker.accounts.model import Bucket, LeadScore
from stoker.base.errors import PermanentError
from stoker.base.jsontools import get_line, get_object, get_text
from stoker.base.strict_json import parse_json
from stoker.base.types import Json
from stoker.budgets.model import Health, Paid
from stoker.context import TenantContext
from stoker.http.api_client import VendorApi
from stoker.leads.scoring import build_plain_rationale
from stoker.leads.settings import ScoreRule
from stoker.vendors.extraction import Prompt
from stoker.vendors.openai import (
    NAME,
    Completion,
    OpenAiModel,
    Prices,
    build_api,
    build_prices,
)
from stoker.vendors.table import OpenAiSettings

MAX_LENGTH, MIN_LENGTH = 400, 20  # characters

MAX_READ_LENGTH, MAX_ANSWER_LENGTH = 2_000, 10_000

MAX_SENTENCES = 2

# Long, because equal features give equal rationales; a rejected answer is retried sooner.
RATIONALE_TTL, UNUSABLE_TTL = timedelta(days=365), timedelta(days=30)

# No markup, links, addresses, percentages or other scripts: nothing that a table, page or CRM
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

_BUCKET_WORD = re.compile(r"(?i)\b(high|medium|low)[ -](?:lead|scor|bucket|priorit|prospect)")


# All that a rationale may be made of, besides our own sentence and numbers: what links words, and
# what speaks of fit, size, addresses, people who decide, sites and growth. No names, and no verbs
# for what a reader might do.
_OUR_WORDS = """
    a about above account across activity address addresses adds against all almost already also
    although altogether among an and another any anybody anyone anything appears are around as
    at average away back based be became because become becomes been before being below besides
    best better between both brings bucket business but buyer buyers by called can candidate
    cannot category certain chance choice clear clearly close come comes common companies
    company compared confirmed contacts content could count counted counts current currently
    customer data decide decides deciding decision decisions describes description despite
    detail details detected did didn do does doesn don done doubt doubts down due during each
    either else email emails employee employees enough even ever every everything evidence
    evident exact exactly excellent except expanding expansion explains fact factor factors
    facts fails fair fairly falls far favour feature features few fewer first fit fits fitting
    flat for found from full fully further gap gaps given gives good great grow growing grows
    growth had hardly has hasn have haven having headcount held helps here high higher highest
    hires hiring his holds how however icp ideal identified if in incomplete indeed indicate
    indicates industry information informative instead interest into is isn it its itself job
    jobs just keeps kept kind known lack lacking lacks large largely larger last lead leads
    least less level light like likely limit limited limits line little long looks low lower
    lowest made mail mailbox main mainly make maker makers makes management manager many match
    matched matches matching may mean means medium middle might miss missing mixed moderate
    momentum more most mostly much near nearly need needs neither neutral never nevertheless no
    nobody none nor not nothing now number numbers of off offset often on once one online only
    openings or other others otherwise our out outreach outside outweigh outweighs over overall
    own page pages part partly people perhaps person phone plus point points poor positive
    possible potential presence present priority probably profile promising prospect prospects
    quite range ranked rather rating reachable reached really reason reasonable reasons recent
    reduces reliable remain remains response right role roles rule sale sales same score scored
    scores scoring sector seem seems seen senior seniority several shortcoming shown shows side
    sign signal signals signs since single site sites size sized small smaller so solid some
    somebody someone something somewhat source sparse speak speaks staff standing status still
    strength strengths strong stronger strongest such suit suitable suits sum supported supports
    taken target team text texts than that the their them then there therefore these they thin
    thing things this those though through thus to together too total toward towards trend
    unclear unconfirmed under unknown unless until unverified up upon usable valid value
    verified very visible want wanted wants was wasn we weak weaker weakest weakness web website
    websites weigh weighs weight weighted weights well were weren what when where whereas
    whether which while who whole whom whose why will with within without won work worked
    working works would written yet
"""

_VOCABULARY = frozenset(_OUR_WORDS.split())

# As the feature texts of `scoring` and the names of buckets have them.
_CAPITALIZED = frozenset(("High", "Medium", "Low", "ICP"))

_WORD = re.compile(r"[A-Za-z]+")

_CONTRACTION = re.compile(r"['’](?:s|t|re|ve|ll|d)\b")

# With one of these before everything else, a sentence tells its reader what to do.
_ORDER_VERBS = frozenset(
    ("be", "come", "count", "do", "have", "like", "limit", "make", "match", "mean", "miss", "need",
     "point", "score", "speak", "suit", "target", "total", "want", "weigh", "work")
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RationaleQuery:
    """Reword why a lead has its score. See `build_rationale_query`."""

    feature_hash: str
    bucket: Bucket
    facts_text: str  # all that the model reads
    plain: str  # the rationale in our own words

    def as_json(self) -> Json:
        """Return the query as JSON: one query for all companies with equal features."""
        return {"rationale": self.feature_hash, "plain": self.plain}

    def decode_answer(self, cached: Json) -> RationaleAnswer:
        """Decode a cached answer, as far as today's rules accept it."""
        if not isinstance(get_object(cached).get("text"), str):
            raise PermanentError("the cached answer is no rationale; it is asked for again")
        text, note = get_line(cached, "text", longest=MAX_READ_LENGTH), get_line(cached, "note")
        return validate_rewording(text, self) if text else RationaleAnswer(note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class RationaleAnswer:
    """A rationale in a model's words, or why none is acceptable."""

    text: str = ""
    note: str = ""

    @property
    def ttl(self) -> timedelta:
        """Equal features keep their wording for long."""
        return RATIONALE_TTL if self.text else UNUSABLE_TTL

    def as_json(self) -> Json:
        """Return the answer as it is cached."""
        return {"text": self.text, "note": self.note}


def build_rationale_query(score: LeadScore, rule: ScoreRule) -> RationaleQuery:
    """Return the query for a score's rationale; equal for equal features."""
    features = "\n".join(
        f"{name.replace('_', ' ')}: {value:.2f}, weight {rule.weights[name]:.2f}"
        for name, value in sorted(score.features.items())
    )
    plain = build_plain_rationale(score, rule)
    _, text = _split_rationale(plain)
    return RationaleQuery(
        feature_hash=score.feature_hash,
        bucket=score.bucket,
        facts_text=(
            f"Score: {score.value:.2f}, called {score.bucket}\n{features}\nOur sentence: {text}"
        ),
        plain=plain,
    )


def validate_rewording(text: str, question: RationaleQuery) -> RationaleAnswer:
    """Return an answer's text if it is acceptable, or a note why not. Never raises.

    One or two sentences of plain words, no number that was not given, no other bucket.
    """
    opening, _ = _split_rationale(question.plain)
    wording = " ".join(text[:MAX_READ_LENGTH].split()).removeprefix(opening)
    problem = _find_problem(wording, question)
    return RationaleAnswer(note=problem) if problem else RationaleAnswer(text=wording)


def build_rationale(answer: RationaleAnswer, plain: str) -> str:
    """Return the rationale: our own sentence, then the model's words, if acceptable."""
    return f"{plain} {answer.text}" if answer.text else plain


def _split_rationale(plain: str) -> tuple[str, str]:
    opening, between, rest = plain.partition(": ")
    return f"{opening}{between}", rest


def _find_problem(wording: str, question: RationaleQuery) -> str:
    if not MIN_LENGTH <= len(wording) <= MAX_LENGTH:
        return (
            f"the model's rationale has {len(wording)} characters, not {MIN_LENGTH} to {MAX_LENGTH}"
        )
    if not _PLAIN.fullmatch(wording) or _HOST.search(wording):
        return "the model's rationale is not only plain words"
    ends = list(_SENTENCE_ENDS.finditer(wording))
    if not ends or ends[-1].end() != len(wording) or len(ends) > MAX_SENTENCES:
        return "the model's rationale is not one or two sentences"
    if (
        _ODD_NUMBER.search(wording)
        or _SPELLED.search(wording)
        or not _has_only_given_numbers(wording, question)
    ):
        return "the model's rationale has a number that it was not given"
    if not _has_only_our_words(wording, question):
        return "the model's rationale has words that are not about the score"
    if any(name.lower() != question.bucket.lower() for name in _BUCKET_WORD.findall(wording)):
        return "the model's rationale calls the lead something else"
    return ""


def _has_only_our_words(wording: str, question: RationaleQuery) -> bool:
    """Return whether all words are ours, none a name's, and no sentence begins as an order."""
    allowed = _VOCABULARY | {word.lower() for word in _WORD.findall(question.facts_text)}
    plain = _CONTRACTION.sub("", wording)
    for found in _WORD.finditer(plain):
        word, before = found[0], plain[: found.start()].rstrip(" '\"“”’(")
        begins = not before or before[-1] in ".!?;:"
        if word.lower() not in allowed or (begins and word.lower() in _ORDER_VERBS):
            return False
        if not (word.islower() or word in _CAPITALIZED or (begins and word.istitle())):
            return False
    return True


def _has_only_given_numbers(wording: str, question: RationaleQuery) -> bool:
    given = {Decimal(number) for number in _NUMBER.findall(question.facts_text)}
    numbers = _NUMBER.findall(wording)
    return all(number.count(".") < 2 and "," not in number for number in numbers) and given >= {
        Decimal(number) for number in numbers
    }


INSTRUCTIONS = f"""\
You tell a salesperson why a sales lead has its score. You are given the score, its features, each
between 0 (speaks against the lead) and 1 (speaks for it) with its weight, and a plain sentence of
ours. Features: industry, whether it is one that is wanted; size, whether the number of employees
fits (0.50: not known); reachable, whether an address works; decision maker, whether somebody who
decides is known; presence, how much its site says; momentum, whether it hires or grows.
Write one or two short English sentences, at most {MAX_LENGTH} characters together: first what
speaks most for the lead, then what speaks most against it. Say nothing that does not follow from
what you are given. Better no numbers; any you write must be among those given, written alike. Plain
words only: no lists, markup, links, percentages, numbers in letters, names or advice."""

SCHEMA: Json = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}},
    "required": ["rationale"],
    "additionalProperties": False,
}

SCHEMA_NAME = "lead_rationale"


def parse_rationale(text: str, question: RationaleQuery) -> RationaleAnswer:
    """Return what is acceptable of a model's answer, or a note why not. Never raises."""
    try:
        data = parse_json(text[:MAX_ANSWER_LENGTH].encode("utf-8", "replace"))
    except PermanentError:
        return RationaleAnswer(note="the model's answer cannot be read")
    return validate_rewording(get_text(data, "rationale", longest=MAX_READ_LENGTH), question)


MAX_OUTPUT_TOKENS = 600  # two sentences, and the reasoning before them

HIGH_EFFORTS = ("medium", "high")  # these would use up the tokens of the answer


class OpenAiRationales:
    """Reword rationales with the model that extracts facts, at low effort."""

    name = NAME

    def __init__(
        self, vendor: VendorApi, *, model: str, effort: str = "low", prices: Prices | None = None
    ) -> None:
        self._model = OpenAiModel(
            vendor,
            model=model,
            max_output_tokens=MAX_OUTPUT_TOKENS,
            effort="low" if effort in HIGH_EFFORTS else effort,
            prices=prices,
        )

    def price(self, question: RationaleQuery) -> Mapping[str, int]:
        return self._model.price(_build_prompt(question))

    async def ask(self, question: RationaleQuery, *, key: str) -> Paid[RationaleAnswer]:
        done = await self._model.ask(_build_prompt(question))
        return Paid(answer=_to_answer(done.answer, question), cost=done.cost, quota=done.quota)

    async def check(self) -> Health:
        return await self._model.check()


def _build_prompt(question: RationaleQuery) -> Prompt:
    return Prompt(
        instructions=INSTRUCTIONS, data=question.facts_text, schema_name=SCHEMA_NAME, schema=SCHEMA
    )


def _to_answer(completion: Completion, question: RationaleQuery) -> RationaleAnswer:
    if completion.empty_reason:
        return RationaleAnswer(note=completion.empty_reason)
    return parse_rationale(completion.text, question)


def build_rationales(tenant: TenantContext) -> OpenAiRationales | None:
    """Build the model that rewords rationales; None for a tenant that did not ask for one.

    Raises ConfigError when OpenAI is off.
    """
    api, section = tenant.get(build_api), tenant.settings.get_vendor(OpenAiSettings)
    if not tenant.settings.score.llm_rationale:
        return None
    prices = build_prices(tenant.settings)
    return OpenAiRationales(api, model=section.model, effort=section.effort, prices=prices)
