"""OpenAI: facts made of pages by a model, through the Responses API with a strict schema.

How a model is asked and what that costs is `openai_responses`' business; what is asked about pages
and what may be believed is `llm_extraction`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from stoker.connectors.billing import usable_key
from stoker.connectors.http import Http
from stoker.connectors.llm_extraction import SCHEMA, SCHEMA_NAME, prompt, read_answer
from stoker.connectors.openai_responses import NAME, Prices, Responses, Said, Wanted
from stoker.connectors.vendor import Answered, Failure, Vendor
from stoker.core.extracting import Extraction
from stoker.core.findings import Extracted
from stoker.core.picking import object_in, text_in
from stoker.core.quotas import duration
from stoker.core.waiting import LONGEST_WAIT, retry_after
from stoker.errors import ConfigError, PermanentError, StokerError, TransientError
from stoker.sources import Done, Health

__all__ = ["BASE_URL", "FAILURES", "NAME", "OpenAiExtraction", "Prices", "openai"]

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
