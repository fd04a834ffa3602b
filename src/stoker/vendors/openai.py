"""OpenAI: a model at the Responses API, asked for an answer of a strict schema.

Knows the most tokens a call can use, what the vendor counted, and what an answer holds. No tools,
nothing stored at the vendor, one try. A text is estimated at one token per three letters of plain
words and one per byte of anything else, so that no page exceeds its reservation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING
from urllib.parse import quote

from stoker.accounts.facts import ExtractedFacts
from stoker.base.errors import (
    ConfigError,
    PermanentError,
    StokerError,
    TransientError,
    UncertainError,
)
from stoker.base.jsontools import get_count, get_line, get_list, get_object, get_text
from stoker.base.process_pool import Aborted, ProcessPool
from stoker.base.retry import MAX_WAIT, Quota, parse_duration, parse_quota, parse_retry_after
from stoker.base.types import Json
from stoker.budgets.model import Health, Paid
from stoker.context import TenantContext
from stoker.http.api_client import (
    StatusMeaning,
    VendorApi,
    VendorResponse,
    check_api_key,
    check_health,
)
from stoker.http.client import HttpClient, build_http_client
from stoker.vendors.extraction import (
    MAX_ANSWER_LENGTH,
    ExtractionQuery,
    Prompt,
    build_extraction_prompt,
    parse_model_answer,
)
from stoker.vendors.table import EFFORTS, OpenAiSettings, get_key

if TYPE_CHECKING:
    from stoker.settings import Settings

BYTES_PER_TOKEN = 3

# Words as people write them, with the one space before them that belongs to their first token.
_PLAIN_WORD = re.compile(r" ?(?:[A-Z]?[a-z]{1,24}+|[A-Z]{1,24}+)(?![A-Za-z])")

_MESSAGE_OVERHEAD = 50  # tokens for what the vendor puts around each of our texts


def estimate_max_tokens(*texts: str) -> int:
    """Return a number of tokens that these texts do not exceed, each sent as one message."""
    return sum(_estimate_text(text) + _MESSAGE_OVERHEAD for text in texts)


def estimate_max_schema_tokens(schema: Json) -> int:
    """Return the same for a schema: models read it as text, in a form we do not see."""
    return 2 * estimate_max_tokens(json.dumps(schema))


def _estimate_text(text: str) -> int:
    plain = strange = 0
    end = 0
    for word in _PLAIN_WORD.finditer(text):
        strange += _count_bytes(text[end : word.start()])
        plain += -(-(word.end() - word.start()) // BYTES_PER_TOKEN)
        end = word.end()
    return plain + strange + _count_bytes(text[end:])


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


NAME = "openai"


MAX_TOKENS = 10_000_000  # for one call; a larger count is not believed

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
                raise ConfigError("a token price must be 0 USD or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A model's answer: a text, a refusal, or neither."""

    text: str = ""
    is_refused: bool = False
    is_truncated: bool = False

    @property
    def has_answer(self) -> bool:
        """Whether there is a text or a refusal."""
        return bool(self.text) or self.is_refused

    @property
    def empty_reason(self) -> str:
        """Why there is nothing to read; empty when there is."""
        if self.is_refused:
            return "the model declined to answer"
        if self.text:
            return ""
        why = "was cut off before its first word" if self.is_truncated else "is empty"
        return f"the model's answer {why}"


class CentTotal:
    """Adds up what calls cost before it rounds: most of them cost less than a cent.

    What is charged altogether is the sum rounded up, so never less than was spent, and for one call
    never more than that call rounded up, which is what is reserved for it. A new process begins at
    0, and so charges less than a cent too much.
    """

    def __init__(self) -> None:
        self._cents = Decimal(0)

    def add(self, cents: Decimal) -> int:
        """Return the whole cents to charge for a call of this price."""
        before = _round_up(self._cents)
        self._cents += cents
        return _round_up(self._cents) - before


def _round_up(cents: Decimal) -> int:
    return int(cents.to_integral_value(rounding=ROUND_CEILING))


