"""openai.test: the Responses API with structured output, usage, refusals, limits and models.

Requests are read strictly: a strict schema requires every property and allows no others. The model
extracts facts by patterns, or, when set to obey, follows every injected order. Tokens are bytes
divided by four, and are what is charged.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from stoker.base.types import Json
from stoker.sandbox.billing import Credits, is_valid_key, parse_bearer
from stoker.sandbox.faults import FaultSettingsTable, wrap_with_faults
from stoker.sandbox.http import Handler, Request, Response, to_json_response
from stoker.sandbox.meter import Meter
from stoker.sandbox.vendors.openai_model import (
    add_unasked,
    apply_orders,
    extract_facts,
    file_anything,
    fill_schema,
    reword_rationale,
)
from stoker.sandbox.world.companies import World

MAX_SCHEMA_DEPTH = 40


class WrongRequestError(Exception):
    """A request that gets status 400."""

    def __init__(self, message: str, *, param: str | None = None, code: str = "") -> None:
        super().__init__(message)
        self.param, self.code = param, code


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    model: str
    prompt: str  # everything the model reads, instructions included
    data: str  # what users sent
    instructions: str | None
    schema: Mapping[str, Any] | None
    format: Mapping[str, Any]
    max_output_tokens: int | None
    effort: str
    temperature: float | None


def read_request(http_request: Request) -> ModelRequest:
    """Return what a request says, or say what is wrong with it."""
    try:
        body = http_request.parse_json()
    except ValueError as error:
        raise WrongRequestError("We could not parse the JSON body of your request.") from error
    if not isinstance(body, Mapping):
        raise WrongRequestError("The body must be an object.")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise WrongRequestError("Missing required parameter: 'model'.", param="model")
    most = body.get("max_output_tokens")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 16):
        raise WrongRequestError(
            "Invalid 'max_output_tokens': expected a whole number of at least 16.",
            param="max_output_tokens",
            code="integer_below_min_value",
        )
    turns = list(_iterate_messages(body.get("input")))
    if not turns:
        raise WrongRequestError("Missing required parameter: 'input'.", param="input")
    instructions = body.get("instructions")
    form = _parse_format(body)
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    temperature = body.get("temperature")
    instruction_list = [instructions] if isinstance(instructions, str) else []
    return ModelRequest(
        model=model,
        prompt="\n".join([*instruction_list, *(text for _, text in turns)]),
        data="\n".join(text for role, text in turns if role == "user"),
        instructions=instructions if isinstance(instructions, str) else None,
        schema=form.get("schema"),
        format=form,
        max_output_tokens=most,
        effort=effort if isinstance(effort, str) else "medium",
        temperature=temperature if isinstance(temperature, int | float) else None,
    )


def _iterate_messages(given: Any) -> Iterator[tuple[str, str]]:
    if isinstance(given, str):
        yield "user", given
    for turn in given if isinstance(given, list) else ():
        if not isinstance(turn, Mapping):
            raise WrongRequestError("Invalid type for 'input[0]'.", param="input")
        role, content = str(turn.get("role", "user")), turn.get("content")
        if isinstance(content, str):
            yield role, content
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                yield role, part["text"]


def _parse_format(body: Mapping[str, Any]) -> Mapping[str, Any]:
    text = body.get("text")
    form = text.get("format") if isinstance(text, Mapping) else None
    if form is None:
        return {"type": "text"}
    if not isinstance(form, Mapping) or form.get("type") not in ("text", "json_schema"):
        raise WrongRequestError("Invalid value: 'text.format.type'.", param="text.format.type")
    if form["type"] == "text":
        return form
    name, schema = form.get("name"), form.get("schema")
    if not isinstance(name, str) or not name:
        raise WrongRequestError(
            "Missing required parameter: 'text.format.name'.", param="text.format.name"
        )
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise _build_schema_error(name, "schema must be a JSON Schema of 'type: \"object\"'.")
    if form.get("strict"):
        _check_schema(name, schema, (), 0)
    return form


def _check_schema(name: str, schema: Any, path: tuple[str, ...], depth: int) -> None:
    if not isinstance(schema, Mapping):
        return
    if depth > MAX_SCHEMA_DEPTH:
        raise _build_schema_error(name, "schema is nested too deeply.")
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        if schema.get("additionalProperties") is not False:
            raise _build_schema_error(
                name, f"In context={path!r}, 'additionalProperties' is required to be false."
            )
        missing = sorted(set(properties) - set(schema.get("required") or ()))
        if missing:
            raise _build_schema_error(
                name,
                f"In context={path!r}, 'required' must include every key in properties. "
                f"Missing '{missing[0]}'.",
            )
        for each, part in properties.items():
            _check_schema(name, part, (*path, "properties", str(each)), depth + 1)
    _check_schema(name, schema.get("items"), (*path, "items"), depth + 1)
    for option in schema.get("anyOf") or ():
        _check_schema(name, option, (*path, "anyOf"), depth + 1)
    for each, part in (schema.get("$defs") or {}).items():
        _check_schema(name, part, ("$defs", str(each)), depth + 1)


def _build_schema_error(name: str, why: str) -> WrongRequestError:
    return WrongRequestError(
        f"Invalid schema for response_format '{name[:64]}': {why}",
        param="text.format.schema",
        code="invalid_json_schema",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutput:
    """What the model wrote, and how many tokens that took."""

    text: str
    refusal: bool
    cut: bool  # it ran into max_output_tokens
    reasoning: int
    input: int
    output: int
    cached: int


def build_response_json(request: ModelRequest, written: ModelOutput, *, digest: str) -> Json:
    ended = "incomplete" if written.cut else "completed"
    output: list[Json] = []
    if written.reasoning:
        output.append({"id": f"rs_{digest[:32]}", "type": "reasoning", "summary": []})
    if written.text:
        output.append(
            {
                "id": f"msg_{digest[:32]}",
                "type": "message",
                "status": ended,
                "role": "assistant",
                "content": [_build_content(written)],
            }
        )
    return {
        "id": f"resp_{digest[:32]}",
        "object": "response",
        "created_at": 1_794_787_200,
        "status": ended,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if written.cut else None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": None,
        "model": request.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": request.effort, "summary": None},
        "service_tier": "default",
        "store": True,
        "temperature": request.temperature if request.temperature is not None else 1.0,
        "text": {"format": dict(request.format), "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": written.input,
            "input_tokens_details": {"cached_tokens": written.cached, "cache_write_tokens": 0},
            "output_tokens": written.output,
            "output_tokens_details": {"reasoning_tokens": written.reasoning},
            "total_tokens": written.input + written.output,
        },
        "user": None,
        "metadata": {},
    }


def _build_content(written: ModelOutput) -> Json:
    if written.refusal:
        return {"type": "refusal", "refusal": written.text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": written.text}


NAME = "openai"
MODELS = ("gpt-5.6-luna", "gpt-6-luna")
_REASONING = {"none": 0, "minimal": 0, "low": 64, "medium": 256, "high": 1024}
_MIN_CACHED_TOKENS = 1024  # tokens; shorter prompts are not remembered

_REFUSAL_TEXTS: Mapping[int, tuple[str, str, str]] = {
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


def build_openai_handler(world: World, dials: FaultSettingsTable, meter: Meter) -> Handler:
    vendor = _OpenAi(world, dials, meter)
    return wrap_with_faults(
        NAME,
        vendor.answer,
        seed=world.seed,
        dials=dials,
        meter=meter,
        refused=vendor.build_refusal,
    )


class _OpenAi:
    def __init__(self, world: World, dials: FaultSettingsTable, meter: Meter) -> None:
        self._world, self._dials, self._tallies = world, dials, meter
        self._credits = Credits(NAME, dials=dials, meter=meter, unit="tokens")
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def build_refusal(self, status: int) -> Response:
        kind, code, message = _REFUSAL_TEXTS.get(
            status, ("invalid_request_error", "", "Bad request.")
        )
        return self._build_error(status, kind, code, message)

    def answer(self, http_request: Request) -> Response:
        key = parse_bearer(http_request.headers.get("authorization", ""))
        if not is_valid_key(key, prefix="sk-"):
            return self.build_refusal(401)
        if http_request.method == "GET" and http_request.path.startswith("/v1/models"):
            return self._answer_models(http_request.path.removeprefix("/v1/models").strip("/"))
        if (http_request.method, http_request.path) != ("POST", "/v1/responses"):
            message = f"Invalid URL ({http_request.method} {http_request.path})"
            return self._build_error(404, "invalid_request_error", "", message)
        try:
            request = read_request(http_request)
        except WrongRequestError as wrong:
            return self._build_error(
                400, "invalid_request_error", wrong.code, str(wrong), wrong.param
            )
        if not request.model.startswith("gpt-"):
            return self._build_no_model(request.model)
        if not self._credits.can_pay(key, 1):
            return self._build_error(429, *_NO_QUOTA)
        return to_json_response(
            self._build_response(http_request, request, key), headers=self._build_headers(key)
        )

    def _build_response(self, http_request: Request, request: ModelRequest, key: str) -> Json:
        reasoning = _REASONING.get(request.effort, 256)
        room = request.max_output_tokens
        refusal = self._world.build_draws("refusal", http_request.body.hex()).draw_bool(
            self._dials.get_settings(NAME).refuses
        )
        text = "I'm sorry, but I can't help with that." if refusal else self._write_text(request)
        whole = count_tokens(text)
        cut = room is not None and reasoning + whole > room
        if cut and room is not None:
            reasoning = min(reasoning, room)
            text = text.encode()[: 4 * (room - reasoning)].decode("utf-8", "ignore")
        written = ModelOutput(
            text=text,
            refusal=refusal,
            cut=cut,
            reasoning=self._credits.compute_price(reasoning),
            input=self._credits.compute_price(count_tokens(request.prompt) + 20),
            output=self._credits.compute_price(reasoning + count_tokens(text)),
            cached=self._count_cached(request.prompt),
        )
        for unit, amount in (
            ("tokens", written.input + written.output),
            ("input_tokens", written.input),
            ("output_tokens", written.output),
            ("cached_tokens", written.cached),
        ):
            self._tallies.charge(NAME, amount, unit=unit, key=key)
        return build_response_json(request, written, digest=sha256(http_request.body).hexdigest())

    def _write_text(self, request: ModelRequest) -> str:
        facts = {**extract_facts(request.data), **reword_rationale(request.data)}
        obeys = self._dials.get_settings(NAME).obeys
        if obeys == 2:
            draws = self._world.build_draws("anything", request.prompt)
            return json.dumps(file_anything(request.schema or {}, request.data, draws))
        believed = apply_orders(facts, request.data, request.prompt) if obeys else facts
        answer = fill_schema(request.schema or {}, believed)
        if obeys:
            answer = add_unasked(answer, request.data, request.prompt)
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))

    def _count_cached(self, prompt: str) -> int:
        digest = sha256(prompt.encode("utf-8", "replace")).digest()
        known = digest in self._seen
        self._seen[digest] = None
        if len(self._seen) > 20_000:
            self._seen.popitem(last=False)
        many = count_tokens(prompt)
        return many // 128 * 128 if known and many >= _MIN_CACHED_TOKENS else 0

    def _answer_models(self, name: str) -> Response:
        described: list[Json] = [
            {"id": each, "object": "model", "created": 1_790_000_000, "owned_by": "system"}
            for each in MODELS
        ]
        if not name:
            return to_json_response({"object": "list", "data": described})
        if name not in MODELS:
            return self._build_no_model(name)
        return to_json_response(described[MODELS.index(name)])

    def _build_no_model(self, name: str) -> Response:
        message = f"The model `{name[:100]}` does not exist or you do not have access to it."
        return self._build_error(404, "invalid_request_error", "model_not_found", message)

    def _build_error(
        self, status: int, kind: str, code: str, message: str, param: str | None = None
    ) -> Response:
        error: Json = {"message": message, "type": kind, "param": param, "code": code or None}
        return to_json_response({"error": error}, status=status, headers=self._build_headers(""))

    def _build_headers(self, key: str) -> dict[str, str]:
        dial = self._dials.get_settings(NAME)
        calls = dial.calls if dial.calls > 0 else 5_000
        left = max(0, 2_000_000 - self._credits.get_used(key) % 2_000_000)
        return {
            "x-ratelimit-limit-requests": str(calls),
            "x-ratelimit-remaining-requests": str(calls - 1),
            "x-ratelimit-reset-requests": "12ms",
            "x-ratelimit-limit-tokens": "2000000",
            "x-ratelimit-remaining-tokens": str(left),
            "x-ratelimit-reset-tokens": "6ms",
        }


def count_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // 4)


HOSTS = {"openai.test": build_openai_handler}
