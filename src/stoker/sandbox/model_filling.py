"""Facts poured into a JSON schema: exactly the properties it names, of the types it asks for.

Which fact a property means is told by the property's name. A schema nobody can fill gets empty
values, never another shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.sandbox.model_reading import Fact, Facts

DEEPEST = 20
_SYNONYMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("legal_name", ("legal", "registeredname", "registered_name")),
    ("email", ("email", "mail")),
    ("phone", ("phone", "telephone", "mobile", "tel")),
    ("uen", ("uen", "registration", "registry")),
    ("postal_code", ("postal", "zip")),
    ("founded", ("founded", "year", "incorporated", "established")),
    ("employees", ("employee", "headcount", "staff", "size")),
    ("social", ("social", "linkedin", "facebook")),
    ("website", ("website", "homepage", "url", "link")),
    ("industry", ("industry", "sector", "trade")),
    ("address", ("address", "street")),
    ("technology", ("technolog", "stack", "tool")),
    ("country", ("country",)),
    ("person", ("person", "people", "contact", "team", "leader", "staffmember")),
    ("about", ("about", "description", "summary", "tagline", "overview")),
    ("rationale", ("rationale",)),
    ("name", ("name", "company", "brand", "title")),
)
_EVIDENCE = re.compile(r"(?i)evidence|quote|span|snippet|excerpt|source_text|because|words")
_VALUE = re.compile(r"(?i)^(value|text|content|answer|found)$")
_ROLE = re.compile(r"(?i)role|position|job|title|function")
_SURE = re.compile(r"(?i)confidence|probability|certainty|score|sure")


def filled(schema: Mapping[str, Any], facts: Facts) -> Any:
    """Return a value of this schema, from these facts."""
    definitions = schema.get("$defs") or schema.get("definitions") or {}
    return _Filling(facts, definitions).value(schema, "", None, 0)


def kind_of(name: str) -> str:
    """Return which kind of fact a property of this name means, or an empty text."""
    plain = name.lower().replace("-", "_")
    return next(
        (kind for kind, words in _SYNONYMS if plain == kind or any(w in plain for w in words)), ""
    )


class _Filling:
    def __init__(self, facts: Facts, definitions: Mapping[str, Any]) -> None:
        self._facts, self._definitions = facts, definitions

    def value(self, schema: Any, name: str, about: Fact | None, depth: int) -> Any:
        """Return a value; `about` is the fact that the object around it is about."""
        if not isinstance(schema, Mapping) or depth > DEEPEST:
            return None
        if "$ref" in schema:
            target = self._definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
            return self.value(target, name, about, depth + 1)
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(options, Sequence):
            return self._chosen(options, name, about, depth)
        if "const" in schema:
            return schema["const"]
        kinds = schema.get("type")
        if isinstance(kinds, Sequence) and not isinstance(kinds, str):
            return self._chosen([{**schema, "type": kind} for kind in kinds], name, about, depth)
        match kinds:
            case "object":
                return self._object(schema, name, about, depth)
            case "array":
                return self._array(schema, name, about, depth)
            case "string":
                return self._string(schema, name, about)
            case "integer" | "number":
                return self._number(name, about, whole=kinds == "integer")
            case "boolean":
                return bool(self._facts.get(kind_of(name)))
        return None

    def _chosen(self, options: Sequence[Any], name: str, about: Fact | None, depth: int) -> Any:
        nullable = {"type": "null"} in options
        for option in options:
            if option == {"type": "null"} or not isinstance(option, Mapping):
                continue
            if nullable and about is None and not self._facts.get(kind_of(name)):
                return None
            made = self.value(option, name, about, depth + 1)
            return None if nullable and made in ("", [], None) else made
        return None

    def _object(self, schema: Any, name: str, about: Fact | None, depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        if about is None and any(_VALUE.search(each) for each in properties):
            about = next(iter(self._facts.get(kind_of(name), ())), None)
        return {each: self.value(part, each, about, depth + 1) for each, part in properties.items()}

    def _array(self, schema: Any, name: str, about: Fact | None, depth: int) -> list[Any]:
        items = self._resolved(schema.get("items", {}))
        most = schema.get("maxItems", 50)
        properties = items.get("properties") if items.get("type") == "object" else None
        if properties is None:
            if about is not None and _EVIDENCE.search(name):
                return [self.value(items, name, about, depth + 1)]
            found = self._facts.get(kind_of(name), ())
            return [self.value(items, name, fact, depth + 1) for fact in found][:most]
        choices = next(
            (
                (each, part["enum"])
                for each, part in ((n, self._resolved(p)) for n, p in properties.items())
                if isinstance(part.get("enum"), list)
            ),
            None,
        )
        if choices is None:
            found = self._facts.get(kind_of(name) or "person", ())
            return [self._object(items, name, fact, depth + 1) for fact in found][:most]
        label, kinds = choices
        return [
            {**self._object(items, str(kind), fact, depth + 1), label: kind}
            for kind in kinds
            for fact in self._facts.get(kind_of(str(kind)), ())[:5]
        ][:most]

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        if isinstance(schema, Mapping) and "$ref" in schema:
            schema = self._definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
        return schema if isinstance(schema, Mapping) else {}

    def _string(self, schema: Any, name: str, about: Fact | None) -> str:
        choices = schema.get("enum")
        if isinstance(choices, list) and choices:
            return str(choices[-1])
        longest = schema.get("maxLength", 2000)
        return self._words(name, about)[: longest if isinstance(longest, int) else 2000]

    def _words(self, name: str, about: Fact | None) -> str:
        if about is not None:
            if _EVIDENCE.search(name):
                return about.evidence
            if about.role and _ROLE.search(name):
                return about.role
            if _VALUE.search(name) or kind_of(name) in ("name", "person"):
                return (
                    f"{about.value} | {about.role}"
                    if about.role and _VALUE.search(name)
                    else about.value
                )
            if about.value in {fact.value for fact in self._facts.get(kind_of(name), ())}:
                return about.value
            return ""
        found = self._facts.get(kind_of(name), ())
        return found[0].value if found else ""

    def _number(self, name: str, about: Fact | None, *, whole: bool) -> int | float:
        if _SURE.search(name):
            return 1 if whole else 0.8
        digits = re.sub(r"[,\s]", "", self._words(name, about))
        match = re.match(r"\d{1,9}", digits)
        return int(match[0]) if match else 0