class OpenAiModel:
    """Call one model. With prices it reserves money too, and charges what calls add up to."""

    def __init__(
        self,
        vendor: VendorApi,
        *,
        model: str,
        max_output_tokens: int = OpenAiSettings.max_output_tokens,
        effort: str = OpenAiSettings.effort,
        prices: Prices | None = None,
    ) -> None:
        if not _MODEL.fullmatch(model):
            raise ConfigError(f"{model!r} is not a model name; e.g. gpt-5.6-luna")
        if effort not in EFFORTS:
            raise ConfigError(f"the effort is one of {', '.join(EFFORTS)}, not {effort!r}")
        if not 16 <= max_output_tokens <= 200_000:
            raise ConfigError("the maximum number of tokens in an answer must be 16 to 200000")
        self._vendor = vendor
        self._model, self._effort = model, effort
        self._most_out = max_output_tokens
        self._prices = prices
        self._spent = CentTotal()

    def price(self, prompt: Prompt) -> Mapping[str, int]:
        """Return the most that one call can use."""
        most_in = estimate_max_tokens(
            prompt.instructions, prompt.data
        ) + estimate_max_schema_tokens(prompt.schema)
        return self._compute_cost(_round_up, input=most_in, cached=0, output=self._most_out)

    async def ask(self, prompt: Prompt) -> Paid[Completion]:
        """Ask once. Raises what a connector raises."""
        answered = await self._vendor.post("/v1/responses", self._build_body(prompt))
        completion = _parse_completion(answered.data)
        return Paid(
            answer=completion,
            cost=self._compute_billed(answered.data, prompt, has_answer=completion.has_answer),
            quota=_parse_quota(answered.headers),
        )

    async def check(self) -> Health:
        """Check at no cost whether the vendor has the model for us. Never raises."""
        return await check_health(self._check_model)

    def _build_body(self, prompt: Prompt) -> Json:
        body: dict[str, Json] = {
            "model": self._model,
            "instructions": prompt.instructions,
            "input": [{"role": "user", "content": prompt.data}],
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": prompt.schema_name,
                    "strict": True,
                    "schema": prompt.schema,
                }
            },
            "max_output_tokens": self._most_out,
            "reasoning": {"effort": self._effort},
            "store": False,
        }
        if self._effort == "none":
            body["temperature"] = 0  # reasoning models accept none
        return body

    def _compute_billed(self, data: Json, prompt: Prompt, *, has_answer: bool) -> Mapping[str, int]:
        usage = get_object(data, "usage")
        input_tokens, output_tokens = (
            get_count(usage, "input_tokens"),
            get_count(usage, "output_tokens"),
        )
        if input_tokens is None or output_tokens is None:
            if not has_answer:
                raise UncertainError(f"{NAME} returned an empty answer; it may have been charged")
            return self.price(prompt)  # without a count, the most it can have cost
        if input_tokens + output_tokens > MAX_TOKENS:
            raise UncertainError(f"{NAME} says it charged more than {MAX_TOKENS} tokens at once")
        cached = get_count(get_object(usage, "input_tokens_details"), "cached_tokens") or 0
        return self._compute_cost(
            self._spent.add,
            input=input_tokens,
            cached=min(cached, input_tokens),
            output=output_tokens,
        )

    def _compute_cost(
        self,
        round_cents: Callable[[Decimal], int],
        *,
        input: int,  # noqa: A002 - the vendor's word
        cached: int,
        output: int,
    ) -> Mapping[str, int]:
        cost = {"calls": 1, "tokens": input + output}
        if self._prices is not None:
            dollars = (
                (input - cached) * self._prices.input
                + cached * self._prices.cached
                + output * self._prices.output
            ) / _MILLION
            cost["money:USD"] = round_cents(dollars * 100)
        return cost

    async def _check_model(self) -> str:
        await self._vendor.get(f"/v1/models/{quote(self._model, safe='')}")
        return f"it takes our key and has {self._model}"


def _parse_completion(data: Json) -> Completion:
    texts, refused = [], False
    for item in get_list(data, "output", most=100):
        for part in get_list(item, "content", most=100):
            kind = get_line(part, "type")
            refused = refused or kind == "refusal"
            if kind == "output_text":
                texts.append(get_text(part, "text", longest=400_000))
    return Completion(
        text="".join(texts),
        is_refused=refused,
        is_truncated=get_line(data, "status") == "incomplete",
    )


def _parse_quota(headers: Mapping[str, str]) -> Quota | None:
    lasts = parse_duration(headers.get("x-ratelimit-reset-requests", ""))
    return parse_quota(headers.get("x-ratelimit-remaining-requests", ""), lasts=lasts)


DEADLINE = timedelta(seconds=120)

STATUSES: Mapping[int, StatusMeaning] = {
    400: StatusMeaning(PermanentError, "does not take this question"),
    401: StatusMeaning(ConfigError, "refuses our key; check keys.openai in the settings"),
    403: StatusMeaning(ConfigError, "does not serve our account or country; check the account"),
    404: StatusMeaning(ConfigError, "has nothing at this address; check its base address"),
    409: StatusMeaning(TransientError, "is busy with the same; it asks us to come back later"),
}

