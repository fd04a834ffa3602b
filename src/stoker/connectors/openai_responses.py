"""One model at OpenAI's Responses API, asked for an answer of a strict schema.

Knows the most a call can use, what the vendor counted, and what an answer holds. No tools, nothing
kept there, one try. What is asked for and what may be believed is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from urllib.parse import quote

from stoker.connectors.billing import healthy
from stoker.connectors.vendor import Vendor
from stoker.core.model import Json
from stoker.core.picking import list_in, object_in, text_in, whole_in, words_in
from stoker.core.quotas import Quota, duration, quota
from stoker.core.token_estimates import most_schema_tokens, most_tokens
from stoker.errors import ConfigError, UncertainError
from stoker.sources import Done, Health

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
