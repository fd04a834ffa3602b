"""One model at OpenAI's Responses API, asked for an answer of a strict schema.

Knows the most a call can use, what the vendor counted, and what an answer holds. No tools, nothing
kept there, one try. What is asked for and what may be believed is not known here.

How many tokens a text can be at most, before anybody counts them: what a call is promised for.

No vocabulary is needed or asked for. Plain words take a token for three letters at most; whatever
is not plain words is taken for a token a byte, so that no page can be longer than its promise.

OpenAI: facts made of pages by a model, through the Responses API with a strict schema.

How a model is asked and what that costs is `openai_responses`' business; what is asked about pages
and what may be believed is `llm_extraction`'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from urllib.parse import quote

from stoker.accounts.facts import Extracted
from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import list_in, object_in, text_in, whole_in, words_in
from stoker.base.retry import LONGEST_WAIT, Quota, duration, quota, retry_after
from stoker.base.types import Json
from stoker.budgets.model import Done, Health
from stoker.http.api_client import Answered, Failure, Vendor, healthy, usable_key
from stoker.http.client import Http
from stoker.vendors.extraction import Extraction
from stoker.vendors.llm_facts import SCHEMA, SCHEMA_NAME, prompt, read_answer

BYTES_A_TOKEN = 3

# Words as people write them, with the one space before them that belongs to their first token.
_PLAIN = re.compile(r" ?(?:[A-Z]?[a-z]{1,24}|[A-Z]{1,24})(?![A-Za-z])")

_AROUND = 50  # tokens for what the vendor puts around each of our texts


def most_tokens(*texts: str) -> int:
    """Return a number of tokens that these texts do not exceed, each sent as one message."""
    return sum(_most(text) + _AROUND for text in texts)


def most_schema_tokens(schema: Json) -> int:
    """Return the same for a schema: models read it as text, in a form we do not see."""
    return 2 * most_tokens(json.dumps(schema))


def _most(text: str) -> int:
    plain = strange = 0
    end = 0
    for word in _PLAIN.finditer(text):
        strange += _bytes(text[end : word.start()])
        plain += -(-(word.end() - word.start()) // BYTES_A_TOKEN)
        end = word.end()
    return plain + strange + _bytes(text[end:])


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


NAME = "openai"

EFFORTS = ("none", "minimal", "low", "medium", "high")

MOST_TOKENS = 10_000_000  # for one call; who says more has not said what it charged

_MILLION = 1_000_000

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in US dollars."""

    input: Decimal
    cached: Decimal
    output: Decimal

    def __post_init__(self) -> None:
        for price in (self.input, self.cached, self.output):
            if not price.is_finite() or price < 0:
                raise ConfigError("a price of tokens is an amount of dollars from 0 on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a model reads, and the schema its answer is to have."""

    instructions: str
    data: str
    schema_name: str
    schema: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What an answer holds: a text, a refusal, or why there is neither."""

    text: str = ""
    refused: bool = False
    cut: bool = False

    @property
    def answered(self) -> bool:
        """Whether the model said anything."""
        return bool(self.text) or self.refused

    @property
    def without_words(self) -> str:
        """Why there is nothing to read; empty when there is."""
        if self.refused:
            return "the model declined to answer"
        if self.text:
            return ""
        why = "was cut off before its first word" if self.cut else "is empty"
        return f"the model's answer {why}"


class Responses:
    """A model. With prices it promises money too, rounded up to whole cents."""

    def __init__(
        self,
        vendor: Vendor,
        *,
        model: str,
        max_output_tokens: int = 4_000,
        effort: str = "low",
        prices: Prices | None = None,
    ) -> None:
        if not _MODEL.fullmatch(model):
            raise ConfigError(f"{model!r} is no name of a model, e.g. gpt-5.6-luna")
        if effort not in EFFORTS:
            raise ConfigError(f"the effort is one of {', '.join(EFFORTS)}, not {effort!r}")
        if not 16 <= max_output_tokens <= 200_000:
            raise ConfigError("an answer has 16 to 200000 tokens at most")
        self._vendor = vendor
        self._model, self._effort = model, effort
        self._most_out = max_output_tokens
        self._prices = prices

    def price(self, wanted: Wanted) -> Mapping[str, int]:
        """Return the most that one call can use."""
        most_in = most_tokens(wanted.instructions, wanted.data) + most_schema_tokens(wanted.schema)
        return self._cost(input=most_in, cached=0, output=self._most_out)

    async def ask(self, wanted: Wanted) -> Done[Said]:
        """Ask once. Raises what a connector raises."""
        answered = await self._vendor.post("/v1/responses", self._body(wanted))
        said = _said(answered.data)
        return Done(
            answer=said,
            cost=self._told(answered.data, wanted, answered=said.answered),
            quota=_quota(answered.headers),
        )

    async def check(self) -> Health:
        """Find out at no cost whether the vendor has the model for us. Never raises."""
        return await healthy(self._look)

    def _body(self, wanted: Wanted) -> Json:
        body: dict[str, Json] = {
            "model": self._model,
            "instructions": wanted.instructions,
            "input": [{"role": "user", "content": wanted.data}],
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": wanted.schema_name,
                    "strict": True,
                    "schema": wanted.schema,
                }
            },
            "max_output_tokens": self._most_out,
            "reasoning": {"effort": self._effort},
            "store": False,
        }
        if self._effort == "none":
            body["temperature"] = 0  # models that think first do not take one
        return body

    def _told(self, data: Json, wanted: Wanted, *, answered: bool) -> Mapping[str, int]:
        usage = object_in(data, "usage")
        told_in, told_out = whole_in(usage, "input_tokens"), whole_in(usage, "output_tokens")
        if told_in is None or told_out is None:
            if not answered:
                raise UncertainError(f"{NAME} answered with nothing; it may have been charged")
            return self.price(wanted)  # nothing is counted too low
        if told_in + told_out > MOST_TOKENS:
            raise UncertainError(f"{NAME} says it charged more than {MOST_TOKENS} tokens at once")
        cached = whole_in(object_in(usage, "input_tokens_details"), "cached_tokens") or 0
        return self._cost(input=told_in, cached=min(cached, told_in), output=told_out)

    def _cost(self, *, input: int, cached: int, output: int) -> Mapping[str, int]:  # noqa: A002 - the vendor's word
        cost = {"calls": 1, "tokens": input + output}
        if self._prices is not None:
            dollars = (
                (input - cached) * self._prices.input
                + cached * self._prices.cached
                + output * self._prices.output
            ) / _MILLION
            cost["money:USD"] = int((dollars * 100).to_integral_value(rounding=ROUND_CEILING))
        return cost

    async def _look(self) -> str:
        await self._vendor.get(f"/v1/models/{quote(self._model, safe='')}")
        return f"it takes our key and has {self._model}"


def _said(data: Json) -> Said:
    texts, refused = [], False
    for item in list_in(data, "output", most=100):
        for part in list_in(item, "content", most=100):
            kind = text_in(part, "type")
            refused = refused or kind == "refusal"
            if kind == "output_text":
                texts.append(words_in(part, "text", longest=400_000))
    return Said(text="".join(texts), refused=refused, cut=text_in(data, "status") == "incomplete")


def _quota(headers: Mapping[str, str]) -> Quota | None:
    lasts = duration(headers.get("x-ratelimit-reset-requests", ""))
    return quota(headers.get("x-ratelimit-remaining-requests", ""), lasts=lasts)


BASE_URL = "https://api.openai.com"

DEADLINE = timedelta(seconds=120)

FAILURES: Mapping[int, Failure] = {
    400: Failure(PermanentError, "does not take this question"),
    401: Failure(ConfigError, "refuses our key; check keys.openai in the settings"),
    403: Failure(ConfigError, "does not serve our account or country; look at the account"),
    404: Failure(ConfigError, "has nothing at this address; check its base address"),
    409: Failure(TransientError, "is busy with the same; it asks us to come back later"),
}

_CODES: Mapping[str, Failure] = {
    "insufficient_quota": Failure(ConfigError, "says the quota is used up; add credit there"),
    "model_not_found": Failure(ConfigError, "does not have this model for us; choose another"),
    "invalid_json_schema": Failure(ConfigError, "does not take our schema with this model"),
    "unsupported_parameter": Failure(ConfigError, "does not take our way of asking; try a model"),
    "unsupported_value": Failure(ConfigError, "does not take our effort with this model"),
}


def openai(
    http: Http, *, key: str, base_url: str = BASE_URL, deadline: timedelta = DEADLINE
) -> Vendor:
    """Return OpenAI's API, asked with this key. Raises ConfigError for a key that is none."""
    return Vendor(
        http,
        name=NAME,
        base_url=base_url,
        headers={"Authorization": f"Bearer {usable_key(NAME, key)}"},
        deadline=deadline,
        failures=FAILURES,
        judge=_judge,
    )


class OpenAiExtraction:
    """Makes facts of pages. With prices it promises money too, rounded up to whole cents."""

    name = NAME

    def __init__(
        self,
        vendor: Vendor,
        *,
        model: str,
        max_output_tokens: int = 4_000,
        effort: str = "low",
        prices: Prices | None = None,
    ) -> None:
        self._model = Responses(
            vendor,
            model=model,
            max_output_tokens=max_output_tokens,
            effort=effort,
            prices=prices,
        )

    def price(self, question: Extraction) -> Mapping[str, int]:
        return self._model.price(_wanted(question))

    async def ask(self, question: Extraction, *, key: str) -> Done[Extracted]:
        done = await self._model.ask(_wanted(question))
        return Done(answer=_answer(done.answer, question), cost=done.cost, quota=done.quota)

    async def check(self) -> Health:
        return await self._model.check()


def _wanted(question: Extraction) -> Wanted:
    asked = prompt(question)
    return Wanted(
        instructions=asked.instructions, data=asked.data, schema_name=SCHEMA_NAME, schema=SCHEMA
    )


def _answer(said: Said, question: Extraction) -> Extracted:
    if said.without_words:
        return Extracted(findings=(), note=said.without_words)
    return read_answer(said.text, question, cut=said.cut)


def _judge(answered: Answered) -> StokerError | None:
    error = object_in(answered.data, "error")
    for name in ("code", "type"):
        known = _CODES.get(text_in(error, name))
        if known is not None:
            return known.kind(f"{NAME} {known.because} ({answered.status})")
    if answered.status == 429:
        return TransientError(
            f"{NAME} asks us to come back later (429)", retry_after=_wait(answered.headers)
        )
    return None


def _wait(headers: Mapping[str, str]) -> timedelta | None:
    """Return how long the vendor wants us to wait: said plainly, or by when its limits reset."""
    if (said := retry_after(headers)) is not None:
        return said
    resets = [
        duration(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}", "").strip() in ("0", "-1")
    ]
    return min(max(resets), LONGEST_WAIT) if resets and max(resets) > timedelta(0) else None
