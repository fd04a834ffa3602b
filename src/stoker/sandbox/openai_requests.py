"""What a request to the Responses API says, read strictly: what the vendor refuses is refused.

A strict schema names every property as required and allows no others. What the model makes of a
request is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.sandbox.serving import Asked

DEEPEST = 40


class WrongRequestError(Exception):
    """A request that gets status 400."""

    def __init__(self, message: str, *, param: str | None = None, code: str = "") -> None:
        super().__init__(message)
        self.param, self.code = param, code


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, read."""

    model: str
    prompt: str  # everything the model reads, instructions included
    data: str  # what users sent
    instructions: str | None
    schema: Mapping[str, Any] | None
    format: Mapping[str, Any]
    max_output_tokens: int | None
    effort: str
    temperature: float | None


def read_request(asked: Asked) -> Request:
    """Return what a request says, or say what is wrong with it."""
    try:
        body = asked.json()
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
    turns = list(_turns(body.get("input")))
    if not turns:
        raise WrongRequestError("Missing required parameter: 'input'.", param="input")
    instructions = body.get("instructions")
    form = _format(body)
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    temperature = body.get("temperature")
    said = [instructions] if isinstance(instructions, str) else []
    return Request(
        model=model,
        prompt="\n".join([*said, *(text for _, text in turns)]),
        data="\n".join(text for role, text in turns if role == "user"),
        instructions=instructions if isinstance(instructions, str) else None,
        schema=form.get("schema"),
        format=form,
        max_output_tokens=most,
        effort=effort if isinstance(effort, str) else "medium",
        temperature=temperature if isinstance(temperature, int | float) else None,
    )


def _turns(given: Any) -> Iterator[tuple[str, str]]:
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


def _format(body: Mapping[str, Any]) -> Mapping[str, Any]:
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
        raise _bad_schema(name, "schema must be a JSON Schema of 'type: \"object\"'.")
    if form.get("strict"):
        _check(name, schema, (), 0)
    return form


def _check(name: str, schema: Any, path: tuple[str, ...], depth: int) -> None:
    if not isinstance(schema, Mapping):
        return
    if depth > DEEPEST:
        raise _bad_schema(name, "schema is nested too deeply.")
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        if schema.get("additionalProperties") is not False:
            raise _bad_schema(
                name, f"In context={path!r}, 'additionalProperties' is required to be false."
            )
        missing = sorted(set(properties) - set(schema.get("required") or ()))
        if missing:
            raise _bad_schema(
                name,
                f"In context={path!r}, 'required' must include every key in properties. "
                f"Missing '{missing[0]}'.",
            )
        for each, part in properties.items():
            _check(name, part, (*path, "properties", str(each)), depth + 1)
    _check(name, schema.get("items"), (*path, "items"), depth + 1)
    for option in schema.get("anyOf") or ():
        _check(name, option, (*path, "anyOf"), depth + 1)
    for each, part in (schema.get("$defs") or {}).items():
        _check(name, part, ("$defs", str(each)), depth + 1)


def _bad_schema(name: str, why: str) -> WrongRequestError:
    return WrongRequestError(
        f"Invalid schema for response_format '{name[:64]}': {why}",
        param="text.format.schema",
        code="invalid_json_schema",
    )
