"""openai.test: the Responses API with structured output, usage, refusals, limits and models.

The model behind it is a reader of patterns (`model_reading`), or, dialled to obey, the worst one
there can be. Tokens are counted as bytes divided by four; they are what is charged.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256

from stoker.core.model import Json
from stoker.sandbox.billing import Till, bearer, good_key
from stoker.sandbox.dialling import dialled
from stoker.sandbox.dials import Dials
from stoker.sandbox.model_filling import filled
from stoker.sandbox.model_obeying import embellished, misled
from stoker.sandbox.model_reading import facts_of
from stoker.sandbox.model_wording import wording_of
from stoker.sandbox.openai_requests import Request, WrongRequestError, read_request
from stoker.sandbox.openai_responses import Written, response_of
from stoker.sandbox.serving import Asked, Handler, Told, json_told
from stoker.sandbox.tallies import Tallies
from stoker.sandbox.world import World

NAME = "openai"
MODELS = ("gpt-5.6-luna", "gpt-6-luna")
_REASONING = {"none": 0, "minimal": 0, "low": 64, "medium": 256, "high": 1024}
_CACHED_FROM = 1024  # tokens; shorter prompts are not remembered
_WORDS: Mapping[int, tuple[str, str, str]] = {
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", "unsupported_country", "Country not supported."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    500: ("server_error", "server_error", "The server had an error processing your request."),
    503: ("server_error", "overloaded", "The engine is currently overloaded."),
}
_NO_QUOTA = (
    "insufficient_quota",
    "insufficient_quota",
    "You exceeded your current quota, please check your plan and billing details.",
)


def openai(world: World, dials: Dials, tallies: Tallies) -> Handler:
    """Return the vendor's handler."""
    vendor = _OpenAi(world, dials, tallies)
    return dialled(
        NAME, vendor.answer, seed=world.seed, dials=dials, tallies=tallies, refused=vendor.refused
    )


class _OpenAi:
    def __init__(self, world: World, dials: Dials, tallies: Tallies) -> None:
        self._world, self._dials, self._tallies = world, dials, tallies
        self._till = Till(NAME, dials=dials, tallies=tallies, unit="tokens")
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def refused(self, status: int) -> Told:
        """Refuse in the vendor's words."""
        kind, code, message = _WORDS.get(status, ("invalid_request_error", "", "Bad request."))
        return self._error(status, kind, code, message)

    def answer(self, asked: Asked) -> Told:
        """Answer one request."""
        key = bearer(asked.headers.get("authorization", ""))
        if not good_key(key, prefix="sk-"):
            return self.refused(401)
        if asked.method == "GET" and asked.path.startswith("/v1/models"):
            return self._models(asked.path.removeprefix("/v1/models").strip("/"))
        if (asked.method, asked.path) != ("POST", "/v1/responses"):
            said = f"Invalid URL ({asked.method} {asked.path})"
            return self._error(404, "invalid_request_error", "", said)
        try:
            request = read_request(asked)
        except WrongRequestError as wrong:
            return self._error(400, "invalid_request_error", wrong.code, str(wrong), wrong.param)
        if not request.model.startswith("gpt-"):
            return self._no_model(request.model)
        if not self._till.has(key, 1):
            return self._error(429, *_NO_QUOTA)
        return json_told(self._responded(asked, request, key), headers=self._headers(key))

    def _responded(self, asked: Asked, request: Request, key: str) -> Json:
        reasoning = _REASONING.get(request.effort, 256)
        room = request.max_output_tokens
        refusal = self._world.draws("refusal", asked.body.hex()).chance(
            self._dials.of(NAME).refuses
        )
        text = "I'm sorry, but I can't help with that." if refusal else self._text(request)
        whole = tokens(text)
        cut = room is not None and reasoning + whole > room
        if cut and room is not None:
            reasoning = min(reasoning, room)
            text = text.encode()[: 4 * (room - reasoning)].decode("utf-8", "ignore")
        written = Written(
            text=text,
            refusal=refusal,
            cut=cut,
            reasoning=self._till.costs(reasoning),
            input=self._till.costs(tokens(request.prompt) + 20),
            output=self._till.costs(reasoning + tokens(text)),
            cached=self._cached(request.prompt),
        )
        for unit, amount in (
            ("tokens", written.input + written.output),
            ("input_tokens", written.input),
            ("output_tokens", written.output),
            ("cached_tokens", written.cached),
        ):
            self._tallies.charge(NAME, amount, unit=unit, key=key)
        return response_of(request, written, digest=sha256(asked.body).hexdigest())

    def _text(self, request: Request) -> str:
        facts = {**facts_of(request.data), **wording_of(request.data)}
        obeys = self._dials.of(NAME).obeys
        believed = misled(facts, request.data, request.prompt) if obeys else facts
        if request.schema is None:
            said = next(iter(believed.get("about", ())), None)
            return said.value if said else "There is little to say about this text."
        answer = filled(request.schema, believed)
        if obeys:
            answer = embellished(answer, request.data, request.prompt)
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))

    def _cached(self, prompt: str) -> int:
        digest = sha256(prompt.encode("utf-8", "replace")).digest()
        known = digest in self._seen
        self._seen[digest] = None
        if len(self._seen) > 20_000:
            self._seen.popitem(last=False)
        many = tokens(prompt)
        return many // 128 * 128 if known and many >= _CACHED_FROM else 0

    def _models(self, name: str) -> Told:
        described: list[Json] = [
            {"id": each, "object": "model", "created": 1_790_000_000, "owned_by": "system"}
            for each in MODELS
        ]
        if not name:
            return json_told({"object": "list", "data": described})
        if name not in MODELS:
            return self._no_model(name)
        return json_told(described[MODELS.index(name)])

    def _no_model(self, name: str) -> Told:
        said = f"The model `{name[:100]}` does not exist or you do not have access to it."
        return self._error(404, "invalid_request_error", "model_not_found", said)

    def _error(
        self, status: int, kind: str, code: str, message: str, param: str | None = None
    ) -> Told:
        error: Json = {"message": message, "type": kind, "param": param, "code": code or None}
        return json_told({"error": error}, status=status, headers=self._headers(""))

    def _headers(self, key: str) -> dict[str, str]:
        dial = self._dials.of(NAME)
        calls = dial.calls if dial.calls > 0 else 5_000
        left = max(0, 2_000_000 - self._till.used(key) % 2_000_000)
        return {
            "x-ratelimit-limit-requests": str(calls),
            "x-ratelimit-remaining-requests": str(calls - 1),
            "x-ratelimit-reset-requests": "12ms",
            "x-ratelimit-limit-tokens": "2000000",
            "x-ratelimit-remaining-tokens": str(left),
            "x-ratelimit-reset-tokens": "6ms",
        }


def tokens(text: str) -> int:
    """Return how many tokens a text is counted as."""
    return -(-len(text.encode("utf-8", "replace")) // 4)