_ERROR_CODES: Mapping[str, StatusMeaning] = {
    "insufficient_quota": StatusMeaning(ConfigError, "says the quota is used up; add credit there"),
    "model_not_found": StatusMeaning(
        ConfigError, "does not have this model for us; choose another"
    ),
    "invalid_json_schema": StatusMeaning(ConfigError, "does not take our schema with this model"),
    "unsupported_parameter": StatusMeaning(
        ConfigError, "does not take our way of asking; try a model"
    ),
    "unsupported_value": StatusMeaning(ConfigError, "does not take our effort with this model"),
}


def build_openai_api(
    http: HttpClient,
    *,
    key: str,
    base_url: str = OpenAiSettings.base_url,
    deadline: timedelta = DEADLINE,
) -> VendorApi:
    """Return OpenAI's API with this key. Raises ConfigError for an unusable key."""
    return VendorApi(
        http,
        name=NAME,
        base_url=base_url,
        headers={"Authorization": f"Bearer {check_api_key(NAME, key)}"},
        deadline=deadline,
        failures=STATUSES,
        judge=_classify_error,
    )


class OpenAiExtraction:
    """Extract facts from pages with a model."""

    name = NAME

    def __init__(self, model: OpenAiModel, *, pool: ProcessPool | None = None) -> None:
        self._model = model
        self._pool = pool or ProcessPool()

    def price(self, question: ExtractionQuery) -> Mapping[str, int]:
        return self._model.price(build_extraction_prompt(question))

    async def ask(self, question: ExtractionQuery, *, key: str) -> Paid[ExtractedFacts]:
        done = await self._model.ask(build_extraction_prompt(question))
        return Paid(
            answer=await self._check_answer(done.answer, question), cost=done.cost, quota=done.quota
        )

    async def check(self) -> Health:
        return await self._model.check()

    async def _check_answer(
        self, completion: Completion, question: ExtractionQuery
    ) -> ExtractedFacts:
        """Check claims in a worker: strangers wrote the pages, and so perhaps the claims."""
        if completion.empty_reason:
            return ExtractedFacts(facts=(), note=completion.empty_reason)
        facts = await self._pool.run(
            parse_model_answer,
            completion.text[:MAX_ANSWER_LENGTH],
            question,
            cut=completion.is_truncated,
        )
        if isinstance(facts, Aborted):
            return ExtractedFacts(facts=(), note=f"the model's answer is left out: {facts.reason}")
        return facts


def _classify_error(answered: VendorResponse) -> StokerError | None:
    error = get_object(answered.data, "error")
    for name in ("code", "type"):
        known = _ERROR_CODES.get(get_line(error, name))
        if known is not None:
            return known.kind(f"{NAME} {known.text} ({answered.status})")
    if answered.status == 429:
        return TransientError(
            f"{NAME} asks us to come back later (429)",
            retry_after=_parse_retry_after(answered.headers),
        )
    return None


def _parse_retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return how long the vendor asks us to wait: by Retry-After, or until its limits reset."""
    if (wait := parse_retry_after(headers)) is not None:
        return wait
    resets = [
        parse_duration(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{what}", "").strip() in ("0", "-1")
    ]
    return min(max(resets), MAX_WAIT) if resets and max(resets) > timedelta(0) else None


def build_extractor(tenant: TenantContext) -> OpenAiExtraction:
    """Build the model that extracts facts. Raises ConfigError when OpenAI is off."""
    section = tenant.settings.get_vendor(OpenAiSettings)
    model = OpenAiModel(
        tenant.get(build_api),
        model=section.model,
        effort=section.effort,
        max_output_tokens=section.max_output_tokens,
        prices=build_prices(tenant.settings),
    )
    return OpenAiExtraction(model)


def build_api(tenant: TenantContext) -> VendorApi:
    """Build OpenAI's API with a tenant's key. Raises ConfigError when OpenAI is off."""
    return build_openai_api(
        tenant.process.get(build_http_client),
        key=get_key(tenant, NAME),
        base_url=tenant.settings.get_vendor(OpenAiSettings).base_url,
    )


def build_prices(own: Settings) -> Prices | None:
    """Return what tokens cost; None where the cap on money is in another currency."""
    if own.caps.currency != "USD":
        return None
    section = own.get_vendor(OpenAiSettings)
    prices = (section.input_price, section.cached_price, section.output_price)
    read, cached, written = (Decimal(str(price)) for price in prices)
    return Prices(input=read, cached=cached, output=written)
